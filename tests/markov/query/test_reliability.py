"""Bounds, second answers and what they say of approximate results, beside enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import HerdError, NegativeResult
from herdcli.markov import algorithms
from herdcli.markov.mean.mean_field_bound import compute_mean_field_bound
from herdcli.markov.method import InferenceResult, InferenceSettings
from herdcli.markov.model import network, random_networks
from herdcli.markov.query import reliability
from herdcli.markov.query.chains import single_site_gibbs

APPROXIMATE = ("bp", "ups", "double-loop", "gbp", "mean-field", "tree-reweighted", "tree-ep", "tap", "belief-optimization")


def random_network(seed):
    """Up to seven variables of one to four states, factors of up to four variables with a few zeros, and one cell that is not."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(3, 8))
    states = rng.choice([1, 2, 2, 3, 4], count)
    scale, zeros = float(rng.choice([0.5, 1, 2, 4])), float(rng.choice([0, 0, 0.1]))
    factors = []
    for _ in range(int(rng.integers(count, 2 * count + 1))):
        scope = rng.permutation(count)[: min(count, int(rng.choice([1, 2, 2, 3, 4])))]
        table = np.exp(scale * rng.normal(size=states[scope])) * (rng.random(states[scope]) >= zeros)
        table.flat[0] = 1.0
        factors.append((tuple(scope.tolist()), table))
    return network.build_network(states, factors)


def summed(given):
    """log Z and marginals, over all states one by one."""
    states = np.indices(given.cardinality).reshape(given.count, -1)
    p = np.ones(states.shape[1])
    for scope, table in given.factors():
        p = p * table[tuple(states[i] for i in scope)]
    nodes = [np.bincount(states[i], p, int(given.cardinality[i])) / p.sum() for i in range(given.count)]
    return float(np.log(p.sum())), nodes


@pytest.mark.parametrize("exactly", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_bounds_hold_and_a_second_answer_is_near(seed, exactly):
    given = random_network(seed)
    log_z, nodes = summed(given)
    lower = compute_mean_field_bound(given)
    known = reliability.compute_reference(given, 1000, lower, allow_exact=exactly)
    assert known.upper >= log_z - 1e-9 * abs(log_z)
    assert lower is None or lower <= log_z + 1e-9
    assert reliability.trivial_log_z_bound(given) >= log_z
    if exactly:
        assert known.by == "exact inference"
        assert known.upper == pytest.approx(log_z, rel=1e-12, abs=1e-12)
        for p, q in zip(known.marginals, nodes, strict=True):
            np.testing.assert_allclose(p, q, atol=1e-12)
    elif known.marginals is not None:
        assert known.by == "short chains"
        apart = [np.abs(p - q) - 4 * e for p, q, e in zip(known.marginals, nodes, known.standard_error, strict=True)]
        assert max(part.max() for part in apart) < 0.02


@pytest.mark.parametrize("algorithm", APPROXIMATE)
def test_no_answer_that_is_off_by_a_tenth_passes(algorithm):
    """By exact inference, and without it by bounds and short chains."""
    for seed in range(15):
        given = random_network(100 + seed)
        log_z, nodes = summed(given)
        try:
            found = run_algorithm(algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm, iterations=300)))
        except HerdError:
            continue
        error = max(float(np.abs(p - q).max()) for p, q in zip(found.nodes, nodes, strict=True))
        exact, cheap = (
            reliability.assess_answer(
                found, algorithm, reliability.compute_reference(given, 300, compute_mean_field_bound(given), allow_exact=e)
            )
            for e in (True, False)
        )
        assert exact.marginal_error == pytest.approx(error, abs=1e-9)
        if error > 0.1:
            assert any("a marginal is wrong by about" in warning for warning in exact.warnings)
        if error < 0.01 and abs(found.attributes["log_z"] - log_z) < 0.05 and not found.warning:
            assert not exact.warnings
            assert not cheap.warnings


def test_a_junction_tree_is_the_reference_of_networks_that_are_no_joint_table():
    given = random_networks.generate_random_network("grid", rows=6, columns=6, sigma_w=1.0, seed=1)
    known = reliability.compute_reference(given, 100)
    exact = run_algorithm(algorithms.make_inference_method(given, InferenceSettings()))
    assert (known.by, known.standard_error) == ("exact inference", None)
    assert known.upper == pytest.approx(exact.attributes["log_z"], rel=1e-12)
    np.testing.assert_allclose(np.concatenate(known.marginals), np.concatenate(exact.nodes), atol=1e-12)
    small = reliability.compute_reference(given, 100, limit=1000)
    assert small.by != "exact inference"
    assert small.exact_cells is None
    assert small.upper >= known.upper


def test_large_networks_have_the_bound_that_costs_nothing():
    given = random_networks.generate_random_network("grid", rows=80, columns=80, sigma_w=1.0, seed=1)
    known = reliability.compute_reference(given, 10)
    assert (known.marginals, known.by, known.exact_cells) == (None, "", None)
    assert known.upper == reliability.trivial_log_z_bound(given)


def test_log_z_above_its_bound_and_warnings_of_the_run_are_told():
    known = reliability.ReferenceAnswer(lower=0.0, upper=1.0)
    answer = InferenceResult([np.array([0.5, 0.5])], [], {"log_z": 1.05}, "outside its range")
    assert reliability.assess_answer(answer, "tap", known).warnings == ["outside its range"]
    answer = InferenceResult([np.array([0.5, 0.5])], [], {"log_z": 1.2})
    told = reliability.assess_answer(answer, "bp", known)
    assert told.warnings == ["log Z 1.2 is wrong: it is above its upper bound 1; use --algorithm auto, which compares several algorithms"]
    assert told.attributes()["estimated_error"] is None
    assert reliability.assess_answer(answer, "tree-reweighted", known).warnings == []
    assert not reliability.exceeds_upper_bound(math.nan, 1.0)


