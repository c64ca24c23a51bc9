"""Single steps of the algorithms, their counts and their limits, against the same thing written out plainly."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from herdcli import iterate
from herdcli.errors import BadUsage, Diverged
from herdcli.fast import numpy_orders
from herdcli.markov import algorithms
from herdcli.markov.bethe import binary_edges, clamping, double_loop, lattice_bp, loopy_propagation, newton_step, starts, ups
from herdcli.markov.bethe import free_energy as bethe
from herdcli.markov.exact import elimination
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import beliefs, network, pairwise, random_networks
from herdcli.markov.model.graphs import lattice_detection
from herdcli.rng import Stream, generator

GRID = {"rows": 3, "columns": 3, "sigma_w": 1.5, "seed": 2}  # 9 variables, 12 edges


def method(algorithm, given=None, **settings):
    given = random_networks.generate_random_network("grid", **GRID) if given is None else given
    return algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm, **settings))


def walked(made, steps):
    return iterate.run_steps(made.step, made.init(), steps=steps)


def observed(given=None):
    given = random_networks.generate_random_network("grid", **GRID) if given is None else given
    return network.with_observed_marginals(given, {0: np.array([0.3, 0.7]), 8: np.array([0.6, 0.4])})


# what is counted


def test_the_tree_of_residuals_has_each_message_s_own_change_for_a_leaf():
    made = method("bp", schedule="residual")
    begun = made.init()
    leaves, graph = len(begun.tree) // 2, made.graph
    for d in range(2 * graph.edges):
        i, j = int(graph.tail[d]), int(graph.head[d])
        psi = graph.edge_table(d // 2) if d % 2 == 0 else graph.edge_table(d // 2).T
        message = graph.potential[graph.node_offset[i] : graph.node_offset[i + 1]] @ psi  # with uniform messages into i
        message = message / message.max()
        own = slice(int(graph.message_offset[d]), int(graph.message_offset[d + 1]))
        np.testing.assert_allclose(begun.pending[own], message)
        assert begun.tree[leaves + d] == pytest.approx(np.abs(message - 1).max(), rel=1e-12), (i, j)
    assert begun.tree[1] == begun.tree[leaves:].max()


def test_many_messages_are_swept_and_by_residual_once_sweeps_come_no_nearer(monkeypatch):
    """The same fixed point; on the ring of strong frustrated couplings sweeps go to and fro, and the largest change comes first."""
    monkeypatch.setattr(loopy_propagation, "SWEPT", 20)
    easy = random_networks.generate_random_network("grid", rows=4, columns=4, sigma_w=1.0, seed=1)
    found = {}
    for schedule in ("auto", "residual"):
        made = algorithms.make_inference_method(easy, InferenceSettings(algorithm="bp", schedule=schedule))
        state = iterate.run_steps(made.step, made.init(), until=made.done)
        assert (len(state.tree) > 0) == (schedule == "residual")
        found[schedule] = made.result(state)
    assert np.allclose([p[1] for p in found["auto"].nodes], [p[1] for p in found["residual"].nodes], atol=1e-9)
    hard = method("bp", random_networks.generate_random_network("grid", rows=6, columns=6, sigma_w=6.0, seed=2), iterations=60)
    state = iterate.run_steps(hard.step, hard.init(), until=hard.done)
    assert len(state.tree) > 0
    assert not hard.meets_criterion(state)


def test_sweeps_are_slow_where_half_of_them_do_not_halve_the_residual():
    falling = 0.5 ** (np.arange(20) / 9.9)
    assert not loopy_propagation.has_stalled(falling)
    assert not loopy_propagation.has_stalled(np.ones(19))
    assert loopy_propagation.has_stalled(np.ones(20))
    assert loopy_propagation.has_stalled(np.append(falling[:-1], np.nan))


def test_steps_are_expected_from_how_the_residual_falls():
    """A tenth a step from the fourth on: seven more from 10⁻² to 10⁻⁹; nothing is expected of what rises, or of three steps."""
    made = method("bp", schedule="sequential", iterations=50)
    state = replace(made.init(), step=4, residual=np.array([9.0, 1.0, 0.1, 0.01]))
    assert made.estimate_total_steps(state) == 11
    assert made.estimate_total_steps(replace(state, residual=np.array([9.0, 1.0, 0.1, 0.099]))) == 50
    for residual in ([9.0, 1.0, 0.1, 0.2], [9.0, 1.0, 0.1], [9.0, 1.0, 0.1, np.nan]):
        assert made.estimate_total_steps(replace(state, residual=np.array(residual))) is None


@pytest.mark.parametrize("schedule", ["residual", "sequential", "parallel"])
def test_propagation_counts_every_message_and_starts_with_nothing(schedule):
    made = method("bp", schedule=schedule, iterations=50)
    begun = made.init()
    assert (begun.step, len(begun.residual), len(begun.free_energy), begun.updates.tolist()) == (0, 0, 0, [0, 0])
    state = walked(made, 3)
    assert (state.step, state.updates.tolist(), len(state.residual), len(state.free_energy)) == (3, [0, 3 * 24], 3, 3)
    told = made.result(state).attributes
    assert (told["propagation_updates"], told["scaling_updates"], told["iterations"]) == (72, 0, 3)
    assert told["log_z"] == -told["free_energy"] == pytest.approx(-bethe.bethe_free_energy(made.graph, made.beliefs(state)))
    assert (made.steps, made.progress(state).bound) == (50, 50)


def test_scalings_are_messages_out_of_observed_nodes():
    made = method("loopy-is", observed())
    state = walked(made, 2)
    assert state.updates.tolist() == [2 * 4, 2 * 20]  # two corners with two neighbours each
    for name, each in (("is-bp", 1), ("gis-bp", 2)):
        made = method(name, observed())
        begun = made.init()
        assert (begun.updates[0], begun.step, len(begun.residual), len(begun.free_energy)) == (0, 0, 0, 0)
        sweeps, rest = divmod(int(begun.updates[1]), 24)
        assert (rest, sweeps > 1) == (0, True)
        state = walked(made, 3)
        assert state.updates[0] == 3 * each
        assert made.result(state).attributes["scaling_updates"] == 3 * each


def test_networks_with_zeros_begin_with_what_propagation_settled_on():
    """On a chain propagation is exact after its sweeps, and no convex problem has to be solved."""
    chain = network.build_network([2] * 3, [((0, 1), np.array([[1.0, 0.0], [2.0, 3.0]])), ((1, 2), np.array([[1.0, 4.0], [2.0, 1.0]]))])
    made = method("ups", chain)
    begun = made.init()
    assert (begun.pending.size, begun.clamped.size, begun.updates[0]) == (0, 0, 0)
    assert begun.updates[1] in (2 * 4, 3 * 4)
    joint = np.einsum("ab,bc->abc", *(table for _, table in chain.factors()))
    node = made.beliefs(begun).node.reshape(3, 2)
    np.testing.assert_allclose(node, [joint.sum(axis=other) / joint.sum() for other in ((1, 2), (0, 2), (0, 1))])


def test_a_joint_table_has_converged_where_nothing_is_observed_or_the_sweeps_settled():
    for given, iterations, converged in ((None, 1, True), (observed(), 1, False), (observed(), 300, True)):
        made = method("enumerate", given, iterations=iterations)
        told = made.result(iterate.run_steps(made.step, made.init(), until=made.done, steps=iterations)).attributes
        assert told["converged"] == converged
        assert (told["iterations"] == 0) == (given is None)


def test_a_belief_too_small_for_a_float64_is_told_by_its_first_edge():
    """P(x_2 = 1) = 5·10⁻³²⁴ is the least there is: the ratio that x_1 sends to x_2 would be infinite."""
    made = method("ups", random_networks.network_from_weights(np.array([[0, 1], [1, 2]]), np.array([1.0, 2.0]), np.zeros(3)))
    begun = made.init()
    state, bad = made._clamp_all_nodes(begun, binary_edges.edge_log_tables(made.graph), np.array([0.5, 0.5, 0.5, 0.5, 1.0, 5e-324]), 1.0)
    assert (state is begun, bad, int(made.graph.tail[bad]), int(made.graph.head[bad])) == (True, 2, 1, 2)


def test_double_loops_count_the_pairs_of_regions():
    for name in ("double-loop", "gbp"):
        made = method(name, iterations=9)
        begun = made.init()
        assert (begun.updates, begun.step, len(begun.residual)) == (0, 0, 0)
        np.testing.assert_allclose(np.exp(begun.inner), 0.5)
        pairs = sum(len(parents) for parents in made.regions.parents)
        assert pairs == 24
        state = walked(made, 2)
        assert state.updates % pairs == 0
        assert state.updates == 2 * pairs or name == "double-loop"
        assert made.result(state).attributes["scaling_updates"] == state.updates
        assert made.note == "12 outer regions of at most 2 variables, 9 inner ones"


@pytest.mark.parametrize("how", ["rows", "columns", "rows-columns"])
def test_sweeps_over_trees_count_scalings_and_propagations(how):
    given = random_networks.generate_random_network("grid", **GRID)
    made = algorithms.make_inference_method(given, InferenceSettings(algorithm="ups", clamp=how))
    ends = {"rows": [{3, 4, 5}, {0, 1, 2, 6, 7, 8}], "columns": [{1, 4, 7}, {0, 2, 3, 5, 6, 8}]}
    ends["rows-columns"] = [ends["columns"][0], ends["rows"][0], ends["columns"][1], ends["rows"][1]]
    assert [set(plan.clamped.tolist()) for plan in made.plans] == ends[how]
    for plan, held in zip(made.plans, ends[how], strict=True):
        tails = made.graph.tail[plan.order]
        assert sorted(plan.order.tolist()) == list(range(24))
        assert plan.scalings.sum() == sum(int(i) in held for i in tails)
        for s, (low, high) in enumerate(itertools.pairwise(plan.segments)):
            assert plan.scalings[s] == sum(int(i) in held for i in tails[low:high])
    state = walked(made, 1)
    plan = made.plans[0]
    sweeps = itertools.product(range(1, 8), repeat=len(plan.scalings))  # each tree's own number of them
    counts = {(np.dot(each, plan.scalings), np.dot(each, np.diff(plan.segments))) for each in sweeps}
    assert (state.updates[0], state.updates.sum()) in counts
    assert state.clamped.tolist() == sorted(ends[how][0])
    with pytest.raises(BadUsage, match="--clamp rows needs a network that was made as a grid"):
        method("ups", random_networks.generate_random_network("tree", nodes=5), clamp="rows")


@pytest.mark.parametrize("seen", [False, True])
def test_two_state_networks_begin_with_every_hidden_variable_held_at_one_half(seen):
    made = method("ups", observed() if seen else None)
    state = walked(made, 1)
    node = np.full(18, 0.5)
    if seen:
        node[[0, 1, 16, 17]] = 0.3, 0.7, 0.6, 0.4
    np.testing.assert_allclose(state.pending, node)
    assert state.clamped.tolist() == ([1, 2, 3, 4, 5, 6, 7] if seen else list(range(9)))
    assert state.updates.tolist() == [24, 0]
    assert (state.step, state.shift) == (1, 1.0)
    ratio, pair = binary_edges.messages_from_marginals(made.graph, made.tables, node)
    np.testing.assert_allclose(state.messages, binary_edges.ratios_to_messages(ratio))
    assert state.free_energy[0] == pytest.approx(bethe.bethe_free_energy(made.graph, bethe.PairBeliefs(node, pair.ravel())))


def test_uniform_marginals_that_are_stationary_are_left_by_a_tilt():
    """Without biases of its own a lattice of one coupling is stationary at ½: the second start deviates by a hundredth."""
    edges = random_networks.grid_edges(3, 3)
    degree = np.bincount(edges.ravel())
    given = random_networks.network_from_weights(edges, np.full(12, 6.0), -3.0 * degree)
    made = method("ups", given)
    state = walked(made, 1)
    deviation = np.exp(0.01 * generator(0, Stream.INITIAL, unit=0).standard_normal(18)).reshape(9, 2)
    np.testing.assert_allclose(state.pending.reshape(9, 2), deviation / deviation.sum(axis=1, keepdims=True))
    assert made.settings.start == 0


def test_places_on_a_lattice_are_read_from_pairs_alone():
    pairs = [((i, j), np.ones((2, 2))) for i, j in ((0, 1), (2, 3), (0, 2), (1, 3))]
    np.testing.assert_array_equal(lattice_detection.find_lattice_layout(network.build_network([2] * 4, pairs)), [[0, 1], [2, 3]])
    np.testing.assert_array_equal(lattice_detection.find_lattice_layout(network.build_network([2] * 2, pairs[:1])).ravel(), [0, 1])
    assert lattice_detection.find_lattice_layout(network.build_network([2] * 4, [*pairs, ((0, 1, 2), np.ones((2, 2, 2)))])) is None
    assert lattice_detection.find_lattice_layout(network.build_network([2], [])) is None


def test_free_energies_of_many_messages_are_computed_every_tenth_iteration(monkeypatch):
    for limit, known in ((23, [9, 19]), (24, list(range(22)))):
        monkeypatch.setattr(loopy_propagation, "MESSAGES_WITH_ENERGY", limit)
        state = walked(method("bp", schedule="sequential"), 22)
        assert np.flatnonzero(np.isfinite(state.free_energy)).tolist() == known


@pytest.mark.parametrize("kind", ["linear", "geometric"])
def test_the_residual_of_a_damped_update_is_that_of_one_without(kind):
    plain, damped = (walked(method("bp", schedule="parallel", damping=d, damping_kind="linear"), 1) for d in (0.0, 0.75))
    assert damped.residual[0] == pytest.approx(plain.residual[0])
    np.testing.assert_allclose(damped.messages - 1, 0.25 * (plain.messages - 1), rtol=1e-12)
    geometric = walked(method("bp", schedule="parallel", damping=0.75, damping_kind=kind), 1)
    assert np.array_equal(geometric.messages, damped.messages) == (kind == "linear")


def test_geometric_damping_is_a_power_of_both_messages():
    """Teh (2003), eq. 5.29 with α = .25: ratios of a message's two states from uniform ones are to the power of a quarter."""
    plain, damped = (walked(method("bp", schedule="parallel", damping=d, damping_kind="geometric"), 1) for d in (0.0, 0.75))
    ratios = [np.divide(*state.messages.reshape(-1, 2).T) for state in (plain, damped)]
    np.testing.assert_allclose(ratios[1], ratios[0] ** 0.25, rtol=1e-12)


