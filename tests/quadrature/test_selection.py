"""Whole runs: phases, groups, resuming anywhere, going on, memory."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage
from herdcli.quadrature import result_assembly, selection, selection_problem
from herdcli.quadrature.kernels import kernel_sums
from herdcli.quadrature.kernels.kernel_functions import GaussianKernel
from herdcli.quadrature.rules import rule_table, sequential_rules
from herdcli.quadrature.targets import RowTarget


def problem_of(X, counts, *, rule="herding", refine=0, candidates=None, start=None, norm=0, **more):
    parts = np.array_split(np.arange(len(X)), len(counts))
    settings = selection_problem.SelectionSettings(sequential_rules.RuleSettings(rule, **more), refine, norm=norm)
    groups = tuple(
        selection_problem.SelectionGroup(RowTarget(X[part].copy(), np.full(len(part), 1.0 / len(part))), candidates, count, start=start)
        for part, count in zip(parts, counts, strict=True)
    )
    return selection_problem.SelectionProblem(GaussianKernel(1.5), groups, settings)


DIRECT = [name for name, entry in rule_table.TABLE.items() if "extend" not in entry.reads]


def run(problem, map=map):
    return run_algorithm(selection.AtomSelection(problem, map))


@pytest.mark.parametrize("rule", ["herding", "line-search", "random", "away", "pairwise", "bpcg", "min-norm-point", *DIRECT])
def test_a_run_resumed_after_any_step_ends_alike(rows, rule):
    """Every step by a new Selection, from a deep copy of the state: nothing outside the state matters."""
    problem = problem_of(rows, (6, 5), rule=rule, refine=2 if rule in rule_table.rules_reading_option("refine") else 0)
    whole = run(problem)
    state = selection.AtomSelection(problem).init()
    total, steps = selection.AtomSelection(problem).steps, 0
    while state.step < total:
        state = selection.AtomSelection(problem).step(copy.deepcopy(state))
        steps += 1
    assert steps > 8
    for mine, theirs in zip(state.done, whole.done, strict=True):
        for name in ("index", "weight", "mmd", "gap", "atoms"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))


def test_groups_are_runs_of_their_own(rows):
    both = run(problem_of(rows, (7, 9)))
    for part, result, count in zip(np.array_split(rows, 2), both.done, (7, 9), strict=True):
        alone = run(problem_of(part, (count,))).done[0]
        np.testing.assert_array_equal(result.index, alone.index)
        np.testing.assert_array_equal(result.mmd, alone.mmd)


@pytest.mark.parametrize("rule", ["herding", "min-norm-point", "away", *DIRECT])
def test_workers_do_not_change_the_bits(rows, rule):
    problem = problem_of(rows, (12,), rule=rule)
    with ThreadPoolExecutor(3) as pool:
        np.testing.assert_array_equal(run(problem, pool.map).done[0].mmd, run(problem).done[0].mmd)


@pytest.mark.parametrize("rule", ["herding", "line-search", "away", "pairwise", "bpcg", "min-norm-point"])
def test_going_on_equals_an_uninterrupted_run(rows, rule):
    few = run(problem_of(rows, (8,), rule=rule)).done[0].state
    more = run(problem_of(rows, (20,), rule=rule, start=few)).done[0]
    whole = run(problem_of(rows, (20,), rule=rule)).done[0]
    for name in ("index", "weight", "mmd", "gap"):
        np.testing.assert_array_equal(getattr(more, name), getattr(whole, name))


def test_samples_of_another_run_are_refused(rows):
    problem = problem_of(rows, (8,))
    value = result_assembly.assemble_samples(problem, run(problem), [None], kind="rule", projected=False, scale=np.ones(3))
    groups, kernel = list(problem.groups), value.kernel
    assert selection_problem.resume_groups(groups, value, "herding", kernel, np.ones(3))[0].start is not None
    with pytest.raises(BadUsage, match=r"were made with herding and .*, not with line-search and"):
        selection_problem.resume_groups(groups, value, "line-search", kernel, np.ones(3))
    other = problem_of(rows[::-1], (8,))
    with pytest.raises(BadUsage, match="not among the candidates"):
        selection_problem.resume_groups(list(other.groups), value, "herding", kernel, np.ones(3))
    with pytest.raises(BadUsage, match="chosen from 200 candidates, but now there are 150"):
        selection_problem.resume_groups(list(problem_of(rows[:150], (8,)).groups), value, "herding", kernel, np.ones(3))


def test_candidates_apart_from_the_rows(rows, mmd):
    random = np.random.default_rng(9)
    candidates = random.standard_normal((70, 3))
    result = run(problem_of(rows, (15,), candidates=candidates)).done[0]
    np.testing.assert_array_equal(result.atoms, candidates[result.index])
    assert result.mmd[-1] == pytest.approx(
        mmd(GaussianKernel(1.5), rows, np.full(200, 1 / 200), result.atoms, np.full(15, 1 / 15)), abs=1e-12
    )


def test_an_estimated_norm_leaves_out_the_pairs_of_rows(rows, monkeypatch):
    done = []
    made = kernel_sums.make_embedding_problem

    def counted(kernel, points, *more, **options):
        done.append(len(points))
        return made(kernel, points, *more, **options)

    monkeypatch.setattr(kernel_sums, "make_embedding_problem", counted)
    exact = run(problem_of(rows, (8,), candidates=rows[:20].copy())).done[0]
    assert done == [20, 200]
    estimated = run(problem_of(rows, (8,), candidates=rows[:20].copy(), norm=15)).done[0]
    assert done[2:] == [20, 15]
    np.testing.assert_array_equal(estimated.index, exact.index)
    np.testing.assert_array_equal(estimated.gap, exact.gap)


@pytest.mark.parametrize("refine", [0, 2])
def test_an_estimated_norm_is_right_on_average_and_knows_its_error(rows, refine):
    """200 seeds: no bias beyond four standard errors of the mean, and a stated error that is the true one."""
    made = {"refine": refine, "candidates": rows[:60].copy()}
    exact = run(problem_of(rows, (12,), **made)).done[0]
    found = [run(problem_of(rows, (12,), norm=40, seed=seed, **made)).done[0] for seed in range(200)]
    off = np.array([result.norm - exact.norm for result in found])
    stated = np.array([result.norm_error for result in found])
    assert abs(off.mean()) < 4 * off.std() / np.sqrt(200)
    assert off.std() == pytest.approx(np.sqrt(np.mean(stated**2)), rel=0.2)
    near = next(result for result in found if result.norm > exact.norm)
    np.testing.assert_allclose(near.mmd**2 - exact.mmd**2, near.norm - exact.norm, atol=1e-12)
    assert near.spread + near.norm == pytest.approx(exact.spread + exact.norm)


def test_going_on_with_an_estimated_norm_equals_one_run(rows):
    made = {"candidates": rows[:60].copy(), "norm": 40}
    few = run(problem_of(rows, (5,), **made))
    more = run(problem_of(rows, (12,), start=few.done[0].state, **made)).done[0]
    whole = run(problem_of(rows, (12,), **made)).done[0]
    for name in ("index", "mmd", "norm", "norm_error"):
        np.testing.assert_array_equal(getattr(more, name), getattr(whole, name))
    problem = problem_of(rows, (5,), **made)
    value = result_assembly.assemble_samples(problem, few, [None], kind="rule", projected=False, scale=np.ones(3))
    assert value.summary.norm_error[0] == few.done[0].norm_error
    with pytest.raises(BadUsage, match="would be exact for one part and estimated for the other"):
        selection_problem.resume_groups(list(problem.groups), value, "herding", value.kernel, np.ones(3))


def test_refined_atoms_carry_their_own_trace(rows, mmd):
    result = run(problem_of(rows, (10,), refine=4)).done[0]
    assert result.rate is None
    assert result.passes[0] > result.passes[-1]
    assert result.mmd[-1] == pytest.approx(result.passes[-1], abs=1e-13)
    for t in (1, 5, 10):
        expected = mmd(GaussianKernel(1.5), rows, np.full(200, 1 / 200), result.atoms[:t], np.full(t, 1 / t))
        assert result.mmd[t - 1] == pytest.approx(expected, abs=1e-12)


def test_floor_is_the_error_of_as_many_draws(rows):
    problem = problem_of(rows, (10,))
    value = result_assembly.assemble_samples(problem, run(problem), [None], kind="simplex", projected=True, scale=np.ones(3))
    K = GaussianKernel(1.5).matrix(rows, rows)
    assert value.summary.floor[0] == pytest.approx(np.sqrt((1 - K.mean()) / 200), rel=1e-12)
    assert value.summary.effective[0] == pytest.approx(1 / np.sum(value.weight**2))
    assert value.projected.mmd[-1] == pytest.approx(value.summary.mmd[0], abs=1e-10)


def test_estimate_grows_with_the_rows_not_with_their_square():
    small, large = (selection.AtomSelection(problem_of(np.zeros((n, 10)), (100,))).memory() for n in (10_000, 1_000_000))
    assert 60 * (small - (32 << 20)) < large < 101 * small


def test_progress_shows_the_distance_reached(rows):
    chosen = selection.AtomSelection(problem_of(rows, (6, 5), refine=2))
    state, figures = chosen.init(), []
    while not chosen.done(state):
        figures.append(chosen.progress(state).figure)
        state = chosen.step(state)
    assert figures[0] == ""
    assert chosen.progress(state).bound == chosen.steps
    first = state.done[0]
    assert {f"MMD {first.passes[0]:.3g}", f"MMD {first.passes[-1]:.3g}"} <= set(figures)
    assert chosen.progress(state).figure == f"MMD {state.done[1].mmd[-1]:.3g}"


def test_progress_of_an_estimated_norm_is_a_bound(rows):
    chosen = selection.AtomSelection(problem_of(rows, (5,), candidates=rows[:50], norm=100))
    state, bounds = chosen.init(), []
    while not chosen.done(state):
        bounds += [float(chosen.progress(state).figure[6:])] if "≤" in chosen.progress(state).figure else []
        state = chosen.step(state)
    assert len(bounds) == 4
    assert all(bound > mmd for bound, mmd in zip(bounds, state.done[0].mmd, strict=False))
    assert chosen.progress(state).figure == f"MMD {state.done[0].mmd[-1]:.3g}"


@pytest.mark.parametrize("rule", ["away", "pairwise", "bpcg", "min-norm-point"])
def test_the_last_distance_and_gap_of_a_result_are_those_of_its_weights(rows, rule):
    """MMD² = w'Kw − 2w'z + E k, and the gap w'(Kw − z) − min (Kw − z) over all candidates."""
    found = run(problem_of(rows, (8,), rule=rule)).done[0]
    K = np.exp(-((rows[:, None] - rows[None]) ** 2).sum(axis=2) / (2 * 1.5**2))
    slope = K[:, found.index] @ found.weight - K.mean(axis=1)
    np.testing.assert_array_equal(found.atoms, rows[found.index])
    square = found.weight @ (slope - K.mean(axis=1))[found.index] + K.mean()
    assert found.mmd[-1] == pytest.approx(np.sqrt(square), rel=1e-7)
    assert found.gap[-1] == pytest.approx(found.weight @ slope[found.index] - slope.min(), rel=1e-7)


def test_estimated_norms_of_groups_are_means_over_pairs_of_their_rows(rows):
    done = run(problem_of(rows, (6, 6), candidates=rows[:40], norm=50)).done
    for found, own in zip(done, np.array_split(rows, 2), strict=False):
        K = np.exp(-((own[:, None] - own[None]) ** 2).sum(axis=2) / (2 * 1.5**2))
        assert abs(found.norm - K.mean()) < 5 * found.norm_error + 1e-3


def test_swaps_are_as_much_work_as_columns_of_the_candidates(rows):
    chosen = selection.AtomSelection(problem_of(rows, (6,), refine=2, candidates=rows[:50]))
    sums, rule, swaps = selection_problem.phase_lengths(chosen.problem, chosen.problem.groups[0])
    assert (rule, swaps > 0) == (6, True)
    before = chosen._completed_fraction(sums)
    np.testing.assert_allclose((chosen._completed_fraction(sums + 6) - before) / 6, (1 - before) / (6 + swaps), rtol=1e-9)
