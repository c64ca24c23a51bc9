"""Sequences of rows, of different lengths and one after another, divided into fixed blocks of whole sequences.

A block ends with the sequence that brings it to 4,096 rows, counted from the first sequence.  The statistics of blocks are added in the
same fixed tree as those of rows (`numerics.block_statistics`), so that neither threads nor storage change a bit.  The unit is the
sequence, since no statistic of one needs another one; a single sequence is a single block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.numerics.block_statistics import BLOCK
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, require_valid_weights
from herdcli.splits import TEST, TRAIN, VALID, Fold, fold_parts, parse_fold

FEW = 5  # fewer sequences than this are each split in time; otherwise whole sequences are assigned at random
PARTS = (TRAIN, VALID, TEST)
UNUSED = 3  # part of a row that is in none of the three
FRACTIONS = (0.6, 0.2, 0.2)


@dataclass(frozen=True)
class SequenceBlock:
    """A block of whole sequences: X (m, D) float64, NaN where a value is missing; sequence s is rows offsets[s] … offsets[s + 1] − 1.

    first   the index of the first sequence of the block.
    weight  (S,) the weights of the sequences.
    chosen  (m,) the indices of the rows in their table, by which further columns of the table (labels, controls) are found.
    names   the names of the sequences.
    beside  (m, …) further columns of the table, if they are sent with the rows to another process.
    """

    first: int
    X: Array
    offsets: Array
    weight: Array | None
    chosen: Array
    names: list[str] | None = None
    beside: Array | None = None

    @property
    def count(self) -> int:
        """The number of sequences."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Array:
        """The number of steps of each sequence (S,)."""
        return np.diff(self.offsets)

    @property
    def weights(self) -> Array:
        """The weights of the sequences (S,), 1 by default."""
        return np.ones(self.count) if self.weight is None else self.weight

    @property
    def mass(self) -> float:
        """The sum of the weights of the rows."""
        return float(self.weights @ self.lengths)


@dataclass(frozen=True)
class Sequences:
    """Sequences of rows, given by indices into a table.

    X        (n, D) the table, of any type and order; NaN where a value is missing.
    chosen   (m,) the indices of the rows, sequence by sequence, in time.
    offsets  (S + 1,) where each sequence begins in `chosen`; none is empty.
    weight   (S,) of each sequence, None: 1.
    names    the names of the sequences, None if there is one without a name.
    later    whether they are pieces that begin after the beginning of their sequences.
    """

    X: Array
    chosen: Array
    offsets: Array
    weight: Array | None = None
    names: list[str] | None = None
    later: bool = False

    def __post_init__(self) -> None:
        if self.count < 1 or (np.diff(self.offsets) < 1).any():
            raise DataError("there are no rows")
        if any(np.isinf(self.X[start : start + BLOCK]).any() for start in range(0, len(self.X), BLOCK)):
            raise DataError("there are infinite values", hint="write NaN for missing values")

    @property
    def count(self) -> int:
        """The number of sequences."""
        return len(self.offsets) - 1

    @property
    def rows(self) -> int:
        """The total number of rows."""
        return len(self.chosen)

    @property
    def columns(self) -> int:
        """The number of columns."""
        return int(self.X.shape[1])

    @property
    def lengths(self) -> Array:
        """The number of steps of each sequence (S,)."""
        return np.diff(self.offsets)

    @property
    def mass(self) -> float:
        """The sum of the weights of the rows."""
        return float(self.rows if self.weight is None else self.weight @ self.lengths)

    def take(self, first: int, last: int) -> SequenceBlock:
        """Return sequences first … last − 1 as a block."""
        begin, end = int(self.offsets[first]), int(self.offsets[last])
        chosen = self.chosen[begin:end]
        X = np.empty((end - begin, self.columns))
        for start in range(0, len(X), BLOCK):  # no second copy of a long sequence in the type of the table
            X[start : start + BLOCK] = self.X[chosen[start : start + BLOCK]]
        weight = None if self.weight is None else self.weight[first:last]
        names = None if self.names is None else self.names[first:last]
        return SequenceBlock(first, X, self.offsets[first : last + 1] - begin, weight, chosen, names)

    def as_one_block(self) -> SequenceBlock:
        """Return all sequences as one block."""
        return self.take(0, self.count)

    def __iter__(self) -> Iterator[Array]:
        """Yield each sequence (T, D) as float64."""
        for s in range(self.count):
            yield self.take(s, s + 1).X


