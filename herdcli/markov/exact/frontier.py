"""Exact marginals and log Z of a lattice by a frontier that sweeps over it, one cell at a time: memory 2^width, not 2^width · cells.

The frontier contains one variable of each column: those of the present row up to the last cell, and those of the row before after it.
Its table α sums over all cells behind the frontier.  In step t the cell (r, c) replaces the one above it:

    α_t(rest, x) = φ(x) h(left, x) Σ_u α_{t−1}(u, rest) v(u, x).

The removed axis is always the first and the new one the last, so that a step is a product with a small matrix and the left
neighbour is adjacent to the new axis.  The backward pass does the same with β; α is kept at the ends of rows and recomputed from there.
Tables are scaled to maximum 1.  An entry that then underflows is an error of at most 1e-307 in α, and later
factors, scaled too, never increase it.  So if Σ αβ at every cell is above 1e-250, the loss is negligible.  Otherwise the
sweep is repeated in logarithms.
Source: the forward–backward algorithm (Baum et al. 1970) on the rows' joint state; Teh (2003), sec. 2.2.2.
"""

from __future__ import annotations

import math

import numpy as np

from herdcli.algorithm import RunProgress
from herdcli.errors import BadUsage, DataError, NegativeResult
from herdcli.markov.exact.junction_tree import log_sum_exp
from herdcli.markov.method import InferenceResult, InferenceSettings, Stepwise
from herdcli.markov.model.graphs import lattice_detection
from herdcli.markov.model.network import Factor, Network
from herdcli.markov.model.possible_states import IMPOSSIBLE
from herdcli.records import dataclass
from herdcli.schema import Array

MOST_CELLS = 1 << 27
LEAST_SUM = 1e-250  # the sweep is repeated in logarithms if Σ αβ, with tables scaled to maximum 1, is below this
LEAST_TOP = 1e-30  # the same if the maximum of a table, before it is scaled, is below this
WIDE = 1 << 10  # number of rows of a table that are multiplied together
BACK = 4.0  # time of a row in the backward pass relative to the forward pass (`scripts/bench/program/dry_run.py --only lattice`)


@dataclass(frozen=True)
class SweptLattice:
    """A lattice in the order of the sweep, row by row.

    states    (R, C), numbers of states.
    place     (R, C), the variable at each cell.
    single    log factors (K,) of cells (r, c).
    above     log factors of a cell and the one above it.
    left      log factors of a cell and the one to its left.
    constant  sum of the logs of factors over no free variable.
    """

    states: Array
    place: Array
    single: dict[tuple[int, int], Array]
    above: dict[tuple[int, int], Array]
    left: dict[tuple[int, int], Array]
    constant: float


