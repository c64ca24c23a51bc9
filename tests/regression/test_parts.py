"""What a fit of a generalised linear model is put together from: families at their ends, solvers, errors and figures by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma

from herdcli.algorithm import RunProgress, run_algorithm
from herdcli.errors import BadUsage, DataError
from herdcli.numerics.block_statistics import ArrayRows
from herdcli.regression import centring, families, fit, model

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 2))
Z = np.column_stack([X, np.ones(60)])
OFFSET = 0.3 * RANDOM.normal(size=60)
WEIGHT = RANDOM.uniform(0.5, 2.0, 60)
ETA = X @ [0.6, -0.4] + 0.3 + OFFSET
TARGETS = {
    "gaussian": ETA + RANDOM.normal(size=60),
    "bernoulli": (RANDOM.random(60) < 1 / (1 + np.exp(-ETA))).astype(float),
    "poisson": RANDOM.poisson(np.exp(ETA)).astype(float),
    "gamma": RANDOM.gamma(2.0, np.exp(ETA) / 2.0),
    "gamma-shape": RANDOM.gamma(np.exp(ETA), 1.5),
    "softmax": RANDOM.integers(0, 3, 60).astype(float),
}


def problem_of(name: str, **penalties: float) -> fit.RegressionProblem:
    chosen = families.family_by_name(name, classes=3, symmetric=any(penalties.values()), scale=1.5)
    table = ArrayRows(np.column_stack([X, TARGETS[name], OFFSET]), weight=WEIGHT)
    return fit.RegressionProblem(table, chosen, getattr(chosen, "free", 1), 2, **penalties)


def fitted(problem: fit.RegressionProblem) -> tuple[fit.RegressionFit, model.GeneralisedLinear]:
    found = run_algorithm(fit.NewtonDescent(problem, model.initial_coefficients(problem)))
    classes = ["a", "b", "c"] if problem.family.name == "softmax" else None
    return found, model.assemble_regression(problem, found, names=["u", "v"], classes=classes, target="y", seed=4)


def log_density(name: str, eta: np.ndarray, y: np.ndarray, dispersion: float = 1.0) -> np.ndarray:
    """log p(y | η) by SciPy's distributions."""
    laws = {
        "gaussian": lambda: stats.norm(eta, np.sqrt(dispersion)).logpdf(y),
        "bernoulli": lambda: stats.bernoulli(1 / (1 + np.exp(-eta))).logpmf(y),
        "poisson": lambda: stats.poisson(np.exp(eta)).logpmf(y),
        "gamma": lambda: stats.gamma(1 / dispersion, scale=dispersion * np.exp(eta)).logpdf(y),
        "gamma-shape": lambda: stats.gamma(np.exp(eta), scale=1.5).logpdf(y),
    }
    return laws[name]()


# families -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "softmax"])
def test_likelihoods_means_and_dispersions_of_families(name: str) -> None:
    family, eta = families.family_by_name(name, scale=1.5), np.linspace(-1.5, 1.5, 60)
    dispersion = 0.7 if family.dispersed else 1.0
    np.testing.assert_allclose(
        family.log_likelihood(eta[:, None], TARGETS[name], dispersion), log_density(name, eta, TARGETS[name], dispersion)
    )
    means = {"gaussian": eta, "bernoulli": 1 / (1 + np.exp(-eta)), "gamma-shape": 1.5 * np.exp(eta)}
    np.testing.assert_allclose(family.mean(eta[:, None])[:, 0], means.get(name, np.exp(eta)))
    assert family.dispersed == (name in ("gaussian", "gamma"))
    assert family.name == name


def test_predictors_that_overflow_are_cut() -> None:
    far = np.array([[699.0], [701.0], [5000.0], [-800.0]])
    for name in ("poisson", "gamma"):
        np.testing.assert_allclose(families.family_by_name(name).mean(far)[:, 0], np.exp([699.0, 700.0, 700.0, -800.0]))
    np.testing.assert_allclose(families.family_by_name("gamma-shape").mean(np.array([[99.0], [101.0]]))[:, 0], np.exp([99.0, 100.0]))
    assert families.family_by_name("gamma").loss_and_derivatives(np.array([[-699.0], [-701.0]]), np.ones(2))[0].tolist() == [
        np.exp(699.0) - 699,
        np.exp(700.0) - 701,
    ]
    np.testing.assert_allclose(families.family_by_name("bernoulli").mean(far)[:, 0], [1.0, 1.0, 1.0, 0.0])
    assert families.family_by_name("bernoulli").mean(np.zeros((1, 1)))[0, 0] == 0.5
    terms = families.family_by_name("gamma-shape").loss_and_derivatives(np.array([[101.0], [100.0]]), np.ones(2))
    assert terms[0][0] == terms[0][1]
    assert np.isfinite(terms[0]).all()


