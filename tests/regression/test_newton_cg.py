"""Regressions of many coefficients: steps in a trust region against Newton's, by hand, and where there is no minimum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.numerics.block_statistics import ArrayRows, sum_statistics
from herdcli.regression import families, fit, model, newton_cg

RANDOM = np.random.default_rng(2)
N, D = 400, 4
X = RANDOM.normal(size=(N, D)) * [1.0, 30.0, 0.1, 2.0]
OFFSET, WEIGHT = 0.3 * RANDOM.normal(size=N), RANDOM.uniform(0.5, 2.0, N)
ETA = X @ [0.5, -0.02, 3.0, 0.2] + 0.4
TARGETS = {
    "bernoulli": (RANDOM.random(N) < 1 / (1 + np.exp(-ETA))).astype(float),
    "poisson": RANDOM.poisson(np.exp(ETA)).astype(float),
    "gamma": RANDOM.gamma(2.0, np.exp(ETA) / 2.0),
    "gamma-shape": RANDOM.gamma(np.exp(ETA), 1.5),
    "softmax": RANDOM.integers(0, 3, N).astype(float),
}


def problem_of(name, y=None, **penalties):
    chosen = families.family_by_name(name, classes=3, symmetric=any(penalties.values()), scale=1.5)
    table = ArrayRows(np.column_stack([X, TARGETS[name] if y is None else y, OFFSET]), weight=WEIGHT)
    return fit.RegressionProblem(table, chosen, getattr(chosen, "free", 1), D, **penalties)


def descended(problem):
    """The fit, and the states after each step."""
    run, seen = newton_cg.TrustRegion(problem, model.initial_coefficients(problem)), []
    state = run.init()
    while not run.done(state):
        state = run.step(state)
        seen.append(replace(state))
    return run.result(state), seen


@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("name", TARGETS)
def test_the_minimum_and_its_errors_are_those_of_newtons_steps(name, l2):
    problem = problem_of(name, l2=l2)
    found, _ = descended(problem)
    newton = run_algorithm(fit.NewtonDescent(problem, model.initial_coefficients(problem)))
    assert (found.converged, found.separated) == (True, False)
    scale = np.append(X.std(axis=0), 1.0)
    np.testing.assert_allclose(found.theta * scale, newton.theta * scale, atol=2e-6)
    one, other = (
        model.assemble_regression(problem, each, names=None, classes=list("abc") if name == "softmax" else None, target="y", seed=0)
        for each in (found, newton)
    )
    np.testing.assert_allclose(one.standard_error, other.standard_error, rtol=1e-5)
    np.testing.assert_allclose(one.robust_error, other.robust_error, rtol=1e-5)
    assert one.log_likelihood == pytest.approx(other.log_likelihood, abs=1e-5)


@pytest.mark.parametrize("name", TARGETS)
def test_a_product_is_the_curvature_times_a_direction_and_the_diagonal_its_own(name):
    problem = problem_of(name)
    theta, v = np.random.default_rng(0).normal(size=(2, problem.outputs, D + 1)) * 0.1
    source = newton_cg.TrustRegion(problem, theta).source
    whole = sum_statistics(source, fit.derivative_sums(problem, theta))
    curvature = whole["curvature"]
    np.testing.assert_allclose(
        sum_statistics(source, newton_cg.HessianProduct(problem, theta, v))["product"].ravel(), curvature @ v.ravel(), rtol=1e-9
    )
    found = sum_statistics(source, newton_cg.GradientSums(problem, theta))
    np.testing.assert_allclose(found["diagonal"].ravel(), np.diag(curvature), rtol=1e-10)
    np.testing.assert_allclose(found["gradient"].ravel(), whole["gradient"], rtol=1e-9, atol=1e-9)
    assert found["loss"] == pytest.approx(whole["loss"])
    assert found["mass"] == pytest.approx(whole["mass"])


def quadratic():
    """H, g and a metric of eight coordinates in two rows."""
    random = np.random.default_rng(5)
    A = random.normal(size=(8, 8))
    return A @ A.T + np.eye(8), random.normal(size=(2, 4)), random.uniform(0.5, 2.0, (2, 4))


def model_of(H, g, d):
    return float(g.ravel() @ d.ravel() + 0.5 * d.ravel() @ H @ d.ravel())


def test_inside_the_region_the_model_has_its_minimum():
    H, g, metric = quadratic()
    small = 1e-12 * g  # conjugate gradients end the sooner the larger the slope
    d, foreseen, inside = newton_cg.trust_region_step(lambda v: (H @ v.ravel()).reshape(v.shape), small, metric, np.inf)
    assert inside
    np.testing.assert_allclose(d.ravel(), -np.linalg.solve(H, small.ravel()), rtol=1e-2)
    assert foreseen == pytest.approx(-model_of(H, small, d))


@pytest.mark.parametrize("share", [1e-3, 0.3, 0.9])
def test_at_the_border_the_step_is_as_long_as_it_may_be_and_better_than_along_the_slope(share):
    H, g, metric = quadratic()
    free = newton_cg.trust_region_step(lambda v: (H @ v.ravel()).reshape(v.shape), g, metric, np.inf)[0]
    radius = share * float(np.sqrt((free**2 * metric).sum()))
    d, foreseen, inside = newton_cg.trust_region_step(lambda v: (H @ v.ravel()).reshape(v.shape), g, metric, radius)
    assert not inside
    assert np.sqrt((d**2 * metric).sum()) == pytest.approx(radius)
    assert foreseen == pytest.approx(-model_of(H, g, d))
    slope = g / metric
    rates = radius / np.sqrt((slope**2 * metric).sum()) * np.linspace(0, 1, 100)
    assert foreseen >= max(-model_of(H, g, -rate * slope) for rate in rates) - 1e-12


def test_directions_without_curvature_are_followed_to_the_border_and_columns_of_zeros_stay():
    metric = np.array([[1.0, 0.0, 4.0]])
    d, foreseen, inside = newton_cg.trust_region_step(lambda v: 0.0 * v, np.array([[3.0, 0.0, 4.0]]), metric, 2.0)
    assert not inside
    assert d[0, 1] == 0
    assert np.sqrt((d**2 * metric).sum()) == pytest.approx(2.0)
    assert foreseen == pytest.approx(float(-(np.array([[3.0, 0.0, 4.0]]) * d).sum()))


def test_the_objective_never_rises_and_the_region_follows_how_well_the_model_tells_it():
    random = np.random.default_rng(3)
    rows = 2 * random.normal(size=(200, 3))
    y = random.poisson(np.exp(np.minimum(rows @ [1.0, -1.0, 0.5], 8))).astype(float)
    problem = fit.RegressionProblem(ArrayRows(np.column_stack([rows, y, np.zeros(200)])), families.family_by_name("poisson"), 1, 3)
    run = newton_cg.TrustRegion(problem, np.zeros((1, 4)))
    state, seen = run.step(run.init()), set()
    first = sum_statistics(run.source, newton_cg.GradientSums(problem, state.theta))["diagonal"] / 200
    while not run.done(state):
        before = replace(state)
        state = run.step(state)
        sums = sum_statistics(run.source, newton_cg.GradientSums(problem, before.theta + before.direction))
        share = (before.objective - float(sums["loss"][0]) / 200) / before.foreseen
        length = np.sqrt((before.direction**2 * before.metric).sum())
        grown = share > 0.75 and not before.inside
        assert state.radius == pytest.approx(4 * length if grown else before.radius if share >= 0.25 else length / 4)
        seen.add("taken" if share > 1e-4 else "refused")
        seen.add("grown" if grown else "kept" if share >= 0.25 else "shrunk")
        assert len(state.trace) == len(before.trace) + (share > 1e-4)
        if share > 1e-4:
            np.testing.assert_allclose(state.metric, np.maximum(sums["diagonal"] / 200, 1e-3 * first))
    assert seen == {"taken", "refused", "grown", "kept", "shrunk"}
    assert (np.diff(state.trace) <= 1e-12).all()
    assert run.result(state).converged


def diagonal(problem, theta):
    """Of the curvature of the mean loss and its penalty."""
    found = sum_statistics(newton_cg.TrustRegion(problem, theta).source, newton_cg.GradientSums(problem, theta))["diagonal"] / WEIGHT.sum()
    return found + problem.l2 * problem.penalty_mask.reshape(theta.shape)


@pytest.mark.parametrize("name", ["bernoulli", "softmax"])
def test_it_ends_at_the_first_coefficients_that_tell_all_rows_apart(name):
    y = (ETA > 0.4).astype(float) + (ETA > 2.0) * (name == "softmax")
    found, seen = descended(problem_of(name, y))
    assert (found.converged, found.separated) == (False, True)
    assert [state.doubtful > 0 for state in seen] == [True] * (len(seen) - 1) + [False]
    eta = X @ found.theta[:, :-1].T + found.theta[:, -1]
    told = np.argmax(np.column_stack([np.zeros(N), eta]), axis=1) if name == "softmax" else eta[:, 0] > 0
    assert (told == y).all()
    penalised, seen = descended(problem_of(name, y, l2=1e-9))
    assert seen[-1].doubtful == 0
    assert (penalised.converged, penalised.separated) == (True, False)
    first, last = (
        diagonal(problem_of(name, y, l2=1e-9), theta)
        for theta in (model.initial_coefficients(problem_of(name, y, l2=1e-9)), seen[-1].theta)
    )
    assert (last < 1e-3 * first).any()  # where all rows are sure nothing bends, and the metric keeps a share of what it was
    np.testing.assert_allclose(seen[-1].metric, np.maximum(last, 1e-3 * first))
    run = newton_cg.TrustRegion(problem_of(name, y), np.zeros_like(found.theta))
    assert not run.result(replace(seen[-1], foreseen=0.0)).converged


def test_rows_of_weight_0_are_on_no_side():
    weight, y = WEIGHT.copy(), (ETA > 0.4).astype(float)
    weight[:9], y[:9] = 0.0, 1 - y[:9]
    problem = problem_of("bernoulli", y)
    assert not descended(problem)[0].separated
    light = replace(problem, rows=ArrayRows(np.column_stack([X, y, OFFSET]), weight=weight))
    assert descended(light)[0].separated


def test_rows_of_no_margin_are_doubtful():
    eta = np.array([[2.0], [0.5e-3], [2e-3], [-3.0], [np.nan]])
    assert newton_cg.poorly_classified_row_mask(problem_of("bernoulli"), eta, np.array([1.0, 1, 1, 0, 1])).tolist() == [
        False,
        True,
        False,
        False,
        True,
    ]
    three = np.array([[2.0, 1.0], [-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]])
    assert newton_cg.poorly_classified_row_mask(problem_of("softmax"), three, np.array([1.0, 0, 0, 2])).tolist() == [
        False,
        False,
        True,
        True,
    ]
    four = np.array([[2.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    assert newton_cg.poorly_classified_row_mask(problem_of("softmax", l2=1.0), four, np.zeros(2)).tolist() == [False, True]
    assert newton_cg.poorly_classified_row_mask(problem_of("poisson"), eta, np.ones(5)).all()


def test_large_problems_alone_are_for_it():
    few, many = np.zeros((1, newton_cg.MANY - 1)), np.zeros((1, newton_cg.MANY))

    def chosen(name, start, **penalties):
        return type(newton_cg.make_large_problem_descent(problem_of(name, **penalties), start, 10, map, None))

    gaussian = families.family_by_name("gaussian")
    assert chosen("bernoulli", few) is fit.NewtonDescent
    assert chosen("bernoulli", many) is newton_cg.TrustRegion
    assert chosen("bernoulli", many, l1=0.1) is fit.NewtonDescent
    assert (
        type(newton_cg.make_large_problem_descent(replace(problem_of("poisson"), family=gaussian), many, 10, map, None))
        is fit.NewtonDescent
    )


def test_errors_alone_need_the_curvature():
    run = newton_cg.TrustRegion(problem_of("softmax"), np.zeros((2, 1000)))
    assert run.memory() == 8 * 2000**2 * 9
    assert run.estimate_error_costs(run.init()) == (pytest.approx(1.92), run.memory())
    apart = replace(run.init(), doubtful=0.0)
    ridge = replace(run, problem=problem_of("softmax", l2=0.1))
    assert run.estimate_error_costs(apart) == ridge.estimate_error_costs(run.init()) == (0.0, 0)
    assert ridge.memory() == 8 * (2000 * 20 + N * 3)  # and the second derivatives of each row


def correlated_metric() -> newton_cg.CorrelatedMetric:
    """A metric of two classes and four columns."""
    random = np.random.default_rng(8)
    values, vectors = np.linalg.eigh(np.cov(random.normal(size=(4, 9))))
    return newton_cg.CorrelatedMetric(vectors, np.array([[0.5], [2.0]]) * values + 0.1)


def test_a_correlated_metric_is_its_matrix():
    metric, d = correlated_metric(), np.random.default_rng(1).normal(size=(2, 4))
    whole = [metric.vectors @ np.diag(scales) @ metric.vectors.T for scales in metric.scales]
    for found, expected in zip(metric.multiply(d), (M @ row for M, row in zip(whole, d, strict=True)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(metric.solve(metric.multiply(d)), d, rtol=1e-12)


def test_a_step_in_a_correlated_metric_ends_at_its_minimum_or_border():
    H, g, _ = quadratic()
    metric, small = correlated_metric(), 1e-12 * g
    d, foreseen, inside = newton_cg.trust_region_step(lambda v: (H @ v.ravel()).reshape(v.shape), small, metric, np.inf)
    assert inside
    np.testing.assert_allclose(d.ravel(), np.linalg.solve(H, -small.ravel()), rtol=1e-2)
    free = newton_cg.trust_region_step(lambda v: (H @ v.ravel()).reshape(v.shape), g, metric, np.inf)[0]
    for share in (0.9, 0.5, 0.05):
        radius = share * newton_cg._scaled_norm(free, metric)
        d, foreseen, inside = newton_cg.trust_region_step(lambda v: (H @ v.ravel()).reshape(v.shape), g, metric, radius)
        assert not inside
        assert newton_cg._scaled_norm(d, metric) == pytest.approx(radius)
        assert foreseen == pytest.approx(-model_of(H, g, d))


def test_a_step_ends_where_the_rest_of_the_gradient_is_negligible():
    H, g, metric = quadratic()
    small, counts = 1e-12 * g, []
    for negligible in (-1.0, 0.25 * float(np.square(small).sum())):
        products = []

        def product(v, products=products):
            products.append(v)
            return (H @ v.ravel()).reshape(v.shape)

        d, foreseen, inside = newton_cg.trust_region_step(product, small, metric, np.inf, negligible)
        rest = -small.ravel() - H @ d.ravel()
        assert inside
        assert foreseen == pytest.approx(-model_of(H, small, d))
        assert rest @ rest <= (0.25 if negligible > 0 else 1e-3) * float(np.square(small).sum())
        counts.append(len(products))
    assert counts[1] < counts[0]


def test_correlated_columns_need_few_products(monkeypatch):
    random = np.random.default_rng(3)
    X = random.normal(size=(400, 3)) @ random.normal(size=(3, 30)) + 0.05 * random.normal(size=(400, 30)) + 1.0
    y = (X[:, :4] + random.gumbel(size=(400, 4))).argmax(axis=1).astype(float)
    rows = ArrayRows(np.column_stack([X, y, np.zeros(400)]))
    problem = fit.RegressionProblem(rows, families.Softmax(4, 4), 4, 30, l2=1e-3)
    counts, fits = [], []
    monkeypatch.setattr(newton_cg, "MANY", 100)
    for correlated in (100, 0):
        monkeypatch.setattr(newton_cg, "CORRELATED", correlated)
        done, original = [0], newton_cg.HessianProduct.product_sums

        def counted(self, block, curve, done=done, original=original):
            done[0] += 1
            return original(self, block, curve)

        with monkeypatch.context() as patch:
            patch.setattr(newton_cg.HessianProduct, "product_sums", counted)
            fits.append(run_algorithm(newton_cg.TrustRegion(problem, np.zeros((4, 31)), 200)))
        counts.append(done[0])
    assert fits[0].converged
    assert counts[0] < 0.6 * counts[1]
    np.testing.assert_allclose(fits[0].theta[:, :-1], fits[1].theta[:, :-1], atol=1e-5)
    shift = fits[0].theta[:, -1] - fits[1].theta[:, -1]  # the same of all intercepts changes no probability
    np.testing.assert_allclose(shift, shift.mean(), atol=1e-5)


def test_the_end_of_a_penalised_descent_needs_no_products(monkeypatch):
    problem = problem_of("softmax", l2=0.1)
    found, seen = descended(problem)
    assert found.converged
    assert not seen[-1].direction.any()
    assert all(state.direction.any() for state in seen[:-1])
    monkeypatch.setattr(newton_cg, "CAREFUL", np.inf)
    other, _ = descended(problem)
    assert found.theta.tobytes() == other.theta.tobytes()
