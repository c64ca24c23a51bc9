"""Arrays by place in a file without a name, in $TMPDIR: it vanishes with the process, however that ends.

They are read into memory and never mapped, so that what a process holds does not grow with them.
"""

from __future__ import annotations

import errno
import os
import tempfile
from typing import IO

import numpy as np

from herdcli.errors import DataError, WriteFailed
from herdcli.schema import Array

LEAST = 1 << 24  # bytes that need no file
HINT = "make room, or set TMPDIR to a folder with room"


def open_unnamed() -> IO[bytes]:
    """A file that nobody else can open."""
    return tempfile.TemporaryFile(buffering=0)


def write_array(file: IO[bytes], place: int, array: Array, what: str) -> None:
    """An array at a place.  Raises WriteFailed where there is no room."""
    left = array.data.cast("B") if array.size else memoryview(b"")
    try:
        while left:
            done = os.pwrite(file.fileno(), left, place)
            left, place = left[done:], place + done
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise WriteFailed(f"writing failed ({error.strerror})", where=f"a file of {what} in $TMPDIR", hint=HINT) from error


def read_array(file: IO[bytes], place: int, made: Array, what: str) -> Array:
    """An array filled from a place on."""
    left = made.data.cast("B") if made.size else memoryview(b"")
    while left:
        got = os.preadv(file.fileno(), [left], place)
        if not got:
            raise DataError(f"the temporary file of {what} in $TMPDIR is cut short")
        left, place = left[got:], place + got
    return made


class SpilledBlocks:
    """Arrays of numbers of 8 bytes, put behind one another: in memory up to LEAST bytes, the others in a file; any part is read again."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._size = self._held = 0

    def put(self, array: Array) -> Array | int:
        """An array, or the place where it is in the file."""
        if self._held + array.nbytes <= LEAST:
            self._held += array.nbytes
            return array
        self._file = self._file or open_unnamed()
        place = self._size
        write_array(self._file, place, np.ascontiguousarray(array), "figures")
        self._size += array.nbytes
        return place

    def get(self, held: Array | int, count: int, row: int) -> Array:
        """Row `row`, (count,), of an array (rows, count) that was put."""
        if not isinstance(held, int):
            found: Array = held[row]
            return found
        assert self._file is not None
        return read_array(self._file, held + row * count * 8, np.empty(count, dtype=np.uint64), "figures")
