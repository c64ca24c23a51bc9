"""Exact log Z of a harmonium: by a sum over all states of its smaller layer, or in closed form if both layers are Gaussian."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import BadUsage
from herdcli.numerics import exact_arithmetic, symmetric_matrices
from herdcli.rbm.likelihood.gaussian_enumeration import GaussianVisibleSums
from herdcli.rbm.likelihood.row_likelihood import BLOCK
from herdcli.rbm.likelihood.unit_states import count_enumerable_units, count_states, decode_state_indices
from herdcli.rbm.model import Harmonium
from herdcli.rbm.normalizability import require_normalisable
from herdcli.rbm.units.base import UnitFamily
from herdcli.records import dataclass
from herdcli.schema import Array

ENUMERABLE = 20  # a layer of at most 2^20 states is summed state by state
BY_PRODUCTS = 25  # log2 of the limit if the other layer's units are binary, spin or rate units
BY_QUADRATICS = 37  # log2 of the limit for log Z alone if the other layer is gaussian (`gaussian_enumeration`)
NEAR = 4096  # states of a block whose work arrays stay in the first-level cache
LARGEST_SUM = 600.0  # largest sum of logarithms whose exponentials are multiplied in float64


def log2_state_count(units: UnitFamily, columns: int) -> float:
    """Return log2 of the number of states of a layer with this number of columns; infinity if it is not finite."""
    if units.support is not None:
        return columns // units.group * math.log2(len(units.support))
    return math.log2(count_states(units, units.count_units(columns))) if units.has_finite_values else float("inf")


def is_enumerable(h: Harmonium) -> bool:
    """Whether log Z can be computed exactly: a layer has few enough states (`orient_for_enumeration`), or both layers are Gaussian."""
    return has_gaussian_layers(h) or orient_for_enumeration(h, log_z_alone=True) is not None


def max_log2_states(summed_units: UnitFamily, *, log_z_alone: bool = False) -> int:
    """Return log2 of the largest number of states for which a layer is enumerated if the layer summed in closed form is `summed_units`."""
    if log_z_alone and summed_units.standard_normal:
        return BY_QUADRATICS
    return BY_PRODUCTS if summed_units.states is not None else ENUMERABLE


def orient_for_enumeration(h: Harmonium, *, log_z_alone: bool = False) -> Harmonium | None:
    """Return the model, transposed if necessary so that its hidden layer is enumerated; None if both layers have too many states.

    log_z_alone  whether only log Z is computed from the states.
    """
    sides = [
        (log2_state_count(side.hidden, side.W.shape[1]), turned, side)
        for turned, side in enumerate((h, h.transpose()))
        if log2_state_count(side.hidden, side.W.shape[1]) <= max_log2_states(side.visible, log_z_alone=log_z_alone)
    ]
    return min(sides, key=lambda side: side[:2])[2] if sides else None


def has_gaussian_layers(h: Harmonium) -> bool:
    """Whether both layers are Gaussian, so that the model is one Gaussian."""
    return h.visible.standard_normal and h.hidden.standard_normal


def exact_log_partition(h: Harmonium, *, map: Map = map) -> float:
    """Compute log Z = log Σ_h e^{c·h + log h(h) + Σ_j A_j(b_j + (W h)_j)} over all states of the smaller layer, in nats.

    Raises BadUsage if both layers have more states than `orient_for_enumeration` allows (25 two-state units, 37 if the other layer is
    gaussian), DataError if the model has no finite Z.
    """
    require_normalisable(h)
    if has_gaussian_layers(h):
        return _gaussian_log_partition(h)
    side = orient_for_enumeration(h, log_z_alone=True)
    if side is None:
        raise BadUsage(
            f"the exact likelihood needs a layer with at most {BY_PRODUCTS} units, but this model has {h.W.shape[0]} visible and "
            f"{h.W.shape[1]} hidden ones"
            if h.visible.two_state and h.hidden.two_state
            else f"the exact likelihood needs a layer with at most 2^{max_log2_states(h.visible, log_z_alone=True)} states, but "
            "both layers "
            f"have more",
            hint="use annealed importance sampling",
        )
    fast = GaussianVisibleSums.from_harmonium(side) if side.visible.standard_normal else HiddenStateSums.from_model(side)
    if fast is not None:
        sums = map(fast.log_sum, range(fast.blocks))
    else:
        sums = map(lambda block: float(_log_sum_exp(block.log_weight)), iterate_hidden_states(side))
    return float(exact_arithmetic.log_sum_exp(np.fromiter(sums, dtype=np.float64)))


@dataclass(frozen=True)
class HiddenStateBlock:
    """The hidden states in one block of an enumeration, with arrays that are computed on demand."""

    h: Harmonium
    near: int  # number of units whose states are the block's rows
    block: int  # number of the state of all other units
    _rows: Array
    _natural: Array
    _weight: Array

    @property
    def far_state(self) -> Array:
        """The state of the other units, (K − near columns,)."""
        count = self.h.hidden.count_units(self.h.W.shape[1]) - self.near
        state: Array = decode_state_indices(self.h.hidden, count, np.array([self.block]), first=self.near)[0]
        return state

    @property
    def hidden(self) -> Array:
        """The hidden states (S, K)."""
        states: Array = np.hstack([self._rows, np.tile(self.far_state, (len(self._rows), 1))])
        return states

    @property
    def natural(self) -> Array:
        """The natural parameters (S, D) of the visible units."""
        result: Array = self._natural + exact_arithmetic.matrix_product(self.h.W[:, self._rows.shape[1] :], self.far_state)
        return result

    @property
    def log_weight(self) -> Array:
        """The log of the sum over visible states of e^{−E}, (S,)."""
        far = self.far_state
        # Given h the visible units are independent: Σ_v e^{−E(v, h)} is e^{c·h} times the base measure of h times Π_j e^{A_j(b_j +
        # (Wh)_j)}.
        fixed = exact_arithmetic.matrix_product(far, self.h.c[self._rows.shape[1] :]) + self.h.hidden.log_base_measure(far)
        result: Array = self._weight + fixed + self.h.visible.summed_log_partition(self.natural)
        return result


def iterate_hidden_states(h: Harmonium) -> Iterator[HiddenStateBlock]:
    """Yield all states of the hidden layer, in blocks whose work arrays hold at most BLOCK numbers."""
    blocks, states = hidden_state_blocks(h)
    return map(states, range(blocks))


def hidden_state_blocks(h: Harmonium) -> tuple[int, Callable[[int], HiddenStateBlock]]:
    """Return the number of blocks of hidden states, and a function that makes the block of a number."""
    units = h.hidden.count_units(h.W.shape[1])
    # The states of the first `near` units are the rows of a block; each block fixes all other units.
    near = count_enumerable_units(h.hidden, units, BLOCK // h.W.shape[0])
    rows = decode_state_indices(h.hidden, near, np.arange(count_states(h.hidden, near)))
    columns = rows.shape[1]
    natural = exact_arithmetic.matrix_product(rows, h.W.T[:columns]) + h.b
    weight = exact_arithmetic.matrix_product(rows, h.c[:columns]) + h.hidden.log_base_measure(rows)
    return count_states(h.hidden, units - near, first=near), lambda block: HiddenStateBlock(h, near, block, rows, natural, weight)


def hidden_log_weight_blocks(h: Harmonium) -> tuple[int, int, Callable[[int], Array]]:
    """Compute log Σ_v e^{−E(v, h)} of all hidden states h, block by block.

    Returns the number of units whose states make up a block, the number of blocks, and a function from a block's number to (S,).

    State i of block k is state number k S + i in `decode_state_indices`.
    """
    products = HiddenStateSums.from_model(h)
    if products is not None:
        return products.near, products.blocks, products.log_weights
    blocks, states = hidden_state_blocks(h)
    return states(0).near, blocks, lambda block: states(block).log_weight


def _largest_absolute_value(units: UnitFamily) -> float:
    """Return the largest absolute value of a unit; units with a bounded range have one."""
    assert units.range is not None
    return max(map(abs, units.range))


@dataclass(frozen=True)
class HiddenStateSums:
    """Sums over hidden states of a model with two-state visible units, by products of exponentials.

    A visible unit of values l and l + g with natural parameter a contributes e^{la} (1 + e^{ga}).  A hidden state is a near part,
    one of S rows, and a far part, fixed in a block; a = near + far, so that e^{ga} = E[j, s] · u_j with E computed once for all blocks.
    Each state and unit then needs one multiplication, one addition and one product instead of an exponential and a logarithm.
    Products are converted to logarithms before they could overflow float64.  A count of n replicas contributes n times its unit's term.
    """

    h: Harmonium
    near: int  # units of the near part
    low: float
    gap: float
    replicas: int
    _exponentials: Array  # (D, S)
    _highest: Array  # (D,) largest of g times the near parts
    _weight: Array  # (S,) log weights of the near parts, with their linear terms

    @classmethod
    def from_model(cls, h: Harmonium) -> HiddenStateSums | None:
        """Make the sums; None if a model's units or the size of its weights require the logarithms one by one."""
        if h.visible.states is None:
            return None
        low, high = h.visible.states
        near = count_enumerable_units(h.hidden, h.hidden.count_units(h.W.shape[1]), NEAR)
        rows = decode_state_indices(h.hidden, near, np.arange(count_states(h.hidden, near)))
        columns = rows.shape[1]
        natural = (high - low) * exact_arithmetic.matrix_product(h.W[:, :columns], rows.T)
        reach = (high - low) * np.abs(h.W[:, columns:]).sum(axis=1) * _largest_absolute_value(h.hidden) + np.abs(h.b) * (high - low)
        if np.abs(natural).max(initial=0.0) > LARGEST_SUM / 2 or reach.max(initial=0.0) > LARGEST_SUM / 2:
            return None
        weight = (
            exact_arithmetic.matrix_product(rows, h.c[:columns])
            + h.hidden.log_base_measure(rows)
            + low * exact_arithmetic.matrix_product(rows, h.W[:, :columns].sum(axis=0))
        )
        return cls(h, near, low, high - low, h.visible.scale, exact_arithmetic.exp(natural), natural.max(axis=1), np.asarray(weight))

    @property
    def blocks(self) -> int:
        """The number of far parts."""
        return count_states(self.h.hidden, self.h.hidden.count_units(self.h.W.shape[1]) - self.near, first=self.near)

    def log_sum(self, block: int) -> float:
        """Compute the log of the sum of e^{−E} over all visible states and the near parts, for one far part."""
        weights, fixed = self._compute_log_weights(block)
        return float(_log_sum_exp(weights) + fixed)

    def log_weights(self, block: int) -> Array:
        """Compute the log of the sum of e^{−E} over all visible states (S,), for each near part and one far part."""
        weights, fixed = self._compute_log_weights(block)
        return weights + fixed

    def _compute_log_weights(self, block: int) -> tuple[Array, float]:
        """Compute log weights (S,), and the constant to add to all of them."""
        h, count = self.h, self.h.hidden.count_units(self.h.W.shape[1]) - self.near
        far = decode_state_indices(h.hidden, count, np.array([block]), first=self.near)[0]
        columns = h.W.shape[1] - len(far)
        natural = h.b + exact_arithmetic.matrix_product(h.W[:, columns:], far)
        shift = self.gap * natural
        # log Π_j (1 + e^{x_j}) ≤ Σ_j log(1 + e^{highest x_j}): the product is converted to its logarithm before this bound exceeds
        # LARGEST_SUM.
        most = exact_arithmetic.log_add_exp(0.0, shift + self._highest)
        factors, held = exact_arithmetic.exp(shift), 0.0  # held: bound on the logarithm of the product so far
        total, term, product = np.zeros(len(self._weight)), np.empty(len(self._weight)), np.ones(len(self._weight))
        for j in range(len(factors)):
            if held + most[j] > LARGEST_SUM:
                total += exact_arithmetic.log(product)
                product.fill(1.0)
                held = 0.0
            held += most[j]
            np.multiply(self._exponentials[j], factors[j], out=term)
            np.add(term, 1.0, out=term)
            np.multiply(product, term, out=product)
        total += exact_arithmetic.log(product)
        total *= self.replicas
        fixed = exact_arithmetic.matrix_product(far, h.c[columns:]) + h.hidden.log_base_measure(far) + self.low * natural.sum()
        return self._weight + total, float(fixed)


def _log_sum_exp(terms: Array) -> float:
    top = terms.max()
    return float(top + exact_arithmetic.log(exact_arithmetic.exp(terms - top).sum()))


def joint_precision(h: Harmonium) -> Array:
    """Return the precision (D + K, D + K) of (v, h) jointly if both layers are Gaussian."""
    D, K = h.W.shape
    return np.block([[np.eye(D), -h.W], [-h.W.T, np.eye(K)]])


def _gaussian_log_partition(h: Harmonium) -> float:
    """Compute ½ m'Λ⁻¹m − ½ log |Λ| with the biases m = (b, c) and the precision Λ; the base measures are normal densities."""
    # ∫ e^{m·x − ½ x'Λx} dx = (2π)^{(D+K)/2} |Λ|^{−½} e^{½ m'Λ⁻¹m}; the normal base measures divide by the power of 2π.
    matrix, biases = joint_precision(h), np.concatenate([h.b, h.c])
    quadratic = exact_arithmetic.matrix_product(0.5 * biases, symmetric_matrices.solve_positive_definite(matrix, biases))
    return float(quadratic - 0.5 * symmetric_matrices.log_determinant(matrix))