def test_a_damping_schedule_divides_the_iterations_evenly():
    """Stages of 0 and ¾ over 5 iterations: iteration k of 5 is in stage ⌊2k/5⌋."""
    made = method("bp", schedule="parallel", damping_kind="linear", damping_schedule=(0.0, 0.75), iterations=5)
    state, seen = made.init(), []
    for _ in range(5):
        before = state.messages.copy()
        plain = method("bp", schedule="parallel").step(replace(state, messages=before.copy())).messages
        state = made.step(state)
        share = (state.messages - before)[np.abs(plain - before) > 1e-6] / (plain - before)[np.abs(plain - before) > 1e-6]
        seen.append(float(np.median(share)))
    np.testing.assert_allclose(seen, [1, 1, 1, 0.25, 0.25], atol=1e-6)


def test_what_is_said_of_auxiliary_nodes():
    def note(scopes):
        return loopy_propagation.reduction_note(
            pairwise.reduce_to_pairwise(network.build_network([2] * 6, [(s, np.full([2] * len(s), 1.5)) for s in scopes]))
        )

    assert note([(0, 1)]) == ""
    assert note([(0, 1, 2)]) == "one factor over three variables or more became an auxiliary node (Weiss & Freeman 2001)"
    assert note([(0, 1, 2), (3, 4, 5)]) == "2 factors over three variables or more became auxiliary nodes (Weiss & Freeman 2001)"


