"""The linear model that a perceptron is compared with, fitted to the same rows, and a perceptron that starts as this model.

A hidden unit with small weights is linear: ψ(εz) ≈ ψ(0) + ψ'(0) ε z.  So one unit of each layer passes a predictor of the linear model
on, and the last layer divides by ε ψ'(0).  A pair of rectified units does so exactly: z = max(z, 0) − max(−z, 0).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from herdcli.algorithm import Algorithm, Map, run_algorithm
from herdcli.numerics.block_statistics import ArrayRows
from herdcli.records import dataclass
from herdcli.regression.fit import NewtonDescent, RegressionFit, RegressionProblem
from herdcli.regression.newton_cg import TrustRegion, TrustRegionState
from herdcli.regression.perceptron.architecture import Architecture
from herdcli.regression.perceptron.minibatches import BatchSettings, MinibatchDescent, batch_columns
from herdcli.regression.perceptron.problem import PerceptronProblem, ValidationRows
from herdcli.regression.perceptron.scaling import ScaledRows
from herdcli.schema import Array, Matrix

MOST_WORK = 2 * 10**7  # every step uses all rows if rows × coefficients are at most this many
MOST_WORK_BATCHES = 10**6  # the same limit if the perceptron is fitted by minibatches
ITERATIONS = 100
LEAST_GAIN = 1e-5  # nats per row, far below the standard errors that models are compared with
EPOCHS, UPDATES, BATCH, RATE = 3, 1000, 200, 2e-3  # of minibatches: least number of epochs, approximate number of updates, rows, rate
MOST_EPOCHS = 100
SMALL, SMALLER = 0.02, 0.002  # size of the first layer's weights that start as a linear model; the latter where ψ''(0) is not 0


@dataclass(frozen=True)
class ApproximateTrustRegion(TrustRegion):
    """The trust-region descent to a loss that no step lowers by LEAST_GAIN."""

    def has_converged(self, state: TrustRegionState) -> bool:
        """Return whether no step gains LEAST_GAIN."""
        return np.isfinite(state.objective) and state.foreseen <= LEAST_GAIN * max(1.0, abs(state.objective))


def fit_linear_model(
    problem: PerceptronProblem, rows: ScaledRows, start: Array, map: Map = map, columns: Matrix = None, dtype: str = "float32"
) -> Array:
    """Return coefficients (K, D + 1) of scaled rows, the intercept last, with a ridge worth at least one row.

    start    (K,) intercepts.
    columns  rows as of `batch_columns`, if they exist already.
    dtype    type of the products of minibatches.
    """
    l2, count = max(problem.l2, 1.0 / rows.count), problem.outputs * (problem.features + 1)
    if rows.count * count > (MOST_WORK if columns is None else MOST_WORK_BATCHES):
        stored = batch_columns(rows, dtype) if columns is None else columns
        return _fit_by_minibatches(replace(problem, l2=l2), rows, start, stored, dtype)
    table = problem.rows if isinstance(problem.rows, ArrayRows) else rows.scaled_copy()
    linear = RegressionProblem(table, problem.family, problem.outputs, problem.features, l2=l2)
    theta = np.zeros((problem.outputs, problem.features + 1))
    theta[:, -1] = start
    descent: Algorithm[Any, RegressionFit] = (
        NewtonDescent(linear, theta, ITERATIONS, map=map)
        if problem.family.name == "gaussian"
        else ApproximateTrustRegion(linear, theta, ITERATIONS, map=map)
    )
    return run_algorithm(descent).theta


def _fit_by_minibatches(problem: PerceptronProblem, rows: ScaledRows, start: Array, columns: Matrix, dtype: str) -> Array:
    """Return the coefficients by a few epochs of Adam: a perceptron without hidden layers."""
    shape = Architecture((problem.features, problem.outputs), problem.architecture.activation)
    batch = min(BATCH, max(1, rows.count // 50))
    epochs = min(max(EPOCHS, UPDATES * batch // rows.count), MOST_EPOCHS)
    settings = BatchSettings("adam", epochs, batch, RATE, 0.0, 0, 0, dtype)
    theta = np.append(np.zeros(problem.outputs * problem.features), start)
    alone = replace(problem, architecture=shape)
    descent: Any = MinibatchDescent(alone, rows, columns, theta, settings, ValidationRows(None, problem.family), 0)
    return np.column_stack(shape.layers(run_algorithm(descent).theta)[0])


def can_represent_linear_model(architecture: Architecture) -> bool:
    """Return whether every hidden layer has enough units to pass on the predictors of a linear model."""
    needed = architecture.widths[-1] * (2 if architecture.activation_function.rectified else 1)
    return min(architecture.widths[1:-1]) >= needed


def initialise_from_linear_model(architecture: Architecture, theta: Array, linear: Array) -> Array:
    """Return parameters (q,) that give nearly the predictors of linear (K, D + 1).  theta  (q,) random ones, for the other units."""
    found, slope, level = theta.copy(), 1.0, 0.0
    layers, beta = architecture.layers(found), linear[:, :-1]
    if architecture.activation_function.rectified:
        beta, size = np.concatenate([beta, -beta]), np.ones(len(beta))
    else:
        at = np.zeros((1, 1))
        value = architecture.activation_function.value(at)
        level, slope = float(value[0, 0]), float(architecture.activation_function.slope(at, value)[0, 0])
        small = SMALLER if architecture.activation_function.curvature(at, value)[0, 0] else SMALL
        size = small / np.maximum(np.linalg.norm(beta, axis=1), small)
        beta = beta * size[:, None]
    used = len(beta)
    for number, (W, b) in enumerate(layers[:-1]):
        W[:used], b[:used] = 0.0, 0.0
        if number == 0:
            W[:used] = beta
        else:
            W[:used, :used] = np.eye(used) / slope
            b[:used] = -level / slope
    W, b = layers[-1]
    W[:] = 0.0
    out = np.diag(1 / (size * slope))
    W[:, :used] = np.hstack([out, -out]) if architecture.activation_function.rectified else out
    b[:] = linear[:, -1] - W[:, :used].sum(axis=1) * level
    return found
