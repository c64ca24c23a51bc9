"""Construction of the artifact from the best start: layers in the target's units, the linear model, deviances and dispersions."""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import run_algorithm
from herdcli.numerics.block_statistics import Map, RowTable
from herdcli.numerics.block_units import thin_rows
from herdcli.records import dataclass
from herdcli.regression import newton_cg, weight_meaning
from herdcli.regression.families import Family
from herdcli.regression.fit import NewtonDescent, RegressionProblem
from herdcli.regression.model import initial_coefficients
from herdcli.regression.perceptron.architecture import Architecture
from herdcli.regression.perceptron.model import PerceptronLayer
from herdcli.regression.perceptron.scaling import FitScaling
from herdcli.schema import Array

MOST_WORK = 2 * 10**7  # largest number of rows × coefficients for fitting the linear model
ITERATIONS = 100


@dataclass(frozen=True)
class FittedRows:
    """Rows X (n, D) with targets, offsets and weights (n,), in the units of the data."""

    X: Array
    y: Array
    offset: Array
    weight: Array | None

    def take(self, chosen: Array) -> FittedRows:
        """Return some of the rows."""
        return FittedRows(self.X[chosen], self.y[chosen], self.offset[chosen], None if self.weight is None else self.weight[chosen])


@dataclass(frozen=True)
class PredictionFigures:
    """Deviance Σ w d of predictors of rows, and Pearson's χ² divided by the number of observations."""

    deviance: float
    dispersion: float


def fitted_layers(architecture: Architecture, theta: Array, scaling: FitScaling) -> list[PerceptronLayer]:
    """Return the layers of θ (q,), with the last one in the target's units."""
    layers = [(W.copy(), b.copy()) for W, b in architecture.layers(theta)]
    scaling.original_units(layers[-1])
    return [PerceptronLayer(W=W, b=b) for W, b in layers]


def fit_linear_model(rows: FittedRows, family: Family, outputs: int, l2: float, scaling: FitScaling, map: Map = map) -> Array:
    """Return coefficients (K, D + 1) of scaled columns, the intercept last, with a ridge worth at least one row.

    For more rows than MOST_WORK allows, evenly spaced ones are used.
    """
    most = max(1000, MOST_WORK // (outputs * (rows.X.shape[1] + 1)))
    if len(rows.y) > most:
        rows = rows.take(thin_rows(np.ones(len(rows.y), dtype=bool), most))
    target, offset = (rows.y - scaling.middle) / scaling.spread, rows.offset / scaling.spread
    table = RowTable(np.column_stack([scaling.columns(rows.X), target, offset]), weight=rows.weight)
    problem = RegressionProblem(table, family, outputs, rows.X.shape[1], l2=max(l2, 1.0 / len(rows.y)))
    theta = (
        run_algorithm(newton_cg.large_descent(problem, initial_coefficients(problem, map), ITERATIONS, map, None)).theta * scaling.spread
    )
    theta[:, -1] += scaling.middle
    return np.asarray(theta)


def fit_intercepts(rows: FittedRows, family: Family, outputs: int, map: Map = map) -> Array:
    """Return the intercepts (K,) of the model of intercepts alone."""
    table = RowTable(np.column_stack([rows.y, rows.offset]), weight=rows.weight)
    alone = RegressionProblem(table, family, outputs, 0)
    return np.asarray(run_algorithm(NewtonDescent(alone, initial_coefficients(alone, map), map=map)).theta[:, 0].copy())


def prediction_figures(rows: FittedRows, family: Family, eta: Array, weight_kind: str) -> PredictionFigures:
    """Return deviance and dispersion of predictors η (n, K) of rows, offsets included."""
    weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
    deviance = float(weight @ family.deviance(eta, rows.y))
    if not family.dispersed:
        return PredictionFigures(deviance, 1.0)
    _, slope, curve = family.terms(eta, rows.y)
    pearson = float(weight @ (slope[:, 0] ** 2 / np.maximum(curve[:, 0], 1e-300)))
    count = weight_meaning.observation_count(weight_kind, int(np.count_nonzero(weight)), float(weight.sum()))
    return PredictionFigures(deviance, max(pearson / count, 1e-300))
