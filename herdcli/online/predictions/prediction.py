"""Predictions of a classifier for new examples: scores, classes, and calibrated confidences.

The weights are N(μ, Σ), so a margin is N(m, v) and positive with probability Φ(m/√v).  v does not include the noise in the
labels, so 1 is added to it and one scale g is fitted on held-out margins.  The confidence is F(g m / √(1 + v)), with F the normal or the
logistic distribution.  For several classes the softmax of scores g s / √(1 + v̄) is another candidate, with v̄ the mean variance of a
row's scores, so that the temperature differs from row to row.  The candidate with the highest held-out likelihood is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from herdcli import fast
from herdcli.online.example_blocks import ExampleBlock, apply_scales, prepare_block
from herdcli.online.learners.full_covariance import write_full_scores
from herdcli.online.learners.kernel_learner import write_kernel_scores
from herdcli.online.model import LINKS, Classifier
from herdcli.online.normal_distribution import log_normal_cdf, normal_cdf
from herdcli.schema import Array

LOWEST, HIGHEST = 1e-4, 1e4  # bounds of the scale g in units of the margins' size


def make_scorer(model: Classifier) -> Callable[[ExampleBlock], tuple[Array, Array]]:
    """Return a function from a block to scores and variances (n, C) under a model.

    Features that the model never saw have mean 0 and variance 1.
    """
    settings = model.settings
    first = 0 if settings.bias else 1
    table = _scale_table(model, first) if model.variance is not None else None
    sizes = _feature_scales(model, first)

    def scores(block: ExampleBlock) -> tuple[Array, Array]:
        nonlocal table
        block = _transform(model, block, sizes)
        score, variance = np.zeros((block.rows, model.count)), np.zeros((block.rows, model.count))
        if table is not None:
            if block.width > len(table):
                wide = np.zeros((block.width, 2, model.count))
                wide[:, 1] = 1.0
                wide[: len(table)] = table
                table = wide
            fast.linear_scores(table, block.pointer, block.index, block.value, score, variance)
        elif model.machines:
            width = max(block.width, model.columns)
            write_kernel_scores(model.machines, settings, block.to_dense(width), score, variance)
        else:
            assert model.mean is not None
            assert model.covariance is not None
            known = block.drop_features_beyond(model.columns + first)
            write_full_scores(model.mean, model.covariance, known.to_dense(model.columns + first)[:, first:], score, variance)
            new = block.index >= model.columns + first
            rows = np.repeat(np.arange(block.rows), np.diff(block.pointer))[new]
            variance += np.bincount(rows, weights=block.value[new] ** 2, minlength=block.rows)[:, None]
        return score, np.maximum(variance, 0.0, out=variance)  # x'Σx is negative only by rounding

    return scores


def baseline_predictions(model: Classifier, block: ExampleBlock) -> Array | None:
    """Return the predictions (r, 2) of the model's baselines for the raw rows of a block; None without baselines."""
    if model.baselines is None:
        return None
    from scipy.sparse import csr_matrix

    return model.baselines.predictions(csr_matrix((block.value, block.index - 1, block.pointer), shape=(block.rows, block.width - 1)))


def transform_block(model: Classifier, block: ExampleBlock) -> ExampleBlock:
    """Return the block as multiplied with the model's weights: with bias, normalisation and scaling as in learning."""
    return _transform(model, block, _feature_scales(model, 0 if model.settings.bias else 1))


def _transform(model: Classifier, block: ExampleBlock, sizes: Array | None) -> ExampleBlock:
    block = prepare_block(block, normalize=model.settings.normalize, bias=model.settings.bias)
    return block if sizes is None else apply_scales(block, sizes)


def _feature_scales(model: Classifier, first: int) -> Array | None:
    """Return the scales of features, with `first` rows added in front; None without scaling."""
    scales = model.scales
    return None if scales is None else np.concatenate([np.zeros((first, scales.shape[1])), scales])


def _scale_table(model: Classifier, first: int) -> Array:
    assert model.mean is not None
    assert model.variance is not None
    table = np.zeros((model.columns + first, 2, model.count))
    table[:, 1] = 1.0
    table[first:, 0], table[first:, 1] = model.mean.T, model.variance.T
    return table


def predict_classes(score: Array) -> Array:
    """Return the class (n,) with the highest score; with one score per example, class 1 where it is positive."""
    return (score[:, 0] > 0).astype(np.int64) if score.shape[1] == 1 else score.argmax(axis=1)


