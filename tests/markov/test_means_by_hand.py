"""Gibbs sampling and mean fields written out unit by unit, and their limits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import expit, logit

from herdcli import iterate
from herdcli.errors import BadUsage
from herdcli.markov import algorithms
from herdcli.markov.mean import mean_field, structured_mean_field
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import boltzmann as machines
from herdcli.markov.model import pairwise, random_networks
from herdcli.markov.model.chain_convergence import split_rhat
from herdcli.rng import Stream, generator

GRID = {"rows": 3, "columns": 3, "sigma_w": 1.5, "seed": 2}


def method(algorithm, given=None, **settings):
    given = random_networks.generate_random_network("grid", **GRID) if given is None else given
    return algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm, **settings))


def walked(made, steps):
    return iterate.run_steps(made.step, made.init(), steps=steps)


def boltzmann(given):
    """W, b and the constant, which test_meanfield.py holds to the factors."""
    found = machines.to_boltzmann_machine(given, "tap")
    return found.W.toarray(), found.b, found.constant


def colouring(W):
    """Greedy colours in the order of the units."""
    colour = []
    for i in range(len(W)):
        taken = {colour[j] for j in range(i) if W[i, j]}
        colour.append(next(c for c in range(len(W)) if c not in taken))
    return [[i for i in range(len(W)) if colour[i] == c] for c in range(max(colour) + 1)]


def test_gibbs_sampling_written_out_unit_by_unit():
    given = random_networks.generate_random_network("grid", **GRID)
    settings = {"sweeps": 5, "burn_in": 4, "chains": 3, "annealing": 2, "seed": 6}
    made = method("gibbs", given, **settings)
    W, b, _ = boltzmann(given)
    x = (generator(6, Stream.CHAINS, unit=1).random((9, 3)) < 0.5).astype(float)
    state = made.init()
    np.testing.assert_array_equal(state.x, x)
    assert (made.steps, state.step) == (4 + 6, 0)
    heights: list[list[np.ndarray]] = [[], []]
    probability, on, both = np.zeros((2, 9, 3)), np.zeros((2, 9, 3)), np.zeros(12)
    pairs = sorted((min(s), max(s)) for s, _ in given.factors() if len(s) == 2)
    for step in range(10):
        random = generator(6, Stream.CHAINS, step=step)
        cold = min(1.0, (step + 1) / 3)
        for part in colouring(W):
            p = expit(cold * (W[part] @ x + b[part, None]))
            x[part] = random.random(p.shape) < p
            if step >= 4:
                probability[int(step >= 7), part] += p
        if step >= 4:
            on[int(step >= 7)] += x
            heights[int(step >= 7)].append((x * (W @ x)).sum(axis=0) / 2 + b @ x)
            both += [(x[i] * x[j]).sum() for i, j in pairs]
        state = made.step(state)
    np.testing.assert_allclose(state.probability, probability)
    np.testing.assert_array_equal(state.on, on)
    found = made.result(state)
    halves = np.concatenate(list(probability), axis=1) / 3
    np.testing.assert_allclose([p[1] for p in found.nodes], halves.mean(axis=1))
    single = on.sum(axis=(0, 2)) / 18
    for (scope, table), count in zip(found.cliques, both, strict=True):
        p, (i, j) = count / 18, scope
        np.testing.assert_allclose(table, [[1 - single[i] - single[j] + p, single[j] - p], [single[i] - p, p]])
    m = np.concatenate(list(on), axis=1) / 3
    within, between = (m * (1 - m)).mean(axis=1) * 3 / 2, m.var(axis=1, ddof=1)
    moved = within > 0
    worst = np.sqrt(2 / 3 + between[moved] / within[moved]).max()
    assert not between[~moved].any()
    assert state.height.rhat(3) == pytest.approx(of_heights(heights))
    worst = max(worst, of_heights(heights))
    chains = probability.mean(axis=0) / 3
    error = np.maximum(halves.std(axis=1, ddof=1) / np.sqrt(6), chains.std(axis=1, ddof=1) / np.sqrt(3))
    error = np.minimum(0.5, np.hypot(error, 0.5 / max(1, 6 / (worst**2 - 1))))
    np.testing.assert_allclose([e[0] for e in found.attributes["standard_error"]], error)
    assert found.attributes["residual"] == pytest.approx(worst - 1)
    assert found.attributes["converged"] == (worst < 1.05)
    with pytest.raises(BadUsage, match="--annealing 5 is more than the 4 sweeps of --burn-in"):
        method("gibbs", given, burn_in=4, annealing=5)
    assert method("gibbs", given, burn_in=4, annealing=4).steps == 4 + 10_000


def of_heights(halves):
    """R̂ of numbers (2, sweeps, chains) that are listed."""
    runs = np.concatenate([np.array(half) for half in halves], axis=1)
    n = len(runs)
    return np.sqrt((n - 1) / n + runs.mean(axis=0).var(ddof=1) / runs.var(axis=0, ddof=1).mean())


@pytest.mark.parametrize(("half", "last"), [(4, [2, 3, 1, 2]), (2, [1, 2, 1, 1])])
def test_scale_reduction_of_units_that_never_moved(half, last):
    """Two chains in two halves: one unit always on, one on in the half of the runs, one mixed."""
    on = np.array([[half] * 4, [half, 0, half, 0], last]) / half
    m = np.array(last) / half
    mixed = np.sqrt((half - 1) / half + m.var(ddof=1) / ((m * (1 - m)).mean() * half / (half - 1)))
    assert split_rhat(on, half).tolist() == [1.0, np.inf, pytest.approx(mixed)]


def test_mean_field_and_tap_written_out_unit_by_unit():
    given = random_networks.generate_random_network("grid", **GRID)
    W, b, constant = boltzmann(given)
    for name in ("mean-field", "tap"):
        made = method(name, given, damping=0.25)
        state = made.init()
        m = np.full(9, 0.5)
        np.testing.assert_allclose(state.mean, m)
        for _ in range(2):
            furthest = 0.0
            for part in colouring(W):
                new = {}
                for i in part:
                    field, reaction = W[i] @ m + b[i], (W[i] ** 2 @ (m * (1 - m))) if name == "tap" else 0.0
                    low, high = 0.0, 1.0
                    for _ in range(60):  # bisection
                        at = 0.5 * (low + high)
                        low, high = (at, high) if logit(at) < field + 0.5 * (1 - 2 * at) * reaction else (low, at)
                    new[i] = 0.5 * (low + high)
                for i in part:
                    furthest = max(furthest, abs(new[i] - m[i]))
                    m[i] = 0.75 * new[i] + 0.25 * m[i]
            state = made.step(state)
            np.testing.assert_allclose(state.mean, m, atol=1e-12)
            assert state.residual[-1] == pytest.approx(furthest)
            v = m * (1 - m)
            energy = -0.5 * m @ W @ m - b @ m - constant + (m * np.log(m) + (1 - m) * np.log(1 - m)).sum()
            energy -= 0.25 * v @ W**2 @ v if name == "tap" else 0.0
            assert state.free_energy[-1] == pytest.approx(energy)
        found = made.result(state)
        for (i, j), table in found.cliques:
            np.testing.assert_allclose(table, np.outer([1 - m[i], m[i]], [1 - m[j], m[j]]))


def test_roots_far_from_one_half_are_found():
    field, reaction = np.array([0.0, 20.0, -30.0, 3.0, -700.0]), np.array([0.0, 5.0, 5.0, 1e6, 0.0])
    m = mean_field._solve_mean(field, reaction, np.full(5, 0.5))
    t = logit(m[:4])
    np.testing.assert_allclose(t - field[:4] - 0.5 * (1 - 2 * m[:4]) * reaction[:4], 0.0, atol=1e-6)
    assert m[4] == pytest.approx(0.0, abs=1e-300)
    assert mean_field._solve_mean(np.zeros(1), np.zeros(1), np.zeros(1)).tolist() == [0.5]


def test_strong_edges_are_kept_and_no_edge_is_cut_inside_a_tree():
    """A triangle 0-1-2 with a tail 3: the strongest of the triangle joins two; a third would have two edges to them."""
    weights = {(0, 1): 1.0, (1, 2): -3.0, (0, 2): 2.0, (2, 3): 0.5}
    given = random_networks.network_from_weights(np.array(list(weights)), np.array(list(weights.values())), np.zeros(4))
    graph = pairwise.reduce_to_pairwise(given)
    tree, kept = structured_mean_field.partition_into_trees(graph)
    edges = [tuple(sorted((int(graph.tail[2 * e]), int(graph.head[2 * e])))) for e in range(graph.edges)]
    assert {edge for edge, keep in zip(edges, kept, strict=True) if keep} == {(1, 2), (2, 3)}
    assert tree[1] == tree[2] == tree[3] != tree[0]
    made = method("structured-mean-field", given)
    assert made.note == "kept: 2 of 4 edges, the strongest that leave trees; 2 trees, the largest of 3 variables"
    state = walked(made, 1)
    assert (state.step, len(state.residual), state.updates > 0) == (1, 1, True)
    found = made.result(state)
    assert found.attributes["propagation_updates"] == state.updates
    pairs = {tuple(sorted(scope)): p for scope, p in found.cliques}
    np.testing.assert_allclose(pairs[0, 1], np.outer(found.nodes[0], found.nodes[1]))
    W, b, _ = boltzmann(given)
    assert tree.tolist() == [0, 1, 1, 1]
    first = expit(b[0] + W[0] @ np.full(4, 0.5))  # then the tree of the others, by all of its states
    states = np.array(list(itertools.product((0, 1), repeat=3)))
    whole = np.column_stack([np.full(8, first), states])
    p = np.exp(0.5 * np.einsum("xi,ij,xj->x", whole, W, whole) + whole @ b)
    np.testing.assert_allclose([q[1] for q in found.nodes], [first, *(p @ states / p.sum())], rtol=1e-9)
