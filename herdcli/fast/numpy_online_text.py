"""Parser of svmlight and Vowpal Wabbit text into CSR rows, and the hash of feature names: twins of loops in `_online.pyx`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from herdcli.schema import Array

FINE, BAD_LABEL, BAD_PAIR, ZERO_INDEX, FALLING_INDEX, BAD_VALUE, NOT_FINITE, LARGE_INDEX, NO_LABEL, BAD_WEIGHT, NO_BAR = range(11)
LARGEST = 2147483645
_TOKEN = re.compile(rb"[^ \t\r\n]+")
_FEATURE = re.compile(rb"[^ \t\r\n|]+")
_NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_DIGITS = re.compile(rb"\d+")
_PAIR = re.compile(rb"(\d+):(.*)", re.DOTALL)
_STRANGE = {b"nan": math.nan, b"inf": math.inf, b"infinity": math.inf}
_WORD = 0xFFFFFFFF
LINES = 1 << 17  # bytes of lines parsed at once: enough to make calls cheap, few enough for the cache
_BLANK, _NEWLINE, _COLON, _POINT, _MINUS = (ord(mark) for mark in " \n:.-")
_TENS = 10 ** np.arange(17, dtype=np.uint64)
_POWERS = 10.0 ** np.arange(17)
_LABEL = re.compile(rb"[-+]?\d{1,15}(\.\d{1,15})?")

Names = dict[int, str]
Numbers = Sequence[float] | Array
Row = tuple[float, float, list[int], list[float]]  # label, weight, indices, values
PlainRows = tuple[list[float], Array, Array, Array]  # labels, pairs per line, indices, values
Group = tuple[int, int, Numbers, Numbers, Numbers, Numbers, Numbers]  # bytes, lines, labels, weights, pairs per row, indices, values


class _TokenError(Exception):
    """A syntax error at a token: its code, and the token's beginning and end within the line."""

    def __init__(self, code: int, start: int, end: int) -> None:
        super().__init__(code)
        self.found = (code, start, end)


@lru_cache(maxsize=1 << 16)
def murmur3(text: bytes, seed: int) -> int:
    """Return the 32-bit MurmurHash3 of a text.  Source: Appleby (2011), MurmurHash3_x86_32."""
    h, blocks = seed, len(text) // 4 * 4
    for start in range(0, blocks, 4):
        h ^= _scramble_hash(int.from_bytes(text[start : start + 4], "little"))
        h = ((h << 13 | h >> 19) * 5 + 0xE6546B64) & _WORD
    if blocks < len(text):
        h ^= _scramble_hash(int.from_bytes(text[blocks:], "little"))
    h ^= len(text)
    h = ((h ^ h >> 16) * 0x85EBCA6B) & _WORD
    h = ((h ^ h >> 13) * 0xC2B2AE35) & _WORD
    return h ^ h >> 16


def _scramble_hash(k: int) -> int:
    k = (k * 0xCC9E2D51) & _WORD
    return ((k << 15 | k >> 17) * 0x1B873593) & _WORD


def parse_text(
    text: bytes | memoryview,
    vw: bool,
    mask: int,
    first: int,
    label: Array,
    weight: Array,
    pointer: Array,
    index: Array,
    value: Array,
    names: Names | None,
    loose: bool = False,
) -> tuple[int, int, int, int, int, int, int]:
    """Parse whole lines into rows, up to the end of the text or the first line with an error.

    mask   table size − 1 if features are hashed (entries of one index are added up), else 0.
    first  lowest index of the text, 0 or 1.  Output indices start at 1: table row 0 is the bias.
    names  receives the first name of each hashed index, if given.
    loose  the indices of a line may have any order, and NaN and infinity are numbers.
    The arrays must have room: rows ≤ lines, entries ≤ half the bytes.
    Returns (rows, bytes used, lines used, code, column, start of token, its length); the line with the error counts as used.
    """
    rows, entries, used, lines, text = 0, 0, 0, 0, bytes(text)
    pointer[0] = 0
    try:
        for group in _parse_line_groups(text, vw, mask, first, names, loose):
            used, more, labels, weights, counts, columns, numbers = group
            new, last = rows + len(labels), entries + len(columns)
            label[rows:new], weight[rows:new], pointer[rows + 1 : new + 1] = labels, weights, entries + np.cumsum(counts)
            index[entries:last], value[entries:last] = columns, numbers
            rows, entries, lines = new, last, lines + more
    except _TokenError as wrong:
        code, begin, finish = wrong.found
        start, used = used, _next_line_start(text, used)
        return rows, used, lines + 1, code, begin + 1, start + begin, finish - begin
    return rows, used, lines, FINE, 0, 0, 0


