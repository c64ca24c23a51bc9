"""Text in encodings other than UTF-8: declared, detected from a byte order mark, or guessed and reported."""

from __future__ import annotations

import codecs
import re
import unicodedata
from typing import Any, BinaryIO

from herdcli.artifacts.text.csv_structure import TransformedStream, buffer_stream
from herdcli.errors import DataError

MARKS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
CONTROL = bytes(code for code in range(32) if code not in b"\t\n\r\f\x1b") + b"\x7f"
WINDOWS = set(range(0x80, 0xA0)) - {0x81, 0x8D, 0x8F, 0x90, 0x9D}  # codes of cp1252 that are not characters in latin-1
XML = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["'][A-Za-z0-9._-]+["']""")
LEAST = 8  # bytes needed for a guess


def guess_encoding(head: bytes) -> str | None:
    """Return the encoding of a text other than UTF-8 by its first bytes; None for UTF-8, for binary data, and for declared XML."""
    for mark, name in MARKS:
        if head.startswith(mark):
            return name
    wide = _guess_utf16(head)
    if wide is not None:
        return wide
    if XML.match(head) or _is_utf8(head) or any(code in CONTROL for code in set(head)) or _is_damaged_utf8(head):
        return None
    high = {code for code in head if code >= 0x80}
    return "cp1252" if high & set(range(0x80, 0xA0)) and high & set(range(0x80, 0xA0)) <= WINDOWS else "latin-1"


def _is_utf8(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _is_damaged_utf8(head: bytes) -> bool:
    """Return whether a text has at least as many non-ASCII characters of UTF-8 as invalid bytes."""
    text = head.decode("utf-8", "replace")
    faults = text.count("\ufffd")
    return sum(character > "\x7f" for character in text) - faults >= max(faults, 1)


def _guess_utf16(head: bytes) -> str | None:
    """Detect UTF-16 without a byte order mark: ASCII with a zero in every second byte."""
    first = head[: 1 << 12]
    first = first[: len(first) // 2 * 2]
    if len(first) < LEAST:
        return None
    for name, zeros, others in (("utf-16-le", first[1::2], first[::2]), ("utf-16-be", first[::2], first[1::2])):
        if zeros.count(0) > 0.9 * len(zeros) and not any(code in CONTROL for code in set(others)):
            return name
        if 0 in zeros and _is_plain_text(first, name):
            return name
    return None


def _is_plain_text(head: bytes, encoding: str) -> bool:
    """Return whether decoded bytes are only letters, digits and punctuation, with a line end, and largely ASCII."""
    text = codecs.getincrementaldecoder(encoding)("replace").decode(head)
    ascii_part = sum(character < "\x80" for character in text)
    strange = any(unicodedata.category(character) in ("Cc", "Cn", "Co", "Cs") and character not in "\t\r\n\f" for character in text)
    return not strange and "\ufffd" not in text and "\n" in text and 4 * ascii_part > len(text)


def decode_to_utf8(stream: Any, encoding: str, *, where: str) -> BinaryIO:
    """Return a stream of text in UTF-8.  Raises DataError during reading if the text is not in the encoding."""
    decoder = codecs.getincrementaldecoder(encoding)()

    def change(piece: bytes, last: bool) -> bytes:
        try:
            return decoder.decode(piece, last).removeprefix("\ufeff").encode("utf-8")
        except UnicodeError as error:
            raise DataError(
                f"the text is not in the encoding {encoding}", where=where, hint="declare the right one with --encoding"
            ) from error

    return buffer_stream(TransformedStream(stream, change))
