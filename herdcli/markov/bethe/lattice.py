"""Belief propagation on a binary lattice in the ratio domain: messages r = M(1)/M(0), no transcendental function.

Of a unit with cavity ratio c = e^b Π r over its other neighbours, the message over a weight w is (1 + e^w c)/(1 + c).
Units of one colour of the chess board send at once.  Source: Teh (2003), 5.4 for 2.35.
"""

from __future__ import annotations

import numpy as np

from herdcli import fast
from herdcli.errors import BadUsage
from herdcli.markov.method import Result, Settings, ToTolerance
from herdcli.markov.model.beliefs import certificate
from herdcli.markov.model.boltzmann import Boltzmann, boltzmann
from herdcli.markov.model.network import Factor, Network
from herdcli.records import dataclass
from herdcli.schema import Array

LARGEST_SUM = 300.0  # of |b| and the |weights| of a unit: products of ratios stay far inside float64
SWEEPS = 4  # a step on large lattices; the last of them is checked
SMALL = 20_000  # units up to which every sweep is checked, and its free energy computed
WORTH_IT = 1000  # units from which `auto` takes it


@dataclass
class State:
    """Messages (4, 2, R+2, K+2) laid out as numpy_lattice says, a residual and a free energy (NaN on large lattices) a step."""

    messages: Array
    residual: Array
    free_energy: Array
    step: int


@dataclass(frozen=True)
class Lattice:
    """Biases (R, C), weights to the right and down (R, C), 0 past the border.  held  (R, C) units at their evidence, all 0 there."""

    bias: Array
    right: Array
    down: Array
    constant: float
    held: Array


def find(network: Network) -> Lattice | str:
    """The lattice that a network is, or in words why it is none that ratios can be used on."""
    if network.shape is None or int(np.prod(network.shape)) != network.count:
        return "needs a network made as a grid"
    if network.observations():
        return "takes no observed marginals"
    try:
        machine = boltzmann(network, "bp")
    except BadUsage:
        return "needs two-state variables and positive pairs"
    return _placed(machine, int(network.shape[0]), int(network.shape[1]))


def _placed(machine: Boltzmann, rows: int, columns: int) -> Lattice | str:
    pairs = machine.W.tocoo()
    above = pairs.row < pairs.col
    i, j, w = pairs.row[above], pairs.col[above], pairs.data[above]
    down = j == i + columns
    to_right = ~down & (j == i + 1) & (j % columns != 0)
    if not (to_right | down).all():
        return "needs neighbours on the grid alone"
    reach = np.abs(machine.b) + np.asarray(abs(machine.W).sum(axis=1)).ravel()
    # A message (1 + e^w c)/(1 + c) is between 1 and e^w, so e^w c, with c of e^b and the other messages, is within e^±(|b| + Σ |w|).
    if reach.max(initial=0.0) > LARGEST_SUM:
        return f"needs weights that sum to at most {LARGEST_SUM:g} at a unit"
    right, below = np.zeros(rows * columns), np.zeros(rows * columns)
    right[i[to_right]], below[i[down]] = w[to_right], w[down]
    shape = rows, columns
    held = machine.held.reshape(shape)
    return Lattice(machine.b.reshape(shape), right.reshape(shape), below.reshape(shape), machine.constant, held)


