"""Fits of perceptrons: minima of the trust region, updates of minibatches, early stopping, starts, and states that go on."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import minimize

from herdcli import rng
from herdcli.algorithm import run_algorithm
from herdcli.numerics.block_statistics import ArrayRows, RowBlocks, sum_statistics
from herdcli.regression.families import family_by_name
from herdcli.regression.perceptron.architecture import Architecture
from herdcli.regression.perceptron.backpropagation import forward
from herdcli.regression.perceptron.early_stopping import BestParameters, is_patience_exhausted, record_evaluation
from herdcli.regression.perceptron.linear_model import can_represent_linear_model, fit_linear_model, initialise_from_linear_model
from herdcli.regression.perceptron.minibatches import BatchSettings, MinibatchDescent, batch_bytes, batch_columns, rows_per_part
from herdcli.regression.perceptron.problem import PerceptronGradient, PerceptronProblem, ValidationRows
from herdcli.regression.perceptron.restarts import RestartedFit
from herdcli.regression.perceptron.scaling import FitScaling, FittedRows, ScaledRows, fit_scaling
from herdcli.regression.perceptron.trust_region import PerceptronDescent, PerceptronRegion, descent_bytes
from herdcli.regression.sparse_rows import SparseRows

N, D = 60, 3


def rows(seed: int = 0, count: int = N) -> ArrayRows:
    """Rows whose target is a bent function of the columns."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(count, D))
    y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * random.normal(size=count)
    return ArrayRows(np.column_stack([X, y, np.zeros(count)]), weight=random.uniform(0.5, 1.5, count))


def problem(l2: float = 0.01, activation: str = "tanh") -> PerceptronProblem:
    shape = Architecture((D, 4, 1), activation)
    return PerceptronProblem(rows(), family_by_name("gaussian"), 1, D, l2=l2, architecture=shape)


def objective(given: PerceptronProblem, theta: np.ndarray) -> tuple[float, np.ndarray]:
    sums = sum_statistics(RowBlocks(given.rows), PerceptronGradient(given, theta[None]))
    mass = sums["mass"][0]
    return sums["loss"][0] / mass + given.penalty(theta), sums["gradient"][0] / mass + given.l2 * given.penalty_mask * theta


NONE = ValidationRows(None, family_by_name("gaussian"))


def descent(given: PerceptronProblem, validation: ValidationRows = NONE, patience: int = 0, restart: int = 0) -> PerceptronDescent:
    start = given.architecture.initial_parameters(0, restart, np.zeros(1))[None]
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
    validation = ValidationRows(rows(seed=5, count=40), given.family)
    fit = run_algorithm(descent(given, validation, patience=4))
    assert fit.loss == fit.losses.min() == validation.loss(given, fit.theta[None])
    assert len(fit.losses) == len(fit.trace) == np.argmin(fit.losses) + 5
    assert fit.converged


def test_looks_without_validation_rows_keep_the_last():
    best = BestParameters(theta=np.zeros(2), losses=np.zeros(0))
    record_evaluation(best, np.ones(2), float("nan"))
    assert best.theta.tolist() == [1, 1]
    assert not is_patience_exhausted(best, 1)
    best = BestParameters(theta=np.zeros(1), losses=np.zeros(0))
    for loss in (2.0, 1.0, 1.5, float("nan")):
        record_evaluation(best, np.array([loss]), loss)
    assert best.theta.tolist() == [1.0]
    assert is_patience_exhausted(best, 2)
    assert not is_patience_exhausted(best, 3)
    assert not is_patience_exhausted(best, 0)


