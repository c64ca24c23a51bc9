"""Mean-field solutions, the mixtures they make, and where populations go from there: in closed form."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from herdcli.algorithm import RunProgress
from herdcli.rbm.likelihood import mean_field_modes, population_annealing
from herdcli.rbm.likelihood.annealing_path import TemperatureWalk, choose_temperatures
from herdcli.rbm.likelihood.sequential_monte_carlo import draw_systematic_indices, effective_sample_size
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units import unit_family
from herdcli.rng import Stream, generator

D, K = 6, 4


def magnet(coupling: float = 1.0, field: float = 0.0, D: int = D, K: int = K) -> Harmonium:
    """Spins that all agree: two mean-field solutions, m and −m without a field."""
    return Harmonium(np.full((D, K), coupling), np.full(D, field), np.zeros(K), unit_family("spin"), unit_family("spin"))


def fixed_point(coupling: float, field: float, start: float) -> tuple[float, float]:
    """The mean of a hidden unit, and L = D A(a) − D a v̄ + D b v̄ + K A(x) at x = D W v̄, a = b + K W h̄ for the natural parameters."""
    hidden = start
    for _ in range(1000):
        visible = np.tanh(field + K * coupling * hidden)
        hidden = np.tanh(D * coupling * visible)
    natural = field + K * coupling * hidden
    entropy = np.log(2 * np.cosh(natural)) - natural * np.tanh(natural)
    return hidden, D * (entropy + field * visible) + K * np.log(2 * np.cosh(D * coupling * visible))


@pytest.mark.parametrize(("coupling", "found"), [(0.3, (-1, 0, 1)), (1.0, (-1, 1))])
def test_modes_are_components_besides_the_rows_own(coupling: float, found: tuple[int, ...]) -> None:
    """Between the two lies a third solution, h̄ = 0; with strong weights it is more than 15 nats below."""
    h, own = magnet(coupling), np.full(D, 0.25)
    hidden, bound = fixed_point(coupling, 0.0, 1.0)
    base = mean_field_modes.make_mode_mixture(h, own, np.empty((0, D)), 0)
    assert base.bound == pytest.approx(bound, abs=1e-8)
    np.testing.assert_allclose(base.biases[0], own)
    order = base.biases[1:, 0].argsort()
    np.testing.assert_allclose(base.biases[1:][order], np.outer(found, np.full(D, K * coupling * hidden)), atol=1e-5)
    np.testing.assert_allclose(np.exp(base.log_shares), [0.5, *[0.5 / len(found)] * len(found)])
    np.testing.assert_allclose(base.log_partitions, np.log(2 * np.cosh(base.biases)).sum(axis=1))
    alone = mean_field_modes.BaseMixture.from_biases(h, own[None])
    assert (alone.log_shares.tolist(), alone.bound) == ([0.0], -np.inf)


def test_modes_far_below_the_best_are_no_components() -> None:
    """A field b sets 2 D b nats between the two modes, of which 15 are allowed; certainty is not."""
    for field, count in ((1.2, 2), (1.3, 1)):  # 14.4 and 15.6 nats
        h = magnet(4.0, field)
        base = mean_field_modes.make_mode_mixture(h, np.zeros(D), np.empty((0, D)), 0)
        assert len(base.biases) == count + 1
        assert base.bound == pytest.approx(fixed_point(4.0, field, 1.0)[1], abs=1e-8)
        np.testing.assert_array_equal(base.biases[1], np.full(D, 6.0))  # 12 over the range of a spin, not 4 · 4 + b
    counts = Harmonium(np.full((D, K), 9.0), np.full(D, 1.0), np.zeros(K), unit_family("rate:3"), unit_family("rate:2"))
    np.testing.assert_array_equal(mean_field_modes.make_mode_mixture(counts, np.zeros(D), np.empty((0, D)), 0).biases[1], np.full(D, 12.0))


def test_layers_without_a_range_start_from_their_base_rates_alone() -> None:
    for visible, hidden in (("gaussian", "binary"), ("binary", "gaussian")):
        h = Harmonium(np.full((D, K), 0.1), np.zeros(D), np.zeros(K), unit_family(visible), unit_family(hidden))
        base = mean_field_modes.make_mode_mixture(h, np.ones(D), np.ones((3, D)), 0)
        assert len(base.biases) == 1
        assert base.bound == -np.inf


def test_a_mode_that_rows_lead_to_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without random starts only the rows' own mode is a component."""
    h = magnet(0.5)
    monkeypatch.setattr(mean_field_modes, "_random_hidden_means", lambda h, seed, unit: np.empty((0, K)))
    base = mean_field_modes.make_mode_mixture(h, np.zeros(D), -np.ones((2, D)), 0)
    assert len(base.biases) == 2
    np.testing.assert_allclose(base.biases[1], K * 0.5 * fixed_point(0.5, 0.0, -1.0)[0])
    two = mean_field_modes.make_mode_mixture(magnet(0.5, 0.1), np.zeros(D), np.array([-np.ones(D), np.ones(D)]), 0)
    assert two.bound == pytest.approx(fixed_point(0.5, 0.1, 1.0)[1], abs=1e-8)
    np.testing.assert_allclose(
        two.biases[1:, 0], [0.1 + K * 0.5 * fixed_point(0.5, 0.1, sign)[0] for sign in (1.0, -1.0)]
    )  # the best first


