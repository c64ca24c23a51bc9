"""A few numbers of every example, kept until all have been judged: what areas under curves and means in one order need."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from herdcli.schema import Array

CHUNK = 1 << 16  # sorted values that are looked at together


class BlockStorage(Protocol):
    """Where blocks of numbers are kept that would be too many for memory."""

    def put(self, array: Array) -> Any:
        """Keep an array (columns, r), and say where it is."""
        ...

    def get(self, held: Any, count: int, row: int) -> Array:
        """One of its columns (count,)."""
        ...


class MemoryStorage:
    """As a `BlockStorage`."""

    def put(self, array: Array) -> Array:
        """The array itself."""
        return array

    def get(self, held: Array, count: int, row: int) -> Array:
        """One of its columns (count,)."""
        found: Array = held[row]
        return found


class CollectedColumns:
    """Columns of numbers of 8 bytes, of which blocks of rows come one after the other; each is wanted whole in the end."""

    def __init__(self, place: BlockStorage | None = None) -> None:
        self.count = 0
        self._place: BlockStorage = place or MemoryStorage()
        self._parts: list[tuple[int, Any]] = []

    def append(self, columns: list[Array]) -> None:
        """The next rows of all columns, (r,) each."""
        block = np.stack([np.ascontiguousarray(column).view(np.uint64) for column in columns])
        self._parts.append((block.shape[1], self._place.put(block)))
        self.count += block.shape[1]

    def column(self, number: int, dtype: type[np.generic] = np.float64) -> Array:
        """One of the columns (n,)."""
        found, start = np.empty(self.count, dtype=np.uint64), 0
        for rows, part in self._parts:
            found[start : start + rows] = self._place.get(part, rows, number)
            start += rows
        return found.view(dtype)


def pack_scores(score: Array, positive: Array) -> Array:
    """Scores (n,) of [0, 2) and whether each is of a positive, (n,) bool, as whole numbers (n,) uint64 that sort by the score.

    A float64 from 0 on sorts as its bits do, and of those below 2 the first two are 0: shifted by one they have room for a mark.
    """
    found: Array = np.ascontiguousarray(score, dtype=np.float64).view(np.uint64) << np.uint64(1)
    found |= positive.astype(np.uint64)
    return found


def roc_area(keys: Array) -> float | None:
    """Area under the ROC curve of `pack_scores` scores (n,), which are sorted in place, ties counted half; None where a class does not
    occur."""
    keys.sort()
    total, count = len(keys), sum(int(np.count_nonzero(keys[start : start + CHUNK] & np.uint64(1))) for start in range(0, len(keys), CHUNK))
    if count in (0, total):
        return None
    # Mann & Whitney: the positives' ranks sum to n(n + 1)/2 among themselves and one for each negative below them; ties have mean ranks,
    # and count half.
    return float((_twice_ranks(keys) / 2 - count * (count + 1) / 2) / (count * (total - count)))


def _twice_ranks(keys: Array) -> int:
    """Twice the sum of the positives' ranks, of sorted keys (n,): those of one score have the mean of theirs, first + last over 2."""
    doubled, first, held, before = 0, 0, 0, None  # of the ties that are open: the place of their first, their positives, their score
    for start in range(0, len(keys), CHUNK):
        part = keys[start : start + CHUNK]
        score, positive = part >> np.uint64(1), (part & np.uint64(1)).astype(np.int64)
        begins = np.flatnonzero(np.concatenate([[before is None or score[0] != before], score[1:] != score[:-1]]))
        counts = np.add.reduceat(positive, begins) if len(begins) else np.zeros(0, dtype=np.int64)
        held += int(positive[: begins[0]].sum()) if len(begins) else int(positive.sum())
        if len(begins):
            places = start + begins
            doubled += held * (first + 1 + int(places[0]))
            doubled += int((counts[:-1] * (places[:-1] + 1 + places[1:])).sum())
            first, held = int(places[-1]), int(counts[-1])
        before = score[-1]
    return doubled + held * (first + 1 + len(keys))