def standard_margins(score: Array, variance: Array) -> Array:
    """Return m / √(1 + v) of each class relative to the best other one, (n, classes)."""
    if score.shape[1] == 1:
        one = score[:, 0] / np.sqrt(1.0 + variance[:, 0])
        return np.stack([-one, one], axis=1)
    order = np.argsort(score, axis=1)
    rows = np.arange(len(score))
    best, second = order[:, -1], order[:, -2]
    rival = np.where(np.arange(score.shape[1]) == best[:, None], second[:, None], best[:, None])
    margin = score - score[rows[:, None], rival]
    # The margin is the difference of two scores whose weights are taken to be independent, so their variances add up.
    return np.asarray(margin / np.sqrt(1.0 + variance + variance[rows[:, None], rival]))


def class_probabilities(score: Array, variance: Array, scale: float, link: str = "normal") -> Array:
    """Return P(class) (n, classes): F(g m / √(1 + v)) of each class, normalised to sum 1.

    For the logistic link, e^{g m / √(1 + v)} is normalised; for softmax, e^{g s / √(1 + v̄)}, with s the score of each class.
    """
    margin = link_input(score, variance, link)
    if link != "normal":
        return np.asarray(np.exp(_log_softmax(scale * margin)))
    # A score w·x ~ N(m, v) observed with noise N(0, 1) is positive with probability Φ(m/√(1 + v)); g is the one number by which
    # held-out examples correct it.  1e−300: with several classes all may be 0, and their sum is a divisor.
    found = normal_cdf(scale * margin) + 1e-300
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def link_input(score: Array, variance: Array, link: str) -> Array:
    """Return the unscaled argument of a confidence's link, (n, classes): margins, or scores (softmax)."""
    if link != "softmax":
        return standard_margins(score, variance)
    return np.asarray(score / np.sqrt(1.0 + variance.mean(axis=1, keepdims=True)))


def _log_softmax(logits: Array) -> Array:
    """Return log of e^z_k over their sum, (n, classes), without overflow."""
    rest = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(rest - np.log(np.exp(rest).sum(axis=1, keepdims=True)))


def fit_confidence_link(score: Array, variance: Array, y: Array) -> tuple[float, str]:
    """Return the scale g and the link with the highest likelihood on held-out examples (the first of equals).

    Softmax is only for several classes.
    """
    found = {link: _fit_scale_and_loss(score, variance, y, link) for link in LINKS if link != "softmax" or score.shape[1] > 1}
    link = min(found, key=lambda name: found[name][1])
    return found[link][0], link


def fit_confidence_scale(score: Array, variance: Array, y: Array, link: str = "normal") -> float:
    """Return the g with the highest likelihood on held-out examples, smoothed by one right and one wrong example to keep it finite."""
    return _fit_scale_and_loss(score, variance, y, link)[0]


def _fit_scale_and_loss(score: Array, variance: Array, y: Array, link: str) -> tuple[float, float]:
    """Return the scale of a link, and its smoothed loss.

    The likelihood of two classes is log-concave in g; the search is golden-section over log g.
    """
    margin = link_input(score, variance, link)
    # Only the product of g and the margins matters.  With margins in units of their size, the range of the search is wide enough for any g.
    unit = float(np.sqrt(np.mean(margin**2))) or 1.0
    margin = margin / unit
    rows, smooth = np.arange(len(y)), 1.0 / (len(y) + 2.0)

    def loss(log_scale: float) -> float:
        # log(Φ_k/Σ Φ), with the largest log Φ subtracted first: Φ of margins below −39 underflows to 0, but log Φ does not.
        scaled = np.exp(log_scale) * margin
        log_p = _log_softmax(log_normal_cdf(scaled) if link == "normal" else scaled)
        own = log_p[rows, y]
        return float(-((1 - smooth) * own + smooth * np.maximum(log_p, -700.0).mean(axis=1)).sum())

    best = _golden_section(loss, float(np.log(LOWEST)), float(np.log(HIGHEST)))
    return float(np.exp(best)) / unit, loss(best)


def _golden_section(f: Callable[[float], float], low: float, high: float, tolerance: float = 1e-6) -> float:
    """Return the minimum of a unimodal function."""
    # With r² = 1 − r one of the two inner points of an interval is an inner point of the next one: one evaluation per step.
    ratio = (5**0.5 - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    fa, fb = f(a), f(b)
    while high - low > tolerance:
        if fa <= fb:
            high, b, fb = b, a, fa
            a = high - ratio * (high - low)
            fa = f(a)
        else:
            low, a, fa = a, b, fb
            b = low + ratio * (high - low)
            fb = f(b)
    return (low + high) / 2


def calibrate_confidence(model: Classifier) -> Classifier:
    """Return the model with its scale fitted on the calibration part of its held-out scores, if it has any."""
    if model.holdout is None or not (chosen := model.holdout.split == 1).any():
        return model
    held = model.holdout
    scale, link = fit_confidence_link(held.score[chosen], held.variance[chosen], held.y[chosen])
    return replace(model, scale=scale, link=link)
