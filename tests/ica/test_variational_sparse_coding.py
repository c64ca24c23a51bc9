"""EM of sparse coding with Gaussian posteriors against quadrature, finite differences and a general minimiser."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.optimize import minimize

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage
from herdcli.ica import variational_sparse_coding


def rows(n=150, D=4, M=8, seed=0):
    """Rows of a random dictionary with Laplacian sources and a little noise."""
    random = np.random.default_rng(seed)
    A = random.normal(size=(D, M))
    A /= np.sqrt((A**2).sum(axis=0))
    return random.laplace(size=(n, M)) @ A.T + 0.2 * random.normal(size=(n, D))


def run(Z, **options):
    task = variational_sparse_coding.VariationalCodingProblem(
        Z, **{"filters": 8, "noise": 0.3, "tolerance": 1e-300, "iterations": 20} | options
    )
    return solved(variational_sparse_coding.VariationalCoding(task))


def solved(algorithm):
    state = algorithm.init()
    while not algorithm.done(state):
        state = algorithm.step(state)
    return state


@pytest.mark.parametrize("mean", [-2.0, 0.0, 0.7])
@pytest.mark.parametrize("variance", [0.01, 3.0])
def test_folded_normal_means_and_their_slopes(mean, variance):
    def density(s):
        return np.exp(-0.5 * (s - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)

    ends = mean - 12 * variance**0.5, mean + 12 * variance**0.5
    expected = quad(lambda s: abs(s) * density(s), *ends, points=[0.0, mean], limit=200)[0]
    assert variational_sparse_coding.folded_normal_mean(np.array(mean), np.array(variance)) == pytest.approx(expected, rel=1e-8)
    h = 1e-5 * variance
    slope = (
        variational_sparse_coding.folded_normal_mean(np.array(mean), np.array(variance + h))
        - variational_sparse_coding.folded_normal_mean(np.array(mean), np.array(variance - h))
    ) / (2 * h)
    assert slope == pytest.approx(variational_sparse_coding.normal_density_at_zero(np.array(mean), np.array(variance)), rel=1e-6, abs=1e-8)


def test_the_free_energy_is_at_least_minus_log_of_the_density():
    C, gamma, noise = np.array([[1.0, 0.6]]), 1.5, 0.4
    coder = variational_sparse_coding.SparseCoder(C, gamma, noise)
    for z in (0.0, 0.8, 3.0):

        def joint(t, s, z=z):
            away = (z - C[0, 0] * s - C[0, 1] * t) / noise
            return (gamma / 2) ** 2 * np.exp(-gamma * (abs(s) + abs(t)) - 0.5 * away**2) / (noise * np.sqrt(2 * np.pi))

        pieces = [(a, b) for a in ((-9, 0), (0, 9)) for b in ((-9, 0), (0, 9))]
        evidence = sum(dblquad(joint, *a, *b, epsabs=1e-9)[0] for a, b in pieces)
        mean, d = coder.minimise_to_convergence(np.array([[z]]), np.zeros((1, 2)), np.ones((1, 2)))
        energy = coder.energy(np.array([[z]]), mean, d)[0][0]
        assert -np.log(evidence) <= energy < -np.log(evidence) + 0.3


def test_the_exact_e_step_is_the_least_of_all_gaussians():
    """Against BFGS over means and Cholesky factors, of rows of three sources."""
    random = np.random.default_rng(3)
    C = random.normal(size=(2, 3))
    coder, Z = variational_sparse_coding.SparseCoder(C, 1.2, 0.5), random.normal(size=(4, 2)) * 2
    mean, d = coder.minimise_to_convergence(Z, np.zeros((4, 3)), np.ones((4, 3)))
    reached = coder.energy(Z, mean, d)[0]
    lower = np.tril_indices(3)

    def energy(x, z):
        root = np.zeros((3, 3))
        root[lower] = x[3:]
        covariance = root @ root.T
        constant = np.log(2 * np.pi * 0.5**2) - 1.5 * np.log(2 * np.pi * np.e) - 3 * np.log(0.6)
        squares = (((z - C @ x[:3]) ** 2).sum() + np.trace(C @ covariance @ C.T)) / 0.5**2
        prior = 1.2 * variational_sparse_coding.folded_normal_mean(x[:3], np.diag(covariance)).sum()
        return 0.5 * squares + prior - 0.5 * np.linalg.slogdet(covariance)[1] + constant

    for z, value in zip(Z, reached, strict=True):
        best = min(minimize(energy, np.r_[random.normal(size=3), np.eye(3)[lower]], args=(z,), tol=1e-12).fun for _ in range(3))
        assert value == pytest.approx(best, abs=1e-6)


def test_the_m_step_is_the_least_for_its_posteriors():
    Z = rows()
    task = variational_sparse_coding.VariationalCodingProblem(Z, 8, noise=0.3)
    algorithm = variational_sparse_coding.VariationalCoding(task)
    state = algorithm.step(algorithm.init())
    coder = variational_sparse_coding.SparseCoder(state.C, 1.0, 0.3)

    def energy(C):
        """The same posteriors under another dictionary."""
        before = variational_sparse_coding.SparseCoder(algorithm.init().C, 1.0, 0.3)
        W = before.precision_root_and_logdet(state.curvature)[0]
        covariance = W.transpose(0, 2, 1) @ W
        squares = np.square(Z - state.mean @ C.T).sum() + np.einsum("di,nij,dj->", C, covariance, C)
        return 0.5 * squares / 0.3**2 / len(Z)

    assert state.energy[0] - state.energy[1] == pytest.approx(energy(algorithm.init().C) - energy(coder.C), abs=1e-9)
    random = np.random.default_rng(1)
    assert all(energy(state.C + 1e-3 * random.normal(size=state.C.shape)) > energy(state.C) for _ in range(5))


def test_the_exact_steps_never_raise_the_free_energy_and_the_book_s_do():
    Z = rows()
    exact, book = run(Z), run(Z[:60], e_step="book")
    assert np.diff(exact.energy).max() <= 1e-10
    rises = np.diff(book.energy)
    assert rises[0::2].max() <= 1e-10  # M steps
    assert (rises[1::2] > 1e-6).any()  # E steps
    assert run(Z[:60]).energy[-1] < book.energy[-1]


def test_columns_stay_bounded():
    lengths = np.sqrt((run(rows(80), iterations=40).C ** 2).sum(axis=0))
    assert lengths.max() < 2.5


def test_threads_change_no_bit_and_a_run_goes_on():
    from concurrent.futures import ThreadPoolExecutor

    Z = rows()
    whole = run(Z)
    with ThreadPoolExecutor(2) as pool:
        algorithm = variational_sparse_coding.VariationalCoding(
            variational_sparse_coding.VariationalCodingProblem(Z, 8, noise=0.3, tolerance=1e-300, iterations=20), pool.map
        )
        state = algorithm.init()
        while not algorithm.done(state):
            state = algorithm.step(state)
    np.testing.assert_array_equal(state.C, whole.C)


def test_the_run_ends_where_nothing_is_gained():
    fit = run_algorithm(
        variational_sparse_coding.VariationalCoding(
            variational_sparse_coding.VariationalCodingProblem(rows(40, 2, 3), 3, noise=0.5, tolerance=1e-4, iterations=200)
        )
    )
    assert fit.unconverged == ""
    assert fit.iterations < 200
    short = run_algorithm(
        variational_sparse_coding.VariationalCoding(
            variational_sparse_coding.VariationalCodingProblem(rows(40, 2, 3), 3, noise=0.5, iterations=2)
        )
    )
    assert short.unconverged.startswith("the last one changed the bound by ")


def test_what_has_no_gaussian_posterior_is_refused():
    with pytest.raises(BadUsage, match="without noise there is no gaussian posterior"):
        variational_sparse_coding.VariationalCodingProblem(rows(), 8, noise=0.0)
    with pytest.raises(BadUsage, match="unknown E step 'q'"):
        variational_sparse_coding.VariationalCodingProblem(rows(), 8, e_step="q")


def test_it_ends_after_three_iterations_in_a_row_that_gain_less_than_the_tolerance():
    state = run(rows(n=30), tolerance=6e-3, iterations=100)
    gains = -np.diff(state.energy[1::2])
    assert 3 < state.step < 100
    assert (gains[-3:] <= 6e-3).all()
    assert not any((gains[k : k + 3] <= 6e-3).all() for k in range(len(gains) - 3))


def test_what_the_last_iteration_changed_is_told_from_the_second_on():
    for iterations in (1, 2):
        algorithm = variational_sparse_coding.VariationalCoding(
            variational_sparse_coding.VariationalCodingProblem(rows(n=30), filters=5, noise=0.3, tolerance=1e-300, iterations=iterations)
        )
        state = solved(algorithm)
        change = abs(state.energy[-1] - state.energy[1])
        told = (
            "one iteration is too few to measure a change"
            if iterations == 1
            else f"the last one changed the bound by {change:.3g} nats per row"
        )
        assert algorithm.result(state).unconverged == told


def test_an_unfinished_e_step_ends_where_the_finished_one_does():
    """Each iteration's posteriors go on from the last one's, so that the end is the same."""
    Z = rows(60, 3, 5)
    found = []
    for share in (0.0, variational_sparse_coding.SHARE):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(variational_sparse_coding, "SHARE", share)
            found.append(run(Z, filters=5, iterations=60).energy)
    assert found[1][-1] == pytest.approx(found[0][-1], abs=2e-3)
    assert np.diff(found[1]).max() <= 1e-10


def test_dictionaries_larger_than_a_part_of_the_cache_are_inferred_the_same(monkeypatch):
    Z = rows(23)
    coder, start = (
        variational_sparse_coding.SparseCoder(np.random.default_rng(0).normal(size=(4, 8)), 1.0, 0.3),
        (np.zeros((23, 8)), np.full((23, 8), 0.5)),
    )
    whole = coder.minimise_energy(Z, *start, 1e-9)
    monkeypatch.setattr(variational_sparse_coding, "CACHED", 5 * 64)
    parts = coder.minimise_energy(Z, *start, 1e-9)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(parts[2], coder.energy(Z, *parts[:2])[0], rtol=1e-12)
