"""Labelled examples for online learning: text that is read as it arrives, or a data set in memory."""

from __future__ import annotations

import codecs
import contextlib
import fnmatch
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, BinaryIO

import numpy as np

from herdcli.artifacts import Artifact, memory_budget
from herdcli.artifacts.byte_sources import ByteSource, open_source
from herdcli.artifacts.formats.format_detection import is_bar_separated
from herdcli.artifacts.rows import lazy_matrix, row_ranges
from herdcli.artifacts.tables import dataset_preparation
from herdcli.artifacts.text.svmlight import check_line_length
from herdcli.cli.frame.rows import response_datasets, streamed_rows
from herdcli.cli.frame.run.session import Session
from herdcli.errors import BadUsage, DataError, HerdError
from herdcli.online.class_labels import MOST, check_classes, format_labels
from herdcli.online.text.class_names import has_named_labels
from herdcli.records import dataclass
from herdcli.schema import Array, class_index

PIECE = 1 << 20
UNBOUNDED = 1 << 62
COPIED = 28  # bytes per entry for reading and learning in memory, in addition to the stored ones
UNLABELLED, UNLABELLED_HINT = "there are no labels to learn from", "name the column of labels: --label COLUMN"
_NUMBER = rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_NAMED = re.compile(rb"[^\s:,;|#]+(?:\s+\d+:" + _NUMBER + rb")+\s*")
_SVMLIGHT = re.compile(_NUMBER + rb"(?:\s+(?:qid|\d+):\S+)+\s*(?:#.*)?")
_VW = re.compile(rb"[^|,;\t]*\|(?:\S+)?(?:\s|$).*", re.DOTALL)
_OF_SETS = {  # patterns of lines with any number of labels
    "svmlight": re.compile(rb"(?:[^\s:,;]+(?:,[^\s:,;]+)*)?\s+(?:\d+:\S+\s*)+(?:#.*)?|\d+:\S+(?:\s+\d+:\S+)*"),
    "vw": re.compile(rb"[^|;\t]*\|(?:\S+)?(?:\s|$).*", re.DOTALL),
}
_BINARY = (b"\x89HDF", b"herd-artifact", b"PAR1", b"PK\x03\x04", b"MATLAB", b"\x93NUMPY")


@dataclass
class ExampleInput:
    """The examples of an opened input: a data set, or text with a function that reads it again for each pass."""

    name: str
    text: str = ""  # the format of the text: svmlight or vw
    pieces: Callable[[], Iterable[memoryview]] = tuple  # yields whole lines, each piece valid until the next one is requested
    data: Artifact | None = None
    size: int = 0  # bytes of text, 0 if unknown
    used: int = 0  # bytes read so far, in all passes
    finish: Callable[[], None] = lambda: None
    named: bool = False  # whether the labels of the text are names
    proof: Callable[[], bytes] = bytes  # length and digest of the text that has been read in this pass


def learnable_text_format(head: bytes, name: str, requested: str | None, task: str = "classification") -> str:
    """Return svmlight or vw for text that is learned from as it arrives, "" for everything else."""
    if requested is not None:
        return requested if requested in ("svmlight", "vw") else ""
    if head.startswith(_BINARY):
        return ""
    if name.endswith((".vw", ".svm", ".svmlight", ".libsvm")):
        return "vw" if name.endswith(".vw") else "svmlight"
    lines = [line.strip() for line in head.split(b"\n") if line.strip() and not line.lstrip().startswith(b"#")][:20]
    if task == "multilabel":
        bare = [line.rstrip() for line in head.split(b"\n") if line.strip() and not line.lstrip().startswith(b"#")][:2]
        return next((form for form, line in _OF_SETS.items() if any(map(line.fullmatch, bare))), "")
    if any(_SVMLIGHT.fullmatch(line) for line in lines[:2]) or (len(lines) > 1 and all(map(_NAMED.fullmatch, lines[:2]))):
        return "svmlight"
    if is_bar_separated([line.decode("utf-8", "replace") for line in lines]):
        return ""
    return "vw" if lines and _VW.fullmatch(lines[0]) else ""


