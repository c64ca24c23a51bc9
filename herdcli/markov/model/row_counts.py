"""Counts of rows, which are all that learning needs, block by block, so that each process can count its own rows.

A block is 4,096 rows, beginning at row 0; its training rows are counted.  The counts of blocks are added in the fixed tree of
`numerics.block_statistics`.  A block knows only the states in its rows: counts are enlarged if another block has more states.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import DataError
from herdcli.markov.model.network import Network
from herdcli.numerics.block_statistics import BlockSource
from herdcli.numerics.block_units import PartialState, UnitRun, map_blocks_in_order
from herdcli.records import dataclass
from herdcli.schema import Array, array
from herdcli.shards import Shard

Scope = tuple[int, ...]


@dataclass(frozen=True)
class RowTally:
    """Counts of some rows; training rows are counted by their weight.

    rows   number of training rows.
    mass   total weight of the training rows.
    cells  counts of the clusters of more than two variables, concatenated.
    """

    rows: int
    mass: float
    states: Array = array("N", "states of each variable that have been seen: those below it", kind="i", low=1, high=256)
    table: Array = array("S S", "counts of all pairs of states", kind="f", finite=True)
    cells: Array = array("T", "counts of the states of larger clusters", kind="f", finite=True)
    values: Array = array("v", "up to three of the values that rows had before they were states", kind="f", finite=True)
    holdout: Array = array("h N", "states of rows that are not learned from", kind="u")
    holdout_split: Array = array("h", "1 valid, 2 test", kind="u", low=1, high=2)


@dataclass(frozen=True, kw_only=True)
class CountsShard(Shard):
    """Counts of some of the units, with the attributes that all shards of a run must share.

    cut              the threshold: values at or above it are the second of two states.  NaN if the rows hold states already.
    given            True if the file declares its units, and with them the only two values that are allowed.
    scopes, regions  lists of clusters, as JSON.
    """

    parts: list[RowTally]
    scopes: str
    regions: str = "[]"
    cut: float = float("nan")
    given: bool = False
    names: list[str] | None = None
    states: list[str] | None = None
    limits: Array | None = array("2", "lowest and highest value, as declared", kind="f", optional=True)
    shape: Array | None = array("2", "rows and columns of a lattice", kind="iu", optional=True)
    base: Network | None = None
    cardinality: Array | None = array("N", "states of each variable, where they have names", kind="i", low=1, high=256, optional=True)

    def validate(self) -> None:
        """Raise DataError if the shard is invalid, or if tables do not match the numbers of states."""
        super().validate()
        for part in self.parts:
            if part.rows < 0 or not 0 <= part.mass < np.inf:
                raise DataError(f"is damaged: the number of counted rows is {part.rows} and their weight {part.mass:g}")
            if len(part.table) != int(part.states.sum()):
                raise DataError(f"is damaged: its table has {len(part.table)} states, but its variables have {int(part.states.sum())}")
            if len(part.holdout) and (part.holdout >= part.states).any():
                raise DataError("is damaged: a held-out row has a state number that is out of range")
        variables = {len(part.states) for part in self.parts} or {len(self.names or ())}
        if len(variables) > 1:
            raise DataError(f"is damaged: some counts are for {min(variables)} variables and others for {max(variables)}")
        for name in ("scopes", "regions"):
            _read_scopes(name, getattr(self, name), max(variables))
        if np.isinf(self.cut):
            raise DataError(f"is damaged: the threshold is {self.cut}, but must be finite")

    @property
    def named_scopes(self) -> list[Scope] | None:
        """The named clusters, None if the structure is found from all counts."""
        return _read_scopes("scopes", self.scopes, None)

    @property
    def named_regions(self) -> list[Scope]:
        """The named regions."""
        return _read_scopes("regions", self.regions, None) or []


def _read_scopes(name: str, text: str, variables: int | None) -> list[Scope] | None:
    """Parse sets of variables from JSON.  Raises DataError for invalid JSON, and for variables out of range."""
    try:
        found = json.loads(text)
        scopes = None if found is None else [tuple(scope) for scope in found]
        plain = all(type(i) is int and i >= 0 and (variables is None or i < variables) for scope in scopes or () for i in scope)
    except (ValueError, TypeError, RecursionError):
        plain = False
    if not plain:
        raise DataError(f"the attribute '{name}' is not a list of sets of variable indices")
    return scopes


@dataclass(frozen=True)
class StateBlock:
    """Rows of a block as states x (m, N), their splits, their weights, and the values (m, N) that became states, if they were others."""

    x: Array
    split: Array
    weight: Array | None = None
    original: Array | None = None


def count_block_rows(block: StateBlock, scopes: Sequence[Scope]) -> RowTally:
    """Count the rows of a block."""
    train = block.split == 0
    x, weight = block.x[train], None if block.weight is None else np.asarray(block.weight, dtype=np.float64)[train]
    states = block.x.max(axis=0).astype(np.int64) + 1
    offset = np.concatenate(([0], np.cumsum(states)))
    # Counts up to 4,096 are exact in float32; weights are not.
    hot = np.zeros((len(x), int(offset[-1])), dtype=np.float32 if weight is None else np.float64)
    hot[np.arange(len(x))[:, None], x + offset[:-1]] = 1.0
    table = ((hot if weight is None else hot * weight[:, None]).T @ hot).astype(np.float64)
    cells = [_count_cells(x, weight, scope, states) for scope in scopes]
    held = (block.split == 1) | (block.split == 2)
    return RowTally(
        rows=len(x),
        mass=float(len(x)) if weight is None else float(weight.sum()),
        states=states,
        table=table,
        cells=np.concatenate([*cells, np.zeros(0)]),
        values=_some_values(block.original),
        holdout=block.x[held].astype(np.uint8),
        holdout_split=block.split[held].astype(np.uint8),
    )


def _some_values(original: Array | None) -> Array:
    """Return the least, the largest, and one other of the values (m, N), as far as there are so many."""
    if original is None:
        return np.empty(0)
    low, high = float(original.min()), float(original.max())
    inside = (original > low) & (original < high)
    between = original.flat[[inside.argmax()]] if inside.any() else original.flat[:0]
    return np.unique([low, high, *between]).astype(np.float64)


def _count_cells(x: Array, weight: Array | None, scope: Scope, states: Array) -> Array:
    shape = [int(states[i]) for i in scope]
    index = np.ravel_multi_index([x[:, i] for i in scope], shape)
    return np.bincount(index, weight, int(np.prod(shape))).astype(np.float64)


def widen_tally_states(tally: RowTally, states: Array, scopes: Sequence[Scope]) -> RowTally:
    """Return the same counts with more states per variable."""
    if np.array_equal(tally.states, states):
        return tally
    offset = np.cumsum(states) - states
    places = np.concatenate([start + np.arange(count) for start, count in zip(offset.tolist(), tally.states.tolist(), strict=True)])
    table = np.zeros((int(states.sum()),) * 2)
    table[np.ix_(places, places)] = tally.table
    cells = []
    for scope, counts in zip(scopes, cluster_counts(tally, scopes), strict=True):
        wide = np.zeros([int(states[i]) for i in scope])
        wide[tuple(slice(count) for count in counts.shape)] = counts
        cells.append(wide.ravel())
    return replace(tally, states=states, table=table, cells=np.concatenate([*cells, np.zeros(0)]))


def cluster_counts(tally: RowTally, scopes: Sequence[Scope]) -> list[Array]:
    """Return the counts of each scope, one axis per variable."""
    shapes = [[int(tally.states[i]) for i in scope] for scope in scopes]
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)]).tolist()
    if ends[-1] != len(tally.cells):
        raise DataError(f"is damaged: the clusters have {ends[-1]} joint states, but there are {len(tally.cells)} counts")
    return [tally.cells[first:last].reshape(shape) for (first, last), shape in zip(pairwise(ends), shapes, strict=True)]


def add_tallies(tally: RowTally, right: RowTally, scopes: Sequence[Scope]) -> RowTally:
    """Add the counts of `tally` and `right`; rows of `tally` come first."""
    states = np.maximum(tally.states, right.states)
    a, b = widen_tally_states(tally, states, scopes), widen_tally_states(right, states, scopes)
    values = np.unique(np.concatenate([a.values, b.values]))
    return RowTally(
        a.rows + b.rows,
        a.mass + b.mass,
        states,
        a.table + b.table,
        a.cells + b.cells,
        values if len(values) <= 3 else values[[0, 1, -1]],
        np.concatenate([a.holdout, b.holdout]),
        np.concatenate([a.holdout_split, b.holdout_split]),
    )


def sum_tallies(parts: Iterable[RowTally], scopes: Sequence[Scope]) -> RowTally:
    """Add all parts in the fixed tree: neighbours of equal size first, and at the end from small parts to large ones."""
    sizes, held = list[int](), list[RowTally]()
    for part in parts:
        size = 1
        while sizes and sizes[-1] == size:
            part, size = add_tallies(held.pop(), part, scopes), 2 * sizes.pop()
        sizes.append(size)
        held.append(part)
    found = held.pop()
    while held:
        found = add_tallies(held.pop(), found, scopes)
    return found


@dataclass
class CountingState(PartialState):
    """The units counted so far."""

    parts: list[RowTally]


@dataclass(frozen=True)
class Counting(UnitRun[CountingState]):
    """An algorithm that counts the units of these numbers, one unit per step."""

    source: BlockSource
    scopes: tuple[Scope, ...]
    map: Map = map
    state = CountingState  # the type of its states

    def part(self, own: range) -> RowTally:
        """Count the rows of one unit."""
        return sum_tallies(map_blocks_in_order(self.source, own, count_block_rows, self.scopes, self.map, self.layout.at_once), self.scopes)


@dataclass(frozen=True)
class Counts:
    """All training rows as counts; an alternative to `constraints.StateRows`.

    known  larger clusters, by their variables.
    """

    count: int
    mass: float
    cardinality: Array
    table: Array
    known: dict[frozenset[int], tuple[Scope, Array]]

    def empirical_marginal(self, scope: Scope, shape: Sequence[int], smoothing: float = 0.0) -> Array:
        """Return the empirical marginal, mixed with a uniform distribution that counts as `smoothing` rows."""
        p = self._scope_counts(scope) / self.mass
        share = smoothing / (self.count + smoothing)
        mixed: Array = ((1 - share) * p + share / p.size).reshape(shape)
        return mixed

    def empirical_pair_table(self, cardinality: Array) -> Array:
        """Return the probabilities (Σ card, Σ card) of all pairs of states."""
        if not np.array_equal(cardinality, self.cardinality):
            raise ValueError("counts are of other variables")
        return self.table / self.mass

    def _scope_counts(self, scope: Scope) -> Array:
        ends = np.cumsum(self.cardinality)
        parts = [slice(int(ends[i] - self.cardinality[i]), int(ends[i])) for i in scope]
        if len(scope) == 1:
            return np.diag(self.table[parts[0], parts[0]])
        if len(scope) == 2:
            return self.table[parts[0], parts[1]]
        own, found = self.known[frozenset(scope)]
        return found.transpose([own.index(i) for i in scope])

    def mean_log_potential(self, network: Network) -> float:
        """Return the weighted mean of Σ log f_a(x_a) over rows; −∞ if a factor is 0 for one of them."""
        total = 0.0
        for scope, table in network.factors():
            # The mean over rows of log f_a(x_a) is the sum over the states of a of their share of the rows times log f_a.  States that no
            # row has contribute nothing, whatever f_a is.
            share = self._scope_counts(scope) / self.mass if scope else np.ones(())
            with np.errstate(divide="ignore"):
                logs = np.log(table)
            total += float(share[share > 0] @ logs[share > 0])
        return total


def restrict_tally(tally: RowTally, allowed_states: Sequence[Array], scopes: Sequence[Scope]) -> RowTally:
    """Return the counts restricted to these states of each variable, in order."""
    states = np.array([len(own) for own in allowed_states], dtype=np.int64)
    places = np.concatenate(
        [start + own for start, own in zip((np.cumsum(tally.states) - tally.states).tolist(), allowed_states, strict=True)]
    )
    cells = [
        counts[np.ix_(*(allowed_states[i] for i in scope))].ravel()
        for scope, counts in zip(scopes, cluster_counts(tally, scopes), strict=True)
    ]
    rows = [np.searchsorted(own, column) for own, column in zip(allowed_states, tally.holdout.T, strict=True)]
    return replace(
        tally, states=states, table=tally.table[np.ix_(places, places)], cells=np.concatenate([*cells, np.zeros(0)]),
        holdout=np.column_stack(rows).astype(np.uint8) if len(tally.holdout) else tally.holdout,
    )  # fmt: skip


def observed_states(tally: RowTally) -> list[Array]:
    """Return the states of each variable that occur in a row; always both states of a binary variable."""
    ends, there = np.cumsum(tally.states), np.diag(tally.table) > 0
    found = []
    for end, count, column in zip(ends.tolist(), tally.states.tolist(), tally.holdout.T, strict=True):
        own = np.union1d(np.flatnonzero(there[end - count : end]), np.unique(column))
        found.append(own if own.max(initial=0) > 1 else np.arange(count))
    return found


def join_counts(parts: Sequence[RowTally], scopes: Sequence[Scope], *, min_states: int | Array = 2) -> tuple[Counts, RowTally]:
    """Return the counts of all units, and their sum with the rows kept for evaluation.  Raises DataError if nothing was counted.

    min_states  smallest number of states of a variable.
    """
    whole = _join_tallies(parts, scopes, min_states)
    return _tally_to_counts(whole, scopes), whole


def join_seen_code_counts(parts: Sequence[RowTally], scopes: Sequence[Scope]) -> tuple[Counts, RowTally, list[Array] | None]:
    """Return the results of `join_counts` for variables whose states are codes; codes that occur in no row are dropped.

    The third result holds the codes of each variable that were kept; it is None if none was dropped.
    """
    whole = _join_tallies(parts, scopes, 2)
    kept = observed_states(whole)
    if all(len(own) == count for own, count in zip(kept, whole.states.tolist(), strict=True)):
        return _tally_to_counts(whole, scopes), whole, None
    whole = restrict_tally(whole, kept, scopes)
    return _tally_to_counts(whole, scopes), whole, kept


def _join_tallies(parts: Sequence[RowTally], scopes: Sequence[Scope], min_states: int | Array) -> RowTally:
    whole = sum_tallies(parts, scopes)
    if not whole.rows:
        raise DataError("there are no training rows", hint="make a new split: --split .8,.1,.1")
    if not whole.mass > 0:
        raise DataError("all training rows have weight 0")
    return widen_tally_states(whole, np.maximum(whole.states, min_states), scopes)


def _tally_to_counts(tally: RowTally, scopes: Sequence[Scope]) -> Counts:
    known = {frozenset(scope): (scope, found) for scope, found in zip(scopes, cluster_counts(tally, scopes), strict=True)}
    return Counts(tally.rows, tally.mass, tally.states, tally.table, known)
