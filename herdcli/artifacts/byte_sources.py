"""Sources of bytes: a file, standard input, a FIFO, or compressed data in any of them.

A regular file is read in place.  Anything else is a stream: text is parsed as it arrives;
binary data are copied once into a named temporary file while the digest is computed, and then opened.
"""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import hashlib
import io
import lzma
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from herdcli.artifacts import memory_budget, process_limits
from herdcli.artifacts.atomic_output import descriptor_number, enlarge_pipe, scratch_file
from herdcli.artifacts.sealed import seal_header
from herdcli.artifacts.text import text_encodings
from herdcli.dialect import current_dialect
from herdcli.errors import BadUsage, DataError, NoInput, WriteFailed

HEAD = 1 << 16
BINARY = (
    b"\x89HDF",
    b"herd-artifact",
    b"PAR1",
    b"PK\x03\x04",
    b"MATLAB",
    b"\x93NUMPY",
    b"ARROW1",
)  # formats that are not decoded as text
EMPTY_STDIN = "nothing arrived on stdin: did the command before the pipe fail?"


class ByteSource:
    """The bytes of an input whose format is not known yet.

    name  the name in messages.  head  the first bytes, at most 64 kB.  size and sha256 are known after all
    bytes were read (size at once for `regular` files).
    """

    def __init__(self, name: str, stream: BinaryIO, *, regular: bool, limit: int | None = None) -> None:
        self.name = name
        self.regular = regular
        self._stream = stream
        self._limit = limit
        self._descriptor = stream.fileno() if regular else -1
        self.head = os.pread(self._descriptor, HEAD, 0) if regular else _read_up_to(stream, HEAD, name)
        self.size = os.fstat(self._descriptor).st_size if regular else 0
        self._hash: seal_header.Hasher | None = None
        self._skip = 0
        self._drained: Path | None = None
        self.member: str | None = None  # the part of the file to read: a sheet, a dataset, a file of an archive
        self.encoding: str | None = None  # guessed encoding of the bytes before their conversion to UTF-8
        self._begun = _file_state(self._descriptor) if regular else None

    def require_unchanged(self) -> None:
        """Raise DataError if a regular file was written to after it was opened; a renamed file is not an error."""
        if self._begun is not None and _file_state(self._descriptor) != self._begun:
            raise DataError("the file changed during the run", where=self.name, hint="run it again")

    @property
    def sha256(self) -> str:
        """The digest of the bytes; for a sealed file, the digest in its seal."""
        if self._hash is None:
            self._hash = self._begin_hash()
            for piece in seal_header.read_pieces(self._descriptor, self._skip):
                self._hash.update(piece)
        return self._hash.hexdigest()

    def drain_and_digest(self) -> str:
        """Read all bytes without storing them, and return the digest."""
        if not self.regular:
            for _ in self.pieces():
                pass
        return self.sha256

    def _begin_hash(self) -> seal_header.Hasher:
        stated = seal_header.parse_seal(self.head, where=self.name)
        self._skip = seal_header.BLOCK if stated else 0
        return stated.hasher() if stated else hashlib.sha256()

    def reader(self) -> BinaryIO:
        """Return the bytes from the beginning as a buffered stream; the digest is complete when the stream ends."""
        if self.regular:
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            return open(os.dup(self._descriptor), "rb")
        return io.BufferedReader(_PieceReader(self), 1 << 18)

    @contextlib.contextmanager
    def file_path(self) -> Iterator[str]:
        """Yield the name of a file with the bytes; a stream is copied into a temporary file."""
        if self.regular:
            yield _reopenable_name(self._descriptor, self.name)
            return
        with scratch_file(named=True) as path, open(path, "wb", buffering=0) as out:
            try:
                for piece in self.pieces():
                    out.write(piece)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise
                hint = "set TMPDIR to a folder with enough space"
                raise WriteFailed(f"no disk space to store {self.name} ({error.strerror})", where=str(path), hint=hint) from error
            self._drained = path
            yield str(path)

    def unlink_temporary_copy(self) -> None:
        """Remove the name of the temporary copy of a stream after it was opened, so that it vanishes even if this process is killed."""
        if self._drained is not None:
            self._drained.unlink(missing_ok=True)

    def pieces(self) -> Iterator[memoryview]:
        """Yield the bytes of a stream once, and hash them; all pieces share one buffer."""
        self._hash = running = self._begin_hash()
        running.update(memoryview(self.head)[self._skip :])
        self.size = len(self.head)
        yield memoryview(self.head)
        buffer = bytearray(seal_header.CHUNK)
        view = memoryview(buffer)
        while count := _read_into(self._stream, buffer, self.name):
            piece = view[:count]
            running.update(piece)
            self.size += count
            if self._limit is not None and self.size > self._limit:
                memory_budget.require_memory(self.size, self._limit, where=self.name)
            yield piece


