"""Belief propagation on a binary lattice in the ratio domain: messages r = M(1)/M(0), without transcendental functions.

If a unit has cavity ratio c = e^b Π r over its other neighbours, its message over a weight w is (1 + e^w c)/(1 + c).
Units of one colour of the chess board send together.  Blocks of rows, which workers may share, do several sweeps in turn, each stage a row
narrower at either end, and the gaps between them follow.  Only the order changes, not the inputs of each message.
Source: Teh (2003), 5.4 for 2.35.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from herdcli import fast
from herdcli.algorithm import Map
from herdcli.errors import BadUsage
from herdcli.markov.method import InferenceResult, InferenceSettings, ToTolerance
from herdcli.markov.model.beliefs import make_convergence_attributes
from herdcli.markov.model.boltzmann import CouplingList, to_coupling_list
from herdcli.markov.model.flat_marginals import FlatMarginals, GridPairs, empty_cliques
from herdcli.markov.model.network import Factor, Network
from herdcli.numerics.freed_memory import release_freed_memory
from herdcli.records import dataclass
from herdcli.schema import Array

LARGEST_SUM = 300.0  # largest sum of |b| and the |weights| of a unit; products of ratios then stay far inside the range of float64
SWEEPS = 4  # number of sweeps per step on large lattices; only the last of them is checked
SMALL = 20_000  # up to this many units every sweep is checked, and the free energy after it is computed
WORTH_IT = 1000  # `auto` uses this algorithm for lattices of at least this many units
BAND = 128  # number of rows whose beliefs are computed together
TILE = 64  # approximate number of rows that are swept together several times while they are in the cache


@dataclass
class LatticeState:
    """Messages (4, 2, R+2, K+2) in the layout of numpy_lattice, and one residual and free energy (NaN on large lattices) per step."""

    messages: Array
    residual: Array
    free_energy: Array
    step: int


@dataclass(frozen=True)
class BinaryLattice:
    """A binary lattice.

    bias         (R, C) biases.
    right, down  (R, C) weights to the right and down, 0 past the border.
    held         (R, C) units that are fixed by evidence; their biases and weights are 0.
    """

    bias: Array
    right: Array
    down: Array
    constant: float
    held: Array


def find_binary_lattice(network: Network) -> BinaryLattice | str:
    """Return the lattice of a network, or the reason in words why ratios cannot be used."""
    if network.shape is None or int(np.prod(network.shape)) != network.count:
        return "needs a network that was made as a grid"
    if network.stored_marginals():
        return "does not work with observed marginals"
    try:
        machine = to_coupling_list(network, "bp")
    except BadUsage:
        return "needs two-state variables, and factors without zeros"
    found = _lattice_from_couplings(machine, int(network.shape[0]), int(network.shape[1]))
    del machine
    if network.count > SMALL:
        release_freed_memory()
    return found


def _lattice_from_couplings(machine: CouplingList, rows: int, columns: int) -> BinaryLattice | str:
    i, apart = np.minimum(machine.i, machine.j), np.abs(machine.j - machine.i)
    down = apart == columns
    to_right = ~down & (apart == 1) & ((i + 1) % columns != 0)
    del apart
    if not (to_right | down).all():
        return "needs factors that join only neighbours on the grid"
    size, shape = rows * columns, (rows, columns)
    right = np.bincount(i[to_right], machine.w[to_right], size).reshape(shape)
    below = np.bincount(i[down], machine.w[down], size).reshape(shape)
    bias = machine.b.reshape(shape)
    reach = np.abs(bias)
    reach += np.abs(right)
    reach += np.abs(below)
    reach[:, 1:] += np.abs(right[:, :-1])
    reach[1:] += np.abs(below[:-1])
    # A message (1 + e^w c)/(1 + c) is between 1 and e^w.  So e^w c, with c from e^b and the other messages, is within e^±(|b| + Σ |w|).
    if reach.max(initial=0.0) > LARGEST_SUM:
        return f"needs |weights| that sum to at most {LARGEST_SUM:g} at each unit"
    return BinaryLattice(bias, right, below, machine.constant, machine.held.reshape(shape))


@dataclass(frozen=True)
class RowBand:
    """The contribution of some rows to the result.

    energy       the rows' part of the Bethe free energy.
    mean         (r, C) the means of their units.
    gap          largest difference between a unit's marginal and that of a pair.
    """

    energy: float
    mean: Array
    gap: float


class LatticePropagation(ToTolerance[LatticeState, InferenceSettings]):
    """The algorithm `bp` with the checkerboard schedule."""

    state = LatticeState

    def __init__(self, network: Network, settings: InferenceSettings, lattice: BinaryLattice, map: Map = map) -> None:
        self.network, self.settings, self.lattice, self.map = network, settings, lattice, map
        self.sweeps = 1 if lattice.bias.size <= SMALL else SWEEPS
        self.steps = -(-settings.iterations // self.sweeps)
        self.bands = range(0, len(lattice.bias), BAND)

    @cached_property
    def bias_ratios(self) -> Array:
        """e^b (2, R+2, K+2) of every unit, in the layout of `split_checkerboard`."""
        return split_checkerboard(np.exp(self.lattice.bias))

    @cached_property
    def weight_ratios(self) -> Array:
        """e^w (4, 2, R+2, K+2) of the weights to the left, right, up and down of every unit."""
        right, down = self.lattice.right, self.lattice.down
        found = np.empty((4, *self.bias_ratios.shape))
        for side, w in enumerate((np.roll(right, 1, axis=1), right, np.roll(down, 1, axis=0), down)):
            split_checkerboard(np.exp(w), out=found[side])
        return found

    def init(self) -> LatticeState:
        """Return uniform messages."""
        return LatticeState(np.ones((4, *self.bias_ratios.shape)), np.empty(0), np.empty(0), 0)

    def step(self, state: LatticeState) -> LatticeState:
        """Do one sweep, or four on large lattices, where only the last is checked."""
        change, energy = self._sweep(state.messages), np.nan
        if self.sweeps == 1:
            energy = self._free_energy(list(self.map(lambda low: self._compute_row_band(state.messages, low), self.bands)))
        return LatticeState(state.messages, np.append(state.residual, change), np.append(state.free_energy, energy), state.step + 1)

    def _sweep(self, messages: Array) -> float:
        """Update all messages as often as a step does, and return the largest change of the last time.

        Tiles that narrow come first, then the gaps between them.
        """
        rows, weight, bias = len(self.lattice.bias), self.weight_ratios, self.bias_ratios
        count = max(1, rows // TILE & ~1)
        bounds = [rows * k // count for k in range(count + 1)]

        def narrow(k: int) -> float:
            first, last = k > 0, k < count - 1
            return fast.lattice_tile(messages, weight, bias, True, self.sweeps, bounds[k], bounds[k + 1], int(first), -int(last))

        def between(at: int) -> float:
            return fast.lattice_tile(messages, weight, bias, True, self.sweeps, at, at, -1, 1)

        changes: list[float] = [*self.map(narrow, range(count)), *self.map(between, bounds[1:-1])]
        return max(changes)

    def bytes_needed(self, state: LatticeState) -> tuple[int, str]:
        """Return the bytes of the beliefs, and of the bands that are being processed, and their purpose in words."""
        units, columns = self.lattice.bias.shape
        stored = 3 if self.settings.output_marginals == "nodes" else 30
        return 8 * (stored * units * columns + 100 * BAND * columns), "the beliefs"

    def _free_energy(self, bands: list[RowBand]) -> float:
        """Return the Bethe free energy (2.50); a fixed unit counts as a fair coin, which is subtracted."""
        return sum(band.energy for band in bands) - self.lattice.constant + int(self.lattice.held.sum()) * math.log(2)

    def _compute_row_band(self, messages: Array, first_row: int, pairs: tuple[Array, Array] | None = None) -> RowBand:
        """Process the rows from `first_row` on, and write the beliefs of their pairs to the right and down (R, C, 2, 2) if requested."""
        rows, columns = self.lattice.bias.shape
        high, last = min(first_row + BAND, rows), min(first_row + BAND + 1, rows)
        left, right, up, down = (np.log(join_checkerboard(part[:, first_row : last + 2], columns)) for part in messages)
        total = self.lattice.bias[first_row:last] + left + right + up + down
        m, free = _sigmoid_and_softplus(total)
        own, joined = (
            slice(0, high - first_row),
            min(high, rows - 1) - first_row,
        )  # rows of the band, and the number of them with a row below
        # 2.50 with ψ_ij = e^{w x_i x_j}: Σ b log(b/ψ) of a pair with log cavity ratios ci, cj is ci P(i) + cj P(j) − log Σ exp, because w
        # P(i, j) cancels; and Σ b log b of a unit with log ratio t is t m − log(1 + e^t).  A cavity ratio contains all inputs of a unit
        # except the message across the pair (5.6).
        energy = -float(np.sum(self.lattice.bias[first_row:high] * m[own]))
        energy += float(np.sum((1 - self._neighbour_counts(first_row, high)) * (total * m - free)[own]))
        across = _lattice_pair_beliefs(
            total[own, :-1] - right[own, :-1], total[own, 1:] - left[own, 1:], self.lattice.right[first_row:high, :-1]
        )
        below = slice(1, joined + 1)
        along = _lattice_pair_beliefs(
            total[:joined] - down[:joined], total[below] - up[below], self.lattice.down[first_row : first_row + joined]
        )
        gap = 0.0
        for p, first, second in ((across, m[own, :-1], m[own, 1:]), (along, m[:joined], m[below])):
            energy += p.energy
            gap = max(gap, float(np.abs(p.first - first).max(initial=0.0)), float(np.abs(p.second - second).max(initial=0.0)))
        if pairs is not None:
            across.write_tables(pairs[0][first_row:high])
            along.write_tables(pairs[1][first_row : first_row + joined])
        return RowBand(energy, m[own], gap)

    def _neighbour_counts(self, low: int, high: int) -> Array:
        """Return the number of neighbours of the units of some rows (rows, C)."""
        rows, columns = self.lattice.bias.shape
        r, c = np.arange(low, high)[:, None], np.arange(columns)
        found: Array = (r > 0) * 1 + (r < rows - 1) + (c > 0) + (c < columns - 1)
        return found

    def result(self, state: LatticeState) -> InferenceResult:
        """Return beliefs and the Bethe log Z."""
        (rows, columns), keep = self.lattice.bias.shape, self.settings.output_marginals == "all"
        for name in ("weight_ratios", "bias_ratios"):
            vars(self).pop(name, None)  # the beliefs need their memory
        if rows * columns > SMALL:
            release_freed_memory()
        across = rows * (columns - 1)
        table = np.empty((across + columns * (rows - 1), 2, 2) if keep else (0, 2, 2))
        pairs = (table[:across].reshape(rows, columns - 1, 2, 2), table[across:].reshape(rows - 1, columns, 2, 2)) if keep else None
        bands = list(self.map(lambda low: self._compute_row_band(state.messages, low, pairs), self.bands))
        m = np.concatenate([band.mean for band in bands]).ravel()
        energy, held = self._free_energy(bands), self.lattice.held.ravel()
        nodes: Sequence[Array] = FlatMarginals(np.stack([1 - m, m], axis=-1).ravel(), 2 * np.arange(len(m) + 1))
        cliques: Sequence[Factor] = GridPairs(rows, columns, table) if keep else empty_cliques(self.network.cardinality)
        if held.any():
            nodes = [np.ones(1) if is_held else p for p, is_held in zip(nodes, held.tolist(), strict=True)]
            cliques = [(scope, _drop_fixed_states(scope, p, held)) for scope, p in cliques]
        sweeps = self.sweeps * state.step
        updates = 2 * sweeps * (rows * (columns - 1) + columns * (rows - 1))
        attributes = make_convergence_attributes(
            energy, self.meets_criterion(state), sweeps, state.residual, state.free_energy, propagation_updates=updates
        )
        if rows * columns > SMALL:
            release_freed_memory()  # of the bands
        return InferenceResult(nodes, cliques, attributes | {"consistency_gap": max(band.gap for band in bands)})


def _drop_fixed_states(scope: tuple[int, ...], p: Array, fixed: Array) -> Array:
    """Reduce a pair's belief to one state along fixed units (their two states stand for the same one)."""
    for axis, i in enumerate(scope):
        if fixed[i]:
            p = p.sum(axis=axis, keepdims=True)
    return p


