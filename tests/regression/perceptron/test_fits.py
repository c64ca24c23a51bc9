"""Fits of perceptrons: minima of the trust region, updates of minibatches, early stopping, starts, and states that go on."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from scipy.optimize import minimize

from herdcli import rng
from herdcli.algorithm import run_algorithm
from herdcli.numerics.block_statistics import RowBlocks, RowTable, total_statistics
from herdcli.regression.families import family_by_name
from herdcli.regression.perceptron.architecture import Architecture
from herdcli.regression.perceptron.early_stopping import BestParameters, look, waited
from herdcli.regression.perceptron.minibatches import BatchSettings, MinibatchDescent
from herdcli.regression.perceptron.problem import PerceptronGradient, PerceptronProblem, Validation
from herdcli.regression.perceptron.restarts import RestartedFit
from herdcli.regression.perceptron.scaling import find_scaling
from herdcli.regression.perceptron.trust_region import PerceptronDescent, PerceptronRegion

N, D = 60, 3


def rows(seed: int = 0, count: int = N) -> RowTable:
    """Rows whose target is a bent function of the columns."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(count, D))
    y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * random.normal(size=count)
    return RowTable(np.column_stack([X, y, np.zeros(count)]), weight=random.uniform(0.5, 1.5, count))


def problem(l2: float = 0.01, activation: str = "tanh") -> PerceptronProblem:
    shape = Architecture((D, 4, 1), activation)
    return PerceptronProblem(rows(), family_by_name("gaussian"), 1, D, l2=l2, architecture=shape)


def objective(given: PerceptronProblem, theta: np.ndarray) -> tuple[float, np.ndarray]:
    sums = total_statistics(RowBlocks(given.rows), PerceptronGradient(given, theta[None]))
    mass = sums["mass"][0]
    return sums["loss"][0] / mass + given.penalty(theta), sums["gradient"][0] / mass + given.l2 * given.penalised * theta


NONE = Validation(None, family_by_name("gaussian"))


def descent(given: PerceptronProblem, validation: Validation = NONE, patience: int = 0, restart: int = 0) -> PerceptronDescent:
    start = given.architecture.initial(0, restart, np.zeros(1))[None]
    return PerceptronDescent(PerceptronRegion(given, start, 500), validation, patience, restart)


def test_small_problems_are_fitted_to_a_minimum():
    given = problem()
    fit = run_algorithm(descent(given))
    value, gradient = objective(given, fit.theta)
    assert fit.converged
    assert np.abs(gradient).max() < 1e-7
    assert np.isclose(fit.loss, value)
    # from there no other program gains anything either
    other = minimize(lambda theta: objective(given, theta), fit.theta, jac=True, method="BFGS", options={"gtol": 1e-9})
    assert value - other.fun < 1e-10
    assert (np.diff(fit.trace) <= 1e-14).all()


def test_the_best_parameters_on_validation_rows_are_kept():
    given = problem(l2=0.0)
    validation = Validation(rows(seed=5, count=40), given.family)
    fit = run_algorithm(descent(given, validation, patience=4))
    assert fit.loss == fit.losses.min() == validation.loss(given, fit.theta[None])
    assert len(fit.losses) == len(fit.trace) == np.argmin(fit.losses) + 5
    assert fit.converged


def test_looks_without_validation_rows_keep_the_last():
    best = BestParameters(theta=np.zeros(2), losses=np.zeros(0))
    look(best, np.ones(2), float("nan"))
    assert best.theta.tolist() == [1, 1]
    assert not waited(best, 1)
    best = BestParameters(theta=np.zeros(1), losses=np.zeros(0))
    for loss in (2.0, 1.0, 1.5, float("nan")):
        look(best, np.array([loss]), loss)
    assert best.theta.tolist() == [1.0]
    assert waited(best, 2)
    assert not waited(best, 3)
    assert not waited(best, 0)