def _file_state(descriptor: int) -> tuple[int, int]:
    """Return the size of a file and the time of its last change."""
    found = os.fstat(descriptor)
    return found.st_size, found.st_mtime_ns


class _PieceReader(io.RawIOBase):
    """A raw reader of the pieces of a stream."""

    def __init__(self, source: ByteSource) -> None:
        self._pieces = source.pieces()
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        if not len(self._rest):
            self._rest = next(self._pieces, memoryview(b""))
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


class MemoryLimitedText(io.RawIOBase):
    """A text stream that raises an error if the parsed text would need more memory than a limit.

    Each value, counted by the separators, needs `WIDTH` bytes in addition to its text, for the parser and for the data set.
    If the memory of the process is limited, reading stops when the next `RESERVE` bytes might not be available: pyarrow's CSV reader
    ends the process when it cannot allocate a block.
    """

    WIDTH = 20
    RESERVE = 32_000_000  # a block of text, its parsed form, and the buffers for assembling the columns

    def __init__(self, stream: BinaryIO, marks: bytes, *, limit: int, where: str) -> None:
        self._stream, self._marks, self._limit, self._where, self._taken = stream, marks, limit, where, 0

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        if process_limits.allocatable_bytes() < self.RESERVE:
            raise MemoryError
        count = self._stream.readinto(target) or 0  # type: ignore[attr-defined]
        piece = np.frombuffer(target, dtype=np.uint8, count=count)
        values = sum(int(np.count_nonzero(piece == mark)) for mark in self._marks)
        self._taken += count + self.WIDTH * values
        if self._taken > self._limit:
            memory_budget.require_memory(self._taken, self._limit, where=self._where)
        return int(count)


def split_path_and_member(path: str) -> tuple[str, str | None]:
    """Split a path and the part of the file to read: FILE.h5:/group/x, FILE.xlsx:Sheet, FILE.zip:rows.csv; None: the whole file."""
    if ":" not in path or os.path.exists(path):
        return path, None
    at = path.find(":", 1)
    while at > 0:
        if os.path.isfile(path[:at]) and path[at + 1 :]:
            return path[:at], path[at + 1 :]
        at = path.find(":", at + 1)
    return path, None


@contextlib.contextmanager
def open_source(path: str, *, limit: int, allow_empty: bool = False) -> Iterator[ByteSource]:
    """Open a path, or stdin for "-", and decompress gzip, bzip2, xz and zstd.

    limit  the most bytes after decompression.  allow_empty  an empty file is accepted too.
    Raises NoInput (66) if the input is missing, a directory, unreadable or an empty stdin; BadUsage (2) if stdin is a terminal.
    """
    path, member = split_path_and_member(path)
    with _open_path_or_stdin(path) as (name, stream, regular):
        source = ByteSource(name if member is None else f"{name}:{member}", stream, regular=regular)
        source.member = member
        if not source.head:
            if path == "-":
                raise NoInput(EMPTY_STDIN, where="stdin")
            if allow_empty:
                yield source
                return
            raise DataError("the file is empty", where=name, hint="check whether the command that wrote it was interrupted")
        unfold = _open_decompressor(source)
        if unfold is None:
            yield decode_text_source(source, limit)
            return
        inner = ByteSource(name, unfold, regular=False, limit=limit)
        if _open_decompressor(inner) is not None:
            raise DataError("the file is compressed twice", where=name, hint="decompress it once")
        if not inner.head:
            raise DataError("the compressed file is empty", where=name, hint="check whether the command that wrote it was interrupted")
        yield decode_text_source(inner, limit)


