"""svmlight text: a label, then index:value pairs, a row per line.  `# comment` and `qid:` are ignored.

Indices count from 1; if one is 0 they are taken to count from 0.  d is the largest index.
Source: Joachims (1999), SVM-light input format.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import numpy as np

from herdcli.artifacts.assemble import assemble, smallest_integers
from herdcli.artifacts.dataset import Dataset
from herdcli.errors import DataError
from herdcli.schema import Array

BLOCK = 1 << 22
_SPACE = np.zeros(256, dtype=bool)
_SPACE[[9, 10, 11, 12, 13, 32]] = True


def read_dataset(stream: BinaryIO, *, where: str, note: Callable[[str], None]) -> Dataset:
    """The data set of svmlight text."""
    X, labels = read(stream, where=where)
    return assemble(X, {"y": labels}, {}, where=where, note=note)


def read(stream: BinaryIO, *, where: str) -> tuple[Any, Array]:
    """CSR rows and float64 labels of svmlight text, parsed block by block as it arrives."""
    labels, columns, values, lengths = [], [], [], []
    line = 0
    for block in _line_blocks(stream):
        label, column, value, length, count = _parse(_without_comments(block), line, where)
        labels.append(label)
        columns.append(column)
        values.append(value)
        lengths.append(length)
        line += count
    if not labels or not sum(map(len, labels)):
        raise DataError("there is no line of data", where=where)
    return _matrix(np.concatenate(columns), np.concatenate(values), np.concatenate(lengths), where), np.concatenate(labels)


def _line_blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Whole lines, about 4 MB at a time."""
    rest = b""
    while piece := stream.read(BLOCK):
        whole, newline, tail = piece.rpartition(b"\n")
        if newline:
            yield rest + whole + newline
            rest = tail
        else:
            rest += piece
    if rest.strip():
        yield rest + b"\n"


def _without_comments(block: bytes) -> bytes:
    if b"#" in block:
        block = re.sub(rb"#[^\n]*", b"", block)
    return re.sub(rb"\bqid:\S+", b"", block) if b"qid:" in block else block


def _parse(block: bytes, line: int, where: str) -> tuple[Array, Array, Array, Array, int]:
    """Labels, indices, values and pairs per row of whole lines, and the number of lines.

    The structure is read off the separators: each token but the first of a line has one colon
    inside.  Then colons become blanks and all numbers are parsed in one pass.
    """
    text = np.frombuffer(block, dtype=np.uint8)
    blank = _SPACE[text]
    starts = np.flatnonzero(~blank & np.concatenate(([True], blank[:-1])))
    newlines = np.flatnonzero(text == 10)
    if not len(starts):
        none = np.zeros(0)
        return none, none.astype(np.int32), none, none.astype(np.int64), len(newlines)
    line_of_token = np.searchsorted(newlines, starts)
    first = np.concatenate(([True], line_of_token[1:] != line_of_token[:-1]))
    colons = np.flatnonzero(text == 58)
    per_token = np.bincount(np.searchsorted(starts, colons, side="right") - 1, minlength=len(starts))
    numbers = _numbers(block.replace(b":", b" "))
    wanted = 2 * len(starts) - int(first.sum())
    if (per_token != ~first).any() or len(numbers) != wanted:
        raise _complaint(block, line, where)
    at = np.cumsum(1 + ~first) - (1 + ~first)
    pairs = at[~first]
    index = numbers[pairs]
    if len(index) and ((index != np.floor(index)).any() or index.min() < 0 or index.max() >= 2**31 - 1):
        raise _complaint(block, line, where)
    length = np.diff(np.append(np.flatnonzero(first), len(starts))) - 1
    return numbers[at[first]], index.astype(np.int32), numbers[pairs + 1], length, len(newlines)


def _numbers(text: bytes) -> Array:
    """All numbers of blank-separated text; fewer than there are if one is malformed."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return np.fromstring(text, dtype=np.float64, sep=" ")
        except (ValueError, DeprecationWarning):
            return np.zeros(0)


def _complaint(block: bytes, line: int, where: str) -> DataError:
    """The error for the first malformed token, found by reading the block again slowly."""
    for number, text in enumerate(block.decode("utf-8", "replace").split("\n"), start=line + 1):
        for position, token in enumerate(text.split()):
            if not (_is_float(token) if position == 0 else _is_pair(token)):
                expected = "a label" if position == 0 else "index:value"
                hint = "other text is read with --input-format csv"
                return DataError(f"line {number} has {token[:40]!r} where {expected} should stand", where=where, hint=hint)
    return DataError("the text is not svmlight", where=where)


def _is_pair(token: str) -> bool:
    index, colon, value = token.partition(":")
    return colon == ":" and index.isascii() and index.isdigit() and int(index) < 2**31 - 1 and _is_float(value)


def _is_float(token: str) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return "_" not in token


def _matrix(columns: Array, values: Array, lengths: Array, where: str) -> Any:
    from scipy.sparse import csr_matrix

    if not len(columns):
        raise DataError("no row has a feature", where=where)
    if columns.min() > 0:
        columns -= 1
    pointer = np.concatenate(([0], np.cumsum(lengths)))
    if (np.isfinite(values) & (values == np.round(values)) & (np.abs(values) <= 2**53)).all():
        values = smallest_integers(values)
    matrix = csr_matrix((values, columns, pointer), shape=(len(lengths), int(columns.max()) + 1))
    entries = matrix.nnz
    matrix.sum_duplicates()
    if matrix.nnz != entries:
        raise DataError("a row names the same index twice", where=where)
    return matrix


def write(path: Any, data: Dataset) -> None:
    """Write a data set as svmlight text, indices from 1, zeros left out.

    Labels are the integers of `y`, or the class names where those are numbers; 0 without labels.
    """
    labels = _label_texts(data)
    with open(path, "w", encoding="ascii") as out:
        for row in range(data.X.shape[0]):
            columns, values = _entries(data, row)
            pairs = " ".join(f"{column + 1}:{value!r}" for column, value in zip(columns.tolist(), values.tolist(), strict=True))
            out.write(f"{labels[row]} {pairs}\n" if pairs else f"{labels[row]}\n")


def _label_texts(data: Dataset) -> list[str]:
    if data.y is None:
        return ["0"] * data.X.shape[0]
    if data.class_names and all(re.fullmatch(r"[-+]?\d+", name) for name in data.class_names):
        return [data.class_names[label] for label in data.y]
    return [str(label) for label in data.y.tolist()]


def _entries(data: Dataset, row: int) -> tuple[Array, Array]:
    """Columns and values of a row's entries that are not zero."""
    if data.is_sparse:
        part = slice(data.X.indptr[row], data.X.indptr[row + 1])
        kept = data.X.data[part] != 0
        columns, values = data.X.indices[part][kept], data.X.data[part][kept]
    else:
        columns = np.flatnonzero(data.X[row])
        values = data.X[row, columns]
    if values.dtype.kind == "f" and values.dtype.itemsize < 8:
        values = np.array([float(str(value)) for value in values])
    return columns, values.astype(np.uint8) if values.dtype.kind == "b" else values
