"""Parser for many svmlight lines of plain numbers at once; `numpy_online_text` tries it before it reads line by line."""

from __future__ import annotations

import re

import numpy as np

from herdcli.schema import Array

LINES = 1 << 17  # bytes of lines parsed at once: enough to make calls cheap, few enough for the cache
_BLANK, _NEWLINE, _COLON, _POINT, _MINUS = (ord(mark) for mark in " \n:.-")
_TENS = 10 ** np.arange(17, dtype=np.uint64)
_POWERS = 10.0 ** np.arange(17)

_LABEL = re.compile(rb"[-+]?\d{1,15}(\.\d{1,15})?")
Rows = tuple[list[float], Array, Array, Array]


def plain_rows(text: bytes, first: int, loose: bool = False) -> Rows | None:
    """Parse whole lines of a label and pairs in the usual form; return None if any line has another form or an error.

    A pair is an index of 1 to 8 digits, a colon, a value, and one blank or the end of the line, optionally after a blank.  A value is an
    optional minus, 1 to 8 digits, and optionally a point and digits, at most 16 digits in all.  Indices are ascending, unless the text is
    `loose`, and at least `first`.
    Returns the label of each line, the number of its pairs, and all indices (from 1) and values.
    """
    text = text if text.endswith(b"\n") else text + b"\n"
    for spare in (b"\r\n", b" \n"):
        text = text.replace(spare, b"\n") if spare in text else text
    body = np.frombuffer(text + bytes(8), np.uint8)
    strange = np.flatnonzero(body[: len(text)] - np.uint8(48) > 9)
    mark = body[strange]
    ends = np.flatnonzero((mark == _BLANK) | (mark == _NEWLINE))
    head = np.append(True, mark[ends[:-1]] == _NEWLINE)
    pairs = np.flatnonzero(~head)
    before, end = ends[pairs - 1], ends[pairs]
    point = mark[end - 1] == _POINT
    colon = end - 1 - point
    minus = mark[colon] == _MINUS
    colon -= minus
    if not ((mark[colon] == _COLON) & (colon - 1 == before)).all():
        return None
    begin, number, stop = strange[before] + 1, strange[colon] + 1, strange[end]
    if (minus & (strange[colon + 1] != number)).any():
        return None
    lengths = number - 1 - begin
    dot = strange[end - point]
    index = _parse_digit_runs(body, begin, lengths).astype(np.int64)
    value = _parse_decimals(body, number + minus, dot, stop)
    if value is None or not ((lengths >= 1) & (lengths <= 8) & (index >= first)).all():
        return None
    np.negative(value, out=value, where=minus)
    starts = np.append(np.flatnonzero(head), len(head))
    counts = np.diff(starts) - 1
    falls = np.flatnonzero(index[1:] <= index[:-1]) + 1
    if not loose and not np.isin(falls, np.cumsum(counts)).all():
        return None
    heads = starts[:-1]
    opens = np.append(0, strange[ends[heads[1:] - 1]] + 1)
    labels = [text[a:b] for a, b in zip(opens.tolist(), strange[ends[heads]].tolist(), strict=True)]
    if not all(map(_LABEL.fullmatch, labels)):
        return None
    return [float(label) for label in labels], counts, index + (1 - first), value


def _parse_decimals(body: Array, begin: Array, dot: Array, stop: Array) -> Array | None:
    """Return the numbers from `begin` to `stop` with a point (or the end) at `dot`; None if a number has no digits or too many."""
    whole, part = dot - begin, np.maximum(stop - dot - 1, 0)
    fits = (whole >= 1) & (whole <= 8) & (whole + part <= 16) & ((part > 0) | (dot == stop))
    if not fits.all():
        return None
    digits = _parse_digit_runs(body, begin, whole) * _TENS[part]
    long = part > 8
    digits += _parse_digit_runs(body, stop - np.minimum(part, 8), np.minimum(part, 8))
    if long.any():
        digits[long] += _parse_digit_runs(body, dot[long] + 1, part[long] - 8) * _TENS[8]
    if (digits >= 1 << 53).any():
        return None
    return np.asarray(digits / _POWERS[part])


def _parse_digit_runs(body: Array, at: Array, count: Array) -> Array:
    """Return the numbers given by 0 to 8 digits from `at` on: digits are joined to pairs, fours and eights within 64-bit words."""
    word = np.ndarray(len(body) - 7, "<u8", body, strides=(1,))[at] ^ np.uint64(0x3030303030303030)
    word <<= (64 - 8 * count).astype(np.uint64)
    for factor, shift, kept in ((10, 8, 0x00FF00FF00FF00FF), (100, 16, 0x0000FFFF0000FFFF), (10000, 32, 0xFFFFFFFF)):
        word = (word * np.uint64(1 + (factor << shift)) >> np.uint64(shift)) & np.uint64(kept)
    return word