@contextlib.contextmanager
def open_examples(
    session: Session,
    path: str,
    *,
    role: str,
    passes: int,
    input_format: str | None,
    label: str | None,
    lazily: bool = False,
    tables: bool = False,
    labels: bool = True,
    task: str = "classification",
) -> Iterator[ExampleInput]:
    """Open the examples of a file or stdin, compressed or not.  Their digest is in `session.inputs` once they have been read.

    lazily  the rows of a large HDF5 file stay in it, with `tables` those of Parquet and CSV too.  Without `tables`, rows that do not fit
            into memory are stored on disk.
    task    the kind of targets: classes, numbers or sets of labels.
    labels  whether labels are needed.
    """
    session.refuse_stdin_twice(path)
    if row_ranges.is_file_pattern(path):
        yield ExampleInput(path, data=_load_dataset(session, path, path, role, input_format, label, task, labels))
        return
    with open_source(path, limit=UNBOUNDED) as source:
        form = learnable_text_format(source.head, source.name, input_format, task)
        if form:
            with _open_text(session, source, form, role, passes) as examples:
                yield examples
            return
        if source.regular and lazily and task == "classification" and (kept_on_disk := _open_on_disk(session, path, input_format, label)):
            yield ExampleInput(source.name, data=kept_on_disk)
            return
        if source.regular and lazily and task == "classification" and _can_stay_in_file(session, source, label, tables):
            note, verified, roles = session.console.note, session.shard is None, session.column_roles()
            with row_ranges.open_ranges(path, input_format=input_format, note=note, verified=verified, roles=roles) as found:
                kept = (
                    None
                    if found is None
                    else lazy_matrix.file_backed_dataset(found, declared=True)
                    if tables
                    else lazy_matrix.hdf5_backed_dataset(found)
                )
                if found is not None and kept is not None and kept.y is not None:
                    session.inputs[role] = found.artifact
                    session.report_range_use(found)
                    yield ExampleInput(source.name, data=replace(found.artifact, value=kept))
                    return
        if source.regular:
            yield ExampleInput(source.name, data=_load_dataset(session, path, path, role, input_format, label, task, labels))
            return
        with source.file_path() as drained:
            data = _load_dataset(session, drained, source.name, role, input_format, label, task, labels)
        yield ExampleInput(source.name, data=data)


def _open_on_disk(session: Session, path: str, input_format: str | None, label: str | None) -> Artifact | None:
    """Return a labelled data set whose rows are stored on disk because reading them whole would exceed --max-memory; None for others."""
    if session.shard is not None or session.cluster is not None:
        return None
    found = streamed_rows.open_streamed_dataset(
        session, path, label=label, input_format=input_format, is_requested=False, unit_bytes=COPIED
    )
    return None if found is None or found.value.y is None else found


def _can_stay_in_file(session: Session, source: ByteSource, label: str | None, tables: bool) -> bool:
    """Whether a file's rows can stay in it: it is large, it is HDF5 (or with `tables` a table), and its rows are used unchanged."""
    plain = session.missing is None and "categorical" not in session.given and label in (None, "y")
    return plain and (lazy_matrix.is_large_file(source) if tables else lazy_matrix.can_stay_in_file(source))


def _load_dataset(
    session: Session, path: str, name: str, role: str, input_format: str | None, label: str | None, task: str, labels: bool
) -> Artifact:
    """Return a data set under the name by which the user knows it."""
    try:
        if task == "classification":
            found = session.load(path, role, kinds={"dataset"}, input_format=input_format, label=label, labels=labels)
        else:
            with streamed_rows.suggest_streaming(streamed_rows.FEWER_COLUMNS, lambda: True):
                found = response_datasets.load_responses(session, path, task, input_format, label, labels=labels)
    except HerdError as error:
        if error.where and error.where.startswith(path):
            error.where = name + error.where[len(path) :]
        raise
    session.inputs[role] = found = replace(found, name=name)
    return found


