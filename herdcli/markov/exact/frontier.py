"""Exact marginals and log Z of a lattice by a frontier that sweeps over it, one cell at a time: memory 2^width, not 2^width · cells.

The frontier holds one variable of each column: those of the present row up to the last cell, those of the row before beyond it.
Its table α sums over all cells behind; in step t the cell (r, c) takes the place of the one above it:

    α_t(rest, x) = φ(x) h(left, x) Σ_u α_{t−1}(u, rest) v(u, x).

The axis that goes is always the first and the new one the last, so that a step is a product with a small matrix and the left
neighbour stands beside the new axis.  The way back does the same with β; α is kept at the ends of rows and made again from there.
Tables are scaled to maximum 1.  An entry that is then too small for a float64 is an error of at most 1e-307 in α, which later
factors, scaled too, never raise; so where Σ αβ at every cell is above 1e-250, nothing is lost that shows.  Where it is not, the
sweep begins again in logarithms.
Source: the forward–backward algorithm (Baum et al. 1970) on the rows' joint state; Teh (2003), sec. 2.2.2.
"""

from __future__ import annotations

import math

import numpy as np

from herdcli.algorithm import RunProgress
from herdcli.errors import BadUsage, DataError, NegativeResult
from herdcli.markov.exact.junction_tree import log_sum
from herdcli.markov.method import InferenceResult, InferenceSettings, Stepwise
from herdcli.markov.model.graphs import lattice_detection
from herdcli.markov.model.network import Factor, Network
from herdcli.markov.model.possible_states import IMPOSSIBLE
from herdcli.records import dataclass
from herdcli.schema import Array

MOST_CELLS = 1 << 27
LEAST_SUM = 1e-250  # of αβ, tables scaled to maximum 1: below it begin again in logarithms
LEAST_TOP = 1e-30  # of a table before it is scaled
WIDE = 1 << 10  # rows of a table that are multiplied at a time
BACK = 4.0  # times as long a row takes on the way back, by `scripts/bench_dry_run.py --only lattice`


@dataclass(frozen=True)
class SweptLattice:
    """Log factors of cells (r, c) in the swept order, row by row: of one cell (K,), with the one above, with the one to the left.

    states (R, C).  place (R, C) the variable at each cell.  constant  of factors over no free variable.
    """

    states: Array
    place: Array
    single: dict[tuple[int, int], Array]
    above: dict[tuple[int, int], Array]
    left: dict[tuple[int, int], Array]
    constant: float


@dataclass
class FrontierState:
    """Tables at the ends of rows, (R + 1, largest); their log scales; β; marginals of cells and of pairs, padded; rows done.

    The first table, of one cell, is 1, in logarithms 0.
    """

    ends: Array
    scale: Array
    beta: Array
    single: Array
    above: Array
    left: Array
    step: int

    @property
    def logs(self) -> bool:
        """Are the tables logarithms?"""
        return bool(self.ends[0, 0] == 0)


def find_lattice(network: Network) -> SweptLattice | str:
    """The lattice that a network is, swept along its longer side; else in words why it is none."""
    place = lattice_detection.lattice_layout(network)
    if place is None:
        return "needs a network that was made as a grid"
    place = place.T if place.shape[1] > place.shape[0] else place
    at = {int(i): (r, c) for (r, c), i in np.ndenumerate(place)}
    single = {cell: np.zeros(int(network.cardinality[i])) for i, cell in at.items()}
    above: dict[tuple[int, int], Array] = {}
    left: dict[tuple[int, int], Array] = {}
    constant = 0.0
    for a, (scope, table) in enumerate(network.factors()):
        with np.errstate(divide="ignore"):
            logs = np.log(table)
        free = [axis for axis, i in enumerate(scope) if network.cardinality[i] > 1]
        logs = logs.reshape([logs.shape[axis] for axis in free])
        cells = [at[scope[axis]] for axis in free]
        if not cells:
            constant += float(logs)
        elif len(cells) == 1:
            single[cells[0]] = single[cells[0]] + logs
        else:
            if len(cells) > 2 or sum(abs(x - y) for x, y in zip(*cells, strict=True)) != 1:
                return f"needs factors of neighbours on the grid alone, {network.factor_name(a)} is none"
            first, second = sorted(cells)
            kind = above if first[1] == second[1] else left
            kind[second] = kind.get(second, 0.0) + (logs if cells[0] == first else logs.T)
    return SweptLattice(network.cardinality[place], place, single, above, left, constant)


