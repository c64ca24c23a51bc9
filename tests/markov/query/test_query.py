"""Likeliest states, marginal MAP, joint marginals, bounds and sensitivities: against loops over all states."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from small_networks import brute_force, random_network, summed, weights

from herdcli.algorithm import run_algorithm
from herdcli.errors import NegativeResult
from herdcli.markov.exact import cliques
from herdcli.markov.exact.collect_pass import plan_elimination_pass
from herdcli.markov.mean.mean_field_bound import compute_mean_field_bound
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import network, random_networks
from herdcli.markov.model.restricted_states import restrict_to_possible_states
from herdcli.markov.query import exact_queries, log_z_bounds, mini_bucket, query_parsing
from herdcli.markov.query.marginal_map import CoordinateAscent
from herdcli.markov.query.max_product import MaxProduct
from herdcli.markov.query.neighbourhood_search import NeighbourhoodSearch, improve_states, soft_log_score
from herdcli.markov.query.sensitivity import compute_parameter_sensitivity, extend_to_all_cells
from herdcli.markov.query.tree_reweighted import TreeReweighted, draw_covering_forests

CASES = [(seed, zeros) for seed in range(6) for zeros in (False, True)]
ASKED = [1, 3, 5]


def order(given, **more):
    return run_algorithm(exact_queries.make_order_search(given, 4, 0, **more)).order.tolist()


@pytest.mark.parametrize(("seed", "zeros"), CASES)
def test_the_likeliest_state_is_that_of_a_loop(seed, zeros):
    given = random_network(seed, zeros, 8)
    truth = weights(given)
    everything = range(given.count)
    found = exact_queries.find_most_probable_states(given, order(given, maximised=everything), everything)
    assert found.value == pytest.approx(math.log(max(truth.values())), abs=1e-12)
    assert truth[tuple(found.states[i] for i in everything)] == pytest.approx(max(truth.values()), rel=1e-12)
    assert found.exact
    assert found.bound == found.value


@pytest.mark.parametrize(("seed", "zeros"), CASES)
def test_marginal_map_sums_before_it_maximises(seed, zeros):
    given = random_network(seed, zeros, 8)
    truth = summed(given, ASKED)
    search = run_algorithm(exact_queries.make_order_search(given, 4, 0, maximised=ASKED))
    assert set(search.order[-len(ASKED) :].tolist()) == set(ASKED)
    found = run_algorithm(exact_queries.MostProbableStatesAlgorithm(plan_elimination_pass(given, search.order, ASKED)))
    assert found.value == pytest.approx(math.log(max(truth.values())), abs=1e-12)
    assert truth[tuple(found.states[i] for i in ASKED)] == pytest.approx(max(truth.values()), rel=1e-12)


def test_marginal_map_is_not_the_map_of_all():
    # x = 0 has the one likeliest state (.4), x = 1 the larger sum (.3 + .3).
    given = network.build_network([2, 2], [((0, 1), np.array([[0.4, 0.0], [0.3, 0.3]]))])
    assert exact_queries.find_most_probable_states(given, [1, 0], [0, 1]).states == {0: 0, 1: 0}
    found = exact_queries.find_most_probable_states(given, [1, 0], [0])
    assert found.states == {0: 1}
    assert found.value == pytest.approx(math.log(0.6))


@pytest.mark.parametrize(("seed", "zeros"), CASES)
def test_joints_are_sums_of_the_loop_in_the_order_asked(seed, zeros):
    given = random_network(seed, zeros, 8)
    names = [5, 1, 7, 3]
    truth = summed(given, names)
    p, log_z = exact_queries.compute_joint_marginal(given, order(given, remaining_variables=names), names)
    assert log_z == pytest.approx(math.log(sum(truth.values())), abs=1e-12)
    assert p.shape == tuple(given.cardinality[names])
    for x, value in truth.items():
        assert p[x] == pytest.approx(value / sum(truth.values()), abs=1e-14)
    assert exact_queries.compute_exact_log_z(given, order(given)) == pytest.approx(log_z, abs=1e-12)


def test_nothing_possible_is_a_negative_result():
    given = network.build_network([2, 2], [((0, 1), np.array([[0.0, 1.0], [1.0, 0.0]])), ((0, 1), np.eye(2))])
    for answer in (
        lambda: exact_queries.find_most_probable_states(given, [0, 1], [0, 1]),
        lambda: exact_queries.compute_joint_marginal(given, [0], [1]),
        lambda: exact_queries.compute_exact_log_z(given, [0, 1]),
    ):
        with pytest.raises(NegativeResult, match="every joint state has probability 0"):
            answer()


@pytest.mark.parametrize("cells", [1, 4, 12, 1 << 20])
@pytest.mark.parametrize(("seed", "zeros"), CASES)
def test_mini_buckets_bound_sums_and_maxima(seed, zeros, cells):
    given = random_network(seed, zeros, 8)
    total = math.log(sum(weights(given).values()))
    largest = math.log(max(weights(given).values()))
    mixed = math.log(max(summed(given, ASKED).values()))
    everything = frozenset(range(given.count))
    for truth, maximised in ((total, frozenset()), (largest, everything), (mixed, frozenset(ASKED))):
        found = mini_bucket.compute_mini_bucket_bound(given, order(given, maximised=sorted(maximised)), maximised, cells)
        assert found.bound >= truth - 1e-10
        if cells > 1000:
            assert found.exact
            assert found.bound == pytest.approx(truth, abs=1e-10)


def test_larger_mini_buckets_bound_a_lattice_better():
    given = random_networks.generate_random_network("grid", rows=4, columns=4, sigma_w=2.0, sigma_b=1.0, seed=0)
    truth = exact_queries.compute_exact_log_z(given, order(given))
    gaps = [mini_bucket.compute_mini_bucket_bound(given, order(given), cells=cells).bound - truth for cells in (4, 16, 64)]
    assert gaps[0] > gaps[1] > gaps[2] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("iterations", [1, 300])
@pytest.mark.parametrize(("seed", "zeros"), CASES)
def test_tree_reweighted_bounds_log_z_however_far_it_has_come(seed, zeros, iterations):
    given = random_network(seed, zeros, 8)
    truth = math.log(sum(weights(given).values()))
    found = run_algorithm(TreeReweighted(given, InferenceSettings(iterations=iterations)))
    assert found.attributes["log_z_upper"] >= truth - 1e-10


def test_tree_reweighted_is_exact_on_trees_and_close_on_weak_lattices():
    tree = random_networks.generate_random_network("tree", nodes=9, sigma_w=2.0, sigma_b=1.0, seed=3)
    marginals, log_z = brute_force(tree)
    found = run_algorithm(TreeReweighted(tree, InferenceSettings(iterations=500)))
    assert found.attributes["log_z"] == pytest.approx(log_z, abs=1e-8)
    assert max(np.abs(p - q).max() for p, q in zip(found.nodes, marginals, strict=True)) < 1e-8
    weak = random_networks.generate_random_network("grid", rows=3, columns=3, sigma_w=0.3, sigma_b=1.0, seed=1)
    rough, fine = (run_algorithm(TreeReweighted(weak, InferenceSettings(iterations=count))).attributes["log_z"] for count in (1, 300))
    truth = brute_force(weak)[1]
    assert truth - 1e-12 <= fine < truth + 0.05
    assert fine < rough


def test_forests_have_no_loop_and_hold_every_factor():
    given = random_networks.generate_random_network("grid", rows=4, columns=4, sigma_w=1.0, sigma_b=1.0, seed=0)
    made = draw_covering_forests(given, 0)
    assert set().union(*made) == set(range(given.factor_count))
    for members in made:
        scopes = [given.factor_scope(a) for a in members]
        joined = [scope for scope in scopes if len(scope) == 2]
        touched = {i for scope in joined for i in scope}
        parts: list[set[int]] = []
        for scope in joined:
            near = [part for part in parts if part & set(scope)]
            parts = [part for part in parts if not part & set(scope)] + [set(scope).union(*near)]
        assert len(joined) == len(touched) - len(parts)  # a forest has as many edges as nodes less trees


@pytest.mark.parametrize(("seed", "zeros"), CASES)
def test_bounds_enclose_log_z(seed, zeros):
    given = random_network(seed, zeros, 8)
    truth = math.log(sum(weights(given).values()))
    upper = run_algorithm(TreeReweighted(given, InferenceSettings(iterations=50))).attributes["log_z"]
    found = log_z_bounds.compute_log_z_bounds(given, compute_mean_field_bound(given), upper, 8, InferenceSettings(iterations=30))
    assert found.state is not None
    assert -math.inf < found.lower <= truth + 1e-10
    assert found.upper >= truth - 1e-10
    assert found.state <= math.log(max(weights(given).values())) + 1e-10


@pytest.mark.parametrize(("seed", "zeros"), CASES)
def test_max_product_has_a_bound_that_no_state_exceeds(seed, zeros):
    given = random_network(seed, zeros, 8)
    truth = weights(given)
    method = MaxProduct(given, InferenceSettings(iterations=60), 3)
    method.order = method.order[:0]  # without mini-buckets, which are exact here
    found = run_algorithm(method)
    assert found.bound >= math.log(max(truth.values())) - 1e-10
    assert math.log(truth[tuple(found.states[i] for i in range(given.count))]) == pytest.approx(found.value, abs=1e-9)


def test_max_product_never_raises_its_bound_and_closes_on_a_tree():
    tree = random_networks.generate_random_network("tree", nodes=12, sigma_w=3.0, sigma_b=1.0, seed=3)
    method = MaxProduct(tree, InferenceSettings(iterations=200), 0)
    method.order = method.order[:0]
    state = method.init()
    while not method.done(state):
        state = method.step(state)
    assert (np.diff(state.bound[1:]) <= 1e-9).all()
    assert state.bound[-1] == pytest.approx(
        exact_queries.find_most_probable_states(tree, order(tree, maximised=range(12)), range(12)).value, abs=1e-6
    )


def test_a_search_around_a_state_never_loses_and_finds_the_best_of_a_small_lattice():
    given = random_networks.generate_random_network("grid", rows=5, columns=5, sigma_w=3.0, sigma_b=1.0, seed=4)
    search = NeighbourhoodSearch(given, 0)
    x = np.zeros(25, dtype=np.int64)
    before = soft_log_score(search, x)
    after = improve_states(search, x, 0)
    assert soft_log_score(search, after) > before
    assert (x == 0).all()
    best = exact_queries.find_most_probable_states(given, order(given, maximised=range(25)), range(25)).value
    assert soft_log_score(search, after) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("zeros", [False, True])
def test_climbing_ends_where_no_single_change_is_better(zeros):
    for seed in range(5):
        given = random_network(seed, zeros, 8)
        truth = summed(given, ASKED)
        begin = max(truth, key=truth.get) if zeros else (0, 0, 0)
        found = run_algorithm(CoordinateAscent(given, ASKED, begin))
        here = tuple(found.states[i] for i in ASKED)
        assert found.value == pytest.approx(math.log(truth[here]), abs=1e-10)
        assert found.bound >= math.log(max(truth.values())) - 1e-10
        for k, i in enumerate(ASKED):
            for x in range(int(given.cardinality[i])):
                changed = (*here[:k], x, *here[k + 1 :])
                assert truth[changed] <= truth[here] * (1 + 1e-9)


def test_restricting_keeps_log_z_and_the_likeliest_state():
    for seed in range(6):
        given = random_network(seed, True, 8)
        small = restrict_to_possible_states(given)
        assert exact_queries.compute_exact_log_z(small.network, order(small.network)) + small.constant == pytest.approx(
            brute_force(given)[1], abs=1e-10
        )


@pytest.mark.parametrize("zeros", [False, True])
def test_sensitivities_are_finite_differences(zeros):
    for seed in range(3):
        given = random_network(seed, zeros, 6)
        found = compute_parameter_sensitivity(given, cliques.search_elimination_orders(given, 0, 2).order.tolist(), 1, 0)
        p, table, step = brute_force(given)[0][1][0], given.table, 1e-6
        assert found.probability == pytest.approx(p, abs=1e-12)
        assert found.value.tolist() == table.tolist()
        for k in range(0, len(table), 5):
            moved = [table.copy(), table.copy()]
            moved[1][k] += step
            if table[k] > step:
                moved[0][k] -= step
            low, high = (brute_force(network.build_network(given.cardinality, _with(given, each)))[0][1][0] for each in moved)
            assert found.derivative[k] == pytest.approx((high - low) / (moved[1][k] - moved[0][k]), abs=2e-5, rel=1e-4)


def test_sensitivities_under_evidence_are_of_the_cells_of_the_network_itself():
    """Not of the slices that evidence leaves: the cell of a row is its place in the network's own factor."""
    for seed in range(3):
        before = random_network(seed, False, 6)
        evidence = {0: 1, 3: 0}
        given = network.condition_network(before, evidence)
        found = extend_to_all_cells(
            compute_parameter_sensitivity(given, cliques.search_elimination_orders(given, 0, 2).order.tolist(), 1, 0), before, evidence
        )
        assert found.value.tolist() == before.table.tolist()
        ends = before.table_offset.tolist()
        assert found.cell.tolist() == [k for low, high in pairwise(ends) for k in range(high - low)]
        for k in range(0, len(before.table), 3):
            table = before.table.copy()
            table[k] += 1e-6
            moved = network.condition_network(network.build_network(before.cardinality, _with(before, table)), evidence)
            change = brute_force(moved)[0][1][0] - brute_force(given)[0][1][0]
            assert found.derivative[k] == pytest.approx(change / 1e-6, abs=2e-5, rel=1e-4)


