"""Rows of a large file that stay in the file while `herd ica --algorithm ml` reads them block by block."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.artifacts.byte_sources import open_source
from herdcli.artifacts.rows import lazy_matrix, row_ranges
from herdcli.artifacts.tables import dataset_preparation
from herdcli.cli.frame.rows import streamed_rows

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.ica.request import Request

UNBOUNDED = 1 << 62


def open_dataset_in_blocks(session: Session, request: Request) -> Artifact | None:
    """Return a data set whose rows are read in blocks; None if it is small, must be read whole, or the options need it in memory."""
    if (
        request.algorithm != "ml"
        or request.mix
        or not streamed_rows.are_rows_used_unchanged(session, request.source)
        or row_ranges.is_file_pattern(request.source)
    ):
        return None
    with open_source(request.source, limit=UNBOUNDED) as source:
        if not source.regular or source.size < lazy_matrix.LEAST:
            return None
        by_class = request.split is not None and dataset_preparation.is_stratified(request.split)
        drawn_by_labels = by_class and source.head.startswith(b"\x89HDF")  # the labels may have any name in HDF5
    if drawn_by_labels:
        return None
    found = session.enter_until_command_ends(
        row_ranges.open_ranges(
            request.source,
            input_format=request.input_format,
            note=session.console.note,
            verified=True,
            label=request.label,
            roles=session.column_roles(),
        )
    )
    value = None if found is None else lazy_matrix.file_backed_dataset(found)
    if found is None or value is None or len(value.X) < value.X.shape[1]:
        return None
    session.inputs["data"], session.recoding = found.artifact, found.artifact.recoding
    session.report_range_use(found)
    session.console.detail(f"{found.artifact.name}: {len(value.X)} rows are read block by block")
    return replace(found.artifact, value=value)
