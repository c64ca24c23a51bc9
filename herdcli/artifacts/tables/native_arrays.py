"""Conversion of foreign arrays to native byte order, C order and the types that all of herd supports.

| stored as                                     | becomes                                                 |
|-----------------------------------------------|---------------------------------------------------------|
| any byte order, any strides                   | native, contiguous                                      |
| float16                                       | float32, exactly                                        |
| long double (10 to 16 bytes)                  | float64; values beyond its range are refused            |
| bytes                                         | text, UTF-8                                             |
| objects                                       | text                                                    |
| dates and times, complex numbers, records     | refused                                                 |
| CSR with any integer indices, in any order    | CSR with sorted int32 or int64 indices, duplicates added |
"""

from __future__ import annotations

from typing import Any

import numpy as np

from herdcli.errors import DataError
from herdcli.schema import Array, CSRMatrix, Matrix, is_sparse

SUPPORTED = 8  # the largest element in bytes
DATES_HINT = "turn them into numbers (days since a start, the month, the hour), or remove the column"
_REFUSED = {
    "M": ("dates or times", DATES_HINT),
    "m": ("lengths of time", "turn them into numbers: X.astype('timedelta64[s]').astype(float)"),
    "V": ("records (a structured array)", "make a plain array of it: numpy.lib.recfunctions.structured_to_unstructured"),
}


def native_array(values: Any, *, name: str, where: str) -> Array:
    """Return an array in native byte order and C order, of a supported type; text as `str`.  name  the name in messages.

    Raises DataError for types other than numbers and text, and for long doubles too large for float64.
    """
    given = np.asarray(values)
    kind = given.dtype.kind
    if kind == "c":
        hint = "save the real and the imaginary part as two columns"
        raise DataError(f"/{name} has the type {given.dtype}, but must have numbers", where=where, hint=hint)
    if kind in _REFUSED:
        what, hint = _REFUSED[kind]
        raise DataError(f"/{name} has {what}, which herd does not read", where=where, hint=hint)
    if kind == "S":
        return _decode_text(given, name, where)
    if kind == "O":
        return np.asarray(given.astype(np.str_))
    if kind == "f":
        return _as_float(given, name, where)
    return np.ascontiguousarray(given, dtype=given.dtype.newbyteorder("=")).reshape(given.shape)


def _as_float(values: Array, name: str, where: str) -> Array:
    """Return real numbers as float32 or float64."""
    wanted: Any = (
        np.float32 if values.dtype.itemsize < 4 else np.float64 if values.dtype.itemsize > SUPPORTED else values.dtype.newbyteorder("=")
    )
    with np.errstate(over="ignore"):
        made = np.ascontiguousarray(values, dtype=wanted).reshape(values.shape)
    if values.dtype.itemsize > SUPPORTED and (lost := np.isfinite(values) & ~np.isfinite(made)).any():
        worst = np.argwhere(lost)[0].tolist()
        raise DataError(
            f"/{name} has a long double in row {worst[0] if worst else 0} that is too large for float64", where=where, hint="rescale it"
        )
    return made


def _decode_text(values: Array, name: str, where: str) -> Array:
    try:
        return np.asarray(np.char.decode(values, "utf-8"))
    except UnicodeDecodeError as error:
        raise DataError(f"/{name} has text that is not UTF-8", where=where, hint="save it as str") from error


def native_matrix(X: Matrix, *, name: str, where: str) -> Matrix:
    """Return the rows: a dense array as from `native_array`, or a CSR matrix with native values.

    The indices of the CSR matrix are sorted, and name each column at most once per row.
    """
    if not is_sparse(X):
        return native_array(X, name=name, where=where)
    rows: CSRMatrix = X
    data = native_array(rows.data, name=name, where=where)
    if data is rows.data and rows.has_canonical_format:
        return rows
    rows = rows.copy()
    rows.data = data if data is not rows.data else rows.data
    rows.sort_indices()
    if not rows.has_canonical_format:
        rows = rows.astype(np.int64) if rows.data.dtype.kind in "iub" else rows  # sums of small types would overflow
        rows.sum_duplicates()
    return rows


def index_type(indices: Array, indptr: Array) -> Any:
    """Return the common type of the two index arrays of a CSR matrix: int32, or int64 if that is stored or needed.

    Raises ValueError for arrays of other types.
    """
    for values in (indices, indptr):
        if values.dtype.kind not in "iu":
            raise ValueError("a CSR matrix has integer indices")
        if values.dtype.kind == "u" and values.dtype.itemsize == SUPPORTED and values.size and values.max() > np.iinfo(np.int64).max:
            raise ValueError("indices are larger than any matrix")
    narrow = all(values.dtype.newbyteorder("=") in (np.int8, np.int16, np.int32, np.uint8, np.uint16) for values in (indices, indptr))
    return np.int32 if narrow else np.int64
