"""Marginals under many sets of evidence together: the row number is one more variable, and one junction tree computes all rows.

Each variable is joined to the row variable by a factor that is 1 for the states that its evidence allows.  So every clique contains
the row variable, which is eliminated last.  The joint marginal of a variable and the row variable has the results for all rows
(`row_propagation`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import DataError
from herdcli.markov.exact import cliques
from herdcli.markov.exact.row_propagation import propagate_rows
from herdcli.markov.exact.table_arithmetic import SLABS
from herdcli.markov.method import Stepwise
from herdcli.markov.model import possible_states
from herdcli.markov.model.network import MOST_AXES, Network
from herdcli.records import dataclass
from herdcli.schema import Array, array, require_equal_lengths
from herdcli.shards import Shard

BLOCK = 1 << 22  # limit of table cells of all cliques, for the rows processed at once


@dataclass
class BatchState:
    """Marginals (rows, Σ card) and log Z of each row, filled block by block."""

    marginals: Array
    log_z: Array
    step: int


@dataclass(frozen=True)
class BlockResults:
    """The results for the rows of one block; NaN and −∞ for impossible rows."""

    marginals: Array = array("n P", "marginals of all variables", kind="f")
    log_z: Array = array("n", "log Z of each row", kind="f")


@dataclass(frozen=True)
class MarginalColumns:
    """The names of the columns of marginals, and the number of variables."""

    names: list[str]
    variables: int


@dataclass(frozen=True, kw_only=True)
class EvidenceRowsShard(Shard):
    """The results of some blocks of rows."""

    parts: list[BlockResults]
    rest: MarginalColumns | None = None

    def validate(self) -> None:
        """Raise DataError if the shard is invalid, or if its marginals do not match the column names."""
        super().validate()
        require_equal_lengths(self.parts, ("P",))
        if self.rest is not None and self.parts and len(self.rest.names) != self.parts[0].marginals.shape[1] + 1:  # log Z is the last
            raise DataError(f"has {self.parts[0].marginals.shape[1] + 1} columns of results, but {len(self.rest.names)} column names")


class EvidenceBatch(Stepwise[BatchState]):
    """Evidence (rows, columns) on some variables, as states, −1 for none; each step processes a block of rows.

    count  number of blocks of all rows.
    own    numbers of the blocks to process, by default all.
    """

    state = BatchState

    def __init__(self, network: Network, variables: list[int], evidence: Array, *, orders: int, seed: int, map: Map = map) -> None:
        self.map = map
        self.network, self.variables, self.evidence = network, variables, evidence
        for column, i in enumerate(variables):
            wrong = (evidence[:, column] < -1) | (evidence[:, column] >= network.cardinality[i])
            if wrong.any():
                row = int(np.argmax(wrong))
                states = int(network.cardinality[i])
                raise DataError(
                    f"row {row} gives {network.name(i)} the state {evidence[row, column]}, but its states are 0 to {states - 1} (−1: "
                    "unknown)"
                )
        self.trimmed = possible_states.remove_impossible_states(network)
        found = cliques.search_elimination_orders(self.trimmed.network, seed, orders)
        self.order, self.width, self.cells, self.messages = found.order, found.width, max(1.0, found.cells), found.messages
        self.possible = found.complete and found.width + 2 <= MOST_AXES
        self.rows = max(1, min(len(evidence), int(BLOCK / self.cells)))
        self.count = -(-len(evidence) // self.rows)
        self.own: Sequence[int] = range(self.count)
        self.steps = self.count

    def part(self, own: Sequence[int]) -> EvidenceBatch:
        """Return the same algorithm for these blocks only."""
        made = copy(self)
        made.own, made.steps = own, len(own)
        return made

    def memory(self) -> int:
        """Return the bytes of the tables of a block of rows."""
        return self.bytes_needed()[0]

    def bytes_needed(self) -> tuple[int, str]:
        """Return the bytes of the tables of a block of rows, with a description."""
        numbers = 2 * self.messages + min(3 * self.cells, SLABS / self.rows) + 4 * float(self.network.cardinality.sum())
        size = 8.0 * numbers * self.rows if self.possible else 2.0**60
        return int(min(size, 2.0**60)), f"the junction tree, treewidth {self.width} and 2^{math.log2(self.cells):.1f} table cells a row,"

    def init(self) -> BatchState:
        """Return the state before the first row."""
        rows = sum(len(self._block_evidence(block)) for block in self.own)
        return BatchState(np.empty((rows, int(self.network.cardinality.sum()))), np.empty(rows), 0)

    def _block_evidence(self, block: int) -> Array:
        rows: Array = self.evidence[block * self.rows : (block + 1) * self.rows]
        return rows

    def step(self, state: BatchState) -> BatchState:
        """Process the next block of rows."""
        block = self._block_evidence(self.own[state.step])
        column = {i: k for k, i in enumerate(self.variables)}
        allowed = []
        for i, states in enumerate(self.trimmed.network.cardinality.tolist()):
            possible = np.ones((states, len(block)), dtype=bool)
            if i in column:
                given = block[:, column[i]]
                possible = (given == self._possible_states(i)[:, None]) | (given == -1)
            allowed.append(possible)
        found = propagate_rows(self.trimmed.network, self.order, allowed, map=self.map, allow_impossible=True)
        rows = slice(state.step * self.rows, state.step * self.rows + len(block))
        state.marginals[rows] = np.concatenate(self._expand_marginals(found.marginals)).T
        state.log_z[rows] = found.log_z
        state.step += 1
        return state

    def _possible_states(self, i: int) -> Array:
        """Return the states of a variable that the zeros leave possible."""
        if self.trimmed.kept is None:
            return np.arange(int(self.network.cardinality[i]))
        return np.flatnonzero(self.trimmed.kept[i])

    def _expand_marginals(self, marginals: list[Array]) -> list[Array]:
        """Expand the marginals (states, rows) of each variable to all its states."""
        made = [np.zeros((int(states), p.shape[1])) for states, p in zip(self.network.cardinality, marginals, strict=True)]
        for i, (whole, p) in enumerate(zip(made, marginals, strict=True)):
            whole[self._possible_states(i)] = p
            whole[:, np.isnan(p).any(axis=0)] = np.nan
        return made

    def result(self, state: BatchState) -> list[BlockResults]:
        """Return the finished blocks."""
        cuts = [self.rows * (place + 1) for place in range(self.steps - 1)]
        return [BlockResults(*parts) for parts in zip(np.split(state.marginals, cuts), np.split(state.log_z, cuts), strict=True)]
