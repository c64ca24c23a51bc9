"""Arrays in an unnamed file in $TMPDIR, which vanishes with the process, however it ends.

They are read into memory and never mapped, so that the memory of the process does not grow with them.
"""

from __future__ import annotations

import errno
import os
import tempfile
from typing import IO

import numpy as np

from herdcli.errors import DataError, WriteFailed
from herdcli.schema import Array

LEAST = 1 << 24  # up to this many bytes no file is needed
HINT = "free some disk space, or set TMPDIR to a folder with enough space"


def open_unnamed_file() -> IO[bytes]:
    """Open an unnamed file, which no other process can open."""
    return tempfile.TemporaryFile(buffering=0)


def write_array(file: IO[bytes], position: int, array: Array, what: str) -> None:
    """Write an array at a position.  Raises WriteFailed if the disk is full."""
    left = array.data.cast("B") if array.size else memoryview(b"")
    try:
        while left:
            done = os.pwrite(file.fileno(), left, position)
            left, position = left[done:], position + done
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise WriteFailed(f"writing failed ({error.strerror})", where=f"a file of {what} in $TMPDIR", hint=HINT) from error


def read_array(file: IO[bytes], position: int, out: Array, what: str) -> Array:
    """Fill an array from a position on, and return it."""
    left = out.data.cast("B") if out.size else memoryview(b"")
    while left:
        got = os.preadv(file.fileno(), [left], position)
        if not got:
            raise DataError(f"the temporary file of {what} in $TMPDIR is cut short")
        left, position = left[got:], position + got
    return out


class SpilledBlocks:
    """Appended arrays of 8-byte numbers: in memory up to LEAST bytes, then in a file; any part can be read again."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._size = self._held = 0

    def put(self, array: Array) -> Array | int:
        """Store an array; return the array itself, or its position in the file."""
        if self._held + array.nbytes <= LEAST:
            self._held += array.nbytes
            return array
        self._file = self._file or open_unnamed_file()
        place = self._size
        write_array(self._file, place, np.ascontiguousarray(array), "figures")
        self._size += array.nbytes
        return place

    def get(self, location: Array | int, count: int, row: int) -> Array:
        """Return row `row`, (count,), of a stored array (rows, count)."""
        if not isinstance(location, int):
            found: Array = location[row]
            return found
        assert self._file is not None
        return read_array(self._file, location + row * count * 8, np.empty(count, dtype=np.uint64), "figures")
