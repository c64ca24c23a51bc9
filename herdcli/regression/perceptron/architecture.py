"""The architecture of a perceptron, and its parameters as one vector."""

from __future__ import annotations

import itertools

import numpy as np

from herdcli import rng
from herdcli.records import dataclass
from herdcli.regression.perceptron.activations import BY_NAME, Activation
from herdcli.rng import Stream
from herdcli.schema import Array


@dataclass(frozen=True)
class Architecture:
    """The layer widths and the activation of a perceptron.

    widths  columns, hidden units of each layer, predictors.  activation  a name of `choices.ACTIVATIONS`.
    """

    widths: tuple[int, ...]
    activation: str

    @property
    def activation_function(self) -> Activation:
        """The activation ψ of hidden units."""
        return BY_NAME[self.activation]

    @property
    def layer_shapes(self) -> list[tuple[int, int]]:
        """The pair (outputs, inputs) of each layer."""
        return [(high, low) for low, high in itertools.pairwise(self.widths)]

    @property
    def parameters(self) -> int:
        """The total number of weights and biases."""
        return sum(high * (low + 1) for high, low in self.layer_shapes)

    def layers(self, theta: Array) -> list[tuple[Array, Array]]:
        """Return weights (n_l, n_{l−1}) and biases (n_l,) of each layer as views of θ (q,)."""
        found, start = [], 0
        for high, low in self.layer_shapes:
            middle = start + high * low
            found.append((theta[start:middle].reshape(high, low), theta[middle : middle + high]))
            start = middle + high
        return found

    @property
    def penalty_mask(self) -> Array:
        """A mask (q,) with 1 for weights and 0 for biases."""
        found = np.zeros(self.parameters)
        for W, _ in self.layers(found):
            W[:] = 1.0
        return found

    def initial_parameters(self, seed: int, restart: int, intercept: Array) -> Array:
        """Return initial θ (q,): uniform weights that preserve scale across layers, biases 0, the last biases `intercept` (K,).

        Source: Glorot & Bengio (2010); He et al. (2015) for rectified units.
        """
        theta = np.zeros(self.parameters)
        layers = self.layers(theta)
        for number, (W, b) in enumerate(layers):
            last = number == len(layers) - 1
            high, low = W.shape
            limit = np.sqrt(6.0 / low) if self.activation_function.rectified and not last else np.sqrt(6.0 / (low + high))
            W[:] = rng.generator(seed, Stream.INITIAL, unit=restart, step=number).uniform(-limit, limit, W.shape)
            if last:
                b[:] = intercept
        return theta