@dataclass(frozen=True)
class SequenceBlocks:
    """The blocks of a pass over sequences, as a `numerics.block_statistics.BlockSource`.

    beside  (n, …) other columns of the table that go along with its rows in blocks sent to other processes.
    """

    sequences: Sequences
    beside: Array | None = None

    @cached_property
    def bounds(self) -> Array:
        """The first sequence of each block, followed by the number of sequences, (B + 1,)."""
        return block_bounds(self.sequences.lengths)

    @property
    def count(self) -> int:
        """The number of blocks."""
        return len(self.bounds) - 1

    def take(self, first: int, last: int) -> Iterator[SequenceBlock]:
        """Yield blocks first … last − 1."""
        at = self.bounds
        for block in range(first, last):
            found = self.sequences.take(int(at[block]), int(at[block + 1]))
            yield found if self.beside is None else replace(found, beside=self.beside[found.chosen])


def block_bounds(lengths: Array) -> Array:
    """Return the beginnings of blocks (B + 1,): a block ends with the sequence that brings it to BLOCK rows or more."""
    found, held = [0], 0
    for s, length in enumerate(lengths.tolist()):
        held += length
        if held >= BLOCK or s == len(lengths) - 1:
            found.append(s + 1)
            held = 0
    return np.array(found, dtype=np.int64)


def group_rows_into_sequences(X: Array, key: Array | None = None, weight: Array | None = None) -> Sequences:
    """Return the sequences of a table (n, D): rows with the same key (n,), number or text, in their order; without a key one sequence.

    Sequences are in the order of their first rows; rows of different sequences may be mixed.
    weight  (n,) of the rows.  Raises DataError if it changes within a sequence: a part of a sequence has no likelihood of its own.
    """
    if key is None:
        chosen, offsets, names = np.arange(len(X)), np.array([0, len(X)]), None
    else:
        values, first, number = np.unique(key, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        own = place[number.ravel()]
        chosen = np.argsort(own, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(own, minlength=len(order)))])
        names = [_key_text(values[index]) for index in order]
    found = Sequences(X, chosen, offsets.astype(np.int64), None, names)
    return found if weight is None else Sequences(X, chosen, found.offsets, _sequence_weights(found, weight), names)


def _key_text(value: object) -> str:
    return str(int(value)) if isinstance(value, np.floating) and value == int(value) else str(value)


def _sequence_weights(sequences: Sequences, weight: Array) -> Array:
    """Return the weights (S,) of sequences from row weights (n,) that are constant along each sequence."""
    require_valid_weights(weight)
    own = weight[sequences.chosen]
    first = own[sequences.offsets[:-1]]
    differs = np.flatnonzero(own != np.repeat(first, sequences.lengths))
    if len(differs):
        message = f"row {sequences.chosen[differs[0]]} has a different weight from the first row of its sequence"
        raise DataError(message, hint="weights belong to whole sequences: leave the column out, or make it constant in each")
    return np.asarray(first, dtype=np.float64)


