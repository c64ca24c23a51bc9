"""Weights and active sets: optimality conditions, known quadratures, bounds, swaps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from herdcli.quadrature import atom_weights, simplex
from herdcli.quadrature.kernels.kernel_functions import BernoulliKernel, FeatureKernel, GaussianKernel, MaternKernel, PolynomialKernel
from herdcli.quadrature.rules import active_set, min_norm_point, swap_refinement
from herdcli.quadrature.rules.candidate_space import prefix_mmds
from herdcli.quadrature.targets import RowTarget


def uniform(X):
    return RowTarget(X, np.full(len(X), 1.0 / len(X)))


def test_trapezoid_weights_of_the_circle(space_of, interval):
    """ν = 1: the best simplex weights of any points are half the gaps to both neighbours, and MMD² = Σ h³/12."""
    _, target = interval(1)
    atoms = np.sort(np.random.default_rng(0).random(12))[:, None]
    space = space_of(BernoulliKernel(1), target, atoms)
    gaps = np.diff(np.concatenate([atoms[:, 0], [atoms[0, 0] + 1.0]]))
    found = atom_weights.compute_atom_weights("simplex", space, atoms, space.embedding)
    np.testing.assert_allclose(found, 0.5 * (gaps + np.roll(gaps, 1)), atol=1e-12)
    assert atom_weights.make_weight_report(space, atoms, space.embedding, found).mmd ** 2 == pytest.approx(np.sum(gaps**3) / 12, rel=1e-9)


@pytest.mark.parametrize("kernel", [GaussianKernel(1.0), GaussianKernel(4.0), MaternKernel(1, 1.0)])
def test_simplex_weights_meet_the_optimality_conditions(kernel):
    random = np.random.default_rng(0)
    X, Z = random.standard_normal((80, 3)), random.standard_normal((400, 3))
    K, z = kernel.matrix(X, X), kernel.matrix(X, Z).mean(axis=1)
    w = simplex.simplex_weights(K, z)
    assert w.min() >= 0
    assert w.sum() == pytest.approx(1.0, abs=1e-14)
    slope = K @ w - z
    level = slope @ w
    assert slope.min() >= level - 1e-12
    np.testing.assert_allclose(slope[w > 0], level, atol=1e-12)


def test_simplex_weights_equal_a_generic_optimiser():
    random = np.random.default_rng(3)
    X, Z = random.standard_normal((9, 2)), random.standard_normal((50, 2)) + 0.5
    K, z = GaussianKernel(1.0).matrix(X, X), GaussianKernel(1.0).matrix(X, Z).mean(axis=1)
    best = minimize(
        lambda w: 0.5 * w @ K @ w - w @ z,
        np.full(9, 1 / 9),
        jac=lambda w: K @ w - z,
        bounds=[(0, None)] * 9,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    w = simplex.simplex_weights(K, z)
    np.testing.assert_allclose(w, best.x, atol=1e-5)
    assert (w == 0).any()
    assert 0.5 * w @ K @ w - w @ z <= best.fun + 1e-14
    np.testing.assert_allclose(simplex.simplex_weights(K, z, start=np.array([0, 3, 4])), w, atol=1e-12)


def test_more_freedom_is_never_worse(rows, space_of):
    space = space_of(GaussianKernel(1.5), uniform(rows), rows)
    atoms, z = rows[:25], space.embedding[:25]
    errors = [
        atom_weights.make_weight_report(space, atoms, z, atom_weights.compute_atom_weights(kind, space, atoms, z)).mmd
        for kind in ("uniform", "simplex", "affine", "free")
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 1.5 * errors[1]
    affine = atom_weights.compute_atom_weights("affine", space, atoms, z)
    assert affine.sum() == pytest.approx(1.0, abs=1e-10)
    K = GaussianKernel(1.5).matrix(atoms, atoms)
    np.testing.assert_allclose(K @ atom_weights.compute_atom_weights("free", space, atoms, z), z, atol=1e-9)
    assert np.ptp(K @ affine - z) < 1e-9


def test_equal_atoms_share_their_weight(rows, space_of):
    space = space_of(GaussianKernel(1.5), uniform(rows), rows)
    atoms, z = rows[[3, 7, 3, 9]], space.embedding[[3, 7, 3, 9]]
    w = atom_weights.compute_atom_weights("simplex", space, atoms, z)
    alone = atom_weights.compute_atom_weights("simplex", space, rows[[3, 7, 9]], space.embedding[[3, 7, 9]])
    np.testing.assert_allclose([w[0] + w[2], w[1], w[3]], alone, atol=1e-13)
    assert w[0] == w[2]
    assert np.isfinite(atom_weights.make_weight_report(space, atoms, z, w).condition)


def run_active(space, rule, count):
    problem = active_set.ActiveSetProblem(space, rule, count)
    state, trace = active_set.initial_state(problem), []
    while not state.ended:
        state = active_set.active_set_step(problem, state)
        trace.append(state.mmd[state.size - 1])
    return state, np.array(trace)


@pytest.mark.parametrize("rule", ["away", "pairwise", "bpcg"])
def test_active_set_rules_descend_and_their_figures_are_exact(rows, space_of, mmd, rule):
    kernel, target = GaussianKernel(1.2), uniform(rows)
    space = space_of(kernel, target, rows)
    state, trace = run_active(space, rule, 20)
    assert (np.diff(trace) <= 1e-12).all()
    n = state.size
    index, w = state.index[:n], state.weight[:n]
    assert len(set(index.tolist())) == n
    assert w.min() > 0
    assert w.sum() == pytest.approx(1.0, abs=1e-13)
    assert state.mmd[n - 1] == pytest.approx(mmd(kernel, rows, target.weights, rows[index], w), abs=1e-12)
    slope = kernel.matrix(rows, rows[index]) @ w - space.embedding
    assert state.gap[n - 1] == pytest.approx(slope[index] @ w - slope.min(), abs=1e-12)
    assert 0.5 * state.mmd[n - 1] ** 2 <= state.gap[n - 1]


@pytest.mark.parametrize("rule", ["away", "pairwise", "bpcg"])
def test_active_set_rules_reach_a_target_in_the_hull_linearly(space_of, rule):
    """A polytope and a target inside: away steps and their kin converge, plain conditional gradient crawls."""
    random = np.random.default_rng(0)
    X = random.standard_normal((12, 4))
    space = space_of(FeatureKernel(), RowTarget(X, random.dirichlet(np.ones(12))), X)
    _state, trace = run_active(space, rule, 12)
    assert trace[-1] < 1e-6


@pytest.mark.parametrize("rule", ["away", "pairwise", "bpcg"])
def test_a_run_at_its_cap_keeps_the_atoms_so_far(space_of, interval, rule):
    points, target = interval(16)
    space = space_of(BernoulliKernel(2), target, points)
    state, trace = run_active(space, rule, 20)
    assert (state.ended, len(trace)) == ("cap", active_set.PER_ATOM * 20)
    assert state.mmd[state.size - 1] <= trace.min() * (1 + 1e-6) + 1e-12


def test_minimum_norm_point_at_its_cap_keeps_the_atoms_so_far(rows, space_of, monkeypatch):
    monkeypatch.setattr(min_norm_point, "total_steps", lambda problem: 7)
    state = run_min_norm(space_of(GaussianKernel(1.2), uniform(rows), rows), 25)
    assert (state.ended, state.step, state.hull.size) == ("cap", 7, 8)


def run_min_norm(space, count):
    problem = min_norm_point.MinNormPointProblem(space, count)
    state = min_norm_point.initial_state(problem)
    while not state.ended:
        state = min_norm_point.major_cycle(problem, state)
    return state


def test_min_norm_point_is_optimal_on_its_support(rows, space_of, mmd):
    kernel, target = GaussianKernel(1.2), uniform(rows)
    space = space_of(kernel, target, rows)
    state = run_min_norm(space, 25)
    n = state.hull.size
    index, w = state.hull.ids[:n], state.hull.weight[:n]
    assert (state.ended, n) == ("count", 25)
    assert state.mmd[n - 1] == pytest.approx(mmd(kernel, rows, target.weights, rows[index], w), abs=1e-12)
    slope = kernel.matrix(rows, rows[index]) @ w - space.embedding
    np.testing.assert_allclose(slope[index], slope[index] @ w, atol=1e-12)
    assert (np.diff(state.mmd) < 0).all()
    assert 0.5 * state.mmd[n - 1] ** 2 <= state.gap[n - 1]


def test_min_norm_point_solves_the_whole_problem_in_finitely_many_steps(space_of):
    random = np.random.default_rng(0)
    X = random.standard_normal((30, 3))
    inside = space_of(FeatureKernel(), RowTarget(X, random.dirichlet(np.ones(30))), X)
    state = run_min_norm(inside, 30)
    assert state.ended == "gap"
    assert state.hull.size <= 4  # Carathéodory
    assert state.mmd[state.hull.size - 1] < 1e-7


def test_swaps_never_raise_the_error_and_their_figures_are_exact(rows, space_of, run_rule, mmd):
    kernel, target = GaussianKernel(1.2), uniform(rows)
    space = space_of(kernel, target, rows)
    start = run_rule(space, target, 15)
    problem = swap_refinement.SwapProblem(space, 6)
    state = swap_refinement.initial_state(problem, start.index, start.atoms, start.embedding)
    last = state.mmd[0]
    assert last == pytest.approx(start.mmd[-1], abs=1e-13)
    while state.step < swap_refinement.total_steps(problem, state):
        state = swap_refinement.swap_step(problem, state)
        now = mmd(kernel, rows, target.weights, state.atoms, np.full(15, 1 / 15))
        assert now <= last + 1e-13
        last = now
    assert state.mmd[-1] == pytest.approx(last, abs=1e-12)
    assert state.mmd[-1] < 0.9 * state.mmd[0]
    np.testing.assert_array_equal(state.atoms, rows[state.index])


@pytest.mark.parametrize("seed", range(4))
def test_a_swap_takes_the_best_candidate_of_a_kernel_whose_diagonal_varies(space_of, mmd, seed):
    """Every visit against all candidates tried in turn, under k(x, y) = (1 + x·y)²."""
    rows = np.random.default_rng(seed).standard_normal((30, 2))
    kernel, target = PolynomialKernel(2, 1.0), uniform(rows)
    space = space_of(kernel, target, rows)
    problem, equal = swap_refinement.SwapProblem(space, 2), np.full(4, 0.25)
    state = swap_refinement.initial_state(problem, np.arange(4), rows[:4], space.embedding[:4])
    while state.step < 8:
        tried = np.repeat(state.atoms[None], len(rows), axis=0)
        tried[:, state.step % 4] = rows
        least = min(mmd(kernel, rows, target.weights, atoms, equal) for atoms in tried)
        state = swap_refinement.swap_step(problem, state)
        assert mmd(kernel, rows, target.weights, state.atoms, equal) == pytest.approx(least, abs=1e-9)


def test_prefix_distances_are_those_of_the_prefixes(rows, space_of, mmd):
    kernel, target = GaussianKernel(1.2), uniform(rows)
    space = space_of(kernel, target, rows)
    w = np.random.default_rng(0).random(9)
    found = prefix_mmds(space, rows[:9], space.embedding[:9], w)
    for t in range(1, 10):
        assert found[t - 1] == pytest.approx(mmd(kernel, rows, target.weights, rows[:t], w[:t] / w[:t].sum()), abs=1e-12)


def test_projected_trace_is_below_the_equal_weights(rows, space_of, run_rule):
    space = space_of(GaussianKernel(1.2), uniform(rows), rows)
    state = run_rule(space, uniform(rows), 40)
    counts, found = atom_weights.simplex_mmd_trace(space, state.atoms, state.embedding)
    assert counts[0] == 1
    assert counts[-1] == 40
    assert (np.diff(found) <= 1e-12).all()
    assert (found <= state.mmd[counts - 1] + 1e-12).all()


@pytest.mark.parametrize("rule", ["away", "pairwise", "bpcg"])
def test_the_first_atom_is_the_nearest_of_a_kernel_whose_diagonal_varies(space_of, mmd, rule):
    rows = np.random.default_rng(3).standard_normal((30, 2))
    kernel, target = PolynomialKernel(2, 1.0), uniform(rows)
    state = active_set.initial_state(active_set.ActiveSetProblem(space_of(kernel, target, rows), rule, 4))
    away = [mmd(kernel, rows, target.weights, rows[[i]], np.ones(1)) for i in range(30)]
    assert state.index[0] == np.argmin(away)
    assert (state.size, state.weight.tolist(), state.step) == (1, [1, 0, 0, 0], 0)
    hull = min_norm_point.initial_state(min_norm_point.MinNormPointProblem(space_of(kernel, target, rows), 4))
    assert (hull.hull.ids[0], hull.hull.size, hull.step) == (np.argmin(away), 1, 0)
    assert hull.mmd[0] == state.mmd[0] == pytest.approx(min(away))
