"""What a command must leave alone, watched by the kernel: files that an artifact names, the corpus, the folder it runs in; and its memory.

inotify tells of every open, read and write of a file in a watched folder by whatever process and library, HDF5's own calls included.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
from pathlib import Path

ACCESS, MODIFY, ATTRIB, MOVED, CREATE, DELETE, OPEN = 0x1, 0x2, 0x4, 0xC0, 0x100, 0x600, 0x20
NAMES = {
    ACCESS: "read",
    MODIFY: "written",
    ATTRIB: "changed",
    0x40: "moved away",
    0x80: "replaced",
    CREATE: "made",
    0x200: "removed",
    OPEN: "opened",
}
EVENT = struct.Struct("iIII")
MEMORY = 1 << 30  # bytes that a command on files of a few kB may take at most, above what the process has
ALLOWED = ("victims", "evil", "out", "run.state", "trace.", "herd-traceback")  # beginnings of names that a command may leave
CONTROLS = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]|\xe2\x81[\xa6-\xa9]")


class Watch:
    """Folders of this process's trials that are watched until `events` is asked for."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self.folders: dict[int, str] = {}

    def add(self, folder: Path, what: int) -> None:
        """Watch a folder for some events."""
        number = self.libc.inotify_add_watch(self.descriptor, os.fsencode(folder), what)
        if number < 0:
            raise OSError(ctypes.get_errno(), f"inotify_add_watch {folder}")
        self.folders[number] = folder.name

    def events(self) -> list[str]:
        """What happened since the last call, as "victims/raw.bin opened"."""
        found: dict[str, None] = {}
        while True:
            try:
                content = os.read(self.descriptor, 1 << 16)
            except BlockingIOError:
                return list(found)
            while content:
                number, mask, _, length = EVENT.unpack_from(content)
                name = content[EVENT.size : EVENT.size + length].rstrip(b"\0").decode(errors="replace")
                content = content[EVENT.size + length :]
                for bit, word in NAMES.items():
                    if mask & bit and name:
                        found[f"{self.folders.get(number, '?')}/{name} {word}"] = None


def victims(folder: Path) -> None:
    """Files that nobody may open: `names` of hostile files lead to them."""
    import h5py
    import numpy as np

    folder.mkdir(exist_ok=True)
    for name in ("text.txt", "page.html", "picture.svg", "picture.png", "table.csv", "trace.jsonl", "run.ck", "out.h5"):
        (folder / name).write_text("precious\n")
    (folder / "raw.bin").write_bytes(bytes(range(256)) * 16)
    with h5py.File(folder / "secret.h5", "w") as file:
        file["X"] = file["elsewhere"] = np.zeros((40, 6))


def reset_peak() -> int:
    """Let the kernel count the most resident memory anew; bytes that are resident now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak() -> int:
    """The most bytes that were resident since."""
    return _status("VmHWM")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def strays(folder: Path) -> list[str]:
    """What stands in a folder that no command writes there."""
    return sorted(entry.name for entry in os.scandir(folder) if not entry.is_symlink() and not entry.name.startswith(ALLOWED))


def controls(shown: bytes) -> str | None:
    """What steers a terminal in the output of a command, None for none."""
    found = CONTROLS.search(shown)
    return None if found is None else f"{found[0]!r} in {shown[max(0, found.start() - 40) : found.end() + 40]!r}"
