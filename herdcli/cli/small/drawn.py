"""Rows drawn from harmoniums as a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts import Dataset
from herdcli.rbm.units import Labelled, family

if TYPE_CHECKING:
    from herdcli.rbm.model import RBM
    from herdcli.schema import Array


def dataset(model: RBM, rows: list[Array], *, means: bool) -> Dataset:
    """The rows (count, D) of each model as a data set, with what is known of the columns."""
    units, X = family(model.visible_units), model.restored(np.concatenate(rows))
    y = np.repeat(np.arange(len(rows)), len(rows[0])) if model.classes else None
    if isinstance(units, Labelled):
        y, units = np.concatenate(rows)[:, model.columns :].argmax(axis=1), units.columns
    two_state = units.name in ("binary", "spin") and not means
    return Dataset(
        X.astype(np.int8) if two_state else X,
        y=y,
        class_names=model.classes or model.labels,
        units=units.name if two_state else "real",
        value_range=None if units.range is None else np.array(units.range) / units.scale,
        image_shape=model.image_shape,
        feature_names=model.feature_names,
    )
