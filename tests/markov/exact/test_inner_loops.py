"""How far inner loops go, how often they are repeated and what they are handed, with the loops themselves replaced by scripts."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from herdcli import fast
from herdcli.markov import algorithms
from herdcli.markov.bethe import belief_optimization, binary_edges, newton_step
from herdcli.markov.learning import cvm
from herdcli.markov.learning import learners as learning
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import constraints, network, random_networks
from herdcli.markov.model.constraints import LearningProblem, StateRows

TRIANGLE = [(0, 1), (1, 2), (0, 2)]


def learner(algorithm, **settings):
    x = np.random.default_rng(0).integers(0, 2, (50, 3))
    rows = StateRows(x, np.full(50, 1 / 50))
    given = LearningProblem(np.full(3, 2), constraints.make_clusters(rows, np.full(3, 2), TRIANGLE, 1.0), rows=rows)
    return learning.make_learner(given, learning.LearningSettings(algorithm=algorithm, tolerance=1e-6, **settings))


@pytest.mark.parametrize(("last", "inner"), [(None, 0.01), (0.5, 0.01), (0.05, 0.005), (1e-8, 1e-7)])
def test_regions_agree_to_a_tenth_of_the_last_residual(last, inner, monkeypatch):
    made = learner("cvm")
    for gaps, calls in (([(inner * 1.01, 0.0), (0.0, inner * 1.01), (inner * 0.999, inner * 0.999)], 3), ([(np.inf, 0.0)] * 2000, 1000)):
        state, left = made.init(), iter(gaps)
        state.residual = np.empty(0) if last is None else np.array([last])
        monkeypatch.setattr(fast, "region_updates", lambda *given, left=left: (*next(left), -1))
        state = made.step(state)
        assert state.counts.tolist() == [3 * calls, 3 * calls]
        assert state.residual[-1] == max(gaps[calls - 1])
    assert cvm.INNER_SWEEPS == 1000


@pytest.mark.parametrize(("last", "inner"), [(None, 1e-4), (1e-1, 1e-4), (1e-3, 1e-5), (1e-9, 1e-8)])
def test_loopy_scaling_settles_to_a_hundredth_of_the_last_residual(last, inner, monkeypatch):
    made, seen = learner("loopy-is"), []

    def settle(order, *given):
        seen.append((given[-6], given[-5], given[-4]))
        return 0.125, -1

    monkeypatch.setattr(fast, "settle_and_scale", settle)
    state = made.init()
    state.residual = np.empty(0) if last is None else np.array([last])
    state = made.step(state)
    assert seen == [((1.0, 1.0), pytest.approx(inner), 50)]
    assert (state.residual[-1], state.step) == (0.125, 1)


def test_damped_loopy_scaling_scales_all_clusters_before_each_propagation(monkeypatch):
    made, seen = learner("loopy-is", damping=0.25), []
    errors = [0.5, 0.1, 0.0051, 0.0049]

    def settle(order, *given):
        seen.append((order.tolist(), *given[-6:-3]))
        if order.tolist() == [-1]:
            assert (given[-3] == 1.0).all()
            given[-3][:] = 0.6
            return 0.0, -1
        return errors.pop(0), -1

    monkeypatch.setattr(fast, "settle_and_scale", settle)
    state = made.step(made.init())
    assert seen[:4] == [(made.order.tolist(), (1.0, 1.0), np.inf, 0)] * 4, "until a hundredth of the first error is left"
    assert seen[4:] == [([-1], (1.0, 0.75), 0.0, 1)]
    assert state.residual[-1] == 0.6 / 0.75, "the larger of the first error and of what separators have still to say, undamped"
    errors[:] = [0.5] * 20
    made.step(state)
    assert len(errors) == 10


def test_scaling_by_propagation_settles_to_a_tenth_of_the_tolerance_and_says_where_it_does_not(monkeypatch):
    given = network.with_observed_marginals(
        random_networks.generate_random_network("grid", rows=2, columns=2, seed=1), {0: np.array([0.3, 0.7]), 3: np.array([0.6, 0.4])}
    )
    real, asked, told = fast.settle, [], {}

    def settle(order, segments, messages, arrays, fixed, target, inner, most, sweeps, scratch):
        asked.append((inner, most, segments.tolist()))
        change, bad = real(order, segments, messages, arrays, fixed, target, inner, most, sweeps, scratch)
        return told["reached"] or change, bad

    monkeypatch.setattr(fast, "settle", settle)
    for reached, finite in ((0.0, True), (1.01e-4, False), (0.1 * 1e-3, True)):
        told["reached"] = reached
        made = algorithms.make_inference_method(given, InferenceSettings(algorithm="is-bp", tolerance=1e-3))
        state = made.step(made.init())
        assert np.isfinite(state.residual[-1]) == finite
    assert set(map(str, asked)) == {str((0.1 * 1e-3, 1000, [0, 8]))}


def test_is_bp_scales_one_node_at_a_time_and_gis_bp_all_by_a_root():
    given = network.with_observed_marginals(
        random_networks.generate_random_network("grid", rows=2, columns=2, seed=1), {0: np.array([0.3, 0.7]), 3: np.array([0.6, 0.4])}
    )
    for name, power in (("is-bp", 1.0), ("gis-bp", 0.5)):
        made = algorithms.make_inference_method(given, InferenceSettings(algorithm=name, tolerance=1e-6))
        state = made.init()
        for step in range(3):
            node, potential = made.beliefs(state).node.copy(), state.potential.copy()
            state = made.step(state)
            chosen = [0, 3] if name == "gis-bp" else [[0, 3][step % 2]]
            for i in chosen:
                own = slice(2 * i, 2 * i + 2)
                scaled = potential[own] * (given.stored_marginals()[i] / node[own]) ** power
                potential[own] = scaled / scaled.max()
            np.testing.assert_allclose(state.potential, potential)
            found = made.beliefs(state).node
            assert state.residual[-1] == pytest.approx(
                max(np.abs(found[2 * i : 2 * i + 2] - p).max() for i, p in given.stored_marginals().items())
            )


@pytest.mark.parametrize(("last", "enough"), [(None, 1e-4), (0.5, 0.5e-4), (1e-7, 1e-8)])
def test_units_are_minimised_to_a_share_of_the_last_residual(last, enough, monkeypatch):
    made = algorithms.make_inference_method(
        random_networks.generate_random_network("grid", rows=2, columns=2, seed=1),
        InferenceSettings(algorithm="belief-optimization", tolerance=1e-6),
    )
    asked = []
    monkeypatch.setattr(made, "_minimise_colour", lambda logit, part, enough: asked.append(enough) or (7, 0.25))
    state = made.init()
    state.residual = np.empty(0) if last is None else np.array([last])
    state = made.step(state)
    np.testing.assert_allclose(asked, [enough] * len(made.parts))
    assert (state.updates.tolist(), state.step, state.residual[-1]) == ([7 * len(made.parts), 0], 1, 0.25)


def test_belief_optimization_of_a_pair_ends_where_its_slope_vanishes():
    """logit q_i = b_i + log M_i with the pair belief of the odds ratio e^w: b_00 b_11 / (b_01 b_10) = e^w."""
    w, b = 2.0, np.array([-0.5, 0.8])
    given = random_networks.network_from_weights(np.array([[0, 1]]), np.array([w]), b)
    made = algorithms.make_inference_method(given, InferenceSettings(algorithm="belief-optimization", tolerance=1e-12))
    state = made.init()
    np.testing.assert_array_equal(state.logit, 0.0)
    while not made.done(state):
        state = made.step(state)
    found = made.result(state)
    p = np.exp([[0.0, b[1]], [b[0], b.sum() + w]])
    p /= p.sum()
    np.testing.assert_allclose([q[1] for q in found.nodes], [p[1].sum(), p[:, 1].sum()], rtol=1e-10)
    np.testing.assert_allclose(found.cliques[0][1], p, rtol=1e-9)
    assert found.attributes["scaling_updates"] == state.updates[0] > 0
    assert (belief_optimization.SHARE, found.attributes["propagation_updates"]) == (1e-4, 0)


def test_a_newton_step_is_damped_fourfold_until_the_curvature_is_positive(monkeypatch):
    """−∇²F⁻¹ slope of a matrix that is negative until the multiple of the metric reaches its size."""
    second = SimpleNamespace(
        index=np.array([-1, 0, -1, 1]), reference=np.array([0, 2]), factors=csr_matrix(np.diag([-0.02, -0.02])),
        metric=csr_matrix(np.eye(2)), weight=np.zeros(2), matrix=lambda shift: csr_matrix((shift - 0.02) * np.eye(2)),
    )  # fmt: skip
    graph = SimpleNamespace(nodes=2, cardinality=np.array([2, 2]))
    found = SimpleNamespace(node=np.full(4, 0.5))
    slope = np.array([0.01, -0.02])
    monkeypatch.setattr(newton_step, "compute_bethe_hessian", lambda *given: second)
    monkeypatch.setattr(newton_step, "_free_energy_gradient", lambda *given: slope)
    asked, real = [], newton_step.conjugate_gradients

    def solved(matrix, diagonal, right, accuracy):
        asked.append((diagonal[0], accuracy))
        return real(matrix, diagonal, right, accuracy)

    monkeypatch.setattr(newton_step, "conjugate_gradients", solved)
    none = np.zeros(0)
    for begin, shifts, accuracy, used in (
        (0.0, [0.0, 1e-3, 4e-3, 1.6e-2, 6.4e-2], 0.5, 0.01),
        (0.01, [0.01, 0.04], 1e-4, 1e-4),
        (0.1, [0.1], 1.0, 0.01),
    ):
        asked.clear()
        node, shift = newton_step.propose_newton_step(graph, found, none, none, none, begin, accuracy, 10.0)
        np.testing.assert_allclose([each for each, _ in asked], [0.02 + each for each in shifts])
        assert {each for _, each in asked} == {used}
        assert shift == pytest.approx(shifts[-1])
        step = -slope / (shift - 0.02)
        change = 2 * np.array([-step[0], step[0], -step[1], step[1]])
        expected = (0.5 * np.exp(change)).reshape(2, 2)
        np.testing.assert_allclose(node, (expected / expected.sum(axis=1, keepdims=True)).ravel(), rtol=1e-6)
    monkeypatch.setattr(newton_step, "conjugate_gradients", lambda *given: None)
    assert newton_step.propose_newton_step(graph, found, none, none, none, 1.0, 1.0, 1.0) is None
    slope[0] = np.nan
    assert newton_step.propose_newton_step(graph, found, none, none, none, 1.0, 1.0, 1.0) is None


def test_conjugate_gradients_stop_at_their_accuracy_in_the_preconditioned_norm():
    random = np.random.default_rng(0)
    root = random.standard_normal((40, 40))
    matrix, right = root @ root.T + 0.1 * np.eye(40), random.standard_normal(40)
    scale = np.diag(matrix)
    for accuracy in (0.3, 1e-2, 1e-6):
        x = newton_step.conjugate_gradients(csr_matrix(matrix), scale, right, accuracy)
        left = right - matrix @ x
        assert left @ (left / scale) <= accuracy**2 * (right @ (right / scale)) * (1 + 1e-6)
        assert left @ (left / scale) > 0.01 * accuracy**2 * (right @ (right / scale)) or accuracy < 1e-3
    assert not newton_step.conjugate_gradients(csr_matrix(matrix), scale, np.zeros(40), 0.1).any()


@pytest.mark.parametrize("seen", [False, True])
def test_a_polished_step_squares_what_is_left(seen):
    """Newton's method on the logarithms of messages: from 10⁻³ off the fixed point to about its square."""
    given = random_networks.generate_random_network("grid", rows=3, columns=3, sigma_w=1.0, seed=1)
    if seen:
        given = network.with_observed_marginals(given, {0: np.array([0.3, 0.7]), 4: np.array([0.6, 0.4])})
    made = algorithms.make_inference_method(
        given, InferenceSettings(algorithm="loopy-is" if seen else "bp", schedule="sequential", tolerance=1e-14)
    )
    state = made.init()
    while not made.done(state):
        state = made.step(state)
    ratio = np.log(state.messages[1::2] / state.messages[0::2])
    away = ratio + 1e-3 * np.random.default_rng(0).standard_normal(len(ratio))
    found = binary_edges.newton_step_messages(made.graph, binary_edges.ratios_to_messages(away), made.fixed, made.target)
    assert np.abs(away - ratio).max() > 1e-3
    assert np.abs(np.log(found[1::2] / found[0::2]) - ratio).max() < 2e-5
