"""svmlight text: a label, then index:value pairs, a row per line.  `# comment` and `qid:` are ignored.

Indices count from 1, in any order; if an index is 0, all are assumed to count from 0.  d is the largest index.  NaN and infinity are
values that the command may refuse.
Source: Joachims (1999), SVM-light input format.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import numpy as np

from herdcli import fast
from herdcli.artifacts import memory_budget
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.tables.dataset_assembly import assemble_dataset, shrink_integers
from herdcli.errors import DataError
from herdcli.schema import Array, CSRMatrix

BLOCK = 1 << 22
ROOM = 18  # bytes of numbers that the parser allocates for each byte of text
BAD_LABEL = 1  # the code of `fast.parse_text` for a wrong label; all other codes are about a pair
LISTED = 5  # labels in a message


def read_dataset(stream: BinaryIO, *, where: str, note: Callable[[str], None], limit: int | None = None) -> Dataset:
    """Read the data set of svmlight text.  limit: the most bytes that it may take."""
    X, labels = parse_svmlight(stream, where=where, limit=limit)
    return assemble_dataset(X, {"y": labels}, {}, where=where, note=note)


def parse_svmlight(stream: BinaryIO, *, where: str, limit: int | None = None) -> tuple[Any, Array]:
    """Return CSR rows (n, d) and float64 labels (n,) of svmlight text, parsed block by block as it arrives.

    Raises DataError with the number of the first wrong line, and if there is no line of data, no feature, or a
    repeated index in a row.
    """
    found: list[tuple[Array, ...]] = []
    label = weight = value = np.empty(0)
    pointer, index = np.empty(0, np.int64), np.empty(0, np.int32)
    line = 0
    for block in _line_blocks(stream):
        check_line_length(len(block), limit, where)
        most = len(block) // 2 + 2  # a row and an entry have at least two bytes
        if len(label) < most:
            label, weight, value = np.empty(most), np.empty(most), np.empty(most)
            pointer, index = np.empty(most + 1, np.int64), np.empty(most, np.int32)
        rows, _, lines, code, _, token, length = fast.parse_text(block, False, 0, 0, label, weight, pointer, index, value, None, True)
        line += lines
        if code:
            raise _parse_error(block[token : token + length], code, line, where)
        entries = int(pointer[rows])
        found.append((label[:rows].copy(), np.diff(pointer[: rows + 1]), index[:entries].copy(), value[:entries].copy()))
    if not sum(len(part[0]) for part in found):
        raise DataError("the file has no lines of data", where=where, hint="check whether the command that wrote the text was interrupted")
    labels, lengths, columns, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return _csr_matrix(columns, values, lengths, where), labels


def check_line_length(size: int, limit: int | None, where: str) -> None:
    """Raise DataError for an unusually long line if its numbers could need more memory than the limit."""
    if limit is not None and size > 2 * BLOCK and ROOM * size > limit:
        memory_budget.require_memory(ROOM * size, limit, where=f"{where}: a line of {size:,} bytes".replace(",", " "))


def _line_blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield whole lines, about 4 MB at a time, without a byte order mark."""
    rest, first = b"", True
    while piece := stream.read(BLOCK):
        piece, first = piece.removeprefix(codecs.BOM_UTF8) if first else piece, False
        whole, newline, tail = piece.rpartition(b"\n")
        if newline:
            yield rest + whole + newline
            rest = tail
        else:
            rest += piece
    if rest.strip():
        yield rest + b"\n"


def _parse_error(token: bytes, code: int, line: int, where: str) -> DataError:
    """Return the error for the token at which the parser stopped."""
    shown, expected = token.decode("utf-8", "replace")[:40], "a label" if code == BAD_LABEL else "index:value"
    hint = "if this is not svmlight, use --input-format csv"
    return DataError(f"line {line} has {shown!r} where {expected} was expected", where=where, hint=hint)


def _csr_matrix(columns: Array, values: Array, lengths: Array, where: str) -> CSRMatrix:
    from scipy.sparse import csr_matrix

    if not len(columns):
        raise DataError("the rows have no features", where=where, hint="write each line as: LABEL INDEX:VALUE …")
    columns -= 1 if columns.min() == 1 else 2  # after an index 0, the parser returns that index as 1
    pointer = np.concatenate(([0], np.cumsum(lengths)))
    if (np.isfinite(values) & (values == np.round(values)) & (np.abs(values) <= 2**53)).all():
        values = shrink_integers(values)
    matrix = csr_matrix((values, columns, pointer), shape=(len(lengths), int(columns.max()) + 1))
    entries = matrix.nnz
    matrix.sum_duplicates()
    if matrix.nnz != entries:
        raise DataError("a row has the same feature index twice", where=where, hint="give each index one value in a row")
    return matrix


def write(path: Any, data: Dataset) -> None:
    """Write a data set as svmlight text, with indices from 1 and without zeros.

    Labels are the integers of `y`, or the class names if those are numbers; 0 without labels.
    """
    labels = _label_texts(data)
    with open(path, "w", encoding="ascii") as out:
        for row in range(data.X.shape[0]):
            columns, values = _nonzero_entries(data, row)
            pairs = " ".join(f"{column + 1}:{value!r}" for column, value in zip(columns.tolist(), values.tolist(), strict=True))
            out.write(f"{labels[row]} {pairs}\n" if pairs else f"{labels[row]}\n")


def _are_whole_numbers(names: list[str]) -> bool:
    """Return whether names are whole numbers, none of them in two spellings such as 01 and 1."""
    return all(re.fullmatch(r"0|-?[1-9]\d*", name) for name in names)


def _label_texts(data: Dataset) -> list[str]:
    if data.y is None:
        return ["0"] * data.X.shape[0]
    if data.class_names and _are_whole_numbers(data.class_names):
        return [data.class_names[label] for label in data.y]
    return [str(label) for label in data.y.tolist()]


def export_warnings(value: Any) -> Iterator[str]:
    """Yield warnings about information that the text does not contain."""
    if isinstance(value, Dataset) and value.y is not None and value.class_names and not _are_whole_numbers(value.class_names):
        names = ", ".join(f"{place} for '{name}'" for place, name in enumerate(value.class_names[:LISTED]))
        yield f"svmlight labels are numbers: {names}{', …' if len(value.class_names) > LISTED else ''}"


def _nonzero_entries(data: Dataset, row: int) -> tuple[Array, Array]:
    """Return the columns and values of a row's nonzero entries."""
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
