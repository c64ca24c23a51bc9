"""Numbered arrays in an unnamed file in $TMPDIR, which vanishes with the process, however it ends.

They are read into memory by their positions and never mapped, so that the memory of the process does not grow with their number.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import field
from typing import IO

import numpy as np

from herdcli.artifacts.rows.spill_file import open_unnamed_file, read_array, write_array
from herdcli.records import dataclass
from herdcli.schema import Array, DType


def free_disk_bytes() -> int:
    """Return the free bytes of the folder with these files."""
    return shutil.disk_usage(tempfile.gettempdir()).free


@dataclass
class ArraysFile:
    """Arrays of numbers in a file.  The space of a dropped array is used again for the next array of its size."""

    end: int = 0
    places: dict[int, tuple[int, tuple[int, ...], DType]] = field(default_factory=dict)  # number -> position, shape and type
    free: dict[int, list[int]] = field(default_factory=dict)  # size -> free positions
    file: IO[bytes] = field(default_factory=open_unnamed_file)

    def put(self, key: int, array: Array) -> None:
        """Store an array, replacing the one that was stored under this number."""
        if key in self.places:
            self.drop(key)
        whole = np.ascontiguousarray(array)
        places = self.free.get(whole.nbytes)
        place = places.pop() if places else self.end
        self.end = max(self.end, place + whole.nbytes)
        self.places[key] = place, array.shape, whole.dtype
        write_array(self.file, place, whole, "messages")

    def get(self, key: int) -> Array:
        """Return a stored array."""
        place, shape, kind = self.places[key]
        return read_array(self.file, place, np.empty(shape, dtype=kind), "messages")

    def drop(self, key: int) -> None:
        """Drop a stored array."""
        place, shape, kind = self.places.pop(key)
        self.free.setdefault(kind.itemsize * int(np.prod(shape, dtype=np.int64)), []).append(place)

    def close(self) -> None:
        """Close the file, which removes it."""
        self.file.close()
