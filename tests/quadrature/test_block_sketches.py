"""Sketches of rows in parts: they add up, their bound holds, and the candidates are the same whoever draws them."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import DataError
from herdcli.quadrature import result_assembly, selection, selection_problem
from herdcli.quadrature.embeddings import block_sketches, nystrom
from herdcli.quadrature.embeddings.approximation import EmbeddingApproximation
from herdcli.quadrature.kernels.kernel_functions import GaussianKernel
from herdcli.quadrature.rules import sequential_rules

KERNEL = GaussianKernel(1.5)
X = np.random.default_rng(4).standard_normal((500, 3))
WEIGHTS = np.random.default_rng(5).random(500)
SKETCH = nystrom.NystromSums(KERNEL, X[::25], X[:0], WEIGHTS[:0])
TASKS = [(unit, block) for unit in range(3) for block in range(4 * unit, min(4 * unit + 4, 10))]


class Blocks:
    weights = WEIGHTS

    def block(self, number):
        part = slice(50 * number, 50 * number + 50)
        return X[part], self.weights[part], 50 * number


def sketching(tasks=TASKS, blocks=None, share=0.5):
    return block_sketches.BlockSketching(SKETCH, blocks or Blocks(), tasks, share, seed=3)


def test_units_made_apart_are_those_of_one_run():
    whole = run_algorithm(sketching())
    apart = [run_algorithm(sketching([task for task in TASKS if task[0] == unit]))[0] for unit in (2, 0, 1)]
    for one, other in zip(whole, [apart[1], apart[2], apart[0]], strict=True):
        assert one.rows == other.rows
        for name in ("sums", "spread", "points", "number"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert [unit.rows for unit in whole] == [200, 200, 100]
    np.testing.assert_allclose(sum(unit.sums[:-1] for unit in whole), WEIGHTS @ KERNEL.matrix(X, SKETCH.landmarks))
    np.testing.assert_allclose(sum(unit.spread for unit in whole), [WEIGHTS.sum()] * 2)


def test_candidates_are_about_their_share_and_rows_of_the_input():
    units = run_algorithm(sketching())
    numbers = np.concatenate([unit.number for unit in units])
    assert 190 < len(numbers) < 310  # 250 ± 11
    assert len(np.unique(numbers)) == len(numbers)
    np.testing.assert_array_equal(np.concatenate([unit.points for unit in units]), X[numbers])
    assert sum(len(unit.number) for unit in run_algorithm(sketching(share=2.0))) == 500


def test_the_bound_holds_for_all_rows(mmd):
    group, numbers, spread = block_sketches.make_group_from_sketches(SKETCH, run_algorithm(sketching()), 12)
    settings = selection_problem.SelectionSettings(
        sequential_rules.RuleSettings("herding"), embedding=EmbeddingApproximation("nystrom", 20)
    )
    problem = selection_problem.SelectionProblem(KERNEL, (group,), settings)
    value = result_assembly.assemble_samples(
        problem, run_algorithm(selection.AtomSelection(problem)), [numbers], kind="rule", projected=False, scale=np.ones(3)
    )
    np.testing.assert_array_equal(value.x, X[value.index])
    truth = mmd(KERNEL, X, WEIGHTS / WEIGHTS.sum(), value.x, value.weight)
    assert 0 < abs(truth - value.summary.mmd[0]) <= value.summary.embedding_error[0] < 0.2
    assert spread.tolist() == pytest.approx([WEIGHTS.sum()] * 2)


def test_a_run_resumed_after_any_step_ends_alike():
    state = sketching().init()
    while not sketching().done(state):
        state = sketching().step(copy.deepcopy(state))
    for one, other in zip(state.units, run_algorithm(sketching()), strict=True):
        np.testing.assert_array_equal(one.sums, other.sums)
        np.testing.assert_array_equal(one.number, other.number)


def test_rows_without_weight_are_no_candidates_and_all_of_them_refused():
    blocks = Blocks()
    blocks.weights = np.where(np.arange(500) < 130, 0.0, WEIGHTS)
    assert min(unit.number.min() for unit in run_algorithm(sketching(blocks=blocks)) if len(unit.number)) >= 130
    blocks.weights = np.zeros(500)
    with pytest.raises(DataError, match="the weights of rows must be finite, not negative and not all 0"):
        block_sketches.make_group_from_sketches(SKETCH, run_algorithm(sketching(blocks=blocks)), 3)
