"""A file for libhdf5 that reports write errors only when it is closed.

libhdf5 does not survive a failed write: objects that cannot be flushed stay open, and it crashes when the
process ends.  So a full disk is recorded, and the error is raised when libhdf5 has finished.  libhdf5 also fails if it reads
anything other than what it wrote, so until then reads return the bytes that should have been written.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from herdcli.artifacts.h5py_import import h5py

SHORT = 1 << 16  # bytes; libhdf5 reads again only its own records, which are shorter, never the values of a data set


class DeferredErrorFile(io.RawIOBase):
    """An open file descriptor for the `fileobj` driver of h5py; `error` is the first failure.

    After a failure nothing more is written.  Reads then return the bytes of the file, zeros beyond its end, and the short
    pieces that could not be written; the reported size counts all bytes that should have been written.
    """

    def __init__(self, descriptor: int) -> None:
        self.error: OSError | None = None
        self._descriptor = descriptor
        self._position = 0
        self._size = os.fstat(descriptor).st_size
        self._unwritten: dict[tuple[int, int], bytes] = {}  # begin and end -> bytes, the newest last

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, target: Any) -> int:
        view, begin = memoryview(target).cast("B"), self._position
        there = 0
        while there < len(view) and (count := os.preadv(self._descriptor, [view[there:]], begin + there)):
            there += count
        view[there:] = bytes(len(view) - there)
        end = begin + len(view)
        for (first, last), piece in self._unwritten.items():
            low, high = max(first, begin), min(last, end)
            if low < high:
                view[low - begin : high - begin] = piece[low - first : high - first]
        self._position = end
        return len(view)

    def write(self, data: Any) -> int:
        whole = memoryview(data).cast("B")
        begin, end = self._position, self._position + len(whole)
        left, position = whole, begin
        try:
            while left and self.error is None:
                count = os.pwrite(self._descriptor, left, position)
                left, position = left[count:], position + count
        except OSError as error:
            self.error = error
        if self.error is not None and len(whole) <= SHORT:
            self._unwritten.pop((begin, end), None)
            self._unwritten[begin, end] = bytes(whole)
        self._position, self._size = end, max(self._size, end)
        return len(whole)

    def truncate(self, size: int | None = None) -> int:
        self._size = self._position if size is None else size
        try:
            os.ftruncate(self._descriptor, self._size)
        except OSError as error:
            self.error = self.error or error
        return self._size


@contextmanager
def create_hdf5(path: str | os.PathLike[str], **layout: Any) -> Iterator[h5py.File]:
    """Create a new HDF5 file and open it for writing.  layout: options of h5py.File.  Raises OSError after the body if a write failed."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    target = DeferredErrorFile(descriptor)
    try:
        with h5py.File(target, "w", **layout) as file:
            yield file
    except Exception:  # of h5py, after a failed write, which is the error to report
        if target.error is None:
            raise
    finally:
        os.close(descriptor)
    if target.error is not None:
        raise target.error
