"""Rows of `herd kernel-herd --block-rows`, accessed by number: read from files that support it, else in memory."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.message_numbers import group_digits
from herdcli.artifacts.rows import row_ranges
from herdcli.cli.frame.rows import sampler_columns
from herdcli.cli.kernel_herd import inputs
from herdcli.errors import DataError
from herdcli.records import dataclass
from herdcli.schema import require_valid_weights

if TYPE_CHECKING:
    from collections.abc import Iterator

    from herdcli.artifacts import Artifact
    from herdcli.artifacts.rows.row_ranges import RowRanges
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.kernel_herd.request import Request
    from herdcli.schema import Array

BASIS_ROWS, STRETCHES = 1 << 16, 16  # rows that determine length scales and column scales, and their number of ranges


@dataclass
class IndexedRows:
    """Rows of a file or in memory, accessed by number, with weights."""

    count: int
    names: list[str] | None
    ranges: RowRanges | None
    request: Request
    X: Array | None = None
    weights: Array | None = None
    scale: Array = field(default_factory=lambda: np.ones(1))
    history: Artifact | None = None

    @property
    def columns(self) -> int:
        """The number of columns."""
        if self.names is not None:
            return len(self.names)
        X = self.X if self.ranges is None else self.ranges.artifact.value.X
        return 0 if X is None else int(X.shape[1])

    def read(self, start: int, stop: int) -> tuple[Array, Array]:
        """Read rows [start, stop) (n, d) and their weights (n,)."""
        if self.ranges is None:
            if self.X is None or self.weights is None:
                raise ValueError("there are no rows")
            return self.X[start:stop], self.weights[start:stop]
        data = self.ranges.read(start, stop)
        X, weights = np.ascontiguousarray(data.X, dtype=np.float64), data.weight
        column = self.request.row_weight
        kept, coordinates, _ = sampler_columns.coordinate_columns(X, data.feature_names, (column,))
        X, data = kept, replace(data, X=kept, feature_names=coordinates)
        if column and column != "weight":
            X, _, weights = inputs.remove_column(X, data.feature_names, column, "--row-weight", self.ranges.artifact.name)
        elif column and weights is None:
            raise DataError("has no weights", where=self.ranges.artifact.name)
        own = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=np.float64)
        require_valid_weights(own, some_positive=False, where=self.ranges.artifact.name)
        return X, own


@contextmanager
def open_rows(session: Session, request: Request) -> Iterator[IndexedRows]:
    """Open the rows of INPUT: left in files that can be read in ranges, else in memory."""
    whole = session.missing is not None or "categorical" in session.given or request.source == "-"
    with (
        row_ranges.open_ranges(
            request.source,
            input_format=request.input_format,
            note=session.console.note,
            verified=session.shard is None,
            roles=session.column_roles(),
        )
        if not whole
        else _empty_context() as found
    ):
        if found is None:
            yield _rows_in_memory(session, request)
            return
        session.inputs["data"] = artifact = found.artifact
        session.report_range_use(found)
        if found.count < 2:
            raise DataError("has only one row, but at least two are needed", where=artifact.name)
        session.console.detail(f"{artifact.name}: {group_digits(found.count)} rows, sha256 {artifact.sha256[:12]}")
        column = request.row_weight
        _, names, left_out = sampler_columns.coordinate_columns(artifact.value.X, found.names, (column,))
        if left_out:
            session.console.note(sampler_columns.left_out_message(left_out))
        if names is not None and column and column != "weight":
            names = [name for name in names if name != column]
        yield IndexedRows(found.count, names, found, request, history=artifact)


@contextmanager
def _empty_context() -> Iterator[None]:
    yield None


def _rows_in_memory(session: Session, request: Request) -> IndexedRows:
    data = inputs.read_input_rows(session, request)
    history = replace(data.artifact, value=None)
    return IndexedRows(len(data.rows.X), data.feature_names, None, request, data.rows.X, data.rows.given, history=history)


def sample_row_ranges(rows: IndexedRows) -> Array:
    """Return all rows (n, d) if there are at most BASIS_ROWS; otherwise BASIS_ROWS of them, in STRETCHES evenly spaced ranges."""
    if rows.count <= BASIS_ROWS:
        return rows.read(0, rows.count)[0]
    size = BASIS_ROWS // STRETCHES
    starts = [place * (rows.count - size) // (STRETCHES - 1) for place in range(STRETCHES)]
    return np.concatenate([rows.read(start, start + size)[0] for start in starts])
