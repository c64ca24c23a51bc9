"""Documents as rows: words and their n-grams, hashed into columns, counted and weighted by document frequency.

Words are runs of letters, digits and _, in lower case by default; an n-gram is n neighbouring words joined by _.  Their hash is
that of Vowpal Wabbit for a feature without a namespace.  With tf-idf a count is multiplied by 1 + ln((1 + N)/(1 + N_i)), with N_i of the N
training documents having the column: Salton & Buckley (1988), smoothed as in scikit-learn.  The learner scales rows to length 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from herdcli import fast
from herdcli.errors import DataError
from herdcli.records import dataclass
from herdcli.schema import Array, CSRMatrix, array

WEIGHTINGS = ("tf-idf", "counts")
PIECE = 1 << 20  # bytes of words counted at one time
_WORD = re.compile(r"\W+")
_BLANKS = bytes(c if chr(c).isalnum() or chr(c) == "_" else 32 for c in range(128)) + bytes(range(128, 256))


@dataclass(frozen=True)
class DocumentConversion:
    """The conversion of documents to rows.

    column     the table column that contains the documents.      bits  the number of columns is 2^bits.
    lower      whether words are converted to lower case.   ngrams  the longest n-gram.   seen  number of documents in `frequency`.
    """

    column: str
    bits: int
    lower: bool = True
    ngrams: int = 1
    weighting: str = "tf-idf"
    seen: int = 0
    frequency: Array | None = array("d", "documents that have the column", kind="f", optional=True)

    def validate(self) -> None:
        """Raise DataError unless all fields are valid."""
        if not 1 <= self.bits <= 30 or self.ngrams < 1 or self.seen < 0 or self.weighting not in WEIGHTINGS:
            raise DataError("documents: bits, ngrams, seen or weighting is outside its range")
        if self.frequency is not None:
            if len(self.frequency) != 1 << self.bits:
                raise DataError(f"documents: frequency has {len(self.frequency)} entries, but the documents need 2^{self.bits}")
            if not np.isfinite(self.frequency).all() or self.frequency.min() < 0 or self.frequency.max() > self.seen:
                raise DataError("documents: frequency has values that are not numbers of documents")

    def with_document_frequencies(self, X: CSRMatrix) -> DocumentConversion:
        """Return the conversion with the document frequencies of further rows of counts (n, d) CSR added."""
        own = np.bincount(X.indices, minlength=1 << self.bits).astype(np.float64)
        known = own if self.frequency is None else self.frequency + own
        return replace(self, seen=self.seen + X.shape[0], frequency=known)

    def weight_counts(self, X: CSRMatrix) -> CSRMatrix:
        """Return rows of counts (n, d) CSR with weights applied, as they are learned."""
        if self.weighting == "counts" or self.frequency is None:
            return X
        made = X.astype(np.float64)
        made.data *= (1.0 + np.log((1.0 + self.seen) / (1.0 + self.frequency)))[X.indices]
        return made


def count_words(texts: Sequence[str], conversion: DocumentConversion, names: dict[int, str] | None = None) -> CSRMatrix:
    """Return the counts (n, 2^bits) CSR of each column in each document; names: filled with the first word of each column, from 0."""
    from scipy.sparse import csr_matrix

    shape = (len(texts), 1 << conversion.bits)
    known = None if names is None else np.zeros(shape[1], dtype=np.uint8)
    pointer, index, value = [np.zeros(1, dtype=np.int64)], [np.zeros(0, dtype=np.int32)], [np.zeros(0)]
    for text, ends in _text_pieces(texts, conversion):
        starts, columns, counts, *new = fast.count_hashed_words(text, ends, shape[1] - 1, known)
        pointer.append(starts[1:] + pointer[-1][-1])
        index.append(columns)
        value.append(counts)
        if names is not None:
            for column, start, length in zip(*(each.tolist() for each in new), strict=True):
                names.setdefault(column, text[start : start + length].decode("utf-8"))
    found = csr_matrix((np.concatenate(value), np.concatenate(index), np.concatenate(pointer)), shape=shape)
    found.sort_indices()
    return found


def _text_pieces(texts: Iterable[str], conversion: DocumentConversion) -> Iterator[tuple[bytes, Array]]:
    """Yield documents one after another with their ends, in pieces of whole documents."""
    waiting: list[bytes] = []
    size = 0
    for text in texts:
        waiting.append(_normalise_text(text, conversion))
        size += len(waiting[-1])
        if size > PIECE:
            yield b"".join(waiting), np.cumsum([len(each) for each in waiting], dtype=np.int64)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting), np.cumsum([len(each) for each in waiting], dtype=np.int64)


def _normalise_text(text: str, conversion: DocumentConversion) -> bytes:
    """Return the words of a document separated by blanks, followed by its n-grams."""
    text = text.lower() if conversion.lower else text
    found = text.encode().translate(_BLANKS) if text.isascii() else _WORD.sub(" ", text).encode("utf-8", "replace")
    if conversion.ngrams == 1:
        return found
    words = found.split()
    grams = [b"_".join(words[k : k + n]) for n in range(2, conversion.ngrams + 1) for k in range(len(words) - n + 1)]
    return b" ".join(words + grams)
