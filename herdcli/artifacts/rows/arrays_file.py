"""Arrays by number in a file without a name, in $TMPDIR: it vanishes with the process, however that ends.

They are read by place into memory and never mapped, so that what a process holds does not grow with them.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import field
from typing import IO, Any

import numpy as np

from herdcli.artifacts.rows.spill_file import open_unnamed, read_array, write_array
from herdcli.records import dataclass
from herdcli.schema import Array


def free_disk_bytes() -> int:
    """Free bytes of the folder that these files are made in."""
    return shutil.disk_usage(tempfile.gettempdir()).free


@dataclass
class ArraysFile:
    """Arrays of numbers.  The place of one that is dropped is taken by the next of its size."""

    end: int = 0
    places: dict[int, tuple[int, tuple[int, ...], np.dtype[Any]]] = field(default_factory=dict)  # number -> where it begins, shape and type
    free: dict[int, list[int]] = field(default_factory=dict)  # size -> places
    file: IO[bytes] = field(default_factory=open_unnamed)

    def put(self, k: int, message: Array) -> None:
        """Keep one, in place of what was kept by this number."""
        if k in self.places:
            self.drop(k)
        whole = np.ascontiguousarray(message)
        places = self.free.get(whole.nbytes)
        place = places.pop() if places else self.end
        self.end = max(self.end, place + whole.nbytes)
        self.places[k] = place, message.shape, whole.dtype
        write_array(self.file, place, whole, "messages")

    def get(self, k: int) -> Array:
        """One that is kept."""
        place, shape, kind = self.places[k]
        return read_array(self.file, place, np.empty(shape, dtype=kind), "messages")

    def drop(self, k: int) -> None:
        """Forget one."""
        place, shape, kind = self.places.pop(k)
        self.free.setdefault(kind.itemsize * int(np.prod(shape, dtype=np.int64)), []).append(place)

    def close(self) -> None:
        """The file vanishes."""
        self.file.close()
