"""Inference against linear programming, optimality conditions, integrals and finite differences; dictionaries that are found again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage, NotConverged
from herdcli.ica import sparse_coding, stochastic_learning
from herdcli.ica.experts import EXPERTS
from herdcli.ica.problem import LearningProblem, LearningSettings
from herdcli.ica.sparse_coding import DictionaryLearning, SparseCodingModel, SparseCodingProblem


def dictionary(D=3, M=5, seed=0):
    A = np.random.default_rng(seed).standard_normal((D, M))
    return A / np.linalg.norm(A, axis=0)


def rows(A, n=6, seed=1):
    random = np.random.default_rng(seed)
    return random.laplace(size=(n, A.shape[1])) @ A.T


def test_basis_pursuit_finds_sparse_sources_again():
    A = dictionary(6, 9)
    S = np.zeros((9, 9))
    np.fill_diagonal(S, np.linspace(-2, 2, 9))
    S[0, 3] = 0.7
    found = SparseCodingModel(A, "laplace", 1.0, 0.0, "map").infer_sources(S @ A.T)
    np.testing.assert_allclose(found.mean, S, atol=1e-9)


def test_basis_pursuit_is_the_limit_of_little_noise():
    A, Z = dictionary(), rows(dictionary())
    exact = SparseCodingModel(A, "laplace", 1.0, 0.0, "map").infer_sources(Z)
    near = SparseCodingModel(A, "laplace", 1.0, 0.003, "map").infer_sources(Z)
    np.testing.assert_allclose(near.mean, exact.mean, atol=1e-3)
    np.testing.assert_allclose(near.pull, exact.pull, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(exact.mean @ A.T, Z, atol=1e-9)


def test_duals_are_the_gradient_of_the_programme():
    A, Z = dictionary(), rows(dictionary())
    pull = SparseCodingModel(A, "laplace", 1.3, 0.0, "map").infer_sources(Z).pull
    for index in np.ndindex(A.shape):
        step = np.zeros(A.shape)
        step[index] = 1e-6
        cost = [
            1.3 * np.abs(SparseCodingModel(A + sign * step, "laplace", 1.3, 0.0, "map").infer_sources(Z).mean).sum() for sign in (1, -1)
        ]
        assert pull[index] == pytest.approx(-(cost[0] - cost[1]) / 2e-6, rel=1e-4, abs=1e-5)


def test_the_lasso_meets_its_conditions():
    A, Z = dictionary(4, 7), rows(dictionary(4, 7))
    model = SparseCodingModel(A, "laplace", 1.0, 0.3, "map")
    S = model.infer_sources(Z).mean
    slopes = (Z - S @ A.T) @ A / 0.3**2
    assert (np.abs(slopes) <= 1 + 1e-3).all()
    active = S != 0
    assert 0 < active.mean() < 0.9
    np.testing.assert_allclose(slopes[active], np.sign(S[active]), atol=1e-3)


@pytest.mark.parametrize("expert", ["student", "logistic", "laplace-smooth"])
def test_the_mode_is_one_of_a_plain_optimiser(expert):
    A, Z = dictionary(), rows(dictionary())
    model = SparseCodingModel(A, expert, 1.2, 0.3, "map")
    S = model.infer_sources(Z).mean
    for z, s in zip(Z, S, strict=True):

        def minus(v, z=z):
            return -model.log_joint(z[None], v[None])[0]

        best = minimize(minus, s, method="BFGS", options={"gtol": 1e-9})
        assert minus(s) == pytest.approx(best.fun, abs=1e-6)
        assert minus(s) < minus(np.zeros(5))


@pytest.mark.parametrize("posterior", ["map", "laplace", "variational"])
def test_the_objective_is_the_joint_at_the_mean_or_the_bound(posterior):
    A, Z = dictionary(), rows(dictionary())
    model = SparseCodingModel(A, "student", 1.2, 0.3, posterior)
    found = model.infer_sources(Z)
    bound, joint = model.bound(Z, model._tightest_bound_points(Z)), model.log_joint(Z, found.mean)
    assert np.abs(bound - joint).min() > 1e-3
    np.testing.assert_allclose(found.objective, bound if posterior == "variational" else joint)


@pytest.mark.parametrize("expert", ["student", "logistic", "laplace-smooth"])
def test_the_gaussian_that_touches_a_smooth_prior_at_its_peak_is_the_limit_of_those_beside_it(expert):
    beside, peak = SparseCodingModel(np.eye(1), expert, 1.7, 0.3, "variational")._bounding_prior_variances(np.array([[1e-4], [0.0]]))
    assert peak == pytest.approx(beside, rel=1e-5)


@pytest.mark.parametrize("expert", ["laplace", "student", "laplace-smooth"])
def test_the_bound_is_below_the_evidence_and_its_gradient_is_the_pull(expert):
    model = SparseCodingModel(np.array([[0.8]]), expert, 1.3 if expert == "student" else 1.0, 0.4, "variational")
    Z = np.array([[-2.0], [0.3], [1.5]])
    s = np.linspace(-60, 60, 120001)
    prior = -model.gamma * EXPERTS[expert].energy(s) - EXPERTS[expert].log_z(np.array([model.gamma]))
    noise = -((Z - 0.8 * s) ** 2) / (2 * 0.4**2) - 0.5 * np.log(2 * np.pi * 0.4**2)
    evidence = np.log(np.trapezoid(np.exp(prior + noise), s, axis=1))
    found = model.infer_sources(Z)
    assert (found.objective < evidence).all()
    assert (found.objective > evidence - 0.6).all()

    A, Z = dictionary(), rows(dictionary())
    model = replace(model, A=A)
    xi = model._tightest_bound_points(Z)
    pull = np.empty(A.shape)
    for index in np.ndindex(A.shape):
        step = np.zeros(A.shape)
        step[index] = 1e-5
        pull[index] = sum(sign * replace(model, A=A + sign * step).bound(Z, xi).sum() for sign in (1, -1)) / 2e-5
    np.testing.assert_allclose(model.infer_sources(Z).pull, pull, rtol=1e-4, atol=1e-4)
    assert (model.bound(Z, xi) >= model.bound(Z, 1.1 * xi)).all()
    assert (model.bound(Z, xi) >= model.bound(Z, 0.9 * xi)).all()


@pytest.mark.parametrize(("expert", "posterior"), [("student", "variational"), ("student", "laplace"), ("laplace", "map")])
def test_dictionaries_are_found_again(expert, posterior):
    A, random = dictionary(4, 6), np.random.default_rng(2)
    S = EXPERTS["student"].sample(random, 2000, np.ones(6)) if expert == "student" else random.laplace(size=(2000, 6))
    S *= random.random(S.shape) < (1.0 if expert == "student" else 0.3)
    Z = S @ A.T + 0.1 * random.standard_normal((2000, 4))
    settings = stochastic_learning.LearningSettings(filters=6, expert=expert, rates=((0.2, 50), (0.05, 30)), batch_size=50)
    task = sparse_coding.SparseCodingProblem(stochastic_learning.LearningProblem(Z, settings), 0.1, posterior)
    state = sparse_coding.DictionaryLearning(task).init()
    assert np.abs(A.T @ state.A).max(axis=1).mean() < 0.85
    while state.step < 80:
        state = sparse_coding.DictionaryLearning(task).step(state)
    assert np.abs(A.T @ state.A).max(axis=1).mean() > 0.88
    np.testing.assert_allclose((state.A**2).sum(axis=0), 1)


def test_workers_leave_the_bits_alone():
    Z = rows(dictionary(), 120)
    task = sparse_coding.SparseCodingProblem(
        stochastic_learning.LearningProblem(Z, stochastic_learning.LearningSettings(filters=5, expert="laplace", rates=((0.1, 3),))),
        0.1,
        "map",
    )
    ends = []
    with ThreadPoolExecutor(2) as pool:
        for mapping in (map, pool.map):
            state = sparse_coding.DictionaryLearning(task).init()
            for _ in range(3):
                state = sparse_coding.DictionaryLearning(task, mapping).step(state)
            ends.append(state.A)
    assert np.array_equal(*ends)


@pytest.mark.parametrize(
    ("expert", "noise", "posterior", "message"),
    [
        ("laplace", 0.0, "variational", "without noise there is no variational posterior"),
        ("laplace", 0.1, "laplace", "Laplace's approximation needs a smooth prior"),
        ("gaussian-cdf", 0.1, "map", "gaussian-cdf is not a sparse prior"),
        ("bimodal", 0.1, "map", "bimodal is not a sparse prior"),
        ("infomax", 0.1, "map", "infomax is not a sparse prior"),
        ("laplace", 0.1, "gibbs", "unknown posterior 'gibbs', expected map, laplace or variational"),
    ],
)
def test_what_cannot_be_inferred_is_refused(expert, noise, posterior, message):
    with pytest.raises(BadUsage) as caught:
        SparseCodingModel(dictionary(), expert, 1.0, noise, posterior)
    assert caught.value.message == message


def test_rows_outside_of_the_span_have_no_programme():
    A = np.array([[1.0, 0.0], [0.0, 0.0]])
    with pytest.raises(NotConverged, match="the linear programme of row 0 has no solution"):
        SparseCodingModel(A, "laplace", 1.0, 0.0, "map").infer_sources(np.array([[1.0, 1.0]]))


def test_an_update_that_stops_its_sources_early_learns_what_one_to_the_end_does(monkeypatch):
    """Planted codes: the dictionaries explain other rows alike, and the lasso of `apply` is still solved to the end."""
    random = np.random.default_rng(7)
    true = random.standard_normal((8, 12))
    true /= np.sqrt((true**2).sum(axis=0))
    Z = (random.laplace(size=(3000, 12)) * (random.random((3000, 12)) < 0.3)) @ true.T
    Z /= Z.std()
    settings = LearningSettings(filters=12, expert="laplace", batch_size=50, rates=((0.1, 60), (0.05, 20)))

    algorithm = DictionaryLearning(SparseCodingProblem(LearningProblem(Z[:2500], settings)))

    def worth(A):
        return SparseCodingModel(A, "laplace", 1.0, 0.1, "map").infer_sources(Z[2500:2700]).objective.mean()

    start, early = worth(algorithm.init().A), worth(run_algorithm(algorithm).more["dictionary"])
    monkeypatch.setattr(sparse_coding, "LEARNING", 400)
    whole = worth(run_algorithm(algorithm).more["dictionary"])
    assert whole > start + 0.3
    assert early - start > 0.95 * (whole - start)
    model = SparseCodingModel(true, "laplace", 1.0, 0.1, "map")
    mean, dual = model._solve_lasso(Z[:40])
    pulled = dual @ true  # A'λ is γ sign(s) where s is not 0, and at most γ elsewhere
    np.testing.assert_allclose(pulled[mean != 0], np.sign(mean)[mean != 0], atol=1e-2)
    assert np.abs(pulled).max() < 1.01
