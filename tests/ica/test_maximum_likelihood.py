"""Maximum likelihood: its gradient and optimum against a plain optimiser, known mixings, and scikit-learn where it is installed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize

from herdcli.algorithm import run_algorithm
from herdcli.cluster import serialization
from herdcli.cluster.block_chunks import compute_chunk_sums
from herdcli.errors import BadUsage
from herdcli.ica import external_libraries, likelihood, whitening
from herdcli.ica import maximum_likelihood as ml
from herdcli.ica.experts import EXPERTS
from herdcli.ica.filters import filter_convention
from herdcli.ica.filters.amari_distance import amari_distance
from herdcli.numerics import block_statistics


def mixed(n=3000, D=4, seed=0, density="laplace"):
    random = np.random.default_rng(seed)
    A = random.standard_normal((D, D))
    X = (random.uniform(-1, 1, (n, D)) if density == "bimodal" else random.laplace(size=(n, D))) @ A.T
    fitted = whitening.fit_whitening(X, method="pca")
    return fitted.apply(X), fitted.forward @ A


def run(problem):
    state = ml.MaximumLikelihood(problem).init()
    while not state.done and state.step < problem.iterations:
        state = ml.MaximumLikelihood(problem).step(state)
    return state


def loss(J, Z, density, gamma=1.0):
    expert, M = EXPERTS[density], len(J)
    return gamma * expert.energy(Z @ J.T).sum(axis=1).mean() + expert.log_z(np.full(M, gamma)).sum() - np.linalg.slogdet(J)[1]


@pytest.mark.parametrize(("density", "gamma"), [("logistic", 1.0), ("student", 1.5), ("laplace-smooth", 1.0)])
def test_loss_and_gradient_are_those_of_the_definition(density, gamma):
    Z, _ = mixed(200, 3)
    J = np.random.default_rng(1).standard_normal((3, 3))
    found = ml.evaluate_stage(ml.MaximumLikelihoodProblem(Z, density, gamma), 1, J)
    assert found.loss == pytest.approx(loss(J, Z, density, gamma), rel=1e-12)
    for index in np.ndindex(3, 3):
        P = np.zeros((3, 3))
        P[index] = 1e-6
        along = (loss(J + P @ J, Z, density, gamma) - loss(J - P @ J, Z, density, gamma)) / 2e-6
        assert found.G[index] == pytest.approx(along, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("density", ml.DENSITIES)
def test_optimum_is_that_of_a_plain_optimiser(density):
    Z, product = mixed(1000, 3, density=density)
    state = run(ml.MaximumLikelihoodProblem(Z, density, 1.5 if density == "student" else 1.0))
    gamma = 1.5 if density == "student" else 1.0
    plain = minimize(lambda v: loss(v.reshape(3, 3), Z, density, gamma), state.J.ravel() * 1.2, method="BFGS", options={"gtol": 1e-7})
    assert state.loss == pytest.approx(plain.fun, abs=1e-8)
    assert np.abs(state.G).max() <= 1e-7
    assert amari_distance(state.J @ product) < 0.6
    assert (np.diff(state.trace) >= -1e-12).all()


def test_optimum_does_not_depend_on_the_mixing():
    Z, _ = mixed()
    A = np.random.default_rng(2).standard_normal((4, 4))
    one, other = run(ml.MaximumLikelihoodProblem(Z)), run(ml.MaximumLikelihoodProblem(Z @ A.T))
    assert other.loss == pytest.approx(one.loss + np.linalg.slogdet(A)[1], abs=1e-9)
    assert amari_distance(other.J @ A @ np.linalg.inv(one.J)) < 1e-5


def test_many_rows_begin_with_few():
    Z, product = mixed(3 * ml.THINNED, 3)
    problem = ml.MaximumLikelihoodProblem(Z)
    first = ml.MaximumLikelihood(problem).init()
    assert first.stage == 0
    assert problem.read_thinned_rows().shape == (ml.THINNED, 3)
    state = run(problem)
    assert state.stage == 1
    whole = ml.MaximumLikelihoodProblem(Z, initial=np.linalg.inv(product))
    assert ml.evaluate_stage(whole, 1, state.J, state.signs).loss == pytest.approx(state.loss, rel=1e-12)
    assert np.abs(ml.evaluate_stage(whole, 1, state.J, state.signs).G).max() <= 1e-7


def test_resumed_state_goes_the_same_way():
    import copy

    Z, _ = mixed()
    problem = ml.MaximumLikelihoodProblem(Z)
    state = ml.MaximumLikelihood(problem).init()
    for _ in range(4):
        state = ml.MaximumLikelihood(problem).step(state)
    saved = copy.deepcopy(state)
    ends = [run_on(problem, one) for one in (state, saved)]
    assert np.array_equal(ends[0].J, ends[1].J)
    assert np.array_equal(ends[0].J, run(ml.MaximumLikelihoodProblem(Z)).J)


def run_on(problem, state):
    while not state.done:
        state = ml.MaximumLikelihood(problem).step(state)
    return state


def test_densities_without_curvature_are_refused():
    with pytest.raises(BadUsage, match="density 'laplace' does not work with maximum likelihood"):
        ml.MaximumLikelihoodProblem(np.zeros((5, 2)), "laplace")


@pytest.mark.parametrize("name", ["fastica", "picard"])
def test_libraries_find_the_sources_too(name):
    pytest.importorskip(external_libraries.PACKAGES[name], reason="the extra ica is not installed")
    Z, product = mixed()
    J, count, converged = getattr(external_libraries, f"run_{name}")(Z, np.eye(4), tolerance=1e-6, iterations=300)
    assert converged
    assert 1 < count < 300
    assert amari_distance(J @ product) < 0.6


def test_picard_without_signs_ends_where_the_likelihood_of_sech_has_its_maximum():
    pytest.importorskip("picard", reason="the extra ica is not installed")
    Z, _ = mixed()
    J = external_libraries.run_picard(Z, np.eye(4), tolerance=1e-6, iterations=300, extended=False)[0]
    assert amari_distance(J @ np.linalg.inv(run(ml.MaximumLikelihoodProblem(Z, "laplace-smooth")).J)) < 1e-3


def test_the_curvature_is_solved_block_by_block_with_its_smallest_eigenvalues_raised():
    random = np.random.default_rng(2)
    h, G = random.uniform(-1.0, 3.0, (6, 6)), random.standard_normal((6, 6))
    expected, raised = np.empty((6, 6)), 0
    for i in range(6):
        expected[i, i] = G[i, i] / max(h[i, i] + 1, ml.LEAST_CURVATURE)
        for j in range(i):
            block = np.array([[h[i, j], 1.0], [1.0, h[j, i]]])
            least = np.linalg.eigvalsh(block)[0]
            raised += least < ml.LEAST_CURVATURE
            block += max(ml.LEAST_CURVATURE - least, 0.0) * np.eye(2)
            expected[i, j], expected[j, i] = np.linalg.solve(block, [G[i, j], G[j, i]])
    assert 0 < raised < 15
    np.testing.assert_allclose(ml._solve_pair_blocks(h, G), expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["logistic", "laplace-smooth", "student"])
def test_what_a_block_needs_of_a_density_is_its_energy_and_two_differences_of_it(name):
    expert, u, width = EXPERTS[name], np.array([[-40.0, -2.0, -0.3, 1e-3], [0.4, 1.0, 3.0, 30.0]]), 1e-4
    total, slope, curved = expert.energy_and_derivatives(u)
    assert total == pytest.approx(expert.energy(u).sum(), rel=1e-13)
    np.testing.assert_allclose(slope, (expert.energy(u + width) - expert.energy(u - width)) / (2 * width), atol=1e-7)
    np.testing.assert_allclose(curved, (expert.energy(u + width) - 2 * expert.energy(u) + expert.energy(u - width)) / width**2, atol=1e-5)


@dataclass(frozen=True)
class FromElsewhere:
    """Rows that are handed over a few at a time, as a file does."""

    X: np.ndarray

    @property
    def count(self):
        return len(self.X)

    @property
    def columns(self):
        return self.X.shape[1]

    def read(self, start, stop):
        return block_statistics.RowBlock(start, np.ascontiguousarray(self.X[start:stop], dtype=np.float64))


@pytest.mark.parametrize("log", [False, True])
def test_rows_that_are_read_block_by_block_give_the_bytes_of_rows_in_memory(log):
    """Whitening, filters and outputs' moments; 20,000 rows are five blocks, of which the last is short, and are thinned first."""
    random = np.random.default_rng(3)
    X = np.exp(0.1 * random.laplace(size=(20_000, 3)) @ random.standard_normal((3, 3))).astype(np.float32)
    given = FromElsewhere(X)
    held, read = whitening.fit_whitening(X, method="zca", log=log), whitening.fit_whitening(given, method="zca", log=log)
    assert held.forward.tobytes() == read.forward.tobytes()
    Z = held.apply(X)
    rows = whitening.whitened_rows(given, read)
    assert rows.read(4096, 12_000).X.tobytes() == Z[4096:12_000].tobytes()
    with ThreadPoolExecutor(2) as pool:
        one, other = run(ml.MaximumLikelihoodProblem(Z)), run_algorithm(ml.MaximumLikelihood(ml.MaximumLikelihoodProblem(rows), pool.map))
    assert one.J.tobytes() == other.J.tobytes()
    assert one.step == other.iterations > 3
    for ours, theirs in zip(
        vars(filter_convention.compute_output_moments(Z, one.J)).values(),
        vars(filter_convention.compute_output_moments(rows, one.J)).values(),
        strict=True,
    ):
        assert ours.tobytes() == theirs.tobytes()


