"""`herd apply` of a large file: its rows stay in it, go through the model a stretch at a time, and into the file that is written."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from herdcli.artifacts.load_save import output_format
from herdcli.artifacts.rows import incremental_dataset, lazy_matrix, row_ranges
from herdcli.artifacts.sealed import provenance
from herdcli.cli.apply.inputs import TOGETHER
from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.rows import streamed_rows
from herdcli.cli.frame.run.console import Console
from herdcli.kinds import KINDS, kinds_with

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from herdcli.artifacts import Artifact
    from herdcli.artifacts.dataset import Dataset
    from herdcli.artifacts.rows.row_ranges import RowRanges
    from herdcli.cli.apply.request import Request
    from herdcli.cli.frame.run.session import Session

    Applied = Callable[[Session, Artifact, Request], tuple[Dataset, str]]

# kinds of which a row alone decides what it becomes
ROW_BY_ROW = (*TOGETHER, *kinds_with("harmonium"), "mixture", "kmeans", "factors", "regression", "perceptron")
UNLABELLED = ("classifier", "regression", "perceptron", "tagger", "predictor")  # those that say nothing of the rows' own labels
GAPS = ("mixture", "factors")  # those that can do with rows that have gaps
STRETCH = 1 << 24  # bytes of rows, in double precision, that are in memory at one time


def apply_in_blocks(session: Session, fitted: Artifact, request: Request, applied: Applied) -> bool:
    """Whether the rows went from a large file through the model into another; False where they have to be read whole."""
    if not (_output_allows_streaming(session) and _can_stream(session, fitted, request)):
        return False
    gaps, labels = fitted.kind in GAPS or request.want == "completed", fitted.kind not in UNLABELLED
    read = partial(row_ranges.open_ranges, request.source, input_format=request.input_format, note=session.console.note, verified=True)
    with read(labels=labels, missing=gaps, keep=_required_columns(fitted), roles=session.column_roles()) as found:
        if found is None:
            return False
        found.gaps, session.inputs["data"] = gaps, found.artifact
        parts = (
            _mapped_blocks(session, fitted, request, found)
            if KINDS[fitted.kind].harmonium
            else _applied_blocks(session, fitted, request, applied, found)
        )
        first, said = next(parts, (None, ""))
        if first is None:
            return False
        made = (streamed_rows.match_whole_types(part, found) for part in chain([first], (part for part, _ in parts)))
        outputs.write_in_parts(session, made, found.count, said, history=fitted)
    return True


def _required_columns(fitted: Artifact) -> list[str]:
    """Further columns that a model needs of rows."""
    offset = provenance.option_of(fitted.history, "regress", "offset") if fitted.kind in ("regression", "perceptron") else None
    return [offset] if offset else []


def _mapped_blocks(session: Session, fitted: Artifact, request: Request, rows: RowRanges) -> Iterator[tuple[Dataset, str]]:
    """What a harmonium makes of one stretch of rows after the other, some things of which all tell; nothing of rows to be read whole."""
    from herdcli.cli.apply import harmoniums

    value = lazy_matrix.dataset_in_file(rows, declared=True)
    if value is None:
        return
    session.stretch = replace(rows.artifact, value=value)
    try:
        found = harmoniums.row_map(session, fitted, request)
    finally:
        session.stretch = None
    size = _block_size(value.X.shape[1], found.unit)
    for start in range(0, found.count, size):
        yield found.make(slice(start, min(start + size, found.count))), found.said


def _block_size(columns: int, unit: int) -> int:
    """Rows of a stretch: as many as are read together, or some times so many."""
    return max(1, STRETCH // (8 * columns * unit)) * unit


def _applied_blocks(
    session: Session, fitted: Artifact, request: Request, applied: Applied, rows: RowRanges
) -> Iterator[tuple[Dataset, str]]:
    """What the model makes of one stretch of rows after the other; what is said of the first is said once."""
    taken = streamed_rows.row_reader(rows)
    if taken is None:
        return
    size = _block_size(rows.artifact.value.X.shape[1], TOGETHER.get(fitted.kind, 1))
    console, quiet = session.console, Console(session.command, -1)
    for start in range(0, rows.count, size):
        session.stretch = replace(rows.artifact, value=taken(start, min(start + size, rows.count)))
        session.console = quiet if start else console
        try:
            made, said = applied(session, fitted, request)
        finally:
            session.console, session.stretch = console, None
        yield made, f"{rows.count}{said.removeprefix(str(len(made.X)))}"


@contextmanager
def suggest_streaming(session: Session, fitted: Artifact, request: Request) -> Iterator[None]:
    """What reads rows whole; where there is no room for them, with the way on which they need none."""
    way = "-o FILE.h5, .parquet or .csv reads and writes some rows at a time"
    with streamed_rows.suggest_streaming(way, lambda: not _output_allows_streaming(session) and _can_stream(session, fitted, request)):
        yield


def _can_stream(session: Session, fitted: Artifact, request: Request) -> bool:
    """Whether the rows of this input may stay in it."""
    if getattr(fitted.value, "documents", None) is not None:  # a folder, or columns of text
        return False
    return _is_plain_file(session, fitted, request) and streamed_rows.is_large_input(request.source)


def _output_allows_streaming(session: Session) -> bool:
    return not outputs.shows_tables(session) and output_format(session.output, None, "dataset") in incremental_dataset.FORMS


def _is_plain_file(session: Session, fitted: Artifact, request: Request) -> bool:
    as_it_is = request.label in (None, "y") and request.input_format in (None, *row_ranges.READERS) and request.source != "-"
    changes = any((session.missing, "categorical" in session.given, session.layer))
    if not KINDS[fitted.kind].harmonium:
        changes = changes or any((request.split, request.threshold, request.value_range))
    in_time = request.want == "forecasts" or bool(fitted.recoding)  # or gaps and texts that become what all rows of training say
    deep = fitted.kind == "dbn" and request.want == "states"  # whose layers are drawn one after the other, each in blocks of its own
    return fitted.kind in ROW_BY_ROW and as_it_is and not in_time and not deep and not changes