def test_messages_of_zeros_are_named_by_their_ends():
    given = network.build_network([2] * 3, [((0, 1, 2), np.full((2, 2, 2), 1.5)), ((0, 1), np.ones((2, 2)))], names=["a", "b", "c"])
    graph = pairwise.reduce_to_pairwise(given)
    names = ["a", "b", "c", "a larger factor"]
    loopy_propagation.raise_zero_message(given, graph, -1)
    for d in range(2 * graph.edges):
        told = f"belief propagation failed: the message from {names[graph.tail[d]]} to {names[graph.head[d]]} is zero for all states"
        with pytest.raises(Diverged, match=told) as caught:
            loopy_propagation.raise_zero_message(given, graph, d)
        assert "junction-tree, double-loop or gibbs" in caught.value.hint
    with pytest.raises(Diverged) as caught:
        loopy_propagation.raise_zero_message(network.with_observed_marginals(given, {0: np.array([0.5, 0.5])}), graph, 0)
    assert "--ignore-observed" in caught.value.hint


# starts


def test_random_starts_are_exponentials_normalised_and_messages_share_them():
    graph = pairwise.reduce_to_pairwise(random_networks.generate_random_network("grid", **GRID))
    settings = InferenceSettings(seed=4, start=3)
    drawn = generator(4, Stream.INITIAL, unit=3).standard_exponential(18).reshape(9, 2) + 1e-3
    expected = drawn / drawn.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(starts.make_initial_marginals(settings, graph.cardinality), expected.ravel())
    found = bethe.compute_beliefs(graph, starts.make_initial_messages(settings, graph), *graph.flatten_fixed_marginals({}))
    np.testing.assert_allclose(found.node, expected.ravel())
    assert (starts.make_initial_marginals(InferenceSettings(seed=4), graph.cardinality) == 0.5).all()
    tilted = starts.make_initial_marginals(InferenceSettings(seed=4), graph.cardinality, 0.5).reshape(9, 2)
    z = generator(4, Stream.INITIAL, unit=0).standard_normal(18).reshape(9, 2)
    np.testing.assert_allclose(tilted, np.exp(0.5 * z) / np.exp(0.5 * z).sum(axis=1, keepdims=True))