def _with(given, table):
    """The factors with other values."""
    cells = given.table_offset
    return [(given.factor_scope(a), table[cells[a] : cells[a + 1]]) for a in range(given.factor_count)]


def test_a_state_that_zeros_forbid_has_a_slope():
    # P(x1 = 0) is 0 and rises with the cell that forbids it: Z = 1 + θ, P = θ/(1 + θ), slope 1 at θ = 0.
    given = network.build_network([1, 2], [((0, 1), np.array([[0.0, 1.0]]))])
    found = compute_parameter_sensitivity(given, [0, 1], 1, 0)
    assert found.probability == 0.0
    assert found.derivative.tolist() == pytest.approx([1.0, 0.0])


@pytest.mark.parametrize("text", ["mpe:A", "mmap", "joint:", "sensitivity:A", "sensitivity:A,B=1", "sensitivity:=1", "best", ""])
def test_queries_that_are_none(text):
    with pytest.raises(ValueError, match="is none of marginals, log-z"):
        query_parsing.parse_query(text)


def test_queries_that_are_some():
    assert query_parsing.parse_query("mmap:a, b") == query_parsing.Query("mmap", ("a", "b"))
    assert query_parsing.parse_query("sensitivity:a=b=yes") == query_parsing.Query("sensitivity", ("a=b",), "yes")
    assert query_parsing.parse_query('sensitivity:"a,b"=yes') == query_parsing.Query("sensitivity", ("a,b",), "yes")
    assert query_parsing.parse_query("sensitivity:a=[0,1)") == query_parsing.Query("sensitivity", ("a",), "[0,1)")
