"""The `dataset` artifact (rows for learning) and the checks of its values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from herdcli.artifacts.message_numbers import group_digits
from herdcli.errors import DataError
from herdcli.records import dataclass
from herdcli.schema import LARGEST, Array, CSRMatrix, Matrix, array, array_spec_of_field, check_arrays, is_sparse
from herdcli.splits import TEST, TRAIN

UNITS = {"real": None, "binary": (0, 1), "spin": (-1, 1)}
BLOCK_ELEMENTS = 1 << 20
GAPS_HINT = "remove the rows or fill them in"
LOGARITHMS = ("log_z", "log_likelihood")  # columns of logarithms, in which −∞ stands for probability 0


@dataclass(frozen=True)
class Dataset:
    """A data set of n rows and d numeric columns with labels, splits and other attributes.  X may be a scipy CSR matrix."""

    X: Any = array("n d", "rows, dense or CSR", kind="fiub", sparse=True)
    y: Array | None = array("n", "label of each row, an index into `class_names` if those are given", kind="iu", optional=True)
    split: Array | None = array("n", "0 train, 1 valid, 2 test", kind="iu", optional=True)
    weight: Array | None = array("n", "weight of each row", kind="f", optional=True)
    feature_names: list[str] | None = None
    class_names: list[str] | None = None
    units: str = "real"  # real, binary (0, 1) or spin (−1, +1)
    value_range: Array | None = array("2", "lowest and highest value an entry can take", kind="fiu", optional=True)
    image_shape: Array | None = array("2", "height and width of a row seen as a picture", kind="iu", optional=True)
    source: str | None = None
    licence: str | None = None
    columns: dict[str, Array] | None = None  # requested further columns, one value per row: numbers or text
    sample_rate: int | None = None  # rows per second, for sound
    label_name: str | None = None  # column name of the labels in text tables; y if None

    @property
    def is_sparse(self) -> bool:
        """Return whether X is a CSR matrix."""
        return is_sparse(self.X)


def take_rows(data: Dataset, rows: Array | slice) -> Dataset:
    """Return the data set with these rows (k,), in this order; rows that stay in a file remain there; their order must be increasing."""
    parts = {name: item[rows] for name in ("y", "split", "weight") if (item := getattr(data, name)) is not None}
    parts["X"] = data.X.select_rows(rows) if hasattr(data.X, "select_rows") else data.X[rows]
    columns = None if data.columns is None else {name: values[rows] for name, values in data.columns.items()}
    return replace(data, **parts, columns=columns)


def concatenate(parts: Sequence[Dataset]) -> Dataset:
    """Concatenate dense data sets that have the same fields."""
    if len(parts) == 1:
        return parts[0]
    over = {name: [getattr(part, name) for part in parts] for name in ("X", "y", "split", "weight")}
    found: dict[str, Any] = {name: np.concatenate(items) for name, items in over.items() if items[0] is not None}
    further = {name: np.concatenate([(part.columns or {})[name] for part in parts]) for name in parts[0].columns or {}}
    return replace(parts[0], **found, columns=further or None)


def rechunk(parts: Iterable[Dataset], size: int) -> Iterator[Dataset]:
    """Split consecutive dense data sets again into data sets of `size` rows; the last has the remaining rows.

    A part is released after its rows were taken.  Columns of X are contiguous in memory, as in tables.
    """
    held: list[Dataset] = []
    X: Array | None = None
    count = 0
    for part in parts:
        start = 0
        while start < len(part.X):
            if X is None:
                X = np.empty((size, part.X.shape[1]), part.X.dtype, order="F")
            rows = slice(start, start + size - count)
            own = part.X[rows]
            X[count : count + len(own)] = own
            held.append(take_rows(replace(part, X=np.empty((len(part.X), 0))), rows))
            start, count = start + len(own), count + len(own)
            if count == size:
                yield replace(concatenate(held), X=X)
                held, X, count = [], None, 0
    if X is not None:
        yield replace(concatenate(held), X=X[:count])


def validate(
    data: Dataset, *, where: str | None = None, missing: bool = False, gaps: Collection[str] = (), no_features: bool = False
) -> None:
    """Raise DataError unless shapes agree, values are finite and labels, splits and weights are valid.

    missing  NaN in X is a missing value, a label −1 is an unknown one, and −∞ in a column of logarithms is the logarithm of 0.
    gaps     further columns in which NaN is a missing value.
    no_features  whether rows without a feature are allowed, as of a table that has only text.
    """
    _check_lengths(data, where)
    check_arrays(data, where=where)
    rows, columns = data.X.shape
    if not rows or not (columns or no_features):
        raise DataError(f"/X has {group_digits(rows)} rows and {group_digits(columns)} columns: there is nothing to read", where=where)
    if data.is_sparse:
        _check_sparse(data.X, where)
    check_finite("/X", _mask_log_zeros(data) if missing else data.X, where, missing=missing)
    _check_units(data, where)
    _check_labels(data, where, lowest_label=-1 if missing else 0)
    _check_columns(data, where, gaps)
    if data.split is not None and (data.split.min() < TRAIN or data.split.max() > TEST):
        row = int(np.argmax((data.split < TRAIN) | (data.split > TEST)))
        raise DataError(
            f"/split has the value {data.split[row]} in row {row}, but must be 0 (train), 1 (valid) or 2 (test)",
            where=where,
            hint="write 0, 1 or 2 for each row",
        )
    if data.weight is not None:
        check_finite("/weight", data.weight, where)
        if data.weight.min() < 0 or not data.weight.any():
            raise DataError("/weight has negative values, or is zero in every row", where=where, hint="correct the weights, or remove them")
    _check_attributes(data, where)


def _mask_log_zeros(data: Dataset) -> Any:
    """Return the features, with NaN for −∞ in columns of logarithms of probabilities."""
    own = [k for k, name in enumerate(data.feature_names or ()) if name in LOGARITHMS]
    if data.is_sparse or data.X.dtype.kind != "f" or not own or not (data.X[:, own] == -np.inf).any():
        return data.X
    X = data.X.copy()
    for k in own:
        X[X[:, k] == -np.inf, k] = np.nan
    return X


def require_rows(data: Dataset, where: str | None) -> None:
    """Raise DataError unless X is a matrix and all arrays over rows have its length."""
    _check_lengths(data, where)
    check_arrays(data, where=where)


def _check_lengths(data: Dataset, where: str | None) -> None:
    """Raise DataError with a specific message for arrays over rows whose lengths differ, the most common mistake."""
    if getattr(data.X, "ndim", None) != 2:
        return
    rows = data.X.shape[0]
    for declared in fields(data):
        spec, item = array_spec_of_field(declared), getattr(data, declared.name)
        if spec and spec.dims == ("n",) and getattr(item, "ndim", 0) == 1 and len(item) != rows:
            raise DataError(
                f"/{declared.name} has {group_digits(len(item))} rows, but /X has {group_digits(rows)}",
                where=where,
                hint="give one entry for each row of /X",
            )


def _check_sparse(X: CSRMatrix, where: str | None) -> None:
    """Check that rows of a CSR matrix name each column at most once, in order (its index arrays were checked at construction)."""
    if not X.has_sorted_indices or not X.has_canonical_format:
        raise DataError(
            "the sparse matrix /X has unsorted or repeated column indices in a row",
            where=where,
            hint="call X.sum_duplicates() of SciPy before you save it",
        )


def check_finite(name: str, values: Matrix, where: str | None, *, missing: bool = False) -> None:
    """Raise DataError with the count and the first row if entries are NaN or infinite.  missing  NaN is accepted."""
    dense = values.data if is_sparse(values) else values
    if dense.dtype.kind != "f":
        return
    step = max(1, BLOCK_ELEMENTS // max(1, dense[0].size if dense.ndim > 1 and len(dense) else 1))
    good = (lambda part: ~np.isinf(part)) if missing else np.isfinite
    if all(good(dense[start : start + step]).all() for start in range(0, len(dense), step)):
        return
    bad, nans = _nonfinite_rows(values, np.where(np.isnan(dense), 0, dense) if missing else dense)
    kind = "NaN" if nans else "infinite"
    noun = "row" if len(bad) == 1 else "rows"
    raise DataError(f"{name} has {group_digits(len(bad))} {kind} {noun} (first: row {bad[0]})", where=where, hint=GAPS_HINT)


def check_magnitudes(data: Dataset, *, where: str | None = None) -> Dataset:
    """Return the data set with booleans as 0 and 1.  Raises DataError for values whose sums of squares overflow a float64."""
    if not data.is_sparse and data.X.dtype.kind == "b":
        return replace(data, X=data.X.view(np.uint8))
    entries = data.X.data if is_sparse(data.X) else data.X
    if entries.dtype.kind != "f" or entries.dtype.itemsize < 8 or not entries.size:
        return data
    step = max(1, BLOCK_ELEMENTS // max(1, entries[0].size))
    for start in range(0, len(entries), step):
        block = entries[start : start + step]
        if block.max() > LARGEST or block.min() < -LARGEST:
            worst = float(block.ravel()[np.nanargmax(np.abs(block))])
            hint = "rescale the columns, or remove those rows"
            raise DataError(
                f"/X has the value {worst:g}, but absolute values above {LARGEST:g} are too large for sums of squares",
                where=where,
                hint=hint,
            )
    return data


def _nonfinite_rows(values: Matrix, dense: Array) -> tuple[Array, bool]:
    """Return the indices of the rows with an entry that is not finite, and whether any of these entries is NaN."""
    wrong = ~np.isfinite(dense)
    if is_sparse(values):
        rows = np.unique(np.searchsorted(values.indptr, np.flatnonzero(wrong), side="right") - 1)
    else:
        rows = np.flatnonzero(wrong.any(axis=1) if dense.ndim > 1 else wrong)
    return rows, bool(np.isnan(dense).any())


def _check_units(data: Dataset, where: str | None) -> None:
    if data.units not in UNITS:
        raise DataError(f"the attribute units is '{data.units}', but must be one of {', '.join(UNITS)}", where=where)
    allowed = UNITS[data.units]
    entries = data.X.data if is_sparse(data.X) else data.X
    if allowed is None or (data.is_sparse and 0 not in allowed):
        return
    step = max(1, BLOCK_ELEMENTS // max(1, data.X.shape[1]))
    for start in range(0, len(entries), step):
        block = entries[start : start + step]
        if not ((block == allowed[0]) | (block == allowed[1])).all():
            raise DataError(
                f"/X has values other than {allowed[0]} and {allowed[1]}, but its attribute units is '{data.units}'", where=where
            )


def _check_labels(data: Dataset, where: str | None, *, lowest_label: int) -> None:
    if data.y is None or data.class_names is None:
        return
    count = len(data.class_names)
    if data.y.min() < lowest_label or data.y.max() >= count:
        row = int(np.argmax((data.y < lowest_label) | (data.y >= count)))
        raise DataError(
            f"/y has the label {data.y[row]} in row {row}, but /class_names has only {count} names, for labels 0 to {count - 1}",
            where=where,
        )


def _check_columns(data: Dataset, where: str | None, gaps: Collection[str]) -> None:
    for name, values in (data.columns or {}).items():
        if values.shape != data.X.shape[:1]:
            raise DataError(f"/columns/{name} has the shape {values.shape}, but /X has {group_digits(data.X.shape[0])} rows", where=where)
        check_finite(f"/columns/{name}", values, where, missing=name in gaps)


def _check_attributes(data: Dataset, where: str | None) -> None:
    columns = data.X.shape[1]
    if data.feature_names is not None and len(data.feature_names) != columns:
        raise DataError(
            f"/feature_names has {group_digits(len(data.feature_names))} names, but /X has {group_digits(columns)} columns", where=where
        )
    if data.image_shape is not None and int(np.prod(data.image_shape.astype(object))) != columns:
        height, width = data.image_shape
        raise DataError(f"image_shape {height}×{width} does not match the {group_digits(columns)} columns of /X", where=where)
    if data.value_range is not None:
        low, high = (float(end) for end in data.value_range)
        if not (np.isfinite([low, high]).all() and low < high):
            raise DataError(
                f"value_range is {low:g}, {high:g}, but the first number must be the smaller one",
                where=where,
                hint="write the lowest and the highest value, in that order",
            )
