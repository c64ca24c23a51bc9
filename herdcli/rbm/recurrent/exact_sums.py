"""Sums over all states of many harmoniums with common weights and different biases: log Z and moments of each time step.

The smaller layer is enumerated.  The contribution of its first units' states to the other layer's natural parameters is computed once
for all steps; a state of the remaining units shifts the biases of the other layer.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import BadUsage
from herdcli.rbm.likelihood.enumeration import log2_state_count, max_log2_states
from herdcli.rbm.likelihood.unit_states import count_enumerable_units, count_states, decode_state_indices
from herdcli.rbm.recurrent.model import RecurrentModel, StepHarmoniums
from herdcli.rbm.units.base import UnitFamily
from herdcli.records import dataclass
from herdcli.schema import Array

NEAR = 12  # log2 of the most states of the first units
LEARNED = 16  # log2 of the most states for which moments are computed
NUMBERS = 1 << 17  # numbers in one block's work array
LARGEST_SUM = 600.0  # largest sum of logarithms whose exponentials are multiplied in float64


@dataclass(frozen=True)
class StepExpectations:
    """For each step: log Z (n,), E[v] (n, D), E[h] (n, K); and E[v h'] (D, K) summed over the steps."""

    log_z: Array
    visible: Array
    hidden: Array
    pairs: Array


@dataclass(frozen=True)
class _EnumeratedLayer:
    """The enumerated layer, and the other one, of width d.

    states  (S, k) of the first units of the enumerated layer, with log base measures (S,).  push  (S, d) their contributions to the natural
            parameters of the other layer.  rest  (d, K − k) the weights of the remaining units.
    """

    states: Array
    base: Array
    push: Array
    rest: Array
    units: UnitFamily
    other: UnitFamily
    turned: bool  # whether the visible layer is the enumerated one

    @classmethod
    def from_model(cls, model: RecurrentModel, max_log2_states: int) -> _EnumeratedLayer:
        """Make the sides with at most 2^most states of first units."""
        turned = layer_log2_states(model.visible, model.p.W.shape[0]) < layer_log2_states(model.hidden, model.p.W.shape[1])
        W = model.p.W.T if turned else model.p.W
        units, other = (model.visible, model.hidden) if turned else (model.hidden, model.visible)
        count = max(1, count_enumerable_units(units, units.count_units(W.shape[1]), int(2**max_log2_states)))
        states = decode_state_indices(units, count, np.arange(count_states(units, count)))
        first = W[:, : states.shape[1]]
        return cls(
            states, np.zeros(len(states)) + units.log_base_measure(states), states @ first.T, W[:, first.shape[1] :], units, other, turned
        )

    def log_z(self, own_biases: Array, other_biases: Array) -> Array:
        """Compute log Z (m,) of m steps with biases (m, K) of the enumerated layer and (m, d) of the other one."""
        near, first = own_biases[:, : self.states.shape[1]], self.units.count_units(self.states.shape[1])
        count = self.units.count_units(own_biases.shape[1]) - first
        total = np.full(len(own_biases), -np.inf)
        for number in range(count_states(self.units, count, first=first)):
            beyond = decode_state_indices(self.units, count, np.array([number]), first=first)[0]
            weight = self.log_weight(near, other_biases + self.rest @ beyond)
            fixed = own_biases[:, near.shape[1] :] @ beyond + self.units.log_base_measure(beyond)
            # Running log Σ over the states of the remaining units, each with its own shift of the other layer's biases.
            total = np.logaddexp(total, _log_sum_exp(weight) + fixed)
        return total

    def biases(self, harmoniums: StepHarmoniums) -> tuple[Array, Array]:
        """Return the biases of the enumerated layer and of the other one."""
        return (harmoniums.b, harmoniums.c) if self.turned else (harmoniums.c, harmoniums.b)

    def log_weight(self, own_biases: Array, other_biases: Array) -> Array:
        """Compute the log of the sum over the other layer's states, (m, S), for m steps."""
        # Given the states of one layer the units of the other are independent: Σ e^{−E} = e^{c·h} base(h) Π_j e^{A_j(b_j + (Wh)_j)}.
        return np.asarray(own_biases @ self.states.T + self.base + self._log_partitions(other_biases))

    def _log_partitions(self, other_biases: Array) -> Array:
        """Compute Σ_j A_j(b_j + (Wh)_j) of m steps (m, d) and all states, (m, S)."""
        if self.other.standard_normal:
            # ½|b + w|² = ½|b|² + b·w + ½|w|² avoids an array of steps × states × units
            return np.asarray(
                0.5 * np.square(other_biases).sum(axis=1)[:, None] + other_biases @ self.push.T + 0.5 * np.square(self.push).sum(axis=1)
            )
        if self.other.states is not None:
            found = self._log_partitions_by_products(other_biases)
            if found is not None:
                return found
        return np.asarray(self.other.summed_log_partition(other_biases[:, None] + self.push))

    def _log_partitions_by_products(self, other_biases: Array) -> Array | None:
        """Compute the same by products of 1 + e^{g b_j} e^{g w_j}, converted to logarithms before they overflow float64.

        Returns None if that is impossible.
        """
        assert self.other.states is not None
        low, high = self.other.states
        gap, n = high - low, self.other.scale
        most = gap * (np.abs(other_biases).max(axis=0) + np.abs(self.push).max(axis=0))
        if most.max(initial=0.0) > LARGEST_SUM / 2:
            return None
        above, along = np.exp(gap * other_biases), np.exp(gap * self.push.T)
        total = np.zeros((len(other_biases), len(self.push)))
        product, term, held = np.ones_like(total), np.empty_like(total), 0.0
        for j, reach in enumerate(np.logaddexp(0.0, most)):
            # Each factor is at most e^reach: the product is converted to its logarithm before it could overflow.
            if held + reach > LARGEST_SUM:
                total += np.log(product)
                product[...], held = 1.0, 0.0
            np.multiply(above[:, j, None], along[j], out=term)
            term += 1.0
            product *= term
            held += float(reach)
        total += np.log(product)
        linear = low * (other_biases.sum(axis=1)[:, None] + self.push.sum(axis=1)) if low else 0.0
        return np.asarray(n * total + linear)


def _log_sum_exp(weight: Array) -> Array:
    """Compute log Σ e^weight (m,) over the columns of (m, S), which are overwritten."""
    top = weight.max(axis=1)
    weight -= top[:, None]
    return np.asarray(top + np.log(np.exp(weight, out=weight).sum(axis=1)))


def layer_log2_states(units: UnitFamily, columns: int) -> float:
    """Return log2 of the number of states of a layer with this number of columns; infinity if it is not finite."""
    return log2_state_count(units, columns)


def smaller_layer_log2_states(model: RecurrentModel) -> float:
    """Return log2 of the number of states of the smaller layer."""
    return min(layer_log2_states(model.visible, model.p.W.shape[0]), layer_log2_states(model.hidden, model.p.W.shape[1]))


def is_enumerable(model: RecurrentModel) -> bool:
    """Whether log Z of a step can be computed exactly."""
    D, K = model.p.W.shape
    return layer_log2_states(model.hidden, K) <= max_log2_states(model.visible) or layer_log2_states(model.visible, D) <= max_log2_states(
        model.hidden
    )


def enumeration_cost(model: RecurrentModel, steps: int) -> float:
    """Return the number of operations to compute log Z of `steps` steps."""
    return float(steps * 2.0 ** smaller_layer_log2_states(model) * max(model.p.W.shape))


def _step_blocks(steps: int, width: float) -> Iterator[slice]:
    size = max(1, int(NUMBERS // max(1.0, width)))
    return (slice(start, min(start + size, steps)) for start in range(0, steps, size))


def log_z_per_step(model: RecurrentModel, harmoniums: StepHarmoniums, *, map: Map = map) -> Array:
    """Compute log Z (n,) of each step in nats.  Raises BadUsage if both layers have too many states to be enumerated."""
    if not is_enumerable(model):
        shape = f"this model has {model.p.W.shape[0]} visible and {model.p.W.shape[1]} hidden units"
        hint = "use herd eval --likelihood ais, which estimates it at some of the steps"
        raise BadUsage(f"the exact likelihood needs a layer with at most 2^{max_log2_states(model.visible)} states, but {shape}", hint=hint)
    side = _EnumeratedLayer.from_model(model, NEAR)
    own, far = side.biases(harmoniums)
    plain = side.other.standard_normal or side.other.states is not None
    width = side.push.shape[0] * (1 if plain else side.push.shape[1])
    parts = map(lambda block: side.log_z(own[block], far[block]), _step_blocks(len(own), width))
    return np.concatenate([np.empty(0), *parts])


def require_few_states(model: RecurrentModel) -> None:
    """Raise BadUsage unless the smaller layer has few enough states for the moments of a step."""
    if smaller_layer_log2_states(model) > LEARNED:
        raise BadUsage(
            f"--algorithm exact needs a layer with at most 2^{LEARNED} states, but this model has "
            f"{model.p.W.shape[0]} visible and {model.p.W.shape[1]} hidden units",
            hint=f"use --algorithm cd, or --hidden {LEARNED // 2}",
        )


def step_expectations(model: RecurrentModel, harmoniums: StepHarmoniums, *, map: Map = map) -> StepExpectations:
    """Compute the moments of each step.  Raises BadUsage if the smaller layer has more than 2^LEARNED states."""
    require_few_states(model)
    side = _EnumeratedLayer.from_model(model, LEARNED)
    own, far = side.biases(harmoniums)
    parts = list(map(lambda block: _enumerated_moments(side, own[block], far[block]), _step_blocks(len(own), side.push.size)))
    log_z, mine, theirs = (np.concatenate([part[i] for part in parts]) for i in range(3))
    pairs = np.sum([part[3] for part in parts], axis=0)
    return StepExpectations(log_z, mine, theirs, pairs.T) if side.turned else StepExpectations(log_z, theirs, mine, pairs)


def _enumerated_moments(side: _EnumeratedLayer, enumerated_biases: Array, other_biases: Array) -> tuple[Array, Array, Array, Array]:
    """Compute log Z (m,), the means (m, k) and (m, d) of the enumerated and the other layer, and the summed products (d, k)."""
    weight = side.log_weight(enumerated_biases, other_biases)
    log_z = np.logaddexp.reduce(weight, axis=1)
    p = np.exp(weight - log_z[:, None])
    means = side.other.mean(other_biases[:, None] + side.push)
    means *= p[:, :, None]
    return log_z, p @ side.states, means.sum(axis=1), means.sum(axis=0).T @ side.states