def _next_line_start(text: bytes, start: int) -> int:
    """Return the start of the line after the one at `start`."""
    return text.find(b"\n", start) + 1 or len(text)


def _parse_line_groups(text: bytes, vw: bool, mask: int, first: int, names: Names | None, loose: bool) -> Iterator[Group]:
    """Yield the lines in order, many at once if they are plain, else one by one.  Raises _Wrong at a line with an error.

    If a group is not plain, half as many lines are tried.  After a line that is not plain, others probably follow, so an increasing number
    of lines is read one by one before a group is tried again.
    """
    used, reach, pause, left = 0, 0 if vw or mask else LINES, 0, -1
    while used < len(text):
        end = text.rfind(b"\n", used, used + reach) + 1 or _next_line_start(text, used)
        found = plain_rows(text[used:end], first, loose) if reach else None
        if found is not None:
            used, reach, pause = end, min(2 * reach, LINES), 0
            yield used, len(found[0]), found[0], [1.0], *found[1:]
        elif reach and text.find(b"\n", used, end - 1) >= 0:
            reach = (end - used) // 2
        else:
            if reach:
                pause = left = min(2 * pause + 1, 255)
            left, reach = left - 1, LINES if left == 1 else 0
            row = _parse_vw_line(text[used:end], mask, names) if vw else _parse_svmlight_line(text[used:end], mask, first, names, loose)
            used = end
            if row is None:
                yield used, 1, [], [], [], [], []
            else:
                yield used, 1, [row[0]], [row[1]], [len(row[2])], row[2], row[3]


def _parse_number(token: bytes) -> float | None:
    """Return the number that a token spells, including NaN and infinity, or None if it is not a number."""
    if _NUMBER.fullmatch(token) and len(token) < 400:
        return float(token)
    strange = _STRANGE.get((token[1:] if token[:1] in (b"+", b"-") else token).lower())
    return -strange if strange == math.inf and token[:1] == b"-" else strange


def _parse_checked_number(token: bytes, start: int, end: int, code: int, loose: bool = False) -> float:
    number = _parse_number(token)
    if number is None or not (loose or math.isfinite(number)):
        raise _TokenError(code if number is None else NOT_FINITE, start, end)
    return number


def _parse_svmlight_line(line: bytes, mask: int, first: int, names: Names | None, loose: bool) -> Row | None:
    tokens = _TOKEN.finditer(line.partition(b"#")[0])
    head = next(tokens, None)
    if head is None:
        return None
    label = _parse_checked_number(head[0], head.start(), head.end(), BAD_LABEL, loose)
    hashed: dict[int, float] = {}
    columns: list[int] = []
    numbers: list[float] = []
    last = -1
    for token in tokens:
        where = (token.start(), token.end())
        pair = _PAIR.fullmatch(token[0])
        if token[0].startswith(b"qid:") and len(token[0]) > 4:
            continue
        if pair is None or (int(pair[1]) >= 1 << 31 and not mask):
            digits = _DIGITS.match(token[0])
            raise _TokenError(LARGE_INDEX if digits and int(digits[0]) >= 1 << 31 else BAD_PAIR, *where)
        number = _parse_checked_number(pair[2], *where, BAD_VALUE, loose)
        if mask:
            _add_feature(hashed, pair[1], 0, mask, number, names, "")
            continue
        at = int(pair[1])
        if at < first or at <= last or at > LARGEST + loose:
            raise _TokenError(ZERO_INDEX if at < first else FALLING_INDEX if at <= last else LARGE_INDEX, *where)
        last = -1 if loose else at
        columns.append(at + 1 - first)
        numbers.append(number)
    return (label, 1.0, list(hashed), list(hashed.values())) if mask else (label, 1.0, columns, numbers)


def _add_feature(row: dict[int, float], name: bytes, seed: int, mask: int, number: float, names: Names | None, prefix: str) -> None:
    at = (murmur3(name, seed) & mask) + 1
    row[at] = row[at] + number if at in row else number
    if names is not None:
        names.setdefault(at, prefix + name.decode("utf-8", "replace"))