def test_values_at_the_ends_of_a_family() -> None:
    for name, good, bad in (
        ("bernoulli", [0.0, 1.0], 2.0),
        ("poisson", [0.0, 3.0], -1.0),
        ("gamma", [1e-9, 3.0], 0.0),
        ("gamma-shape", [1e-9, 3.0], 0.0),
        ("gaussian", [-5.0, 0.0], np.inf),
        ("softmax", [0.0, 2.0], 3.0),
        ("softmax", [0.0, 2.0], -1.0),
        ("gamma", [1.0], np.inf),
    ):
        family = families.family_by_name(name, classes=3)
        family.require_valid_response(np.array(good))
        with pytest.raises(DataError, match=f"in row {len(good)}"):
            family.require_valid_response(np.array([*good, bad]))
    with pytest.raises(BadUsage, match="there is no family 'normal'"):
        families.family_by_name("normal")
    assert [families.family_by_name("softmax", classes=4, symmetric=symmetric).free for symmetric in (False, True)] == [3, 4]


def test_the_inverse_of_digamma() -> None:
    k = np.array([1e-3, 0.05, 0.3, 0.4, 1.0, 2.5, 40.0, 1e4])
    np.testing.assert_allclose(families._inverse_digamma(digamma(k)), k, rtol=1e-9)


def test_softmax_by_hand() -> None:
    eta, y = RANDOM.normal(size=(5, 2)), np.array([0.0, 1, 2, 2, 0])
    whole = np.exp(np.column_stack([np.zeros(5), eta]))
    p = whole / whole.sum(axis=1, keepdims=True)
    family = families.family_by_name("softmax", classes=3)
    loss, slope, share = family.loss_and_derivatives(eta, y)
    own = p[np.arange(5), y.astype(int)]
    np.testing.assert_allclose(loss, -np.log(own))
    np.testing.assert_allclose(share, p[:, 1:])
    np.testing.assert_allclose(slope, p[:, 1:] - (y[:, None] == [1, 2]))
    np.testing.assert_allclose(family.log_likelihood(eta, y, 1.0), np.log(own))
    np.testing.assert_allclose(family.deviance(eta, y), -2 * np.log(own))
    assert np.isfinite(family.mean(np.array([[900.0, -900.0]]))).all()


# solvers ------------------------------------------------------------------------------------------


def test_curvature_of_several_predictors_is_a_kronecker_sum() -> None:
    share, weight = RANDOM.dirichlet(np.ones(4), 7)[:, 1:], RANDOM.random(7)
    rows = RANDOM.normal(size=(7, 2))
    expected = sum(weight[n] * np.kron(np.diag(share[n]) - np.outer(share[n], share[n]), np.outer(rows[n], rows[n])) for n in range(7))
    np.testing.assert_allclose(fit.weighted_curvature(rows, share, weight), expected, atol=1e-14)
    np.testing.assert_allclose(fit.weighted_curvature(rows, share[:, :1], weight), (rows * (share[:, 0] * weight)[:, None]).T @ rows)


