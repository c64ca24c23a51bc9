"""The deep belief network as an artifact, and access to the layers of a model; the learning is in layerwise_learning.py."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from herdcli.errors import DataError
from herdcli.rbm.model import RBM, Harmonium
from herdcli.records import dataclass


@dataclass(frozen=True)
class DBN:
    """The `dbn` artifact: one rbm per layer, the lowest first; the lowest stores the rows for `eval`."""

    layers: list[RBM]

    def validate(self) -> None:
        """Raise DataError unless each layer's visible units match the hidden units of the layer below."""
        if not self.layers:
            raise DataError("the model has no layers: /layers is empty")
        for index, (below, above) in enumerate(pairwise(self.layers)):
            if below.count != 1 or above.count != 1:
                raise DataError("/layers has a layer with several models, but a deep belief network has one in each layer")
            ours, theirs = (above.W.shape[1], above.visible_units), (below.W.shape[2], below.hidden_units)
            if ours != theirs:
                raise DataError(
                    f"/layers/{index + 1} has {ours[0]} {ours[1]} visible units, but the layer below has {theirs[0]} {theirs[1]} "
                    "hidden units"
                )

    def harmoniums(self) -> list[Harmonium]:
        """All layers as harmoniums in float64."""
        return [part.harmonium() for part in self.layers]


def model_layers(value: RBM | DBN) -> list[RBM]:
    """Return the layers of a deep belief network, the lowest first; the only layer of an RBM is itself."""
    return value.layers if isinstance(value, DBN) else [value]


def replace_lowest_layer(value: RBM | DBN, lowest: RBM) -> RBM | DBN:
    """Return the model with another lowest layer."""
    return replace(value, layers=[lowest, *value.layers[1:]]) if isinstance(value, DBN) else lowest