def result(node, energy, converged=True):
    node = np.array([node, 1 - node])
    return beliefs.Beliefs(node, np.array([0, 2]), *(np.zeros(k, dtype=int) for k in (0, 1)), np.zeros(0), np.zeros(1, dtype=int),
                           converged=converged, free_energy=energy)  # fmt: skip


def test_fixed_points_within_a_ten_thousandth_are_one_and_the_lowest_is_kept():
    tried = [result(0.5, 3.0), result(0.5 + 0.9e-4, 2.9), result(0.5 + 1.1e-4, 1.0), result(0.9, 0.5, converged=False), result(0.7, 1.0)]
    found = starts.select_best_start(tried)
    assert found.fixed_point_energy.tolist() == [1.0, 1.0, 3.0]
    assert found.fixed_point_runs.tolist() == [1, 1, 2]
    assert found.node is tried[2].node


# lattices


def boltzmann(given):
    """W and b of a network of pairs, and log of the factors' product at 0."""
    n = given.count
    W, b, constant = np.zeros((n, n)), np.zeros(n), 0.0
    for scope, table in given.factors():
        logs = np.log(table)
        constant += float(logs.ravel()[0])
        if len(scope) == 1:
            b[scope[0]] += logs[1] - logs[0]
        else:
            i, j = scope
            b[i] += logs[1, 0] - logs[0, 0]
            b[j] += logs[0, 1] - logs[0, 0]
            W[i, j] += logs[1, 1] - logs[1, 0] - logs[0, 1] + logs[0, 0]
            W[j, i] = W[i, j]
    return W, b, constant


