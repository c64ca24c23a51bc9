"""Conversion of pyarrow columns and types to NumPy, and back.

Numbers are copied between buffers: pyarrow's own conversions import pandas if it is installed, which takes
0.3 seconds in every command that reads or writes a table (and before version 21 they need pandas for types).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from herdcli.schema import Array, DType

if TYPE_CHECKING:
    import pyarrow as pa


def numpy_dtype(kind: pa.DataType) -> DType:
    """Return the NumPy type for the values of a pyarrow type."""
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        return np.dtype(bool)
    if pa.types.is_integer(kind):
        return np.dtype(f"{'u' * pa.types.is_unsigned_integer(kind)}int{kind.bit_width}")
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return np.dtype(object)
    if pa.types.is_floating(kind):
        return np.dtype(f"float{kind.bit_width}")
    dtype: DType = pa.nulls(0, kind).to_numpy(zero_copy_only=False).dtype
    return dtype


def to_numpy(column: pa.ChunkedArray) -> Array:
    """Return a pyarrow array or chunked array as a NumPy vector (n,): text as objects; numbers with nulls as floats with NaN."""
    import pyarrow as pa

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return _convert_chunks(column, lambda chunk: np.array(chunk.to_pylist(), dtype=object))
    if pa.types.is_boolean(column.type) and not column.null_count:
        return _convert_chunks(column, lambda chunk: _unpack_bits(chunk, 1))
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return _convert_chunks(column, lambda chunk: chunk.to_numpy(zero_copy_only=False))
    if column.null_count:
        kind = column.type if pa.types.is_floating(column.type) else pa.float64()
        return to_numpy_filled(column.cast(kind, safe=False), np.nan)
    return _convert_chunks(column, _chunk_to_numpy)


def to_numpy_filled(column: pa.ChunkedArray, value: float) -> Array:
    """Return a pyarrow array or chunked array of numbers as a NumPy vector (n,), with `value` in place of nulls."""
    return _convert_chunks(
        column, lambda chunk: np.where(_unpack_bits(chunk, 0), _chunk_to_numpy(chunk), numpy_dtype(chunk.type).type(value))
    )


def to_arrow(values: Array, absent: Array | None = None) -> pa.Array:
    """Return a NumPy vector (n,) as a pyarrow array, with nulls where `absent` (n,) is true."""
    import pyarrow as pa

    held: list[Array | bytes]
    if values.dtype.kind == "U" or (values.dtype.kind == "O" and all(isinstance(value, str) for value in values)):
        texts = [text.encode() for text in values.tolist()]
        kind, held = pa.string(), [np.cumsum([0, *map(len, texts)], dtype=np.int32), b"".join(texts)]
    elif values.dtype.kind in "biuf":
        values = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
        kind, held = pa.from_numpy_dtype(values.dtype), [_pack_bits(values) if values.dtype.kind == "b" else values]
    else:
        return pa.array(values, mask=absent)
    valid = None if absent is None or not absent.any() else pa.py_buffer(_pack_bits(~absent))
    return pa.Array.from_buffers(kind, len(values), [valid, *map(pa.py_buffer, held)])


def _convert_chunks(column: pa.ChunkedArray, convert_chunk: Callable[[pa.Array], Array]) -> Array:
    parts = [convert_chunk(chunk) for chunk in getattr(column, "chunks", [column])]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, numpy_dtype(column.type)), *parts])


def _chunk_to_numpy(chunk: pa.Array) -> Array:
    """Return one pyarrow array of numbers as a NumPy vector that shares its memory; the values at nulls are arbitrary."""
    dtype = numpy_dtype(chunk.type)
    return np.frombuffer(chunk.buffers()[1] or b"", dtype, len(chunk), chunk.offset * dtype.itemsize)


def _unpack_bits(chunk: pa.Array, buffer: int) -> Array:
    """Return one of the bit buffers of a pyarrow array as booleans, true everywhere if the buffer is missing."""
    held = chunk.buffers()[buffer]
    if held is None:
        return np.ones(len(chunk), dtype=bool)
    return np.unpackbits(np.frombuffer(held, np.uint8), count=chunk.offset + len(chunk), bitorder="little")[chunk.offset :].astype(bool)


def _pack_bits(values: Array) -> Array:
    return np.packbits(values, bitorder="little")