def test_random_starts_are_states_of_several_densities_of_either_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    h = Harmonium(np.zeros((50, 40)), np.zeros(50), np.arange(40.0) - 20, unit_family("spin"), unit_family("rate:2"))
    means = mean_field_modes._random_hidden_means(h, 0, 0)
    count, shares = 100, len(mean_field_modes.SHARES)
    assert means.shape == (2 * count * shares, 40)
    assert set(np.unique(means[: count * shares])) == {0.0, 2.0}
    dense = means[: count * shares].reshape(shares, -1).mean(axis=1) / 2
    np.testing.assert_allclose(dense, mean_field_modes.SHARES, atol=5 * 0.5 / np.sqrt(4000))
    np.testing.assert_allclose(means[count * shares :], np.tile(h.hidden.mean(h.c), (count * shares, 1)))
    for work, expected in ((6 * 2000 * 7.5, 7), (1.0, 2)):
        monkeypatch.setattr(mean_field_modes, "WORK", work)
        assert len(mean_field_modes._random_hidden_means(h, 0, 0)) == 2 * expected * shares


def test_rows_are_drawn_from_components_in_their_proportions() -> None:
    h = magnet(D=8)
    base = mean_field_modes.BaseMixture(np.array([[9.0] * 8, [-9.0] * 8, [9.0, -9.0] * 4]), np.log([0.5, 0.3, 0.2]), np.zeros(3))
    labels, rows = mean_field_modes.sample_base_mixture(h, base, 50, generator(0, Stream.PILOT))
    np.testing.assert_array_equal(np.bincount(labels), [25, 15, 10])
    np.testing.assert_array_equal(rows, np.sign(base.biases)[labels])
    labels, _ = mean_field_modes.sample_base_mixture(h, base, 7, generator(1, Stream.PILOT))
    assert (np.abs(np.bincount(labels) - 7 * np.array([0.5, 0.3, 0.2])) < 1).all()


def test_later_shares_are_those_of_weighted_rows() -> None:
    random, h = np.random.default_rng(0), magnet()
    base = mean_field_modes.BaseMixture.from_biases(h, random.normal(size=(3, D)))
    v, weights = random.choice([-1.0, 1.0], (20, D)), random.random(20)
    density = np.array([[np.prod(np.exp(row * a) / (2 * np.cosh(a))) for a in base.biases] for row in v])
    shares = (weights / weights.sum()) @ (density / density.sum(axis=1, keepdims=True))
    found = base.with_updated_shares(v, np.log(weights) + 800.0)
    np.testing.assert_allclose(np.exp(found.log_shares), 0.9 * shares + 0.1 / 3, rtol=1e-12)
    np.testing.assert_array_equal(found.biases, base.biases)


# populations --------------------------------------------------------------------------------------


def test_steps_and_progress_are_those_of_the_model_with_most_temperatures() -> None:
    h = magnet()
    base = mean_field_modes.BaseMixture.from_biases(h, np.zeros((1, D)))
    problem = population_annealing.PopulationProblem((h, h), (base, base), (np.linspace(0, 1, 26), np.linspace(0, 1, 11) ** 2), 17)
    algorithm = population_annealing.PopulationAnnealing(problem)
    assert (algorithm.steps, problem.rows) == (3, 3)
    state = algorithm.init()
    assert state.values.shape == (2, 8, 3, D)
    np.testing.assert_array_equal(state.ancestors, np.tile(np.arange(3), (2, 8, 1)))
    told = [algorithm.progress(state)]
    while not algorithm.done(state):
        state = algorithm.step(state)
        told.append(algorithm.progress(state))
    assert told == [RunProgress(step, 3, f"β {beta}") for step, beta in enumerate(("0.00", "0.40", "0.80", "1.00"))]
    assert population_annealing.PopulationProblem((h,), (base,), (np.array([0.0, 1.0]),), 2).rows == 2