def split_checkerboard(values: Array, out: Array | None = None) -> Array:
    """Split (R, C) values by colour, (2, R+2, K+2), with ones where there is no cell; into `out` if it is given."""
    rows, columns = values.shape
    made = np.empty((2, rows + 2, (columns + 1) // 2 + 2)) if out is None else out
    made.fill(1.0)
    for p in (0, 1):
        for parity in (0, 1):
            part = values[parity::2, (parity + p) & 1 :: 2]
            made[p, 1 + parity : rows + 1 : 2, 1 : 1 + part.shape[1]] = part
    return made


def join_checkerboard(stored: Array, columns: int) -> Array:
    """Invert `split_checkerboard`."""
    rows = stored.shape[1] - 2
    values = np.empty((rows, columns))
    for p in (0, 1):
        for parity in (0, 1):
            part = values[parity::2, (parity + p) & 1 :: 2]
            part[...] = stored[p, 1 + parity : rows + 1 : 2, 1 : 1 + part.shape[1]]
    return values


def _sigmoid_and_softplus(t: Array) -> tuple[Array, Array]:
    """Compute 1/(1 + e^−t) and log(1 + e^t)."""
    small = np.exp(-np.abs(t))
    share = 1 / (1 + small)
    return np.where(t >= 0, share, small * share), np.maximum(t, 0.0) + np.log1p(small)


@dataclass(frozen=True)
class LatticePairBeliefs:
    """Beliefs of pairs.

    states         the beliefs of the states 00, 01, 10, 11.
    first, second  P(x = 1) of both ends.
    energy         Σ (ci P(i) + cj P(j) − log Σ exp).
    """

    states: tuple[Array, Array, Array, Array]
    first: Array
    second: Array
    energy: float

    def write_tables(self, out: Array) -> None:
        """Write the tables into `out` (r, C, 2, 2)."""
        for number, part in enumerate(self.states):
            out[..., number >> 1, number & 1] = part


def _lattice_pair_beliefs(ci: Array, cj: Array, w: Array) -> LatticePairBeliefs:
    """Compute the beliefs of pairs with log cavity ratios ci, cj and weight w."""
    both = ci + cj + w
    top = np.maximum(np.maximum(ci, cj), np.maximum(both, 0.0))
    states = [np.exp(logs - top) for logs in (0.0, cj, ci, both)]
    total = states[0] + states[1] + states[2] + states[3]
    for part in states:
        part /= total
    first, second = states[2] + states[3], states[1] + states[3]
    energy = float(np.sum(ci * first + cj * second - (top + np.log(total))))
    return LatticePairBeliefs((states[0], states[1], states[2], states[3]), first, second, energy)
