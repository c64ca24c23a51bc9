"""Preparation of a data set for learning: choosing the splits, and converting grey levels to on and off."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from herdcli.artifacts.dataset import BLOCK_ELEMENTS, Dataset
from herdcli.artifacts.message_numbers import group_digits
from herdcli.errors import BadUsage, DataError
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, CSRMatrix, Matrix, is_sparse
from herdcli.splits import TEST, TRAIN, VALID, fold_parts, parse_fold

UNUSED = 3  # the number of rows in none of the three splits
DEFAULT_SPLIT = (0.6, 0.2, 0.2)
AT_ONCE = 1 << 20  # rows whose splits are set at one time
LEAST_STEPS = 200  # float32 steps across a column's range: with fewer, rounding exceeds about a hundredth of its deviation


@dataclass
class SplitRule:
    """The rule for random splits, and whether one was drawn.

    by_class  fractions apply to each class, not to all rows, and `ica` learns from all rows: the rule of earlier histories.
    drawn     a split by fractions was drawn, not read from the data.
    """

    by_class: bool = False
    drawn: bool = False


_rule: ContextVar[SplitRule | None] = ContextVar("split rule", default=None)


def current_split_rule() -> SplitRule:
    """Return the rule in force."""
    return _rule.get() or SplitRule()


@contextmanager
def use_split_rule(rule: SplitRule) -> Iterator[None]:
    """Draw splits by a rule while the body runs."""
    token = _rule.set(rule)
    try:
        yield
    finally:
        _rule.reset(token)


def assign_splits(data: Dataset, spec: str | None, seed: int) -> Array:
    """Return the split of each row, (n,) uint8: 0 train, 1 valid, 2 test, 3 in none.

    spec  "700,300,100" rows of every class, or "0.6,0.2,0.2" fractions of all rows regardless of labels, so that every command
    has the same test rows; "2/5" the second of five folds of all rows,
    "2/5,no-valid" without validation rows (see `fold_parts`); None: the data set's own split, else fractions
    .6, .2, .2.  Rows are drawn with the seed, and counts class by
    class; without labels all rows are one class.  Rows of weight 0 are in none; the draw ignores them.
    """
    if data.weight is not None and not data.weight.all():
        return _assign_present_splits(data, np.flatnonzero(data.weight), spec, seed)
    if spec is None and data.split is not None:
        return data.split.astype(np.uint8)
    rows = data.X.shape[0]
    split, rule = np.full(rows, UNUSED, dtype=np.uint8), current_split_rule()
    if spec is not None and (fold := parse_fold(spec)):
        rule.drawn = True
        order = np.arange(rows)
        generator(seed, Stream.SPLIT).shuffle(order)
        for part, members in fold_parts(order, fold):
            split[members] = part
        return split
    parts = _parse_split(spec) if spec is not None else DEFAULT_SPLIT
    rule.drawn = rule.drawn or _are_fractions(parts)
    by_class = rule.by_class or not _are_fractions(parts)
    for unit, (label, members) in enumerate(_rows_by_class(rows, data if by_class else None)):
        sizes = _part_sizes(parts, len(members), label)
        generator(seed, Stream.SPLIT, unit=unit).shuffle(members)
        for part, start, stop in zip((TRAIN, VALID, TEST), np.cumsum([0, *sizes[:-1]]).tolist(), np.cumsum(sizes).tolist(), strict=True):
            for place in range(start, stop, AT_ONCE):  # NumPy converts small index types to wide ones
                split[members[place : min(place + AT_ONCE, stop)]] = part
    return split


def is_stratified(spec: str) -> bool:
    """Return whether a split is drawn class by class, which needs labels: counts, and fractions by the rule of earlier histories."""
    return parse_fold(spec) is None and (current_split_rule().by_class or not _are_fractions(_parse_split(spec)))


def _assign_present_splits(data: Dataset, present: Array, spec: str | None, seed: int) -> Array:
    """Return the split of each row if only some rows (k,) are present."""
    y, own = (None if item is None else item[present] for item in (data.y, data.split))
    rows = Dataset(np.broadcast_to(np.uint8(0), (len(present), 1)), y=y, split=own, class_names=data.class_names)
    split = np.full(data.X.shape[0], UNUSED, dtype=np.uint8)
    split[present] = assign_splits(rows, spec, seed)
    return split


def _rows_by_class(rows: int, data: Dataset | None) -> Iterator[tuple[str | None, Array]]:
    """Return each class's name and rows, in order of its label; indices have the smallest sufficient type.  data  None: one class."""
    dtype = np.uint32 if rows < 1 << 32 else np.int64
    if data is None or data.y is None:
        yield None, np.arange(rows, dtype=dtype)
        return
    for label in np.unique(data.y):
        yield data.class_names[label] if data.class_names else str(label), np.flatnonzero(data.y == label).astype(dtype)


