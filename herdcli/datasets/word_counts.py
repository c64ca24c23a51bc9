"""Word counts of documents, from which the text data sets are made."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from herdcli.datasets.registry import Arrays

WORD = re.compile("[a-z]{2,}")


def split_words(text: str) -> list[str]:
    """Return the runs of two or more letters a to z, in lower case."""
    return WORD.findall(text.lower())


def split_words_and_pairs(text: str) -> list[str]:
    """Return the words of a text, and its pairs of adjacent words, joined by an underscore."""
    single = split_words(text)
    return single + [f"{first}_{second}" for first, second in pairwise(single)]


def count_words(documents: Iterable[Sequence[str]], min_documents: int) -> Arrays:
    """Return CSR counts (n, words) of the words in at least `min_documents` documents, in alphabetical order, and these words as
    `vocab`."""
    counts = [Counter(document) for document in documents]
    documents_with = Counter(word for each in counts for word in each)
    vocabulary = sorted(word for word, count in documents_with.items() if count >= min_documents)
    position = {word: index for index, word in enumerate(vocabulary)}
    rows = [sorted((position[word], count) for word, count in each.items() if word in position) for each in counts]
    return {
        "X/data": np.array([count for row in rows for _, count in row], dtype=np.uint16),
        "X/indices": np.array([index for row in rows for index, _ in row], dtype=np.int32),
        "X/indptr": np.cumsum([0, *map(len, rows)], dtype=np.int64),
        "vocab": vocabulary,
    }
