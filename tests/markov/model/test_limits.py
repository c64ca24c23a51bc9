"""What makes a network, its evidence and its beliefs, and what does not; regions' entropies and notes by hand."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from herdcli import iterate
from herdcli.errors import BadUsage, DataError, NegativeResult
from herdcli.markov import algorithms
from herdcli.markov.exact import cliques, enumeration, evidence_batch
from herdcli.markov.exact.evidence_batch import EvidenceBatch
from herdcli.markov.learning import learners
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import beliefs, constraints, network, random_networks
from herdcli.markov.model.constraints import LearningProblem, StateRows
from herdcli.markov.model.graphs import region_graphs, structure_selection
from herdcli.markov.model.network import MOST_AXES


def made(cardinality=(2, 3), scopes=((0,), (0, 1)), **more):
    cardinality = np.array(cardinality)
    return network.build_network(cardinality, [(s, np.ones(cardinality[list(s)])) for s in scopes], **more)


@pytest.mark.parametrize(
    "value",
    [
        made(),
        made((1,), ((),)),
        made((2,), ()),
        made(names=["a", "b"], states=["0", "1", "x", "y", "z"]),
        made((2, 2), (), shape=np.array([1, 2])),
        made((1,) * MOST_AXES, (tuple(range(MOST_AXES)),)),
        replace(made(), observed=np.array([1]), observed_marginal=np.array([0.0, 0.5, 0.5 + 0.9e-6])),
        replace(made(), table=np.array([0.0, 1.0, 0, 0, 0, 0, 0, 1e-300])),
    ],
    ids=lambda value: "",
)
def test_what_is_at_its_limits_is_a_network(value):
    assert network.validate_network(value) is value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (made((), ()), "the network has no variables"),
        (made((2, 0), ()), "variable 1 has 0 states, but needs 1 or more"),
        (replace(made(), scope=np.array([0, 0, 2])), "factor 1 contains variable 2, but the 2 variables are numbered 0 to 1"),
        (replace(made(), scope=np.array([-1, 0, 1])), "factor 0 contains variable -1, but the 2 variables"),
        (replace(made((2, 2)), scope=np.array([0, 1, 1])), "factor 1 contains variable 1 twice"),
        (replace(made((2, 2)), scope=np.array([0, 1, 0]), table=-np.ones(6)), "factor 0: value 0 is -1, but must be finite and not"),
        (replace(made(), table=np.array([1.0, 1, 1, 1, 1, 1, 1, np.inf])), "factor 1: value 5 is inf"),
        (replace(made(), table=np.array([0.0, 0, 1, 1, 1, 1, 1, 1])), "factor 0 is zero everywhere"),
        (
            replace(made(), table=np.ones(7), table_offset=np.array([0, 2, 7])),
            r"factor 1 has 5 values, but its variables have 6 joint states \(2 × 3\)",
        ),
        (
            made((1,) * (MOST_AXES + 1), (tuple(range(MOST_AXES + 1)),)),
            f"factor 0 has {MOST_AXES + 1} variables, but herd handles at most {MOST_AXES}",
        ),
        (made(names=["a"]), "/names has 1 names, but there are 2 variables"),
        (made(states=["a"] * 4), "/states has 4 names, but there are 5 states"),
        (
            replace(made(), observed=np.array([0])),
            "only one of /observed and /observed_marginal is there, but the file needs both or neither",
        ),
        (replace(made(), observed=np.array([0]), observed_marginal=np.ones(3) / 3), "/observed_marginal has 3 values"),
        (replace(made(), observed=np.array([0]), observed_marginal=np.array([0.5, 0.6])), "the marginal of x0 sums to 1.1, not to 1"),
        (replace(made(), observed=np.array([0]), observed_marginal=np.array([1.5, -0.5])), "the marginal of x0 has a value that is neg"),
    ],
    ids=lambda value: None if isinstance(value, str) else "",
)
def test_what_is_beyond_its_limits_is_none(value, message):
    with pytest.raises(DataError, match=message):
        network.validate_network(value)


def test_evidence_and_likelihoods_of_states_that_there_are():
    given = made()
    for evidence, message in (({2: 0}, "contains variable 2, but the 2 variables"), ({-1: 0}, "contains variable -1"),
                              ({1: 3}, "gives x1 the state 3, but its states are 0 to 2"), ({0: -1}, "gives x0 the state -1")):  # fmt: skip
        with pytest.raises(DataError, match=message):
            network.condition_network(given, evidence)
    held = network.condition_network(given, {1: 2})
    assert (held.cardinality.tolist(), network.cardinality_without_evidence(held).tolist()) == ([2, 1], [2, 3])
    assert network.cardinality_without_evidence(network.condition_network(held, {0: 1})).tolist() == [2, 3]
    weighed = network.with_likelihoods(given, {1: np.array([1.0, 2.0, 0.0])})
    assert [scope for scope, _ in weighed.factors()] == [(0,), (0, 1), (1,)]
    assert network.with_likelihoods(given, {}) is given
    with pytest.raises(DataError, match="factor 2 has 2 values, but its variables have 3 joint states"):
        network.with_likelihoods(given, {1: np.ones(2)})
    p = network.validate_marginal(given, 0, np.array([0.5, 0.5 + 0.9e-6]))
    assert p.sum() == pytest.approx(1.0, abs=1e-15)
    with pytest.raises(DataError, match="the marginal of x0 has 3 values, but the variable has 2 states"):
        network.validate_marginal(given, 0, np.ones(3) / 3)
    assert network.drop_single_state_variables(held, ((0, 1), np.ones((2, 1))))[0] == (0,)


def test_regions_are_over_what_evidence_leaves():
    given = network.condition_network(random_networks.generate_random_network("grid", rows=2, columns=3), {1: 0, 5: 1})
    found = region_graphs.make_region_graph(given, "edges")
    assert found.outer == [(0, 3), (2,), (3, 4)]
    assert (found.inner, found.count, found.parents) == ([(3,)], [-1], [[0, 2]])
    logs, constant = region_graphs.assign_region_tables(given, found)
    assert [table.shape for table in logs] == [(2, 2), (2,), (2, 2)]
    value = {0: 1, 2: 1, 3: 0, 4: 1}
    total = sum(table[tuple(value[i] for i in scope)] for table, scope in zip(logs, found.outer, strict=True)) + constant
    expected = sum(np.log(table[tuple(value.get(i, 0) for i in scope)]) for scope, table in given.factors())
    assert total == pytest.approx(expected)


def test_rows_of_evidence_are_states_or_none():
    given = random_networks.generate_random_network("grid", rows=2, columns=2)
    with pytest.raises(DataError, match=r"row 1 gives x2 the state 2, but its states are 0 to 1 \(−1: unknown\)"):
        EvidenceBatch(given, [0, 2], np.array([[0, 1], [1, 2]]), orders=1, seed=0)
    with pytest.raises(DataError, match="row 0 gives x0 the state -2"):
        EvidenceBatch(given, [0], np.array([[-2]]), orders=1, seed=0)
    hard = network.build_network([2, 2], [((0, 1), np.eye(2))])
    batch = EvidenceBatch(hard, [0, 1], np.array([[0, 0], [-1, 1], [0, 1]]), orders=1, seed=0)
    assert batch.step(batch.init()).log_z.tolist() == [0, 0, -np.inf]
    assert EvidenceBatch(hard, [0], np.array([[0]]), orders=1, seed=0).count == 1


def test_beliefs_are_divided_as_they_are_long():
    good = beliefs.assemble_beliefs(made((2, 2), ()), {}, [np.full(2, 0.5)] * 2, [((0, 1), np.full((2, 2), 0.25))])
    good.validate()
    beliefs.require_same_variables(good, 2)
    with pytest.raises(DataError, match="has marginals of 2 variables, expected 3"):
        beliefs.require_same_variables(good, 3)
    for changes, message in (({"names": ["a"]}, "/names has 1 names, but there are 2 variables"),
                             ({"clique_scope": np.array([0, 2])}, "/clique_scope"),
                             ({"node_offset": np.array([0, 2, 5])}, "node_offset")):  # fmt: skip
        with pytest.raises(DataError, match=message):
            replace(good, **changes).validate()
    told = beliefs.make_convergence_attributes(2.5, True, 3, np.array([0.5, 0.1]), np.array([3.0, 2.5]), extra=7)
    assert (told["log_z"], told["free_energy"], told["residual"], told["iterations"], told["extra"]) == (-2.5, 2.5, 0.1, 3, 7)
    assert beliefs.make_convergence_attributes(2.5, True, 0, np.empty(0), np.empty(0))["residual"] == 0.0
    errors = [np.array([0.1, 0.1]), np.zeros(1)]
    held = beliefs.assemble_beliefs(made((2, 2), ()), {1: 1}, [np.array([0.25, 0.75]), np.ones(1)], [((0, 1), np.array([[0.25], [0.75]]))],
                            standard_error=errors)  # fmt: skip
    assert held.node.tolist() == [0.25, 0.75, 0, 1]
    assert held.clique.tolist() == [0, 0.25, 0, 0.75]
    assert held.standard_error.tolist() == [0.1, 0.1, 0, 0]


def test_variables_that_evidence_holds_are_no_part_of_a_joint_table(monkeypatch):
    given = network.condition_network(random_networks.generate_random_network("grid", rows=2, columns=3), {1: 0, 5: 1})
    assert enumeration.joint_shape(given) == (2, 2, 2, 2)
    monkeypatch.setattr(enumeration, "MOST_STATES", 16)
    joint = enumeration.compute_log_joint(given)
    x = (1, 0, 1, 1)  # of variables 0, 2, 3 and 4
    value = dict(zip((0, 2, 3, 4), x, strict=True))
    assert joint[x] == pytest.approx(sum(np.log(table[tuple(value.get(i, 0) for i in scope)]) for scope, table in given.factors()))
    monkeypatch.setattr(enumeration, "MOST_STATES", 15)
    with pytest.raises(DataError, match=r"--algorithm enumerate handles at most 2\^26 joint states, but 4 variables have 2\^4\.0"):
        enumeration.compute_log_joint(given)


def test_proportional_fitting_sweep_by_sweep():
    table = np.array([[0.4, 0.1], [0.2, 0.3]])
    given = network.with_observed_marginals(
        network.build_network([2, 2], [((0, 1), table)]), {0: np.array([0.3, 0.7]), 1: np.array([0.6, 0.4])}
    )
    state = enumeration.initial_joint(given)
    assert (state.step, len(state.residual)) == (0, 0)
    p = table.copy()
    for step in (1, 2):
        rows = np.abs(p.sum(axis=1) - [0.3, 0.7]).max()
        p *= (np.array([0.3, 0.7]) / p.sum(axis=1))[:, None]
        columns = np.abs(p.sum(axis=0) - [0.6, 0.4]).max()
        p *= np.array([0.6, 0.4]) / p.sum(axis=0)
        state = enumeration.proportional_fitting_sweep(given, state)
        np.testing.assert_allclose(state.joint, p)
        assert (state.residual[-1], state.step) == (pytest.approx(max(rows, columns)), step)
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm="enumerate", iterations=7))
    assert (method.steps, method.progress(method.init()).bound) == (7, 7)
    told = method.result(state).attributes
    assert told["scaling_updates"] == 2 * 2
    assert told["log_z"] == pytest.approx(float((p * np.log(table / p)).sum()))
    plain = algorithms.make_inference_method(network.with_observed_marginals(given, {}), InferenceSettings(algorithm="enumerate"))
    assert (plain.steps, plain.result(plain.init()).attributes["residual"]) == (0, 0.0)
    wrong = network.with_observed_marginals(network.build_network([2], [((0,), np.array([1.0, 0.0]))]), {0: np.array([0.5, 0.5])})
    with pytest.raises(
        NegativeResult, match="the observed marginal of x0 gives a positive probability to a state that the network excludes"
    ):
        enumeration.proportional_fitting_sweep(wrong, enumeration.initial_joint(wrong))


def triangle(algorithm, **settings):
    """A learner of the pairs of three variables, and the problem."""
    x = np.random.default_rng(0).integers(0, 2, (50, 3))
    x[:20, 1], x[10:40, 2] = x[:20, 0], x[10:40, 1]
    rows = StateRows(x, np.full(50, 1 / 50))
    given = LearningProblem(np.full(3, 2), constraints.make_clusters(rows, np.full(3, 2), [(0, 1), (1, 2), (0, 2)], 1.0), rows=rows)
    return learners.make_learner(given, learners.LearningSettings(algorithm=algorithm, iterations=40, **settings)), given


@pytest.mark.parametrize(("algorithm", "settings"), [("cvm", {}), ("loopy-is", {"double_loop": True})])
def test_the_entropy_of_regions_is_that_of_the_given_pairs_less_their_overlaps(algorithm, settings):
    """All three pairs are given: Σ H(pairs) − Σ H(overlaps), each of three variables once, or as many separators as there are."""
    learner, given = triangle(algorithm, **settings)
    begun = learner.init()
    assert (begun.step, begun.counts.tolist(), len(begun.residual), len(begun.entropy)) == (0, [0, 0], 0, 0)
    assert learner.note == "3 outer regions of at most 2 variables, 3 inner ones"
    state = iterate.run_steps(learner.step, begun, until=learner.done)

    def H(p):
        return -float((p * np.log(p)).sum())

    whole = sum(H(c.target) for c in given.clusters)
    single = [H(given.clusters[0].target.sum(axis=1)), H(given.clusters[0].target.sum(axis=0)), H(given.clusters[1].target.sum(axis=0))]
    assert state.entropy[-1] == pytest.approx(whole - sum(single), abs=1e-6)
    assert state.counts[0] == state.counts[1] > 0
    assert (state.counts[0] % 3, len(state.entropy)) == (0, state.step)


def test_loopy_scaling_tells_of_its_graph_and_counts():
    learner, _ = triangle("loopy-is")
    assert learner.note == "3 cliques of at most 2 variables, 3 separators: a junction graph with loops"
    begun = learner.init()
    assert (begun.step, begun.counts.tolist(), begun.pending.tolist()) == (0, [0, 0], [0.0] * 6)
    state = learner.step(begun)
    assert (state.counts[0], state.step) == (3, 1)
    tree, _ = triangle("loopy-is", max_clique=3)
    assert tree.note == "1 cliques of at most 3 variables, 0 separators: a junction tree: the result is exact"
    with pytest.raises(BadUsage, match="--max-clique 1 is too small: the largest cluster has 2 variables"):
        triangle("loopy-is", max_clique=1)
    with pytest.raises(BadUsage, match=r"no region of --regions contains all variables of cluster 2 \(0, 2\)"):
        triangle("loopy-is", regions=((0, 1), (1, 2)))
    kept, _ = triangle("cvm", regions=((0, 1, 2),))
    assert kept.note == "1 outer regions of at most 3 variables, 0 inner ones"
    state = iterate.run_steps(kept.step, kept.init(), until=kept.done)
    assert kept.meets_criterion(state)


def test_cliques_grow_by_the_information_of_fresh_pairs_then_of_all():
    """From pairs 01, 23 within 0123: adding 2 to 01 is worth I02 + I12 of fresh pairs."""
    information = np.zeros((4, 4))
    for (i, j), value in {(0, 1): 5.0, (2, 3): 5.0, (0, 2): 0.3, (1, 2): 0.3, (0, 3): 0.5, (1, 3): 0.05}.items():
        information[i, j] = information[j, i] = value
    grown = structure_selection.grow_cliques([(0, 1), (2, 3)], [(0, 1, 2, 3)], information, 3)
    # 0 into 23 gains 0.8, then the fresh pairs 12 and 13 are left: 2 or 3 into 01 gain 0.3 or 0.05
    assert grown == [(0, 1, 2), (0, 2, 3)]
    assert structure_selection.grow_cliques([(0, 1)], [(0, 1), (2, 3)], information, 2) == [(0, 1), (2, 3)]
    assert structure_selection.grow_cliques([(0, 1), (2, 3)], [(0, 1, 2, 3)], information, 2) == [(0, 1), (2, 3)]


def test_tables_of_a_batch_have_two_axes_more_than_the_width(monkeypatch):
    """A clique of width + 1 variables, and the rows."""
    chain = network.build_network([2] * 3, [((0, 1), np.ones((2, 2))), ((1, 2), np.ones((2, 2)))])
    for most, possible in ((2, False), (3, True)):
        monkeypatch.setattr(evidence_batch, "MOST_AXES", most)
        tried = evidence_batch.EvidenceBatch(chain, [0], np.array([[0]]), orders=1, seed=0)
        assert (tried.width, tried.possible) == (1, possible)


def test_an_elimination_of_variables_alone_costs_their_states():
    found = cliques.search_elimination_orders(network.build_network([2, 3, 4], [((1,), np.ones(3))]), 0, 3)
    assert (found.width, found.cells, found.largest, sorted(found.order)) == (0, 2 + 3 + 4, 4, [0, 1, 2])
    pair = cliques.search_elimination_orders(network.build_network([2, 3, 4], [((0, 2), np.ones((2, 4)))]), 0, 3)
    assert (pair.width, pair.largest) == (1, 8)
    assert pair.cells in (3 + 8 + 4, 3 + 8 + 2)


def test_variables_that_add_no_edge_are_eliminated_first():
    """Two cliques of five with a variable between one of each: 2⁵ + 2⁴ + 2³ + 2² cells for either, 2² + 2² + 2 for what is left.

    The one between has the fewest neighbours, and would join them.
    """
    cliques_of_five = [*itertools.combinations(range(5), 2), *itertools.combinations(range(5, 10), 2)]
    scopes = [*cliques_of_five, (4, 10), (5, 10)]
    for orders in (1, 4):  # the first order goes by edges, the second by neighbours
        found = cliques.search_elimination_orders(
            network.build_network([2] * 11, [(scope, np.ones((2, 2))) for scope in scopes]), 0, orders
        )
        assert (found.cells, found.largest, found.width) == (2 * 60 + 10, 32, 4)


def test_pairs_that_are_in_a_clique_already_add_nothing():
    """Of a chain within 0123: 3 joins 01 (0.7 of fresh pairs) before 2, whose pair with 1 is known; then 0 joins 12, and 1 joins 23."""
    information = np.zeros((4, 4))
    for (i, j), value in {(0, 1): 0.9, (1, 2): 0.8, (2, 3): 0.7, (0, 3): 0.4, (1, 3): 0.3, (0, 2): 0.1}.items():
        information[i, j] = information[j, i] = value
    grown = structure_selection.grow_cliques([(0, 1), (1, 2), (2, 3)], [(0, 1, 2, 3)], information, 3)
    assert set(grown) == {(0, 1, 3), (0, 1, 2), (1, 2, 3)}


def test_memory_of_cliques_counts_cells_and_their_maps():
    """Cells 4 and 6; the first holds one scope, the second two, and both the separator: 16 + 4 (1 + links) bytes a cell."""
    graph = cliques.CliqueGraph([(0, 1), (1, 2)], [(0, 1, (1,))], True)
    states = np.array([2, 2, 3])
    assert graph.cells(states) == 10
    assert graph.smallest_containing_cliques([(1,), (2,), (0, 1), (1, 2)]) == [0, 1, 0, 1]
    assert graph.bytes_needed(states, [(0, 1), (1, 2), (2,)]) == 4 * (16 + 4 * 3) + 6 * (16 + 4 * 4)
    assert [sorted(near) for near in graph.neighbours()] == [[(1, 0)], [(0, 1)]]


def test_junction_trees_of_all_three_ways_agree_on_a_chain_by_hand():
    tables = np.random.default_rng(0).random((3, 2, 2))
    given = network.build_network([2] * 4, [((k, k + 1), tables[k]) for k in range(3)])
    z = (tables[0] @ tables[1] @ tables[2]).sum()
    for message_passing, orders in itertools.product(("hugin", "shafer-shenoy"), (1, 4)):
        method = algorithms.make_inference_method(given, InferenceSettings(message_passing=message_passing, orders=orders))
        state = iterate.run_steps(method.step, method.init(), until=method.done)
        found = method.result(state)
        assert found.attributes["log_z"] == pytest.approx(np.log(z))
        assert (state.step, state.width, found.attributes["iterations"]) == (1, 1, 1)  # a forest cannot be improved
        assert method.progress(state).figure == "treewidth 1"
        np.testing.assert_allclose(found.nodes[1], tables[0].sum(axis=0) * (tables[1] @ tables[2]).sum(axis=1) / z)
    assert method.bytes_needed(state)[1].startswith("the junction tree, treewidth 1 and 2^3.8 table cells,")


@pytest.mark.parametrize("some", [1, 2, 3, 100])
def test_factors_that_are_checked_in_blocks_are_named_by_their_numbers(monkeypatch, some):
    monkeypatch.setattr(network, "SOME", some)
    scopes = ((0, 1), (1, 2), (0,), (0, 1, 2), (0, 2), ())
    given = made((2, 2, 2), scopes)
    assert network.validate_network(given) is given
    first = given.table_offset[:-1].tolist()
    for factor in range(len(scopes)):
        for value in (np.nan, -1.0, np.inf):
            table = given.table.copy()
            table[first[factor]] = value
            with pytest.raises(DataError, match=f"factor {factor}: value 0 is {value:g}"):
                network.validate_network(replace(given, table=table))
    twice = given.scope.copy()
    twice[int(given.scope_offset[4]) + 1] = 0
    with pytest.raises(DataError, match="factor 4 contains variable 0 twice"):
        network.validate_network(replace(given, scope=twice))
