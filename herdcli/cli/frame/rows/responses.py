"""Targets other than classes in the rows of a data set: numbers, or sets of labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.tables import dataset_preparation
from herdcli.cli.frame.rows.labelled_examples import ClassificationRows
from herdcli.cli.frame.rows.response_datasets import USUAL, names_label_columns
from herdcli.errors import DataError, HerdError, missing_column_error
from herdcli.online.class_labels import NumericTargets
from herdcli.online.tags import label_sort_key
from herdcli.online.text.multilabel_text import LabelSetEncoder

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.artifacts.dataset import Dataset
    from herdcli.schema import Array

SEPARATORS = (",", ";", "|", " ")  # separators of the labels in a cell; the first of these that occurs in any cell is used
_BRACKETS = re.compile(r"^\[(.*)\]$", re.DOTALL)
_QUOTES = "'\" \t\n"


def regression_rows(data: Artifact, *, label: str | None, split: str | None, seed: int) -> ClassificationRows:
    """Return a data set as a regression task: y (n,) float64."""
    value: Dataset = data.value
    y, value = _split_target(value, label, data.name)
    y = NumericTargets().encode_labels(np.asarray(y, dtype=np.float64), data.name)
    plain = replace(value, y=None, class_names=None)
    return ClassificationRows(value.X, y, _assign_splits(plain, data.name, split, seed), [], value.weight, value.feature_names)


def _split_target(value: Dataset, label: str | None, where: str) -> tuple[Array, Dataset]:
    """Return the column of --label, or else one with a usual name, and the data set without it."""
    further, features = value.columns or {}, value.feature_names or []
    name = label or next((name for name in USUAL if name in further or name in features), None)
    if name in further:
        found = further[name]
        if found.dtype.kind not in "fiub":
            raise DataError(
                f"column '{name}' holds text, but --task regression needs numbers", where=where, hint="name another column: --label COLUMN"
            )
        return found, value
    if name in features and name is not None:
        chosen = _extract_columns(value, [name])
        return chosen[0][:, 0], chosen[1]
    if label is not None and label != "y":
        raise missing_column_error("--label", label, [*further, *features], where)
    if value.y is None:
        raise DataError("there is no target to learn", where=where, hint="name the column of the target: --label COLUMN")
    if value.class_names:
        raise DataError("has names in 'y', but --task regression needs numbers", where=where, hint="leave --task out to learn classes")
    return value.y, value


def _extract_columns(value: Dataset, names: Sequence[str]) -> tuple[Array, Dataset]:
    """Return the named columns (n, k) unchanged, and the data set without them."""
    features = list(value.feature_names or [])
    place = [features.index(name) for name in names]
    rest = [k for k in range(len(features)) if k not in set(place)]
    if not rest:
        raise DataError("has only label columns and no feature columns")
    taken = value.X[:, place]
    dense = taken.toarray() if hasattr(taken, "indptr") else np.asarray(taken)
    X = value.X[:, rest] if hasattr(value.X, "indptr") else np.ascontiguousarray(value.X[:, rest])
    left = replace(value, X=X, feature_names=[features[k] for k in rest], image_shape=None)
    return dense, left


def multilabel_rows(
    data: Artifact,
    *,
    label: str | None,
    split: str | None,
    seed: int,
    names: Sequence[str] | None = None,
    fixed: bool = True,
    max_labels: int,
) -> ClassificationRows:
    """Return a data set as a task with several labels: y (n, C), 1 or 0.

    names  the labels of a model or of --classes; other labels are refused if `fixed`, else they come after these.
    """
    value: Dataset = data.value
    known = LabelSetEncoder(names or (), fixed=names is not None and fixed, most=max_labels)
    if names_label_columns(label) or _labels_are_columns(value, names):
        y, value = _indicator_columns(value, label, names, known, data.name)
    else:
        y = _parse_label_cells(value, known, data.name)
    order = list(range(y.shape[1]))
    if names is None:
        order.sort(key=lambda k: label_sort_key(known.names[k]))
    plain = replace(value, y=None, class_names=None)
    labels = [known.names[k] for k in order]
    return ClassificationRows(
        value.X, y[:, order], _assign_splits(plain, data.name, split, seed), labels, value.weight, value.feature_names
    )


def _labels_are_columns(value: Dataset, names: Sequence[str] | None) -> bool:
    """Whether all labels of a model are columns of these rows."""
    return bool(names) and value.y is None and set(names or ()) <= set(value.feature_names or ())


def _indicator_columns(
    value: Dataset, label: str | None, names: Sequence[str] | None, encoder: LabelSetEncoder, where: str
) -> tuple[Array, Dataset]:
    """Return columns of 0 and 1 as labels, and the data set without them."""
    features = list(value.feature_names or [])
    patterns = label.split(",") if label is not None and names_label_columns(label) else list(names or ())
    found: list[str] = []
    for pattern in patterns:
        matching = [name for name in features if fnmatchcase(name, pattern)]
        if not matching:
            raise missing_column_error("--label", pattern, features, where)
        found += [name for name in matching if name not in found]
    wanted, left = _extract_columns(value, found)
    wrong = ~np.isin(wanted, (0, 1))
    if wrong.any():
        row, column = (int(at[0]) for at in np.nonzero(wrong))
        text = f"column '{found[column]}' has {wanted[row, column]:g} in row {row}; a column of a label holds 0 and 1"
        raise DataError(text, where=where)
    places = encoder.name_indices(found, where)
    y = np.zeros((len(wanted), len(encoder.names)), dtype=np.uint8)
    y[:, places] = wanted
    return y, left


def _parse_label_cells(value: Dataset, encoder: LabelSetEncoder, where: str) -> Array:
    """Return the labels of a column of lists such as 1,3,7 or [1, 3, 7]; integers are one label per row."""
    if value.y is None:
        raise DataError(
            "there are no labels to learn from",
            where=where,
            hint="name a column with a list of labels in each row (--label COLUMN), or a column of 0 and 1 for each label (--label A,B,C)",
        )
    texts = value.class_names
    if not texts:
        values, index = np.unique(value.y, return_inverse=True)
        texts = [str(number) for number in values]
    else:
        index = value.y
    present = set(np.unique(index).tolist())
    inner = [match[1] if (match := _BRACKETS.match(text.strip())) else text for text in texts]
    mark = next((mark for mark in SEPARATORS if any(mark in text.strip() for text in inner)), ",")
    sets = [
        encoder.name_indices([part.strip(_QUOTES) for part in text.split(mark) if part.strip(_QUOTES)], where) if k in present else []
        for k, text in enumerate(inner)
    ]
    found: Array = encoder.labels_from_indices(sets)[index]
    return found


def _assign_splits(value: Dataset, where: str, split: str | None, seed: int) -> Array:
    try:
        return dataset_preparation.assign_splits(value, split, seed)
    except HerdError as error:
        error.where = error.where or where
        raise