@dataclass
class FrontierState:
    """Tables at the ends of rows (R + 1, largest), their log scales, β, marginals of cells and of pairs (padded), and the rows done.

    The first table has one cell, which is 1, or 0 in logarithms.
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
        """True if the tables are logarithms."""
        return bool(self.ends[0, 0] == 0)


def find_swept_lattice(network: Network) -> SweptLattice | str:
    """Return the lattice of a network, swept along its longer side, or the reason in words if it is not a lattice."""
    place = lattice_detection.find_lattice_layout(network)
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
                return f"needs factors that join only neighbours on the grid, but {network.describe_factor(a)} joins others"
            first, second = sorted(cells)
            kind = above if first[1] == second[1] else left
            kind[second] = kind.get(second, 0.0) + (logs if cells[0] == first else logs.T)
    return SweptLattice(network.cardinality[place], place, single, above, left, constant)


class Frontier(Stepwise[FrontierState]):
    """The algorithm `frontier`: each step is a row, first forward and then backward."""

    state = FrontierState

    def __init__(self, network: Network, settings: InferenceSettings) -> None:
        found = find_swept_lattice(network)
        if isinstance(found, str):
            raise BadUsage(f"--algorithm frontier {found}", hint="use --algorithm junction-tree")
        self.lattice = found
        self.rows, self.columns = found.states.shape
        self.steps = 2 * self.rows
        self.sizes = [math.prod(row) for row in found.states.tolist()]
        self.made = [self._row_table_sizes(r) for r in range(self.rows)]
        self.largest = self._largest_table_cells()
        self.words = self.bytes_needed(None)[1]
        self.tables: list[Array] = []  # work space for the tables of a row, reused; no state refers to it between two steps

    def bytes_needed(self, state: FrontierState | None) -> tuple[int, str]:
        """Return the bytes that are needed, and their purpose.

        Before the third row these are the tables at the ends of all rows, the tables of one row, and temporary ones; later, those that the
        backward pass adds.
        """
        cells = self._largest_table_cells()
        tables = self.columns + 2
        if state is None or state.step < 2:
            tables += self.rows + 4
        elif state.step > self.rows:
            tables = 4
        return 8 * cells * tables, f"the frontier sweep, 2^{math.log2(cells):.1f} cells a table,"

    def memory(self) -> int:
        """Return all the bytes that are needed; 0 if `init` refuses the tables in any case."""
        return 0 if self._largest_table_cells() > MOST_CELLS else self.bytes_needed(None)[0]

    def progress(self, state: FrontierState) -> RunProgress:
        """Return the steps done and their share of the work; the work of a row is the number of cells of its tables."""
        steps = super().progress(state)
        cells = np.array([sum(row) for row in self.made], dtype=np.float64)
        work = np.concatenate((cells, BACK * cells[::-1]))
        return RunProgress(steps.step, steps.bound, steps.figure, float(work[: state.step].sum() / work.sum()))

    def _largest_table_cells(self) -> int:
        """Return the number of cells of the largest table."""
        most: int = max(*self.sizes, *map(max, self.made))
        return most

    def _row_table_sizes(self, r: int) -> list[int]:
        """Return the number of cells of each table of row r."""
        now: list[int] = self.lattice.states[r].tolist()
        before: list[int] = self.lattice.states[r - 1].tolist() if r else [1] * self.columns
        return [math.prod([*now[: c + 1], *before[c + 1 :]]) for c in range(self.columns)]

    def init(self) -> FrontierState:
        """Return the state before the first row.  Raises DataError for tables that are too large for any machine."""
        cells = self._largest_table_cells()
        if cells > MOST_CELLS:
            hint = "use an approximation: --algorithm bp or ups"
            raise DataError(
                f"--algorithm frontier handles tables of at most 2^27 cells, but this lattice needs 2^{math.log2(cells):.1f}", hint=hint
            )
        return self._empty_state(logs=False)

    def _empty_state(self, logs: bool) -> FrontierState:
        K, shape = int(self.lattice.states.max()), self.lattice.states.shape
        ends = np.full((self.rows + 1, max(self.sizes)), -np.inf if logs else 0.0)
        ends[0, 0] = 0.0 if logs else 1.0
        single, pair = np.zeros((*shape, K)), np.zeros((*shape, K, K))
        return FrontierState(ends, np.zeros(self.rows + 1), np.empty(0), single, pair, pair.copy(), 0)

    def step(self, state: FrontierState) -> FrontierState:
        """Process the next row, forward or backward; begin again in logarithms if float64 underflows."""
        if state.step < self.rows:
            r = state.step
            tables = self._forward_row_tables(state, r, 2)
            if tables is None:
                return self._empty_state(logs=True)
            *_, (table, scale) = tables
            state.ends[r + 1, : table.size] = table.ravel()
            state.scale[r + 1] = state.scale[r] + scale
            if not np.isfinite(state.scale[r + 1]):
                raise NegativeResult(IMPOSSIBLE)
        elif not self._process_backward_row(state, 2 * self.rows - 1 - state.step):
            return self._empty_state(logs=True)
        state.step += 1
        return state

    def _reused_array(self, at: int, rows: int, columns: int) -> Array:
        """Return a (rows, columns) array to be overwritten, in the memory that is reused for table `at`."""
        while len(self.tables) <= at:
            self.tables.append(np.empty(self.largest))
        return self.tables[at][: rows * columns].reshape(rows, columns)

    def _forward_row_tables(self, state: FrontierState, r: int, last: int) -> list[tuple[Array, float]] | None:
        """Compute α after each cell of row r, with axes (next to be removed, …, new), and log scales since the row's start.

        The first entry is the table before the row.  Only those of the `last` cells are valid; the memory of earlier ones is overwritten.
        Returns None if a table underflows.
        """
        size = self.sizes[r - 1] if r else 1
        made = [(state.ends[r, :size], 0.0)]
        for c in range(self.columns):
            table, scale = made[-1]
            above, beside, level = self._cell_matrices(r, c, state.logs)
            if state.logs:
                # α_t(rest, x) = φ(x) h(left, x) Σ_u α_{t−1}(u, rest) v(u, x): the cell above, u, is the first axis and is summed over; x
                # comes last, next to its left neighbour, so that φ h multiplies the last two axes.  The scale includes the constants
                # divided out of tables and factors.
                grown = _log_matrix_product(table.reshape(len(above), -1).T, above)
                grown = (grown.reshape(-1, beside.size) + beside.ravel()).ravel()
                top = float(grown.max())
                made.append((grown - top if top > -np.inf else grown, scale + top))
                continue
            rest = table.size // len(above)
            grown = self._reused_array(c % last, rest, above.shape[1])
            np.matmul(table.reshape(len(above), rest).T, above, out=grown)
            _multiply_rows(grown.reshape(-1, beside.size), beside.ravel())
            top = float(grown.max())
            if top < LEAST_TOP:
                return None
            grown *= 1 / top
            made.append((grown.ravel(), scale + math.log(top) + level))
        return made

    def _cell_matrices(self, r: int, c: int, logs: bool) -> tuple[Array, Array, float]:
        """Return v (u, x), and φ(x) h(left, x) with one row if there is no left neighbour, and the log of the constant divided out.

        Both are logarithms if `logs`, otherwise scaled to maximum 1.
        """
        states = int(self.lattice.states[r, c])
        over = int(self.lattice.states[r - 1, c]) if r else 1
        beside = int(self.lattice.states[r, c - 1]) if c else 1
        above = np.broadcast_to(self.lattice.above.get((r, c), np.zeros((1, 1))), (over, states))
        left = np.broadcast_to(self.lattice.left.get((r, c), np.zeros((1, 1))), (beside, states)) + self.lattice.single[r, c]
        tops = [float(part.max()) for part in (above, left)]
        if logs or -np.inf in tops:
            return (above, left, 0.0) if logs else (np.exp(above), np.exp(left), 0.0)
        return np.exp(above - tops[0]), np.exp(left - tops[1]), sum(tops)

    def _process_backward_row(self, state: FrontierState, r: int) -> bool:
        """Compute β before row r from β after it, and the marginals of the row's cells and pairs; return False if float64 underflows."""
        if not state.beta.size:
            state.beta = np.zeros(self.sizes[r]) if state.logs else np.ones(self.sizes[r])
        # α of this row's cells, computed again from the row's start, meets β from behind.
        tables = self._forward_row_tables(state, r, self.columns)
        if tables is None:
            return False
        for c in range(self.columns - 1, -1, -1):
            above, beside, _ = self._cell_matrices(r, c, state.logs)
            # P(left, x) ∝ Σ_rest α_t β_t, P(u, x) ∝ Σ_rest α_{t−1}(u, rest) v(u, x) φ h β_t(rest, x), and β_{t−1}(u, rest) = Σ_x v(u, x) φ
            # h β_t(rest, x): the last two use β multiplied by φ h once.  α_t includes φ h, so the first does not multiply by it.
            after, before = tables[c + 1][0], tables[c][0].reshape(len(above), -1)
            if state.logs:
                pair = log_sum_exp((after + state.beta).reshape(-1, *beside.shape), (0,))
                pair = np.exp(pair - pair.max())
                coming = (state.beta.reshape(-1, beside.size) + beside.ravel()).reshape(-1, above.shape[1])
                up = np.stack([log_sum_exp(before + coming[:, x], (1,)) for x in range(above.shape[1])], axis=1) + above
                up = np.exp(up - up.max())
                beta = _log_matrix_product(coming, above.T).T
                state.beta = (beta - beta.max()).ravel()
            else:
                pair = np.einsum("ij,ij->j", after.reshape(-1, beside.size), state.beta.reshape(-1, beside.size)).reshape(beside.shape)
                _multiply_rows(state.beta.reshape(-1, beside.size), beside.ravel())
                coming = state.beta.reshape(-1, above.shape[1])
                up = (before @ coming) * above
                # The last table of a row belongs to the state.
                made = self._reused_array(self.columns + c % 2, len(above), len(coming)) if c else None
                state.beta = np.matmul(above, coming.T, out=made).ravel()
                top = float(state.beta.max())
                if pair.sum() < LEAST_SUM or top < LEAST_TOP:
                    return False
                state.beta *= 1 / top
            self._store_marginals(state, r, c, pair / pair.sum(), up / up.sum())
        return True

    def _store_marginals(self, state: FrontierState, r: int, c: int, pair: Array, up: Array) -> None:
        states = int(self.lattice.states[r, c])
        state.single[r, c, :states] = pair.sum(axis=0)
        state.left[r, c, : len(pair), :states] = pair
        state.above[r, c, : len(up), :states] = up

    def result(self, state: FrontierState) -> InferenceResult:
        """Return all marginals and log Z."""
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
        log_z = lattice.constant + float(state.scale[self.rows]) + self._log_total(state)
        return InferenceResult(nodes, cliques, {"log_z": log_z, "free_energy": -log_z, "iterations": state.step})

    def _log_total(self, state: FrontierState) -> float:
        """Return the log of the sum of the last table."""
        table = state.ends[self.rows, : self.sizes[-1]]
        return float(log_sum_exp(table, (0,))) if state.logs else math.log(float(table.sum()))


def _multiply_rows(table: Array, factor: Array) -> None:
    """Multiply each row of a table (n, k) by the same (k,), in place.

    Many short rows are multiplied together, which is several times as fast.
    """
    whole = len(table) // WIDE * WIDE
    wide = table[:whole].reshape(-1, WIDE * len(factor))
    wide *= np.tile(factor, WIDE)
    table[whole:] *= factor


def _log_matrix_product(left: Array, right: Array) -> Array:
    """Compute log(exp(left) @ exp(right)), left (n, k), right (k, m)."""
    columns = []
    for j in range(right.shape[1]):
        total = left[:, 0] + right[0, j]
        for i in range(1, len(right)):
            total = np.logaddexp(total, left[:, i] + right[i, j])
        columns.append(total)
    return np.stack(columns, axis=1)
