"""The figures of several folds of cross-validation: their mean, and its standard error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from herdcli.evaluation import verdicts
from herdcli.evaluation.report import figure_relations as relations

if TYPE_CHECKING:
    from herdcli.evaluation.table import Row

NOT_AVERAGED = ("fold", "kind", "verdict")
ERROR_FIGURES = ("error", "rmse")  # figures of predictions, which the closing line always has
HIGHER, LOWER = ("log_likelihood", "log_likelihood_bound"), ("error", "rmse", "squared_error", "hamming", "perplexity")  # better values
_ENDS = {end for ends in relations.INTERVALS.values() for end in ends}
_ERRORS = {error for own, error in relations.ERRORS.items() if own != error} | {"gaussian_gain_se", "linear_gain_se", "error_gain_se"}


def fold_means_and_errors(rows: Sequence[Row]) -> tuple[Row, Row]:
    """Return the mean of each figure over K folds, and its standard error: the standard deviation (K − 1 in the denominator) over √K.

    Standard errors and ends of intervals of single folds have no mean.  A figure that some fold lacks is left out.
    """
    mean: Row = {}
    error: Row = {}
    for name in rows[0]:
        values = [row.get(name) for row in rows]
        if name in NOT_AVERAGED or name in _ENDS or name in _ERRORS or not all(map(_is_number, values)):
            continue
        numbers = np.array(values, dtype=np.float64)
        mean[name] = float(numbers.mean())
        error[name] = float(numbers.std(ddof=1) / math.sqrt(len(numbers)))
    return mean, error


def comparison(rows: Sequence[Row], name: str, baseline: str) -> str:
    """Return how the mean of a figure over the folds compares with that of its baseline: the overall verdict.

    The differences of the folds have a mean and a standard error; a mean within `verdicts.ERRORS` of it is no difference.  An empty text
    for figures of which neither higher nor lower values are better.
    """
    if name not in HIGHER + LOWER:
        return ""
    values, others = (np.array([row[each] for row in rows], dtype=np.float64) for each in (name, baseline))
    gains = (values - others) * (1.0 if name in HIGHER else -1.0)
    gain, error = float(gains.mean()), float(gains.std(ddof=1) / math.sqrt(len(gains)))
    if abs(gain) <= verdicts.ERRORS * error:
        return "no clear difference from"
    return "better than" if gain > 0 else "worse than"


def main_metric_names(rows: Sequence[Row], mean: Row) -> list[str]:
    """Return the averaged figures that vary between folds, or are baselines, in order of interest."""
    varied = [name for name in mean if any(row[name] != rows[0][name] for row in rows)]
    return [name for name in relations.sort_by_interest(varied) if name in varied]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
