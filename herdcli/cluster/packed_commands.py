"""A command line for workers: each of its files is found by every worker, or is sent."""

from __future__ import annotations

import glob
import os
import shutil
import sys
import tempfile
from dataclasses import field
from typing import TYPE_CHECKING, Any

from herdcli.cluster import worker_tasks
from herdcli.cluster.worker_tasks import Word
from herdcli.errors import DataError, NoInput
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cluster.worker_pool import WorkerPool

MOST_SENT = 4_000_000_000  # most bytes of a file that is sent to workers which cannot see it


@dataclass
class PackedCommand:
    """A command and its arguments; files are dictionaries (`worker_tasks.File`), and some are sent to the workers."""

    words: list[Word]
    files: list[worker_tasks.File] = field(default_factory=list)
    _sent: dict[str, Any] = field(default_factory=dict)
    _sending: bool = False

    def add(self, text: str, stdin: str | None) -> None:
        """Add a word that may be a file name, or end with one after a colon.  stdin  the file with the bytes of standard input."""
        path = stdin if text == "-" and stdin else text
        form, colon, rest = text.partition(":")
        if os.path.exists(path):
            self.words.append(self._register_file("stdin" if text == "-" else text, path, ""))
        elif colon and os.path.exists(rest):
            self.words.append(self._register_file(rest, rest, form + colon))
        elif any(mark in text for mark in "*?[") and glob.glob(text):
            self.words.append(os.path.abspath(text))
        else:
            self.words.append(text)

    def _register_file(self, name: str, path: str, before: str) -> worker_tasks.File:
        absolute, status = os.path.abspath(path), os.stat(path)
        digest = None if os.path.isdir(path) else worker_tasks.file_digest(absolute, status.st_mtime_ns, status.st_ino)
        self.files.append({"path": absolute, "size": status.st_size, "sha256": digest, "name": name, "before": before})
        return self.files[-1]

    def make_files_available(self, pool: WorkerPool) -> None:
        """Check whether all workers see the files; if not, send the files."""
        blind = {
            address: seen
            for address, seen in pool.ask_all_workers(worker_tasks.file_visibility, self.files).items()
            if isinstance(seen, list) and not all(seen)
        }
        if not blind:
            return
        address, seen = next(iter(blind.items()))
        missing = self.files[seen.index(False)]
        pool.note(f"the worker {address} cannot read {missing['name']}, so the input files are sent to the workers")
        self.send_files(pool)

    def send_files(self, pool: WorkerPool) -> None:
        """Put the bytes of the files on several workers.  Raises an error for files that cannot be sent."""
        self._sending = True
        self._sent = {file["sha256"]: pool.client.scatter(_file_digest(file), broadcast=True, hash=False) for file in self.files}

    def files_on_workers(self, pool: WorkerPool) -> dict[str, Any]:
        """Return the files on the workers by their digests; a file whose last holder is lost is sent again."""
        if self._sending and any(future.status in ("lost", "cancelled", "error") for future in self._sent.values()):
            self.send_files(pool)
        return self._sent


def _file_digest(file: worker_tasks.File) -> bytes:
    name, status = file["name"], os.stat(file["path"])
    if file["sha256"] is None:
        raise NoInput(
            "is a folder that some workers cannot read", where=name, hint="put it on a disk that all workers share, or give a file"
        )
    if status.st_size > MOST_SENT:
        raise NoInput(
            "is too large to send to the workers, and some of them cannot read it",
            where=name,
            hint="put it on a disk that all workers share",
        )
    with open(file["path"], "rb") as stream:
        content = stream.read()
    if worker_tasks.file_digest(file["path"], status.st_mtime_ns, status.st_ino) != file["sha256"]:
        raise DataError("the file changed during the run", where=name, hint="run it again")
    return content


def spool_stdin() -> str:
    """Write standard input to a file, which workers can read too, and return its path."""
    handle, path = tempfile.mkstemp(prefix="herd-stdin-")
    with os.fdopen(handle, "wb") as target:
        shutil.copyfileobj(sys.stdin.buffer, target)
    return path
