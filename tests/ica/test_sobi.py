"""Time structure: rotations that are known, Gaussian sources that no density tells apart, and what cannot be separated."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from scipy.signal import lfilter

from herdcli import schema
from herdcli.errors import BadUsage, DataError
from herdcli.ica import maximum_likelihood as ml
from herdcli.ica import sobi, whitening
from herdcli.ica.filters.amari_distance import amari_distance


def run(problem):
    state = sobi.JointDiagonalisation(problem).init()
    while state.turned > problem.tolerance:
        state = sobi.JointDiagonalisation(problem).step(state)
    return state


def autoregressive(coefficients=(0.95, 0.6, 0.0, -0.7), n=6000, seed=0):
    """Gaussian sources of order 1, mixed and whitened: Z, forward @ mixing."""
    random = np.random.default_rng(seed)
    S = np.column_stack([lfilter([1.0], [1.0, -a], random.standard_normal(n)) for a in coefficients])
    A = random.standard_normal((S.shape[1], S.shape[1]))
    fitted = whitening.fit_whitening(S @ A.T)
    return fitted.apply(S @ A.T), fitted.forward @ A


def test_gaussian_sources_are_told_apart_by_their_spectra_and_by_no_density():
    Z, product = autoregressive()
    state = run(sobi.SOBIProblem(Z, lags=10))
    assert amari_distance(state.J @ product) < 1
    problem = ml.MaximumLikelihoodProblem(Z)
    other = ml.MaximumLikelihood(problem).init()
    while not other.done and other.step < 100:
        other = ml.MaximumLikelihood(problem).step(other)
    assert amari_distance(other.J @ product) > 3
    np.testing.assert_allclose(state.J @ state.J.T, np.eye(4), atol=1e-12)
    assert state.C[0].diagonal() == pytest.approx([np.mean(z[1:] * z[:-1]) for z in (Z @ state.J.T).T], abs=1e-12)


def test_covariances_are_those_of_the_definition_block_by_block(monkeypatch):
    Z, _ = autoregressive(n=500)
    C = sobi.lagged_covariances(Z, 7)
    plain = Z[7:].T @ Z[:-7] / 493
    np.testing.assert_allclose(C[6], 0.5 * (plain + plain.T), atol=1e-13)
    monkeypatch.setattr(sobi, "BLOCK", 64)
    np.testing.assert_allclose(sobi.lagged_covariances(Z, 7), C, atol=1e-13)


def test_matrices_that_have_a_common_basis_are_diagonalised_exactly():
    random = np.random.default_rng(1)
    V = np.linalg.qr(random.standard_normal((5, 5)))[0]
    C = np.einsum("ij,lj,kj->lik", V, random.uniform(-1, 1, (8, 5)), V)
    state = sobi.SOBIState(0, np.inf, np.eye(5), C, np.array([]))
    problem = sobi.SOBIProblem(autoregressive()[0], lags=3)
    for _ in range(20):
        state = sobi.JointDiagonalisation(problem).step(state)
    assert amari_distance(state.J @ V) < 1e-9
    assert state.trace[-1] < 1e-20
    assert state.turned < 1e-10


def test_a_turn_is_the_best_one():
    C = sobi.lagged_covariances(autoregressive()[0], 5)
    c, s = sobi._jacobi_rotation(C, 0, 2)

    def left(angle):
        R = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        return sum((R @ one[np.ix_([0, 2], [0, 2])] @ R.T)[0, 1] ** 2 for one in C)

    assert left(np.arctan2(s, c)) <= min(left(a) for a in np.linspace(0, np.pi, 2001)) * (1 + 1e-12)


def test_sources_of_one_spectrum_are_named():
    Z, _ = autoregressive((0.9, 0.5, 0.5))
    problem = sobi.SOBIProblem(Z, lags=20)
    assert len(sobi.find_indistinguishable_pairs(problem, run(problem))) == 1
    Z, _ = autoregressive((0.9, 0.5, 0.0))
    problem = sobi.SOBIProblem(Z, lags=20)
    assert sobi.find_indistinguishable_pairs(problem, run(problem)) == []


def test_a_resumed_run_goes_the_same_way():
    problem = sobi.SOBIProblem(autoregressive()[0], lags=10)
    state = sobi.JointDiagonalisation(problem).step(sobi.JointDiagonalisation(problem).init())
    saved = copy.deepcopy(state)
    assert np.array_equal(sobi.JointDiagonalisation(problem).step(state).J, sobi.JointDiagonalisation(problem).step(saved).J)


def test_what_is_refused():
    Z, _ = autoregressive(n=50)
    with pytest.raises(BadUsage, match="50 lags are too many for 50 rows"):
        sobi.SOBIProblem(Z, lags=50)
    with pytest.raises(BadUsage, match="sobi needs whitened rows"):
        sobi.SOBIProblem(2.0 * Z, lags=5)


@pytest.mark.parametrize("name", ["J", "C"])
def test_a_checkpoint_that_is_not_finite_is_refused(name):
    """The pseudo-inverse of infinite filters does not return."""
    state = sobi.JointDiagonalisation(sobi.SOBIProblem(autoregressive(n=500)[0], lags=3)).init()
    schema.check_arrays(state)
    getattr(state, name)[0] = -np.inf
    with pytest.raises(DataError, match=f"/{name} has values that are not finite"):
        schema.check_arrays(state)