def test_repeated_columns_have_the_shortest_scaled_solution() -> None:
    """With columns scaled to length 1 the solution without a part in the null space; regular systems have their inverse."""
    A = RANDOM.normal(size=(20, 4)) * [1, 10, 100, 1e-3]
    gram, right = A.T @ A, RANDOM.normal(size=4)
    np.testing.assert_allclose(fit.solve_symmetric(gram, right), np.linalg.solve(gram, right), rtol=1e-9)
    np.testing.assert_allclose(fit.symmetric_inverse(gram), np.linalg.inv(gram), rtol=1e-9)
    B = np.column_stack([A, A[:, 0] + A[:, 1], 3 * A[:, 2], np.zeros(20)])
    gram = B.T @ B
    scale = 1 / np.sqrt(np.maximum(np.diag(gram), 1e-300))
    scale[-1] = 0.0
    expected = scale[:, None] * np.linalg.pinv(scale[:, None] * gram * scale, rcond=1e-10) * scale
    right = gram @ RANDOM.normal(size=7)
    np.testing.assert_allclose(fit.solve_symmetric(gram, right), expected @ right, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(fit.symmetric_inverse(gram), expected, rtol=1e-6, atol=1e-9)
    assert fit.find_redundant_columns(gram)[1].tolist() == [True, True, True, False, True, True, True]
    assert not fit.find_redundant_columns(A.T @ A)[1].any()


def test_small_directions_are_kept_down_to_10_to_the_minus_11() -> None:
    """A pair of columns at an angle: the scaled Gram matrix has the eigenvalues 1 ± c, kept where (1 − c)/(1 + c) > 10⁻¹¹."""
    for small, kept in ((1e-9, True), (4e-11, True), (1e-11, False)):
        gram = np.array([[1.0, 1 - small], [1 - small, 1.0]])
        difference = np.array([1.0, -1.0])
        found = fit.symmetric_inverse(gram) @ difference
        np.testing.assert_allclose(found, difference / small if kept else [0.0, 0.0], rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(fit.solve_symmetric(gram, difference), difference / small if kept else [0.0, 0.0], rtol=1e-4, atol=1e-3)
        assert fit.find_redundant_columns(gram)[1].tolist() == [not kept] * 2


@pytest.mark.parametrize("seed", range(5))
def test_coordinate_descent_meets_its_conditions(seed: int) -> None:
    """H(β + d) − …: the slope of the model is −λ sign u where u = β + d is not 0, and within λ where it is."""
    random = np.random.default_rng(seed)
    root = random.normal(size=(12, 6))
    root[:, 5] = 0.0  # a column that does not vary
    H, slope, beta, l1 = root.T @ root / 12, random.normal(size=6), random.normal(size=6), np.array([0.5, 0.5, 0.5, 1.0, 0.0, 0.5])
    beta[2], slope[5] = 0.0, 0.0
    d = fit.lasso_step(H, slope, beta, l1)
    u, left = beta + d, slope + H @ d
    there = (u != 0) & (np.arange(6) < 5)
    np.testing.assert_allclose(left[there], -l1[there] * np.sign(u[there]), atol=1e-6)
    assert (np.abs(left[~there]) <= l1[~there] + 1e-6).all()
    assert d[5] == 0.0


def test_model_steps_foresee_their_fall() -> None:
    problem = replace(problem_of("gaussian"), l2=0.4)
    theta, gradient = np.array([[0.5, -0.2, 0.1]]), np.array([0.3, -0.1, 0.2])
    root = RANDOM.normal(size=(9, 3))
    H = root.T @ root / 9
    d, foreseen = fit.quadratic_step(problem, theta, gradient, H)
    whole, slope = H + np.diag([0.4, 0.4, 0.0]), gradient + np.array([0.2, -0.08, 0.0])
    np.testing.assert_allclose(d, -np.linalg.solve(whole, slope))
    assert foreseen == pytest.approx(-(slope @ d + 0.5 * d @ whole @ d))
    lasso = replace(problem, l1=0.15)
    d, foreseen = fit.quadratic_step(lasso, theta, gradient, H)
    model_value = slope @ d + 0.5 * d @ whole @ d + 0.15 * np.abs(theta[0, :2] + d[:2]).sum() - 0.15 * np.abs(theta[0, :2]).sum()
    assert foreseen == pytest.approx(-model_value)
    assert lasso.penalty(theta) == pytest.approx(0.5 * 0.4 * 0.29 + 0.15 * 0.7)
    assert problem_of("softmax").penalty_mask.tolist() == [1, 1, 0, 1, 1, 0]


def test_rows_on_the_side_of_their_class() -> None:
    eta = np.array([[0.5], [-0.5], [0.0], [-0.5]])
    assert fit.misclassified_row_mask(problem_of("bernoulli"), eta, np.array([1.0, 1, 1, 0])).tolist() == [False, True, True, False]
    assert fit.misclassified_row_mask(problem_of("poisson"), eta, np.zeros(4)).all()
    three = np.array([[2.0, 1.0], [-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]])
    assert fit.misclassified_row_mask(problem_of("softmax"), three, np.array([1.0, 0, 0, 2])).tolist() == [False, False, True, True]


def test_progress_shows_the_objective_and_the_steps_allowed() -> None:
    run = fit.NewtonDescent(problem_of("poisson"), model.initial_coefficients(problem_of("poisson")), iterations=2)
    state = run.init()
    assert run.progress(state) == RunProgress(0, 2, "objective inf")
    assert not run.done(state)
    state = run.step(run.step(state))
    assert run.done(state)
    assert run.progress(state) == RunProgress(2, 2, f"objective {state.objective:.6g}")
    ended = run.result(state)
    assert (ended.converged, ended.separated, len(ended.trace)) == (False, False, 2)
    assert ended.mass == pytest.approx(WEIGHT.sum())
    at = np.exp(Z @ state.theta[0] + OFFSET)
    np.testing.assert_allclose(ended.curvature, (Z * (WEIGHT * at)[:, None]).T @ Z)
    assert state.objective == pytest.approx(WEIGHT @ (at - TARGETS["poisson"] * np.log(at)) / WEIGHT.sum())


def test_separation_is_told_by_ratios_alone_after_five_steps() -> None:
    run = fit.NewtonDescent(problem_of("bernoulli"), np.zeros((1, 3)))
    state = run.init()
    for decrements, wrong, told in (
        (0.4 ** np.arange(6), 0, True),
        (0.4 ** np.arange(5), 0, False),
        (0.4 ** np.arange(6), 1, False),
        (0.61 ** np.arange(6), 0, False),
        (0.19 ** np.arange(6), 0, False),
        (np.append(1e9, 0.4 ** np.arange(6)), 0, True),
        (np.append(0.4 ** np.arange(5), 1e-9), 0, False),
    ):
        at = replace(state, decrements=decrements, wrong=float(wrong))
        assert run._is_separated(at) == told
        assert not replace(run, problem=replace(run.problem, l2=0.1))._is_separated(at)
        assert not replace(run, problem=replace(run.problem, l1=0.1))._is_separated(at)
        assert not replace(run, problem=problem_of("poisson"))._is_separated(at)
    settled = replace(state, objective=5.0, decrements=np.array([5e-17]))
    assert run._has_converged(settled)
    assert not run._has_converged(replace(settled, decrements=np.array([5.1e-17])))
    assert not run._has_converged(replace(state, rate=1.0))
    assert run._has_converged(replace(state, rate=2.0**-41))
    assert not run._has_converged(replace(state, rate=2.0**-40))


# figures ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gaussian", "bernoulli", "poisson", "gamma", "gamma-shape"])
def test_figures_of_a_fit_are_those_of_its_definitions(name: str) -> None:
    found, value = fitted(problem_of(name))
    y, eta = TARGETS[name], Z @ found.theta[0] + OFFSET
    np.testing.assert_allclose(value.predictor(X, OFFSET)[:, 0], eta)
    np.testing.assert_allclose(value.predictor(X)[:, 0], eta - OFFSET)
    assert (value.rows, value.mass) == (60, pytest.approx(WEIGHT.sum()))
    mu = {"gaussian": eta, "bernoulli": 1 / (1 + np.exp(-eta))}.get(name, np.exp(eta))
    variance = {"gaussian": np.ones(60), "bernoulli": mu * (1 - mu), "poisson": mu, "gamma": mu**2}.get(name)
    if variance is not None:
        pearson = WEIGHT @ ((y - mu) ** 2 / variance)
        assert value.dispersion == pytest.approx(pearson / 57 if name in ("gaussian", "gamma") else 1.0)
    within = {"gaussian": WEIGHT @ (y - mu) ** 2 / 60, "gamma": value.dispersion}.get(name)
    # a row of precision w has the variance φ V(μ)/w; without a dispersion its log-likelihood counts w times
    expected = WEIGHT @ log_density(name, eta, y) if within is None else sum(map(float, log_density(name, eta, y, within / WEIGHT)))
    assert value.log_likelihood == pytest.approx(expected)
    best = {
        "gaussian": lambda: log_density(name, y, y),
        "bernoulli": lambda: np.zeros(60),
        "poisson": lambda: stats.poisson(y).logpmf(y),
        "gamma": lambda: log_density(name, np.log(y), y),
        "gamma-shape": lambda: log_density(name, np.log(families._inverse_digamma(np.log(y / 1.5))), y),
    }[name]()
    assert value.deviance == pytest.approx(2 * WEIGHT @ (best - log_density(name, eta, y)))
    flat = value.null_intercept[0] + OFFSET
    assert value.null_deviance == pytest.approx(2 * WEIGHT @ (best - log_density(name, flat, y)))
    for step in (-1e-3, 1e-3):
        assert WEIGHT @ log_density(name, flat + step, y) < WEIGHT @ log_density(name, flat, y)
    if name in ("gaussian", "gamma"):
        level = flat if name == "gaussian" else np.exp(flat)
        spread = 1.0 if name == "gaussian" else level**2
        assert value.null_dispersion == pytest.approx(WEIGHT @ ((y - level) ** 2 / spread) / 59)
    else:
        assert value.null_dispersion == 1.0
    told = (value.family, value.l1, value.l2, value.converged, value.separated, value.seed, value.target, value.gls)
    assert told == (name, 0.0, 0.0, True, False, 4, "y", "")
    assert value.scale == (1.5 if name == "gamma-shape" else 1.0)
    np.testing.assert_array_equal(value.trace, found.trace)
    assert value.names() == ["u", "v", "intercept"]
    assert replace(value, feature_names=None).names() == ["x0", "x1", "intercept"]


def test_robust_errors_are_the_sandwich_of_the_scores() -> None:
    found, value = fitted(problem_of("softmax"))
    p = value.distribution().mean(Z @ found.theta.T + OFFSET[:, None])
    scores = WEIGHT[:, None] * np.concatenate([(p[:, [k]] - (TARGETS["softmax"] == k)[:, None]) * Z for k in (1, 2)], axis=1)
    bread = np.linalg.inv(
        sum(WEIGHT[n] * np.kron(np.diag(p[n, 1:]) - np.outer(p[n, 1:], p[n, 1:]), np.outer(Z[n], Z[n])) for n in range(60))
    )
    np.testing.assert_allclose(value.standard_error.ravel(), np.sqrt(np.diag(bread)), rtol=1e-6)
    np.testing.assert_allclose(value.robust_error.ravel(), np.sqrt(np.diag(bread @ (scores.T @ scores) @ bread)), rtol=1e-6)
    assert (value.dispersion, value.null_dispersion) == (1.0, 1.0)
    for penalty in ({"l1": 0.01}, {"l2": 0.01}):
        assert np.isnan(fitted(problem_of("poisson", **penalty))[1].standard_error).all()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"family": "softmax", "classes": ["a", "b", "c"]}, "/coefficients has 1 predictors for 3 classes"),
        ({"coefficients": np.zeros((2, 2))}, "/coefficients has 2 predictors, but poisson needs one"),
        ({"standard_error": np.zeros((1, 2))}, "/standard_error has 2 columns, expected 3"),
        ({"feature_names": ["a"]}, "/feature_names has 1 names for 2 columns"),
        ({"gls": "ar1"}, "'ar1' is not a covariance of errors for family poisson"),
        ({"gls": "ar2", "family": "gaussian"}, "'ar2' is not a covariance of errors for family gaussian"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(wrong: dict[str, object], says: str) -> None:
    _, value = fitted(problem_of("poisson"))
    value.validate()
    replace(value, gls="ar1", family="gaussian").validate()
    with pytest.raises(DataError, match=says):
        replace(value, **wrong).validate()
    for K in (2, 3):
        replace(value, family="softmax", classes=["a", "b", "c"], coefficients=np.zeros((K, 2))).validate()


# columns far from 0 -------------------------------------------------------------------------------


def test_columns_far_from_zero_are_those_whose_squares_would_not_say_how_they_vary():
    rows = RANDOM.normal(size=(9000, 4)) * [1.0, 1.0, 0.0, 1e-7] + [1e3, 1e5, 7.3, 1e5]
    rows[::2] = 0.0
    chosen = np.arange(9000) % 2 == 1
    centre = centring.find_centre(rows, chosen)
    assert centre is not None
    np.testing.assert_allclose(centre, [0.0, 1e5, 0.0, 0.0], rtol=1e-6)
    assert centring.find_centre(rows[:, [0, 2]], chosen) is None
    assert centring.find_centre(rows, np.ones(9000, dtype=bool)) is None
    theta = np.array([[1.0, 2.0, 3.0, 4.0, 5.0], [0.0, 1.0, 0.0, 0.0, 1.0]])
    np.testing.assert_allclose(centring.uncentre_coefficients(theta, centre)[:, -1], [5.0 - 2.0 * centre[1], 1.0 - centre[1]])
    np.testing.assert_allclose(centring.uncentring_matrix(2, centre) @ theta.ravel(), centring.uncentre_coefficients(theta, centre).ravel())
