"""pyarrow columns and types as NumPy has them (pyarrow's own conversions of these need pandas before version 21)."""

from __future__ import annotations

from typing import Any

import numpy as np

from herdcli.schema import Array


def dtype_of(kind: Any) -> np.dtype[Any]:
    """The NumPy type that holds values of a pyarrow type."""
    import pyarrow as pa

    dtype: np.dtype[Any] = pa.array([], kind).to_numpy(zero_copy_only=False).dtype
    return dtype


def vector(column: Any) -> Array:
    """A pyarrow array or chunked array as a NumPy vector; text as objects."""
    chunks = getattr(column, "chunks", [column])
    parts = [chunk.to_numpy(zero_copy_only=False) for chunk in chunks]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype_of(column.type)), *parts])
