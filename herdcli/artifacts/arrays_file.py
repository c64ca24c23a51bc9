"""Arrays by number in a file without a name, in $TMPDIR: it vanishes with the process, however that ends.

They are read by place into memory and never mapped, so that what a process holds does not grow with them.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from dataclasses import field
from typing import IO

import numpy as np

from herdcli.errors import DataError, WriteFailed
from herdcli.records import dataclass
from herdcli.schema import Array

HINT = "make room, or set TMPDIR to a folder with room"


def room() -> int:
    """Free bytes of the folder that these files are made in."""
    return shutil.disk_usage(tempfile.gettempdir()).free


@dataclass
class ArraysFile:
    """Arrays of float64.  The place of one that is dropped is taken by the next of its size."""

    end: int = 0
    places: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)  # number -> where it begins, and its shape
    free: dict[int, list[int]] = field(default_factory=dict)  # size -> places
    file: IO[bytes] = field(default_factory=lambda: tempfile.TemporaryFile(buffering=0))  # noqa: SIM115

    def put(self, k: int, message: Array) -> None:
        """Keep one, in place of what was kept by this number."""
        if k in self.places:
            self.drop(k)
        whole = np.ascontiguousarray(message, dtype=np.float64)
        places = self.free.get(whole.nbytes)
        place = places.pop() if places else self.end
        self.end = max(self.end, place + whole.nbytes)
        self.places[k] = place, message.shape
        left = whole.data.cast("B") if whole.size else memoryview(b"")
        try:
            while left:
                done = os.pwrite(self.file.fileno(), left, place)
                left, place = left[done:], place + done
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise WriteFailed(f"writing failed ({error.strerror})", where="a file of messages in $TMPDIR", hint=HINT) from error

    def get(self, k: int) -> Array:
        """One that is kept."""
        place, shape = self.places[k]
        made = np.empty(shape)
        left = made.data.cast("B") if made.size else memoryview(b"")
        while left:
            got = os.preadv(self.file.fileno(), [left], place)
            if not got:
                raise DataError("the file of messages in $TMPDIR was cut off")
            left, place = left[got:], place + got
        return made

    def drop(self, k: int) -> None:
        """Forget one."""
        place, shape = self.places.pop(k)
        self.free.setdefault(8 * int(np.prod(shape, dtype=np.int64)), []).append(place)

    def close(self) -> None:
        """The file vanishes."""
        self.file.close()
