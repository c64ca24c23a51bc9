"""Networks as they are stored, put in another order, and read from lists of variables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from herdcli.errors import BadUsage, DataError
from herdcli.markov.exact import enumeration
from herdcli.markov.model import network, random_networks
from herdcli.markov.model.graphs import structure_selection


def made() -> network.Network:
    """Three variables of 2, 3 and 2 states with names, two factors, and x2's marginal given."""
    random = np.random.default_rng(0)
    found = network.build_network(np.array([2, 3, 2]), [((0, 1), random.random((2, 3)) + 0.1), ((1, 2), random.random((3, 2)) + 0.1)])
    return replace(
        found,
        names=["a", "b", "c"],
        states=["a0", "a1", "b0", "b1", "b2", "c0", "c1"],
        observed=np.array([2]),
        observed_marginal=np.array([0.25, 0.75]),
        shape=np.array([1, 3]),
    )


def test_another_order_of_the_variables_is_the_same_distribution():
    given, order = made(), [2, 0, 1]
    found = network.reorder_variables(given, order)
    found.validate()
    assert found.cardinality.tolist() == [2, 2, 3]
    np.testing.assert_allclose(
        enumeration.initial_joint(replace(found, observed=None, observed_marginal=None)).joint,
        enumeration.initial_joint(replace(given, observed=None, observed_marginal=None)).joint.transpose(order),
    )
    assert (found.names, found.states) == (["c", "a", "b"], ["c0", "c1", "a0", "a1", "b0", "b1", "b2"])
    assert (found.observed.tolist(), found.observed_marginal.tolist(), found.shape) == ([0], [0.25, 0.75], None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1\n\n2 3\n", "line 3: there is no variable 3: the 3 variables are numbered 0 to 2"),
        ("# none\n0 1\nx2 z\n", "line 3: there is no variable 'z'"),
        ("0 1\n1 1\n", "line 2 contains a variable twice"),
        ("0 1 2\n", "line 1 has 3 variables, but an edge has 2"),
        (" # nothing\n", "has no variables"),
    ],
)
def test_wrong_lists_of_variables_are_told_by_their_line(text, message):
    with pytest.raises(DataError) as error:
        structure_selection.read_scopes(text, ["a", "b", "c"], 3, 2)
    assert str(error.value).splitlines()[0] == message


def test_variables_are_read_by_name_number_and_x():
    assert structure_selection.read_scopes("a,c # one\n0 1\nx1 x2 a\n", ["a", "b", "c"], 3) == [(0, 2), (0, 1), (1, 2, 0)]


def test_every_node_of_a_random_tree_hangs_on_one_before_it():
    random = np.random.default_rng(1)
    assert random_networks.draw_tree_edges(1, random).shape == (0, 2)
    parents = []
    for _ in range(40):
        edges = random_networks.draw_tree_edges(4, random)
        assert edges[:, 1].tolist() == [1, 2, 3]
        assert (edges[:, 0] < edges[:, 1]).all()
        parents.append(edges[2, 0])
    assert set(parents) == {0, 1, 2}


def test_random_edges_are_distinct_pairs_of_the_degree_asked_for():
    found = [random_networks.draw_random_edges(12, 3.0, np.random.default_rng(seed)) for seed in range(60)]
    for edges in found:
        assert (edges[:, 0] < edges[:, 1]).all()
        assert [tuple(pair) for pair in edges.tolist()] == sorted({tuple(pair) for pair in edges.tolist()})
    degree = 2 * np.mean([len(edges) for edges in found]) / 12
    assert abs(degree - 3.0) < 4 * np.sqrt(66 * (3 / 11) * (8 / 11) / 60) / 6
    assert len(random_networks.draw_random_edges(5, 4.0, np.random.default_rng(0))) == 10
    with pytest.raises(BadUsage, match=r"--mean-degree 4.5 is too large: with 5 nodes it is at most 4"):
        random_networks.draw_random_edges(5, 4.5, np.random.default_rng(0))


def test_biases_of_a_random_machine_balance_its_weights():
    edges = np.array([[0, 1], [0, 2], [1, 2]])
    W, b = random_networks.draw_weights(3, edges, 2.0, 0.0, np.random.default_rng(0))
    np.testing.assert_allclose(b, [-(W[0] + W[1]) / 2, -(W[0] + W[2]) / 2, -(W[1] + W[2]) / 2])
    again, spread = random_networks.draw_weights(3, edges, 2.0, 3.0, np.random.default_rng(0))
    np.testing.assert_array_equal(again, W)
    random = np.random.default_rng(0)
    random.standard_normal(3)
    np.testing.assert_allclose(spread - b, 3.0 * random.standard_normal(3))
    made = random_networks.network_from_weights(edges, W, b)
    expected = [((i,), [1.0, np.exp(bias)]) for i, bias in enumerate(b)]
    expected += [(tuple(pair), [[1.0, 1.0], [1.0, np.exp(weight)]]) for pair, weight in zip(edges.tolist(), W, strict=True)]
    for (scope, table), (ours, values) in zip(made.factors(), expected, strict=True):
        assert scope == ours
        np.testing.assert_allclose(table, values)


@pytest.mark.parametrize(
    "line",
    [
        '"sepal length" "a,b"',
        '"sepal length","a,b"',
        'sepal length -> "a,b"',
        'sepal length\t"a,b"',
        '"sepal length" → "a,b" # "',
        'sepal length, "a,b"',
    ],
)
def test_names_with_blanks_and_commas_are_read(line):
    assert structure_selection.read_scopes(line, ["a,b", "sepal length", "length"], 3, 2) == [(1, 0)]


def test_commas_do_not_join_names_that_blanks_part():
    names = ["a b", "a", "b", "C#"]
    assert structure_selection.read_scopes('a b\na, b\n"a b" a\n"C#" b', names, 4, 2) == [(1, 2), (1, 2), (0, 1), (3, 2)]
    assert structure_selection.read_scopes("a b\na b, a", names, 4) == [(0,), (0, 1)]
    with pytest.raises(DataError, match="line 1 has 3 variables, but an edge has 2") as error:
        structure_selection.read_scopes("a b a", names, 4, 2)
    assert error.value.hint == 'put names with blanks into quotes: "a b"'
