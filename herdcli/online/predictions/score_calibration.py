"""Calibration on scores of examples before they were learned: confidences, thresholds of labels, deviations, prediction sets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli.numerics.class_baselines import UNKNOWN
from herdcli.online import tags
from herdcli.online.model import Classifier, HeldoutScores
from herdcli.online.numbers import HeldoutOutcomes, Predictor, with_fitted_noise
from herdcli.online.predictions import prediction_sets
from herdcli.online.predictions.prediction import calibrate_confidence
from herdcli.online.tags import HeldoutTagScores, Tagger, add_label_columns
from herdcli.schema import Array

HELD: dict[str, type[HeldoutScores | HeldoutOutcomes | HeldoutTagScores]] = {
    "classification": HeldoutScores,
    "regression": HeldoutOutcomes,
    "multilabel": HeldoutTagScores,
}


def add_heldout_scores(
    model: Classifier, score: Array, variance: Array, y: Array, split: Array, baselines: Array | None = None
) -> Classifier:
    """Return the model with scores (n, C) of held-out rows.

    If none of the new rows is for calibration, the earlier scores of the model are kept in front of the new ones.

    baselines  (n, 2) classes that simple classifiers predict for these rows, see `class_baselines`.
    """
    kind, kept = HELD[model.settings.task], model.holdout
    parts = (score, variance, add_label_columns(y, model.count) if y.ndim == 2 else y, split)
    if not (split == 1).any() and kept is not None:
        earlier = (kept.score, kept.variance, kept.y, kept.split)
        parts = tuple(np.concatenate(both) for both in zip(earlier, parts, strict=True))  # type: ignore[assignment]
        if baselines is not None:
            baselines = np.concatenate([np.full((len(kept.y), 2), UNKNOWN), baselines])
    if baselines is not None:
        parts = (*parts, baselines)  # type: ignore[assignment]
    return replace(model, holdout=kind(*parts))  # type: ignore[arg-type]


def calibrate_model(model: Classifier) -> Classifier:
    """Return the model calibrated on the calibration part of its held-out scores, if it has any."""
    if isinstance(model, Tagger):
        return tags.calibrate_tagger(model)
    return prediction_sets.calibrate_prediction_sets(
        with_fitted_noise(model) if isinstance(model, Predictor) else calibrate_confidence(model)
    )


def calibrate_on_all(model: Classifier) -> Classifier:
    """Return the model calibrated on all its held-out scores, which become its calibration part."""
    assert model.holdout is not None
    return calibrate_model(replace(model, holdout=replace(model.holdout, split=np.ones_like(model.holdout.split))))