def _parse_split(spec: str) -> tuple[float, ...]:
    hint = "give three counts per class (700,300,100), three fractions (.6,.2,.2) or a fold (1/5)"
    try:
        parts = tuple(float(part) for part in spec.split(","))
    except ValueError:
        raise BadUsage(f"'{spec}' does not describe a split", where="--split", hint=hint) from None
    if len(parts) != 3 or not all(math.isfinite(part) and part >= 0 for part in parts) or not parts[0]:
        raise BadUsage(f"'{spec}' does not describe a split", where="--split", hint=hint)
    if not _are_fractions(parts) and any(part != int(part) for part in parts):
        raise BadUsage(f"'{spec}' is neither fractions that sum to at most 1 nor whole numbers", where="--split", hint=hint)
    return parts


def _are_fractions(parts: tuple[float, ...]) -> bool:
    return all(part <= 1 for part in parts) and sum(parts) <= 1 + 1e-9


def _part_sizes(parts: tuple[float, ...], available: int, label: str | None) -> list[int]:
    """Return how many rows of one class each split gets; fractions are rounded by largest remainder."""
    if not _are_fractions(parts):
        sizes = [int(part) for part in parts]
        if sum(sizes) > available:
            owner = "the data set" if label is None else f"class {label}"
            hint = f"use at most {available} rows per class in all parts together"
            raise DataError(
                f"asks for {group_digits(sum(sizes))} rows, but {owner} has only {group_digits(available)}", where="--split", hint=hint
            )
        return sizes
    total = round(available * min(1.0, sum(parts)))
    exact = [available * part for part in parts]
    sizes = [math.floor(size + 1e-9) for size in exact]
    for index in sorted(range(3), key=lambda part: sizes[part] - exact[part])[: total - sum(sizes)]:
        sizes[index] += 1
    return sizes


def binarise(
    data: Dataset,
    threshold: float | None,
    default: float,
    value_range: tuple[float, float] | None = None,
    *,
    in_place: bool = False,
    sparse: bool = False,
) -> tuple[Any, float | None]:
    """Return the entries that are on, (n, d) bool, and the threshold used, as in `choose_threshold`.

    in_place  overwrite X if it has one byte per entry.  sparse  return a CSR matrix for a CSR matrix whose zeros are off.
    """
    least, used = choose_threshold(data, threshold, default, value_range)
    return threshold_mask(data.X, least, in_place, sparse), used


def choose_threshold(
    data: Dataset, threshold: float | None, default: float, value_range: tuple[float, float] | None = None
) -> tuple[float, float | None]:
    """Return the least value at which an entry is on, and the threshold used (None if none is needed).

    threshold  fraction F of the value range: on iff x ≥ lo + F·(hi − lo).  Rows with at most two
    values need none: the larger one is on (a single value is on iff it is the upper end of the range or, if it is
    neither end, positive).  Counts in a CSR matrix need none either: they are on above 0.  Other rows use `default`.
    value_range  replaces the data set's declared range.
    Raises BadUsage when a threshold is needed and no range is known, DataError for values outside the range.
    """
    if threshold is not None and not 0 <= threshold <= 1:
        raise BadUsage(f"{threshold:g} is not a fraction of the value range", where="--threshold", hint="give a number from 0 to 1")
    levels = _binary_levels(data)
    declared = value_range if value_range is not None else data.value_range
    if threshold is None and levels:
        return threshold_between_levels(levels, declared), None
    if declared is None and levels and levels[0] < levels[1]:
        declared = levels
    if declared is None and threshold is None and are_sparse_counts(data):
        return 1.0, None
    used = default if threshold is None else threshold
    if declared is None and _have_differing_scales(data, used):
        message = "/X has columns of different scales and no value_range, so one threshold does not suit all of them"
        raise BadUsage(message, hint="split each column at its median: herd convert --binarize median")
    low, high = require_value_range(data, declared, "more than two values and no value_range, so no threshold can be set")
    return low + used * (high - low), used


