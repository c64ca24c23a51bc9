"""Blocks of rows herded as a tree: what a unit is, who makes it, what it stores, and that the bound holds."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import DataError
from herdcli.quadrature import result_assembly, selection, selection_problem
from herdcli.quadrature.embeddings.approximation import EmbeddingApproximation
from herdcli.quadrature.kernels.kernel_functions import GaussianKernel
from herdcli.quadrature.rules import merge_tree, sequential_rules
from herdcli.quadrature.targets import RowTarget

KERNEL = GaussianKernel(1.5)
X = np.random.default_rng(4).standard_normal((330, 3))
WEIGHTS = np.random.default_rng(5).random(330)
SETTINGS = selection_problem.SelectionSettings(sequential_rules.RuleSettings("herding"))


class Blocks:
    def __init__(self, size: int, weights=WEIGHTS) -> None:
        self.size, self.weights = size, weights

    def read_leaf(self, node: int):
        first, part = node * self.size, slice(node * self.size, (node + 1) * self.size)
        if not self.weights[part].any():
            return merge_tree.TreeNode(0.0, 0.0, X[:0], np.zeros(0, dtype=np.int64), np.zeros(0))
        return X[part], self.weights[part], first


@pytest.fixture
def narrow(monkeypatch):
    """Three nodes of eight atoms make a union, and two units are enough."""
    monkeypatch.setattr(merge_tree, "UNION", 24)
    monkeypatch.setattr(merge_tree, "UNITS", 2)
    return merge_tree.TreeLayout(330, 20, 8)


def climb(layout, tasks, leaves, settings=SETTINGS):
    return merge_tree.TreeHerding(KERNEL, settings, layout, leaves, tasks, 3)


def nodes(layout, units, weights=WEIGHTS):
    return [run_algorithm(climb(layout, list(layout.tasks(layout.level, unit)), Blocks(20, weights)))[0] for unit in units]


def test_levels_and_units_are_functions_of_the_numbers_alone(narrow):
    assert [narrow.count_nodes(level) for level in range(5)] == [17, 6, 2, 1, 1]
    assert (narrow.children_per_node, narrow.top_level, narrow.level, narrow.unit_count) == (3, 2, 2, 2)
    numbers = [narrow.node_number(level, node) for level in range(3) for node in range(narrow.count_nodes(level))]
    assert len(set(numbers)) == len(numbers) == 25
    assert 17 not in numbers  # the last union's
    assert merge_tree.TreeLayout(10**7, 20_000, 4000).unit_count == 500 or merge_tree.UNION == 24


def test_large_inputs_are_dealt_in_some_dozens_of_units():
    for rows in (10**6, 10**7, 10**8, 10**10, 10**12):
        layout = merge_tree.TreeLayout(rows, 20_000, 4000)
        assert layout.unit_count >= min(48, -(-rows // 20_000))
        assert layout.unit_count < 48 * layout.children_per_node
        assert layout.count_nodes(layout.top_level) * 4000 <= merge_tree.UNION


def test_units_made_apart_are_those_of_one_run(narrow):
    whole = run_algorithm(climb(narrow, [task for unit in range(2) for task in narrow.tasks(2, unit)], Blocks(20)))
    for one, other in zip(whole, [*nodes(narrow, [0]), *nodes(narrow, [1])], strict=True):
        for name in ("x", "index", "weight", "mass", "error"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert sum(node.mass for node in whole) == pytest.approx(WEIGHTS.sum())


@pytest.mark.parametrize(
    "settings",
    [
        SETTINGS,
        selection_problem.SelectionSettings(sequential_rules.RuleSettings("herding"), embedding=EmbeddingApproximation("nystrom", 5)),
    ],
)
def test_the_bound_holds_through_every_level(narrow, mmd, settings):
    """Against the sum over all pairs."""
    made = [run_algorithm(climb(narrow, list(narrow.tasks(2, unit)), Blocks(20), settings))[0] for unit in range(2)]
    for first, node in zip((0, 180), made, strict=True):
        part = slice(first, first + 180)
        assert 0 < mmd(KERNEL, X[part], WEIGHTS[part] / WEIGHTS[part].sum(), node.x, node.weight) <= node.error + 1e-12
    union = merge_tree.unite_nodes(made)
    np.testing.assert_array_equal(union.x, X[union.index])
    truth = mmd(KERNEL, X, WEIGHTS / WEIGHTS.sum(), union.x, union.weight)
    assert truth <= union.error + 1e-12
    assert union.embedding == (None if settings.embedding is None else "nystrom:5")
    problem = selection_problem.SelectionProblem(
        KERNEL, (selection_problem.SelectionGroup(RowTarget(union.x, union.weight), None, 5),), SETTINGS, numbers=[17]
    )
    value = result_assembly.assemble_samples(
        problem,
        run_algorithm(selection.AtomSelection(problem)),
        [union.index],
        kind="rule",
        projected=False,
        scale=np.ones(3),
        keep_state=False,
    )
    value = merge_tree.union_artifact(value, 330, union)
    truth = mmd(KERNEL, X, WEIGHTS / WEIGHTS.sum(), value.x, value.weight)
    assert truth <= value.summary.mmd[0] + value.summary.extra[0] + 1e-12
    assert (value.summary.rows.tolist(), value.summary.extra.tolist(), value.state) == ([330], [union.error], None)
    spread = 1.0 - value.summary.norm[0]
    assert value.summary.floor[0] == pytest.approx(np.sqrt(spread / 330))
    np.testing.assert_array_equal(value.x, X[value.index])


def test_nodes_made_elsewhere_end_as_those_of_one_run(narrow):
    """The levels above the units, from their nodes."""
    monolith = climb(narrow, list(narrow.tasks(3, 0)), Blocks(20))
    given = merge_tree.PrecomputedNodes(nodes(narrow, [0, 1]))
    above = climb(narrow, list(narrow.tasks(3, 0, leaves=2)), given)
    (one,), (other,) = run_algorithm(monolith), run_algorithm(above)
    np.testing.assert_array_equal(one.x, other.x)
    np.testing.assert_array_equal(one.weight, other.weight)
    assert one.error == other.error


def test_a_run_resumed_after_any_step_ends_alike(narrow):
    tasks = list(narrow.tasks(1, 0))
    whole = run_algorithm(climb(narrow, tasks, Blocks(20)))
    state = climb(narrow, tasks, Blocks(20)).init()
    while not climb(narrow, tasks, Blocks(20)).done(state):
        state.validate()
        state = climb(narrow, tasks, Blocks(20)).step(copy.deepcopy(state))
    assert state.step > 20
    np.testing.assert_array_equal(state.stack[0].weight, whole[0].weight)
    np.testing.assert_array_equal(state.stack[0].index, whole[0].index)


def test_blocks_without_weight_leave_no_atoms(narrow):
    weights = np.where((np.arange(330) >= 60) & (np.arange(330) < 240), 0.0, WEIGHTS)
    first, second = nodes(narrow, [0, 1], weights)
    for node in (first, second):
        node.validate()
        assert (weights[node.index] > 0).all()
    (nothing,) = run_algorithm(climb(narrow, list(narrow.tasks(1, 1)), Blocks(20, weights)))
    nothing.validate()
    assert (nothing.mass, len(nothing.x)) == (0.0, 0)


def test_nodes_that_are_none_are_refused():
    one = np.ones((1, 2)), np.zeros(1, dtype=np.int64), np.ones(1)
    for mass, error, parts in ((0.0, 0.1, one), (-1.0, 0.1, one), (np.inf, 0.1, one), (1.0, np.nan, one), (1.0, 0.1, [a[:0] for a in one])):
        with pytest.raises(DataError, match=r"is damaged: .* atoms stand for rows with the total weight"):
            merge_tree.TreeNode(mass, error, *parts).validate()
    with pytest.raises(DataError, match="is damaged: it has 2 nodes of the merge tree after 1 tasks"):
        merge_tree.TreeState(3, 1, [merge_tree.TreeNode(1.0, 0.0, *one)] * 2).validate()
