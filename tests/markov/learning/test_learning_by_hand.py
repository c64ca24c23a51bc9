"""Learning, constraints and networks from a seed, step by step and limit by limit, against the same thing written out plainly."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from herdcli.errors import BadUsage, DataError
from herdcli.markov.exact import cliques, junction_tree
from herdcli.markov.learning import cvm, fit_summary, given_moments, gradient_learning, induction
from herdcli.markov.learning import learners as learning
from herdcli.markov.model import constraints, random_networks
from herdcli.markov.model.constraints import Cluster, LearningProblem, PairTables, StateRows
from herdcli.markov.model.graphs import structure_selection
from herdcli.rng import Stream, generator


def two_pairs():
    """Rows of three binary variables, and a problem of their pairs (0, 1) and (1, 2)."""
    x = np.random.default_rng(0).integers(0, 2, (40, 3))
    x[:25, 1] = x[:25, 0]
    x[10:35, 2] = x[10:35, 1]
    rows = StateRows(x, np.random.default_rng(1).dirichlet(np.ones(40)))
    return LearningProblem(np.full(3, 2), constraints.make_clusters(rows, np.full(3, 2), [(0, 1), (1, 2)], 1.0), rows=rows)


def joint_of(given, logs):
    """The joint table of log tables of the clusters."""
    p = np.zeros(given.cardinality)
    for x in np.ndindex(*given.cardinality):
        p[x] = sum(table[tuple(x[i] for i in c.scope)] for table, c in zip(logs, given.clusters, strict=True))
    p = np.exp(p)
    return p / p.sum()


def marginals_of(given, p):
    return [p.sum(axis=tuple(k for k in range(p.ndim) if k not in c.scope)) for c in given.clusters]


def test_generalised_scaling_is_a_share_of_the_log_ratio():
    given = two_pairs()
    learner = learning.make_learner(given, learning.LearningSettings(algorithm="gis", iterations=7))
    state = learner.init()
    assert (state.step, state.expectations, len(state.residual), learner.steps) == (0, 0, 0, 7)
    logs = [np.zeros((2, 2)), np.zeros((2, 2))]
    for step in range(1, 4):
        present = marginals_of(given, joint_of(given, logs))
        furthest = max(np.abs(q - c.target).max() for q, c in zip(present, given.clusters, strict=True))
        logs = [log + np.log(c.target / q) / 2 for log, c, q in zip(logs, given.clusters, present, strict=True)]  # t(x) = 2 everywhere
        state = learner.step(state)
        np.testing.assert_allclose(state.theta, np.concatenate([log.ravel() for log in logs]), atol=1e-12)
        assert state.residual[-1] == pytest.approx(furthest)
        assert (state.step, state.expectations) == (step, step)


@pytest.mark.parametrize("name", ["ups-jt", "effective-ipf", "ipf"])
def test_iterative_scaling_counts_and_looks_like_its_first_state(name):
    given = two_pairs()
    learner = learning.make_learner(given, learning.LearningSettings(algorithm=name, iterations=5))
    begun, like = learner.init(), learner.state_template()
    assert (begun.step, begun.counts.tolist(), len(begun.residual)) == (0, [0, 0], 0)
    for one, other in zip(vars(like).values(), vars(begun).values(), strict=True):
        assert np.shape(one) == np.shape(other)
    f = np.zeros((1, 2, 2))
    f[0, 1, 1] = 1
    mixed = replace(given, clusters=[given.clusters[0], Cluster((1, 2), np.array([0.3]), f)])
    for problem in (given, mixed):
        learner = learning.make_learner(problem, learning.LearningSettings(algorithm=name, iterations=5))
        state = learner.step(learner.step(learner.init()))
        assert state.counts.tolist() == [4, {"ups-jt": 4, "effective-ipf": 4, "ipf": 0}[name]]
        assert (state.step, len(state.residual)) == (2, 2)


def test_sampled_gradients_written_out_chain_by_chain():
    given = two_pairs()
    settings = {"expectations": "gibbs", "iterations": 4, "chains": 5, "sweeps": 2, "learning_rate": 0.8, "penalty": 0.1, "seed": 3}
    learner = learning.make_learner(given, learning.LearningSettings(algorithm="gradient", **settings))
    assert isinstance(learner, gradient_learning.SampledGradient)
    random = generator(3, Stream.LEARNING, unit=1, step=0)
    chains = given.rows.x[random.choice(40, 5, p=given.rows.weight)].copy()
    state = learner.init()
    np.testing.assert_array_equal(state.chains, chains)
    theta, kept = np.zeros(8), []
    target = np.concatenate([c.target.ravel() for c in given.clusters])
    for step in range(4):
        logs = [part.reshape(2, 2) for part in np.split(theta, 2)]
        random = generator(3, Stream.LEARNING, step=step)
        for _ in range(2):
            for i in range(3):
                field = np.zeros((5, 2))
                for table, c in zip(logs, given.clusters, strict=True):
                    if i in c.scope:
                        for value in (0, 1):
                            y = chains.copy()
                            y[:, i] = value
                            field[:, value] += table[y[:, c.scope[0]], y[:, c.scope[1]]]
                p = 1 / (1 + np.exp(field[:, 1] - field[:, 0]))
                chains[:, i] = p < random.random((5, 1))[:, 0]
        present = np.concatenate([np.bincount(2 * chains[:, i] + chains[:, j], minlength=4) / 5 for i, j in ((0, 1), (1, 2))])
        slope = target - present - 0.1 * theta
        theta = theta + 0.8 * (1 - step / 4) * slope
        if step >= 2:
            kept.append(theta)
        state = learner.step(state)
        np.testing.assert_allclose(state.theta, theta, atol=1e-12)
        assert state.residual[-1] == pytest.approx(np.abs(slope).max())
    np.testing.assert_allclose(state.mean, np.mean(kept, axis=0), atol=1e-12)
    found = learner.result(state)
    assert (found.converged, found.iterations, len(found.residual), found.counts) == (True, 4, 4, (0, 0))
    for factor, logs in zip(found.factors, np.split(state.mean, 2), strict=True):
        np.testing.assert_allclose(factor.ravel(), np.exp(logs - logs.max()))
    restarted = learning.make_learner(
        given, learning.LearningSettings(algorithm="gradient", **settings | {"expectations": "cd", "sweeps": 0})
    )
    later = restarted.step(restarted.step(restarted.init()))
    random = generator(3, Stream.LEARNING, unit=1, step=1)
    np.testing.assert_array_equal(later.chains, given.rows.x[random.choice(40, 5, p=given.rows.weight)])
    alone = learning.make_learner(replace(given, rows=None), learning.LearningSettings(algorithm="gradient", **settings))
    drawn = generator(3, Stream.LEARNING, unit=1, step=0).random((5, 3))
    np.testing.assert_array_equal(alone.init().chains, (drawn * 2).astype(int))


def test_linear_response_of_a_pair_by_hand():
    target = np.array([[0.4, 0.1], [0.2, 0.3]])
    learner = learning.make_learner(
        LearningProblem(np.full(2, 2), [Cluster((1, 0), target.T)]), learning.LearningSettings(algorithm="linear-response")
    )
    state = learner.step(learner.init())
    m = np.array([0.5, 0.4])
    C = np.array([[0.25, 0.1], [0.1, 0.24]])
    inverse = np.linalg.inv(C)
    own = 1 / (m * (1 - m)) - np.diag(inverse)
    w = -inverse[0, 1]
    b = np.log(m / (1 - m)) - own * m - w * m[::-1] + own / 2
    np.testing.assert_allclose([state.W[0, 1], *np.diag(state.W)], [w, 0, 0])
    np.testing.assert_allclose(state.b, b)
    found = learner.result(state)
    logs = np.array([[0, b[0]], [b[1], w + b.sum()]])  # rows x_1, columns x_0
    np.testing.assert_allclose(found.factors[0], np.exp(logs - logs.max()))
    assert (found.iterations, found.converged, state.step, learner.steps) == (1, True, 1, 1)
    for states in ([3, 2], [2, 1]):
        with pytest.raises(BadUsage, match="--algorithm linear-response needs two-state variables"):
            learning.make_learner(
                LearningProblem(np.array(states), [Cluster((0, 1), np.full(states, 1 / 6))]),
                learning.LearningSettings(algorithm="linear-response"),
            )
    with pytest.raises(BadUsage, match="needs the marginals of all pairs"):
        learning.make_learner(LearningProblem(np.full(1, 2), []), learning.LearningSettings(algorithm="linear-response"))


def test_a_pair_is_added_where_its_junction_tree_takes_just_what_there_is():
    given = two_pairs()
    start = replace(given, clusters=constraints.make_clusters(given.rows, given.cardinality, [], 1.0))
    pairs = constraints.compute_pair_tables(given.rows, given.cardinality, 1.0)
    first = induction.Induction(start, pairs, 2, learning.LearningSettings(), 1.0, 1e9)
    state = first.step(first.init())
    needed = induction.IterativeScaling(first._add_pairs(state.pairs), first._fit_settings).bytes_needed()[0]
    for limit, added in ((needed, 1), (needed - 1, 0)):
        one = replace(first, count=1, limit=limit)
        state = one.step(one.init())
        assert (len(state.pairs), state.ended, state.step) == (added, not added, 1)
    assert one.done(state)
    assert (first.progress(first.init()).figure, first.progress(first.init()).bound) == ("", 2)
    state = first.step(first.init())
    assert first.progress(state).figure == f"gain {state.gains[0]:.3g}"
    assert not first.done(state)
    assert first.done(first.step(state))


def test_pairs_of_states_that_never_occur_have_probability_nought():
    """x_0 is never 1: conditioned on it nothing can be; the other pairs are those of the joint table."""
    x = np.array([[0, 0, 0], [0, 1, 1], [0, 1, 0], [0, 0, 0]])
    rows = StateRows(x, np.full(4, 0.25))
    given = LearningProblem(np.full(3, 2), constraints.make_clusters(rows, np.full(3, 2), [(0, 1), (1, 2)], 0.0), rows=rows)
    learner = learning.make_learner(given, learning.LearningSettings())
    state = learner.step(learner.step(learner.init()))
    table = induction.all_pair_marginals(learner, state)
    joint = np.zeros((2, 2, 2))
    joint[0] = given.clusters[1].target
    expected = np.block([[np.einsum("abc->" + "abc"[i] + "abc"[j], joint) if i != j else
                          np.diag(np.einsum("abc->" + "abc"[i], joint)) for j in range(3)] for i in range(3)])  # fmt: skip
    np.testing.assert_allclose(table, expected, atol=1e-12)


def test_pairs_and_smoothing_of_weighted_rows_by_hand():
    x, w = np.array([[0, 2], [1, 0], [1, 2], [0, 2]]), np.array([0.1, 0.2, 0.3, 0.4])
    states = np.array([2, 3])
    for smoothing, share in ((0.0, 0.0), (4.0, 0.5)):
        found = constraints.compute_pair_tables(StateRows(x, w), states, smoothing)
        expected = (1 - share) * np.array([[0, 0, 0.5], [0.2, 0, 0.3]]) + share / 6
        np.testing.assert_allclose(found.pair_marginal(0, 1), expected)
        np.testing.assert_allclose(StateRows(x, w).empirical_marginal((0, 1), [2, 3], smoothing), expected)
        np.testing.assert_allclose(found.variable_marginals(), np.concatenate([expected.sum(axis=1), expected.sum(axis=0)]))
    model = np.full((4, 4), 0.25)
    for p in (np.array([[0.3, 0.1], [0.2, 0.4]]), np.array([[0.3, 0.0], [0.3, 0.4]])):
        whole = PairTables(np.full(2, 2), np.block([[np.diag(p.sum(axis=1)), p], [p.T, np.diag(p.sum(axis=0))]]))
        gain = sum(each * np.log(each / 0.25) for each in p.ravel() if each)
        np.testing.assert_allclose(induction.pair_divergences(whole, model), [[0, gain], [gain, 0]])


def test_p_log_p_of_nothing_is_nothing():
    np.testing.assert_array_equal(cvm._negative_entropy_terms(np.array([0.0, 1.0])), 0.0)
    assert cvm._negative_entropy_terms(np.array([0.25])) == pytest.approx(0.25 * np.log(0.25))


def test_constraints_that_cannot_be_are_named():
    def refused(message, *clusters, **more):
        with pytest.raises(DataError, match=message):
            constraints.validate_problem(LearningProblem(np.array([2, 3]), list(clusters), **more))

    good = Cluster((0, 1), np.full((2, 3), 1 / 6))
    f = np.arange(6.0).reshape(1, 2, 3)
    constraints.validate_problem(LearningProblem(np.array([2, 3]), [good, Cluster((0,), np.array([0.5, 0.5 + 0.9e-6]))]))
    constraints.validate_problem(
        LearningProblem(np.array([2, 3]), [Cluster((0, 1), np.array([0.0]), f), Cluster((0, 1), np.array([5.0]), f)])
    )
    refused("cluster 1 contains variable 2, but the 2 variables", good, Cluster((2,), np.full(2, 0.5)))
    refused("cluster 0 contains variable -1, but the 2 variables", Cluster((-1,), np.full(2, 0.5)))
    refused("cluster 0 contains a variable twice", Cluster((0, 0), np.full((2, 2), 0.25)))
    refused("the marginal of cluster 0 has 2 values, but its variables have 6 joint states", Cluster((0, 1), np.full(2, 0.5)))
    refused("the marginal of cluster 0 sums to 1.1, not to 1", Cluster((0,), np.array([0.5, 0.6])))
    refused("the marginal of cluster 0 has a value that is negative or not finite", Cluster((0,), np.array([1.5, -0.5])))
    refused("clusters 0 and 1 contradict each other: their marginals of x0 differ by 0.1", good, Cluster((0,), np.array([0.6, 0.4])))
    refused(
        "clusters 0 and 1 contradict each other: their marginals of b differ by",
        good,
        Cluster((1,), np.array([0.5, 0.3, 0.2])),
        names=["a", "b"],
    )
    refused("the expectation 5.1 of feature 0 is outside the range of its values 0 to 5", Cluster((0, 1), np.array([5.1]), f))
    refused("the expectation -0.1 of feature 0 is outside the range of its values 0 to 5", Cluster((0, 1), np.array([-0.1]), f))
    refused("each feature needs 6 values", Cluster((0, 1), np.array([1.0, 2.0]), f))


def test_moments_that_are_wrong_are_named():
    def refused(message, text):
        with pytest.raises(DataError, match=message):
            given_moments.read_moments(text)

    begun = '{"cardinality": [2, 3], "clusters": ['
    refused("is not JSON text", "{")
    refused("must be a JSON object with 'cardinality' and 'clusters'", '{"cardinality": [2]}')
    refused("'cardinality' must be a list with the number of states", '{"cardinality": [0], "clusters": []}')
    refused("'cardinality' must be a list with the number of states", '{"cardinality": [1.5], "clusters": []}')
    refused("'names' must be a list of 2 different names, one for each variable", '{"cardinality": [2, 3], "names": ["a"], "clusters": []}')
    refused("'clusters' must be a list of objects, each with a 'scope'", begun + "]}")
    refused("cluster 0: there is no variable 2: the network has 2", begun + '{"scope": [2], "marginal": [1]}]}')
    refused("the 'scope' of cluster 0 must be a list of different variables", begun + '{"scope": [1, 1], "marginal": [1]}]}')
    refused("the marginal of cluster 0 has 1 values, but its variables have 2 joint states", begun + '{"scope": [0], "marginal": [1]}]}')
    refused(
        "is not a distribution: values must be at least 0 and sum to 1 \\(they sum to 1.1",
        begun + '{"scope": [0], "marginal": [0.5, 0.6]}]}',
    )
    refused("the 'scope' of cluster 0 must be a list of different variables", begun + '{"scope": 1, "marginal": [1]}]}')
    refused("is not a distribution", begun + '{"scope": [0], "marginal": [1.5, -0.5]}]}')
    refused("cluster 0 has no 'features' and no 'marginal'", begun + '{"scope": [0]}]}')
    refused("must be a list of 2 numbers", begun + '{"scope": [0], "features": [1], "expectations": [1]}]}')
    refused("has 1 features, but 2 expectations", begun + '{"scope": [0], "features": [0, 1], "expectations": [1, 2]}]}')
    found = given_moments.read_moments(begun + '{"scope": ["x1", 0], "marginal": [0.25, 0.25, 0, 0, 0.25, 0.25]}]}').clusters[0]
    assert (found.scope, found.target.tolist()) == ((1, 0), [[0.25, 0.25], [0, 0], [0.25, 0.25]])


def test_likelihoods_of_rows_and_marginals_of_any_scopes():
    given = random_networks.generate_random_network("grid", rows=2, columns=2, sigma_w=1.0, seed=3)
    table = np.zeros([2] * 4)
    for x in np.ndindex(2, 2, 2, 2):
        table[x] = math.prod(float(t[tuple(x[i] for i in scope)]) for scope, t in given.factors())
    x, w = np.array([[0, 1, 1, 0], [1, 1, 0, 1], [0, 0, 0, 0]]), np.array([0.5, 0.5, 0.0])
    expected = w @ np.log(table[tuple(x.T)] / table.sum())
    assert fit_summary.mean_log_likelihood(given, StateRows(x, w), 1e9) == pytest.approx(expected)
    tree = junction_tree.build_clique_tree(given, cliques.search_elimination_orders(given, 0, 4).order)
    needed = tree.bytes_needed(given)
    assert fit_summary.mean_log_likelihood(given, StateRows(x, w), needed) == pytest.approx(expected)
    assert math.isnan(fit_summary.mean_log_likelihood(given, StateRows(x, w), needed - 1))
    scopes = [(0, 3), (2,), (3, 1)]
    found = fit_summary.calibrate_network(given, 1e9, scopes)
    for scope, p in zip(scopes, fit_summary.scope_marginals(given, found, scopes), strict=True):
        q = table.sum(axis=tuple(k for k in range(4) if k not in scope)) / table.sum()
        np.testing.assert_allclose(p, q if scope != (3, 1) else q.T)
    with pytest.raises(DataError, match="the data have 3 columns, but the network has 4 variables"):
        fit_summary.row_log_potentials(given, x[:, :3])
    with pytest.raises(DataError, match="column 2 has the state 2, but variable x2 has only the states 0 to 1"):
        fit_summary.row_log_potentials(given, np.array([[0, 0, 2, 0]]))


def test_structures_are_read_with_their_limits():
    assert structure_selection.parse_structure("chow-liu+random:0.05,6") == ("chow-liu+random", 0.05, 6)
    assert structure_selection.parse_structure("chow-liu+random:1,2") == ("chow-liu+random", 1.0, 2)
    assert structure_selection.parse_structure("chow-liu+random:0,2")[1] == 0.0
    assert structure_selection.parse_structure("grid") == ("grid", 0.0, 0)
    for wrong in ("chow-liu+random:1.1,3", "chow-liu+random:0.5,1", "chow-liu+random:e,3", "ring", "chow-liu+random:.5"):
        with pytest.raises(ValueError, match="is none of chow-liu"):
            structure_selection.parse_structure(wrong)
    for text, message in (("0 3", "line 1: there is no variable 3: the 3 variables"), ("0 0", "line 1 contains a variable twice"),
                          ("\n0 1 2", "line 2 has 3 variables, but an edge has 2"), ("a 1", "line 1: there is no variable 'a'"),
                          ("# none", "has no variables")):  # fmt: skip
        with pytest.raises(DataError, match=message):
            structure_selection.read_scopes(text, None, 3, 2)
    assert structure_selection.read_scopes("b, x2 # c\n0 1", ["a", "b", "c"], 3) == [(1, 2), (0, 1)]
    path = [(0, 1), (1, 2), (2, 3)]
    assert structure_selection.graph_distances(5, path, 2).tolist() == [
        [0, 1, 2, 3, 3], [1, 0, 1, 2, 3], [2, 1, 0, 1, 3], [3, 2, 1, 0, 3], [3, 3, 3, 3, 0]
    ]  # fmt: skip
    assert structure_selection.structure_pairs("full", 0, 0, 3, None, None, 0) == [(0, 1), (0, 2), (1, 2)]
    assert structure_selection.structure_pairs("independent", 0, 0, 3, None, None, 0) == []
    assert structure_selection.structure_pairs("grid", 0, 0, 6, None, np.array([2, 3]), 0) == [
        (0, 1),
        (1, 2),
        (3, 4),
        (4, 5),
        (0, 3),
        (1, 4),
        (2, 5),
    ]
    with pytest.raises(BadUsage, match="--structure grid needs images"):
        structure_selection.structure_pairs("grid", 0, 0, 5, None, np.array([2, 2]), 0)


# networks made from a seed


def test_networks_are_made_from_draws_in_their_order():
    random = generator(5, Stream.NETWORK)
    given = random_networks.generate_random_network("grid", rows=2, columns=3, sigma_w=2.0, sigma_b=0.5, seed=5)
    edges = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]
    W = 2.0 * random.standard_normal(7)
    into = np.array([sum(w for w, e in zip(W, edges, strict=True) if i in e) for i in range(6)])
    b = -0.5 * into + 0.5 * random.standard_normal(6)
    ours = list(given.factors())
    assert [scope for scope, _ in ours] == [*((i,) for i in range(6)), *edges]
    np.testing.assert_allclose([t[1] for _, t in ours[:6]], np.exp(b))
    np.testing.assert_allclose([t[1, 1] for _, t in ours[6:]], np.exp(W))
    assert all((t.ravel()[:-1] == 1).all() for _, t in ours)
    assert given.shape.tolist() == [2, 3]
    seen = random_networks.generate_random_network("grid", rows=3, columns=3, observe="border", sigma_alpha=2.0, seed=5)
    assert sorted(seen.stored_marginals()) == [0, 1, 2, 3, 5, 6, 7, 8]
    leaves = random_networks.generate_random_network("tree", nodes=9, observe="leaves", seed=1)
    degree = np.bincount([i for scope, _ in leaves.factors() if len(scope) == 2 for i in scope], minlength=9)
    assert sorted(leaves.stored_marginals()) == np.flatnonzero(degree == 1).tolist()
    assert degree.sum() == 16
    usual = {"rows": 5, "columns": 5, "nodes": 25, "degree": 4.0, "sigma_w": 1.0, "sigma_b": 1.0, "sigma_alpha": 1.0, "seed": 0}
    for kind, observe in (("grid", "border"), ("tree", "leaves"), ("random", None)):
        ours, theirs = (
            random_networks.generate_random_network(kind, observe=observe),
            random_networks.generate_random_network(kind, observe=observe, **usual),
        )
        assert np.array_equal(ours.table, theirs.table)
        assert np.array_equal(ours.scope, theirs.scope)
        assert observe is None or np.array_equal(ours.observed_marginal, theirs.observed_marginal)
    sparse = random_networks.generate_random_network("random", nodes=40, degree=3.0, seed=1)
    count = sum(len(scope) == 2 for scope, _ in sparse.factors())
    assert abs(count - 60) < 5 * np.sqrt(60)
    assert sum(len(scope) == 2 for scope, _ in random_networks.generate_random_network("random", nodes=4, degree=3.0).factors()) == 6
    with pytest.raises(BadUsage, match=r"--mean-degree 3\.1 is too large: with 4 nodes it is at most 3"):
        random_networks.generate_random_network("random", nodes=4, degree=3.1)
    with pytest.raises(BadUsage, match="--draw-observed border needs a grid"):
        random_networks.generate_random_network("tree", observe="border")
    one = np.array([[0, 1]])
    assert random_networks.network_from_weights(one, np.array([700.0]), np.zeros(2)).count == 2
    with pytest.raises(BadUsage, match=r"a random weight is 701, but weights above 700 overflow in a table"):
        random_networks.network_from_weights(one, np.array([0.0]), np.array([-701.0, 0.0]))


def test_the_scratch_space_of_cvm_has_room_for_the_largest_region():
    """Of n parents a region of k cells takes (n + 1) k numbers: a hub of 40 states in six pairs, more than any pair's 80 cells twice."""
    cardinality = np.array([2, 40, *6 * [2]])
    pairs = [*((1, j) for j in (0, 2, 3, 4, 5, 6)), (0, 7), (2, 7)]
    given = LearningProblem(
        cardinality, [Cluster(pair, np.full(cardinality[list(pair)], 1 / cardinality[list(pair)].prod())) for pair in pairs]
    )
    learner = learning.make_learner(given, learning.LearningSettings(algorithm="cvm"))
    assert [scope for scope, _ in learner.inner][:2] == [(0,), (1,)]
    assert len(learner.arrays[3]) >= 40 * (6 + 1)