def test_a_lattice_is_found_with_its_weights_and_refused_beyond_its_limits():
    given = random_networks.generate_random_network("grid", rows=2, columns=3, sigma_w=1.0, seed=1)
    W, b, constant = boltzmann(given)
    found = lattice_bp.find_binary_lattice(given)
    np.testing.assert_allclose(found.bias.ravel(), b)
    np.testing.assert_allclose(found.right, [[W[0, 1], W[1, 2], 0], [W[3, 4], W[4, 5], 0]])
    np.testing.assert_allclose(found.down, [[W[0, 3], W[1, 4], W[2, 5]], [0, 0, 0]])
    assert found.constant == pytest.approx(constant)
    assert lattice_bp.find_binary_lattice(replace(given, shape=None)) == "needs a network that was made as a grid"
    assert lattice_bp.find_binary_lattice(observed()) == "does not work with observed marginals"
    more = network.build_network([2] * 6, [*given.factors(), ((2, 3), np.array([[1.0, 1], [1, 2]]))], shape=given.shape)
    # 3 follows 2, but a row begins with it
    assert lattice_bp.find_binary_lattice(more) == "needs factors that join only neighbours on the grid"
    assert lattice_bp.find_binary_lattice(network.build_network([3] * 6, [], shape=given.shape)) == (
        "needs two-state variables, and factors without zeros"
    )
    pair = np.array([[0, 1]])
    for weight, fits in ((299.0, True), (301.0, False)):
        one = random_networks.network_from_weights(pair, np.array([1.0]), np.array([weight - 1, 0.0]), shape=np.array([1, 2]))
        assert isinstance(lattice_bp.find_binary_lattice(one), lattice_bp.BinaryLattice) == fits
    assert lattice_bp.find_binary_lattice(one) == "needs |weights| that sum to at most 300 at each unit"


def test_large_lattices_take_four_sweeps_a_step(monkeypatch):
    given = random_networks.generate_random_network("grid", **GRID)
    small = method("bp", given, schedule="checkerboard", iterations=10)
    monkeypatch.setattr(lattice_bp, "SMALL", 8)
    large = method("bp", given, schedule="checkerboard", iterations=10)
    assert (small.sweeps, large.sweeps, small.steps, large.steps) == (1, 4, 10, 3)
    monkeypatch.setattr(lattice_bp, "SMALL", 9)
    assert method("bp", given, schedule="checkerboard").sweeps == 1
    one, other = walked(small, 8), walked(large, 2)
    np.testing.assert_allclose(one.messages, other.messages)
    assert (np.isnan(other.free_energy).all(), np.isnan(one.free_energy).any()) == (True, False)
    assert other.residual.tolist() == one.residual[[3, 7]].tolist()
    told = large.result(other).attributes
    assert (told["iterations"], told["propagation_updates"]) == (8, 8 * 24)


def test_which_bp_goes_over_a_lattice(monkeypatch):
    monkeypatch.setattr(lattice_bp, "WORTH_IT", 9)
    given = random_networks.generate_random_network("grid", **GRID)
    assert isinstance(method("bp", given), lattice_bp.LatticePropagation)
    for settings in ({"schedule": "residual"}, {"damping": 0.1}, {"damping_schedule": (0.1,)}, {"start": 1}, {"linear_response": True}):
        assert isinstance(method("bp", given, **settings), loopy_propagation.BeliefPropagation)
    assert isinstance(method("bp", replace(given, shape=None)), loopy_propagation.BeliefPropagation)
    monkeypatch.setattr(lattice_bp, "WORTH_IT", 10)
    assert isinstance(method("bp", given), loopy_propagation.BeliefPropagation)