def decode_text_source(source: ByteSource, limit: int) -> ByteSource:
    """Return a source of text converted from its declared or guessed encoding to UTF-8; return any other source unchanged."""
    declared = current_dialect().encoding
    known = None if declared in (None, "utf-8") or source.head.startswith(BINARY) else declared
    found = known or (None if declared else text_encodings.guess_encoding(source.head))
    if found is None:
        return source
    inner = ByteSource(source.name, text_encodings.decode_to_utf8(source.reader(), found, where=source.name), regular=False, limit=limit)
    inner.encoding = None if declared else found
    return inner


@contextlib.contextmanager
def _open_path_or_stdin(path: str) -> Iterator[tuple[str, BinaryIO, bool]]:
    """Return the name, an unbuffered stream, and whether it is a regular file that is read from its beginning."""
    descriptor = 0 if path == "-" else descriptor_number(path)
    name = "stdin" if path == "-" else path
    if descriptor is not None:
        stream = _standard_stream(descriptor, name)
    else:
        try:
            stream = open(path, "rb", buffering=0)  # noqa: SIM115  (closed below)
        except IsADirectoryError:
            raise NoInput("is a directory", where=name, hint="give the name of a file in it") from None
        except FileNotFoundError:
            raise NoInput("there is no such file", where=name) from None
        except (OSError, ValueError) as error:
            raise NoInput(f"cannot be opened ({getattr(error, 'strerror', None) or error})", where=name) from error
    with stream:
        yield name, stream, _is_reopenable_file(stream)


def _standard_stream(descriptor: int, name: str) -> BinaryIO:
    """Return a standard descriptor of the process as a stream; sys.stdin may be an object in memory."""
    if descriptor == 0:
        if sys.stdin is None or sys.stdin.closed:
            raise NoInput("stdin is closed", where="stdin", hint="give a file name, or pipe a file in")
        try:
            descriptor = sys.stdin.fileno()
        except (OSError, ValueError):
            return io.BytesIO(sys.stdin.buffer.read())
        if os.isatty(descriptor):
            raise BadUsage(
                "stdin is a terminal", where="stdin", hint="give a file name, or pipe a file in: herd data digits | herd COMMAND"
            )
    try:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise NoInput("is a directory", where=name, hint="give the name of a file in it")
        enlarge_pipe(descriptor)
        return open(os.dup(descriptor), "rb", buffering=0)
    except OSError as error:
        raise NoInput(f"cannot be read ({error.strerror})", where=name) from error


def _is_reopenable_file(stream: BinaryIO) -> bool:
    """Return whether it is a file on disk from which nothing was read, so that it can be opened again through its descriptor."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode) and stream.tell() == 0
    except (OSError, ValueError):
        return False


def _reopenable_name(descriptor: int, name: str) -> str:
    """Return a name that opens this very file, even if its own name now belongs to another file."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        if os.path.exists(f"{folder}/{descriptor}"):
            return f"{folder}/{descriptor}"
    return name


def _read_into(stream: BinaryIO, buffer: bytearray, name: str) -> int:
    try:
        return int(stream.readinto(buffer) or 0)  # type: ignore[attr-defined]
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise DataError(
            f"the compressed file is cut short or damaged ({error})", where=name, hint="download or compress it again"
        ) from error
    except OSError as error:
        raise DataError(
            f"reading failed ({error.strerror or error})", where=name, hint="try again, or copy the file to a local disk"
        ) from error


def _read_up_to(stream: BinaryIO, count: int, name: str) -> bytes:
    """Return the first `count` bytes, or fewer if the stream ends before."""
    pieces = bytearray()
    while len(pieces) < count:
        buffer = bytearray(count - len(pieces))
        got = _read_into(stream, buffer, name)
        if not got:
            break
        pieces += buffer[:got]
    return bytes(pieces)


def _open_decompressor(source: ByteSource) -> BinaryIO | None:
    """Return a stream that decompresses gzip, bzip2, xz or zstd, or None if the source is not compressed."""
    if source.head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=source.reader())  # type: ignore[return-value]
    if source.head.startswith(b"BZh"):
        return bz2.BZ2File(source.reader())  # type: ignore[return-value]
    if source.head.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMAFile(source.reader())  # type: ignore[return-value]
    if source.head.startswith(b"\x28\xb5\x2f\xfd"):
        import pyarrow as pa

        return pa.CompressedInputStream(pa.PythonFile(source.reader(), mode="r"), "zstd")  # type: ignore[no-any-return]
    return None
