"""Learning of networks: every exact way reaches the distribution of proportional fitting, gradients are differences."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import learning_cases as cases
import numpy as np
import pytest

from herdcli import iterate
from herdcli.algorithm import run_algorithm
from herdcli.artifacts import load_checkpoint, save_checkpoint
from herdcli.errors import BadUsage, DataError, NegativeResult
from herdcli.markov.exact import cliques, enumeration
from herdcli.markov.learning import feature_tilting, fit_summary, given_moments, induction
from herdcli.markov.learning import gradient_learning as learning_gradient
from herdcli.markov.learning import learners as learning
from herdcli.markov.learning.learners import LearningSettings
from herdcli.markov.model import constraints, network, random_networks
from herdcli.markov.model.constraints import Cluster, LearningProblem
from herdcli.markov.model.graphs import structure_selection


@pytest.mark.parametrize("smoothing", [0.0, 1.0])
@pytest.mark.parametrize("algorithm", ["ipf", "effective-ipf", "ups-jt"])
def test_iterative_scaling_finds_the_distribution_of_proportional_fitting(algorithm, smoothing):
    given = cases.problem(smoothing=smoothing)
    state, learned = cases.fit(given, algorithm, tolerance=1e-12)
    assert learned.converged
    assert np.abs(cases.joint(given, learned.factors) - cases.fitted_by_hand(given, 300)).max() < 1e-11
    assert state.residual[0] > 1e-3


@pytest.mark.parametrize(("algorithm", "settings"), [("gis", {}), ("iis", {}), ("gradient", {})])
def test_older_ways_reach_the_same_distribution(algorithm, settings):
    given = cases.problem()
    _, learned = cases.fit(given, algorithm, tolerance=1e-8, iterations=3000, **settings)
    assert learned.converged
    assert np.abs(cases.joint(given, learned.factors) - cases.fitted_by_hand(given, 300)).max() < 1e-7


def test_propagations_a_sweep():
    """UPS-JT passes each separator twice a sweep; effective IPF passes all of them after each of |A| scalings."""
    given = cases.problem()
    learner = learning.make_learner(given, LearningSettings())
    separators, clusters = len(learner.graph.separators), len(given.clusters)
    assert separators >= 2
    for algorithm, expected in (("ups-jt", 2 * separators), ("effective-ipf", clusters * separators), ("ipf", 0)):
        state, learned = cases.fit(given, algorithm, iterations=3, tolerance=1e-300)
        assert state.step == 3
        assert learned.counts == (3 * clusters, 3 * expected)


def test_every_cluster_is_right_when_ups_jt_scales_it():
    """The marginal that is scaled is that of the whole model: a sweep equals one of proportional fitting in the same order."""
    given = cases.problem()
    learner = learning.make_learner(given, LearningSettings())
    order = [k for part in learner.sweep_program for k, other in part.tolist() if other < 0]
    assert sorted(order) == list(range(len(given.clusters)))
    again = LearningProblem(given.cardinality, [given.clusters[a] for a in order])
    state = learner.step(learner.step(learner.init()))
    factors = learner.result(state).factors
    assert np.abs(cases.joint(given, factors) - cases.fitted_by_hand(again, 2)).max() < 1e-15


def test_least_divergence_from_a_base():
    random = np.random.default_rng(5)
    base = network.build_network(cases.CARDINALITY, [((i, j), np.exp(random.standard_normal((cases.CARDINALITY[i], cases.CARDINALITY[j]))))
                                             for i, j in [(0, 2), (2, 4), (1, 3)]])  # fmt: skip
    given = cases.problem(scopes=[(0, 1), (3, 4), (4, 5)], base=base)
    expected = cases.fitted_by_hand(given, 300)
    assert np.abs(expected - cases.fitted_by_hand(cases.problem(scopes=[(0, 1), (3, 4), (4, 5)]), 300)).max() > 1e-3
    for algorithm in ("ups-jt", "effective-ipf", "ipf", "gradient"):
        _, learned = cases.fit(given, algorithm, tolerance=1e-10)
        assert np.abs(cases.joint(given, learned.factors) - expected).max() < 1e-9
    small = network.build_network(cases.CARDINALITY, list(base.factors())[::2])  # pairs (0, 2) and (1, 3): the cliques are a tree
    tree = cases.problem(scopes=[(0, 1), (3, 4)], base=small)
    for settings in ({"double_loop": True}, {"double_loop": False}):
        _, learned = cases.fit(tree, "loopy-is", tolerance=1e-10, **settings)
        assert np.abs(cases.joint(tree, learned.factors) - cases.fitted_by_hand(tree, 300)).max() < 1e-9


def boltzmann_features(given: LearningProblem) -> LearningProblem:
    """Two-state pairs as the features x_i, x_j and x_i x_j."""
    made = []
    for cluster in given.clusters:
        f = np.zeros((3, 2, 2))
        f[0, 1], f[1, :, 1], f[2, 1, 1] = 1, 1, 1
        made.append(Cluster(cluster.scope, f.reshape(3, -1) @ cluster.target.ravel(), f))
    return LearningProblem(given.cardinality, made, rows=given.rows)


@pytest.mark.parametrize("algorithm", ["ups-jt", "effective-ipf", "ipf", "gradient"])
def test_features_that_say_as_much_as_marginals_give_the_same_model(algorithm):
    given = cases.problem(cardinality=np.full(6, 2), scopes=[(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5)])
    _, learned = cases.fit(boltzmann_features(given), algorithm)
    assert learned.converged
    assert np.abs(cases.joint(given, learned.factors) - cases.fitted_by_hand(given, 300)).max() < 1e-8


@pytest.mark.parametrize("algorithm", ["gis", "iis"])
def test_a_feature_at_its_least_value_forbids_the_states_that_have_more(algorithm):
    """x_0 x_1 is never 1 and P(x_0 = 1) = 0.3: the largest entropy has 0.35, 0.35, 0.3, 0."""
    f = np.array([[[2.0, 2.0], [2.0, 3.0]], [[0.0, 0.0], [1.0, 1.0]]])
    given = LearningProblem(np.array([2, 2]), [Cluster((0, 1), np.array([2.0, 0.3]), f)])
    _, learned = cases.fit(given, algorithm, tolerance=1e-9)
    assert learned.converged
    np.testing.assert_allclose(cases.joint(given, learned.factors), [[0.35, 0.35], [0.3, 0.0]], atol=1e-8)


@pytest.mark.parametrize("algorithm", ["gis", "iis"])
def test_a_feature_that_never_varies_says_nothing(algorithm):
    given = LearningProblem(np.array([2, 2]), [Cluster((0, 1), np.array([3.0]), np.full((1, 2, 2), 3.0))])
    _, learned = cases.fit(given, algorithm)
    assert learned.converged
    np.testing.assert_array_equal(cases.joint(given, learned.factors), np.full((2, 2), 0.25))


def test_improved_scaling_needs_fewer_iterations_than_generalised():
    given = boltzmann_features(cases.problem(cardinality=np.full(5, 2), scopes=[(0, 1), (1, 2), (2, 3), (3, 4)]))
    steps = {name: cases.fit(given, name, tolerance=2e-2)[1].iterations for name in ("gis", "iis")}
    assert 1 < steps["iis"] < 0.9 * steps["gis"]


@pytest.mark.parametrize("kind", [learning_gradient.ExactGradient, learning_gradient.PseudoLikelihood])
@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_gradients_are_differences(kind, penalty):
    random = np.random.default_rng(1)
    given = cases.problem(scopes=[(0, 1), (1, 2), (2, 3), (3, 0)])
    f = random.standard_normal((2, 2, 3))
    given.clusters.append(Cluster((4, 5), f.reshape(2, -1) @ given.rows.empirical_marginal((4, 5), (2, 3)).ravel(), f))
    learner = kind(given, LearningSettings(algorithm="gradient", penalty=penalty))
    theta = 0.5 * random.standard_normal(len(learner.parameters.target))
    _, gradient = learner.objective(theta)
    for i in range(len(theta)):
        step = np.zeros(len(theta))
        step[i] = 1e-5
        difference = (learner.objective(theta + step)[0] - learner.objective(theta - step)[0]) / 2e-5
        assert abs(gradient[i] - difference) < 1e-8


def test_pseudo_likelihood_is_the_sum_of_conditionals():
    given = cases.problem()
    learner = learning.make_learner(given, LearningSettings(algorithm="pseudo-likelihood"))
    theta = np.random.default_rng(2).standard_normal(len(learner.parameters.target))
    p = cases.joint(given, learner.parameters.factors(theta))
    value = 0.0
    for x in given.rows.x:
        for i in range(len(x)):
            line = p[tuple(slice(None) if k == i else x[k] for k in range(len(x)))]
            value -= math.log(line[x[i]] / line.sum()) / len(given.rows.x)
    assert abs(learner.objective(theta)[0] - value) < 1e-12


def test_pseudo_likelihood_is_consistent_and_chains_come_near():
    truth = random_networks.generate_random_network("grid", rows=2, columns=3, sigma_w=1.0, sigma_b=0.5, seed=4)
    p = enumeration.initial_joint(truth).joint
    rows = constraints.StateRows(np.array(list(np.ndindex(*p.shape))), p.ravel())  # every state, with its probability
    edges = [tuple(edge) for edge in random_networks.grid_edges(2, 3).tolist()]
    given = LearningProblem(np.full(6, 2), constraints.make_clusters(rows, np.full(6, 2), edges, 0.0), rows=rows)
    for name, most in {"pseudo-likelihood": 1e-12, "gibbs": 0.005, "cd": 0.005}.items():
        settings = {} if name == "pseudo-likelihood" else {"expectations": name, "iterations": 200, "chains": 300, "learning_rate": 1.0}
        _, learned = cases.fit(given, "gradient" if settings else name, **settings)
        q = cases.joint(given, learned.factors)
        assert -1e-15 < float((p * np.log(p / q)).sum()) < most, name


def test_linear_response_is_right_to_second_order_in_the_weights():
    pairs = np.array(list(itertools.combinations(range(6), 2)))
    random = np.random.default_rng(0)
    W, b = random.standard_normal(len(pairs)), 0.5 * random.standard_normal(6)
    errors = []
    for scale in (0.02, 0.04, 0.08, 0.16):
        p = random_networks.network_from_weights(pairs, scale * W, b)
        table = enumeration.initial_joint(p).joint
        clusters = [Cluster(pair, enumeration.marginal_of_joint(p, table, pair)) for pair in map(tuple, pairs.tolist())]
        given = LearningProblem(np.full(6, 2), clusters)
        _, learned = cases.fit(given, "linear-response")
        q = cases.joint(given, learned.factors)
        errors.append(math.sqrt(float((table * np.log(table / q)).sum())))
    slope = np.polyfit(np.log([0.02, 0.04, 0.08, 0.16]), np.log(errors), 1)[0]
    assert slope > 1.8
    assert errors[1] < 2e-3


def test_linear_response_refuses_what_has_no_inverse():
    x = np.zeros((10, 3), dtype=np.int64)
    x[5:, 1:] = 1
    rows = constraints.StateRows(x, np.full(10, 0.1))
    given = LearningProblem(np.full(3, 2), constraints.make_clusters(rows, np.full(3, 2), [(0, 1), (0, 2), (1, 2)], 0.0), rows=rows)
    with pytest.raises(DataError, match="variable x0 is constant, so the covariance matrix has no inverse"):
        cases.fit(given, "linear-response")
    with pytest.raises(BadUsage, match="needs the marginals of all pairs"):
        cases.fit(cases.problem(cardinality=np.full(6, 2), scopes=[(0, 1)]), "linear-response")


def test_the_likeliest_tree_and_its_closed_form():
    """P = Π p_ij / Π p_i^(d_i − 1), and no spanning tree has more information."""
    cardinality = cases.CARDINALITY[:5]
    rows = cases.sample(150, 4, cardinality)
    pairs = constraints.compute_pair_tables(rows, cardinality)
    information = pairs.mutual_informations()
    p01 = rows.empirical_marginal((0, 1), (2, 3))
    by_hand = float((p01 * np.log(p01 / np.outer(p01.sum(axis=1), p01.sum(axis=0)))).sum())
    assert abs(information[0, 1] - by_hand) < 1e-14
    tree = structure_selection.chow_liu_edges(information)
    best = max(
        sum(information[i, j] for i, j in edges)
        for edges in itertools.combinations(itertools.combinations(range(5), 2), 4)
        if len(cliques.build_junction_graph(edges).separators) == 3 and {i for e in edges for i in e} == set(range(5))
    )
    assert abs(sum(information[i, j] for i, j in tree) - best) < 1e-12
    given = LearningProblem(cardinality, constraints.make_clusters(rows, cardinality, tree, 0.0), rows=rows)
    _, learned = cases.fit(given)
    assert learned.iterations <= 2
    expected = np.ones(cardinality)
    for i, j in tree:
        p = rows.empirical_marginal((i, j), (cardinality[i], cardinality[j]))
        expected = expected * p.reshape([cardinality[k] if k in (i, j) else 1 for k in range(5)])
    for i in range(5):
        p = rows.empirical_marginal((i,), (cardinality[i],)) ** (1 - sum(i in edge for edge in tree))
        expected = expected * p.reshape([-1 if k == i else 1 for k in range(5)])
    assert np.abs(cases.joint(given, learned.factors) - expected).max() < 1e-14
    likelihood = fit_summary.mean_log_likelihood(given.network(learned.factors), rows, 1e9)
    entropies = [float(-(q[q > 0] * np.log(q[q > 0])).sum()) for q in (rows.empirical_marginal((i,), (cardinality[i],)) for i in range(5))]
    assert abs(likelihood - (best - sum(entropies))) < 1e-12


def test_random_pairs_are_near_on_the_tree():
    path = [(i, i + 1) for i in range(29)]
    found = structure_selection.add_random_near_pairs(30, path, 0.3, 4, seed=1)
    others = set(found) - set(path)
    assert set(path) <= set(found)
    assert {j - i for i, j in others} == {2, 3, 4}
    assert 10 < len(others) < 40  # of 81
    assert structure_selection.add_random_near_pairs(30, path, 1.0, 4, seed=1) == sorted(
        (i, j) for i in range(30) for j in range(i + 1, min(30, i + 5))
    )


def test_induction_adds_the_largest_gain_first_and_gains_what_it_says():
    cardinality = np.full(6, 2)
    rows = cases.sample(200, 8, cardinality)
    pairs = constraints.compute_pair_tables(rows, cardinality, 1.0)
    start = LearningProblem(cardinality, constraints.make_clusters(rows, cardinality, [], 1.0), rows=rows)
    grown, added = run_algorithm(induction.Induction(start, pairs, 6, LearningSettings(), 1.0, 1e9))
    information = pairs.mutual_informations()
    assert abs(added[0][2] - information.max()) < 1e-9
    assert information[added[0][:2]] == information.max()
    assert len({pair[:2] for pair in added}) == 6
    before = cases.joint(start, cases.fit(start)[1].factors)
    after = cases.joint(grown, cases.fit(grown)[1].factors)
    gained = float((after * np.log(after / before)).sum())
    assert gained >= sum(gain for *_, gain in added) - 1e-9  # each gain is of one scaling, fitting anew adds to it
    learner = learning.make_learner(grown, LearningSettings(tolerance=1e-12))
    state = iterate.run_steps(learner.step, learner.init(), steps=100, until=learner.done)
    table = induction.all_pair_marginals(learner, state)
    for i, j in [(0, 5), (1, 3)]:
        expected = after.sum(axis=tuple(k for k in range(6) if k not in (i, j)))
        assert np.abs(table[2 * i : 2 * i + 2, 2 * j : 2 * j + 2] - expected).max() < 1e-9


def test_tilting_gives_the_expectations():
    random = np.random.default_rng(0)
    p, q = random.dirichlet(np.ones(8)), random.dirichlet(np.ones(8))
    p[2] = q[2] = 0
    p, q = p / p.sum(), q / q.sum()
    f = random.standard_normal((3, 8))
    ratio = feature_tilting.fit_feature_tilt(p, f, f @ q)
    assert np.abs(f @ (p * ratio) - f @ q).max() < 1e-11
    logs = np.log(ratio[p > 0])
    A = np.column_stack([f[:, p > 0].T, np.ones(7)])
    assert np.abs(A @ np.linalg.lstsq(A, logs, rcond=None)[0] - logs).max() < 1e-10
    assert feature_tilting.fit_feature_tilt(p, f, f.max(axis=1) + 1) is None


def test_marginals_that_contradict_zeros_are_refused():
    zero = np.array([[0.5, 0.0], [0.0, 0.5]])
    given = LearningProblem(
        np.full(2, 2), [Cluster((0, 1), zero)], base=random_networks.network_from_weights(np.array([[0, 1]]), np.zeros(1), np.zeros(2))
    )
    assert cases.fit(given)[1].converged
    base = network.build_network([2, 2], [((0, 1), np.array([[0.0, 1.0], [1.0, 0.0]]))])
    with pytest.raises(NegativeResult, match=r"cluster 0 \(x0, x1\) gives probability to states that other clusters, or the base, forbid"):
        cases.fit(LearningProblem(np.full(2, 2), [Cluster((0, 1), zero)], base=base))


@pytest.mark.parametrize("algorithm", ["ups-jt", "effective-ipf", "ipf", "loopy-is", "cvm"])
def test_the_cluster_whose_states_the_base_forbids_is_named(algorithm):
    two, scopes = np.full(4, 2), [(0, 1), (1, 2), (2, 3), (0, 3)]
    for a, (i, j) in enumerate(scopes):
        base = network.build_network(two, [((i, j), np.array([[1.0, 1.0], [1.0, 0.0]]))])
        with pytest.raises(
            NegativeResult, match=rf"no distribution has these marginals: cluster {a} \(x{i}, x{j}\) gives probability to states"
        ):
            cases.fit(cases.problem(cardinality=two, scopes=scopes, base=base), algorithm)
        if algorithm == "cvm":
            with pytest.raises(NegativeResult, match=rf"cluster 0 \(x{i}, x{j}\) gives probability to states"):
                cases.fit(cases.problem(cardinality=two, scopes=[(i, j)], base=base), algorithm)


def test_moments_text():
    text = """{"cardinality": [2, 2, 3], "names": ["a", "b", "c"],
      "clusters": [{"scope": ["a", "b"], "marginal": [0.4, 0.1, 0.1, 0.4]},
                   {"scope": [1, 2], "features": [0, 0, 0, 0, 0, 1], "expectations": 0.3}]}"""
    given = constraints.validate_problem(given_moments.read_moments(text))
    _, learned = cases.fit(given, tolerance=1e-13)
    p = cases.joint(given, learned.factors)
    assert abs(p[:, 1, 2].sum() - 0.3) < 1e-12
    assert np.abs(p.sum(axis=2) - [[0.4, 0.1], [0.1, 0.4]]).max() < 1e-9
    assert np.abs(p[:, 0] / p[:, 0].sum(axis=1, keepdims=True) - 1 / 3).max() < 1e-12  # nothing is said there: largest entropy


@pytest.mark.parametrize(("algorithm", "settings"), [
    ("ups-jt", {}), ("effective-ipf", {}), ("ipf", {}), ("gis", {}), ("iis", {}), ("gradient", {}), ("loopy-is", {}),
    ("loopy-is", {"double_loop": True}), ("cvm", {}), ("pseudo-likelihood", {}),
    ("gradient", {"expectations": "cd", "chains": 7}), ("gradient", {"expectations": "gibbs", "chains": 7}),
])  # fmt: skip
def test_resumed_runs_end_at_the_same_bits(algorithm, settings, tmp_path):
    given = cases.problem(scopes=[(0, 1), (1, 2), (2, 3), (3, 0)], rows=40)
    chosen = LearningSettings(algorithm=algorithm, tolerance=1e-300, iterations=6, **settings)
    whole, begun, resumed = (learning.make_learner(given, chosen) for _ in range(3))
    straight = iterate.run_steps(whole.step, whole.init(), steps=6)
    half = iterate.run_steps(begun.step, begun.init(), steps=2)
    path = str(tmp_path / "c")
    save_checkpoint(path, half, "digest")
    ended = iterate.run_steps(resumed.step, load_checkpoint(path, type(half), "digest"), steps=6)
    assert all(np.array_equal(p, q) for p, q in zip(whole.result(straight).factors, resumed.result(ended).factors, strict=True))


def test_marginals_of_pairs_are_counted_once_or_each_the_same():
    given = cases.sample(70, 2)
    known = constraints.compute_pair_tables(given, cases.CARDINALITY, 0.5)
    scopes = [(0, 1), (3, 2), (4, 5)]
    counted, read = (constraints.make_clusters(given, cases.CARDINALITY, scopes, 0.5, *more) for more in ((), (known,)))
    assert [c.scope for c in counted] == [c.scope for c in read] == scopes
    assert all(np.abs(a.target - b.target).max() < 1e-15 for a, b in zip(counted, read, strict=True))
    assert np.abs(known.variable_marginals()[:2] - given.empirical_marginal((0,), (2,), 0.5)).max() < 1e-15


def test_parameters_learned_from_chains_are_the_mean_of_the_second_half():
    """Of 7 updates the last 4: what the chains' burn-in gave is left out."""
    settings = LearningSettings(algorithm="gradient", expectations="pcd", iterations=7, chains=20, sweeps=1, learning_rate=0.5)
    learner = learning_gradient.SampledGradient(cases.problem(), settings)
    state, thetas = learner.init(), []
    for _ in range(7):
        state = learner.step(state)
        thetas.append(state.theta.copy())
    np.testing.assert_allclose(state.mean, np.mean(thetas[3:], axis=0), rtol=1e-12)
    assert np.abs(state.mean - np.mean(thetas, axis=0)).max() > 1e-3


def test_a_fit_knows_its_rows_and_its_last_residual():
    given = cases.problem(rows=57)
    _, learned = cases.fit(given)
    found = fit_summary.make_fit_record(given, learned, "ups-jt")
    assert (found.rows, found.iterations, found.residual) == (57, learned.iterations, learned.residual[-1])
    assert fit_summary.make_fit_record(replace(given, rows=None), learned, "ups-jt").rows == 0
    unstepped = fit_summary.make_fit_record(given, replace(learned, residual=np.zeros(0)), "ups-jt")
    assert unstepped.residual == 0.0


def test_factors_of_linear_response_have_their_couplings_and_1_for_their_largest_entry():
    given = cases.problem(cardinality=np.full(4, 2), scopes=[(i, j) for j in range(4) for i in range(j)])
    learner = learning.make_learner(given, learning.LearningSettings(algorithm="linear-response"))
    state = learner.step(learner.init())
    for cluster, table in zip(given.clusters, learner.result(state).factors, strict=True):
        assert table.max() == 1.0
        assert np.log(table[0, 0] * table[1, 1] / (table[0, 1] * table[1, 0])) == pytest.approx(state.W[cluster.scope])
