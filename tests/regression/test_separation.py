"""Separation: coefficients without a finite estimate against a linear program over all contrasts, and the errors of the others."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from herdcli.algorithm import run_algorithm
from herdcli.numerics.block_statistics import ArrayRows
from herdcli.regression import families, fit, model, separation
from herdcli.regression.newton_cg import TrustRegion


def problem_of(name, X, y, weight=None, offset=None, **options):
    chosen = families.family_by_name(name, classes=3)
    rows = np.column_stack([X, y, np.zeros(len(y)) if offset is None else offset])
    return fit.RegressionProblem(ArrayRows(rows, weight=weight), chosen, getattr(chosen, "free", 1), X.shape[1], **options)


def fitted(problem, algorithm=fit.NewtonDescent):
    found = run_algorithm(algorithm(problem, model.initial_coefficients(problem)))
    classes = ["a", "b", "c"] if problem.family.name == "softmax" else None
    return found, model.assemble_regression(problem, found, names=None, classes=classes, target="y", seed=0)


def contrasts(name, X, y, weight):
    """(strict (n, q), fixed (m, q)): a'δ ≥ 0 and a'δ = 0 for the likelihood of no row to fall along δ."""
    Z, strict, fixed = np.column_stack([X, np.ones(len(X))]), [], []
    for z, own, w in zip(Z, y, weight, strict=True):
        if w == 0:
            continue
        if name == "softmax":
            for other in {0, 1, 2} - {int(own)}:
                a = np.zeros((3, len(z)))
                a[int(own)], a[other] = z, -z
                strict.append(a[1:].ravel())
        elif name == "bernoulli":
            strict.append(z * (2 * own - 1))
        else:
            (strict if own == 0 else fixed).append(-z)
    q = len(Z[0]) * (2 if name == "softmax" else 1)
    return np.reshape(strict, (-1, q)), np.reshape(fixed, (-1, q))


def null(matrix):
    _, lengths, right = np.linalg.svd(matrix)
    return right[np.count_nonzero(lengths > 1e-9 * lengths.max(initial=1e-300)) :].T


def unbounded(name, X, y, weight):
    """The coefficients (q,) that some direction of recession moves, by one linear program over all rows."""
    A, E = contrasts(name, X, y, weight)
    n, q = A.shape
    # max Σ t, t ≤ Aδ, 0 ≤ t ≤ 1, Eδ = 0: t is 1 wherever a contrast can be strict
    found = linprog(
        np.r_[np.zeros(q), -np.ones(n)],
        A_ub=np.hstack([-A, np.eye(n)]),
        b_ub=np.zeros(n),
        A_eq=np.hstack([E, np.zeros((len(E), n))]) if len(E) else None,
        b_eq=np.zeros(len(E)) if len(E) else None,
        bounds=[(None, None)] * q + [(0, 1)] * n,
    )
    able = found.x[q:] > 0.5
    if not able.any():
        return np.zeros(q, dtype=bool)
    free, repeated = null(np.vstack([A[~able], E])) if len(E) or (~able).any() else np.eye(q), null(np.vstack([A, E]))
    free = free - repeated @ (repeated.T @ free)
    return (np.abs(free) > 1e-7).any(axis=1)


@pytest.mark.parametrize("name", ["bernoulli", "poisson", "softmax"])
@pytest.mark.parametrize("algorithm", [fit.NewtonDescent, TrustRegion])
def test_coefficients_without_a_finite_estimate_are_those_of_a_linear_program(name, algorithm):
    """Small rows of 0 and 1, of few whole numbers and of normal numbers, weights of 0, offsets, columns that repeat others."""
    random, seen = np.random.default_rng(5), {True: 0, False: 0}
    while sum(seen.values()) < 40:
        n, D, kind = int(random.integers(8, 50)), int(random.integers(1, 5)), random.integers(0, 3)
        X = [(random.random((n, D)) < 0.2) * 1.0, random.integers(-2, 3, (n, D)) * 1.0, random.normal(size=(n, D))][kind]
        if random.random() < 0.2 and D > 1:
            X[:, 1] = 2 * X[:, 0]
        eta = X @ random.normal(size=(D, 3)) * random.choice([0, 1, 4])
        y = {
            "bernoulli": (random.random(n) < 1 / (1 + np.exp(-eta[:, 0]))) * 1.0,
            "poisson": random.poisson(np.exp(np.clip(eta[:, 0] - 1, -20, 3))) * 1.0,
            "softmax": (eta + random.gumbel(size=eta.shape)).argmax(axis=1) * 1.0,
        }[name]
        weight = random.integers(0, 3, n) * 1.0 if random.random() < 0.3 else np.ones(n)
        if len(set(y[weight > 0])) < 2:
            continue
        problem = problem_of(name, X, y, weight, random.normal(size=n) * random.choice([0, 1]))
        expected = unbounded(name, X, y, weight)
        if fit.NewtonDescent is algorithm and run_algorithm(algorithm(problem, model.initial_coefficients(problem))).separated:
            expected = np.ones_like(expected)  # every row is on its side: nothing is left to estimate
        ended, value = fitted(problem, algorithm)
        found = separation.find_recession_directions(problem, ended)
        if ended.separated:
            assert expected.any()
            continue
        np.testing.assert_array_equal(np.zeros_like(expected) if found is None else found.unbounded_mask(), expected)
        assert value.separated == expected.any()
        assert np.isnan(value.standard_error.ravel()[expected]).all()
        assert np.isnan(value.robust_error.ravel()[expected]).all()
        seen[bool(expected.any())] += 1
    assert min(seen.values()) > 5


@pytest.mark.parametrize("name", ["bernoulli", "poisson", "softmax"])
def test_other_coefficients_have_the_errors_of_the_rows_that_are_left(name):
    """A level all of whose rows have one outcome says nothing of the other coefficients, also where columns mix it with them."""
    random = np.random.default_rng(3)
    X, level = random.normal(size=(300, 2)), (np.arange(300) % 6 == 0) * 1.0
    eta = X @ np.array([[0.5, -0.5, 0.0], [0.3, 0.1, -0.2]])
    y = {
        "bernoulli": (random.random(300) < 1 / (1 + np.exp(-eta[:, 0]))) * 1.0,
        "poisson": random.poisson(np.exp(eta[:, 0])) * 1.0,
        "softmax": (eta + random.gumbel(size=eta.shape)).argmax(axis=1) * 1.0,
    }[name]
    y[level == 1] = 0
    alone = fitted(problem_of(name, X[level == 0], y[level == 0]))[1]
    whole = fitted(problem_of(name, np.column_stack([X, level]), y))[1]
    mixed = fitted(problem_of(name, np.column_stack([X[:, 0] + 2 * level, X[:, 1], level]), y))[1]
    for value in (whole, mixed):
        assert value.separated
        assert value.unbounded[:, 2].all()
        assert not value.unbounded[:, 1].any()
        for figure in ("standard_error", "robust_error"):
            ours, theirs = getattr(value, figure), getattr(alone, figure)
            np.testing.assert_allclose(ours[:, [1, 3]], theirs[:, [1, 2]], rtol=1e-6)
            assert np.isnan(ours[:, 2]).all()
    np.testing.assert_array_equal(whole.unbounded, [[False, False, True, False]] * len(whole.unbounded))


@pytest.mark.parametrize("overlap", [1e-2, 1e-4, 1e-6])
def test_estimates_that_are_large_and_finite_have_errors(overlap):
    """Two rows on the wrong side by a hair: coefficients of thousands, and a maximum all the same."""
    x = np.concatenate([np.linspace(-1, -0.1, 40), [overlap, -overlap], np.linspace(0.1, 1, 40)])
    y = np.concatenate([np.zeros(41), np.ones(41)])
    found, value = fitted(problem_of("bernoulli", x[:, None], y))
    assert (found.converged, value.separated, value.unbounded) == (True, False, None)
    assert np.isfinite(value.standard_error).all()


def test_a_penalty_leaves_nothing_separated():
    X, y = np.arange(20.0)[:, None], (np.arange(20) > 9) * 1.0
    for options in ({"l2": 1e-3}, {"l1": 1e-3}):
        assert not fitted(problem_of("bernoulli", X, y, **options))[1].separated


def test_shares_of_trials_are_on_neither_side():
    """Rows of 3 in 10 and 0 in 10: the latter alone separate."""
    X = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], 5, axis=0)
    y = np.repeat([0.3, 0.6, 0.0], 5)
    _, value = fitted(problem_of("bernoulli", X, y, np.full(15, 10.0), weights="trials"))
    assert value.unbounded.tolist() == [[False, True, False]]
    assert value.intercept[0] == pytest.approx(np.log(0.3 / 0.7))


def test_many_coefficients_are_looked_at_one_by_one():
    """More of them than a null space is worked out of: a column that one class alone has."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(400, 3)), (random.random(400) < 0.5) * 1.0
    rare = (np.arange(400) < 9) & (y == 1)
    problem = problem_of("bernoulli", np.column_stack([X, rare]), y)
    ended = run_algorithm(fit.NewtonDescent(problem, model.initial_coefficients(problem)))
    search = separation._RecessionSearch(problem, ended.theta, np.ones(5), 1e-6, 1.0, map)
    assert search.search_along_axes().unbounded_mask().tolist() == [False, False, False, True, False]
    assert (
        separation._RecessionSearch(problem_of("bernoulli", X, y), ended.theta[:, :4], np.ones(4), 1e-6, 1.0, map).search_along_axes()
        is None
    )


def test_a_program_that_is_too_large_withholds_what_has_grown(monkeypatch):
    """Two directions at once, one of them undecided without the program."""
    random = np.random.default_rng(2)
    X = np.column_stack([random.normal(size=60), (np.arange(60) % 5 == 0) * 1.0, (np.arange(60) % 5 == 1) * 1.0])
    y = (random.random(60) < 0.5) * 1.0
    y[X[:, 1] == 1], y[X[:, 2] == 1] = 0, 1
    problem = problem_of("bernoulli", X, y)
    ended = run_algorithm(fit.NewtonDescent(problem, model.initial_coefficients(problem)))
    sure = separation.find_recession_directions(problem, ended)
    monkeypatch.setattr(separation, "MOST_NUMBERS", 0)
    found = separation.find_recession_directions(problem, ended)
    assert sure.unbounded_mask().tolist() == found.unbounded_mask().tolist() == [False, True, True, False]
