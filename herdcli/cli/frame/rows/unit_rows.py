"""Rows that are summed block by block in units, of which shards have some: left in their files, or in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from herdcli.cli.frame.rows.streamed_rows import blocks_per_unit_read
from herdcli.numerics.block_statistics import BLOCK, BlockRows, ComputedRows, RowBlocks
from herdcli.numerics.block_units import UnitLayout
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.artifacts.dataset import Dataset
    from herdcli.artifacts.rows.row_ranges import RowRanges
    from herdcli.cli.frame.run.session import Session
    from herdcli.schema import Array

B = TypeVar("B")


@dataclass(frozen=True, kw_only=True)
class UnitRows(Generic[B]):
    """Rows in fixed blocks, with their split (n,), and what is known of them before they are read.

    image_shape  (2,) if rows are images.
    weighted     whether rows have weights.
    """

    source: RowBlocks[B]
    split: Array
    history: Artifact
    names: list[str] | None = None
    image_shape: Array | None = None
    weighted: bool = False

    @property
    def layout(self) -> UnitLayout:
        """The units of the blocks."""
        columns = self.source.rows.columns
        return UnitLayout(self.source.rows.count, columns, blocks_per_unit_read(columns))


def blocks_in_memory(block: B, rows: int, columns: int) -> RowBlocks[B]:
    """Return the fixed blocks of rows that are all in memory, as one block."""
    return RowBlocks(BlockRows(block, rows, columns))


def blocks_in_files(rows: int, columns: int, read: Callable[[int, int], B]) -> RowBlocks[B]:
    """Return the fixed blocks of rows that `read` returns for a range; those of a unit that fit in memory are read together."""
    return RowBlocks(ComputedRows(rows, columns, read), BLOCK * blocks_per_unit_read(columns))


def are_ranges_independent(ranges: RowRanges, head: Dataset, needed: Collection[str] = ()) -> bool:
    """Whether the values of a range depend on no other rows, and the rows have the needed columns, of which y are the labels.

    head  the first row.
    """
    named = {*(head.columns or {}), *(head.feature_names or []), *(["y"] if head.y is not None else [])}
    others = any(getattr(reader, "others", False) for _, reader, _ in ranges.parts)
    return not ranges.artifact.recoding and not others and named.issuperset(needed)


def has_text_labels(ranges: RowRanges, head: Dataset) -> bool:
    """Whether rows have labels of text, whose numbers differ between ranges of rows.  head  the first row."""
    return bool(head.class_names) and not hasattr(ranges.parts[0][1], "further")


def leave_rows_in_files(session: Session, ranges: RowRanges) -> Artifact:
    """Use rows that stay in their files as the data, report on their columns, and return the artifact without rows."""
    session.inputs["data"] = artifact = ranges.artifact
    session.report_range_use(ranges)
    session.console.detail(f"{artifact.name}: {ranges.count} rows, sha256 {artifact.sha256[:12]}")
    return artifact


def declared_names(ranges: RowRanges) -> list[str] | None:
    """Return the names of the columns, None if the file has none."""
    return ranges.names if ranges.declared.get("named", True) else None


def declared_image_shape(ranges: RowRanges) -> Array | None:
    """Return the shape (2,) of rows that are images, None for others."""
    shape = ranges.declared.get("image_shape")
    return None if shape is None else np.asarray(shape)