@pytest.mark.parametrize(("rows", "columns"), [(1, 5), (2, 2), (3, 4), (4, 1)])
def test_lattices_are_recognised_by_their_pairs_under_any_numbering(rows, columns):
    given = random_networks.generate_random_network("grid", rows=rows, columns=columns)
    plain = replace(given, shape=None)
    cells = np.arange(rows * columns)
    told = cells[None] if min(rows, columns) == 1 else cells.reshape(rows, columns)
    assert lattice_detection.find_lattice_layout(plain).tolist() == told.tolist()
    assert lattice_detection.find_lattice_layout(given).shape == (rows, columns)
    if min(rows, columns) > 1:
        order = np.random.default_rng(0).permutation(rows * columns)
        found = lattice_detection.find_lattice_layout(network.reorder_variables(given, order.tolist()))
        near = {frozenset((int(order[found[r, c]]), int(order[found[r + i, c + j]])))
                for i, j in ((0, 1), (1, 0)) for r in range(found.shape[0] - i) for c in range(found.shape[1] - j)}  # fmt: skip
        assert near == {frozenset(scope) for scope, _ in given.factors() if len(scope) == 2}
    assert lattice_detection.find_lattice_layout(network.build_network([2] * 3, [((0, 1, 2), np.ones((2, 2, 2)))])) is None
    star = [((0, k), np.ones((2, 2))) for k in range(1, 6)]
    assert lattice_detection.find_lattice_layout(network.build_network([2] * 6, star)) is None
    ring = [((k, (k + 1) % 5), np.ones((2, 2))) for k in range(5)]
    assert lattice_detection.find_lattice_layout(network.build_network([2] * 5, ring)) is None


# clamp sets


def test_automatic_forests_grow_from_the_nodes_that_were_free_least_often():
    graph = pairwise.reduce_to_pairwise(random_networks.generate_random_network("grid", **GRID))
    plans = clamping.make_clamp_plans(graph, set(), "auto", None, 3)
    free, made = np.zeros(9), []
    while len(made) < 8 or free.min() == 0:
        priority = free + 0.5 * generator(3, Stream.CLAMP, step=len(made)).random(9)
        root, forest = list(range(9)), set()
        for i in np.argsort(priority).tolist():
            trees = [root[j] for j in graph.neighbours(i).tolist() if j in forest]
            if len(set(trees)) == len(trees):
                forest.add(i)
                root = [i if r in trees else r for r in root]
        made.append(tuple(sorted(set(range(9)) - forest)))
        free[list(forest)] += 1
    assert [tuple(plan.clamped.tolist()) for plan in plans] == list(dict.fromkeys(made))
    tree = pairwise.reduce_to_pairwise(random_networks.generate_random_network("tree", nodes=6))
    (only,) = clamping.make_clamp_plans(tree, set(), "auto", None, 0)
    assert (len(only.clamped), len(only.order), only.scalings.tolist()) == (0, 10, [0])
    (walk,) = clamping.make_clamp_plans(tree, set(range(6)), [set()], None, 0)  # everything observed: each edge is a tree of its own
    assert (walk.segments.tolist(), walk.scalings.tolist()) == ([0, 2, 4, 6, 8, 10], [2] * 5)


# Newton steps


def test_newton_steps_reach_no_further_than_they_may():
    graph = SimpleNamespace(nodes=2, cardinality=np.array([2, 3]))
    node, index = np.array([0.4, 0.6, 0.2, 0.3, 0.5]), np.array([0, -1, 1, 2, -1])
    step = np.array([0.2, -0.01, 0.1])
    moved = newton_step._apply_step_to_marginals(graph, node, index, np.array([1, 4]), step, 0.25)
    change = np.array([0.2, -0.2, -0.01, 0.1, -0.09]) / node
    expected = node * np.exp(np.clip(change, -0.25, 0.25))
    np.testing.assert_allclose(moved, np.concatenate([expected[:2] / expected[:2].sum(), expected[2:] / expected[2:].sum()]))


