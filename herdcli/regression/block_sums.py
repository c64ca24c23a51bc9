"""Sums of blocks of rows, of which `herdcli.regression.least_squares_sums` makes a regression; quick to import, as a shard without rows is
to make.

A block is 4,096 rows counted from row 0, of which the training rows are summed up, in the fixed tree of `numerics.block_statistics`.  Rows
are
u = (x − c, 1, y − offset − the pilot's prediction), with c the means and the pilot a fit of the first block, so that the sums lose no
digits where columns are far from 0 or the target is close to its prediction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np

from herdcli.errors import DataError
from herdcli.numerics import block_units
from herdcli.numerics.block_statistics import Map
from herdcli.numerics.block_units import PartialState, RowSource, UnitRun, process_blocks, thin_rows
from herdcli.records import dataclass
from herdcli.schema import Array, array
from herdcli.shards import Shard

ROBUST = 24  # columns up to which products of four are summed up: 351² numbers
HELD = 100_000  # rows for evaluation that stay with the model, evenly spread over more


@dataclass(frozen=True)
class RegressionBlock:
    """Rows from number `first` on: X (m, D), target and offset (m,), weights (m,), split (m,): 0 train; `evaluation_mask`: which are held
    out."""

    first: int
    X: Array
    y: Array
    offset: Array
    weight: Array | None
    split: Array
    kept: Array


@dataclass(frozen=True)
class PilotFit:
    """Where rows are looked at from.  centre (D,); theta (D + 1,), the intercept at the centre last."""

    centre: Array
    theta: Array

    @classmethod
    def none(cls, columns: int) -> PilotFit:
        """Of whoever has no rows to look at."""
        return cls(np.zeros(columns), np.zeros(columns + 1))

    def entries(self, block: RegressionBlock) -> Array:
        """u (m, D + 2) of the rows of a block."""
        u = np.empty((len(block.X), block.X.shape[1] + 2))
        u[:, :-2] = block.X - self.centre
        u[:, -2] = 1.0
        u[:, -1] = block.y - block.offset - u[:, :-1] @ self.theta
        return u


@dataclass(frozen=True)
class PartialSums:
    """Sums of some training rows of weight above 0, and the rows beside them that are kept for evaluation."""

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
    """Sums of some of the units, and what all shards of a run have alike.  weighted  whether rows have weights."""

    parts: list[PartialSums]
    target: str
    weighted: bool
    centre: Array = array("D", "what columns are centred at", kind="f", finite=True)
    pilot: Array = array("p", "coefficients of the pilot fit, the intercept last", kind="f", finite=True)
    names: list[str] | None = None
    weight_kind: str = "precision"

    def validate(self) -> None:
        """Raise DataError for what no shard can be, and for sums of other columns than its own."""
        super().validate()
        columns = len(self.centre)
        if len(self.pilot) != columns + 1 or (self.names is not None and len(self.names) != columns):
            raise DataError(f"has a pilot of {len(self.pilot) - 1} columns, and centres of {columns}")
        sizes = columns + 2, product_indices(columns + 2)[0].size if columns <= ROBUST else 0
        for part in self.parts:
            if part.rows < 0:
                raise DataError(f"has sums of {part.rows} rows")
            found = len(part.second), len(part.fourth)
            if found != sizes or part.X.shape[1] != columns:
                raise DataError(f"has sums of {found[0]} and {found[1]} entries, expected {sizes[0]} and {sizes[1]} of {columns} columns")


def product_indices(entries: int) -> tuple[Array, Array]:
    """Which two entries each product is of, a ≤ b, (t,) each."""
    a, b = np.triu_indices(entries)
    return a, b


def pilot_fit(head: RegressionBlock) -> PilotFit:
    """From the rows of the first block, whatever part they are of."""
    from herdcli.regression.fit import solve_symmetric

    low, mean = head.X.min(axis=0), head.X.mean(axis=0)
    # what a column of one value is less its mean may be the mean's rounding; less itself it is 0
    centre = np.where(low == head.X.max(axis=0), low, mean)
    columns, level = len(centre), (head.y - head.offset).mean()
    begun = PilotFit(centre, np.append(np.zeros(columns), level))
    if len(head.X) < 2 * (columns + 1):
        return begun
    u = begun.entries(head)
    gram = u.T @ u
    # Least squares of the residuals: (Z'Z)⁻¹ Z'r, added to what they are residuals of.
    return replace(begun, theta=begun.theta + solve_symmetric(gram[:-1, :-1], gram[:-1, -1]))


def block_sums(block: RegressionBlock, of: PilotFit, weight_kind: str = "precision") -> PartialSums:
    """The sums of a block.  Raises DataError for weights and targets that cannot be summed up."""
    _check_block(block)
    train = (block.split == 0) & (True if block.weight is None else block.weight > 0)
    own = replace(block, X=block.X[train], y=block.y[train], offset=block.offset[train])
    u = of.entries(own)
    train_weight = None if block.weight is None else block.weight[train]
    weighted = u if train_weight is None else u * train_weight[:, None]
    size = 0
    if block.X.shape[1] <= ROBUST:
        a, b = product_indices(u.shape[1])
        size = a.size
    fourth = np.zeros((size, size))
    if size:
        v = weighted[:, a] * u[:, b]
        # w rows alike have w times the products of one of them.
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
        raise DataError(f"the target has {block.y[row]:g} in row {block.first + row}; it must be finite")
    if block.weight is not None and not (np.isfinite(block.weight).all() and (block.weight >= 0).all()):
        raise DataError("weights must be finite, not negative, and not all 0")


def evaluation_mask(split: Array) -> Array:
    """Which rows (n,) bool are kept for evaluation: those of split 1 and 2, or HELD of them, evenly spread."""
    found = np.zeros(len(split), dtype=bool)
    found[thin_rows((split == 1) | (split == 2), HELD)] = True
    return found


def add_parts(parts: Iterable[PartialSums]) -> PartialSums:
    """All parts in their order, sums in the fixed tree."""
    logarithms = list[float]()

    def watched() -> Iterable[PartialSums]:
        for each in parts:
            logarithms.append(each.logarithms)
            yield each

    sums, of = block_units.add_parts(watched(), ("second", "fourth"), ("X", "y", "offset", "weight", "split"))
    joined = {name: np.concatenate(items) for name, items in of.items()}
    return PartialSums(int(sums["rows"][0]), sums["second"], sums["fourth"], **joined, logarithms=float(np.sum(logarithms)))


@dataclass
class SummationState(PartialState):
    """The units so far."""

    parts: list[PartialSums]


@dataclass(frozen=True)
class Summation(UnitRun[SummationState]):
    """The sums of units of these numbers, as an algorithm."""

    source: RowSource
    pilot: PilotFit
    map: Map = map
    weight_kind: str = "precision"
    state = SummationState  # the type of its states

    def part(self, own: range) -> PartialSums:
        """The sums of a unit."""
        return add_parts(
            process_blocks(self.source, own, partial(block_sums, weight_kind=self.weight_kind), self.pilot, self.map, self.layout.at_once)
        )

    def memory(self) -> int:
        """Of the rows at work and the sums in the tree."""
        q = self.layout.columns + 2
        sums = q * q + (product_indices(q)[0].size ** 2 if self.layout.columns <= ROBUST else 0)
        return super().memory() + 8 * sums * (len(self.units) + self.layout.size.bit_length())
