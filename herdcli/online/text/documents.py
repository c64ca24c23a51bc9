"""Documents as rows: words and their n-grams, hashed into columns, counted and weighted by document frequency.

Words are runs of letters, digits and _, in lower case by default; an n-gram is n neighbouring words joined by _.  Their hash is
that of Vowpal Wabbit for a feature without a namespace.  With tf-idf a count is multiplied by 1 + ln((1 + N)/(1 + N_i)), with N_i of the N
training documents having the column: Salton & Buckley (1988), smoothed as in scikit-learn.  The learner scales rows to length 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from herdcli import fast
from herdcli.errors import DataError
from herdcli.online.text.text_parser import BlockReader
from herdcli.records import dataclass
from herdcli.schema import Array, array

WEIGHTINGS = ("tf-idf", "counts")
PIECE = 1 << 20  # bytes of words parsed at one time
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
                raise DataError(f"documents: frequency has {len(self.frequency)} columns, but documents are hashed into 2^{self.bits}")
            if not np.isfinite(self.frequency).all() or self.frequency.min() < 0 or self.frequency.max() > self.seen:
                raise DataError("documents: frequency has values that are not numbers of documents")

    def counted(self, X: Any) -> DocumentConversion:
        """Return the conversion with the document frequencies of further rows of counts (n, d) CSR added."""
        own = np.bincount(X.indices, minlength=1 << self.bits).astype(np.float64)
        known = own if self.frequency is None else self.frequency + own
        return replace(self, seen=self.seen + X.shape[0], frequency=known)

    def weighted(self, X: Any) -> Any:
        """Return rows of counts (n, d) CSR with weights applied, as they are learned."""
        if self.weighting == "counts" or self.frequency is None:
            return X
        made = X.astype(np.float64)
        made.data *= (1.0 + np.log((1.0 + self.seen) / (1.0 + self.frequency)))[X.indices]
        return made


def count_words(texts: Sequence[str], conversion: DocumentConversion, names: dict[int, str] | None = None) -> Any:
    """Return the counts (n, 2^bits) CSR of each column in each document; names: filled with the first word of each column, from 0."""
    from scipy.sparse import csr_matrix

    reader = BlockReader("documents", True, bits=conversion.bits)
    pointer, index, value, words = [np.zeros(1, dtype=np.int64)], [], [], dict[bytes, None]()
    for block in reader.blocks(_text_pieces(texts, conversion, None if names is None else words)):
        pointer.append(block.pointer[1:] + pointer[-1][-1])
        index.append(block.index - 1)
        value.append(block.value)
    if names is not None:
        mask = (1 << conversion.bits) - 1
        for word in words:
            names.setdefault(fast.murmur3(word, 0) & mask, word.decode("utf-8"))
    shape = (len(texts), 1 << conversion.bits)
    found = csr_matrix((np.concatenate(value), np.concatenate(index), np.concatenate(pointer)), shape=shape)
    found.sort_indices()
    return found


def _text_pieces(texts: Iterable[str], conversion: DocumentConversion, words: dict[bytes, None] | None) -> Iterator[bytes]:
    """Yield lines of Vowpal Wabbit without labels, in pieces of whole lines."""
    waiting, size = [], 0
    for text in texts:
        line = _normalise_text(text, conversion)
        waiting.append(line)
        size += len(line)
        if size > PIECE:
            yield _vw_lines(waiting, words)
            waiting, size = [], 0
    if waiting:
        yield _vw_lines(waiting, words)


def _vw_lines(texts: list[bytes], words: dict[bytes, None] | None) -> bytes:
    if words is not None:
        words.update(dict.fromkeys(b" ".join(texts).split()))
    return b"0 | " + b"\n0 | ".join(texts) + b"\n"


def _normalise_text(text: str, conversion: DocumentConversion) -> bytes:
    """Return the words of a document separated by blanks, followed by its n-grams."""
    text = text.lower() if conversion.lower else text
    found = text.encode().translate(_BLANKS) if text.isascii() else _WORD.sub(" ", text).encode("utf-8", "replace")
    if conversion.ngrams == 1:
        return found
    words = found.split()
    grams = [b"_".join(words[k : k + n]) for n in range(2, conversion.ngrams + 1) for k in range(len(words) - n + 1)]
    return b" ".join(words + grams)