def require_value_range(
    data: Dataset, declared: Any, message_without_range: str = "no value_range, so its values are not proportions"
) -> tuple[float, float]:
    """Return the declared range of the values.  Raises BadUsage if there is none, DataError for values outside it."""
    if declared is None:
        seen = ",".join(f"{end:g}" for end in _value_extremes(data))
        raise BadUsage(
            f"/X has {message_without_range}", hint=f"declare the lowest and highest possible value; those seen are --range {seen}"
        )
    low, high = (float(end) for end in declared)
    if not low < high:
        raise BadUsage(f"{low:g},{high:g} is not a range", where="--range", hint="give the lowest value first, then the highest")
    lowest, highest = _value_extremes(data)
    if lowest < low or highest > high:
        message = f"/X has values from {lowest:g} to {highest:g}, outside the value range {low:g} to {high:g}"
        raise DataError(message, hint=f"declare another one: --range {lowest:g},{highest:g}")
    return low, high


def dense_copy(data: Dataset, dtype: Any) -> Array:
    """Return X as a new dense array of one type."""
    X = np.empty(data.X.shape, dtype=dtype)
    for rows, block in _row_blocks(data.X):
        X[rows] = block
    return X


def float32_imprecise_columns(X: Matrix) -> Array:
    """Return the columns (d,) of a dense matrix whose variation is so small, relative to their size, that float32 hardly resolves it."""
    if X.dtype.itemsize < 4 or X.dtype == np.float32:
        return np.zeros(X.shape[1], dtype=bool)
    ends = [(block.min(axis=0), block.max(axis=0)) for _, block in _row_blocks(X)]
    low, high = (np.array(side, dtype=np.float64) for side in zip(*ends, strict=True))
    width = high.max(axis=0) - low.min(axis=0)
    step = np.spacing(np.maximum(np.abs(low), np.abs(high)).max(axis=0).astype(np.float32)).astype(np.float64)
    close: Array = (width > 0) & (width < LEAST_STEPS * step)
    return close


def column_means_and_deviations(X: Array, row_mask: Array) -> tuple[Array, Array]:
    """Return the mean and the standard deviation of every column, float32, over the chosen rows, (n,) bool, of X (n, d).

    A deviation of 0 is replaced by 1.
    """
    count = int(row_mask.sum())
    mean = _sum_over_rows(X, row_mask, lambda rows: rows) / count
    deviation = np.sqrt(_sum_over_rows(X, row_mask, lambda rows: np.square(rows - mean)) / count)
    return mean.astype(np.float32), np.where(deviation > 0, deviation, 1.0).astype(np.float32)


def _sum_over_rows(X: Array, row_mask: Array, function: Callable[[Array], Array]) -> Array:
    """Return the sum (d,) of a function of the chosen rows in float64, to the bit that of `X[chosen]`, without copying it.

    NumPy adds rows of several columns one after the other, and the entries of one column in pairs.
    """
    if X.shape[1] == 1:
        return np.asarray(function(X[row_mask].astype(np.float64)).sum(axis=0))
    total = np.zeros(X.shape[1])
    for rows, block in _row_blocks(X):
        total = np.concatenate([total[None], function(block[row_mask[rows]].astype(np.float64))]).sum(axis=0)
    return total


def scale_to_range(X: Array, limits: tuple[float, float]) -> Array:
    """Rescale values of a range to 0 … 1, in place."""
    X -= X.dtype.type(limits[0])
    X /= X.dtype.type(limits[1] - limits[0])
    return np.clip(X, 0.0, 1.0, out=X)


def threshold_between_levels(levels: tuple[float, float], declared: Any) -> float:
    """Return the least `on` value in data with one or two values."""
    low, high = levels
    if low < high:
        return high
    ends = () if declared is None else tuple(float(end) for end in declared)
    on = high == ends[1] if high in ends else high > 0
    return high if on else math.nextafter(high, math.inf)


def are_unit_states(data: Dataset, unit_limits: tuple[float, float], on_threshold: float | None) -> bool:
    """Return whether rows hold values of units, within `unit_limits`, as samples of a model do, rather than values of its training rows.

    on_threshold  the least value in the model's own range at which a unit is on, or a count is above 0.

    If the rows declare a range, this range decides.  If they declare none, the rows hold unit values if thresholding at `on_threshold`
    would make all their different entries equal.
    """
    low, high = _value_extremes(data)
    if not unit_limits[0] <= low <= high <= unit_limits[1]:
        return False
    if data.value_range is not None:
        return tuple(map(float, data.value_range)) == unit_limits
    return on_threshold is not None and is_constant_after_threshold(data, on_threshold)


