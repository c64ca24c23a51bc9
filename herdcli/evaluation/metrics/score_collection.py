"""Collected numbers of every example, for metrics that need all of them at once: areas under curves, means in a fixed order."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from herdcli.schema import Array

CHUNK = 1 << 16  # sorted values processed together


class BlockStorage(Protocol):
    """A store for blocks of numbers that may be too many for memory."""

    def put(self, array: Array) -> Any:
        """Store an array (columns, r), and return its location."""
        ...

    def get(self, location: Any, count: int, row: int) -> Array:
        """Return one of its columns (count,)."""
        ...


class MemoryStorage:
    """A `BlockStorage` in memory."""

    def put(self, array: Array) -> Array:
        """Return the array itself."""
        return array

    def get(self, location: Array, count: int, row: int) -> Array:
        """Return one of its columns (count,)."""
        found: Array = location[row]
        return found


class CollectedColumns:
    """Columns of 8-byte numbers that arrive in blocks of rows; in the end each column is needed as a whole."""

    def __init__(self, place: BlockStorage | None = None) -> None:
        self.count = 0
        self._place: BlockStorage = place or MemoryStorage()
        self._parts: list[tuple[int, Any]] = []

    def append(self, columns: list[Array]) -> None:
        """Append rows of all columns, (r,) each."""
        block = np.stack([np.ascontiguousarray(column).view(np.uint64) for column in columns])
        self._parts.append((block.shape[1], self._place.put(block)))
        self.count += block.shape[1]

    def column(self, number: int, dtype: type[np.generic] = np.float64) -> Array:
        """Return one of the columns (n,)."""
        found, start = np.empty(self.count, dtype=np.uint64), 0
        for rows, part in self._parts:
            found[start : start + rows] = self._place.get(part, rows, number)
            start += rows
        return found.view(dtype)


def pack_scores_and_labels(score: Array, positive: Array) -> Array:
    """Return scores (n,) in [0, 2) and whether each is a positive, (n,) bool, as whole numbers (n,) uint64 that sort by the score.

    Nonnegative float64 sort like their bits, and the first two bits are 0 below 2: after a shift by one there is space for a mark.
    """
    found: Array = np.ascontiguousarray(score, dtype=np.float64).view(np.uint64) << np.uint64(1)
    found |= positive.astype(np.uint64)
    return found


def roc_auc(keys: Array) -> float | None:
    """Return the area under the ROC curve of `pack_scores_and_labels` scores (n,), which are sorted in place; None if a class does not
    occur.

    Ties count half.
    """
    keys.sort()
    total, count = len(keys), sum(int(np.count_nonzero(keys[start : start + CHUNK] & np.uint64(1))) for start in range(0, len(keys), CHUNK))
    if count in (0, total):
        return None
    # Mann & Whitney: the positives' ranks sum to n(n + 1)/2, plus one for each negative below them; ties have mean ranks,
    # and count half.
    return float((_twice_positive_rank_sum(keys) / 2 - count * (count + 1) / 2) / (count * (total - count)))


def _twice_positive_rank_sum(keys: Array) -> int:
    """Return twice the sum of the positives' ranks in sorted keys (n,): ties have their mean rank, (first + last)/2."""
    doubled, first, held, before = 0, 0, 0, None  # of the current ties: the index of the first, their positives, their score
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