def test_what_short_chains_explain_by_chance_is_no_error():
    known = reliability.ReferenceAnswer(marginals=[np.array([0.6, 0.4])], by="short chains", standard_error=[np.array([0.03, 0.03])])
    near, far = (reliability.assess_answer(InferenceResult([np.array([p, 1 - p])], []), "bp", known) for p in (0.5, 0.2))
    assert near.marginal_error == pytest.approx(0.01)
    assert far.marginal_error == pytest.approx(0.31)
    assert far.warnings == ["a marginal is wrong by about 0.31 (by short chains); use --algorithm auto, which compares several algorithms"]


def test_networks_without_any_possible_state_are_refused():
    """Three bits, every two of them unlike: no zero of one factor shows it."""
    unlike = 1.0 - np.eye(2)
    given = network.build_network([2] * 3, [((0, 1), unlike), ((1, 2), unlike), ((0, 2), unlike)])
    with pytest.raises(NegativeResult, match="every joint state has probability 0"):
        reliability.compute_reference(given, 10)


def test_observed_marginals_leave_nothing_to_check():
    given = network.with_observed_marginals(network.build_network([2, 2], [((0, 1), np.ones((2, 2)))]), {0: np.array([0.2, 0.8])})
    assert reliability.compute_reference(given, 10) == reliability.ReferenceAnswer()


@pytest.mark.parametrize("seed", range(6))
def test_single_site_chains_have_the_marginals(seed):
    """Of any numbers of states and variables a factor, without zeros; errors are told by the chains."""
    rng = np.random.default_rng(seed)
    states = rng.choice([1, 2, 3], 6)
    factors = [((i,), np.exp(rng.normal(size=states[i]))) for i in range(6)]
    for width in (2, 2, 3, 4):
        scope = rng.permutation(6)[:width]
        factors.append((tuple(scope.tolist()), np.exp(0.7 * rng.normal(size=states[scope]))))
    given = network.build_network(states, factors)
    assert single_site_gibbs.can_sample_single_sites(given)
    found = single_site_gibbs.estimate_marginals(
        given, single_site_gibbs.make_colour_classes(given), chains=8, sweeps=1500, burn_in=50, seed=seed
    )
    for p, q, error in zip(found.nodes, summed(given)[1], found.standard_error, strict=True):
        assert p.sum() == pytest.approx(1.0, rel=1e-12)
        assert (np.abs(p - q) <= 4 * error + 1e-12).all()
        assert np.abs(p - q).max() < 0.02
    assert found.rhat < 1.02


def test_single_site_chains_leave_networks_with_zeros_alone():
    zero = network.build_network([2, 2], [((0, 1), np.array([[1.0, 0.0], [1.0, 1.0]]))])
    alone = network.build_network([2, 2], [((0,), np.ones(2))])
    assert not single_site_gibbs.can_sample_single_sites(zero)
    assert not single_site_gibbs.can_sample_single_sites(alone)


@pytest.mark.parametrize(("sigma", "rows"), [(0.5, 16), (1.0, 16), (1.0, 30)])
def test_of_hundreds_of_variables_short_chains_tell_mean_field_from_propagation(sigma, rows):
    """Propagation is right to .01 there, mean field is off by more than .1 with weights of 1 (by the junction tree)."""
    given = random_networks.generate_random_network("grid", rows=12, columns=rows, sigma_w=sigma, seed=3)
    exact = run_algorithm(algorithms.make_inference_method(given, InferenceSettings(algorithm="junction-tree")))
    for algorithm in ("bp", "mean-field"):
        found = run_algorithm(algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm)))
        known = reliability.compute_reference(given, int(found.attributes["iterations"]), allow_exact=False)
        told = reliability.assess_answer(found, algorithm, known)
        error = max(float(np.abs(p - q).max()) for p, q in zip(found.nodes, exact.nodes, strict=True))
        assert told.marginal_error_by == "short chains"
        assert told.marginal_error is not None
        assert told.marginal_error < error + 0.03
        assert bool(told.warnings) == (error > 0.1)


def test_chains_that_disagree_bear_nothing_out():
    given = random_networks.generate_random_network("grid", rows=12, columns=14, sigma_w=4.0, seed=1)
    known = reliability.compute_reference(given, 100, allow_exact=False)
    assert (known.marginals, known.rhat is not None and known.rhat > 2) == (None, True)
    answer = run_algorithm(algorithms.make_inference_method(given, InferenceSettings(algorithm="ups")))
    (warning,) = reliability.assess_answer(answer, "ups", known).warnings
    assert warning.startswith("these marginals are not confirmed: short chains disagree with each other (R̂ ")
    assert warning.endswith("; use --algorithm junction-tree, which is affordable and exact")
    assert reliability.assess_answer(answer, "ups", known, confirmed=True).warnings == []
    assert reliability.assess_answer(answer, "tempered-gibbs", known).warnings == []


def test_small_differences_of_many_variables_tell_together():
    error = [np.array([0.03, 0.03])] * 100
    known = reliability.ReferenceAnswer(marginals=[np.array([0.5, 0.5])] * 100, by="short chains", standard_error=error)
    many, one = [np.array([0.58, 0.42])] * 100, [np.array([0.58, 0.42])] + [np.array([0.5, 0.5])] * 99
    assert reliability.assess_answer(InferenceResult(many, []), "bp", known).marginal_error == pytest.approx(
        math.sqrt(0.08**2 - 2 * 0.03**2)
    )
    assert reliability.assess_answer(InferenceResult(one, []), "bp", known).marginal_error == 0.0