class Frontier(Stepwise[FrontierState]):
    """`frontier`: a step is a row, forward and then back."""

    state = FrontierState

    def __init__(self, network: Network, settings: InferenceSettings) -> None:
        found = find_lattice(network)
        if isinstance(found, str):
            raise BadUsage(f"--algorithm frontier {found}", hint="--algorithm junction-tree")
        self.lattice = found
        self.rows, self.columns = found.states.shape
        self.steps = 2 * self.rows
        self.sizes = [math.prod(row) for row in found.states.tolist()]
        self.made = [self._entered(r) for r in range(self.rows)]
        self.largest = self._cells()
        self.words = self.bytes_needed(None)[1]
        self.tables: list[Array] = []  # that rows are made in again and again: no state has them between two steps

    def bytes_needed(self, state: FrontierState | None) -> tuple[int, str]:
        """Of the tables at the ends of rows, of one row's, and of temporary ones; once two rows were swept, of what the way back adds."""
        cells = self._cells()
        tables = self.columns + 2
        if state is None or state.step < 2:
            tables += self.rows + 4
        elif state.step > self.rows:
            tables = 4
        return 8 * cells * tables, f"the frontier sweep, 2^{math.log2(cells):.1f} cells a table,"

    def memory(self) -> int:
        """All of it; none where `init` refuses the tables whatever may be taken."""
        return 0 if self._cells() > MOST_CELLS else self.bytes_needed(None)[0]

    def progress(self, state: FrontierState) -> RunProgress:
        """The steps done, and what share of the work they were: that of a row is its tables' cells."""
        steps = super().progress(state)
        cells = np.array([sum(row) for row in self.made], dtype=np.float64)
        work = np.concatenate((cells, BACK * cells[::-1]))
        return RunProgress(steps.step, steps.bound, steps.figure, float(work[: state.step].sum() / work.sum()))

    def _cells(self) -> int:
        """Of the largest table."""
        most: int = max(*self.sizes, *map(max, self.made))
        return most

    def _entered(self, r: int) -> list[int]:
        """Cells of each table that is made as row r is entered."""
        now: list[int] = self.lattice.states[r].tolist()
        before: list[int] = self.lattice.states[r - 1].tolist() if r else [1] * self.columns
        return [math.prod([*now[: c + 1], *before[c + 1 :]]) for c in range(self.columns)]

    def init(self) -> FrontierState:
        """Before the first row.  Raises DataError for tables that no machine holds."""
        cells = self._cells()
        if cells > MOST_CELLS:
            hint = "without an exact answer: --algorithm bp or ups"
            raise DataError(f"a frontier over this lattice has 2^{math.log2(cells):.1f} cells, at most 2^27 can be swept", hint=hint)
        return self._empty(logs=False)

    def _empty(self, logs: bool) -> FrontierState:
        K, shape = int(self.lattice.states.max()), self.lattice.states.shape
        ends = np.full((self.rows + 1, max(self.sizes)), -np.inf if logs else 0.0)
        ends[0, 0] = 0.0 if logs else 1.0
        single, pair = np.zeros((*shape, K)), np.zeros((*shape, K, K))
        return FrontierState(ends, np.zeros(self.rows + 1), np.empty(0), single, pair, pair.copy(), 0)

    def step(self, state: FrontierState) -> FrontierState:
        """The next row, forward or back; the first again, in logarithms, where a float64 does not reach."""
        if state.step < self.rows:
            r = state.step
            tables = self._row(state, r, 2)
            if tables is None:
                return self._empty(logs=True)
            *_, (table, scale) = tables
            state.ends[r + 1, : table.size] = table.ravel()
            state.scale[r + 1] = state.scale[r] + scale
            if not np.isfinite(state.scale[r + 1]):
                raise NegativeResult(IMPOSSIBLE)
        elif not self._backward_row(state, 2 * self.rows - 1 - state.step):
            return self._empty(logs=True)
        state.step += 1
        return state

    def _table(self, at: int, rows: int, columns: int) -> Array:
        """(rows, columns) to be written, in the memory that this number of a table always has."""
        while len(self.tables) <= at:
            self.tables.append(np.empty(self.largest))
        return self.tables[at][: rows * columns].reshape(rows, columns)

    def _row(self, state: FrontierState, r: int, last: int) -> list[tuple[Array, float]] | None:
        """α after each cell of row r, axes (going first, …, new), the first entry before the row; log scales since its start.

        Those of the `last` cells alone hold (before them is what came later).  None where a table is too small for a float64.
        """
        size = self.sizes[r - 1] if r else 1
        made = [(state.ends[r, :size], 0.0)]
        for c in range(self.columns):
            table, scale = made[-1]
            above, beside, level = self._matrices(r, c, state.logs)
            if state.logs:
                # α_t(rest, x) = φ(x) h(left, x) Σ_u α_{t−1}(u, rest) v(u, x): the cell above, u, is the first
                # axis and is summed over; x comes last, beside its left neighbour, so that φ h multiplies the
                # last two axes.  What is divided out of tables and factors is counted in the scale.
                grown = _log_product(table.reshape(len(above), -1).T, above)
                grown = (grown.reshape(-1, beside.size) + beside.ravel()).ravel()
                top = float(grown.max())
                made.append((grown - top if top > -np.inf else grown, scale + top))
                continue
            rest = table.size // len(above)
            grown = self._table(c % last, rest, above.shape[1])
            np.matmul(table.reshape(len(above), rest).T, above, out=grown)
            _multiply_rows(grown.reshape(-1, beside.size), beside.ravel())
            top = float(grown.max())
            if top < LEAST_TOP:
                return None
            grown *= 1 / top
            made.append((grown.ravel(), scale + math.log(top) + level))
        return made

    def _matrices(self, r: int, c: int, logs: bool) -> tuple[Array, Array, float]:
        """v (u, x), and φ(x) h(left, x) with one row where there is no left neighbour; as they are in logarithms, else scaled to
        maximum 1; and the logarithm of what that divided out."""
        states = int(self.lattice.states[r, c])
        over = int(self.lattice.states[r - 1, c]) if r else 1
        beside = int(self.lattice.states[r, c - 1]) if c else 1
        above = np.broadcast_to(self.lattice.above.get((r, c), np.zeros((1, 1))), (over, states))
        left = np.broadcast_to(self.lattice.left.get((r, c), np.zeros((1, 1))), (beside, states)) + self.lattice.single[r, c]
        tops = [float(part.max()) for part in (above, left)]
        if logs or -np.inf in tops:
            return (above, left, 0.0) if logs else (np.exp(above), np.exp(left), 0.0)
        return np.exp(above - tops[0]), np.exp(left - tops[1]), sum(tops)

    def _backward_row(self, state: FrontierState, r: int) -> bool:
        """β before row r from β after it, and the marginals of the row's cells and pairs; False where a float64 does not reach."""
        if not state.beta.size:
            state.beta = np.zeros(self.sizes[r]) if state.logs else np.ones(self.sizes[r])
        tables = self._row(state, r, self.columns)
        if tables is None:
            return False
        for c in range(self.columns - 1, -1, -1):
            above, beside, _ = self._matrices(r, c, state.logs)
            # P(left, x) ∝ Σ_rest α_t β_t, P(u, x) ∝ Σ_rest α_{t−1}(u, rest) v(u, x) φ h β_t(rest, x), and β_{t−1}(u, rest) = Σ_x v(u, x)
            # φ h β_t(rest, x): φ h is multiplied to β once for the last two.  α_t has φ h, so it is not multiplied again for the first.
            after, before = tables[c + 1][0], tables[c][0].reshape(len(above), -1)
            if state.logs:
                pair = log_sum((after + state.beta).reshape(-1, *beside.shape), (0,))
                pair = np.exp(pair - pair.max())
                coming = (state.beta.reshape(-1, beside.size) + beside.ravel()).reshape(-1, above.shape[1])
                up = np.stack([log_sum(before + coming[:, x], (1,)) for x in range(above.shape[1])], axis=1) + above
                up = np.exp(up - up.max())
                beta = _log_product(coming, above.T).T
                state.beta = (beta - beta.max()).ravel()
            else:
                pair = np.einsum("ij,ij->j", after.reshape(-1, beside.size), state.beta.reshape(-1, beside.size)).reshape(beside.shape)
                _multiply_rows(state.beta.reshape(-1, beside.size), beside.ravel())
                coming = state.beta.reshape(-1, above.shape[1])
                up = (before @ coming) * above
                # The last of a row is the state's own.
                made = self._table(self.columns + c % 2, len(above), len(coming)) if c else None
                state.beta = np.matmul(above, coming.T, out=made).ravel()
                top = float(state.beta.max())
                if pair.sum() < LEAST_SUM or top < LEAST_TOP:
                    return False
                state.beta *= 1 / top
            self._keep(state, r, c, pair / pair.sum(), up / up.sum())
        return True

    def _keep(self, state: FrontierState, r: int, c: int, pair: Array, up: Array) -> None:
        states = int(self.lattice.states[r, c])
        state.single[r, c, :states] = pair.sum(axis=0)
        state.left[r, c, : len(pair), :states] = pair
        state.above[r, c, : len(up), :states] = up

    def result(self, state: FrontierState) -> InferenceResult:
        """All marginals and log Z."""
        lattice = self.lattice
        nodes: list[Array] = [np.empty(0)] * lattice.place.size
        cliques: list[Factor] = []
        for (r, c), i in np.ndenumerate(lattice.place):
            nodes[int(i)] = state.single[r, c, : lattice.states[r, c]].copy()
        for kind, tables, (down, across) in ((lattice.left, state.left, (0, 1)), (lattice.above, state.above, (1, 0))):
            for r, c in sorted(kind):
                first = r - down, c - across
                scope = int(lattice.place[first]), int(lattice.place[r, c])
                cliques.append((scope, tables[r, c, : lattice.states[first], : lattice.states[r, c]].copy()))
        log_z = lattice.constant + float(state.scale[self.rows]) + self._last(state)
        return InferenceResult(nodes, cliques, {"log_z": log_z, "free_energy": -log_z, "iterations": state.step})

    def _last(self, state: FrontierState) -> float:
        """log of the sum of the last table."""
        table = state.ends[self.rows, : self.sizes[-1]]
        return float(log_sum(table, (0,))) if state.logs else math.log(float(table.sum()))


def _multiply_rows(table: Array, by: Array) -> None:
    """Each row of a table (n, k), in its place, by the same (k,): rows so short as these many at a time, which is several times as fast."""
    whole = len(table) // WIDE * WIDE
    wide = table[:whole].reshape(-1, WIDE * len(by))
    wide *= np.tile(by, WIDE)
    table[whole:] *= by


def _log_product(left: Array, right: Array) -> Array:
    """log(exp(left) @ exp(right)), left (n, k), right (k, m)."""
    columns = []
    for j in range(right.shape[1]):
        total = left[:, 0] + right[0, j]
        for i in range(1, len(right)):
            total = np.logaddexp(total, left[:, i] + right[i, j])
        columns.append(total)
    return np.stack(columns, axis=1)
