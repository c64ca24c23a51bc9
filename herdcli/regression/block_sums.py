"""Sums of blocks of rows, from which `herdcli.regression.least_squares_sums` fits a regression.  Quick to import, for empty shards.

A block is 4,096 rows counted from row 0.  Its training rows are summed, in the fixed tree of `numerics.block_statistics`.  Rows enter as
u = (x − c, 1, y − offset − the pilot's prediction), with c the means and the pilot a fit of the first block.  So the sums lose no
digits where columns are far from 0 or the target is close to its prediction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import DataError
from herdcli.numerics import block_units
from herdcli.numerics.block_statistics import BlockSource
from herdcli.numerics.block_units import PartialState, UnitRun, map_blocks_in_order, select_evenly_spaced
from herdcli.records import dataclass
from herdcli.schema import Array, array, require_valid_weights
from herdcli.shards import Shard

ROBUST = 24  # products of four entries are summed for at most this many columns: 351² numbers
HELD = 100_000  # evaluation rows that stay with the model; of more rows, evenly spaced ones


@dataclass(frozen=True)
class RegressionBlock:
    """Rows from index `first` on: X (m, D), target and offset (m,), weights (m,), and split (m,), 0 for training.

    kept  the rows kept for evaluation, see `evaluation_mask`.
    """

    first: int
    X: Array
    y: Array
    offset: Array
    weight: Array | None
    split: Array
    kept: Array


@dataclass(frozen=True)
class PilotFit:
    """The centre and the preliminary fit that are subtracted from rows.  centre (D,); theta (D + 1,), the intercept at the centre last."""

    centre: Array
    theta: Array

    @classmethod
    def zeros(cls, columns: int) -> PilotFit:
        """Return the pilot of a process that has no rows: all 0."""
        return cls(np.zeros(columns), np.zeros(columns + 1))

    def product_entries(self, block: RegressionBlock) -> Array:
        """Return u (m, D + 2) of the rows of a block."""
        u = np.empty((len(block.X), block.X.shape[1] + 2))
        u[:, :-2] = block.X - self.centre
        u[:, -2] = 1.0
        u[:, -1] = block.y - block.offset - u[:, :-1] @ self.theta
        return u


@dataclass(frozen=True)
class PartialSums:
    """The sums of some training rows of positive weight, and the rows kept for evaluation."""

    rows: int
    second: Array = array("q q", "Σ w u u'", kind="f", finite=True)
    fourth: Array = array("t t", "Σ w² v v', of weights of frequency Σ w v v', v the products of two entries of u", kind="f", finite=True)
    X: Array = array("h D", "held-out rows", kind="f", finite=True)
    y: Array = array("h", "their target", kind="f", finite=True)
    offset: Array = array("h", "their offset", kind="f", finite=True)
    weight: Array = array("h", "their weights", kind="f", finite=True, low=0)
    split: Array = array("h", "1 valid, 2 test", kind="iu", low=1, high=2)
    logarithms: float = float("nan")  # Σ log w


@dataclass(frozen=True, kw_only=True)
class RegressionShard(Shard):
    """The sums of some units, and the fields that all shards of a run have in common.  weighted  whether rows have weights."""

    parts: list[PartialSums]
    target: str
    weighted: bool
    centre: Array = array("D", "what columns are centred at", kind="f", finite=True)
    pilot: Array = array("p", "coefficients of the pilot fit, the intercept last", kind="f", finite=True)
    names: list[str] | None = None
    weight_kind: str = "precision"

    def validate(self) -> None:
        """Raise DataError for an invalid shard, or for sums of other columns than its own."""
        super().validate()
        columns = len(self.centre)
        if len(self.pilot) != columns + 1 or (self.names is not None and len(self.names) != columns):
            raise DataError(f"has coefficients for {len(self.pilot) - 1} columns, but centres for {columns}")
        sizes = columns + 2, product_index_pairs(columns + 2)[0].size if columns <= ROBUST else 0
        for part in self.parts:
            if part.rows < 0:
                raise DataError(f"has sums over an impossible number of rows, {part.rows}")
            found = len(part.second), len(part.fourth)
            if found != sizes or part.X.shape[1] != columns:
                raise DataError(
                    f"has sums with {found[0]} and {found[1]} entries, expected {sizes[0]} and {sizes[1]} for {columns} columns"
                )


def product_index_pairs(entries: int) -> tuple[Array, Array]:
    """Return the indices a ≤ b, (t,) each, of the two entries of each product."""
    a, b = np.triu_indices(entries)
    return a, b


def fit_pilot(first_block: RegressionBlock) -> PilotFit:
    """Return the pilot fit of all rows of the first block, whatever their split."""
    from herdcli.regression.fit import solve_symmetric

    low, mean = first_block.X.min(axis=0), first_block.X.mean(axis=0)
    # a constant column minus its mean may leave a rounding error; minus its own value it is 0
    centre = np.where(low == first_block.X.max(axis=0), low, mean)
    columns, level = len(centre), (first_block.y - first_block.offset).mean()
    begun = PilotFit(centre, np.append(np.zeros(columns), level))
    if len(first_block.X) < 2 * (columns + 1):
        return begun
    u = begun.product_entries(first_block)
    gram = u.T @ u
    # This is least squares on the residuals r: (Z'Z)⁻¹ Z'r is added to the coefficients that gave r.
    return replace(begun, theta=begun.theta + solve_symmetric(gram[:-1, :-1], gram[:-1, -1]))


def sum_block(block: RegressionBlock, pilot: PilotFit, weight_kind: str = "precision") -> PartialSums:
    """Return the sums of a block.  Raises DataError for invalid weights and targets."""
    _check_block(block)
    train = (block.split == 0) & (True if block.weight is None else block.weight > 0)
    own = replace(block, X=block.X[train], y=block.y[train], offset=block.offset[train])
    u = pilot.product_entries(own)
    train_weight = None if block.weight is None else block.weight[train]
    weighted = u if train_weight is None else u * train_weight[:, None]
    size = 0
    if block.X.shape[1] <= ROBUST:
        a, b = product_index_pairs(u.shape[1])
        size = a.size
    fourth = np.zeros((size, size))
    if size:
        v = weighted[:, a] * u[:, b]
        # w equal rows have w times the products of one such row.
        fourth = v.T @ (v if weight_kind != "frequency" or train_weight is None else u[:, a] * u[:, b])
    held = block.kept & (True if block.weight is None else block.weight > 0)
    weight = np.ones(int(held.sum())) if block.weight is None else block.weight[held]
    logarithms = 0.0 if train_weight is None else float(np.log(train_weight).sum())
    return PartialSums(
        len(u), weighted.T @ u, fourth, block.X[held], block.y[held], block.offset[held], weight, block.split[held], logarithms
    )


def _check_block(block: RegressionBlock) -> None:
    if not np.isfinite(block.y).all():
        row = int(np.argmin(np.isfinite(block.y)))
        raise DataError(f"the target has {block.y[row]:g} in row {block.first + row}, but it must be finite")
    require_valid_weights(block.weight, some_positive=False)


def evaluation_mask(split: Array) -> Array:
    """Return a mask (n,) bool of the rows kept for evaluation: those of split 1 and 2, or HELD of them, evenly spaced."""
    found = np.zeros(len(split), dtype=bool)
    found[select_evenly_spaced((split == 1) | (split == 2), HELD)] = True
    return found


def add_partial_sums(parts: Iterable[PartialSums]) -> PartialSums:
    """Return the sum of all parts in their order, with sums in the fixed tree."""
    logarithms = list[float]()

    def watched() -> Iterable[PartialSums]:
        for each in parts:
            logarithms.append(each.logarithms)
            yield each

    sums, of = block_units.sum_part_fields(watched(), ("second", "fourth"), ("X", "y", "offset", "weight", "split"))
    joined = {name: np.concatenate(items) for name, items in of.items()}
    return PartialSums(int(sums["rows"][0]), sums["second"], sums["fourth"], **joined, logarithms=float(np.sum(logarithms)))


@dataclass
class SummationState(PartialState):
    """The sums of the units so far."""

    parts: list[PartialSums]


@dataclass(frozen=True)
class Summation(UnitRun[SummationState]):
    """The sums of the given units, as an algorithm."""

    source: BlockSource
    pilot: PilotFit
    map: Map = map
    weight_kind: str = "precision"
    state = SummationState  # the type of its states

    def part(self, rows: range) -> PartialSums:
        """Return the sums of a unit."""
        return add_partial_sums(
            map_blocks_in_order(
                self.source, rows, partial(sum_block, weight_kind=self.weight_kind), self.pilot, self.map, self.layout.at_once
            )
        )

    def memory(self) -> int:
        """Return the bytes of the rows being processed and the sums in the tree."""
        q = self.layout.columns + 2
        sums = q * q + (product_index_pairs(q)[0].size ** 2 if self.layout.columns <= ROBUST else 0)
        return super().memory() + 8 * sums * (len(self.units) + self.layout.size.bit_length())
