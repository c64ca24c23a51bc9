"""Construction of the artifact from the best start: layers in the target's units, the linear model, deviances and dispersions."""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Map, run_algorithm
from herdcli.numerics.block_statistics import BLOCK, ArrayRows
from herdcli.records import dataclass
from herdcli.regression import weight_meaning
from herdcli.regression.families import Family
from herdcli.regression.fit import NewtonDescent, RegressionProblem
from herdcli.regression.model import initial_coefficients
from herdcli.regression.perceptron.architecture import Architecture
from herdcli.regression.perceptron.model import Perceptron, PerceptronLayer
from herdcli.regression.perceptron.scaling import FitScaling, FittedRows
from herdcli.schema import Array


@dataclass(frozen=True)
class PredictionStatistics:
    """Deviance Σ w d of predictors of rows, and Pearson's χ² divided by the number of observations."""

    deviance: float
    dispersion: float


def fitted_layers(architecture: Architecture, theta: Array, scaling: FitScaling) -> list[PerceptronLayer]:
    """Return the layers of θ (q,), with the last one in the target's units."""
    layers = [(W.copy(), b.copy()) for W, b in architecture.layers(theta)]
    scaling.convert_layer_to_original_units(layers[-1])
    return [PerceptronLayer(W=W, b=b) for W, b in layers]


def fit_intercepts(rows: FittedRows, family: Family, outputs: int, map: Map = map) -> Array:
    """Return the intercepts (K,) of the model of intercepts alone."""
    table = ArrayRows(np.column_stack([rows.y, rows.offset]), weight=rows.weight)
    alone = RegressionProblem(table, family, outputs, 0)
    return np.asarray(run_algorithm(NewtonDescent(alone, initial_coefficients(alone, map), map=map)).theta[:, 0].copy())


def prediction_statistics(value: Perceptron, rows: FittedRows) -> list[PredictionStatistics]:
    """Return deviance and dispersion of the perceptron, of its linear model and of its intercepts alone on rows."""
    family, count = value.distribution(), rows.X.shape[0]
    sums = np.zeros((3, 2))
    weight = np.ones(count) if rows.weight is None else rows.weight
    for start in range(0, count, BLOCK):
        part = slice(start, start + BLOCK)
        y, offset = rows.y[part], rows.offset[part]
        etas = *value.both_predictors(rows.X[part], offset), value.null_intercept + offset[:, None]
        for place, eta in enumerate(etas):
            sums[place, 0] += weight[part] @ family.deviance(eta, y)
            if family.dispersed:
                _, slope, curve = family.loss_and_derivatives(eta, y)
                sums[place, 1] += weight[part] @ (slope[:, 0] ** 2 / np.maximum(curve[:, 0], 1e-300))
    observations = weight_meaning.observation_count(value.weight_kind, int(np.count_nonzero(weight)), float(weight.sum()))
    return [
        PredictionStatistics(float(deviance), max(float(pearson) / observations, 1e-300) if family.dispersed else 1.0)
        for deviance, pearson in sums
    ]
