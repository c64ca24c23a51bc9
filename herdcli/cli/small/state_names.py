"""Rows sampled from softmax units as columns of state names, if the units are columns of text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.recoding import Recoding, one_hot_column_names

if TYPE_CHECKING:
    from herdcli.artifacts import Dataset


def decode_softmax_columns(data: Dataset, units: str, recoding: Recoding | None) -> tuple[Dataset, Recoding | None]:
    """Return rows with one column per unit, which holds the index of its state among the levels, and the recoding with the names.

    The rows are returned unchanged, with None, unless each unit consists of the one-hot columns of one text column.
    """
    kind, _, count = units.partition(":")
    if kind != "softmax" or recoding is None or recoding.codes or not data.feature_names:
        return data, None
    K, names = int(count), data.feature_names
    columns = {tuple(one_hot_column_names(name, recoding)): name for name in recoding.levels}
    found = [columns.get(tuple(names[start : start + K])) for start in range(0, len(names), K)]
    texts = [name for name in found if name is not None]
    if len(texts) < len(found):
        return data, None
    places = data.X.reshape(len(data.X), len(texts), K).argmax(axis=2).astype(np.uint8 if K < 256 else np.float64)
    levels = {name: recoding.levels[name] for name in texts}
    rows = replace(data, X=places, feature_names=texts, units="real", value_range=None, image_shape=None)
    return rows, Recoding(levels, codes=True)
