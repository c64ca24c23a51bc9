"""Scores of validation and test rows, and of the baselines that they are compared with, in the model that `herd nherd-train` saves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.numerics import class_baselines
from herdcli.numerics.block_units import select_evenly_spaced
from herdcli.online.example_blocks import DENSE_ROWS, ExampleBlock, block_from_rows
from herdcli.online.predictions import prediction
from herdcli.online.predictions.score_calibration import add_heldout_scores
from herdcli.splits import TEST, TRAIN, VALID

if TYPE_CHECKING:
    from herdcli.cli.frame.rows.labelled_examples import ClassificationRows
    from herdcli.numerics.class_baselines import ClassBaselines
    from herdcli.online.model import Classifier
    from herdcli.schema import Array

HELD = 100_000  # maximum number of validation and test rows whose scores are stored in the model
KEPT_WEIGHTS = 1 << 17  # maximum number of weights of baselines that are stored in the model


def heldout_row_indices(rows: ClassificationRows) -> Array:
    """Return the indices (h,) of the validation and test rows for evaluation; 100,000 of them, evenly spread, if there are more."""
    held = np.flatnonzero(np.isin(rows.split, (VALID, TEST)))
    return held if len(held) <= HELD else held[np.arange(HELD) * len(held) // HELD]


def with_heldout_scores(model: Classifier, rows: ClassificationRows) -> Classifier:
    """Return the model with baselines fitted to the training rows and scores of the validation and test rows.

    Without validation rows, the progressive scores stay in the model for the calibration.
    """
    baselines, held, predictions = fit_baselines(model, rows), heldout_row_indices(rows), None
    if baselines is not None and baselines.centroid.size <= KEPT_WEIGHTS:
        model = replace(model, baselines=baselines)
    if not len(held):
        return model
    scores = [score(block) for score in [prediction.make_scorer(model)] for block in _heldout_blocks(rows, held)]
    score, variance = (np.concatenate(parts) for parts in zip(*scores, strict=True))
    if baselines is not None:
        parts = [held[start : start + DENSE_ROWS] for start in range(0, len(held), DENSE_ROWS)]
        predictions = np.concatenate([baselines.predictions(rows.X[part]) for part in parts])
    return add_heldout_scores(model, score, variance, rows.y[held], rows.split[held].astype(np.uint8), predictions)


def fit_baselines(model: Classifier, rows: ClassificationRows) -> ClassBaselines | None:
    """Return the nearest centroid and a ridge classifier, fitted to at most 10,000 training rows, evenly spread.

    Rows in a file are the same ones as in memory, which takes a pass over the file, so that the bytes of the model are the same too.
    """
    if model.settings.task != "classification" or not (rows.split == TRAIN).any():
        return None
    chosen = select_evenly_spaced(rows.split == TRAIN, class_baselines.MOST_ROWS)
    weight = None if rows.weight is None else rows.weight[chosen]
    return class_baselines.fit_baselines(rows.X[chosen], rows.y[chosen], len(rows.names), weight)


def _heldout_blocks(rows: ClassificationRows, row_indices: Array) -> Iterator[ExampleBlock]:
    for start in range(0, len(row_indices), DENSE_ROWS):
        yield block_from_rows(rows.X, rows.y, row_indices[start : start + DENSE_ROWS])
