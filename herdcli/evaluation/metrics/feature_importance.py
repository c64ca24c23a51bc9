"""The most important features of a linear model, by name, with the uncertainty of their weights.

Weights are those that the model stores; with `--scale online` they belong to features in units of their mean size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.records import dataclass
from herdcli.schema import Array

if TYPE_CHECKING:
    from herdcli.online.model import Classifier
    from herdcli.regression.model import GeneralisedLinear


@dataclass(frozen=True)
class FeatureWeight:
    """The weight of a feature for a class ("" if there is one predictor), and its standard deviation if that is known."""

    towards: str
    feature: str
    weight: float
    deviation: float | None


def most_important_weights(kind: str, value: Classifier | GeneralisedLinear, count: int) -> list[FeatureWeight]:
    """Return the `count` largest weights of each predictor, the largest first.  Raises BadUsage for other kinds, DataError for kernels."""
    if kind in ("classifier", "predictor", "tagger"):
        return _classifier_weights(value, count)  # type: ignore[arg-type]
    if kind == "regression":
        return _regression_weights(value, count)  # type: ignore[arg-type]
    raise BadUsage(
        f"--top shows the weights of features, but artifacts of kind '{kind}' have none", hint="use --top with a classifier or a regression"
    )


def _classifier_weights(value: Classifier, count: int) -> list[FeatureWeight]:
    mean, deviation = weight_moments(value)
    if not value.classes:
        return _largest_weights([""], mean, None if deviation is None else value.scale * deviation, column_namer(value), count)
    towards = [f"{value.classes[1]} against {value.classes[0]}"] if len(mean) == 1 and len(value.classes) == 2 else list(value.classes)
    return _largest_weights(towards, mean, deviation, column_namer(value), count)


def _regression_weights(value: GeneralisedLinear, count: int) -> list[FeatureWeight]:
    K = len(value.coefficients)
    towards = [""] if K == 1 else list(value.classes or ())[-K:]
    known = value.feature_names
    names = (lambda index: f"column {index}") if known is None else (lambda index: known[index])
    return _largest_weights(towards, value.coefficients, value.standard_error[:, :-1], names, count)


def _largest_weights(
    towards: list[str], mean: Array, deviation: Array | None, names: Callable[[int], str], count: int
) -> list[FeatureWeight]:
    found = []
    for k, name in enumerate(towards):
        for i in largest_weight_indices(mean[k], count).tolist():
            sure = None if deviation is None or np.isnan(deviation[k, i]) else float(deviation[k, i])
            found.append(FeatureWeight(name, names(i), float(mean[k, i]), sure))
    return found


def largest_weight_indices(mean: Array, count: int) -> Array:
    """Return the indices of the `count` largest nonzero |weights| (d,), the largest first."""
    order = np.argsort(-np.abs(mean), kind="stable")[:count]
    return np.asarray(order[mean[order] != 0])


def weight_moments(value: Classifier) -> tuple[Array, Array | None]:
    """Return means (C, d) of the weights without the bias, and their standard deviations if known.  Raises DataError for kernels."""
    if value.mean is None:
        raise DataError("has no weights for features because it is a kernel classifier", hint="train a model without --kernel")
    first = int(value.settings.bias)
    return value.mean[:, first:], None if value.variance is None else np.sqrt(value.variance[:, first:])


def column_namer(value: Classifier) -> Callable[[int], str]:
    """Return the names of columns without the bias: the name itself, the one it was hashed from, else its number."""
    if value.feature_names is not None:
        known = value.feature_names
        return lambda index: known[index]
    if value.hash_index is not None and value.hash_names is not None:
        hashed = dict(zip(value.hash_index.tolist(), value.hash_names, strict=True))
        bias = int(value.settings.bias)
        return lambda index: hashed.get(index + bias, f"column {index}")
    base = 0 if value.text != "svmlight" or value.zero_based else 1
    return lambda index: f"feature {index + base}"
