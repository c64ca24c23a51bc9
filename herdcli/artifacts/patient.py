"""A file for libhdf5 to write to on which nothing fails until it is closed.

libhdf5 does not survive a write that fails: objects that cannot be flushed stay open, and it crashes when the
process ends.  So a full disk is noted, what follows is let go, and the error is raised when libhdf5 is done.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from herdcli.artifacts.libhdf5 import h5py


class PatientFile(io.RawIOBase):
    """An open descriptor as h5py's `fileobj` driver uses it; `error` is the first failure."""

    def __init__(self, descriptor: int) -> None:
        self.error: OSError | None = None
        self._descriptor = descriptor
        self._position = 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}
        self._position = offset + (origin[whence] if whence in origin else os.fstat(self._descriptor).st_size)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, target: Any) -> int:
        count = os.preadv(self._descriptor, [target], self._position)
        self._position += count
        return count

    def write(self, data: Any) -> int:
        left, position = memoryview(data).cast("B"), self._position
        try:
            while left and self.error is None:
                count = os.pwrite(self._descriptor, left, position)
                left, position = left[count:], position + count
        except OSError as error:
            self.error = error
        self._position += memoryview(data).nbytes
        return memoryview(data).nbytes

    def truncate(self, size: int | None = None) -> int:
        length = self._position if size is None else size
        try:
            os.ftruncate(self._descriptor, length)
        except OSError as error:
            self.error = self.error or error
        return length


@contextmanager
def created(path: str | os.PathLike[str], **layout: Any) -> Iterator[Any]:
    """A new HDF5 file, open for writing.  layout: of h5py.File.  Raises OSError after the body if anything was not written."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    target = PatientFile(descriptor)
    try:
        with h5py.File(target, "w", **layout) as file:
            yield file
    except Exception:
        if target.error is None:
            raise
    finally:
        os.close(descriptor)
    if target.error is not None:
        raise target.error
