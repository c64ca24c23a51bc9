"""Prediction sets of online models: nonconformity of answers, sets up to a threshold, and the threshold of a model.

Nonconformity is −m/√(1 + v), with m a class's margin relative to the best other one; for regression |y − μ·x|.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from herdcli.online.learner_state import LearnerState
from herdcli.online.model import Classifier
from herdcli.online.predictions import coverage
from herdcli.online.predictions.coverage import COVERED, EXAMPLES, SIZE, UNBOUNDED, Coverage
from herdcli.online.predictions.prediction import standard_margins
from herdcli.schema import Array

Model = TypeVar("Model", bound=Classifier)


def begin_prediction_sets(state: LearnerState, level: float, model: Classifier | None) -> None:
    """Initialise a stream's prediction sets in its state; they continue those of a model."""
    known = model.coverage if model is not None else None
    if known is None:
        state.coverage, state.conformity = np.array([level, 1.0 - level, 0.0, 0.0, 0.0, 0.0]), np.zeros(0)
        return
    state.coverage = np.array([known.level, known.alpha, known.examples, known.covered, known.size, known.unbounded])
    state.conformity = np.zeros(0) if known.recent is None else known.recent


def add_prediction_sets(state: LearnerState, score: Array, variance: Array, label: Array, *, numbers: bool) -> None:
    """Make a prediction set for each example (n,) from the earlier ones, and count the coverage."""
    tally, recent = state.coverage, state.conformity
    assert tally is not None
    assert recent is not None
    own = _true_nonconformity(score, variance, label, numbers=numbers)
    bounds, state.conformity = coverage.adapt_thresholds(tally, recent, own)
    tally[EXAMPLES] += len(own)
    tally[COVERED] += np.count_nonzero(own <= bounds)
    tally[UNBOUNDED] += np.count_nonzero(bounds == np.inf)
    # The sizes are added one after the other, so that the sum does not depend on the sizes of blocks.
    sizes = (
        2.0 * np.where(np.isfinite(bounds), bounds, 0.0) if numbers else prediction_set_mask(score, variance, bounds[:, None]).sum(axis=1)
    )
    tally[SIZE] = np.cumsum(np.concatenate([tally[SIZE : SIZE + 1], sizes]))[-1]


def coverage_from_state(state: LearnerState) -> Coverage | None:
    """Return the artifact's record of the sets; None if there were none."""
    if state.coverage is None:
        return None
    level, alpha, examples, covered, size, unbounded = state.coverage.tolist()
    counts = {"examples": int(examples), "covered": int(covered), "unbounded": int(unbounded)}
    return Coverage(level=level, alpha=alpha, size=size, recent=state.conformity, **counts)


def calibrate_prediction_sets(model: Model) -> Model:
    """Return the model with the threshold of its sets from the calibration part of its held-out scores."""
    held, known = model.holdout, model.coverage
    if known is None or held is None or not (chosen := held.split == 1).any():
        return model
    own = _true_nonconformity(held.score[chosen], held.variance[chosen], held.y[chosen], numbers=model.settings.task == "regression")
    bound = coverage.prediction_set_threshold(own, 1.0 - known.level)
    return replace(model, coverage=replace(known, threshold=bound, calibrated=len(own)))


def _true_nonconformity(score: Array, variance: Array, y: Array, *, numbers: bool) -> Array:
    """Return the nonconformity (n,) of the true answers."""
    return np.asarray(np.abs(y - score[:, 0]) if numbers else nonconformity(score, variance)[np.arange(len(y)), y])


def nonconformity(score: Array, variance: Array) -> Array:
    """Return −m/√(1 + v) of each class, (n, classes)."""
    return -standard_margins(score, variance)


def prediction_set_mask(score: Array, variance: Array, bound: float | Array) -> Array:
    """Return a mask (n, classes) of the classes in each set."""
    return np.asarray(nonconformity(score, variance) <= bound)
