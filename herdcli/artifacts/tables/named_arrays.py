"""Conversion of named arrays to a `Dataset`, with the names for rows and labels of herd, scikit-learn, Keras, MNIST and others.

Rows are `X`, else the first of ROWS; labels are `y` and similar names; `target_names` are the names of classes.  Separate arrays for
each split, such as `x_train`, `y_train`, `x_test` or `train_images`, are joined and marked in the split.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.formats.unsealed_hdf5 import LABELS, choose_label, select_kept_columns
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.tables.dataset_assembly import assemble_dataset, flatten_rows
from herdcli.errors import DataError
from herdcli.schema import Array
from herdcli.splits import TEST, TRAIN, VALID

ROWS = ("X", "x", "data", "images", "features", "samples", "fea", "arr_0")
MORE_LABELS = ("gnd", "arr_1")
PARTS = {"train": TRAIN, "training": TRAIN, "valid": VALID, "val": VALID, "validation": VALID, "test": TEST}
ROW_STEMS = ("x", "images", "image", "data", "features")
LABEL_STEMS = ("y", "labels", "label", "target", "targets")
BRIGHT = 128  # images whose bytes reach this value are taken for grey levels 0 to 255


def find_row_array(names: Collection[str]) -> str | None:
    """Return the name of the array with the rows, or None; arr_0 for numpy.savez(FILE, X, y)."""
    return next((name for name in ROWS if name in names), None)


def label_array_names(rows: str | None) -> tuple[str, ...]:
    """Return the names that the labels of rows with this name may have."""
    return (*LABELS, *(MORE_LABELS if rows in ("fea", "arr_0") else ()))


def find_split_arrays(names: Collection[str]) -> dict[int, tuple[str, str | None]]:
    """Return a dict from split to the names of its rows and labels, as in x_train, y_train, x_test …; empty without training rows."""
    named: dict[int, list[str | None]] = {}
    for name in sorted(names):
        words = name.lower().split("_")
        for part, stem in ((words[-1], "_".join(words[:-1])), (words[0], "_".join(words[1:]))):
            if part in PARTS and stem in (*ROW_STEMS, *LABEL_STEMS):
                named.setdefault(PARTS[part], [None, None])[stem in LABEL_STEMS] = name
    whole = {part: (rows, labels) for part, (rows, labels) in sorted(named.items()) if rows is not None}
    return whole if TRAIN in whole else {}


def join_split_arrays(arrays: Mapping[str, Array], parts: Mapping[int, tuple[str, str | None]], where: str) -> dict[str, Array]:
    """Return `X`, `y` and `split` from separate arrays for each split."""
    rows = [np.asarray(arrays[name]) for name, _ in parts.values()]
    if len({part.shape[1:] for part in rows}) > 1 or min(part.ndim for part in rows) == 0:
        sizes = ", ".join("×".join(map(str, part.shape)) for part in rows)
        raise DataError(
            f"the parts have different numbers of columns ({sizes})", where=where, hint="give all parts of the data set the same columns"
        )
    found = {"X": np.concatenate(rows), "split": np.repeat(np.array(list(parts), dtype=np.uint8), [len(part) for part in rows])}
    labels = [None if name is None else np.asarray(arrays[name]) for _, name in parts.values()]
    if all(part is not None for part in labels):
        found["y"] = np.concatenate([_decode_one_hot(part) for part in labels if part is not None])
    return found


def _decode_one_hot(y: Array) -> Array:
    """Return labels (n,); for one-hot rows, the index of the 1."""
    if y.ndim == 2 and y.shape[1] > 1 and y.dtype.kind in "fiub" and (np.sum(y != 0, axis=1) == 1).all():
        return np.asarray(y.argmax(axis=1))
    found: Array = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    return found


def flatten_images(X: Array) -> tuple[Array, dict[str, Any]]:
    """Return rows (n, d) of an array, with the image shape, and the range of grey levels if they are bytes."""
    bright = X.ndim > 2 and X.dtype == np.uint8 and X.size and int(X.max()) >= BRIGHT
    rows, shape = flatten_rows(X)
    return rows, shape | ({"value_range": np.array([0, 255])} if bright else {})


def dataset_from_arrays(arrays: Mapping[str, Array], *, where: str, options: LoadOptions, hint: str) -> Dataset:
    """Return the data set of named arrays.  hint: how to make a file with rows, for a file without any."""
    parts = {} if "X" in arrays else find_split_arrays(arrays)
    if parts:
        used = {name for pair in parts.values() for name in pair if name}
        arrays = {name: array for name, array in arrays.items() if name not in used} | join_split_arrays(arrays, parts, where)
    name = find_row_array(arrays)
    if name is None:
        raise DataError(f"has no array X (it has {', '.join(sorted(arrays)) or 'nothing'})", where=where, hint=hint)
    labels = choose_label(arrays, [known for known in label_array_names(name) if known not in options.keep], options.label, where)
    X, declared = flatten_images(arrays[name])
    roles = {role: arrays[role] for role in ("split", "weight", "feature_names", "class_names") if role in arrays}
    if labels:
        roles["y"] = _decode_one_hot(arrays[labels])
        _add_class_names(roles, arrays)
    used = {name, "target_names", *roles, *([labels] if labels else [])}
    kept = select_kept_columns(options.keep, arrays, used)
    ignored = sorted(set(arrays) - used - {other for pair in kept.items() for other in pair if other} - {"images"})
    if ignored:
        options.note(f"{where}: these parts of the file are not used: {', '.join(ignored)}")
    roles = {role: array for role, array in roles.items() if options.labels or role != "y"}
    columns, response = {column: arrays[column] for column in kept}, bool(options.roles.response)
    return assemble_dataset(X, roles, declared, where=where, note=options.note, columns=columns, response=response)


def _add_class_names(roles: dict[str, Array], arrays: Mapping[str, Array]) -> None:
    """Use scikit-learn's target_names as the names of classes."""
    names, y = arrays.get("target_names"), roles["y"]
    if names is not None and "class_names" not in roles and y.dtype.kind in "iu" and names.ndim == 1 and y.size and y.max() < len(names):
        roles["class_names"] = names
