"""What chains tell of their own error: by hand, and against exact marginals."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.markov import algorithms
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import chain_convergence, network, random_networks
from herdcli.markov.query.chains import temperature_ladder


def test_errors_are_the_largest_over_batches_of_all_lengths():
    means = np.array([[[0.1, 0.3]], [[0.2, 0.2]], [[0.4, 0.1]], [[0.1, 0.6]]])  # four batches of two chains
    fine = means.reshape(-1).std(ddof=1) / np.sqrt(8)
    halves = np.array([0.15, 0.25, 0.25, 0.35]).std(ddof=1) / np.sqrt(4)
    whole = np.array([0.2, 0.3]).std(ddof=1) / np.sqrt(2)
    assert chain_convergence.batch_means_errors(means)[0] == pytest.approx(max(fine, halves, whole))
    apart = np.array([[[0.0, 1.0]], [[0.0, 1.0]]])  # chains that stay where they are
    assert chain_convergence.batch_means_errors(apart)[0] == pytest.approx(0.5)
    assert chain_convergence.batch_means_errors(means[:3])[0] == pytest.approx(means[:3].reshape(-1).std(ddof=1) / np.sqrt(6))


def test_draws_that_chains_are_worth_follow_from_rhat():
    """n independent draws in `runs` half runs give means whose variance is W / (n / runs)."""
    random = np.random.default_rng(0)
    draws = random.random((16, 50, 4000)) < 0.3
    halves = draws.mean(axis=1).T
    squared = np.mean(chain_convergence.split_rhat(halves, 50) ** 2)
    assert chain_convergence.effective_draws(np.sqrt(squared + 1 / 50), 16, 1000) == pytest.approx(16 * 50, rel=0.05)
    assert chain_convergence.effective_draws(np.inf, 16, 50) == 0
    assert chain_convergence.widen_for_unseen_states(np.array([0.03, 0.9]), 12.5) == pytest.approx([0.05, 0.5])


@pytest.mark.parametrize("pair", [[[1.0, 1.0], [1.0, 1.0]], [[1.0, 2.0], [1.0, 1.0]]])
@pytest.mark.parametrize("algorithm", ["gibbs", "tempered-gibbs"])
def test_what_few_draws_cannot_have_shown_is_in_the_error_told(algorithm, pair):
    """Chains that never see a state of 1 in 10,000 have R̂ = 1, and are worth their draws, not the billion that R̂ would say."""
    given = network.build_network([2, 2], [((0,), np.array([1.0, 1e-4])), ((0, 1), np.array(pair))])
    found = run_algorithm(algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm, sweeps=64, burn_in=10, chains=4)))
    drawn = 4 * 64
    assert found.attributes["standard_error"][0].min() >= 0.5 / drawn
    assert np.abs(found.nodes[0] - [1 / 1.0001, 1e-4 / 1.0001]).max() < found.attributes["standard_error"][0][0]


def test_heights_have_an_rhat_of_their_own():
    numbers = np.random.default_rng(1).standard_normal((40, 3)) + np.array([0.0, 0.0, 5.0])
    made = chain_convergence.empty_energy_sums(3)
    for kept, row in enumerate(numbers):
        made.add(row, kept, kept // 20)
    halves = np.concatenate([numbers[:20], numbers[20:]], axis=1)
    worst = np.sqrt(19 / 20 + halves.mean(axis=0).var(ddof=1) / halves.var(axis=0, ddof=1).mean())
    assert made.rhat(20) == pytest.approx(worst)
    assert worst > 2
    same = chain_convergence.empty_energy_sums(2)
    for kept in range(4):
        same.add(np.full(2, 7.0), kept, kept // 2)
    assert same.rhat(2) == 1.0
    apart = chain_convergence.empty_energy_sums(2)
    for kept in range(4):
        apart.add(np.array([7.0, 8.0]), kept, kept // 2)
    assert apart.rhat(2) == np.inf


def test_temperatures_share_what_is_rejected_and_fewer_are_kept_where_little_is():
    powers = np.geomspace(0.1, 1.0, 5)
    even = temperature_ladder.adapt_powers(powers, np.full(4, 0.7))
    np.testing.assert_allclose(even, powers)
    moved = temperature_ladder.adapt_powers(powers, np.array([0.9, 0.9, 0.3, 0.3]))
    assert (moved[0], moved[-1], len(moved)) == (0.1, 1.0, 5)
    np.testing.assert_allclose(np.log(moved[1] / powers[0]) / np.log(powers[1] / powers[0]), 0.6 / 0.9)
    assert len(temperature_ladder.adapt_powers(powers, np.full(4, 0.2))) == 3
    assert temperature_ladder.nearest_power_indices(powers, np.array([0.1, 0.5, 0.99])).tolist() == [0, 3, 4]


def test_round_trips_are_states_that_came_from_the_hottest_temperature():
    heading = np.zeros((3, 2), dtype=np.int64)
    assert temperature_ladder.count_round_trips(heading) == 0
    assert heading.tolist() == [[1, 1], [0, 0], [2, 2]]
    heading[[0, 2], 0] = heading[[2, 0], 0]
    assert temperature_ladder.count_round_trips(heading) == 1
    assert temperature_ladder.count_round_trips(heading) == 0


def spins(side, J, field, seed):
    """Strong random couplings up to ±J, and weak fields."""
    random, edges = np.random.default_rng(seed), random_networks.grid_edges(side, side)
    sign = np.array([[1.0, -1.0], [-1.0, 1.0]])
    factors = [((i,), np.exp(h * sign[1])) for i, h in enumerate(random.uniform(-field, field, side * side))]
    return network.build_network(
        [2] * (side * side), factors + [(tuple(edge), np.exp(random.uniform(-J, J) * sign)) for edge in edges.tolist()]
    )


@pytest.mark.parametrize("algorithm", ["gibbs", "tempered-gibbs"])
@pytest.mark.parametrize("short", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_errors_are_within_what_is_told(algorithm, short):
    """Or the run says that it has not converged: five kinds of networks, short runs and longer ones."""
    colours = random_networks.draw_random_edges(16, 3.0, np.random.default_rng(0)).tolist()
    unlike = np.where(np.eye(3) > 0, 0.0, 1.0)
    weights = np.random.default_rng(2).uniform(0.8, 1.2, (16, 3))
    several = [
        random_networks.generate_random_network("grid", rows=6, columns=6, sigma_w=2.0, seed=1),
        random_networks.generate_random_network("grid", rows=6, columns=6, sigma_w=5.0, sigma_b=0.3, seed=2),
        random_networks.generate_random_network("random", nodes=12, degree=11.0, sigma_w=4.0, sigma_b=0.3, seed=3),
        spins(6, 10.0, 0.1, 4),
        network.build_network([3] * 16, [((i,), w) for i, w in enumerate(weights)] + [(tuple(edge), unlike) for edge in colours]),
    ]
    ended = []
    for given in several:
        exact = run_algorithm(algorithms.make_inference_method(given, InferenceSettings())).nodes
        sweeps = 96 if short else 600
        found = run_algorithm(
            algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm, sweeps=sweeps, burn_in=sweeps // 3))
        )
        error = np.mean([np.abs(p - q).mean() for p, q in zip(found.nodes, exact, strict=True)])
        told = np.mean([each.mean() for each in found.attributes["standard_error"]])
        ended.append(found.attributes["converged"])
        assert error < (2.5 * told if ended[-1] else 10 * told)
    assert any(ended)
    assert all(ended) or algorithm == "gibbs" or short


def test_spins_in_weak_fields_turn_over():
    """All of them at once: chains that did so at high temperatures alone were .30 off on such a lattice of 14×14."""
    given = spins(8, 10.0, 0.05, 7)
    exact = run_algorithm(algorithms.make_inference_method(given, InferenceSettings())).nodes
    found = run_algorithm(algorithms.make_inference_method(given, InferenceSettings(algorithm="tempered-gibbs", sweeps=96, burn_in=32)))
    assert found.attributes["converged"]
    assert found.attributes["round_trips"] >= 8
    assert found.attributes["effective_draws"] > 80
    assert max(np.abs(p - q).max() for p, q in zip(found.nodes, exact, strict=True)) < 0.06


def test_marginals_that_are_known_by_symmetry_have_no_error():
    unlike = 1.0 - np.eye(3)
    edges = random_networks.draw_random_edges(20, 3.0, np.random.default_rng(1)).tolist()
    found = run_algorithm(
        algorithms.make_inference_method(
            network.build_network([3] * 20, [(tuple(edge), unlike) for edge in edges]),
            InferenceSettings(algorithm="tempered-gibbs", sweeps=16),
        )
    )
    np.testing.assert_allclose(np.stack(found.nodes), 1 / 3)
    assert not np.concatenate(found.attributes["standard_error"]).any()


def test_few_round_trips_are_no_convergence_and_are_told(monkeypatch):
    from types import SimpleNamespace

    from herdcli.cli.ups_infer import runs

    given = random_networks.generate_random_network("grid", rows=8, columns=8, sigma_w=4.0, seed=0)
    asked = InferenceSettings(algorithm="tempered-gibbs", sweeps=48, burn_in=8)
    monkeypatch.setattr(temperature_ladder, "count_round_trips", lambda heading: 0)
    found = run_algorithm(algorithms.make_inference_method(given, asked)).attributes
    assert (found["converged"], found["round_trips"]) == (False, 0)
    assert found["residual"] < 0.05
    told = []
    made = SimpleNamespace(algorithm="tempered-gibbs", **{name: found[name] for name in ("iterations", "residual", "round_trips")})
    runs._warn_of_nonconvergence(SimpleNamespace(console=SimpleNamespace(warn=told.append)), made, "warn")
    assert told == [
        f"the chains of tempered-gibbs went through all temperatures only 0 times in {found['iterations']} sweeps; raise --sweeps, or "
        "--effort with --algorithm auto; --on-nonconvergence error exits with code 1"
    ]
