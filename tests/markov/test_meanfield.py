"""Mean field, TAP, linear response and Gibbs sampling: bounds, orders of error, finite differences, enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from herdcli import iterate
from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage
from herdcli.markov import algorithms
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import boltzmann, network, random_networks


def infer(given, algorithm, **settings):
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm, **settings))
    state = iterate.run_steps(method.step, method.init(), until=method.done)
    return state, method.result(state)


def means(found):
    return np.array([p[-1] for p in found.nodes])


def machine(scale: float, seed: int = 0):
    """A fully connected machine of six units with weights of size `scale`."""
    random = np.random.default_rng(seed)
    edges = np.array([(i, j) for i in range(6) for j in range(i + 1, 6)])
    return random_networks.network_from_weights(edges, scale * random.standard_normal(len(edges)), random.standard_normal(6))


def test_weights_say_what_the_factors_say():
    random = np.random.default_rng(1)
    factors = [((0, 1), random.random((2, 2))), ((1, 0), random.random((2, 2))), ((2,), random.random(2)), ((1, 2), random.random((2, 2)))]
    given = network.build_network([2, 2, 2], [*factors, ((), np.array(0.3))])
    found = boltzmann.to_boltzmann_machine(given, "tap")
    for x in np.ndindex(2, 2, 2):
        exact = sum(np.log(table[tuple(x[i] for i in scope)]) for scope, table in given.factors())
        v = np.array(x, dtype=float)
        assert abs(found.constant + found.b @ v + 0.5 * v @ (found.W @ v) - exact) < 1e-13


@pytest.mark.parametrize("seed", range(4))
def test_mean_field_bounds_log_z_and_its_free_energy_never_rises(seed):
    given = random_networks.generate_random_network("grid", rows=4, columns=4, sigma_w=2.0, seed=seed)
    state, found = infer(given, "mean-field", tolerance=1e-12)
    assert found.attributes["converged"]
    assert found.attributes["log_z"] < infer(given, "enumerate")[1].attributes["log_z"]
    assert np.diff(state.free_energy).max() < 1e-12
    W, b = boltzmann.to_boltzmann_machine(given, "tap").W, boltzmann.to_boltzmann_machine(given, "tap").b
    assert np.allclose(state.mean, 1 / (1 + np.exp(-(W @ state.mean + b))), atol=1e-10)


@pytest.mark.parametrize(("algorithm", "order"), [("mean-field", 2), ("tap", 3)])
def test_errors_fall_with_the_order_of_plefka_s_expansion(algorithm, order):
    """Log-log slope of the means' error against the weights' size: TAP's is 3, naive mean field's 2."""
    sizes = np.array([0.02, 0.04, 0.08])
    errors = []
    for size in sizes:
        exact = means(infer(machine(size), "enumerate")[1])
        errors.append(np.abs(means(infer(machine(size), algorithm, tolerance=1e-15, iterations=500)[1]) - exact).max())
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert order - 0.2 < slope < order + 0.4


@pytest.mark.parametrize("algorithm", ["mean-field", "tap"])
def test_linear_response_is_the_derivative_of_the_means(algorithm):
    random = np.random.default_rng(2)
    edges = random_networks.grid_edges(2, 3)
    W, b, step = 0.7 * random.standard_normal(len(edges)), random.standard_normal(6), 1e-5
    covariance = infer(random_networks.network_from_weights(edges, W, b), algorithm, tolerance=1e-14, linear_response=True)[1].attributes[
        "covariance"
    ]
    for j in range(6):
        up, down = (
            means(infer(random_networks.network_from_weights(edges, W, b + sign * step * np.eye(6)[j]), algorithm, tolerance=1e-14)[1])
            for sign in (1, -1)
        )
        assert np.allclose(covariance[:, j], (up - down) / (2 * step), atol=1e-8)


def test_linear_response_is_near_the_exact_covariances_of_weak_couplings():
    given = machine(0.05)
    exact = infer(given, "enumerate")[1]
    covariance = infer(given, "tap", tolerance=1e-14, linear_response=True)[1].attributes["covariance"]
    m = means(exact)
    for (i, j), p in [clique for clique in exact.cliques if len(clique[0]) == 2]:
        assert abs(covariance[i, j] - (p[1, 1] - m[i] * m[j])) < 2e-4
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() > 2e-3


@pytest.mark.parametrize("algorithm", ["mean-field", "tap", "gibbs"])
def test_evidence_is_conditioning(algorithm):
    given = network.condition_network(machine(0.3), {2: 1, 4: 0})
    exact, found = infer(given, "enumerate")[1], infer(given, algorithm, sweeps=4000, tolerance=1e-12)[1]
    assert [len(p) for p in found.nodes] == [2, 2, 1, 2, 1, 2]
    assert np.abs(means(exact) - means(found)).max() < (0.02 if algorithm != "tap" else 2e-3)


def test_gibbs_is_within_its_standard_errors():
    given = random_networks.generate_random_network("grid", rows=4, columns=4, sigma_w=1.0, seed=3)
    exact, found = infer(given, "enumerate")[1], infer(given, "gibbs", sweeps=4000)[1]
    errors = np.array([p[-1] for p in found.attributes["standard_error"]])
    z = (means(found) - means(exact)) / errors
    assert 0.5 < np.sqrt((z**2).mean()) < 2.0
    assert errors.max() < 0.01
    assert found.attributes["converged"]
    pairs = {scope: p for scope, p in exact.cliques if len(scope) == 2}
    assert max(np.abs(p - pairs[scope]).max() for scope, p in found.cliques) < 0.02


def test_chains_that_stay_apart_are_told():
    edges = np.array([[0, 1], [1, 2], [2, 0]])
    stuck = random_networks.network_from_weights(edges, np.full(3, 40.0), np.full(3, -40.0))
    found = infer(stuck, "gibbs", sweeps=200, burn_in=10, chains=6)[1]
    assert not found.attributes["converged"]
    assert found.attributes["residual"] > 0.5


def test_networks_that_are_no_boltzmann_machines_are_refused():
    three = network.build_network([2, 2, 2], [((0, 1, 2), np.ones((2, 2, 2)))])
    with pytest.raises(BadUsage, match="--algorithm tap needs factors of at most two variables, but factor 0 has 3"):
        infer(three, "tap")
    with pytest.raises(BadUsage, match="--algorithm tap needs two-state variables, but x1 has 3 states"):
        infer(network.build_network([2, 3], []), "tap")
    with pytest.raises(BadUsage, match="--algorithm tap needs positive factors, but factor 0 has a zero"):
        infer(network.build_network([2], [((0,), np.array([0.0, 1.0]))]), "tap")


def test_auto_is_exact_where_it_fits_and_ends_with_ups():
    small = random_networks.generate_random_network("grid", rows=4, columns=4)
    assert algorithms.choose_exact_algorithm(small, InferenceSettings(), 10**9).name == "junction-tree"
    assert "table cells would take 2^" in algorithms.choose_exact_algorithm(small, InferenceSettings(), 100).why
    observed = network.with_observed_marginals(small, {0: np.array([0.5, 0.5])})
    assert algorithms.choose_exact_algorithm(observed, InferenceSettings(), 10**9).name == "junction-tree"
    assert "table cells would take 2^" in algorithms.choose_exact_algorithm(observed, InferenceSettings(), 100).why


def test_tap_says_where_its_expansion_does_not_hold():
    weak, strong = (
        algorithms.make_inference_method(
            random_networks.generate_random_network("grid", rows=6, columns=6, sigma_w=w, seed=2),
            InferenceSettings(algorithm="tap", damping=0.5),
        )
        for w in (0.3, 8.0)
    )
    told = [run_algorithm(each).warning for each in (weak, strong)]
    assert told[0] == ""
    assert told[1].startswith("tap is not valid for this network: ")
    state = strong.init()
    m = np.full(36, 0.3)
    W = strong.machine.W.toarray()
    largest = max(sum(W[i, j] ** 2 * (0.3 * 0.7) ** 2 for j in range(36)) for i in range(36))
    state.mean = m
    assert f"Σ_j W_ij² (m_j(1 − m_j))² is {largest:.3g}," in strong.result(state).warning


def test_taps_free_energy_of_a_pair_in_closed_form():
    w, bias, m = 1.3, np.array([0.4, -0.7]), np.array([0.3, 0.6])
    method = algorithms.make_inference_method(
        random_networks.network_from_weights(np.array([[0, 1]]), np.array([w]), bias), InferenceSettings(algorithm="tap")
    )
    v = m * (1 - m)
    entropy = -float(np.sum(m * np.log(m) + (1 - m) * np.log(1 - m)))
    # Plefka's third term is −½ w² v_0 v_1 of each pair, thus −¼ of the sum over both orders of it (Teh 2003, 2.43)
    assert method.free_energy(m) == pytest.approx(-w * m[0] * m[1] - bias @ m - entropy - 0.5 * w**2 * v[0] * v[1], abs=1e-14)


def test_taps_fixed_points_are_stationary_points_of_its_free_energy():
    given = machine(0.6)
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm="tap", tolerance=1e-13))
    m = iterate.run_steps(method.step, method.init(), until=method.done).mean
    for i in range(len(m)):
        step = np.zeros(len(m))
        step[i] = 1e-5
        assert (method.free_energy(m + step) - method.free_energy(m - step)) / 2e-5 == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize("algorithm", ["mean-field", "tap"])
@pytest.mark.parametrize("seed", range(3))
def test_observed_means_are_constraints_on_the_free_energy(algorithm, seed):
    """Against a general minimiser over the hidden means; the bound is below that of all distributions with these marginals."""
    given = network.with_observed_marginals(machine(0.4, seed), {1: np.array([0.8, 0.2]), 4: np.array([0.35, 0.65])})
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm))
    state, found = infer(given, algorithm, tolerance=1e-13)
    m = means(found)
    assert found.attributes["converged"]
    np.testing.assert_allclose(m[[1, 4]], [0.2, 0.65], rtol=1e-15)
    hidden = [0, 2, 3, 5]

    def energy(x):
        full = m.copy()
        full[hidden] = 1 / (1 + np.exp(-x))
        return method.free_energy(full)

    best = minimize(energy, np.zeros(4), tol=1e-14)
    assert -found.attributes["log_z"] == pytest.approx(best.fun, abs=1e-9)
    np.testing.assert_allclose(m[hidden], 1 / (1 + np.exp(-best.x)), atol=1e-5)
    exact = infer(given, "enumerate", tolerance=1e-13)[1]
    if algorithm == "mean-field":
        assert found.attributes["log_z"] < exact.attributes["log_z"]
        assert np.diff(state.free_energy).max() < 1e-12
    assert np.abs(m - means(exact)).max() < 0.05


def test_tap_is_nearer_than_mean_field_with_observed_marginals():
    errors = {"mean-field": [], "tap": []}
    for seed in range(6):
        given = network.with_observed_marginals(machine(0.15, seed), {0: np.array([0.3, 0.7]), 3: np.array([0.9, 0.1])})
        exact = means(infer(given, "enumerate", tolerance=1e-13)[1])
        for algorithm, told in errors.items():
            told.append(np.abs(means(infer(given, algorithm, tolerance=1e-12)[1]) - exact).max())
    assert np.mean(errors["tap"]) < 0.5 * np.mean(errors["mean-field"])


def test_scaling_with_mean_field_inside_does_not_converge_and_the_constrained_minimum_is_found():
    """Teh (2003), sec. 5.5: weight 5, biases −2.5, means 0.3 of both units."""
    weight, target = 5.0, 0.3
    given = random_networks.network_from_weights(np.array([[0, 1]]), np.array([weight]), np.array([-2.5, -2.5]))
    both = network.with_observed_marginals(given, {0: np.array([0.7, 0.3]), 1: np.array([0.7, 0.3])})
    _, found = infer(both, "mean-field", tolerance=1e-12)
    np.testing.assert_allclose(means(found), target)
    m = target
    energy = -weight * m * m + 5 * m + 2 * (m * np.log(m) + (1 - m) * np.log(1 - m))
    assert found.attributes["log_z"] == pytest.approx(-energy, rel=1e-12)
    # 5.16: λ_i grows by the log odds of the target less those of mean field's means, which jump past it for ever
    multiplier, gaps = np.zeros(2), []
    for t in range(200):
        m = np.full(2, 0.5)
        for _ in range(500):
            for i in range(2):
                m[i] = 1 / (1 + np.exp(-(weight * m[1 - i] - 2.5 + multiplier[i])))
        i = t % 2
        multiplier[i] += np.log(target / (1 - target)) - np.log(m[i] / (1 - m[i]))
        gaps.append(np.abs(m - target).max())
    assert min(gaps[-20:]) > 0.05


def test_observed_means_of_certainty_are_evidence_and_respond_to_nothing():
    given = machine(0.3)
    sure = network.with_observed_marginals(given, {2: np.array([0.0, 1.0])})
    _, found = infer(sure, "mean-field", tolerance=1e-13, linear_response=True)
    _, other = infer(network.condition_network(given, {2: 1}), "mean-field", tolerance=1e-13)
    np.testing.assert_allclose(means(found)[[0, 1, 3, 4, 5]], means(other)[[0, 1, 3, 4, 5]], atol=1e-10)
    assert found.attributes["log_z"] == pytest.approx(other.attributes["log_z"], abs=1e-10)
    assert not found.attributes["covariance"][2].any()


def test_linear_response_of_observed_units_is_that_of_their_multipliers():
    """Finite differences in the biases of the network that the multipliers make, whose unconstrained solution this is."""
    given = network.with_observed_marginals(machine(0.3), {1: np.array([0.6, 0.4])})
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm="mean-field"))
    state, found = infer(given, "mean-field", tolerance=1e-14, linear_response=True)
    m, W = state.mean, method.machine.W.toarray()
    b = np.log(m / (1 - m)) - W @ m
    edges = np.array([(i, j) for i in range(6) for j in range(i + 1, 6)])
    weights = np.array([W[i, j] for i, j in edges])
    h, slopes = 1e-5, np.empty((6, 6))
    for j in range(6):
        up, down = (
            infer(random_networks.network_from_weights(edges, weights, b + s * h * np.eye(6)[j]), "mean-field", tolerance=1e-14)[0].mean
            for s in (1, -1)
        )
        slopes[:, j] = (up - down) / (2 * h)
    np.testing.assert_allclose(found.attributes["covariance"], slopes, atol=1e-7)
