"""A cache of rows parsed from text, stored as raw arrays, so that the text need not be parsed again.

The file begins with a line that identifies the format, and the digest of everything besides the text that the rows depend on.  Then
follows a part for each piece of text: its arrays, each aligned to 8 bytes.  A table at the end (JSON) has for each part its position,
its numbers of rows and entries, the length of the text up to its end with its SHA-256, the reader's state, and a checksum of the arrays.
The last bytes are the position of the table and its SHA-256.  The file is written atomically.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np

from herdcli.artifacts.atomic_output import atomic_file
from herdcli.errors import DataError, NoInput
from herdcli.records import dataclass
from herdcli.schema import Array

MAGIC = b"herd parsed text 1\n"
HEAD = 64
TAIL = 40
_GROUP = 1024  # words of a partial sum
_TYPES = ("<i8", "<f8", "<f8", "<f8", "<i4")  # pointer, value, label, weight, index

Rows = tuple[Array, Array, Array, Array | None, Array]  # pointer (n + 1,), value (nnz,), label (n,), weight (n,)?, index (nnz,)


@dataclass(frozen=True)
class ParsedPiece:
    """Rows of one piece of text, in blocks, with the proof of the text and the reader's state after it."""

    blocks: Sequence[Rows]
    proof: bytes
    state: dict[str, Any]


class ParsedCache:
    """A cache in a file.  Raises DataError for a file that is not a cache, so that no other file is overwritten."""

    def __init__(self, path: str, key: bytes) -> None:
        self.path, self.parts = path, list[dict[str, Any]]()
        self.reason = ""  # the reason why the cache cannot be used
        try:
            with open(path, "rb") as file:
                self._open(file, key)
        except FileNotFoundError:
            return
        except OSError as error:
            raise NoInput(error.strerror or str(error), where=path) from error

    def _open(self, file: BinaryIO, key: bytes) -> None:
        head = file.read(HEAD)
        if head and not head.startswith(MAGIC[:16]):
            raise DataError("is not a cache of parsed text", where=self.path, hint="give --cache a new file name")
        if head != _cache_header(key):
            self.reason = "was made with other options, or by another version"
            return
        size = os.fstat(file.fileno()).st_size
        file.seek(max(size - TAIL, 0))
        tail = file.read()
        place = int.from_bytes(tail[:8], "little")
        if not HEAD <= place <= size - TAIL:
            self.reason = "is damaged"
            return
        self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        table = self.map[place : size - TAIL]
        if hashlib.sha256(table).digest() == tail[8:]:
            self.parts = json.loads(table)
        else:
            self.reason = "is damaged"

    def piece(self, number: int, *, check: bool) -> ParsedPiece | None:
        """Return a piece with arrays in the mapped file, or None; check: also None if the arrays are damaged."""
        part = self.parts[number]
        if check and _checksum(np.frombuffer(self.map, "<i8", part["words"], part["at"])) != part["sum"]:
            return None
        blocks, at = [], part["at"]
        for rows, entries, weighted in part["blocks"]:
            arrays: list[Array | None] = []
            for kind, count in zip(_TYPES, (rows + 1, entries, rows, rows if weighted else 0, entries), strict=True):
                arrays.append(np.frombuffer(self.map, kind, count, at))
                at += -(-count * int(kind[2]) // 8) * 8
            pointer, value, label, weight, index = arrays
            blocks.append((pointer, value, label, weight if weighted else None, index))
        return ParsedPiece(blocks, bytes.fromhex(part["proof"]), part["state"])  # type: ignore[arg-type]


def _cache_header(key: bytes) -> bytes:
    return (MAGIC + hashlib.sha256(key).digest()).ljust(HEAD, b"\0")


def _checksum(words: Array) -> str:
    """Return a digest of the sums of 1,024 words each: it detects changed, lost or moved blocks at the speed of memory."""
    cut = len(words) // _GROUP * _GROUP
    sums = np.append(words[:cut].reshape(-1, _GROUP).sum(axis=1), words[cut:].sum())
    return hashlib.sha256(sums.astype("<i8").tobytes()).hexdigest()


class CacheWriter:
    """A writer of pieces to a new file."""

    def __init__(self, file: BinaryIO, key: bytes) -> None:
        self.file, self.parts = file, list[dict[str, Any]]()
        file.write(_cache_header(key))

    def add(self, piece: ParsedPiece) -> None:
        """Append a piece."""
        at, arrays, shapes = self.file.tell(), list[Array](), []
        for rows in piece.blocks:
            shapes.append([len(rows[2]), len(rows[1]), rows[3] is not None])
            arrays += [np.ascontiguousarray(array, dtype=kind) for kind, array in zip(_TYPES, rows, strict=True) if array is not None]
        words = [-(-array.nbytes // 8) for array in arrays]
        whole, start = np.zeros(sum(words), "<i8"), 0
        for array, count in zip(arrays, words, strict=True):
            whole[start : start + count].view(array.dtype)[: len(array)] = array
            start += count
        self.file.write(whole.data)
        part = {"at": at, "words": len(whole), "blocks": shapes, "proof": piece.proof.hex(), "state": piece.state, "sum": _checksum(whole)}
        self.parts.append(part)

    def finish(self) -> None:
        """Write the table."""
        place, table = self.file.tell(), json.dumps(self.parts).encode()
        self.file.write(table + place.to_bytes(8, "little") + hashlib.sha256(table).digest())


@contextmanager
def write_cache(path: str, key: bytes) -> Iterator[CacheWriter]:
    """Create a new file of parsed text, which replaces an existing one when the body has succeeded."""
    with atomic_file(path) as temporary, open(temporary, "wb") as file:
        writer = CacheWriter(file, key)
        yield writer
        writer.finish()