def test_a_block_adds_what_its_rows_are_worth():
    """The sums of two blocks in the tree are those of a plain loop over rows, for both kinds of density together."""
    random = np.random.default_rng(4)
    Z, J, which = random.laplace(size=(5000, 3)), random.standard_normal((3, 3)), np.array([1, -1, 1])
    sums = block_statistics.sum_statistics(block_statistics.RowBlocks(FromElsewhere(Z)), likelihood.LikelihoodSums(J, "auto", which))
    u = Z @ J.T
    experts = [EXPERTS["laplace-smooth" if sign > 0 else "bimodal"] for sign in which]
    slope, curved = (np.column_stack([getattr(e, name)(u[:, i]) for i, e in enumerate(experts)]) for name in ("slope", "curvature"))
    assert sums["energy"][0] == pytest.approx(sum(e.energy(u[:, i]).sum() for i, e in enumerate(experts)), rel=1e-12)
    np.testing.assert_allclose(sums["slopes"], slope.T @ u, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(sums["curvature"], curved.T @ u**2, rtol=1e-9, atol=1e-8)


def test_a_likelihood_can_be_sent_to_other_processes():
    asked = likelihood.LikelihoodSums(np.eye(2), "auto", np.array([1, -1]))
    assert serialization.deserialize(serialization.serialize(asked)) == asked
    source, tree = block_statistics.RowBlocks(FromElsewhere(np.random.default_rng(0).laplace(size=(9000, 2)))), block_statistics.SumTree()
    for size, sums in compute_chunk_sums(list(source.take(0, source.count)), asked, 0):
        tree.add_block_sums(sums, size)
    whole = block_statistics.sum_statistics(source, asked)
    assert all(tree.total_sums()[name].tobytes() == item.tobytes() for name, item in whole.items())
