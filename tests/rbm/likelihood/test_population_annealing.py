"""Annealed populations against enumeration, above all where a single run of annealing is wrong and sure of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from herdcli import fast, iterate
from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage
from herdcli.rbm.likelihood import (
    annealed_importance,
    enumeration,
    mean_field_modes,
    population_annealing,
    repeated_annealing,
    sequential_monte_carlo,
)
from herdcli.rbm.likelihood.annealing_path import TemperatureWalk
from herdcli.rbm.likelihood.log_z_estimates import STUDENT
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units import unit_family


def model(visible: str, hidden: str, shape: tuple[int, int], *, scale: float = 1.0, seed: int = 0) -> Harmonium:
    random = np.random.default_rng(seed)
    D, K = shape
    return Harmonium(
        random.normal(0, scale, (D, K)), random.normal(0, 1, D), random.normal(0, 1, K), unit_family(visible), unit_family(hidden)
    )


def two_phases() -> tuple[Harmonium, np.ndarray]:
    """A model with e^16 times more mass at units that are all on than at units that are off, and rows of the second kind.

    On the way from the rows' base rates the first kind is nowhere near: between the two lie states of no mass.
    """
    D, K = 40, 12
    h = Harmonium(np.full((D, K), 1.5), np.full(D, -8.0), np.full(K, -32.0), unit_family("binary"), unit_family("binary"))
    rows = (np.random.default_rng(0).random((200, D)) < 0.01).astype(np.float64)
    return h, rows


def test_annealing_once_is_wrong_about_two_phases_and_populations_are_not():
    h, rows = two_phases()
    exact, own = enumeration.exact_log_partition(h), h.visible.base_rate_parameters(rows)
    once = annealed_importance.AnnealingProblem((h,), (own,), chains=50, temperatures=200)
    (sure,) = run_algorithm(annealed_importance.AnnealedImportanceSampling(once))
    assert sure.log_partition < exact - 10  # the fault: this is what was printed,
    assert sure.standard_error < 0.2  # with this error
    for seed in range(3):
        (found,) = repeated_annealing.estimate_log_partitions((h,), (own,), (rows,), 50, 800, seed, map, None)
        assert not found.reliable or abs(found.log_partition - exact) < 0.05 + STUDENT * found.standard_error
        assert abs(found.log_partition - exact) < 1


def test_a_mode_that_only_the_bound_knows_makes_an_estimate_unreliable():
    h, rows = two_phases()
    own = h.visible.base_rate_parameters(rows)
    whole = mean_field_modes.make_mode_mixture(h, own, rows, 0)
    exact = enumeration.exact_log_partition(h)
    assert exact - 1 < whole.bound <= exact
    blind = replace(mean_field_modes.BaseMixture.from_biases(h, own[None]), bound=whole.bound)
    runs = []
    for level in range(3):
        problem = population_annealing.PopulationProblem(
            (h,), (blind,), (sequential_monte_carlo.refine_positions(np.linspace(0, 1, 51), level),), 64, level=level
        )
        runs += run_algorithm(population_annealing.PopulationAnnealing(problem)).estimates
    assert runs[-1].log_partition < exact - 10
    assert not repeated_annealing._combine_runs(blind, runs).reliable


def test_mass_that_only_the_data_know_makes_an_estimate_unreliable(monkeypatch):
    """Runs that start at base rates alone miss the units that are all on, agree with each other, and count their chains as equal."""
    h, rows = two_phases()
    exact, own = enumeration.exact_log_partition(h), h.visible.base_rate_parameters(rows)
    monkeypatch.setattr(mean_field_modes, "make_mode_mixture", lambda h, own, *_: mean_field_modes.BaseMixture.from_biases(h, own[None]))
    (sure,) = repeated_annealing.estimate_log_partitions((h,), (own,), (np.empty((0, 40)),), 64, 400, 0, map, None)
    assert sure.reliable  # as it was with any rows:
    assert sure.log_partition < exact - 10
    for known, reliable in ((rows, True), (np.ones((30, 40)), False)):  # rows of the other kind alone tell of it
        (found,) = repeated_annealing.estimate_log_partitions((h,), (own,), (known,), 64, 400, 0, map, None)
        assert found.reliable == reliable
    assert found.log_partition + STUDENT * found.standard_error > exact - 0.5


@pytest.mark.parametrize(("visible", "hidden"), [("binary", "spin"), ("spin", "rate:2"), ("rate:3", "binary"), ("softmax:3", "binary")])
def test_variational_bounds_stay_below_and_never_fall(visible, hidden):
    h = model(visible, hidden, (6, 5), scale=0.8)
    exact = enumeration.exact_log_partition(h)
    low, high = h.hidden.range
    means = low + (high - low) * np.random.default_rng(1).random((40, 5))
    bounds = [mean_field_modes.solve_mean_field(h, means)[0]]
    assert (bounds[0] <= exact + 1e-9).all()
    base = mean_field_modes.make_mode_mixture(
        h, h.visible.base_rate_parameters(h.visible.round_to_states(h.visible.mean(np.zeros((3, 6))))), np.empty((0, 6)), 0
    )
    assert base.bound == pytest.approx(bounds[0].max(), abs=1e-6)
    assert np.exp(base.log_shares).sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("visible", "hidden"), [("binary", "binary"), ("spin", "rate:2"), ("rate:3", "gaussian"), ("softmax:3", "spin"), ("gaussian", "binary")]
)
def test_populations_agree_with_enumeration(visible, hidden):
    h = model(visible, hidden, (6, 5), scale=0.2 if "gaussian" in (visible, hidden) else 0.7)
    exact, own = enumeration.exact_log_partition(h), np.zeros(6)
    (found,) = repeated_annealing.estimate_log_partitions((h,), (own,), (np.empty((0, 6)),), 100, 2000, 0, map, None)
    assert found.reliable
    assert 0 < found.standard_error < 0.2
    assert found.log_partition == pytest.approx(exact, abs=STUDENT * found.standard_error + 0.02)


def test_a_population_is_unbiased_however_short_its_run():
    """The mean of Z over many populations is Z, with rows drawn anew or not."""
    h = model("binary", "binary", (5, 4), scale=1.5)
    base = mean_field_modes.make_mode_mixture(h, np.zeros(5), np.empty((0, 5)), 0)
    ratios = []
    for seed in range(150):
        problem = population_annealing.PopulationProblem((h,), (base,), (np.array([0.0, 0.3, 0.6, 1.0]),), 64, seed)
        (found,) = run_algorithm(population_annealing.PopulationAnnealing(problem)).estimates
        ratios.append(np.exp(found.log_partition - enumeration.exact_log_partition(h)))
    assert np.mean(ratios) == pytest.approx(1.0, abs=4 * np.std(ratios) / np.sqrt(len(ratios)))


def test_populations_do_not_depend_on_threads_or_where_they_are_stopped():
    h = model("spin", "binary", (9, 7))
    base = mean_field_modes.make_mode_mixture(h, np.zeros(9), np.empty((0, 9)), 3)
    problem = population_annealing.PopulationProblem((h,), (base,), (np.linspace(0, 1, 41),), 40, 3)
    algorithm = population_annealing.PopulationAnnealing(problem)
    whole = iterate.run_steps(algorithm.step, algorithm.init(), until=algorithm.done)
    with ThreadPoolExecutor(2) as pool:
        half = iterate.run_steps(population_annealing.PopulationAnnealing(problem, map=pool.map).step, algorithm.init(), steps=2)
    again = iterate.run_steps(algorithm.step, half, until=algorithm.done)
    for name in ("values", "labels", "log_weights", "log_means", "ancestors"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(again, name))


def test_rows_drawn_anew_from_one_count_as_one():
    h = model("binary", "binary", (4, 3))
    problem = population_annealing.PopulationProblem(
        (h,), (mean_field_modes.BaseMixture.from_biases(h, np.zeros((1, 4))),), (np.array([0.0, 1.0]),), 32
    )
    algorithm = population_annealing.PopulationAnnealing(problem)
    state = algorithm.init()
    (equal,) = algorithm.result(state).estimates
    assert equal.effective == pytest.approx(32)
    state.ancestors[...] = 0
    (found,) = algorithm.result(state).estimates
    assert found.effective == pytest.approx(sequential_monte_carlo.POPULATIONS)


def test_finer_temperatures_keep_the_pilots_places():
    betas = np.array([0.0, 0.1, 0.5, 1.0])
    finer = sequential_monte_carlo.refine_positions(betas, 1)
    assert len(finer) == 2 * sequential_monte_carlo.FEWEST + 1
    assert (np.diff(finer) > 0).all()
    np.testing.assert_allclose(np.interp(np.linspace(0, 1, 4), np.linspace(0, 1, len(finer)), finer), betas, atol=0.01)


def test_one_chain_is_refused():
    h = model("binary", "binary", (4, 3))
    with pytest.raises(BadUsage, match="at least 2 chains, not 1"):
        population_annealing.PopulationAnnealing(
            population_annealing.PopulationProblem(
                (h,), (mean_field_modes.BaseMixture.from_biases(h, np.zeros((1, 4))),), (np.array([0.0, 1.0]),), 1
            )
        ).init()


@pytest.mark.skipif(fast.loops_in_use() == "python", reason="the compiled loops are not in use")
def test_populations_have_the_same_bits_on_both_kernels():
    h = model("binary", "spin", (17, 23))
    problem = population_annealing.PopulationProblem(
        (h,), (mean_field_modes.make_mode_mixture(h, np.zeros(17), np.empty((0, 17)), 0),), (np.linspace(0, 1, 21),), 40
    )
    algorithm = population_annealing.PopulationAnnealing(problem)

    def run() -> population_annealing.PopulationState:
        return iterate.run_steps(algorithm.step, algorithm.init(), until=algorithm.done)

    compiled = run()
    try:
        fast.use_loops("python")
        plain = run()
    finally:
        fast.use_loops("cython")
    np.testing.assert_array_equal(plain.values, compiled.values)
    np.testing.assert_array_equal(plain.log_weights, compiled.log_weights)


def test_estimates_of_populations_are_the_logarithm_of_their_mean_weight():
    h, P = model("binary", "binary", (3, 2)), sequential_monte_carlo.POPULATIONS
    problem = population_annealing.PopulationProblem(
        (h,), (mean_field_modes.BaseMixture.from_biases(h, np.zeros((1, 3))),), (np.linspace(0, 1, 6),), chains=2 * P
    )
    random = np.random.default_rng(0)
    weights, means, ancestors = random.random((P, 2)) + 0.1, random.random(P) + 0.5, random.integers(2, size=(P, 2))
    state = population_annealing.PopulationState(
        np.zeros((1, P, 2, 3)), np.zeros((1, P, 2), int), np.log(weights)[None], np.log(means)[None], ancestors[None]
    )
    (found,) = population_annealing._log_z_estimates(problem, state)
    each = means * weights.mean(axis=1)
    assert found.log_partition == pytest.approx(2 * np.log(2) + np.log(each.mean()), rel=1e-13)
    assert found.standard_error == pytest.approx(sequential_monte_carlo.WIDER * each.std(ddof=1) / each.mean() / np.sqrt(P), rel=1e-13)
    families = np.zeros((P, 2))
    for p in range(P):
        for n in range(2):
            families[p, ancestors[p, n]] += means[p] * weights[p, n]
    assert found.effective == pytest.approx(families.sum() ** 2 / (families**2).sum(), rel=1e-12)
    assert found.temperatures == 5


def test_rows_are_drawn_anew_as_often_as_their_weights_say():
    random = np.random.default_rng(0)
    weights = random.random(50) + 0.01
    share = weights / weights.sum()
    for seed in range(20):
        places = sequential_monte_carlo.draw_systematic_indices(np.log(weights) - 700.0, np.random.default_rng(seed))
        drawn = np.bincount(places, minlength=50)
        assert (np.abs(drawn - 50 * share) < 1).all()  # systematic: the number itself, rounded down or up
        assert (np.diff(places) >= 0).all()
    assert sequential_monte_carlo.effective_sample_size(np.log(weights) - 700.0) == pytest.approx(1 / (share**2).sum())
    spread, mean = np.log(np.square(np.square(np.square(weights)))), np.array(0.25)
    assert sequential_monte_carlo.resample_if_needed(np.log(weights), mean, np.random.default_rng(0)) is None
    assert sequential_monte_carlo.effective_sample_size(spread) < 25
    expected = 0.25 + np.log(np.exp(spread).mean())
    assert sequential_monte_carlo.resample_if_needed(spread, mean, np.random.default_rng(0)) is not None
    assert (float(mean), spread.any()) == (pytest.approx(expected), False)


def test_refined_temperatures_keep_the_pilots_spacing():
    betas = np.array([0.0, 0.1, 0.4, 1.0])
    for level, steps in ((0, sequential_monte_carlo.FEWEST), (2, 4 * sequential_monte_carlo.FEWEST)):
        finer = sequential_monte_carlo.refine_positions(betas, level)
        assert (len(finer), finer[0], finer[-1]) == (steps + 1, 0.0, 1.0)
        places = np.interp(finer, betas, np.arange(4.0))
        np.testing.assert_allclose(np.diff(places), 3 / steps, rtol=1e-9)
    long = np.linspace(0.0, 1.0, 71) ** 2
    np.testing.assert_allclose(sequential_monte_carlo.refine_positions(long, 0), long, atol=1e-15)
    np.testing.assert_allclose(sequential_monte_carlo.refine_positions(long, 1)[::2], long, atol=1e-15)


def test_gains_are_the_growth_of_the_unnormalised_density():
    h = model("binary", "spin", (5, 3))
    base = mean_field_modes.BaseMixture.from_biases(h, np.random.default_rng(1).normal(size=(2, 5)))
    v = np.random.default_rng(2).integers(2, size=(6, 5)).astype(np.float32)
    walk = TemperatureWalk.allocate(h, base, v, np.zeros(6, dtype=np.int64))

    def log_f(beta: float) -> np.ndarray:
        shares = np.exp(base.log_shares)
        densities = np.exp((1 - beta) * (v @ base.biases.T - base.log_partitions)) * shares
        x = v @ h.W + h.c
        return np.log(densities.sum(axis=1)) + beta * (v @ h.b) + np.log(2 * np.cosh(beta * x)).sum(axis=1)

    np.testing.assert_allclose(walk.gains(0.2, 0.7), log_f(0.7) - log_f(0.2), atol=1e-5)
