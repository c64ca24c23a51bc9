"""Scores of families by their closed forms, and what a search does with edges that are known and with a tabu list."""

from __future__ import annotations

import math

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import DataError
from herdcli.markov.learning.bayesian_networks import WeightedCases
from herdcli.markov.learning.family_scores import FamilyScore, FamilyScores, score_family
from herdcli.markov.learning.hill_climbing import HillClimbing, draw_bootstrap_weights
from herdcli.markov.model.graphs.dag import find_cycle


def rows(seed: int = 0, count: int = 300, missing: float = 0.0) -> WeightedCases:
    """a → b → c and d by itself, of 2, 3, 2 and 2 states."""
    random = np.random.default_rng(seed)
    a = random.integers(0, 2, count)
    b = np.where(random.random(count) < 0.7, 2 * a, random.integers(0, 3, count))
    c = np.where(random.random(count) < 0.8, b > 0, random.integers(0, 2, count))
    x = np.column_stack([a, b, c, random.integers(0, 2, count)]).astype(np.int64)
    x[random.random(x.shape) < missing] = -1
    return WeightedCases(x, np.ones(count), np.array([2, 3, 2, 2]))


def sequential(cases: WeightedCases, i: int, parents: tuple[int, ...], alpha: float) -> float:
    """log P of the column given its parents, row by row: (N_uk + α)/(N_u + r α), which is what a Dirichlet prior predicts."""
    seen: dict[tuple[int, ...], np.ndarray] = {}
    total, states = 0.0, int(cases.cardinality[i])
    for row in cases.x:
        counts = seen.setdefault(tuple(row[list(parents)]), np.zeros(states))
        total += math.log((counts[row[i]] + alpha) / (counts.sum() + states * alpha))
        counts[row[i]] += 1
    return total


@pytest.mark.parametrize(("i", "parents"), [(1, ()), (1, (0,)), (2, (0, 1)), (3, (0, 1, 2))])
def test_dirichlet_scores_are_predictions_one_after_the_other(i, parents):
    cases = rows()
    states, of_parents = int(cases.cardinality[i]), math.prod(int(cases.cardinality[j]) for j in parents)
    assert score_family(FamilyScore("k2"), cases, i, parents) == pytest.approx(sequential(cases, i, parents, 1.0), rel=1e-12)
    for rows_of_prior in (1.0, 7.5):
        alpha = rows_of_prior / (states * of_parents)
        found = score_family(FamilyScore("bdeu", rows_of_prior), cases, i, parents)
        assert found == pytest.approx(sequential(cases, i, parents, alpha), rel=1e-12)


def test_bdeu_is_alike_for_equivalent_graphs():
    cases, score = rows(), FamilyScore("bdeu", 3.0)
    forwards = score_family(score, cases, 0, ()) + score_family(score, cases, 1, (0,))
    backwards = score_family(score, cases, 1, ()) + score_family(score, cases, 0, (1,))
    assert forwards == pytest.approx(backwards, rel=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["bic", "bdeu", "k2"])
def test_families_counted_together_have_the_same_scores(kind, missing):
    cases = rows(missing=missing)
    score = FamilyScore(kind, 2.0)
    families = FamilyScores(cases, score)
    found = families.score_added_parents(1, (0,), np.array([2, 3]))
    np.testing.assert_allclose(found, [score_family(score, cases, 1, (0, k)) for k in (2, 3)], rtol=1e-12)
    assert families.score_of_family(1, (0, 3)) == found[1]
    for i, parents in ((2, ()), (0, (1, 2, 3))):
        assert families.score_of_family(i, parents) == pytest.approx(score_family(score, cases, i, parents), rel=1e-12)


@pytest.mark.parametrize("kind", ["bic", "bdeu", "k2"])
def test_weighted_rows_and_variables_of_many_states_have_the_same_scores(kind):
    random = np.random.default_rng(3)
    cardinality = np.array([2, 3, 256, 700, 40])
    cases = WeightedCases(random.integers(0, cardinality, (400, 5)), random.exponential(size=400), cardinality)
    score, families = FamilyScore(kind, 2.0), FamilyScores(cases, FamilyScore(kind, 2.0))
    for i, parents, others in ((0, (), (1, 2, 3, 4)), (1, (0,), (2, 3, 4)), (4, (3,), (0, 2)), (1, (3, 4), (2,))):
        found = families.score_added_parents(i, parents, np.array(others))
        right = [score_family(score, cases, i, tuple(sorted((*parents, k)))) for k in others]
        np.testing.assert_allclose(found, right, rtol=1e-11)


def search(**more: object) -> tuple[tuple[int, ...], ...]:
    return run_algorithm(HillClimbing(rows(count=2000), ((),) * 4, 3, **more))


@pytest.mark.parametrize("kind", ["bic", "bdeu", "k2"])
def test_the_chain_is_found(kind):
    found = search(score=FamilyScore(kind))
    assert {frozenset((i, j)) for j, of in enumerate(found) for i in of} == {frozenset((0, 1)), frozenset((1, 2))}


