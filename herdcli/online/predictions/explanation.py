"""Explanation of one prediction: the terms x_i w_i of its score, with their standard deviations."""

from __future__ import annotations

import numpy as np

from herdcli.errors import DataError
from herdcli.online.example_blocks import ExampleBlock
from herdcli.online.model import Classifier
from herdcli.online.predictions.prediction import make_scorer, transform_block
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class ScoreTerms:
    """The terms of a score: that of class `towards` less that of the best other class `against`.

    For regression they are the terms of the prediction (both classes −1).
    index (k,)      of the features, from 0; −1 is the bias.      value (k,)  of the features after scaling.
    weight (k,)     μ, or the difference of two.      deviation (k,)  standard deviation of the contribution value · weight.
    score, spread   the total, and its standard deviation.
    """

    towards: int
    against: int
    index: Array
    value: Array
    weight: Array
    deviation: Array
    score: float
    spread: float

    @property
    def contributions(self) -> Array:
        """The contributions x_i w_i (k,), which add up to the score up to rounding."""
        return np.asarray(self.value * self.weight)


def explain_score(model: Classifier, block: ExampleBlock) -> ScoreTerms:
    """Return the terms of the score of the single example of a block.

    Raises DataError for kernels, which have no weights of features.
    """
    if model.mean is None:
        raise DataError("has no weights for features because it is a kernel classifier", hint="train a model without --kernel")
    score, variance = make_scorer(model)(block)
    seen = transform_block(model, block)
    index, place = np.unique(seen.index, return_inverse=True)
    value = np.bincount(place, weights=seen.value, minlength=len(index))
    column = index.astype(np.int64) - (0 if model.settings.bias else 1)
    if model.count == 1:
        sign = 1.0 if model.settings.task == "regression" or score[0, 0] > 0 else -1.0
        top, other = (-1, -1) if model.settings.task == "regression" else (1, 0) if sign > 0 else (0, 1)
        weight, spread2 = sign * _weights_by_column(model.mean[0], column, 0.0), _weight_variances(model, column, 0)
        total, whole2 = sign * score[0, 0], variance[0, 0]
    else:
        other, top = np.argsort(score[0], kind="stable")[-2:].tolist()
        weight = _weights_by_column(model.mean[top], column, 0.0) - _weights_by_column(model.mean[other], column, 0.0)
        # The weights of two classes are taken to be independent, so the variances of their difference add up.
        spread2 = _weight_variances(model, column, top) + _weight_variances(model, column, other)
        total, whole2 = score[0, top] - score[0, other], variance[0, top] + variance[0, other]
    unit = model.scale if model.settings.task == "regression" else 1.0
    deviation = unit * np.abs(value) * np.sqrt(spread2)
    return ScoreTerms(top, other, index.astype(np.int64) - 1, value, weight, deviation, float(total), unit * float(np.sqrt(whole2)))


def _weights_by_column(weights: Array, column: Array, default: float) -> Array:
    """Return entries of weights (d,) by column; `default` for features that the model never saw."""
    known = column < len(weights)
    return np.asarray(np.where(known, weights[np.where(known, column, 0)], default))


def _weight_variances(model: Classifier, column: Array, class_index: int) -> Array:
    """Return the variances (k,) of a class's weights."""
    if model.variance is not None:
        return _weights_by_column(model.variance[class_index], column, 1.0)
    assert model.covariance is not None
    own = np.diagonal(model.covariance, axis1=1, axis2=2).reshape(model.count, -1)
    return _weights_by_column(own[class_index], column, 1.0)
