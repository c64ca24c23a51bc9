"""The seal: one line of text before the HDF5 bytes that describes them and proves that they are complete.

    herd-artifact 1 kind=rbm bytes=270336 sha256=aefa7b…\\n      NUL padding to 512 bytes

`bytes` is the whole file.  The digest runs over the line up to and including `bytes=N`, a newline,
and everything from byte 512 on.  HDF5 skips the block (it is an HDF5 user block), so other tools
can open a sealed file unchanged.  Length and digest are checked before libhdf5 reads a byte: damaged
metadata can crash it, and it does not notice damaged raw data.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING, Protocol

from herdcli.artifacts.message_numbers import group_digits
from herdcli.errors import DataError
from herdcli.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK = 512
MAGIC = b"herd-artifact"
CHUNK = 1 << 18
DAMAGED_HINT = "the file was cut or changed after it was written: download or make it again"
RESEAL_HINT = f"{DAMAGED_HINT}; if you edited it on purpose, run: herd seal FILE"

_LINE = re.compile(rb"herd-artifact 1 kind=([a-z][a-z0-9-]*) bytes=([1-9][0-9]*) sha256=([0-9a-f]{64})\n\0*")


class Hasher(Protocol):
    """The methods of hashlib objects that are used."""

    def update(self, data: bytes | memoryview, /) -> None: ...

    def hexdigest(self) -> str: ...


@dataclass(frozen=True)
class Seal:
    """The contents of the block: the artifact's kind, the length of the whole file, the digest in hex."""

    kind: str
    size: int
    sha256: str

    def block(self) -> bytes:
        """Return the 512 bytes of this seal."""
        line = f"herd-artifact 1 kind={self.kind} bytes={self.size} sha256={self.sha256}\n".encode("ascii")
        return line.ljust(BLOCK, b"\0")

    def hasher(self) -> Hasher:
        """Return a SHA-256 that has hashed this seal's kind and length; feed it the bytes from 512 on."""
        return begin_digest(self.kind, self.size)


def begin_digest(kind: str, size: int) -> Hasher:
    """Return the SHA-256 of an artifact before its bytes from 512 on."""
    return hashlib.sha256(f"herd-artifact 1 kind={kind} bytes={size}\n".encode("ascii"))


def parse_seal(head: bytes, *, where: str) -> Seal | None:
    """Return the seal in a file's first bytes, or None if they do not begin like one.

    Raises DataError if they do, but the block differs from the one that its own fields give.
    """
    if not head.startswith(MAGIC) and not (head and MAGIC.startswith(head)):
        return None
    block = head[:BLOCK]
    if len(block) < BLOCK:
        raise DataError(f"the file ends after {len(block)} bytes, before the end of its seal", where=where, hint=DAMAGED_HINT)
    match = _LINE.fullmatch(block)
    seal = Seal(match[1].decode(), int(match[2]), match[3].decode()) if match else None
    if seal is None or seal.block() != block:
        raise DataError("the seal is damaged", where=where, hint=RESEAL_HINT)
    return seal


def verify_seal(seal: Seal, size: int, sha256: str, *, where: str) -> None:
    """Raise DataError unless the file's length and digest are the ones its seal states."""
    if size != seal.size:
        fate = "cut short" if size < seal.size else "too long"
        raise DataError(
            f"the file is {fate}: {group_digits(size)} bytes instead of {group_digits(seal.size)}", where=where, hint=DAMAGED_HINT
        )
    if sha256 != seal.sha256:
        raise DataError("the contents do not match the seal (SHA-256 differs)", where=where, hint=RESEAL_HINT)


def read_pieces(descriptor: int, start: int = 0) -> Iterator[memoryview]:
    """Yield the bytes of an open regular file from `start` to its end, in pieces that share one buffer."""
    buffer = bytearray(CHUNK)
    view = memoryview(buffer)
    while count := os.preadv(descriptor, [buffer], start):
        yield view[:count]
        start += count


def compute_digest(descriptor: int, kind: str, size: int) -> str:
    """Return the digest for the seal of an open file of `size` bytes."""
    running = begin_digest(kind, size)
    for piece in read_pieces(descriptor, BLOCK):
        running.update(piece)
    return running.hexdigest()


def write_seal(path: str | os.PathLike[str], kind: str) -> Seal:
    """Write the seal into the first 512 bytes of an HDF5 file made with a user block of that size."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        seal = Seal(kind, size, compute_digest(descriptor, kind, size))
        os.pwrite(descriptor, seal.block(), 0)
    finally:
        os.close(descriptor)
    return seal
