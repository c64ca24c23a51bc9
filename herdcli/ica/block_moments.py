"""Moments of blocks of rows for whitening, and the rows that filters are learned from.  Quick to import, for empty shards.

A block is 4,096 rows counted from row 0.  Its training rows are summed about the mean of the first block, in the fixed tree of
`numerics.block_statistics`.  Means and covariances are computed from all rows.  Filters need the rows themselves repeatedly, and use
at most LEARNED of them, evenly spaced.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import DataError
from herdcli.numerics import block_statistics, block_units
from herdcli.numerics.block_statistics import BlockSource, RowMoments
from herdcli.numerics.block_units import PartialState, UnitRun, map_blocks_in_order, select_evenly_spaced
from herdcli.records import dataclass
from herdcli.schema import Array, array
from herdcli.shards import Shard
from herdcli.splits import TEST, TRAIN

LEARNED = 1 << 16  # largest number of training rows that filters are learned from
HELD = 100_000  # largest number of rows of split 2 that are stored in the model
TAKEN, KEPT, ASIDE = 1, 2, 3  # a training row; one that filters are learned from too; a held-out row stored in the model


@dataclass(frozen=True)
class MomentBlock:
    """Rows from index `first` on: X (m, D), and the use of each (m,): TAKEN, KEPT, ASIDE, or 0 for none."""

    first: int
    X: Array
    use: Array


@dataclass(frozen=True)
class MomentCentre:
    """The centre (D,) about which moments are computed.  log: the moments are of the logarithms of rows."""

    centre: Array
    log: bool


@dataclass(frozen=True)
class PartialMoments:
    """Moments of some training rows, with some of these rows and of the held-out rows.  rows  number of rows in the moments."""

    rows: int
    first: Array = array("D", "Σ (x − c)", kind="f", finite=True)
    second: Array = array("D D", "Σ (x − c)(x − c)'", kind="f", finite=True)
    low: Array = array("D", "the least of each column, ∞ of no rows", kind="f")
    high: Array = array("D", "the largest of each column, −∞ of no rows", kind="f")
    X: Array = array("k D", "training rows that filters are learned from", kind="f", finite=True)
    held: Array = array("h D", "held-out rows", kind="f", finite=True)

    def moments(self, centre: Array) -> RowMoments:
        """Return the moments, whose sums are about the centre (D,).  Raises DataError if there are no rows."""
        if not self.rows:
            raise DataError("there are no training rows")
        rows = float(self.rows)
        sums = {"rows": np.array([rows, rows, 0.0]), "known": np.full(len(centre), rows), "first": self.first, "second": self.second}
        return block_statistics.moments_from_sums(centre, sums)

    @property
    def constant_columns(self) -> Array:
        """The indices of constant columns."""
        return np.flatnonzero(self.low == self.high)


@dataclass(frozen=True, kw_only=True)
class ICAShard(Shard):
    """The moments of some units, and the fields that all shards of a run have in common."""

    parts: list[PartialMoments]
    centre: Array = array("D", "what moments are about", kind="f", finite=True)
    mixing: Array | None = array("D S", "the known mixing", kind="f", optional=True, finite=True)
    image_shape: Array | None = array("s", "rows as pictures", kind="iu", optional=True)
    names: list[str] | None = None

    def validate(self) -> None:
        """Raise DataError for an invalid shard, or for moments of other columns than its own."""
        super().validate()
        columns = len(self.centre)
        if (self.names is not None and len(self.names) != columns) or (self.mixing is not None and len(self.mixing) != columns):
            raise DataError(f"has feature names or a mixing matrix that do not fit its {columns} columns")
        for part in self.parts:
            if part.rows < 0:
                raise DataError(f"says that its moments are of {part.rows} rows, which is impossible")
            if len(part.first) != columns:
                raise DataError(f"has moments of {len(part.first)} columns, expected {columns}")


def split_to_row_uses(split: Array) -> Array:
    """Return the use of each row (n,) uint8, from its part of the split (n,)."""
    found = np.zeros(len(split), dtype=np.uint8)
    train = split == TRAIN
    found[train] = TAKEN
    found[select_evenly_spaced(train, LEARNED)] = KEPT
    found[select_evenly_spaced(split == TEST, HELD)] = ASIDE
    return found


def choose_moment_centre(first_block: MomentBlock, *, log: bool) -> MomentCentre:
    """Return the mean of the training rows of the first block, or of all its rows if it has none."""
    own = _training_mask(first_block.use)
    return MomentCentre(
        block_statistics.first_block_centre(_values_for_moments(first_block, own if own.any() else np.ones(len(own), dtype=bool), log)), log
    )


def compute_block_moments(block: MomentBlock, centre: MomentCentre) -> PartialMoments:
    """Return the moments of a block.  Raises DataError for logarithms of negative values."""
    X = _values_for_moments(block, _training_mask(block.use), centre.log)
    sums = block_statistics.CentredSums(centre.centre)(block_statistics.RowBlock(block.first, X))
    low, high = X.min(axis=0, initial=np.inf), X.max(axis=0, initial=-np.inf)
    kept = (np.asarray(block.X[block.use == which], dtype=np.float64) for which in (KEPT, ASIDE))
    return PartialMoments(len(X), sums["first"], sums["second"], low, high, *kept)


def _training_mask(row_uses: Array) -> Array:
    return np.asarray((row_uses == TAKEN) | (row_uses == KEPT))


def _values_for_moments(block: MomentBlock, selected: Array, log: bool) -> Array:
    """Return some rows (m,) bool of a block, as the values of which moments are computed."""
    if log:
        from herdcli.ica.whitening import log1p_nonnegative  # imported here because an empty shard does not need it

        return log1p_nonnegative(np.where(selected[:, None], block.X, 0), block.first)[selected]
    return np.asarray(block.X if selected.all() else block.X[selected], dtype=np.float64)


def sum_partial_moments(parts: Iterable[PartialMoments]) -> PartialMoments:
    """Return the sum of all parts in their order, with sums in the fixed tree."""
    sums, of = block_units.sum_part_fields(parts, ("first", "second"), ("low", "high", "X", "held"))
    low, high = np.minimum.reduce(of["low"]), np.maximum.reduce(of["high"])
    return PartialMoments(
        int(sums["rows"][0]), sums["first"], sums["second"], low, high, np.concatenate(of["X"]), np.concatenate(of["held"])
    )


@dataclass
class MomentState(PartialState):
    """The moments of the units so far."""

    parts: list[PartialMoments]


@dataclass(frozen=True)
class MomentSummation(UnitRun[MomentState]):
    """The moments of the given units, as an algorithm.  kept  number of their rows that are stored."""

    source: BlockSource
    given: MomentCentre
    kept: int
    map: Map = map
    state = MomentState  # the type of its states

    def part(self, rows: range) -> PartialMoments:
        """Return the moments of a unit."""
        return sum_partial_moments(map_blocks_in_order(self.source, rows, compute_block_moments, self.given, self.map, self.layout.at_once))

    def memory(self) -> int:
        """Return the bytes of the rows being processed, the sums in the tree, and the stored rows."""
        D = self.layout.columns
        return super().memory() + 8 * D * D * (len(self.units) + self.layout.size.bit_length()) + 8 * 2 * D * self.kept