def by_hand(given: PerceptronProblem, settings: BatchSettings, epochs: int) -> np.ndarray:
    """Adam and momentum as their papers have them, with whole gradients of batches as problems of their own."""
    theta, table = given.architecture.initial(settings.seed, 0, np.zeros(1)), given.rows
    m, v, t = np.zeros_like(theta), np.zeros_like(theta), 0
    for epoch in range(epochs):
        order = rng.generator(settings.seed, rng.Stream.SHUFFLE, unit=0, step=epoch).permutation(N)
        for begin in range(0, N, settings.batch_size):
            chosen = order[begin : begin + settings.batch_size]
            batch = RowTable(table.X[chosen], weight=table.weight[chosen])
            g = PerceptronGradient(given, theta[None])(batch.read(0, len(chosen)))["gradient"][0] / len(chosen) / table.weight.mean()
            g = g + given.l2 * given.penalised * theta
            t += 1
            if settings.optimizer == "sgd":
                m = settings.momentum * m - settings.learning_rate * g
                theta = theta + m
                continue
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            theta = theta - settings.learning_rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return theta


def minibatches(given: PerceptronProblem, settings: BatchSettings, restart: int = 0, validation: Validation = NONE) -> MinibatchDescent:
    table, start = given.rows, given.architecture.initial(settings.seed, restart, np.zeros(1))
    X = np.ascontiguousarray(table.X[:, :D], dtype=settings.dtype)
    return MinibatchDescent(given, X, table.X[:, D].copy(), table.X[:, -1].copy(), table.weight, start, settings, validation, restart)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_updates_are_those_of_the_papers(optimizer):
    given, settings = problem(), BatchSettings(optimizer, 3, 16, 0.01, 0.9, 0, seed=4)
    fit = run_algorithm(minibatches(given, settings))
    assert np.allclose(fit.theta, by_hand(given, settings, 3), rtol=1e-10, atol=1e-13)
    assert len(fit.trace) == 3


def test_single_precision_is_near_double():
    given = problem()
    double, single = (
        run_algorithm(minibatches(given, BatchSettings("adam", 5, 16, 0.01, 0.9, 0, 0, dtype))) for dtype in ("float64", "float32")
    )
    assert 0 < np.abs(double.theta - single.theta).max() < 1e-4


def test_the_best_start_is_kept():
    given = problem()
    alone = [run_algorithm(descent(given, restart=restart)) for restart in range(3)]
    best = run_algorithm(RestartedFit(lambda restart: descent(given, restart=restart), 3, batches=False))
    least = min(alone, key=lambda fit: fit.loss)
    assert (best.restart, best.loss) == (least.restart, least.loss)
    assert np.array_equal(best.theta, least.theta)


@pytest.mark.parametrize("batches", [True, False])
def test_a_state_that_was_saved_goes_on_with_the_same_bytes(batches, tmp_path):
    from herdcli.artifacts.sealed.checkpoints import load_checkpoint, save_checkpoint

    given, settings = problem(), BatchSettings("adam", 4, 16, 0.01, 0.9, 3, seed=0)
    validation = Validation(rows(seed=5, count=40), given.family)
    make = (
        (lambda restart: minibatches(given, settings, restart, validation))
        if batches
        else (lambda restart: descent(given, validation, 3, restart))
    )
    algorithm = RestartedFit(make, 2, batches=batches)
    whole = run_algorithm(algorithm)
    state = algorithm.init()
    for _ in range(5):
        state = algorithm.step(state)
    save_checkpoint(str(tmp_path / "state"), copy.deepcopy(state), "digest")
    again = load_checkpoint(str(tmp_path / "state"), algorithm.state, "digest", like=algorithm.init)
    resumed = run_algorithm(algorithm, again)
    assert np.array_equal(resumed.theta, whole.theta)
    assert np.array_equal(resumed.trace, whole.trace)
    assert (resumed.loss, resumed.restart) == (whole.loss, whole.restart)


def test_columns_have_mean_0_and_variance_1_and_constant_ones_are_0():
    random = np.random.default_rng(0)
    X = np.column_stack([1e9 + random.normal(size=50), np.full(50, 7.0), 1e-9 * random.normal(size=50)])
    y, weight = 100 + 5 * X[:, 2] * 1e9, random.uniform(0.5, 1.0, 50)
    scaling = find_scaling(X, y, np.zeros(50), weight, family_by_name("gaussian"))
    Z, share = scaling.columns(X), weight / weight.sum()
    assert np.allclose(share @ Z, 0, atol=1e-6)
    assert np.allclose(share @ Z**2, [1, 0, 1], atol=1e-6)
    target = (y - scaling.middle) / scaling.spread
    assert np.allclose([share @ target, share @ target**2], [0, 1])
    assert find_scaling(X, y, np.zeros(50), weight, family_by_name("gamma")).spread == 1.0
