"""Words of documents as counts of hashed columns: the twin of a loop in `_online.pyx`."""

from __future__ import annotations

import numpy as np

from herdcli.fast.numpy_online_text import murmur3
from herdcli.schema import Array


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
