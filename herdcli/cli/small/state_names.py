"""Sampled rows with one-hot columns of text columns, as columns of state names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.recoding import Recoding, one_hot_column_names

if TYPE_CHECKING:
    from herdcli.artifacts import Dataset
    from herdcli.schema import Array


def decode_softmax_columns(data: Dataset, units: str, recoding: Recoding | None) -> tuple[Dataset, Recoding | None]:
    """Return rows with one column per unit, which holds the index of its state among the levels, and the recoding with the names.

    The rows are returned unchanged, with None, unless each unit consists of the one-hot columns of one text column.
    """
    from herdcli.rbm.units import unit_family

    names, family = data.feature_names, unit_family(units)
    if not names or recoding is None or recoding.codes or family.group == 1:
        return data, None
    columns = {tuple(one_hot_column_names(name, recoding)) for name in recoding.levels}
    parts = [family.unit_columns(unit) for unit in range(family.count_units(len(names)))]
    if not all(tuple(names[part]) in columns for part in parts):
        return data, None
    decoded, states, _ = decode_one_hot_columns(data, recoding)
    return decoded, states


def decode_one_hot_columns(data: Dataset, recoding: Recoding | None) -> tuple[Dataset, Recoding | None, int]:
    """Return rows with one column of state indices for each text column, the recoding with the names, and the number of absent columns.

    Text columns follow all others.  A level whose one-hot column the rows lack has occurred in no row; these are counted.  A text column is
    decoded if each row has one of its states; without such columns the rows are returned unchanged, with None.
    """
    names = data.feature_names
    if names is None or recoding is None or recoding.codes:
        return data, None, 0
    position = {name: index for index, name in enumerate(names)}
    levels: dict[str, tuple[str, ...]] = {}
    codes: list[Array] = []
    used: set[int] = set()
    absent = 0
    for name, known in recoding.levels.items():
        own = one_hot_column_names(name, recoding)
        places = [position[column] for column in own if column in position]
        if len(own) < len(known) or not places or (data.X[:, places].sum(axis=1) != 1).any():
            continue
        present = np.flatnonzero([column in position for column in own])
        levels[name] = known
        codes.append(present[data.X[:, places].argmax(axis=1)])
        used |= set(places)
        absent += len(own) - len(places)
    if not levels:
        return data, None, 0
    kept = [index for index in range(len(names)) if index not in used]
    largest = max(map(len, levels.values()))
    indices = np.column_stack(codes).astype(np.uint8 if largest <= 256 else np.float64)
    X = np.column_stack([data.X[:, kept], indices]) if kept else indices
    rows = replace(data, X=X, feature_names=[*(names[index] for index in kept), *levels], units="real", value_range=None, image_shape=None)
    return rows, Recoding(levels, codes=True), absent
