"""`herd apply` for a large file: its rows stay on disk, pass through the model one range at a time, and are written to the output file."""

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

    ApplyFunction = Callable[[Session, Artifact, Request], tuple[Dataset, str]]

# kinds of models that treat each row separately
ROW_BY_ROW = (*TOGETHER, *kinds_with("harmonium"), "mixture", "kmeans", "factors", "regression", "perceptron")
UNLABELLED = ("classifier", "regression", "perceptron", "tagger", "predictor")  # kinds that do not copy the rows' own labels
GAPS = ("mixture", "factors")  # kinds that accept rows with missing values
STRETCH = 1 << 24  # bytes of rows, in double precision, that are in memory at one time


def apply_in_blocks(session: Session, fitted: Artifact, request: Request, apply_model: ApplyFunction) -> bool:
    """Apply a model to the rows of a large file and write the output in parts; return False if the rows have to be read whole."""
    if not (_output_allows_streaming(session) and _can_stream(session, fitted, request)):
        return False
    gaps, labels = fitted.kind in GAPS or request.want == "completed", fitted.kind not in UNLABELLED
    read = partial(row_ranges.open_ranges, request.source, input_format=request.input_format, note=session.console.note, verified=True)
    with read(labels=labels, missing=gaps, keep=_required_columns(fitted), roles=session.column_roles()) as found:
        if found is None:
            return False
        found.gaps, session.inputs["data"] = gaps, found.artifact
        parts = (
            _harmonium_result_blocks(session, fitted, request, found)
            if KINDS[fitted.kind].harmonium
            else _model_result_blocks(session, fitted, request, apply_model, found)
        )
        first, said = next(parts, (None, ""))
        if first is None:
            return False
        made = (streamed_rows.match_split_type(part, found) for part in chain([first], (part for part, _ in parts)))
        outputs.write_dataset_in_parts(session, made, found.count, said, history=fitted)
    return True


def _required_columns(fitted: Artifact) -> list[str]:
    """Return the further columns that a model needs."""
    offset = provenance.recorded_text_option(fitted.history, "regress", "offset") if fitted.kind in ("regression", "perceptron") else None
    return [offset] if offset else []


def _harmonium_result_blocks(session: Session, fitted: Artifact, request: Request, rows: RowRanges) -> Iterator[tuple[Dataset, str]]:
    """Yield the results of a harmonium for one range of rows after another, with a summary for all rows.

    Yields nothing if the rows have to be read whole.
    """
    from herdcli.cli.apply import harmoniums

    value = lazy_matrix.file_backed_dataset(rows, declared=True)
    if value is None:
        return
    session.stretch = replace(rows.artifact, value=value)
    try:
        found = harmoniums.make_row_map(session, fitted, request)
    finally:
        session.stretch = None
    size = _rows_per_block(value.X.shape[1], found.unit)
    for start in range(0, found.count, size):
        yield found.make(slice(start, min(start + size, found.count))), found.said


def _rows_per_block(columns: int, unit: int) -> int:
    """Return the number of rows of a range: a multiple of the number that is read together."""
    return max(1, STRETCH // (8 * columns * unit)) * unit


def _model_result_blocks(
    session: Session, fitted: Artifact, request: Request, apply_model: ApplyFunction, rows: RowRanges
) -> Iterator[tuple[Dataset, str]]:
    """Yield the results of a model for one range of rows after another; notes are printed only for the first."""
    taken = streamed_rows.row_reader(rows)
    if taken is None:
        return
    size = _rows_per_block(rows.artifact.value.X.shape[1], TOGETHER.get(fitted.kind, 1))
    console, quiet = session.console, Console(session.command, -1)
    for start in range(0, rows.count, size):
        session.stretch = replace(rows.artifact, value=taken(start, min(start + size, rows.count)))
        session.console = quiet if start else console
        try:
            made, said = apply_model(session, fitted, request)
        finally:
            session.console, session.stretch = console, None
        yield made, f"{rows.count}{said.removeprefix(str(len(made.X)))}"


@contextmanager
def suggest_streaming(session: Session, fitted: Artifact, request: Request) -> Iterator[None]:
    """Add a hint at block-wise output, if that would help, to an out-of-memory error of the enclosed code."""
    way = "use -o FILE.h5, .parquet or .csv, which read and write some rows at a time"
    with streamed_rows.suggest_streaming(way, lambda: not _output_allows_streaming(session) and _can_stream(session, fitted, request)):
        yield


def _can_stream(session: Session, fitted: Artifact, request: Request) -> bool:
    """Whether the rows of this input may stay on disk."""
    if getattr(fitted.value, "documents", None) is not None:  # documents in a folder, or in columns of text
        return False
    return _is_plain_file(session, fitted, request) and streamed_rows.is_large_input(request.source)


def _output_allows_streaming(session: Session) -> bool:
    return not outputs.prints_tables(session) and output_format(session.output, None, "dataset") in incremental_dataset.FORMS


def _is_plain_file(session: Session, fitted: Artifact, request: Request) -> bool:
    as_it_is = request.label in (None, "y") and request.input_format in (None, *row_ranges.READERS) and request.source != "-"
    changes = any((session.missing, "categorical" in session.given, session.layer))
    if not KINDS[fitted.kind].harmonium:
        changes = changes or any((request.split, request.threshold, request.value_range))
    in_time = request.want == "forecasts" or bool(fitted.recoding)  # a recoding replaces missing values and text
    deep = fitted.kind == "dbn" and request.want == "states"  # its layers are sampled one after another, each in its own blocks
    return fitted.kind in ROW_BY_ROW and as_it_is and not in_time and not deep and not changes
