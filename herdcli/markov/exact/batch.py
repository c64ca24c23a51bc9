"""Marginals under many sets of evidence at once: the rows are one variable more, and one junction tree answers for all.

Each variable is joined to the row variable by a factor that is 1 for the states its evidence allows, so that every clique holds
the row variable, which is eliminated last; the marginal of a variable and the row variable, row by row, is the answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy

import numpy as np

from herdcli.errors import DataError, NegativeResult
from herdcli.markov.exact import cliques, junction_tree
from herdcli.markov.exact.junction_tree import log_sum
from herdcli.markov.method import Stepwise
from herdcli.markov.model.network import MOST_AXES, Factor, Network, build, reduced
from herdcli.records import dataclass
from herdcli.schema import Array, array
from herdcli.shards import Shard

BLOCK = 1 << 22  # table cells of all cliques, for the rows taken at once


@dataclass
class State:
    """Marginals (rows, Σ card) and log Z of each row, filled block by block."""

    marginals: Array
    log_z: Array
    step: int


@dataclass(frozen=True)
class Answers:
    """Of the rows of one block."""

    marginals: Array = array("n P", "marginals of all variables", kind="f")
    log_z: Array = array("n", "log Z of each row", kind="f")


@dataclass(frozen=True)
class Columns:
    """What the columns of marginals are."""

    names: list[str]
    variables: int


@dataclass(frozen=True, kw_only=True)
class RowsShard(Shard):
    """Some blocks of rows."""

    parts: list[Answers]
    rest: Columns | None = None


class Batch(Stepwise[State]):
    """Evidence (rows, columns) as states, −1 where there is none, of some variables; a step is a block of rows.

    count  blocks of all rows.  own  numbers of those to be done, all unless a part is taken.
    """

    state = State

    def __init__(self, network: Network, variables: list[int], evidence: Array, *, orders: int, seed: int) -> None:
        self.network, self.variables, self.evidence = network, variables, evidence
        for column, i in enumerate(variables):
            wrong = (evidence[:, column] < -1) | (evidence[:, column] >= network.cardinality[i])
            if wrong.any():
                row = int(np.argmax(wrong))
                states = int(network.cardinality[i])
                raise DataError(f"row {row} gives {network.name(i)} the state {evidence[row, column]}, it has 0 to {states - 1}, or −1")
        found = cliques.search(network, seed, orders)
        self.order, self.width, self.cells = found.order, found.width, max(1.0, found.cells)
        self.possible = found.complete and found.width + 2 <= MOST_AXES
        self.rows = max(1, min(len(evidence), int(BLOCK / self.cells)))
        self.count = -(-len(evidence) // self.rows)
        self.own: Sequence[int] = range(self.count)
        self.steps = self.count

    def part(self, own: Sequence[int]) -> Batch:
        """The same for these blocks alone."""
        made = copy(self)
        made.own, made.steps = own, len(own)
        return made

    def memory(self) -> int:
        """Bytes of the tables of a block of rows."""
        return self.bytes_needed()[0]

    def bytes_needed(self) -> tuple[int, str]:
        """Of the tables of a block of rows."""
        size = 40.0 * self.cells * self.rows if self.possible else 2.0**60
        return int(min(size, 2.0**60)), f"the junction tree, treewidth {self.width} and 2^{math.log2(self.cells):.1f} table cells a row,"

    def init(self) -> State:
        """No row done."""
        rows = sum(len(self._evidence_of(block)) for block in self.own)
        return State(np.empty((rows, int(self.network.cardinality.sum()))), np.empty(rows), 0)

    def _evidence_of(self, block: int) -> Array:
        rows: Array = self.evidence[block * self.rows : (block + 1) * self.rows]
        return rows

    def step(self, state: State) -> State:
        """The next block of rows."""
        start = self.own[state.step] * self.rows
        block = self._evidence_of(self.own[state.step])
        count, last = len(block), self.network.count
        column = {i: k for k, i in enumerate(self.variables)}
        factors: list[Factor] = []
        for i, states in enumerate(self.network.cardinality.tolist()):
            table = np.ones((states, count))
            if i in column:
                given = block[:, column[i]]
                table = ((given == np.arange(states)[:, None]) | (given == -1)).astype(np.float64)
            factors.append(((i, last), table))
        whole = build(
            [*self.network.cardinality.tolist(), count], [*factors, *(reduced(self.network, factor) for factor in self.network.factors())]
        )
        try:
            found = junction_tree.calibrate(whole, junction_tree.plan(whole, np.append(self.order, last), whole=True))
        except NegativeResult:
            raise _impossible(start) from None
        self._read(found, start, state)
        state.step += 1
        return state

    def _read(self, found: junction_tree.Calibrated, start: int, state: State) -> None:
        """Normalised row by row, in logarithms, as rows may differ by any factor."""
        rows = slice(state.step * self.rows, (state.step + 1) * self.rows)
        offset = np.concatenate(([0], np.cumsum(self.network.cardinality)))
        for scope, table in zip(found.tree.scopes[:-1], found.tables, strict=False):
            # The last axis is the row variable, the first the one that is eliminated here.  Σ over all else is P(x_i, evidence of
            # row r) for each r, whose sum over x_i is Z of the row; every clique gives the same, as each holds the row variable.
            logs = log_sum(table, tuple(range(1, table.ndim - 1)))
            top = logs.max(axis=0)
            if (top == -np.inf).any():
                raise _impossible(start + int(np.argmax(top == -np.inf)))
            p = np.exp(logs - top)
            i = scope[0]
            state.marginals[rows, offset[i] : offset[i + 1]] = (p / p.sum(axis=0)).T
            state.log_z[rows] = np.log(p.sum(axis=0)) + top

    def result(self, state: State) -> list[Answers]:
        """The finished blocks one by one."""
        cuts = [self.rows * (place + 1) for place in range(self.steps - 1)]
        return [Answers(*parts) for parts in zip(np.split(state.marginals, cuts), np.split(state.log_z, cuts), strict=True)]


def _impossible(row: int) -> NegativeResult:
    return NegativeResult(f"the evidence of row {row} has probability 0")
