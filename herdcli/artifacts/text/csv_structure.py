"""Checks of the structure of CSV while it is read: unclosed quotes, the number of lines, zeros in front of numbers.

pyarrow accepts a quote that is never closed and ends the cell anywhere; this module reports the line of the quote.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from herdcli.errors import DataError

QUOTE, NEWLINE, RETURN, BLANK = 34, 10, 13, 32
LOOKED_AT = 1 << 24  # bytes that are searched for leading zeros and for long whole numbers
PIECE = 1 << 16
QUOTE_HINT = 'write a quote inside a cell twice, "", and close every cell that begins with one'
ROWS_HINT = "remove the quote, or write it twice"


class TransformedStream(io.RawIOBase):
    """A stream that changes each piece.  change  (piece, whether it is the last) -> bytes."""

    def __init__(self, stream: Any, change: Callable[[bytes, bool], bytes]) -> None:
        self._stream, self._change, self._rest, self._ended = stream, change, memoryview(b""), False

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not len(self._rest) and not self._ended:
            piece = self._stream.read1(PIECE)
            self._ended = not piece
            self._rest = memoryview(self._change(piece, self._ended))
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def buffer_stream(stream: io.RawIOBase) -> BinaryIO:
    """Return a raw stream with a buffer."""
    return io.BufferedReader(stream, PIECE)


class StructureCheck:
    """The state of the checks of a text.

    lines  the number of nonempty lines from `first` on.
    empty  the number of empty lines.

    Raises DataError, while the text is read, for an unclosed quote, for text after a closing quote, and for a quoted cell that contains
    whole rows of numbers.
    """

    def __init__(self, separator: str, width: int, *, where: str) -> None:
        self.where, self.width = where, width
        self.separator = separator.encode()
        self.lines = self.empty = 0
        self.odd: bytes | None = None  # the first number with leading zeros, or too long for a float64, and its line
        self._seen, self._last, self._line = 0, NEWLINE, 1  # number of bytes, the last byte, the line number
        self._opened: int | None = None  # the line of the open quote
        self._inside = bytearray()  # the open quoted cell
        self._skips = False  # the next byte is the second of two quotes
        self._held = b""  # a quote at the end of a piece, whose next byte has not arrived
        edges = re.escape(self.separator) + rb"\r\n\""
        self._odd = re.compile(rb"(?<=[%b])(0\d+|[-+]?[1-9]\d{16,})(?=[%b])" % (edges, edges))

    def change(self, piece: bytes, last: bool) -> bytes:
        """Check a piece, and return it unchanged."""
        text = self._held + piece
        self._held = b""
        if not last and text[-1:] == b'"':
            text, self._held = text[:-1], b'"'
        if text:
            self._check_text(text, self._held[:1])
        if last:
            self._check_end()
        return text

    def _check_text(self, text: bytes, following: bytes) -> None:
        if b"\0" in text:
            line = self._line + (bytes(self._inside) + text[: text.index(b"\0")]).count(b"\n")
            self._raise_data_error(
                f"line {line} has a character of code 0", "use --encoding utf-16-le, or download the file again: it may be damaged"
            )
        if self.odd is None and self._seen < LOOKED_AT and b'"' not in text and (found := self._odd.search(text)):
            self.odd = found[1]
        self._seen += len(text)
        if self._opened is None and b'"' not in text:
            self._count(text)
        else:
            self._check_quotes(text, following)
        self._last = text[-1]

    def _count(self, text: bytes) -> None:
        """Count the lines of text without quotes."""
        ends = text.count(b"\n") or text.count(b"\r")
        self._line += ends
        self.empty += text.count(b"\n\n") + text.count(b"\n\r\n") + (self._last == NEWLINE and text[:1] in (b"\n", b"\r"))

    def _check_quotes(self, text: bytes, following: bytes) -> None:
        """Check the quotes of a text."""
        values = np.frombuffer(text, dtype=np.uint8)
        at = np.flatnonzero(values == QUOTE).tolist()
        starts = {self.separator[0], NEWLINE, RETURN, BLANK}
        skip, place = 0 if self._skips else -1, 0
        self._skips = False
        for quote in at:
            if quote == skip:
                continue
            if self._opened is None:
                before = text[quote - 1] if quote else self._last
                if before in starts:
                    self._count(text[place:quote])
                    self._opened, self._inside, place = self._line, bytearray(), quote + 1
                continue
            after = text[quote + 1 : quote + 2] or following
            if after == b'"':
                skip = quote + 1
                self._skips = skip == len(text)
                continue
            self._inside += text[place:quote]
            if after and after[0] not in starts:
                self._raise_data_error(
                    f"the quoted cell that begins in line {self._opened} is followed by other text in its line", QUOTE_HINT
                )
            self._close_quote()
            place = quote + 1
        if self._opened is None:
            self._count(text[place:])
        else:
            self._inside += text[place:]

    def _close_quote(self) -> None:
        """End a quoted cell, whose lines are not rows."""
        inside, opened = bytes(self._inside), self._opened
        self._opened = None
        if b"\n" not in inside and b"\r" not in inside:
            return
        middle = re.split(rb"\r\n|\n|\r", inside)[1:-1]
        rows = sum(line.count(self.separator) == self.width - 1 and _has_number_cell(line, self.separator) for line in middle)
        if self.width > 1 and rows and 2 * rows >= len(middle):
            self._raise_data_error(f"the quoted cell that begins in line {opened} contains whole rows, so a quote is not closed", ROWS_HINT)
        self._line += inside.count(b"\n") or inside.count(b"\r")

    def _check_end(self) -> None:
        if self._held:  # the last character is a quote
            held, self._held = self._held, b""
            if self._opened is None and self._last not in (self.separator[0], NEWLINE, RETURN, BLANK):
                return
            self._check_text(held, b"")
        if self._opened is not None:
            self._raise_data_error(f"the quote that opens in line {self._opened} is never closed", QUOTE_HINT)

    def _raise_data_error(self, message: str, hint: str) -> None:
        raise DataError(message, where=self.where, hint=hint)

    @property
    def count(self) -> int:
        """The number of lines so far."""
        return self._line - (self._last in (NEWLINE, RETURN))


def _has_number_cell(line: bytes, separator: bytes) -> bool:
    """Return whether a line has a number among its cells."""
    for cell in line.split(separator):
        try:
            float(cell)
        except ValueError:
            continue
        return True
    return False


class ChainedStream(io.RawIOBase):
    """A stream of bytes that were already read, followed by the rest of the stream."""

    def __init__(self, first: bytes, stream: Any) -> None:
        self._first, self._stream = memoryview(first), stream

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        if not len(self._first):
            return int(self._stream.readinto(target) or 0)
        count = min(len(target), len(self._first))
        target[:count] = self._first[:count]
        self._first = self._first[count:]
        return count


class LineTransform:
    """A transformation of whole lines; an incomplete line waits for its end."""

    def __init__(self, changed: Callable[[bytes], bytes]) -> None:
        self._rest, self._changed = b"", changed

    def change(self, piece: bytes, last: bool) -> bytes:
        """Return the complete lines that have arrived, transformed."""
        text = self._rest + piece
        cut = len(text) if last else text.rfind(b"\n") + 1
        self._rest = text[cut:]
        return self._changed(text[:cut])


def collapse_alignment(lines: bytes) -> bytes:
    """Replace runs of blanks that align columns by one blank, and remove them at the ends of lines."""
    return re.sub(rb"(?m)^ +| +(?=\r?$)", b"", re.sub(rb"[ \t]+", b" ", lines))


def strip_around_quotes(lines: bytes, separator: str) -> bytes:
    """Remove the blanks between a separator and a quote, so that the quote begins a cell."""
    mark = separator.encode()
    return re.sub(re.escape(mark) + rb' +"', mark + b'"', lines)
