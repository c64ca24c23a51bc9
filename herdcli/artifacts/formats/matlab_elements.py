"""A check of MATLAB 5 files before scipy.io reads them: its compiled reader takes the numbers of data types from the file as indices.

The format: MATLAB's "MAT-File Format" (MAT-Level 5).  A file is a header of 128 bytes and elements.  An element is a tag with a type and a
length, and its content; variables are elements of type MATRIX, which may be compressed, and hold elements themselves.
"""

from __future__ import annotations

import math
import struct
import zlib
from typing import BinaryIO

MATRIX, COMPRESSED = 14, 15
DATA_TYPES = frozenset((1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 17, 18))  # int8 … uint64, UTF-8 to UTF-32
CELL, CHAR, SPARSE = 1, 4, 5
NUMERIC = range(6, 16)  # classes: double, single, int8 … uint64
HEADER = 128
DIMENSIONS = 32  # largest number of lengths of a shape
NESTED = 20  # largest depth of cells in cells
PIECE = 1 << 16


class _Content:
    """Bytes of a file from its position on, at most `length`."""

    def __init__(self, file: BinaryIO, length: int) -> None:
        self.file, self.rest = file, length

    def _piece(self, count: int) -> bytes:
        found = self.file.read(min(count, self.rest))
        self.rest -= len(found)
        return found

    def read(self, count: int) -> bytes:
        """Return the next `count` bytes.  Raises ValueError if there are fewer."""
        found = b""
        while len(found) < count:
            piece = self._piece(min(count - len(found), PIECE))
            if not piece:
                raise ValueError("an element is longer than its variable")
            found += piece
        return found

    def skip(self, count: int) -> None:
        """Skip the next `count` bytes.  Raises ValueError if there are fewer."""
        while count > 0:
            count -= len(self.read(min(count, PIECE)))

    def skip_padding(self, length: int) -> None:
        """Pass over the bytes that make a length a multiple of eight, or those that are left."""
        padding = -length % 8
        while padding and (piece := self._piece(padding)):
            padding -= len(piece)


class _Inflated(_Content):
    """The uncompressed bytes of a compressed element."""

    def __init__(self, file: BinaryIO, length: int) -> None:
        super().__init__(file, length)
        self.stream = zlib.decompressobj()

    def _piece(self, count: int) -> bytes:
        while True:
            source = self.stream.unconsumed_tail or super()._piece(PIECE)
            found = self.stream.decompress(source, count)
            if found or not source:
                return found


def readable_variables(path: str) -> set[str] | None:
    """Return the names of the variables that contain only numbers, text and cells of them; None for MATLAB 4.

    Raises ValueError for a variable with an unknown type of data or a length beyond its end, and zlib.error for damaged compression.
    """
    with open(path, "rb") as file:
        header = file.read(HEADER)
        if len(header) < HEADER or 0 in header[:4]:
            return None
        order = "<" if header[126:128] == b"IM" else ">"
        names: set[str] = set()
        while len(tag := file.read(8)) == 8:
            kind, length = struct.unpack(f"{order}2I", tag)
            start = file.tell()
            if kind == COMPRESSED:
                content: _Content = _Inflated(file, length)
                kind = struct.unpack(f"{order}2I", content.read(8))[0]
            else:
                content = _Content(file, length)
            if kind == MATRIX:
                name, plain = _check_variable(content, order, 0)
                names |= {name} if plain else set()
            file.seek(start + length)
        return names


def _check_variable(content: _Content, order: str, depth: int) -> tuple[str, bool]:
    """Check one variable; return its name, and whether scipy.io may read it."""
    content.skip(8)
    flags, _ = struct.unpack(f"{order}2I", content.read(8))
    kind, parts = flags & 0xFF, 2 if flags >> 11 & 1 else 1
    lengths = _read_element(content, order)
    if len(lengths) % 4 or not 2 <= len(lengths) // 4 <= DIMENSIONS:
        raise ValueError(f"a shape has {len(lengths)} bytes")
    shape = struct.unpack(f"{order}{len(lengths) // 4}i", lengths)
    if min(shape) < 0:
        raise ValueError(f"a shape has the negative length {min(shape)}")
    name = _read_element(content, order).decode("latin-1")
    if kind == CELL:
        return name, depth < NESTED and all(_check_cell(content, order, depth + 1) for _ in range(math.prod(shape)))
    if kind != CHAR and kind != SPARSE and kind not in NUMERIC:
        return name, False
    for _ in range(parts + 2 if kind == SPARSE else parts):
        _skip_data(content, order)
    return name, True


def _check_cell(content: _Content, order: str, depth: int) -> bool:
    kind, length = struct.unpack(f"{order}2I", content.read(8))
    if kind != MATRIX:
        raise ValueError(f"a cell contains an element of type {kind}")
    return length == 0 or _check_variable(content, order, depth)[1]


def _read_tag(content: _Content, order: str) -> tuple[int, int, bytes | None]:
    """Return the type and the length of an element, and its content if it is stored in the tag."""
    tag = content.read(8)
    first, length = struct.unpack(f"{order}2I", tag)
    return (first & 0xFFFF, first >> 16, tag[4:]) if first >> 16 else (first, length, None)


def _read_element(content: _Content, order: str) -> bytes:
    """Return the content of a short element: a shape or a name."""
    _, length, small = _read_tag(content, order)
    if length > (4 if small else PIECE):
        raise ValueError(f"a shape or name has {length} bytes")
    if small:
        return small[:length]
    found = content.read(length)
    content.skip_padding(length)
    return found


def _skip_data(content: _Content, order: str) -> None:
    """Pass over the element of an array's values."""
    kind, length, small = _read_tag(content, order)
    if kind not in DATA_TYPES:
        raise ValueError(f"the type of data {kind} does not exist")
    if small:
        if length > 4:
            raise ValueError(f"an element in its own tag has {length} bytes")
    else:
        content.skip(length)
        content.skip_padding(length)
