"""Memory that the process has freed and the C library still keeps."""

from __future__ import annotations

import contextlib
import ctypes


def release_freed_memory() -> None:
    """Return freed memory of the heap to the system; without effect where the C library is not glibc.

    glibc keeps up to twice the largest freed block at the end of its heap.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