def by_hand(given: PerceptronProblem, settings: BatchSettings, epochs: int) -> np.ndarray:
    """Adam and momentum as their papers have them, with whole gradients of batches as problems of their own."""
    theta, table = given.architecture.initial_parameters(settings.seed, 0, np.zeros(1)), given.rows
    m, v, t = np.zeros_like(theta), np.zeros_like(theta), 0
    for epoch in range(epochs):
        order = rng.generator(settings.seed, rng.Stream.SHUFFLE, unit=0, step=epoch).permutation(N)
        for begin in range(0, N, settings.batch_size):
            chosen = order[begin : begin + settings.batch_size]
            batch = ArrayRows(table.X[chosen], weight=table.weight[chosen])
            g = PerceptronGradient(given, theta[None])(batch.read(0, len(chosen)))["gradient"][0] / len(chosen) / table.weight.mean()
            g = g + given.l2 * given.penalty_mask * theta
            t += 1
            if settings.optimizer == "sgd":
                m = settings.momentum * m - settings.learning_rate * g
                theta = theta + m
                continue
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            theta = theta - settings.learning_rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return theta


def stored_rows(given: PerceptronProblem, sparse: bool = False) -> ScaledRows:
    """The rows of a problem as a file has them, with a scaling that changes nothing."""
    table = given.rows
    X = scipy.sparse.csr_array(table.X[:, :D]) if sparse else table.X[:, :D]
    return ScaledRows(FittedRows(X, table.X[:, D], table.X[:, -1], table.weight), FitScaling(np.zeros(D), np.ones(D), 0.0, 1.0))


def minibatches(given: PerceptronProblem, settings: BatchSettings, restart: int = 0, validation: ValidationRows = NONE) -> MinibatchDescent:
    start = given.architecture.initial_parameters(settings.seed, restart, np.zeros(1))
    scaled = stored_rows(given)
    return MinibatchDescent(given, scaled, batch_columns(scaled, settings.dtype), start, settings, validation, restart)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_updates_are_those_of_the_papers(optimizer):
    given, settings = problem(), BatchSettings(optimizer, 3, 16, 0.01, 0.9, 0, seed=4, dtype="float64")
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


@pytest.mark.parametrize("optimizer", ["adam", "sgd", "trust-region"])
def test_a_state_that_was_saved_goes_on_with_the_same_bytes(optimizer, tmp_path):
    from herdcli.artifacts.sealed.checkpoints import load_checkpoint, save_checkpoint

    batches = optimizer != "trust-region"
    given, settings = problem(), BatchSettings(optimizer, 4, 16, 0.01, 0.9, 3, seed=0, dtype="float32")
    validation = ValidationRows(rows(seed=5, count=40), given.family)
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
    again = load_checkpoint(str(tmp_path / "state"), algorithm.state, "digest", template=algorithm.init)
    resumed = run_algorithm(algorithm, again)
    assert np.array_equal(resumed.theta, whole.theta)
    assert np.array_equal(resumed.trace, whole.trace)
    assert (resumed.loss, resumed.restart) == (whole.loss, whole.restart)


def test_sparse_rows_give_the_fit_of_dense_ones():
    """The scaling moves into the first layer, so that products are those of the entries that are not 0."""
    random = np.random.default_rng(2)
    X = random.normal(1.0, 2.0, size=(N, D)) * (random.uniform(size=(N, D)) < 0.3)
    y, weight = random.normal(size=N), random.uniform(0.5, 1.5, N)
    given, settings = problem(), BatchSettings("adam", 4, 16, 0.01, 0.9, 0, seed=0)
    fits, losses = [], []
    for stored in (X, scipy.sparse.csr_array(X)):
        scaling = fit_scaling(stored, y, np.zeros(N), weight, given.family)
        scaled = ScaledRows(FittedRows(stored, y, np.zeros(N), weight), scaling)
        alike = replace(given, rows=scaled)
        start, columns = given.architecture.initial_parameters(0, 0, np.zeros(1)), batch_columns(scaled, "float64")
        fit = run_algorithm(MinibatchDescent(alike, scaled, columns, start, replace(settings, dtype="float64"), NONE, 0))
        fits.append(fit.theta)
        losses.append(ValidationRows(scaled, given.family).loss(alike, fit.theta[None]))
    assert scipy.sparse.issparse(columns)
    assert np.allclose(*fits, rtol=1e-9, atol=1e-12)
    assert np.isclose(*losses, rtol=1e-12)