def split_sequences(
    sequences: Sequences, row_splits: Array | None, parts: tuple[float, ...] | Fold | None, seed: int
) -> dict[int, Sequences]:
    """Return parts 0 (training), 1 (validation) and 2 (test), each of whole sequences; empty parts are left out.

    row_splits  (n,) the split of the rows of the table, which must be constant along a sequence.
    parts  three fractions, three numbers of sequences, or a fold, which needs as many sequences as there are folds.  With fewer than FEW
           sequences, fractions split each in time: its first part is for training and its last one for testing.  Otherwise sequences are
           assigned at random from the seed.
    """
    if row_splits is not None and parts is None:
        return _split_by_row_column(sequences, row_splits)
    if isinstance(parts, Fold):
        order = generator(seed, Stream.SPLIT).permutation(sequences.count)
        members: dict[int, list[Array]] = {part: [] for part in PARTS}
        for part, some in fold_parts(order, parts, "sequences"):
            members[part].append(some)
        return {part: select_sequences(sequences, np.sort(np.concatenate(some))) for part, some in members.items() if some}
    sizes = FRACTIONS if parts is None else parts
    fractions = all(part <= 1 for part in sizes) and sum(sizes) <= 1 + 1e-9
    if fractions and sequences.count < FEW:
        return _split_each_sequence(sequences, sizes)
    whole = np.array(_round_parts(sequences.count, sizes) if fractions else sizes, dtype=np.int64)
    if whole.sum() > sequences.count:
        raise DataError(f"asks for {whole.sum()} sequences, but there are only {sequences.count}", where="--split")
    order = generator(seed, Stream.SPLIT).permutation(sequences.count)
    ends = np.cumsum(whole)
    drawn = {part: np.sort(order[end - size : end]) for part, size, end in zip(PARTS, whole, ends, strict=True)}
    return {part: select_sequences(sequences, which) for part, which in drawn.items() if len(which)}


def _round_parts(count: int, parts: tuple[float, ...]) -> list[int]:
    """Return fractions of a number as whole numbers, by largest remainder."""
    exact = [count * part for part in parts]
    sizes = [int(size + 1e-9) for size in exact]
    short = round(count * min(1.0, sum(parts))) - sum(sizes)
    for index in sorted(range(len(parts)), key=lambda part: sizes[part] - exact[part])[:short]:
        sizes[index] += 1
    return sizes


def _split_by_row_column(sequences: Sequences, row_splits: Array) -> dict[int, Sequences]:
    own = row_splits[sequences.chosen]
    first = own[sequences.offsets[:-1]]
    differs = np.flatnonzero(own != np.repeat(first, sequences.lengths))
    if len(differs) and sequences.names is None:  # one sequence: its parts are consecutive pieces of it
        if (np.diff(own.astype(np.int64)) < 0).any():
            raise DataError(
                "training, validation and test rows of a single sequence must follow each other in time",
                hint="make a new split: --split .6,.2,.2",
            )
        return {part: _keep_rows(sequences, own == part) for part in PARTS if (own == part).any()}
    if len(differs):
        at = int(np.searchsorted(sequences.offsets, differs[0], side="right")) - 1
        name = (sequences.names or [""])[at]
        raise DataError(
            f"sequence {name} has rows of splits {first[at]} and {own[differs[0]]}",
            hint="split whole sequences: --split .6,.2,.2",
        )
    return {part: select_sequences(sequences, np.flatnonzero(first == part)) for part in PARTS if (first == part).any()}


def _split_each_sequence(sequences: Sequences, parts: tuple[float, ...]) -> dict[int, Sequences]:
    """Return each sequence cut into consecutive parts of the given shares."""
    sizes = np.array([_round_parts(int(length), parts) for length in sequences.lengths])
    rest = sequences.lengths - sizes.sum(axis=1)
    within = np.concatenate([np.repeat((*PARTS, UNUSED), (*size, left)) for size, left in zip(sizes, rest, strict=True)])
    return {part: _keep_rows(sequences, within == part) for part in PARTS if (within == part).any()}


