"""`herd apply` of a large HDF5 or Parquet file: its rows stay in it, go through the model a stretch at a time, and leave as CSV."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from herdcli.artifacts import delimited, lazy, ranges, sniff
from herdcli.artifacts.blocks import UNBOUNDED
from herdcli.artifacts.files import output_format
from herdcli.artifacts.inputs import open_source
from herdcli.cli.frame import outputs
from herdcli.cli.frame.console import Console
from herdcli.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from herdcli.artifacts import Artifact
    from herdcli.artifacts.dataset import Dataset
    from herdcli.artifacts.inputs import Source
    from herdcli.artifacts.ranges import Ranges
    from herdcli.cli.apply.request import Request
    from herdcli.cli.frame.session import Session

    Applied = Callable[[Session, Artifact, Request], tuple[Dataset, str]]

ROW_BY_ROW = (
    "ica",
    "mixture",
    "kmeans",
    "factors",
    "classifier",
    "regression",
    "tagger",
    "predictor",
)  # kinds of which a row alone decides what it becomes
OF_GROUPS = ("ica", "kmeans", "classifier")  # those whose rows, with no gaps and no further column, Parquet gives in stretches too
GAPS = ("mixture", "factors")  # those that can do with rows that have gaps
STRETCH = 1 << 24  # bytes of rows, in double precision, that are in memory at one time


def streamed(session: Session, fitted: Artifact, request: Request, applied: Applied) -> bool:
    """Whether the rows went from a large file through the model into text; False where they have to be read whole."""
    if not _text(session) or not _plain(session, fitted, request):
        return False
    if ranges.several(request.source):
        return False
    with open_source(request.source, limit=UNBOUNDED) as source:
        if not _stays(source, fitted):
            return False
    with ranges.opened(request.source, input_format=request.input_format, note=session.console.note, verified=True) as found:
        if found is None or not (lazy.dataset(found) is not None or _numbers_alone(found)):
            return False
        found.splits = True
        found.gaps, session.inputs["data"] = fitted.kind in GAPS, found.artifact
        stretches = _stretches(session, fitted, request, applied, found)
        first, said = next(stretches)
        summary = f"{found.count}{said.removeprefix(str(len(first.X)))}"
        outputs.pieces(session, partial(_write, first, stretches), summary, "dataset")
    return True


def _stays(source: Source, fitted: Artifact) -> bool:
    """Whether the rows of an input can stay in it for this model."""
    return lazy.stays(source) or (fitted.kind in OF_GROUPS and lazy.in_groups(source))


def _numbers_alone(found: Ranges) -> bool:
    """Whether Parquet says nothing of its rows that a stretch of them does not: labels of text are numbered by all."""
    return hasattr(found.parts[0][1], "pictured") and not found.read(0, 1).class_names


def _stretches(session: Session, fitted: Artifact, request: Request, applied: Applied, rows: Ranges) -> Iterator[tuple[Dataset, str]]:
    """What the model makes of one stretch of rows after the other; what is said of the first is said once."""
    size = max(1, STRETCH // (8 * rows.artifact.value.X.shape[1]))
    console, quiet = session.console, Console(session.command, -1)
    for start in range(0, rows.count, size):
        session.stretch = replace(rows.artifact, value=rows.read(start, start + size))
        session.console = quiet if start else console
        try:
            yield applied(session, fitted, request)
        finally:
            session.console, session.stretch = console, None


def _write(first: Dataset, others: Iterator[tuple[Dataset, str]], target: Path) -> None:
    """CSV with one header."""
    with open(target, "wb") as out:
        delimited.append(out, first, titles=True)
        for made, _ in others:
            delimited.append(out, made)


@contextmanager
def hinted(session: Session, fitted: Artifact, request: Request) -> Iterator[None]:
    """What reads rows whole; where there is no room for them, with the way on which they need none."""
    try:
        yield
    except DataError as error:
        if error.hint is not None and error.hint.startswith("raise --max-memory") and _could(session, fitted, request):
            error.hint = "-o FILE.csv reads and writes some rows at a time; or raise --max-memory if the machine has it"
        raise


def _could(session: Session, fitted: Artifact, request: Request) -> bool:
    """Whether the rows of this input would stay in it if the output were CSV."""
    if _text(session) or not _plain(session, fitted, request):
        return False
    if ranges.several(request.source):
        return False
    with open_source(request.source, limit=UNBOUNDED) as source:
        return _stays(source, fitted)


def _text(session: Session) -> bool:
    return output_format(session.output, None, "dataset") == "csv" and not sniff.packing(session.output)


def _plain(session: Session, fitted: Artifact, request: Request) -> bool:
    as_it_is = request.label in (None, "y") and request.input_format in (None, "hdf5", "parquet") and request.source != "-"
    changes = (request.split, request.threshold, request.value_range, session.missing, "categorical" in session.given)
    in_time = request.want == "forecasts" or bool(fitted.recoding)  # or gaps and texts that become what all rows of training say
    return fitted.kind in ROW_BY_ROW and as_it_is and not in_time and not any(changes)