def test_the_trust_region_keeps_sparse_rows_and_finds_the_minimum_of_dense_ones():
    random = np.random.default_rng(2)
    X = random.normal(1.0, 2.0, size=(N, D)) * (random.uniform(size=(N, D)) < 0.3)
    y, weight, fits = random.normal(size=N), random.uniform(0.5, 1.5, N), []
    for stored in (X, scipy.sparse.csr_array(X)):
        scaling = fit_scaling(stored, y, np.zeros(N), weight, problem().family)
        table = ScaledRows(FittedRows(stored, y, np.zeros(N), weight), scaling).read_all()
        given = replace(problem(), rows=table, scaling=scaling)
        fits.append(run_algorithm(descent(given)))
    assert isinstance(table, SparseRows)
    assert np.allclose(fits[0].theta, fits[1].theta, rtol=1e-6, atol=1e-8)
    assert np.isclose(fits[0].loss, fits[1].loss, rtol=1e-12)
    wide = scipy.sparse.random(2000, 20_000, density=1e-3, random_state=random, format="csr")
    rows = ScaledRows(FittedRows(wide, np.ones(2000), np.zeros(2000), None), FitScaling(np.zeros(20_000), np.ones(20_000), 0.0, 1.0))
    shape = Architecture((20_000, 4, 1), "tanh")
    table = PerceptronProblem(rows.read_all(), problem().family, 1, 20_000, architecture=shape)
    assert descent_bytes(table, 1) < 20e6 < 2000 * 20_000 * 8


@pytest.mark.parametrize("sparse", [False, True])
def test_parts_of_a_batch_give_the_same_update_and_the_same_bytes_by_threads(sparse, monkeypatch):
    from concurrent.futures import ThreadPoolExecutor

    given, settings = problem(), BatchSettings("adam", 3, 40, 0.01, 0.9, 0, seed=4, dtype="float64")
    scaled = stored_rows(given, sparse)
    start, columns = given.architecture.initial_parameters(4, 0, np.zeros(1)), batch_columns(scaled, "float64")
    make = partial(MinibatchDescent, given, scaled, columns, start, settings, NONE, 0)
    whole = run_algorithm(make())
    monkeypatch.setattr("herdcli.regression.perceptron.minibatches.SMALLEST_PART", 7)
    monkeypatch.setattr("herdcli.regression.perceptron.minibatches.WORK_OF_A_PART", 1)
    assert rows_per_part(40, given.architecture.parameters) == 7
    assert rows_per_part(80, given.architecture.parameters) == 10
    alone = run_algorithm(make())
    with ThreadPoolExecutor(3) as pool:
        threaded = run_algorithm(make(map=pool.map))
    assert np.allclose(alone.theta, whole.theta, rtol=1e-9, atol=1e-12)
    assert threaded.theta.tobytes() == alone.theta.tobytes()
    assert threaded.trace.tobytes() == alone.trace.tobytes()


@pytest.mark.parametrize("stored", [bool, np.uint8, np.int8, np.float16, np.float32, np.int64, np.float64])
def test_dense_rows_of_every_type_give_one_fit_and_are_copied_only_to_change_their_type(stored):
    random = np.random.default_rng(2)
    X, y = random.integers(0, 2 if stored is bool else 100, size=(N, D)).astype(stored), random.normal(size=N)
    scaling = fit_scaling(X.astype(float), y, np.zeros(N), None, problem().family)
    fits = []
    for rows_of in (X.astype(float), X, np.asfortranarray(X)):
        scaled = ScaledRows(FittedRows(rows_of, y, np.zeros(N), None), scaling)
        given = replace(problem(), rows=scaled)
        columns = batch_columns(scaled, "float64")
        settings = BatchSettings("adam", 3, 16, 0.01, 0.9, 0, seed=0, dtype="float64")
        fits.append(
            run_algorithm(
                MinibatchDescent(given, scaled, columns, given.architecture.initial_parameters(0, 0, np.zeros(1)), settings, NONE, 0)
            ).theta
        )
        copied = batch_bytes(given, rows_of, 16, "float64") - batch_bytes(given, np.zeros((N, D)), 16, "float64")
        assert copied == (0 if np.shares_memory(columns, rows_of) else columns.nbytes)
    assert np.allclose(fits[0], fits[1], rtol=1e-9, atol=1e-12)
    assert np.array_equal(fits[1], fits[2])


