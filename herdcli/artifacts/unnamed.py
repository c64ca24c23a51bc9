"""Arrays by place in a file without a name, in $TMPDIR: it vanishes with the process, however that ends.

They are read into memory and never mapped, so that what a process holds does not grow with them.
"""

from __future__ import annotations

import errno
import os
import tempfile
from typing import IO

from herdcli.errors import DataError, WriteFailed
from herdcli.schema import Array

HINT = "make room, or set TMPDIR to a folder with room"


def unnamed() -> IO[bytes]:
    """A file that nobody else can open."""
    return tempfile.TemporaryFile(buffering=0)


def put(file: IO[bytes], place: int, array: Array, what: str) -> None:
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


def get(file: IO[bytes], place: int, made: Array, what: str) -> Array:
    """An array filled from a place on."""
    left = made.data.cast("B") if made.size else memoryview(b"")
    while left:
        got = os.preadv(file.fileno(), [left], place)
        if not got:
            raise DataError(f"the file of {what} in $TMPDIR was cut off")
        left, place = left[got:], place + got
    return made
