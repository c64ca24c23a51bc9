"""A digest of arrays that does not depend on the file that holds them."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from herdcli.datasets.registry import Arrays


def arrays_digest(arrays: Arrays) -> str:
    """Return the SHA-256 over names, types, shapes and values, in the order of the names; texts are encoded as UTF-8.

    arrays  NumPy arrays of any shape, or lists of texts, by name.
    """
    digest = hashlib.sha256()
    for name in sorted(arrays):
        kind, shape, content = _array_bytes(arrays[name])
        digest.update(f"{name} {kind} {shape}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _array_bytes(value: Any) -> tuple[str, tuple[int, ...], bytes]:
    if isinstance(value, list):
        return "text", (len(value),), "\0".join(value).encode()
    little = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
    return little.dtype.str.lstrip("<|"), little.shape, little.tobytes()
