"""Sources of a learner's blocks: rows in memory, in any order and number of passes, or text that is read again in each pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, Protocol

import numpy as np

from herdcli.errors import DataError
from herdcli.online.example_blocks import ROWS, ExampleBlock, block_from_rows, split_block
from herdcli.online.learner_state import HoldoutRule, LabelledBatch
from herdcli.rng import Stream, generator
from herdcli.schema import LARGEST, Array, Matrix

NOTHING_HELD = HoldoutRule()
AFRESH = "give the text that the run began with, or start again without --resume"


def require_same_input(expected_digest: bytes, digest: bytes, where: str) -> None:
    """Raise DataError if a resumed run reads other input than the run it continues; an older checkpoint has no digest."""
    if expected_digest and expected_digest != digest:
        raise DataError("differs from the text that the run of the checkpoint has read", where=where, hint=AFRESH)


class MemorySource:
    """Blocks of rows X (n, d) with class indices label (n,); with shuffling, the order of a pass is drawn from the seed.

    proof  digest of the text that the rows come from.  where  the name of that text.
           Both are empty if the rows are an input whose digest is in the record.
    """

    def __init__(
        self,
        X: Matrix,
        label: Array,
        *,
        weight: Array | None = None,
        passes: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        rows: int = ROWS,
        proof: bytes = b"",
        where: str = "",
        holdout: HoldoutRule = NOTHING_HELD,
    ) -> None:
        self.holdout = holdout
        self.proof, self.where = proof, where
        self.X, self.weight = X, weight
        self.label = label if label.dtype == np.float64 or label.ndim == 2 else label.astype(np.int32)
        self.passes, self.shuffle, self.seed, self.rows = passes, shuffle, seed, rows
        self.blocks_per_pass = -(-len(label) // rows)
        self._order: tuple[int, Array] = (-1, np.zeros(0, dtype=np.int64))

    @property
    def steps(self) -> int:
        """The number of blocks of all passes."""
        return self.passes * self.blocks_per_pass

    def block(self, step: int, expected_digest: bytes = b"") -> LabelledBatch | None:
        """Return the block of a step."""
        require_same_input(expected_digest, self.proof, self.where)
        if step >= self.steps:
            return None
        turn, number = divmod(step, self.blocks_per_pass)
        part: Array | slice = slice(number * self.rows, (number + 1) * self.rows)
        if self.shuffle:
            if self._order[0] != turn:
                self._order = (turn, generator(self.seed, Stream.SHUFFLE, step=turn).permutation(len(self.label)))
            part = self._order[1][part]
        place = np.arange(number * self.rows, min((number + 1) * self.rows, len(self.label))) if isinstance(part, slice) else part
        block = replace(block_from_rows(self.X, self.label, part, self.weight), place=place)
        return self.holdout.batch(block, place, number, turn, self.passes, self.proof)


class ExampleBlockReader(Protocol):
    """A reader that makes blocks of text, such as `text_parser.BlockReader`."""

    where: str

    def blocks(self, pieces: Iterable[bytes | memoryview], *, lend: bool = False) -> Iterator[ExampleBlock]:
        """Yield one or more blocks for each piece of whole lines."""
        ...


class LabelIndexer(Protocol):
    """An encoder from the labels of a stream to those that are learned, such as `class_labels.LabelEncoder`."""

    def encode_labels(self, labels: Array, where: str) -> Array:
        """Return labels (n, …) in the learner's form."""
        ...


class TextSource:
    """Blocks of text, which `open` yields again for each pass, piece by piece.

    proof  returns the digest of the text read so far in the pass.
    """

    steps: int | None = None  # unknown

    def __init__(
        self,
        open: Callable[[], Iterable[bytes | memoryview]],
        reader: ExampleBlockReader,
        labels: LabelIndexer,
        *,
        passes: int = 1,
        rows: int = ROWS,
        proof: Callable[[], bytes] = bytes,
        holdout: HoldoutRule = NOTHING_HELD,
    ) -> None:
        self.holdout = holdout
        self.proof, self._proof = proof, b""
        self.open, self.reader, self.labels, self.passes, self.rows = open, reader, labels, passes, rows
        self._next = 0
        self._batches: Iterator[LabelledBatch] = self._read()

    def block(self, step: int, expected_digest: bytes = b"") -> LabelledBatch | None:
        """Return the block of a step, valid until the next call.

        Earlier blocks are read again if they were not read yet, so that a resumed run finds its position.
        """
        if step < self._next:
            self._next, self._batches = 0, self._read()
        while self._next < step:
            if self._read_next() is None:
                raise DataError("ends before the position that the run of the checkpoint had reached", where=self.reader.where, hint=AFRESH)
        require_same_input(expected_digest, self._proof, self.reader.where)
        return self._read_next()

    def _read_next(self) -> LabelledBatch | None:
        batch = next(self._batches, None)
        if batch is not None:
            self._next, self._proof = self._next + 1, batch.proof
        return batch

    def buffer_first_block(self) -> None:
        """Read the first block now, so that the labels are known, and keep it for the first step."""
        first = next(self._batches)
        self._batches = chain([first], self._batches)

    def _read(self) -> Iterator[LabelledBatch]:
        for turn in range(self.passes):
            number = seen = 0
            for found in self.reader.blocks(self.open(), lend=True):
                proof = self.proof()
                label = self.labels.encode_labels(found.label, self.reader.where)
                _require_squarable(found.value, self.reader.where)
                whole = ExampleBlock(found.pointer, found.index, found.value, label, found.weight)
                for block in split_by_rows(whole, self.rows):
                    place = np.arange(seen, seen + block.rows)
                    yield self.holdout.batch(block, place, number, turn, self.passes, proof)
                    number, seen = number + 1, seen + block.rows
            if number == 0:
                raise DataError(
                    "the file has no lines of data",
                    where=self.reader.where,
                    hint="check whether the command that wrote the text was interrupted",
                )


def _require_squarable(value: Array, where: str) -> None:
    """Raise DataError for values whose squares, or sums of squares, overflow a float64."""
    if len(value) and not -LARGEST <= value.min() <= value.max() <= LARGEST:
        worst = float(value[np.abs(value).argmax()])
        hint = "rescale the columns, or remove those rows"
        raise DataError(
            f"has the value {worst:g}, but absolute values above {LARGEST:g} are too large for sums of squares", where=where, hint=hint
        )


def split_by_rows(block: ExampleBlock, rows: int) -> Iterator[ExampleBlock]:
    """Yield a block in parts of at most `rows` rows."""
    yield from split_block(block, [min(start + rows, block.rows) for start in range(0, block.rows, rows)])


def gather_blocks(blocks: Iterable[ExampleBlock]) -> tuple[Any, Array, Array | None]:
    """Return all blocks as one CSR matrix (features from 0), labels and weights, for uses that a stream excludes, such as shuffling."""
    from scipy.sparse import csr_matrix

    found = list(blocks)
    starts = np.cumsum([0, *(len(block.index) for block in found[:-1])])
    pointer = np.concatenate([[0], *(block.pointer[1:] + start for block, start in zip(found, starts, strict=True))])
    index = np.concatenate([block.index for block in found]) - 1
    value = np.concatenate([block.value for block in found])
    columns = int(index.max()) + 1 if len(index) else 1
    weighted = any(block.weight is not None for block in found)
    weights = [np.ones(block.rows) if block.weight is None else block.weight for block in found]
    X = csr_matrix((value, index, pointer), shape=(len(pointer) - 1, columns))
    return X, np.concatenate([block.label for block in found]), np.concatenate(weights) if weighted else None