class LatticePropagation(ToTolerance[State, Settings]):
    """`bp` with the checkerboard schedule."""

    state = State

    def __init__(self, network: Network, settings: Settings, found: Lattice) -> None:
        self.network, self.settings, self.lattice = network, settings, found
        self.sweeps = 1 if found.bias.size <= SMALL else SWEEPS
        self.steps = -(-settings.iterations // self.sweeps)
        self.bias = to_colours(np.exp(found.bias))
        self.left, self.up = np.roll(found.right, 1, axis=1), np.roll(found.down, 1, axis=0)
        self.weight = np.stack([to_colours(np.exp(w)) for w in (self.left, found.right, self.up, found.down)])

    def init(self) -> State:
        """Messages that say nothing."""
        return State(np.ones_like(self.weight), np.empty(0), np.empty(0), 0)

    def step(self, state: State) -> State:
        """One sweep, on large lattices four, the last one checked."""
        for _ in range(self.sweeps - 1):
            fast.lattice_sweep(state.messages, self.weight, self.bias, False)
        change = fast.lattice_sweep(state.messages, self.weight, self.bias, True)
        energy = self._beliefs(state.messages)[0] if self.sweeps == 1 else np.nan
        return State(state.messages, np.append(state.residual, change), np.append(state.free_energy, energy), state.step + 1)

    def bytes_needed(self, state: State) -> tuple[int, str]:
        """Of the beliefs."""
        return 60 * state.messages.nbytes, "the beliefs"

    def _beliefs(self, messages: Array) -> tuple[float, Array, list[tuple[Array, Array, Array]]]:
        """The Bethe free energy (2.50), means (R, C), and of edges to the right and down both ends and their beliefs."""
        rows, columns = self.lattice.bias.shape
        left, right, up, down = (np.log(from_colours(part, columns)) for part in messages)
        total = self.lattice.bias + left + right + up + down
        m = _sigmoid(total)
        at = np.arange(rows * columns).reshape(rows, columns)
        # 2.50 with ψ_ij = e^{w x_i x_j}: pairs have energies −w b_ij(1, 1), units −b m.  A pair's belief is ψ_ij times both
        # cavity ratios, and the logarithm of one is that of all that enters the unit less the message across the pair (5.6).
        energy = -self.lattice.constant - float(np.sum(self.lattice.bias * m))
        energy += float(np.sum((1 - self._degree()) * (_entropy(m) + _entropy(1 - m)).ravel()))
        across = total[:, :-1] - right[:, :-1], total[:, 1:] - left[:, 1:], self.lattice.right[:, :-1], at[:, :-1], at[:, 1:]
        along = total[:-1] - down[:-1], total[1:] - up[1:], self.lattice.down[:-1], at[:-1], at[1:]
        pairs = []
        for ci, cj, w, first, second in (across, along):
            p = _pair(ci.ravel(), cj.ravel(), w.ravel())
            energy += float(np.sum(_entropy(p))) - float(w.ravel() @ p[:, 1, 1])
            pairs.append((first.ravel(), second.ravel(), p))
        return energy + int(self.lattice.held.sum()) * np.log(2), m, pairs  # a held unit counted as a fair coin

    def _degree(self) -> Array:
        rows, columns = self.lattice.bias.shape
        at = np.arange(rows * columns)
        sides = np.stack([at % columns > 0, at % columns < columns - 1, at >= columns, at < (rows - 1) * columns])
        result: Array = sides.sum(axis=0).astype(np.float64)
        return result

    def result(self, state: State) -> Result:
        """Beliefs and the Bethe log Z."""
        energy, m, pairs = self._beliefs(state.messages)
        held = self.lattice.held.ravel()
        nodes = list(np.stack([1 - m, m], axis=-1).reshape(-1, 2))
        for i in np.flatnonzero(held).tolist():
            nodes[i] = np.ones(1)
        cliques: list[Factor] = []
        for first, second, p in pairs:
            cliques += [((i, j), table) for i, j, table in zip(first.tolist(), second.tolist(), p, strict=True)]
        if held.any():
            cliques = [(scope, _without_held(scope, p, held)) for scope, p in cliques]
        sweeps = self.sweeps * state.step
        updates = sweeps * int(self._degree().sum())
        attributes = certificate(energy, self.met(state), sweeps, state.residual, state.free_energy, propagation_updates=updates)
        return Result(nodes, cliques, attributes)


def _without_held(scope: tuple[int, ...], p: Array, held: Array) -> Array:
    """A pair's belief with one state only along what is held (both of its states stood for it)."""
    for axis, i in enumerate(scope):
        if held[i]:
            p = p.sum(axis=axis, keepdims=True)
    return p


def to_colours(values: Array) -> Array:
    """(R, C) values by colour, (2, R+2, K+2), with ones where there is no cell."""
    rows, columns = values.shape
    made = np.ones((2, rows + 2, (columns + 1) // 2 + 2))
    for p in (0, 1):
        for parity in (0, 1):
            part = values[parity::2, (parity + p) & 1 :: 2]
            made[p, 1 + parity : rows + 1 : 2, 1 : 1 + part.shape[1]] = part
    return made


def from_colours(stored: Array, columns: int) -> Array:
    """The inverse of `to_colours`."""
    rows = stored.shape[1] - 2
    values = np.empty((rows, columns))
    for p in (0, 1):
        for parity in (0, 1):
            part = values[parity::2, (parity + p) & 1 :: 2]
            part[...] = stored[p, 1 + parity : rows + 1 : 2, 1 : 1 + part.shape[1]]
    return values


def _sigmoid(x: Array) -> Array:
    from scipy.special import expit

    result: Array = expit(x)
    return result


def _entropy(p: Array) -> Array:
    result: Array = p * np.log(np.where(p > 0, p, 1.0))
    return result


def _pair(ci: Array, cj: Array, w: Array) -> Array:
    """(E, 2, 2) beliefs of pairs with log cavity ratios ci, cj and weight w."""
    logs = np.stack([np.zeros_like(w), cj, ci, ci + cj + w], axis=-1)
    p = np.exp(logs - logs.max(axis=-1, keepdims=True))
    result: Array = (p / p.sum(axis=-1, keepdims=True)).reshape(-1, 2, 2)
    return result