def test_whether_an_iteration_of_ups_did_well():
    def after(energy, residual):
        return SimpleNamespace(free_energy=np.array([energy]), residual=np.array([residual]))

    before = after(-5.0, 0.1)
    assert ups._has_improved(before, after(-5.1, 9.0), 0.0)
    assert ups._has_improved(before, after(-5.0, 9.0), 0.0)
    assert not ups._has_improved(before, after(-4.9, 0.01), 0.0)
    assert ups._has_improved(before, after(-4.9, 0.05), 0.11)
    assert not ups._has_improved(before, after(-4.9, 0.051), 0.11)
    assert not ups._has_improved(before, after(-4.9, 0.05), 0.09)


class Proposals:
    """Stands for Newton's steps of UPS: what is proposed at each shift, and what came of it."""

    def __init__(self, monkeypatch, made, outcomes):
        self.asked, self.outcomes, self.held = [], iter(outcomes), []
        monkeypatch.setattr(ups.newton_step, "propose_newton_step", self.propose)
        for name in ("_minimise_with_clamps", "_clamp_all_nodes"):
            monkeypatch.setattr(made, name, self.judge)

    def propose(self, graph, found, messages, fixed, clamped, shift, accuracy, reach):
        self.asked.append((shift, reach))
        return "node", 2.0 * shift

    def judge(self, state, *given):
        self.held.append(given)
        return next(self.outcomes)


def test_newton_steps_of_trees_that_do_badly_are_done_again_from_the_present_marginals(monkeypatch):
    random = np.random.default_rng(0)
    ring = network.build_network([3] * 4, [((k, (k + 1) % 4), np.exp(random.standard_normal((3, 3)))) for k in range(4)])
    made = method("ups", ring, iterations=9, tolerance=1e-300)
    state = replace(walked(made, 4), shift=3.0)

    def ended(energy, more):
        after = replace(state, step=5, updates=state.updates + np.array(more))
        return replace(after, free_energy=np.append(state.free_energy, state.free_energy[-1] + energy))

    for outcome in ((ended(-0.1, [5, 6]), 0), (ended(0.1, [5, 6]), -1)):  # a message of zeros at edge 0; a rise
        tried = Proposals(monkeypatch, made, [outcome, (ended(-0.2, [7, 8]), -1)])
        after = made.step(state)
        assert tried.asked == [(3.0, 1.0)]
        assert (tried.held[0][0], len(tried.held)) == ("node", 2)
        assert (after.shift, after.updates.tolist()) == (60.0, (state.updates + np.array([12, 14])).tolist())
    Proposals(monkeypatch, made, [(ended(-0.1, [5, 6]), -1)])
    after = made.step(state)
    assert (after.shift, after.updates.tolist()) == (pytest.approx(0.6), (state.updates + np.array([5, 6])).tolist())
    for early in (replace(state, step=2), replace(state, clamped=np.zeros(0, dtype=int))):
        tried = Proposals(monkeypatch, made, [(ended(-0.1, [5, 6]), -1)])
        made.step(early)
        assert tried.asked == []
    tried = Proposals(monkeypatch, made, [(ended(0.1, [5, 6]), -1), (ended(0.0, [0, 0]), -1)])
    assert made.step(replace(state, shift=1e-6)).shift == 1e-3


def test_newton_steps_of_pairs_are_damped_tenfold_until_one_does_well(monkeypatch):
    made = method("ups", iterations=9, tolerance=1e-300)
    state = replace(walked(made, 1), shift=3.0, reach=30.0)

    def ended(energy):
        after = replace(state, step=2, updates=state.updates + np.array([24, 0]))
        return replace(after, free_energy=np.append(state.free_energy, state.free_energy[-1] + energy), residual=np.ones(2))

    tried = Proposals(monkeypatch, made, [(ended(-0.1), -1)])
    after = made.step(state)
    assert (tried.asked, after.reach) == ([(3.0, 30.0)], 50.0)
    assert tried.held[0][2] == pytest.approx(0.6)
    Proposals(monkeypatch, made, [(ended(-0.1), -1)])
    assert made.step(replace(state, reach=4.0)).reach == 8.0
    tried = Proposals(monkeypatch, made, [(ended(0.1), -1), (ended(-0.1), 0), (ended(-0.1), -1)])
    after = made.step(state)
    assert tried.asked == [(3.0, 30.0), (60.0, 1.0), (1200.0, 1.0)]
    assert (after.updates.tolist(), after.reach) == ([24 + 24 + 2 * 24, 0], 2.0)
    Proposals(monkeypatch, made, [(ended(0.1), -1)] * 3)
    assert made._iterate_all_clamped(state, made.tables) is None
    tried = Proposals(monkeypatch, made, [(ended(0.1), -1), (ended(-0.1), -1)])
    made._iterate_all_clamped(replace(state, shift=1e-6), made.tables)
    assert [shift for shift, _ in tried.asked] == [1e-6, 1e-3]