@contextlib.contextmanager
def _close_ignoring_errors(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Yield a stream for reading and close it afterwards; errors on closing are ignored, since the data were read."""
    try:
        yield stream
    finally:
        with contextlib.suppress(OSError):
            stream.close()


class _BackgroundDigest:
    """SHA-256 of the text read so far, computed in a thread while lines are learned; small texts are digested without a thread."""

    def __init__(self) -> None:
        self._whole, self.size, self.count = hashlib.sha256(), 0, 0
        self._asked: SimpleQueue[tuple[memoryview, int] | None] | None = None
        self._told: SimpleQueue[bytes] = SimpleQueue()  # proofs of the text up to the end of each piece
        self._last, self._reached = b"", 0

    def update(self, piece: memoryview) -> None:
        """Add a piece, which must not change until its proof is known."""
        self.size, self.count = self.size + len(piece), self.count + 1
        if self._asked is None and len(piece) >= PIECE // 2:
            from threading import Thread

            self._asked = SimpleQueue()
            Thread(target=self._digest_queued_pieces, args=(self._asked,), daemon=True).start()
        if self._asked is None:
            self._digest(piece, self.size)
        else:
            self._asked.put((piece, self.size))

    def _digest_queued_pieces(self, queue: SimpleQueue[tuple[memoryview, int] | None]) -> None:
        while (found := queue.get()) is not None:
            self._digest(*found)
            del found  # a view would keep its buffer alive

    def _digest(self, piece: memoryview, size: int) -> None:
        self._whole.update(piece)
        self._told.put(size.to_bytes(8, "big") + self._whole.copy().digest())

    def proof(self, count: int) -> bytes:
        """Return size and digest of the first `count` pieces; earlier proofs are no longer available."""
        while self._reached < count:
            self._last, self._reached = self._told.get(), self._reached + 1
        return self._last

    def close(self) -> None:
        """Let the thread end."""
        if self._asked is not None:
            self._asked.put(None)


@contextlib.contextmanager
def _open_text(session: Session, source: ByteSource, form: str, role: str, passes: int) -> Iterator[ExampleInput]:
    """Open text to be read in pieces; until it has been read to its end, it is identified by the digest of its beginning."""

    def known_as(kind: str, digest: str, size: int) -> None:
        session.inputs[role] = Artifact(kind, None, [], digest, source.name, size, False)

    digest, reached = _BackgroundDigest(), 0

    def read() -> Iterator[memoryview]:
        nonlocal digest, reached
        whole = _BackgroundDigest()
        digest, reached = whole, 0
        with _close_ignoring_errors(open(path, "rb") if path else source.reader()) as stream, contextlib.closing(whole):
            pieces = _digest_pieces(stream, limit, source.name, whole)
            for number, used, lines in _read_ahead(pieces) if path or source.regular else pieces:
                reached, examples.used = number, examples.used + used
                if lines:
                    yield lines
            found.append((whole.proof(whole.count)[8:].hex(), whole.size))
        if found[-1] != found[0]:
            raise DataError("has changed between two passes", where=source.name, hint="do not change the file during the run")

    def proof() -> bytes:
        return digest.proof(reached)

    limit = session.max_memory or memory_budget.default_memory_limit()
    found: list[tuple[str, int]] = []
    path: str | None = None
    known_as("text-head", hashlib.sha256(source.head).hexdigest(), len(source.head))
    with contextlib.ExitStack() as stack:
        if passes > 1 and not source.regular:
            path = stack.enter_context(source.file_path())
        known = source.size if source.regular else 0
        examples = ExampleInput(
            source.name,
            form,
            read,
            named=has_named_labels(source.head.removeprefix(codecs.BOM_UTF8), vw=form == "vw"),
            size=known,
            proof=proof,
            finish=lambda: known_as("text", *found[0]),
        )
        yield examples


Piece = tuple[int, int, memoryview]  # its number, from 1; the number of bytes read for it; the lines that it completes


def _digest_pieces(stream: BinaryIO, limit: int, where: str, whole: _BackgroundDigest) -> Iterator[Piece]:
    """Yield pieces of lines; a thread digests the bytes that were read for them meanwhile."""

    def ready() -> None:
        whole.proof(whole.count - 1)  # the proof for the buffer that is filled next; the piece before may still be in progress

    for fresh, lines in _read_whole_lines(stream, limit, where, ready):
        whole.update(fresh)
        yield whole.count, len(fresh), lines


def _read_ahead(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield the pieces one ahead: each is read while the one before it waits to be used; only for files, whose reading never blocks."""
    waiting, pieces = None, iter(pieces)
    while True:
        failed = None
        try:
            piece = next(pieces, None)
        except (HerdError, OSError) as error:
            piece, failed = None, error
        if waiting is not None:
            yield waiting
        if failed is not None:
            raise failed
        if piece is None:
            return
        waiting = piece


def _read_whole_lines(
    stream: BinaryIO, limit: int, where: str, ready: Callable[[], None] = lambda: None
) -> Iterator[tuple[memoryview, memoryview]]:
    """Yield the bytes that were read and the lines that they complete, as views of two alternating buffers.

    A piece is valid until the one after the next is requested; `ready` is called before its buffer is overwritten.  The lines begin
    after a byte order mark.
    Raises DataError for a line whose numbers could take more than `limit` bytes.
    """
    buffer, other, kept, first = bytearray(PIECE), bytearray(PIECE), 0, True
    while count := stream.readinto(memoryview(buffer)[kept:]):  # type: ignore[attr-defined]
        end = kept + count
        cut = buffer.rfind(b"\n", kept, end) + 1
        yield memoryview(buffer)[kept:end], memoryview(buffer)[_byte_order_mark_length(buffer) if first and cut else 0 : cut]
        first = first and not cut
        kept = end - cut
        ready()
        if 2 * kept > len(buffer):
            check_line_length(2 * kept, limit, where)
        if 2 * kept > len(buffer) or len(other) < len(buffer):
            other = bytearray(2 * len(buffer) if 2 * kept > len(buffer) else len(buffer))
        other[:kept] = memoryview(buffer)[cut:end]
        buffer, other = other, buffer
    yield memoryview(b""), memoryview(buffer)[_byte_order_mark_length(buffer) if first else 0 : kept]


def _byte_order_mark_length(text: bytearray) -> int:
    """Return the length of a byte order mark at the beginning of a text; 0 without one."""
    return len(codecs.BOM_UTF8) if text.startswith(codecs.BOM_UTF8) else 0


@dataclass(frozen=True)
class ClassificationRows:
    """A data set as a classification task: rows X, class indices y into names, and the split of each row."""

    X: Any
    y: Array
    split: Array
    names: list[str]
    weight: Array | None
    feature_names: list[str] | None


def classification_rows(
    data: Artifact, *, split: str | None, seed: int, only: str | None, positive: str | None, classes: str | None, max_classes: int = MOST
) -> ClassificationRows:
    """Return the task for a data set and the class options.  Raises DataError if labels are missing or of one class."""
    value = data.value
    if value.y is None:
        raise DataError(UNLABELLED, where=data.name, hint=UNLABELLED_HINT)
    names, y = _label_names(value)
    if not value.class_names and classes is None:
        check_classes(np.unique(value.y).tolist(), data.name, max_classes)
    parts = _assign_splits(data, split, seed)
    if classes is not None:
        names, y = _declared_classes(classes.split(","), names, y, data.name)
    keep = np.ones(len(y), dtype=bool)
    if only is not None:
        chosen = [index for pattern in only.split(",") for index in _matching_classes(pattern, names, "--only")]
        keep = np.isin(y, chosen)
        place = np.full(len(names), -1)
        place[chosen] = np.arange(len(chosen))
        names, y = [names[index] for index in chosen], place[y]
    if positive is not None:
        inside = {index for pattern in positive.split(",") for index in _matching_classes(pattern, names, "--positive")}
        names, y = ["rest", positive], np.isin(y, list(inside)).astype(np.int64)
    y = y[keep]
    _require_several_classes(y, names, data.name)
    X = value.X if keep.all() else value.X.select_rows(keep) if isinstance(value.X, lazy_matrix.LazyMatrix) else value.X[keep]
    weight = None if value.weight is None else value.weight[keep]
    return ClassificationRows(X, y, parts[keep], names, weight, value.feature_names)


def _require_several_classes(y: Array, names: list[str], where: str) -> None:
    if len(np.unique(y)) < 2:
        label = names[int(y[0])] if len(y) else "none"
        raise DataError(f"every example has label {label}; a classifier needs at least two classes", where=where)


@dataclass(frozen=True)
class KnownLabels:
    """The labels of the rows of a data set as indices into a model's classes, looked up on demand.

    y (n,) as stored;  values (k,) the distinct ones in ascending order;  place (k,) the index of each among the classes.
    """

    y: Array
    values: Array
    place: Array

    def __getitem__(self, rows: slice) -> Array:
        return self.place[np.searchsorted(self.values, self.y[rows])]


def labels_as_model_classes(data: Artifact, classes: Sequence[str]) -> KnownLabels:
    """Return the labels of a data set on which a model is evaluated.

    Raises DataError if they are missing, all of one class, or unknown to the model.
    """
    y: Array | None = data.value.y
    if y is None:
        raise DataError(UNLABELLED, where=data.name, hint=UNLABELLED_HINT)
    values = np.unique(np.concatenate([np.unique(y[start : start + PIECE]) for start in range(0, len(y), PIECE)]))
    names = [data.value.class_names[int(value)] if data.value.class_names else str(value) for value in values]
    _, place = _declared_classes(list(classes), names, np.arange(len(names)), data.name)
    _require_several_classes(place, list(classes), data.name)
    return KnownLabels(y, values, place)


def _label_names(value: Any) -> tuple[list[str], Array]:
    if value.class_names:
        return list(value.class_names), value.y.astype(np.int64)
    labels, y = np.unique(value.y, return_inverse=True)
    return [str(label) for label in labels], y


def _assign_splits(data: Artifact, split: str | None, seed: int) -> Array:
    try:
        return dataset_preparation.assign_splits(data.value, split, seed)
    except HerdError as error:
        error.where = error.where or data.name
        raise


def _declared_classes(classes: list[str], names: list[str], y: Array, where: str) -> tuple[list[str], Array]:
    present = [names[index] for index in np.unique(y)]
    strange = [name for name in present if class_index(name, classes) is None]
    if strange:
        raise DataError(
            f"label {strange[0]} is not one of the classes {format_labels(classes)}", where=where, hint="declare all of them with --classes"
        )
    place = [class_index(name, classes) for name in names]
    return classes, np.array([-1 if own is None else own for own in place])[y]


def _matching_classes(pattern: str, names: list[str], option: str) -> list[int]:
    found = [index for index, name in enumerate(names) if fnmatch.fnmatchcase(name, pattern)]
    found = found or [index for index in [class_index(pattern, names)] if index is not None]
    if not found:
        raise BadUsage(f"no class is called '{pattern}'", where=option, hint=f"classes: {format_labels(names)}")
    return found