def _parse_vw_line(line: bytes, mask: int, names: Names | None) -> Row | None:
    if not line.strip(b" \t\r\n"):
        return None
    line = line.rstrip(b" \t\r\n")
    bar = line.find(b"|")
    start = len(line) - len(line.lstrip(b" \t\r\n"))
    if bar < 0:
        raise _TokenError(NO_BAR, start, len(line))
    label, weight = _parse_vw_head(line[:bar])
    row: dict[int, float] = {}
    while bar < len(line):
        end = line.find(b"|", bar + 1)
        end = len(line) if end < 0 else end
        for name, seed, number, prefix in _parse_vw_namespace(line, bar + 1, end):
            _add_feature(row, name, seed, mask, number, names, prefix)
        bar = end
    return label, weight, list(row), list(row.values())


def _parse_vw_head(head: bytes) -> tuple[float, float]:
    """Return label and importance; a tag begins with ' or touches the bar."""
    found: list[float] = []
    for token in _TOKEN.finditer(head):
        touches = token.end() == len(head)
        if token[0].startswith(b"'") or (touches and found):
            continue
        if len(found) == 3:
            raise _TokenError(BAD_LABEL, token.start(), token.end())
        number = _parse_number(token[0])
        if touches and (number is None or not math.isfinite(number)):
            break
        found.append(_parse_checked_number(token[0], token.start(), token.end(), BAD_WEIGHT if found else BAD_LABEL))
    if not found:
        raise _TokenError(NO_LABEL, 0, len(head))
    if len(found) > 1 and not found[1] >= 0.0:
        raise _TokenError(BAD_WEIGHT, 0, len(head))
    return found[0], found[1] if len(found) > 1 else 1.0


def _parse_vw_namespace(line: bytes, start: int, end: int) -> Iterator[tuple[bytes, int, float, str]]:
    """Yield (name, hash seed, value, prefix) for the features of one namespace; its name touches the bar."""
    seed, scale, prefix = 0, 1.0, ""
    for token in _FEATURE.finditer(line, start, end):
        name, colon, text = token[0].partition(b":")
        number = _parse_checked_number(text, token.start(), token.end(), BAD_VALUE) if colon else 1.0
        if token.start() == start:
            scale = number
            if name:
                seed, prefix = murmur3(name, 0), name.decode("utf-8", "replace") + "^"
        else:
            yield name, seed, number * scale, prefix


def plain_rows(text: bytes, first: int, loose: bool = False) -> PlainRows | None:
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


def count_hashed_words(text: bytes, ends: Array, mask: int, known: Array | None = None) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Count the words of n documents by column: the MurmurHash3 of a word, modulo the number of columns.

    text   the documents one after another, their words divided by blanks.   ends (n,) int64  where each ends in it.
    mask   number of columns − 1.
    known (mask + 1,) uint8  columns whose word was reported; new ones are added.  None: words are not reported.
    Returns CSR rows (pointer, index, value), with columns in order of occurrence, and of each column that is new in `known` the number,
    and the first byte and the length of its first word.  Raises ValueError for arrays that do not fit.
    """
    check_ends(ends, len(text), mask, known)
    pointer, rows = np.zeros(len(ends) + 1, dtype=np.int64), list[dict[int, float]]()
    new: list[tuple[int, int, int]] = []
    begin = 0
    for number, end in enumerate(ends.tolist()):
        row, place = dict[int, float](), begin
        for word in text[begin:end].split(b" "):
            if word:
                column = murmur3(word, 0) & mask
                row[column] = row.get(column, 0.0) + 1.0
                if known is not None and not known[column]:
                    known[column] = 1
                    new.append((column, place, len(word)))
            place += len(word) + 1
        rows.append(row)
        pointer[number + 1] = pointer[number] + len(row)
        begin = end
    index = np.array([column for row in rows for column in row], dtype=np.int32)
    value = np.array([count for row in rows for count in row.values()], dtype=np.float64)
    found = np.array(new, dtype=np.int64).reshape(-1, 3)
    return pointer, index, value, found[:, 0].astype(np.int32), found[:, 1].copy(), found[:, 2].copy()


def check_ends(ends: Array, size: int, mask: int, known: Array | None) -> None:
    """Raise ValueError unless the ends of documents rise up to `size`, and `known` has a byte for each column."""
    if not 0 <= mask < 1 << 30 or (known is not None and (known.dtype != np.uint8 or known.shape != (mask + 1,))):
        raise ValueError("known needs a byte for each column")
    if (np.diff(ends, prepend=0) < 0).any() or (len(ends) and ends[-1] > size):
        raise ValueError("the ends of documents do not rise within the text")
