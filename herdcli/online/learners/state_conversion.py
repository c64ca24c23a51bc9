"""Conversion between a learner's state and the artifact of a classifier, in both directions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from herdcli.errors import DataError, Diverged
from herdcli.numerics.class_baselines import UNKNOWN
from herdcli.online import heldout_examples, running_centroids
from herdcli.online.learner_state import LearnerState
from herdcli.online.learners.full_covariance import complete_both_triangles
from herdcli.online.model import Classifier, HeldoutScores, Progress, RunningTotals, Settings
from herdcli.online.numbers import HeldoutOutcomes, Predictor
from herdcli.online.predictions import prediction_sets
from herdcli.online.tags import Tagger, tagger_from_state
from herdcli.online.text import compact_features
from herdcli.schema import Array

SMALLER = "use a smaller --C, or --normalize l2"


def load_model_into_state(state: LearnerState, model: Classifier) -> None:
    """Load a model into an empty state: its weights, its counts, and its last held-out scores."""
    kept = model.running
    state.running[:] = kept.examples, kept.squares
    wrong = model.absolute if isinstance(model, Predictor) else model.missed if isinstance(model, Tagger) else kept.wrong
    state.tally[:5] = kept.seen, wrong, kept.loss, kept.updates, kept.refused
    state.trace = np.stack([model.progress.examples.astype(float), model.progress.error, model.progress.loss])
    if model.holdout is not None and (model.holdout.split == 1).all():
        state.score, state.variance, state.label = model.holdout.score, model.holdout.variance, model.holdout.y
    if (scales := model.scales) is not None:
        state.sizes = np.concatenate([np.zeros((0 if model.settings.bias else 1, scales.shape[1])), scales])
    if state.machines:
        state.machines = list(model.machines)
        return
    assert model.mean is not None
    mean = model.mean if model.settings.bias else np.pad(model.mean, ((0, 0), (1, 0)))
    if state.table is not None or state.stack is not None:
        assert model.variance is not None
        variance = model.variance if model.settings.bias else np.pad(model.variance, ((0, 0), (1, 0)), constant_values=1.0)
        if state.stack is not None:
            state.stack = np.stack([mean, variance], axis=2)
        else:
            state.table = np.ascontiguousarray(np.stack([mean.T, variance.T], axis=1))
    else:
        assert model.covariance is not None
        state.mean, state.sigma = np.array(mean), _with_bias_row(model)


def _with_bias_row(model: Classifier) -> Array:
    """Return the covariance with a row for the bias first, which a model without bias does not store.

    It is in C order, whatever the model's order is: BLAS would update a copy of another, and the covariance would not change.
    """
    assert model.covariance is not None
    assert model.mean is not None
    if model.settings.bias:
        return np.array(model.covariance, order="C")
    groups = model.covariance.shape[1] // model.mean.shape[1]
    place = np.arange(groups) * model.mean.shape[1]
    wide = np.ascontiguousarray(np.insert(np.insert(model.covariance, place, 0.0, axis=1), place, 0.0, axis=2))
    at = place + np.arange(groups)
    wide[:, at, at] = 1.0
    return wide


def classifier_from_state(
    settings: Settings, columns: int, state: LearnerState, names: list[str], *, part: bool = False, bits: int = 0
) -> Classifier:
    """Return the artifact of a finished run, whose table began with `columns` columns.

    If it hashes into 2^bits columns, it has only those that occurred.
    Raises DataError if only one class was seen, except for a `part` of several, since the others see more.
    """
    return _with_stream_baselines(_classifier_without_baselines(settings, columns, state, names, part=part, bits=bits), state)


def _classifier_without_baselines(
    settings: Settings, columns: int, state: LearnerState, names: list[str], *, part: bool, bits: int
) -> Classifier:
    """Return the artifact without baselines."""
    if settings.task == "multilabel":
        return tagger_from_state(settings, columns, state, names)
    numbers = settings.task == "regression"
    if not part and not numbers and (state.counts > 0).sum() == 1 and int(state.running[0]) == state.counts.sum():
        raise DataError(f"every example has label {names[int(state.counts.argmax())]}; a classifier needs at least two classes")
    heldout_examples.restore_best_weights(state)
    seen, wrong, loss, updates, refused = state.tally[:5].tolist()
    mistakes = 0 if numbers else int(wrong)
    running = RunningTotals(int(state.running[0]), float(state.running[1]), int(seen), mistakes, loss, int(updates), int(refused))
    base: Classifier = (Predictor if numbers else Classifier)(
        classes=names,
        settings=settings,
        running=running,
        progress=Progress(state.trace[0].astype(np.int64), state.trace[1].copy(), state.trace[2].copy()),
        machines=state.machines,
        passes=heldout_examples.pass_records(state),
        coverage=prediction_sets.coverage_from_state(state),
        bits=bits,
    )
    first = 0 if settings.bias else 1
    if state.sizes is not None:
        base = _add_feature_sizes(base, state, first)
    if len(state.label):
        held: type[Any] = HeldoutOutcomes if numbers else HeldoutScores
        base = replace(base, holdout=held(state.score, state.variance, state.label, np.ones(len(state.label), dtype=np.uint8)))
    if isinstance(base, Predictor):
        base = replace(base, absolute=wrong)
    if not all(np.isfinite(weights).all() for weights in (state.table, state.mean, state.sigma, state.weights) if weights is not None):
        raise Diverged("the weights or their variances are no longer finite", hint=SMALLER)
    if state.table is not None and state.columns is not None and bits:
        mean, variance = (
            np.ascontiguousarray(compact_features.columns_from_table_rows(state, state.table[:, k])[:, first:]) for k in (0, 1)
        )
        return replace(base, mean=mean, variance=variance, column=np.sort(state.columns)[first:].astype(np.int64) - first)
    if state.table is not None and state.columns is not None:
        mean, variance = (compact_features.scatter_columns(state, state.table[:, k], fill)[:, first:] for k, fill in ((0, 0.0), (1, 1.0)))
        return replace(base, mean=np.ascontiguousarray(mean), variance=np.ascontiguousarray(variance))
    if state.table is not None:
        used = max(_count_used_rows(state.table), min(columns, len(state.table)))
        weights = state.table[first:used]
        base = base if (scales := base.scales) is None else base.with_scales(scales[: len(weights)])
        return replace(base, mean=np.ascontiguousarray(weights[:, 0].T), variance=np.ascontiguousarray(weights[:, 1].T))
    if state.weights is not None:
        mean = np.ascontiguousarray(state.weights[first:].T)
        return replace(base, mean=mean, variance=np.ones_like(mean))
    if state.mean is not None and state.sigma is not None:
        sigma = complete_both_triangles(state.sigma)
        if first:
            place = np.arange(sigma.shape[1] // state.mean.shape[1]) * state.mean.shape[1]
            sigma = np.delete(np.delete(sigma, place, axis=1), place, axis=2)
        return replace(base, mean=np.ascontiguousarray(state.mean[:, first:]), covariance=sigma)
    return base


def _with_stream_baselines(model: Classifier, state: LearnerState) -> Classifier:
    """Return the classifier with the nearest centroid of its stream, and its predictions of the held-out examples.

    Of a continued model, the first held-out examples may be older than the sums.
    """
    found = state.centroids
    if found is None:
        return model
    columns = state.columns if model.bits else None
    model = replace(model, baselines=running_centroids.model_baselines(found, model.features, columns))
    if model.holdout is None:
        return model
    predictions = np.full((len(state.label), 2), UNKNOWN)
    predictions[len(predictions) - len(found.predictions) :, 0] = found.predictions
    return replace(model, holdout=replace(model.holdout, baselines=predictions))


def _add_feature_sizes(base: Classifier, state: LearnerState, first: int) -> Classifier:
    """Return the classifier with sizes of features: one for each weight, or for each dimension of the support vectors."""
    assert state.sizes is not None
    if state.columns is not None and base.bits:
        return base.with_scales(compact_features.columns_from_table_rows(state, state.sizes).T[first:])
    if state.columns is not None:
        return base.with_scales(compact_features.scatter_columns(state, state.sizes, 0.0).T[first:])
    lengths = [len(each) for each in (state.table, state.weights) if each is not None]
    width = lengths[0] if lengths else state.mean.shape[1] if state.mean is not None else base.columns + first
    return base.with_scales(np.pad(state.sizes[:width], ((0, max(0, width - len(state.sizes))), (0, 0)))[first:])


def _count_used_rows(table: Array) -> int:
    """Return the number of rows of a table up to the last one that learning may have changed, without spare capacity."""
    touched = np.flatnonzero((table[:, 0] != 0).any(axis=1) | (table[:, 1] != 1).any(axis=1))
    return max(2, int(touched[-1]) + 1 if len(touched) else 2)
