"""The metrics of `herd eval` for a perceptron: its predictions of held-out rows, compared with the mean response and a linear model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from herdcli.algorithm import Map
from herdcli.evaluation import verdicts
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures import regression
from herdcli.evaluation.table import Value
from herdcli.numerics import block_statistics
from herdcli.regression.family_table import TABLE
from herdcli.regression.perceptron.model import Perceptron, PerceptronHeldoutRows

LINEAR = "worse than a linear model"


def metrics(
    value: Perceptron, settings: EvaluationSettings, *, map: Map = map, progress: Callable[[int, int], None] | None = None
) -> dict[str, Value]:
    """Return the held-out log-likelihood (nats per row), those of the mean response and of a linear model, and the verdict.

    independent           the log-likelihood under the training rows' mean response.
    gain_se               standard error of the log-likelihood minus `independent`.
    log_likelihood_linear that of a linear model of the same columns, fitted with a small ridge penalty to the same rows.
    linear_gain_se        standard error of the log-likelihood minus `log_likelihood_linear`, over the same rows.
    rmse_linear           root mean square error of the linear model's means.
    """
    found: dict[str, Value] = {
        "family": value.family,
        "hidden": ",".join(str(size) for size in value.hidden),
        "parameters": value.parameters,
        "train_explained": regression.deviance_explained(value.deviance, value.null_deviance),
        "converged": int(value.converged),
    }
    held = regression.heldout_rows(value, map)
    if held is None:
        return found | {"verdict": regression.regression_verdict(value, found)}
    figures, discordant = regression.heldout_columns(held, map)
    found |= figures
    found |= _linear_model_columns(value, held, map)
    wrong = verdicts.split_findings(regression.regression_verdict(value, found, discordant))
    if is_worse_than_linear(found) and LINEAR not in wrong:
        places = [number for number, finding in enumerate(wrong) if finding in ("worse than the mean", "learned nothing")]
        wrong.insert(len(places), LINEAR)
    return found | {"verdict": verdicts.join_findings(wrong)}


def is_worse_than_linear(row: dict[str, Value]) -> bool:
    """Return whether the log-likelihood is below that of the linear model by more than the standard error of their difference."""
    own, linear, error = (row.get(name) for name in ("log_likelihood", "log_likelihood_linear", "linear_gain_se"))
    if not isinstance(own, float) or not isinstance(linear, float):
        return False
    return own + (error if isinstance(error, float) else 0.0) < linear


def _linear_model_columns(value: Perceptron, evaluated: regression.EvaluatedRegression, map: Map) -> dict[str, Value]:
    """Return the columns of the linear model on the same rows."""
    family = value.distribution()

    def sums(held: PerceptronHeldoutRows) -> block_statistics.Sums:
        weight, y, one = regression.row_weights(held), held.y, np.ones(len(held.y))
        share = weight / evaluated.mass
        own = regression.row_log_likelihoods(value, held.predictor, y, value.dispersion, one, weight)
        linear = regression.row_log_likelihoods(value, held.linear, y, value.linear_dispersion, one, weight)
        square = share / evaluated.mass if value.weight_kind == "frequency" else share * share
        gain = own - linear
        found = {"rows": np.count_nonzero(weight), "log_likelihood": share @ own, "independent": share @ linear}
        found |= {"gains": square @ gain, "gain_squares": square @ gain**2, "squares": square.sum()}
        if not TABLE[value.family].classes:
            found["square"] = share @ (family.mean(held.linear)[:, 0] - y) ** 2
        return {name: np.array([float(item)]) for name, item in found.items()}

    total = {name: float(item[0]) for name, item in block_statistics.sum_statistics(evaluated.source, sums, map).items()}
    found: dict[str, Value] = {
        "log_likelihood_linear": total["independent"],
        "linear_gain_se": regression.standard_error_of_gain(total),
    }
    return found | ({"rmse_linear": float(np.sqrt(total["square"]))} if "square" in total else {})