def test_inner_loops_go_to_the_square_of_a_tenth_of_the_residual():
    made = method("ups", tolerance=1e-6)
    state = made.init()
    assert made._inner_tolerance(state) == 1e-5
    for last, inner in ((1.0, 1e-5), (1e-2, 1e-6), (1e-3, 1e-7), (1e-5, 1e-7)):
        assert made._inner_tolerance(replace(state, residual=np.array([last]))) == pytest.approx(inner)


# orders of elimination


def price(graph, states, kind):
    """What eliminating the first variable costs."""
    return numpy_orders._EliminationPrices(graph, states, np.log2(states).tolist(), kind).of(0)


def test_the_cost_of_an_order_by_hand():
    """A chain of 2, 3, 4 states eliminated from its ends: tables of 6, 12 and 3 cells, messages of 3, 3 and 1."""
    given = network.build_network([2, 3, 4], [((0, 1), np.ones((2, 3))), ((1, 2), np.ones((3, 4)))])
    graph = elimination.flatten_graph(elimination.moral_graph(given))
    made = elimination._eliminate_in_order(graph, [2, 3, 4], [0, 2, 1])
    assert (made.cells, made.largest, made.width) == (21, 12, 1)
    assert made.cost == 21 + (6 / 2 + 12 / 4 + 3 / 3)
    middle = elimination._eliminate_in_order(graph, [2, 3, 4], [1, 0, 2])
    assert (middle.cells, middle.largest, middle.width) == (24 + 8 + 4, 24, 2)
    ties = [0.5, 0.4, 0.3]
    weights = elimination._eliminate_greedily(graph, [2, 3, 4], "weight", ties, math.inf)
    assert weights.order == [2, 1, 0]  # the ends cost log 3 each, and the last has the lower number; then 1 costs log 2
    assert (weights.cells, weights.largest, weights.width) == (pytest.approx(12 + 6 + 2), pytest.approx(12), 1)
    given_up = elimination._eliminate_greedily(graph, [2, 3, 4], "fill", ties, 10.0)
    assert given_up.order is None
    star, states = [{1, 2, 3}, {0}, {0}, {0, 4}, {3}], [5, 2, 4, 8, 2]
    prices = {kind: price(star, states, kind) for kind in elimination.KINDS}
    assert prices == {"fill": 3, "weight": 1 + 2 + 3, "cells": 2 * 4 + 2 * 8 + 4 * 8, "logs": 1 * 2 + 1 * 3 + 2 * 3}
    assert price([{1, 2}, {0, 2}, {0, 1}], [2, 3, 4], "cells") == 0
    state = elimination.initial_order_search(given)
    assert (state.step, state.width, state.complete, state.cells) == (0, 0, False, 0.0)
    state = elimination.try_more_orders(given, elimination.moral_graph(given), 0, state)
    assert (state.step, state.complete, state.width) == (1, True, 1)


def test_double_loops_settle_their_inner_loop_with_the_residual(monkeypatch):
    """The inner loop goes to a hundredth of the square of the residual, from 10⁻⁵ down to a tenth of the tolerance."""
    made = method("double-loop", tolerance=1e-6)
    for last, goal in ((None, 1e-5), (1e-3, 0.1 * 1e-6), (5e-3, (0.1 * 5e-3) ** 2), (1e-5, 0.1 * 1e-6)):
        state = made.init()
        if last is not None:
            state.residual = np.array([last])
        gaps = iter([goal * 1.01] * len(made.classes) + [goal] * len(made.classes))
        monkeypatch.setattr(double_loop.DoubleLoop, "_update_region_class", lambda self, state, each, last, gaps=gaps: next(gaps))
        state = made.step(state)
        assert state.updates == 2 * 24
        assert state.residual[-1] == goal
    alone = network.build_network([3], [((0,), np.array([1.0, 2.0, 5.0]))])
    made = method("double-loop", alone)
    state = made.init()
    assert (len(state.multiplier), len(state.inner), made.classes) == (0, 0, [])
    np.testing.assert_allclose(made.result(made.step(state)).nodes[0], [0.125, 0.25, 0.625])


@pytest.mark.parametrize("name", ["bp", "ups", "is-bp", "loopy-is", "enumerate"])
def test_states_to_read_a_checkpoint_into_look_like_the_first_ones(name):
    made = method(name, None if name in ("bp", "ups") else observed())
    look_alike(made)


def look_alike(made):
    for field, one, other in zip(vars(made.init()), vars(made.state_template()).values(), vars(made.init()).values(), strict=True):
        assert type(one) is type(other), field
        assert not isinstance(one, np.ndarray) or (one.shape, one.dtype) == (other.shape, other.dtype), field
