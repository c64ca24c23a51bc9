"""The loops over messages: the compiled ones give the bits of the Python ones."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.fast import numpy_markov as twin
from herdcli.markov.bethe import clamping, loopy_propagation
from herdcli.markov.model import network, random_networks
from herdcli.markov.model.pairwise import reduce_to_pairwise

compiled = pytest.importorskip("herdcli.fast._markov", reason="the compiled loops are not built")


def graphs():
    random = np.random.default_rng(0)
    mixed = [((i, j), np.exp(3 * random.standard_normal((2 + i % 3, 2 + j % 3)))) for i, j in [(0, 1), (1, 2), (2, 0), (2, 3), (4, 3)]]
    mixed.append(((0, 3, 5), random.random((2, 2, 4)) * (random.random((2, 2, 4)) < 0.7)))
    hub = [((0, i), np.array([[1.0, 1.0], [1.0, np.exp(50.0 if i <= 15 else -50.0)]])) for i in range(1, 40)]
    return {
        "lattice": random_networks.generate_random_network("grid", rows=4, columns=5, sigma_w=5, observe="border", sigma_alpha=2),
        "mixed": network.build_network([2 + i % 3 for i in range(5)] + [4], mixed),
        "hub": network.build_network([2] * 40, hub),
    }


@pytest.fixture(params=["lattice", "mixed", "hub"])
def setting(request):
    given = graphs()[request.param]
    graph = reduce_to_pairwise(given)
    return graph, *graph.flatten_fixed_marginals(given.stored_marginals())


@pytest.mark.parametrize(("damping", "geometric"), [(0.0, False), (0.3, False), (0.3, True)])
@pytest.mark.parametrize("parallel", [False, True])
def test_updates_give_the_same_bits(setting, damping, geometric, parallel):
    graph, fixed, target = setting
    order = loopy_propagation.forward_backward_order(graph)
    results = []
    for side in (compiled, twin):
        messages = graph.uniform_messages()
        told = []
        for _ in range(5):
            out = messages.copy() if parallel else messages
            told.append(side.update_messages(order, messages, out, graph.arrays, fixed, target, damping, geometric, graph.scratch()))
            messages = out
        results.append((messages, told))
    assert np.array_equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]
    assert results[0][1][0][0] > 0


def test_settling_gives_the_same_bits(setting):
    graph, fixed, target = setting
    plan = clamping.make_clamp_plan(
        graph, set(np.flatnonzero(fixed).tolist()), set(range(0, graph.nodes, 2)) - set(np.flatnonzero(fixed).tolist())
    )
    held, aim = fixed.copy(), target.copy()
    held[plan.clamped] = 1
    for i in plan.clamped:
        count = int(graph.cardinality[i])
        aim[graph.node_offset[i] : graph.node_offset[i + 1]] = np.arange(1, count + 1) / (count * (count + 1) / 2)
    results = []
    for side in (compiled, twin):
        messages, sweeps = graph.uniform_messages(), np.zeros(len(plan.segments) - 1, dtype=np.int64)
        told = side.settle(plan.order, plan.segments, messages, graph.arrays, held, aim, 1e-6, 50, sweeps, graph.scratch())
        results.append((messages, sweeps, told))
    assert np.array_equal(results[0][0], results[1][0])
    assert np.array_equal(results[0][1], results[1][1])
    assert results[0][2] == results[1][2]
    assert results[0][1].min() >= 1


def test_residual_schedule_gives_the_same_bits(setting):
    graph, fixed, target = setting
    edges = 2 * graph.edges
    leaves = 1 << (edges - 1).bit_length()
    results = []
    for side in (compiled, twin):
        messages, tree = graph.uniform_messages(), np.zeros(2 * leaves)
        pending = messages.copy()
        for d in range(edges):
            one = np.array([d], dtype=np.int32)
            tree[leaves + d] = side.update_messages(one, messages, pending, graph.arrays, fixed, target, 0.0, False, graph.scratch())[0]
        for at in range(leaves - 1, 0, -1):
            tree[at] = max(tree[2 * at], tree[2 * at + 1])
        told = side.residual_updates(77, messages, pending, tree, graph.arrays, fixed, target, graph.scratch())
        results.append((messages, pending, tree, told))
    for ours, theirs in zip(results[0][:3], results[1][:3], strict=True):
        assert np.array_equal(ours, theirs)
    assert results[0][3] == results[1][3]


@pytest.mark.parametrize("side", [compiled, twin], ids=["cython", "python"])
def test_products_that_underflow_one_way_come_back(side):
    """At the hub 15 messages say e^50 for one state, then 24 the other: no order of the factors may lose it."""
    graph = reduce_to_pairwise(graphs()["hub"])
    fixed, target = graph.flatten_fixed_marginals({})
    messages = graph.uniform_messages()
    order = loopy_propagation.forward_backward_order(graph)
    for _ in range(2):
        assert side.update_messages(order, messages, messages, graph.arrays, fixed, target, 0.0, False, graph.scratch())[1] == -1
    into = [messages[graph.message_offset[d] : graph.message_offset[d + 1]] for d in graph.incoming_edges(0)]
    ratio = sum(np.log(m[1]) - np.log(m[0]) for m in into)
    exact = sum(np.log1p(np.exp(50.0 if i <= 15 else -50.0)) - np.log(2) for i in range(1, 40))
    assert abs(ratio - exact) < 1e-9 * abs(exact)


NAMES = ["tail", "head", "cardinality", "node_offset", "potential", "table_offset", "table", "offset", "in_offset", "in_edge"]


@pytest.mark.parametrize("at", range(10), ids=NAMES)
@pytest.mark.parametrize("change", ["short", "high", "low"])
def test_arrays_that_lead_outside_are_refused(at, change):
    given = graphs()["mixed"]
    graph = reduce_to_pairwise(given)
    fixed, target = graph.flatten_fixed_marginals(given.stored_marginals())
    order, messages = loopy_propagation.forward_backward_order(graph), graph.uniform_messages()
    arrays = list(graph.arrays)
    compiled.update_messages(order, messages, messages, tuple(arrays), fixed, target, 0.0, False, graph.scratch())
    if change == "short":
        arrays[at] = arrays[at][:-1].copy()
    elif arrays[at].dtype.kind != "i":
        return
    else:
        arrays[at] = arrays[at].copy()
        arrays[at][len(arrays[at]) // 2] = 10**6 if change == "high" else -7
    with pytest.raises(ValueError, match=r"array has length|node \d+|edge \d+|scratch"):
        compiled.update_messages(order, messages, messages, tuple(arrays), fixed, target, 0.0, False, graph.scratch())


@pytest.mark.parametrize("segments", [[0, 99], [3, 1], [-2, 4]])
def test_segments_outside_of_the_order_are_refused(segments):
    graph = reduce_to_pairwise(graphs()["mixed"])
    fixed, target = graph.flatten_fixed_marginals({})
    with pytest.raises(ValueError, match="segments"):
        compiled.settle(
            loopy_propagation.forward_backward_order(graph),
            np.array(segments),
            graph.uniform_messages(),
            graph.arrays,
            fixed,
            target,
            1e-6,
            5,
            np.zeros(1, dtype=np.int64),
            graph.scratch(),
        )


def test_a_tree_that_names_no_edge_is_left_alone():
    """Leaves beyond the edges that a crafted checkpoint gave a residual: nothing outside is read."""
    graph = reduce_to_pairwise(graphs()["mixed"])
    fixed, target = graph.flatten_fixed_marginals({})
    tree = np.ones(2 * (1 << (2 * graph.edges).bit_length()))
    tree[3:][: len(tree) // 2 - 3] = 1.0
    tree[len(tree) // 2 :][: 2 * graph.edges] = 0.0
    messages = graph.uniform_messages()
    compiled.residual_updates(3, messages, messages.copy(), tree, graph.arrays, fixed, target, graph.scratch())
    with pytest.raises(ValueError, match="too small a tree"):
        compiled.residual_updates(3, messages, messages.copy(), tree[:-2].copy(), graph.arrays, fixed, target, graph.scratch())


@pytest.mark.parametrize("side", [compiled, twin], ids=["cython", "python"])
def test_a_message_without_a_state_is_reported(side):
    graph = reduce_to_pairwise(network.build_network([2, 2], [((0, 1), np.eye(2))]))
    fixed, target = graph.flatten_fixed_marginals({0: np.array([1.0, 0.0])})
    messages = np.array([1.0, 1.0, 0.0, 1.0])
    order = np.array([0], dtype=np.int32)
    assert side.update_messages(order, messages, messages, graph.arrays, fixed, target, 0.0, False, graph.scratch())[1] == 0
