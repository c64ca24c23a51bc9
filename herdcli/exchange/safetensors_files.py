"""safetensors: named arrays that PyTorch, JAX and Rust programs read without running code; herd reads them with the extra `safetensors`.

    rbm   W (C, D, K), b (C, D), c (C, K) for C models; W (D, K), b (D,), c (K,) for one model
    dbn   layers.0.W, layers.0.b, layers.0.c, layers.1.W, … from the lowest
    perceptron   layers.0.weight (H, D), layers.0.bias (H,), layers.1.weight, … as in torch.nn.Linear; column_mean and column_factor (D,)
    ica   unmixing (M, D) and mixing (D, M) for centred rows, mean (D,)

The metadata name the kind and its units.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from herdcli.errors import DataError
from herdcli.kinds import kind_for_value
from herdcli.schema import Array

if TYPE_CHECKING:
    from herdcli.ica.model import ICA
    from herdcli.rbm.layers import DBN
    from herdcli.rbm.model import RBM
    from herdcli.regression.perceptron.model import Perceptron

PARTS = ("W", "b", "c")
TYPES = {4: "F32", 8: "F64"}  # float types by their size in bytes


def write_rbm(path: str | os.PathLike[str], model: RBM) -> None:
    """Write weights and biases of one model, or of all models stacked.  Raises DataError for a model of rows with labels."""
    if model.labels is not None:
        raise DataError("is a joint model of rows and labels, which cannot be written as safetensors")
    write_arrays(
        path, _weight_arrays(model), {"kind": kind_for_value(model).name, **_unit_metadata(model), **_class_metadata(model.classes)}
    )


def write_perceptron(path: str | os.PathLike[str], model: Perceptron) -> None:
    """Write weights and biases of each layer; the input is (columns − `column_mean`) · `column_factor`."""
    arrays = {"column_mean": model.column_mean, "column_factor": model.column_factor}
    for number, layer in enumerate(model.layers):
        arrays |= {f"layers.{number}.weight": layer.W, f"layers.{number}.bias": layer.b}
    about = {"kind": kind_for_value(model).name, "activation": model.activation, "family": model.family}
    write_arrays(path, arrays, about | _class_metadata(model.classes))


def write_dbn(path: str | os.PathLike[str], model: DBN) -> None:
    """Write weights and biases of each layer."""
    arrays = {f"layers.{index}.{name}": item for index, layer in enumerate(model.layers) for name, item in _weight_arrays(layer).items()}
    units = [model.layers[0].visible_units, *(layer.hidden_units for layer in model.layers)]
    write_arrays(path, arrays, {"kind": kind_for_value(model).name, "units": ",".join(units)})


def write_ica(path: str | os.PathLike[str], model: ICA) -> None:
    """Write the unmixing and mixing matrices of centred rows."""
    write_arrays(path, {"unmixing": model.unmixing_matrix, "mixing": model.basis, "mean": model.whitening.mean}, {"kind": "ica"})


def _weight_arrays(model: RBM) -> dict[str, Array]:
    return {name: getattr(model, name)[0] if model.count == 1 else getattr(model, name) for name in PARTS}


def _unit_metadata(model: RBM) -> dict[str, str]:
    return {"visible_units": model.visible_units, "hidden_units": model.hidden_units}


def _class_metadata(names: list[str] | None) -> dict[str, str]:
    return {} if names is None else {"classes": ",".join(names)}


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Array], about: dict[str, str]) -> None:
    """Write the length of a JSON text padded to a multiple of eight bytes, the text, and the numbers in the given order.

    Equal models give equal bytes; the library's own writer does not guarantee this for metadata.
    """
    head: dict[str, object] = {"__metadata__": {"format": "np", "program": "herd", **about}}
    pieces: list[bytes] = []
    at = 0
    for name, item in arrays.items():
        raw = np.ascontiguousarray(item, dtype=item.dtype.newbyteorder("<")).tobytes()
        head[name] = {"dtype": TYPES[item.dtype.itemsize], "shape": list(item.shape), "data_offsets": [at, at + len(raw)]}
        pieces, at = [*pieces, raw], at + len(raw)
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.writelines([len(text).to_bytes(8, "little"), text, *pieces])
