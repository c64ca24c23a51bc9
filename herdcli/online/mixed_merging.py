"""Conversion of models of shards whose races chose different learners to a common form, so that they can be merged.

A diagonal covariance is a full one without off-diagonal entries, so models of both kinds are merged by precision.  Models with and
without variances, or with different multiclass forms, have no common evidence.  Their calibrated scores are averaged instead, weighted by
examples: the log odds of model k are about c_k μ_k·x, with c_k = g_k / √(1 + v̄_k), v̄_k the mean variance of its held-out scores and g_k
the scale of its confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from herdcli.online.learners.algorithm_table import TABLE
from herdcli.online.model import Classifier, Settings
from herdcli.schema import Array

MOST_COLUMNS = 1000  # a diagonal covariance is converted to a full one for at most this many columns
NORMAL_TO_LOGISTIC = 1.702  # Φ(x) is about 1 / (1 + exp(−1.702 x)) (Camilli 1994)


def learners_differ(models: Sequence[Classifier]) -> bool:
    """Return whether only some classifiers have variances, or their multiclass forms differ."""
    if any(model.machines or model.mean is None or model.settings.task != "classification" for model in models):
        return False
    orders = {TABLE[model.settings.algorithm].second_order for model in models}
    forms = {model.settings.multiclass for model in models if len(model.classes) > 2}
    return len(orders) > 1 or len(forms) > 1


def learner_names(models: Sequence[Classifier]) -> list[str]:
    """Return the distinct learners of the models, in order."""
    return list(
        dict.fromkeys(f"{model.settings.algorithm}{f' {model.settings.multiclass}' * (len(model.classes) > 2)}" for model in models)
    )


def with_calibrated_scores(models: Sequence[Classifier]) -> list[Classifier]:
    """Return the models with means in units of log odds, weighted by examples; their plain mean is the merged model.

    All get the learner of the model with the lowest progressive error, the first of equals, and a diagonal covariance.
    """
    best = min(range(len(models)), key=lambda k: (_progressive_error(models[k]), k))
    examples = np.array([max(model.running.examples, 1) for model in models], dtype=float)
    shares = examples / examples.mean()
    spreads = [_mean_variance(model) for model in models]
    scale = float(np.sqrt(1.0 + np.mean(spreads)))
    link = "logistic" if len(models[0].classes) == 2 else "softmax"
    found = []
    for model, share, spread in zip(models, shares.tolist(), spreads, strict=True):
        assert model.mean is not None
        slope = model.scale * (NORMAL_TO_LOGISTIC if model.link == "normal" else 1.0) / (1.0 + spread) ** 0.5
        made = replace(model, mean=share * slope * model.mean, variance=_weight_variances(model), covariance=None, scale=scale, link=link)
        found.append(replace(made, settings=_replace_learner(models[best].settings, model.settings)))
    return found


def _replace_learner(best: Settings, settings: Settings) -> Settings:
    """Return the settings of a model with the learner of another."""
    learner = {name: getattr(best, name) for name in ("algorithm", "C", "form", "loss", "multiclass", "dual", "always_update", "half_life")}
    return replace(settings, **learner, covariance="diagonal")


def _progressive_error(model: Classifier) -> float:
    running = model.running
    return running.wrong / running.seen if running.seen else 1.0


def _mean_variance(model: Classifier) -> float:
    """Return the mean variance of held-out scores; without them that for weights of variance 1."""
    if model.holdout is not None and model.holdout.variance.size:
        return float(model.holdout.variance.mean())
    return model.running.squares / max(model.running.examples, 1)


def _weight_variances(model: Classifier) -> Array:
    """Return the variance of each weight (C, d)."""
    assert model.mean is not None
    if model.variance is not None:
        return model.variance
    assert model.covariance is not None
    return np.ascontiguousarray(np.diagonal(model.covariance, axis1=1, axis2=2).reshape(model.mean.shape))


def with_common_covariances(models: Sequence[Classifier]) -> Sequence[Classifier]:
    """Return the models with covariances of one kind: full if any is, up to MOST_COLUMNS, else the variances alone."""
    full = next((model for model in models if model.covariance is not None), None)
    if full is None or all(model.covariance is not None for model in models) or any(model.machines for model in models):
        return models
    if max(model.columns for model in models) > MOST_COLUMNS:
        parts = [replace(model, variance=_weight_variances(model), covariance=None) for model in models]
        return [replace(model, settings=replace(model.settings, covariance="diagonal")) for model in parts]
    assert full.covariance is not None
    joint = full.covariance.shape[1] != full.columns
    return [model if model.covariance is not None else _with_full_covariance(model, joint=joint) for model in models]


def _with_full_covariance(model: Classifier, *, joint: bool) -> Classifier:
    """Return a model with its diagonal covariance as a full one.  joint  whether of all classes together."""
    variance = _weight_variances(model)
    covariance = np.diag(variance.ravel())[None] if joint else np.stack([np.diag(row) for row in variance])
    return replace(model, variance=None, covariance=covariance, settings=replace(model.settings, covariance="full"))