@pytest.mark.parametrize("activation", ["tanh", "relu", "logistic", "softplus"])
@pytest.mark.parametrize("hidden", [(5,), (7, 6)])
def test_a_start_from_the_linear_model_has_its_predictors(activation, hidden):
    random, outputs = np.random.default_rng(1), 2
    shape = Architecture((D, *hidden, outputs), activation)
    X, linear = random.normal(size=(40, D)), random.normal(size=(outputs, D + 1))
    assert can_represent_linear_model(shape)
    theta = initialise_from_linear_model(shape, shape.initial_parameters(0, 0, np.zeros(outputs)), linear)
    eta = forward(shape.layers(theta), shape.activation_function, X).eta
    wanted = X @ linear[:, :-1].T + linear[:, -1]
    assert np.abs(eta - wanted).max() < 0.05
    assert not can_represent_linear_model(Architecture((D, 1, outputs), activation))


@pytest.mark.parametrize("family", ["gaussian", "bernoulli", "poisson"])
def test_the_linear_model_is_that_of_a_ridge(family, monkeypatch):
    """The descent ends 1e-5 nats from its minimum, minibatches over all rows of a larger problem somewhat farther."""
    random = np.random.default_rng(3)
    X = random.normal(size=(300, D))
    eta = X @ [0.5, -0.3, 0.2] + 0.1
    y = {"gaussian": eta, "bernoulli": eta > random.logistic(size=300), "poisson": random.poisson(np.exp(eta))}[family] * 1.0
    scaling, chosen = FitScaling(np.zeros(D), np.ones(D), 0.0, 1.0), family_by_name(family)
    scaled = ScaledRows(FittedRows(X, y, np.zeros(300), None), scaling)
    given = PerceptronProblem(scaled, chosen, 1, D, architecture=Architecture((D, 4, 1), "tanh"))

    def loss(theta):
        return chosen.loss_and_derivatives((X @ theta[:-1] + theta[-1])[:, None], y)[0].mean() + 0.5 / 300 * theta[:-1] @ theta[:-1]

    least = minimize(loss, np.zeros(D + 1)).fun
    assert loss(fit_linear_model(given, scaled, np.zeros(1))[0]) - least < 2e-5
    monkeypatch.setattr("herdcli.regression.perceptron.linear_model.MOST_WORK", 0)
    assert loss(fit_linear_model(given, scaled, np.zeros(1))[0]) - least < 0.01


def test_the_start_of_the_linear_model_follows_where_the_others_are_above_it():
    given = problem()
    alone = [run_algorithm(descent(given, restart=restart)) for restart in range(3)]

    def starts(floor):
        return run_algorithm(RestartedFit(lambda restart: descent(given, restart=restart), 2, batches=False, floor=lambda: floor))

    two = min(fit.loss for fit in alone[:2])
    assert starts(two).loss == two
    assert starts(two - 1e-9).loss == min(fit.loss for fit in alone)
    assert starts(-np.inf).restart in (0, 1, 2)


def test_columns_have_mean_0_and_variance_1_and_constant_ones_are_0():
    random = np.random.default_rng(0)
    X = np.column_stack([1e9 + random.normal(size=50), np.full(50, 7.0), 1e-9 * random.normal(size=50)])
    y, weight = 100 + 5 * X[:, 2] * 1e9, random.uniform(0.5, 1.0, 50)
    scaling = fit_scaling(X, y, np.zeros(50), weight, family_by_name("gaussian"))
    Z, share = scaling.scale_columns(X), weight / weight.sum()
    assert np.allclose(share @ Z, 0, atol=1e-6)
    assert np.allclose(share @ Z**2, [1, 0, 1], atol=1e-6)
    target = (y - scaling.middle) / scaling.spread
    assert np.allclose([share @ target, share @ target**2], [0, 1])
    assert fit_scaling(X, y, np.zeros(50), weight, family_by_name("gamma")).spread == 1.0
