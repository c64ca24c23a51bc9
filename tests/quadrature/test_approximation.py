"""Approximate mean embeddings: what they are, that their bounds hold, and that runs with them resume, share work and go on."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage
from herdcli.quadrature import result_assembly, selection, selection_problem
from herdcli.quadrature.embeddings import approximation, embedding_sums, nystrom, random_fourier
from herdcli.quadrature.kernels.kernel_functions import GaussianKernel
from herdcli.quadrature.kernels.kernel_parsing import parse_kernel
from herdcli.quadrature.rules import sequential_rules
from herdcli.quadrature.targets import RowTarget

ROWS, COLUMNS = 240, 3


def data(seed, heavy=False):
    """Two clusters, of which `heavy` puts a few rows far out; and unequal weights that sum to 1, some of them 0."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((ROWS, COLUMNS)) + 3.0 * random.integers(2, size=(ROWS, 1))
    if heavy:
        X[:5] *= 30.0
    weights = random.exponential(size=ROWS)
    weights[::17] = 0.0
    return X, weights / weights.sum()


def problem_of(X, weights, text, *, kernel=None, count=12, seed=0, rule="herding", **more):
    settings = selection_problem.SelectionSettings(
        sequential_rules.RuleSettings(rule, seed=seed), embedding=approximation.parse_embedding_approximation(text), **more
    )
    return selection_problem.SelectionProblem(
        kernel or GaussianKernel(1.5), (selection_problem.SelectionGroup(RowTarget(X, weights), None, count),), settings
    )


def plan_of(problem):
    """The plan of the one group, and its complete sums."""
    plan, states = embedding_sums.make_embedding_plan(problem, problem.groups[0], 0), []
    for which, (steps, _) in enumerate(selection_problem.embedding_step_costs(problem, problem.groups[0])):
        part = plan.make_sums(which, states)
        assert part.steps == steps
        state = part.init()
        while state.step < steps:
            state = part.step(state)
        states.append(state)
    return plan, states


def run(problem, map=map):
    return run_algorithm(selection.AtomSelection(problem, map)).done[0]


@pytest.mark.parametrize("text", ["nystrom:30", "sample:50", "fourier:60"])
@pytest.mark.parametrize(
    ("name", "heavy"), [("gaussian:1.5", False), ("laplace:2", True), ("matern32:1", False), ("0.5*gaussian:1+2*matern12:3", True)]
)
def test_no_trial_exceeds_its_bound(text, name, heavy, mmd):
    """The MMD to μ̃ that a run reports, beside that to μ by the kernel matrices."""
    kernel, figures = parse_kernel(name), []
    for seed in range(9):
        X, weights = data(seed, heavy)
        problem = problem_of(X, weights, text, kernel=kernel, seed=seed)
        found = run(problem)
        truth = mmd(kernel, X, weights, found.atoms, found.weight)
        figures.append((abs(truth - found.mmd[-1]), found.added.mmd_error_bound(float(found.mmd[-1]), found.weight)))
    assert all(0 < error <= bound for error, bound in figures)


@pytest.mark.parametrize("seed", range(4))
def test_elements_of_the_space_are_as_near_as_their_bound_says(seed):
    """‖μ − μ̃‖² = μ'w − 2 μ̃'w + ‖μ̃‖² at the rows, for all atoms at once."""
    X, weights = data(seed, heavy=seed % 2 == 1)
    gram = GaussianKernel(1.5).matrix(X, X)
    for text in ("nystrom:30", "sample:50"):
        plan, states = plan_of(problem_of(X, weights, text, seed=seed))
        found = plan.approximate_embedding(states)
        square = weights @ gram @ weights - 2 * weights @ found.mean + found.norm
        assert 0 < np.sqrt(square) <= found.added.distance
        np.testing.assert_allclose(found.function(X[:9]), found.mean[:9], atol=1e-12)


def test_fourier_features_are_within_their_bounds_at_every_candidate():
    kernel = parse_kernel("gaussian:1*laplace:3")
    for seed in range(20):
        X, weights = data(seed)
        plan, states = plan_of(problem_of(X, weights, "fourier:80", kernel=kernel, seed=seed))
        found, exact = plan.approximate_embedding(states), kernel.matrix(X, X) @ weights
        assert np.abs(found.mean - exact).max() <= found.added.uniform
        assert abs(found.norm - exact @ weights) <= found.added.norm
        np.testing.assert_allclose(found.function(X[:9]), found.mean[:9], atol=1e-12)


def test_nystrom_is_the_projection_on_the_landmarks(monkeypatch):
    """By the pseudo-inverse of their Gram matrix; with one block the bound is the distance itself."""
    X, weights = data(3)
    monkeypatch.setattr(nystrom, "JITTER", 1e-14)
    problem = problem_of(X, weights, "nystrom:25")
    plan, states = plan_of(problem)
    found, gram = plan.approximate_embedding(states), GaussianKernel(1.5).matrix(X, X)
    chosen = np.flatnonzero((plan.problem.landmarks[:, None] == X).all(axis=2).any(axis=0))
    assert len(chosen) == 25
    assert weights[chosen].all()
    expected = gram[:, chosen] @ np.linalg.solve(gram[np.ix_(chosen, chosen)], gram[chosen] @ weights)
    np.testing.assert_allclose(found.mean, expected, atol=1e-9)
    distance = np.sqrt(weights @ gram @ weights - expected @ weights)
    assert found.added.distance == pytest.approx(distance, rel=1e-4)
    monkeypatch.setattr(nystrom, "rows_per_block", lambda landmarks: 40)
    assert distance < plan_of(problem)[0].approximate_embedding(plan_of(problem)[1]).added.distance < 10 * distance


