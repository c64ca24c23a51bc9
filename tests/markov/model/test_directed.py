"""Bayesian networks from rows: closed forms, loops over all completions of rows, exhaustive search, and other programs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from small_networks import weights

from herdcli.algorithm import run_algorithm
from herdcli.errors import DataError
from herdcli.markov.formats import bif
from herdcli.markov.learning import bayesian_networks, family_scores, l1_selection
from herdcli.markov.learning.bayesian_network_em import ExpectationMaximisation
from herdcli.markov.learning.bayesian_networks import WeightedCases
from herdcli.markov.learning.hill_climbing import HillClimbing, path_matrix
from herdcli.markov.model.graphs import dag

STATES = np.array([2, 3, 2, 2])
CHAIN = ((), (0,), (0, 1), (2,))


def rows(seed: int, count: int = 400, missing: float = 0.0) -> WeightedCases:
    """Rows of four variables that depend on each other, some values taken away."""
    random = np.random.default_rng(seed)
    a = random.random(count) < 0.4
    b = (random.random(count) < 0.3 + 0.4 * a).astype(int) + (random.random(count) < 0.2)
    c = random.random(count) < 0.1 + 0.3 * a + 0.25 * b
    d = random.random(count) < 0.2 + 0.6 * c
    x = np.column_stack([a, b, c, d]).astype(np.int64)
    x[random.random(x.shape) < missing] = -1
    return WeightedCases(x, random.integers(1, 3, count).astype(np.float64), STATES)


def fitted(cases, parents, **more):
    asked = {"smoothing": 0.0, "tolerance": 1e-10, "iterations": 300} | more
    method = ExpectationMaximisation(cases, parents, **asked)
    state = run_algorithm(method)
    return method, state, method.split_into_tables(state.tables)


@pytest.mark.parametrize("smoothing", [0.0, 3.0])
def test_complete_rows_give_the_closed_form_in_one_step(smoothing):
    cases = rows(0)
    _, state, tables = fitted(cases, CHAIN, smoothing=smoothing, iterations=1)
    for a, b, c in itertools.product(range(2), range(3), range(2)):
        here = (cases.x[:, 0] == a) & (cases.x[:, 1] == b)
        above = cases.weight[here & (cases.x[:, 2] == c)].sum() + smoothing / 12
        assert tables[2][a, b, c] == pytest.approx(above / (cases.weight[here].sum() + smoothing / 6), abs=1e-13)
    assert state.step == 1


def test_complete_rows_are_counted_whatever_the_treewidth():
    random = np.random.default_rng(6)
    cases = WeightedCases(random.integers(0, 2, (50, 60)), np.ones(50), np.full(60, 2))
    parents = tuple(tuple(sorted(random.choice(j, min(j, 5), replace=False).tolist())) for j in range(60))
    method, state, tables = fitted(cases, parents, smoothing=1.0, iterations=1)
    found, likelihood = method.compute_expected_counts(tables)
    assert state.step == 1
    assert all((part == bayesian_networks.count_cases(cases, scope)).all() for part, scope in zip(found, method.scopes, strict=True))
    by_row = sum(math.log(tables[j][tuple(row[i] for i in scope)]) for row in cases.x.tolist() for j, scope in enumerate(method.scopes))
    assert likelihood == pytest.approx(by_row, rel=1e-12)


def test_complete_rows_that_the_tables_rule_out_are_told():
    method = ExpectationMaximisation(rows(0), CHAIN, smoothing=0.0, tolerance=1e-9, iterations=1)
    tables = [np.zeros_like(part) for part in method.split_into_tables(method.init().tables)]
    with pytest.raises(DataError, match=r"^the initial tables give a training row probability 0$"):
        method.compute_expected_counts(tables)


def test_counts_are_of_rows_that_have_the_whole_scope():
    cases = rows(7, 60, missing=0.3)
    found = np.zeros((3, 2))
    for row, weight in zip(cases.x.tolist(), cases.weight, strict=True):
        if row[1] >= 0 and row[3] >= 0:
            found[row[1], row[3]] += weight
    assert (bayesian_networks.count_cases(cases, (1, 3)) == found).all()
    assert bayesian_networks.count_cases(cases, ()) == cases.weight.sum()


def test_states_of_the_parents_that_no_row_has_are_uniform_without_smoothing():
    assert bayesian_networks.normalise_to_conditional(np.array([[0.0, 0.0], [1.0, 3.0]]), 0.0).tolist() == [[0.5, 0.5], [0.25, 0.75]]
    assert bayesian_networks.normalise_to_conditional(np.array([[0.0, 0.0], [1.0, 3.0]]), 4.0).tolist() == [[0.5, 0.5], [2 / 6, 4 / 6]]


def test_expected_counts_are_those_of_a_loop_over_completions():
    cases = rows(1, 30, missing=0.3)
    method = ExpectationMaximisation(cases, CHAIN, smoothing=1.0, tolerance=1e-9, iterations=5)
    tables = method.split_into_tables(method.init().tables)
    found, likelihood = method.compute_expected_counts(tables)
    joint = weights(bayesian_networks.make_bayesian_network(CHAIN, tables, STATES, None, None))
    truth, total = [np.zeros(part.shape) for part in tables], 0.0
    for row, weight in zip(cases.x, cases.weight, strict=True):
        fits = {x: p for x, p in joint.items() if all(v in (-1, y) for v, y in zip(row, x, strict=True))}
        total += weight * math.log(sum(fits.values()))
        for x, p in fits.items():
            for counts, scope in zip(truth, method.scopes, strict=True):
                counts[tuple(x[i] for i in scope)] += weight * p / sum(fits.values())
    assert likelihood == pytest.approx(total, abs=1e-10)
    for ours, theirs in zip(found, truth, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-11)


@pytest.mark.parametrize("smoothing", [0.0, 2.0])
@pytest.mark.parametrize("hidden", [False, True])
def test_em_never_loses(hidden, smoothing):
    cases = rows(2, 200, missing=0.2)
    if hidden:
        cases.x[:, 0] = -1
    _, state, tables = fitted(cases, CHAIN, smoothing=smoothing, iterations=40, tolerance=1e-12)
    assert (np.diff(state.objective) >= -1e-9).all()
    assert state.objective[-1] > state.objective[0] + 0.1
    assert all(np.allclose(part.sum(axis=-1), 1) for part in tables)


def test_em_of_one_variable_with_gaps_is_the_share_of_those_that_are_there():
    x = np.array([[0, 1], [1, -1], [0, 0], [1, 1], [-1, 1], [0, -1]])
    _, _, tables = fitted(WeightedCases(x, np.ones(6), np.array([2, 2])), ((), ()), tolerance=1e-13)
    assert tables[0].tolist() == pytest.approx([3 / 5, 2 / 5], abs=1e-6)
    assert tables[1].tolist() == pytest.approx([1 / 4, 3 / 4], abs=1e-6)


def test_bic_is_the_likelihood_less_half_a_log_for_each_free_parameter():
    cases = rows(3, 100)
    n = cases.weight.sum()
    found = bayesian_networks.count_cases(cases, (0, 2))
    by_hand = sum(found[a, c] * math.log(found[a, c] / found[a].sum()) for a in range(2) for c in range(2)) - 0.5 * math.log(n) * 2
    assert family_scores.score_family(family_scores.FamilyScore(), cases, 2, (0,)) == pytest.approx(by_hand)
    assert family_scores.score_family(family_scores.FamilyScore(), cases, 1, ()) == pytest.approx(
        bayesian_networks.max_family_log_likelihood(bayesian_networks.count_cases(cases, (1,))) - math.log(n)
    )


def every_graph(nodes: int):
    """All acyclic graphs."""
    edges = [(i, j) for i in range(nodes) for j in range(nodes) if i != j]
    for kept in itertools.product([False, True], repeat=len(edges)):
        parents = [tuple(i for (i, k), on in zip(edges, kept, strict=True) if on and k == j) for j in range(nodes)]
        if bayesian_networks.is_acyclic(parents):
            yield tuple(parents)


def test_acyclic_graphs_of_three_variables_are_twenty_five():
    assert sum(1 for _ in every_graph(3)) == 25


def test_hill_climbing_ends_where_no_single_change_is_better():
    cases = rows(4, 1500)
    method = HillClimbing(cases, ((),) * 4, 3)
    state = method.init()
    while not method.done(state):
        state = method.step(state)
    assert (np.diff(state.score)[:-1] > 0).all()
    found = method.result(state)
    assert bayesian_networks.is_acyclic(found)
    assert {frozenset((i, j)) for j, of in enumerate(found) for i in of} >= {frozenset((0, 1)), frozenset((2, 3))}
    best = max(
        sum(family_scores.score_family(family_scores.FamilyScore(), cases, j, of) for j, of in enumerate(graph)) for graph in every_graph(4)
    )
    assert state.score[-1] == pytest.approx(best, abs=1e-6)


def test_hill_climbing_keeps_to_the_most_parents():
    assert max(map(len, run_algorithm(HillClimbing(rows(4, 1500), ((),) * 4, 1)))) == 1


def test_reachability_is_that_of_powers():
    edge = np.random.default_rng(0).random((6, 6)) < 0.2
    truth = np.linalg.matrix_power((edge + np.eye(6)).astype(float), 6) @ edge > 0
    assert (path_matrix(edge) == truth).all()


def test_a_tree_has_one_parent_but_for_its_root():
    assert sorted(map(len, bayesian_networks.fit_chow_liu_tree(rows(5, 1000)))) == [0, 1, 1, 1]
    assert bayesian_networks.orient_tree([(0, 2), (1, 2)], 4) == ((), (2,), (0,), ())


def test_structures_of_networks_are_read_back_from_bif():
    _, _, tables = fitted(rows(0), CHAIN, smoothing=1.0, iterations=1)
    made = bayesian_networks.make_bayesian_network(CHAIN, tables, STATES, list("abcd"), None)
    again = bif.read_bif(bif.write_bif(made))
    assert dag.network_parents(again) == CHAIN
    assert again.table.tolist() == made.table.tolist()


def test_rows_that_nothing_allows_are_told():
    cases = WeightedCases(np.array([[0, -1], [1, 0]]), np.ones(2), np.array([2, 2]))
    method = ExpectationMaximisation(cases, ((), (0,)), smoothing=0.0, tolerance=1e-9, iterations=5)
    with pytest.raises(DataError, match="the initial tables give a training row probability 0"):
        method.compute_expected_counts([np.array([0.0, 1.0]), np.full((2, 2), 0.5)])


@pytest.mark.slow
def test_pgmpy_has_the_same_tables_and_bic():
    pd = pytest.importorskip("pandas")
    models = pytest.importorskip("pgmpy.models")
    estimators = pytest.importorskip("pgmpy.estimators")
    model = getattr(models, "DiscreteBayesianNetwork", None) or models.BayesianNetwork
    cases = rows(6, 300)
    cases = WeightedCases(cases.x, np.ones(300), STATES)
    names = list("abcd")
    frame = pd.DataFrame(cases.x, columns=names)
    graph = model([(names[i], names[j]) for j, of in enumerate(CHAIN) for i in of])
    _, _, tables = fitted(cases, CHAIN, iterations=1)
    learner = estimators.MaximumLikelihoodEstimator(graph, frame)
    for j, of in enumerate(CHAIN):
        factor = learner.estimate_cpd(names[j]).to_factor()
        theirs = factor.values.transpose([factor.variables.index(names[i]) for i in (*of, j)])
        np.testing.assert_allclose(tables[j], theirs, atol=1e-12)
    score = getattr(estimators, "BIC", None) or estimators.BicScore
    assert score(frame).local_score("c", ["a", "b"]) == pytest.approx(
        family_scores.score_family(family_scores.FamilyScore(), cases, 2, (0, 1)), abs=1e-6
    )


def loss(x, share, weight, offset, penalty, i):
    eta = x @ weight[:, i] + offset[i]
    return float(share @ (np.logaddexp(0, eta) - x[:, i] * eta)) + penalty * np.abs(weight[:, i]).sum()


def lattice_rows(count: int, seed: int):
    """Rows of six units on a ring by Gibbs sampling, weight 2."""
    random = np.random.default_rng(seed)
    x = (random.random((count, 6)) < 0.5).astype(float)
    for _ in range(200):
        for i in range(6):
            eta = 2.0 * (x[:, i - 1] + x[:, (i + 1) % 6]) - 2.0
            x[:, i] = random.random(count) < 1 / (1 + np.exp(-eta))
    return x


def test_regressions_meet_the_conditions_of_their_optimum():
    x, share = lattice_rows(800, 0), np.full(800, 1 / 800)
    penalty = 0.02
    weight, offset = l1_selection.fit_penalised_regressions(x, share, penalty, np.zeros((6, 6)), np.zeros(6))
    residual = 1 / (1 + np.exp(-(x @ weight + offset))) - x
    slope = x.T @ (share[:, None] * residual)
    assert np.abs(share @ residual).max() < 1e-4
    for i, j in itertools.permutations(range(6), 2):
        if weight[j, i]:
            assert slope[j, i] == pytest.approx(-penalty * np.sign(weight[j, i]), abs=1e-4)
        else:
            assert abs(slope[j, i]) <= penalty + 1e-4
    assert (np.diag(weight) == 0).all()


def test_the_path_begins_with_nothing_and_finds_the_ring():
    x, share = lattice_rows(1500, 1), np.full(1500, 1 / 1500)
    made = l1_selection.fit_penalty_path(x, share)
    assert l1_selection.mutually_selected_pairs(made.weight[0]) == []
    assert np.abs(made.weight[1]).max() > 0
    ring = sorted((min(i, (i + 1) % 6), max(i, (i + 1) % 6)) for i in range(6))
    assert l1_selection.mutually_selected_pairs(made.weight[made.best_index]) == ring
    share_of = run_algorithm(l1_selection.StabilitySelection(x, share, 10, 0, made.penalty[: made.best_index + 1]))
    assert [tuple(pair) for pair in np.argwhere(np.triu(share_of >= l1_selection.CHOSEN, 1)).tolist()] == ring


def test_scikit_learn_has_the_same_regression():
    linear = pytest.importorskip("sklearn.linear_model")
    x, share = lattice_rows(500, 2), np.full(500, 1 / 500)
    weight, offset = l1_selection.fit_penalised_regressions(x, share, 0.03, np.zeros((6, 6)), np.zeros(6))
    others = [j for j in range(6) if j != 2]
    theirs = linear.LogisticRegression(penalty="l1", C=1 / (500 * 0.03), solver="saga", tol=1e-8, max_iter=20000).fit(x[:, others], x[:, 2])
    full = np.zeros((6, 6))
    full[others, 2] = theirs.coef_[0]
    base = np.zeros(6)
    base[2] = theirs.intercept_[0]
    assert loss(x, share, weight, offset, 0.03, 2) == pytest.approx(loss(x, share, full, base, 0.03, 2), abs=1e-6)