def is_constant_after_threshold(data: Dataset, threshold: float) -> bool:
    """Return whether different entries all lie on the same side of the threshold from which a unit is on."""
    low, high = _value_extremes(data)
    return low < high and (high < threshold or low >= threshold)


def are_sparse_counts(data: Dataset) -> bool:
    """Return whether X is a CSR matrix of whole numbers from 0 upwards, without a declared range."""
    if not is_sparse(data.X) or data.value_range is not None:
        return False
    entries = data.X.data
    return bool((entries >= 0).all()) and (entries.dtype.kind in "iub" or bool((entries == np.rint(entries)).all()))


def has_only_counts(data: Dataset) -> bool:
    """Return whether rows have only whole numbers from 0 upwards, and no declared range that would make them grey levels."""
    if data.value_range is not None:
        return False
    return all(bool((block >= 0).all()) and bool((block == np.rint(block)).all()) for _, block in _row_blocks(data.X))


def ambiguous_binary_levels(data: Dataset) -> tuple[float, float] | None:
    """Return the lowest and the highest value if their signs do not separate on from off, as those of 0, 1 and of −1, 1 do; else None."""
    low, high = _value_extremes(data)
    return (low, high) if low < high and not low <= 0 < high else None


def _row_blocks(X: Matrix) -> Iterator[tuple[slice, Array]]:
    """Yield X block by block, dense, with about a million entries each."""
    step = max(1, BLOCK_ELEMENTS // X.shape[1])
    for start in range(0, X.shape[0], step):
        rows = slice(start, start + step)
        yield rows, X[rows].toarray() if is_sparse(X) else X[rows]


def _value_extremes(data: Dataset) -> tuple[float, float]:
    """Return the lowest and the highest value."""
    if data.is_sparse:
        ends = _csr_values(data.X)
        return float(ends.min()), float(ends.max())
    known: dict[str, Any] = getattr(data.X, "known", {})  # cached results for rows that are read again each time
    if "extremes" not in known:
        seen = [(block.min(), block.max()) for _, block in _row_blocks(data.X)]
        known["extremes"] = float(min(low for low, _ in seen)), float(max(high for _, high in seen))
    found: tuple[float, float] = known["extremes"]
    return found


def _have_differing_scales(data: Dataset, threshold: float) -> bool:
    """Return whether a threshold between the lowest and highest of all values leaves at least half of the columns constant."""
    if data.is_sparse:
        return False
    low, high = _value_extremes(data)
    on = [threshold_mask(block, low + threshold * (high - low)) for _, block in _row_blocks(data.X)]
    some, every = (np.array([kind(block, axis=0) for block in on]) for kind in (np.any, np.all))
    return bool(2 * (some.any(axis=0) & ~every.all(axis=0)).sum() <= data.X.shape[1])


def _binary_levels(data: Dataset) -> tuple[float, float] | None:
    """Return the lowest and the highest value if there are no others, else None."""
    low, high = _value_extremes(data)
    if data.is_sparse:
        entries = _csr_values(data.X)
        return (low, high) if ((entries == low) | (entries == high)).all() else None
    if all(((block == low) | (block == high)).all() for _, block in _row_blocks(data.X)):
        return low, high
    return None


def _csr_values(X: CSRMatrix) -> Array:
    """Return the stored entries of a CSR matrix, with a 0 if it omits any."""
    left_out: Array = np.zeros(min(1, X.shape[0] * X.shape[1] - X.nnz), dtype=X.dtype)
    return np.concatenate([X.data, left_out])


def threshold_mask(X: Matrix, cut: float, in_place: bool = False, sparse: bool = False) -> Matrix:
    """Return X ≥ cut as bool, compared in double precision."""
    if sparse and cut > 0 and is_sparse(X):
        on = X.astype(bool)
        on.data = X.data >= np.float64(cut)
        on.eliminate_zeros()
        return on
    overwritten = in_place and not is_sparse(X) and X.itemsize == 1 and X.flags.writeable and X.flags.c_contiguous
    on = X.view(bool) if overwritten else np.empty(X.shape, dtype=bool)
    for rows, block in _row_blocks(X):
        np.greater_equal(block, np.float64(cut), out=on[rows])
    return on