def test_equal_rows_do_not_break_the_landmarks_factor():
    X = np.repeat(data(0)[0][:12], 20, axis=0)
    found = run(problem_of(X, np.full(ROWS, 1 / ROWS), "nystrom:40"))
    assert np.isfinite(found.mmd).all()
    assert 0 < found.added.distance < 0.2


def test_a_sample_is_the_mean_of_its_draws():
    X, weights = data(5)
    plan, states = plan_of(problem_of(X, weights, "sample:60"))
    found = plan.approximate_embedding(states)
    np.testing.assert_allclose(found.mean, GaussianKernel(1.5).matrix(X, plan.drawn).mean(axis=1), atol=1e-14)
    assert found.added.distance == pytest.approx(np.sqrt(1 / 60) + np.sqrt(2 * np.log(1000) / 120))  # k(x, x) = 1, k > 0


KERNELS = ["gaussian:1.3", "laplace:2", "matern12:1", "matern32:1", "matern52:2", "inverse-multiquadric:1.5", "rational-quadratic:1.2,0.7"]
COMPOSITES = ["gaussian:1*laplace:2", "0.3*gaussian:1+0.7*matern12:2", "2*gaussian:1*matern52:3"]


@pytest.mark.parametrize("name", KERNELS + COMPOSITES)
def test_frequencies_have_the_kernel_as_their_characteristic_function(name):
    kernel, count = parse_kernel(name), 20_000
    drawn = random_fourier.sample_frequencies(kernel, np.random.default_rng(1), count, 2)
    apart = np.array([[0.0, 0.0], [0.3, -0.2], [1.0, 0.5], [-2.0, 1.0]])
    scale = random_fourier.kernel_amplitude(kernel)
    assert scale == pytest.approx(kernel.diagonal(apart)[0])
    np.testing.assert_allclose(
        scale * np.cos(apart @ drawn.T).mean(axis=1), kernel.matrix(apart, np.zeros((1, 2)))[:, 0], atol=0.025 * scale
    )


@pytest.mark.parametrize("name", ["energy", "linear", "hamming:2", "gaussian:1*energy", "bernoulli:1", "-1*gaussian:1"])
def test_kernels_without_a_spectral_density_are_refused(name):
    with pytest.raises(BadUsage, match="has no spectral density"):
        random_fourier.kernel_amplitude(parse_kernel(name))


@pytest.mark.parametrize("text", ["nystrom:30", "sample:50", "fourier:60"])
def test_a_run_resumed_after_any_step_ends_alike(text, monkeypatch):
    """In small blocks; and neither workers nor what is kept between steps changes a bit."""
    for module, name, value in ((nystrom, "BLOCKS", 1), (random_fourier, "BLOCK", 1200), (random_fourier, "BLOCKS", 2)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(nystrom, "rows_per_block", lambda landmarks: 100)
    problem = problem_of(*data(1), text)
    whole = run(problem)
    state, total = selection.AtomSelection(problem).init(), selection.AtomSelection(problem).steps
    steps = 0
    while state.step < total:
        state, steps = selection.AtomSelection(problem).step(copy.deepcopy(state)), steps + 1
    assert steps == total
    with ThreadPoolExecutor(3) as pool:
        spread = run(problem, pool.map)
    for other in (state.done[0], spread):
        np.testing.assert_array_equal(other.mmd, whole.mmd)
        np.testing.assert_array_equal(other.index, whole.index)
        assert other.added == whole.added


def test_going_on_keeps_the_embedding_and_its_bound():
    X, weights = data(2)
    problem = problem_of(X, weights, "nystrom:30", count=8)
    few = run(problem).state
    longer = replace(problem.groups[0], count=20, start=few)
    more, whole = run(replace(problem, groups=(longer,))), run(problem_of(X, weights, "nystrom:30", count=20))
    np.testing.assert_array_equal(more.mmd, whole.mmd)
    assert more.added == whole.added != approximation.EmbeddingErrorBounds()


def test_few_rows_or_pairs_are_exact():
    X, weights = data(4)
    exact = run(problem_of(X, weights, "exact"))
    some = problem_of(X, weights, "nystrom:30")
    few = replace(some.settings, embedding=approximation.EmbeddingApproximation("nystrom", 30, by_cost=True))
    for problem in (problem_of(X, weights, "nystrom:240"), problem_of(X, weights, "sample:500"), replace(some, settings=few)):
        found = run(problem)
        np.testing.assert_array_equal(found.mmd, exact.mmd)
        assert found.added is None
    assert run(some).added is not None


def test_samples_carry_the_bound(mmd):
    X, weights = data(6)
    problem = problem_of(X, weights, "nystrom:30")
    value = result_assembly.assemble_samples(
        problem, run_algorithm(selection.AtomSelection(problem)), [None], kind="simplex", projected=False, scale=np.ones(3)
    )
    truth = mmd(GaussianKernel(1.5), X, weights, value.x, value.weight)
    assert abs(truth - value.summary.mmd[0]) <= value.summary.embedding_error[0] == value.state[0].added.distance
    assert value.embedding == "nystrom:30"


@pytest.mark.parametrize("text", ["nystrom", "nystrom:1", "nystrom:x", "fourier:-3", "median", "sample:2.5"])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match="is none of exact, sample:N"):
        approximation.parse_embedding_approximation(text)


def test_of_a_square_off_by_little_the_root_is_off_by_its_derivative():
    added = approximation.EmbeddingErrorBounds(uniform=0.01, norm=0.02)
    assert added.mmd_error_bound(0.5, np.array([0.5, 0.5])) == pytest.approx(0.04 / 0.5)
    assert added.mmd_error_bound(0.0, np.array([1.0])) == pytest.approx(0.2)
    assert added.mmd_error_bound(0.5, np.array([2.0, -1.0])) == pytest.approx(0.08 / 0.5)