def test_known_edges_are_kept_and_left_out():
    found = search(required=[(3, 0), (2, 1)], forbidden=[(0, 1), (1, 0)])
    assert 3 in found[0]
    assert 2 in found[1]
    assert 0 not in found[1]
    assert 1 not in found[0]
    assert not find_cycle(dict(enumerate(found)))
    with pytest.raises(DataError, match="the required edges form a cycle of 2 variables"):
        search(required=[(0, 1), (1, 0)])
    with pytest.raises(
        DataError, match="an edge is both required and forbidden: --required-edges and --forbidden-edges contradict each other"
    ):
        search(required=[(0, 1)], forbidden=[(0, 1)])


def test_a_tabu_list_never_ends_below_the_greedy_search():
    for seed in range(4):
        cases = rows(seed, 80)
        ends = []
        for tabu in (0, 5, 50):
            method = HillClimbing(cases, ((),) * 4, 3, score=FamilyScore("k2"), tabu=tabu)
            found = run_algorithm(method)
            ends.append(sum(method.families.score_of_family(j, of) for j, of in enumerate(found)))
            assert not find_cycle(dict(enumerate(found)))
        assert min(ends[1:]) >= ends[0] - 1e-9


def test_a_long_tabu_list_does_not_hinder_changes_that_improve_the_best_graph():
    """Until the greedy search ends, every change improves the best graph, so a search with a tabu list makes the same changes."""
    random = np.random.default_rng(0)
    x = random.integers(0, 2, (400, 8))
    for j in range(2, 8):
        a, b = random.permutation(j)[:2]
        x[:, j] = np.where(random.random(400) < 0.8, x[:, a] & x[:, b] if j % 2 else x[:, a] | x[:, b], x[:, j])
    cases = WeightedCases(x, np.ones(400), np.full(8, 2))
    greedy, tabu = (HillClimbing(cases, ((),) * 8, 3, score=FamilyScore("bdeu"), tabu=tabu) for tabu in (0, 100))
    state, other, steps, again = greedy.init(), tabu.init(), 0, 0
    while not greedy.done(state):
        state, other, steps = greedy.step(state), tabu.step(other), steps + 1
        if not greedy.done(state):
            again += any((pair == other.recent[:-1]).all(axis=1).any() for pair in (other.recent[-1], other.recent[-1][::-1]))
            np.testing.assert_array_equal(state.edge, other.edge)
    assert steps > 8
    assert again  # a pair was changed twice, which the tabu list forbids otherwise


def test_bootstrap_samples_have_as_many_rows():
    cases = rows(count=500)
    sample, again = draw_bootstrap_weights(cases, 3, 0), draw_bootstrap_weights(cases, 3, 0)
    assert sample.weight.sum() == 500
    assert np.array_equal(sample.x, again.x)
    assert not np.array_equal(sample.weight, draw_bootstrap_weights(cases, 3, 1).weight[: len(sample.weight)])


def test_rounding_does_not_choose_between_equal_graphs():
    """a → b and b → a have the same BDeu score; the first of equal changes is made, whatever the last bits say."""
    for seed in range(20):
        random = np.random.default_rng(seed)
        a = random.integers(0, 3, 150)
        x = np.column_stack([a, np.where(random.random(150) < 0.6, a, random.integers(0, 3, 150))])
        cases = WeightedCases(x, np.ones(150), np.array([3, 3]))
        assert run_algorithm(HillClimbing(cases, ((), ()), 2, score=FamilyScore("bdeu"))) == ((), (0,))


def test_what_a_search_remembers_changes_nothing():
    """Every step made by a search that knows nothing of the steps before ends in the same graphs and scores."""
    random = np.random.default_rng(5)
    x = random.integers(0, 3, (120, 7))
    for j in range(1, 7):
        x[:, j] = np.where(random.random(120) < 0.6, x[:, j - 1], x[:, j])
    cases = WeightedCases(x, np.ones(120), np.full(7, 3))
    kept = HillClimbing(cases, ((),) * 7, 3, score=FamilyScore("k2"), tabu=8)
    state = other = kept.init()
    edges = [0]
    while not kept.done(state):
        fresh = HillClimbing(cases, ((),) * 7, 3, score=FamilyScore("k2"), tabu=8)
        other = fresh.step(type(state)(*(np.copy(v) if isinstance(v, np.ndarray) else v for v in vars(state).values())))
        state = kept.step(state)
        np.testing.assert_array_equal(state.edge, other.edge)
        np.testing.assert_allclose(state.score, other.score, rtol=1e-13)
        closed = np.linalg.matrix_power(np.eye(7, dtype=int) + state.edge, 7) - np.eye(7, dtype=int) > 0
        edges.append(int(state.edge.sum()))
        kept._update_caches(state.edge)
        np.testing.assert_array_equal(kept.columns.below, closed)
    assert 0 in np.diff(edges)[:-1]  # an edge was turned, which no shorter way of looking for paths covers


def test_a_search_goes_on_for_three_times_the_tabu_list_after_the_best_graph():
    for tabu in (2, 5):
        method = HillClimbing(rows(count=500), ((),) * 4, 3, score=FamilyScore("bdeu"), tabu=tabu)
        state = method.init()
        while not method.done(state):
            before, state = state.score, method.step(state)
        assert len(before) - 1 - before.argmax() == 3 * tabu
