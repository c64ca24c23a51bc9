"""Assembly of a `Dataset` from arrays of any format: labels become integers, splits and ranges are interpreted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from herdcli.artifacts.dataset import Dataset, check_finite
from herdcli.artifacts.message_numbers import group_digits
from herdcli.artifacts.tables import native_arrays
from herdcli.errors import DataError
from herdcli.schema import TRUTHS, Array, Matrix
from herdcli.splits import SPLIT_NAMES, TEST, TRAIN, VALID, parse_split_name

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")

Declarations: TypeAlias = Mapping[str, Any]  # what a file says of all its rows: value_range, image_shape, feature_names, …


def assemble_dataset(
    X: Matrix,
    parts: Mapping[str, Array],
    attributes: Declarations,
    *,
    where: str,
    note: Callable[[str], None],
    columns: Mapping[str, Array] | None = None,
    stretch: bool = False,
    response: bool = False,
) -> Dataset:
    """Return the data set of rows X, arrays `y`, `split`, `weight`, `feature_names`, `class_names`, attributes, and further columns.

    response  y may be any numbers or text; it becomes a further column, unless /class_names gives the names of its numbers.
    """
    X = native_arrays.native_matrix(X, name="X", where=where)
    parts = {name: native_arrays.native_array(values, name=name, where=where) for name, values in parts.items()}
    columns = {name: native_arrays.native_array(values, name=name, where=where) for name, values in (columns or {}).items()}
    for name in ("y", "split", "weight"):
        if name in parts and _flatten_column(parts[name]).ndim == 1 and X.ndim == 2 and _flatten_column(parts[name]).size != X.shape[0]:
            raise DataError(
                f"/{name} has {group_digits(_flatten_column(parts[name]).size)} rows, but /X has {group_digits(X.shape[0])}",
                where=where,
                hint="give one entry for each row of /X",
            )
    names = {name: [str(text) for text in np.asarray(parts[name]).ravel()] for name in ("feature_names", "class_names") if name in parts}
    classes = names.get("class_names")
    if response and classes is None and "y" in parts and _flatten_column(parts["y"]).ndim == 1:
        columns = {"y": parts.pop("y")} | columns
    y = None
    if "y" in parts:
        y, classes = encode_labels(_flatten_column(parts["y"]), classes, where=where)
        if y.ndim == 2 and not stretch:
            y, classes = _encode_label_sets(y, classes, where, note)
    split = parse_split_column(_flatten_column(parts["split"]), where, note, stretch=stretch) if "split" in parts else None
    weight = _check_weights(_flatten_column(parts["weight"]), where) if "weight" in parts else None
    return Dataset(
        X=X,
        y=y,
        split=split,
        weight=weight,
        feature_names=names.get("feature_names"),
        class_names=classes,
        units=str(attributes.get("units", "real")),
        value_range=parse_number_pair(attributes, "value_range", "fiu", where),
        image_shape=parse_number_pair(attributes, "image_shape", "iu", where),
        source=_text_or_none(attributes.get("source")),
        licence=_text_or_none(attributes.get("licence")),
        columns={name: _flatten_column(values) for name, values in columns.items()} or None,
    )


def flatten_rows(X: Array) -> tuple[Array, dict[str, Any]]:
    """Return rows (n, d) of an array, and the image shape: (n,) is one column, (n, h, w) images, (n, h, w, 1) grey images."""
    if X.ndim == 4 and X.shape[3] == 1:
        X = X[..., 0]
    if X.ndim == 3:
        return np.ascontiguousarray(X.reshape(len(X), -1)), {"image_shape": X.shape[1:]}
    return (X.reshape(-1, 1) if X.ndim == 1 else X.reshape(len(X), -1) if X.ndim > 3 else X), {}


def encode_labels(y: Array, class_names: list[str] | None, *, where: str) -> tuple[Array, list[str] | None]:
    """Return labels as integers: strings become indices into the class names, booleans into False and True, whole floats become int64."""
    if y.dtype.kind in "UTO":
        texts = [str(text) for text in y]
        names = class_names or sorted(set(texts))
        place = {name: index for index, name in enumerate(names)}
        unknown = next((row for row, text in enumerate(texts) if text not in place), None)
        if unknown is not None:
            raise DataError(
                f"/y has label '{texts[unknown]}' in row {unknown}, but /class_names lacks it",
                where=where,
                hint="add the label to /class_names",
            )
        return np.array([place[text] for text in texts], dtype=np.int32), names
    if y.dtype.kind == "f":
        check_finite("/y", y, where)
        if (y != np.round(y)).any() or np.abs(y).max(initial=0) >= 2**53:
            first = tuple(np.argwhere((y != np.round(y)) | (np.abs(y) >= 2**53))[0].tolist())
            raise DataError(
                f"/y has the value {y[first]:g} in row {first[0]}, but labels must be whole numbers or text",
                where=where,
                hint="use herd regress or herd nherd-train --task regression to predict numbers",
            )
        return y.astype(np.int64), class_names
    return (y.astype(np.uint8), class_names or list(TRUTHS)) if y.dtype.kind == "b" else (y, class_names)


def decode_numeric_labels(index: Array, names: list[str]) -> tuple[Array, list[str] | None]:
    """Return labels as the numbers that their names are, if all names are whole numbers.

    Names that include -1 stay names if others are not negative, except -1 and 1, because a label −1 among those means that there is none.
    """
    ambiguous = "-1" in names and set(names) != {"-1", "1"} and not all(name.startswith("-") for name in names)
    if ambiguous or not all(_WHOLE.fullmatch(name) for name in names):
        return index, names
    return np.array([int(name) for name in names], dtype=np.int64)[index], None


def _encode_label_sets(y: Array, names: list[str] | None, where: str, note: Callable[[str], None]) -> tuple[Array, list[str] | None]:
    """Return a matrix (n, C) of 0 and 1, with a column for each label, as one label per row: the list of its labels, [a,b]."""
    if not np.isin(y, (0, 1)).all():
        return y, names  # not labels: refused later because of its shape
    known = [str(k) for k in range(y.shape[1])] if names is None else names
    if len(known) != y.shape[1]:
        raise DataError(f"/y has {y.shape[1]} columns, but /class_names has {len(known)} names", where=where)
    different, index = np.unique(y, axis=0, return_inverse=True)
    note(f"{where}: /y is a matrix of 0 and 1; each of the {len(different)} different sets of labels is read as one class")
    lists = [f"[{','.join(known[k] for k in np.flatnonzero(row))}]" for row in different]
    return index.reshape(-1).astype(np.int32), lists


def parse_split_column(split: Array, where: str, note: Callable[[str], None], *, stretch: bool = False) -> Array:
    """Return (n,) 0 train, 1 valid, 2 test from a column of numbers or names; a split of 0 and 1 alone means train and test.

    stretch  there are more rows, so that the meaning of numbers is not known yet: they are returned unchanged as int64, and names as uint8.
    """
    if split.dtype.kind in "UTO":
        numbers = [parse_split_name(str(text)) for text in split]
        if None in numbers:
            unknown = min({str(text) for text, number in zip(split, numbers, strict=True) if number is None})
            raise DataError(f"/split has the value '{unknown}', but must be one of {', '.join(SPLIT_NAMES)}", where=where)
        return np.array(numbers, dtype=np.uint8)
    if split.dtype.kind == "f" and (split != np.round(split)).any():
        row = int(np.argmax(split != np.round(split)))
        raise DataError(
            f"/split has the value {split[row]:g} in row {row}, but must be 0 (train), 1 (valid) or 2 (test)",
            where=where,
            hint="write 0, 1 or 2 for each row",
        )
    split, _ = encode_labels(split, None, where=where)
    if stretch:
        return split.astype(np.int64)
    if split.size and split.min() == TRAIN and split.max() == VALID:
        note(f"{where}: split has only 0 and 1, read as train and test")
        return (split * TEST).astype(np.uint8)
    return split


def _flatten_column(values: Array) -> Array:
    """Return one value per row: a matrix of one column or one row is flattened."""
    return values.ravel() if values.ndim == 2 and 1 in values.shape else values


def map_indices_to_names(values: Array, names: Array, column: str, where: str) -> Array:
    """Replace indices into a list of names by the names.  Raises DataError for an index out of range."""
    if values.dtype.kind not in "iu" or (len(values) and not 0 <= values.min() <= values.max() < len(names)):
        raise DataError(f"/{column} has values that are not indices of the {len(names)} entries of /{column}_names", where=where)
    found: Array = _decode_objects(np.asarray(names))[values]
    return found


def _decode_objects(values: Array) -> Array:
    """Return objects as text, anything else unchanged."""
    return values.astype(np.str_) if values.dtype.kind == "O" else values


def _check_weights(weight: Array, where: str) -> Array:
    if weight.dtype.kind not in "fiub":
        raise DataError(f"/weight has the type {weight.dtype}, but must have numbers", where=where)
    return weight.astype(np.float64)


def parse_number_pair(attributes: Declarations, name: str, kinds: str, where: str) -> Array | None:
    """Return a declared pair of numbers of these dtype kinds.  Raises DataError for other values."""
    if attributes.get(name) is None:
        return None
    try:
        found = np.asarray(attributes[name]).ravel()
    except ValueError:  # lists of different lengths
        found = np.empty(0)
    whole = found.dtype.kind in "iu" or (found.dtype.kind == "f" and (found == np.round(found)).all() and (np.abs(found) < 2**53).all())
    if found.shape != (2,) or found.dtype.kind not in "fiu" or (kinds == "iu" and not whole):
        raise DataError(f"attribute {name} is {attributes[name]}, but must have two numbers", where=where)
    return found.astype(np.int64) if kinds == "iu" else found


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)


def shrink_integers(values: Array) -> Array:
    """Return whole numbers in the smallest integer type that holds them, else float64: pixels from text stay bytes."""
    if not values.size:
        return values.astype(np.uint8)
    low, high = int(values.min()), int(values.max())
    for kind in (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.int64, np.uint64):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return values.astype(kind)
    return values.astype(np.float64)