def _keep_rows(sequences: Sequences, kept_rows: Array) -> Sequences:
    """Return the sequences with only the rows `kept_rows` (m,); sequences without any are dropped."""
    lengths = np.add.reduceat(kept_rows.astype(np.int64), sequences.offsets[:-1])
    some = np.flatnonzero(lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths[some])])
    names = None if sequences.names is None else [sequences.names[s] for s in some]
    weight = None if sequences.weight is None else sequences.weight[some]
    return Sequences(sequences.X, sequences.chosen[kept_rows], offsets, weight, names, later=not kept_rows[sequences.offsets[:-1]].all())


def uninformative_columns(sequences: Sequences) -> tuple[Array, Array]:
    """Return columns (D,) bool without any value in sequences of positive weight, and those with one distinct value."""
    weight = np.ones(sequences.count) if sequences.weight is None else sequences.weight
    rows = sequences.chosen[np.repeat(weight > 0, sequences.lengths)]
    low, high = np.full(sequences.columns, np.inf), np.full(sequences.columns, -np.inf)
    for start in range(0, len(rows), BLOCK):
        part = np.asarray(sequences.X[rows[start : start + BLOCK]], dtype=np.float64)
        low = np.fmin(low, np.fmin.reduce(part, axis=0))
        high = np.fmax(high, np.fmax.reduce(part, axis=0))
    silent = low > high
    return silent, ~silent & (low == high)


def step_variance(sequences: Sequences, variance: Array) -> Array:
    """Return the mean squared differences (D,) of neighbouring values of each column.

    A column without two neighbouring values gets its `variance` (D,).
    """
    total, count = np.zeros(sequences.columns), np.zeros(sequences.columns)
    for block in SequenceBlocks(sequences).take(0, SequenceBlocks(sequences).count):
        inner = np.ones(len(block.X), dtype=bool)
        inner[block.offsets[:-1]] = False
        at, weights = np.flatnonzero(inner), np.repeat(block.weights, block.lengths)
        own = np.zeros((0, 2, sequences.columns))
        # A long sequence is read in parts, and the sums of the rows so far are the first row of the next part: NumPy adds rows in their
        # order.  It adds the values of a single column pairwise, so they are not divided.
        size = BLOCK if sequences.columns > 1 else max(1, len(at))
        for start in range(0, len(at), size):
            part = at[start : start + size]
            step = np.square(block.X[part] - block.X[part - 1])
            w = weights[part, None] * ~np.isnan(step)
            own = np.stack([np.concatenate([own[:, j], term]).sum(axis=0) for j, term in enumerate((w * np.nan_to_num(step), w))])[None]
        if len(own):
            total += own[0, 0]
            count += own[0, 1]
    return np.where(count > 0, total / np.where(count > 0, count, 1.0), variance)


def select_sequences(sequences: Sequences, which: Array) -> Sequences:
    """Return the sequences with these indices."""
    lengths = sequences.lengths[which]
    rows = [sequences.chosen[sequences.offsets[s] : sequences.offsets[s + 1]] for s in which]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    names = None if sequences.names is None else [sequences.names[s] for s in which]
    weight = None if sequences.weight is None else sequences.weight[which]
    return Sequences(sequences.X, np.concatenate(rows), offsets, weight, names, sequences.later)


def parse_split_parts(text: str | None) -> tuple[float, ...] | Fold | None:
    """Return three fractions, three numbers of sequences or a fold from text; None for None."""
    if text is None:
        return None
    if fold := parse_fold(text):
        return fold
    hint = "give three fractions (.6,.2,.2), three numbers of sequences (60,20,20) or a fold (1/5)"
    try:
        parts = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise BadUsage(f"'{text}' does not describe a split", where="--split", hint=hint) from None
    fractions = all(part <= 1 for part in parts) and sum(parts) <= 1 + 1e-9
    whole = fractions or all(part == round(part) for part in parts)
    if len(parts) != 3 or not all(0 <= part < np.inf for part in parts) or not parts[0] or not whole:
        raise BadUsage(f"'{text}' does not describe a split", where="--split", hint=hint)
    return parts
