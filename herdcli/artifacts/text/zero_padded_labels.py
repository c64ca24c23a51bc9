"""Labels that look like whole numbers in the first lines of a text: read as bytes, and converted to numbers if no label is like 01.

01 and 1 would be the same number but are two labels, no matter where in a file the zeros occur.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

PADDED = r"^[ \t]*0[0-9]+[ \t]*$"


def leading_zero_message(first: str) -> str:
    """Return the message about labels with leading zeros."""
    return f"labels such as {first} are read as text, so {first} and {first.lstrip('0') or '0'} are different labels"


def find_zero_padded_value(column: pa.ChunkedArray) -> str | None:
    """Return the first value with leading zeros in a column of bytes."""
    import pyarrow.compute as pc

    # Most columns have no value of two or more bytes that begins with 0 or a blank; only such ones are looked at closely.
    near = pc.and_(pc.greater(pc.binary_length(column), 1), pc.less_equal(column, b"1"))
    if not pc.any(near).as_py():
        return None
    some = column.filter(near)
    place = pc.index(pc.match_substring_regex(some, PADDED), True).as_py()
    return None if place < 0 else some[place].as_py().decode().strip()


def decode_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of bytes as texts; unchanged if it is not UTF-8."""
    import pyarrow as pa

    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return column


def convert_labels(column: pa.ChunkedArray, nulls: list[str]) -> pa.ChunkedArray:
    """Return a column of bytes with the type that pyarrow's reader finds for it: whole numbers, truth values, real numbers, or texts.

    nulls  texts that mean a missing value.
    """
    import pyarrow as pa

    read = decode_texts(column)
    if not pa.types.is_string(read.type):
        return column
    try:
        return read.cast(pa.int64())  # no missing values and no blanks around numbers: the common case
    except pa.ArrowInvalid:
        values = _without_nulls(read, nulls)
    for kind in (pa.int64(), pa.bool_(), pa.float64()):
        try:
            return values.cast(kind)
        except pa.ArrowInvalid:
            continue
    return read


def convert_batch_labels(column: pa.ChunkedArray, nulls: list[str], kind: pa.DataType | None, name: str, where: str) -> pa.ChunkedArray:
    """Return a later batch of the column of labels, converted to `kind`, the type of the first batch.  Raises DataError if it cannot be."""
    import pyarrow as pa

    try:
        read = column.cast(pa.string())
        return read if pa.types.is_string(kind) else _without_nulls(read, nulls).cast(kind)
    except pa.ArrowInvalid as error:
        raise DataError(f"column '{name}' has values of another type than its first rows: {error}", where=where) from error


def _without_nulls(column: pa.ChunkedArray, nulls: list[str]) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    bare = pc.utf8_trim_whitespace(column)
    absent = pc.is_in(bare, value_set=pa.array(nulls, pa.string()))
    return pc.if_else(absent, None, bare) if pc.any(absent).as_py() else bare