def test_every_model_population_run_and_step_has_random_numbers_of_its_own() -> None:
    h = magnet()
    base = mean_field_modes.BaseMixture.from_biases(h, np.zeros((1, D)))
    seen = set()
    for level in range(5):
        problem = population_annealing.PopulationProblem((h,) * 3, (base,) * 3, (np.array([0.0, 1.0]),) * 3, level=level)
        assert list(population_annealing._population_indices(problem)) == list(itertools.product(range(3), range(8)))
        seen |= {
            population_annealing._population_generator(problem, m, p, step).random()
            for m, p in population_annealing._population_indices(problem)
            for step in range(3)
        }
    assert len(seen) == 5 * 3 * 8 * 3


def test_a_pilots_step_keeps_its_share_of_the_rows_in_effect() -> None:
    h = magnet(0.7)
    base = mean_field_modes.make_mode_mixture(h, np.zeros(D), np.empty((0, D)), 0)
    betas = choose_temperatures(h, base, 4, 2)
    assert betas[0] == 0
    assert betas[-1] == 1
    assert (np.diff(betas) > 0).all()
    assert len(betas) > 5
    draws = generator(4, Stream.PILOT, unit=2)
    labels, values = mean_field_modes.sample_base_mixture(h, base, 64, draws)
    walk, log_weights = TemperatureWalk.allocate(h, base, values, labels), np.zeros(64)
    for before, beta in itertools.pairwise(betas[:-1]):
        weight, growth = np.exp(log_weights), np.exp(walk.gains(before, beta))
        kept = (weight @ growth) ** 2 / (weight @ growth**2) / weight.sum()
        assert 0.95 <= kept < 0.9505
        log_weights = log_weights + walk.gains(before, beta)
        weight = np.exp(log_weights)
        if weight.sum() ** 2 / (weight**2).sum() < 32:
            walk.select(draw_systematic_indices(log_weights, draws))
            log_weights = np.zeros(64)
        walk.sweep(beta, draws)
    free = Harmonium(np.zeros((D, K)), np.ones(D), np.zeros(K), unit_family("spin"), unit_family("spin"))
    assert choose_temperatures(free, mean_field_modes.BaseMixture.from_biases(free, np.ones((1, D))), 0).tolist() == [0.0, 1.0]


def test_a_sweep_draws_the_component_of_a_row() -> None:
    """At β the component m of a row v has the probability ∝ π_m q_m(v)^{1−β}; at 1 there is none to draw."""
    h = magnet(0.0, D=3)
    base = mean_field_modes.BaseMixture(
        np.array([[0.4] * 3, [-0.2] * 3]), np.log([0.3, 0.7]), np.log(2 * np.cosh([[0.4] * 3, [-0.2] * 3])).sum(axis=1)
    )
    n = 4000
    v = np.tile(np.array([[1.0, 1.0, -1.0]], dtype=np.float32), (n, 1))
    walk = TemperatureWalk.allocate(h, base, v, np.full(n, 5))
    walk.sweep(0.25, generator(0, Stream.POPULATIONS))
    q = np.array([np.prod(np.exp(a * np.array([1, 1, -1])) / (2 * np.cosh(a))) for a in (0.4, -0.2)])
    p = np.array([0.3, 0.7]) * q**0.75
    p /= p.sum()
    assert walk.labels.mean() == pytest.approx(p[1], abs=4 * 0.5 / np.sqrt(n))
    # without weights v given its component has the natural parameters β b + (1 − β) a
    expected = np.tanh(0.75 * np.array([0.4, -0.2]))
    for label in (0, 1):
        rows = walk.v[walk.labels == label]
        assert rows.mean() == pytest.approx(expected[label], abs=4 / np.sqrt(rows.size))
    labels = np.arange(n) % 2
    again = TemperatureWalk.allocate(h, base, v, labels.copy())
    again.sweep(1.0, generator(0, Stream.POPULATIONS))
    np.testing.assert_array_equal(again.labels, labels)


def test_populations_are_drawn_anew_where_less_than_half_is_in_effect() -> None:
    """After every ten temperatures at least half of the rows are; below that none was ever left."""
    shares, least = [], 8 * 20
    for coupling in (0.5, 0.6, 0.8, 1.2):
        h = magnet(coupling)
        base = mean_field_modes.BaseMixture.from_biases(h, np.full((1, D), 0.3))
        algorithm = population_annealing.PopulationAnnealing(
            population_annealing.PopulationProblem((h,), (base,), (np.linspace(0, 1, 41) ** 0.5,), least)
        )
        state = algorithm.init()
        while not algorithm.done(state):
            state = algorithm.step(state)
            shares += [effective_sample_size(weights) / 20 for weights in state.log_weights[0]]
    assert 0.5 <= min(shares) < 0.55
    assert np.count_nonzero(state.log_means) > 4
