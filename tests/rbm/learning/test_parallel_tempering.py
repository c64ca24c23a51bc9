"""Chains at several temperatures: what they leave invariant, modes they reach that single chains do not, where temperatures move."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from herdcli.rbm.learning import parallel_fits, parallel_tempering
from herdcli.rbm.learning.gradients import model_moments
from herdcli.rbm.learning.parallel_fits import LearningProblem, Settings
from herdcli.rbm.model import Harmonium
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.rbm.units import unit_family
from herdcli.rng import Stream, generator


def two_modes(strength: float = 6.0) -> Harmonium:
    """All units on or all off, which Gibbs sweeps hardly ever change."""
    W = np.full((4, 3), strength / 2)
    return Harmonium(W, -W.sum(axis=1) / 2, -W.sum(axis=0) / 2, unit_family("binary"), unit_family("binary"))


def sweeper(h: Harmonium, step: int = 0) -> GibbsSweeper:
    parts = (part.astype(np.float32) for part in (h.W, h.b, h.c))
    return GibbsSweeper(*parts, h.visible.layer(), h.hidden.layer(), generator(5, Stream.GIBBS, step=step))


def test_tempered_chains_reach_the_mode_that_plain_chains_never_leave_for():
    h, C = two_modes(8.0), 2000
    exact = model_moments(h).pairs
    base, betas = np.zeros(4, dtype=np.float32), np.linspace(1, 0, 6)
    ladder = parallel_tempering.TemperatureLadder(betas, base, h.hidden)
    states = np.zeros((C, 6, 3), dtype=np.float32)
    for step in range(120):
        v, _, _ = ladder.sweep(sweeper(h, step), states, step % 2)
    found = v[:, 0].T @ h.hidden_means(v[:, 0]) / C
    noise = 0.5 / np.sqrt(C)
    np.testing.assert_allclose(found, exact, atol=5 * noise)
    plain, own = np.zeros((C, 3), dtype=np.float32), np.empty((C, 4), dtype=np.float32)
    for step in range(120):
        one = sweeper(h, 1000 + step)
        one.update_visible(plain, np.empty_like(own), own)
        one.update_hidden(own, np.empty_like(plain), plain)
    assert np.abs(own.T @ h.hidden_means(own) / C - exact).max() > 20 * noise


@pytest.mark.parametrize(("visible", "hidden"), [("spin", "binary"), ("rate:3", "spin"), ("gaussian", "binary"), ("softmax:2", "poisson")])
def test_every_temperature_keeps_its_own_distribution(visible, hidden):
    """From exact draws of each temperature, sweeps with exchanges leave the moments of all of them where they were."""
    random, C, betas = np.random.default_rng(1), 8000, np.array([1.0, 0.6, 0.2, 0.0])
    h = Harmonium(
        random.normal(0, 0.7, (4, 3)), random.normal(0, 0.4, 4), random.normal(0, 0.4, 3), unit_family(visible), unit_family(hidden)
    )
    if hidden == "poisson":
        h = Harmonium(-np.abs(h.W) / 2, h.b, h.c, h.visible, h.hidden)
    base = random.normal(0, 0.4, 4)
    ladder = parallel_tempering.TemperatureLadder(betas, base.astype(np.float32), h.hidden)
    models = [Harmonium(beta * h.W, beta * h.b + (1 - beta) * base, beta * h.c, h.visible, h.hidden) for beta in betas]
    states = np.stack([h.hidden.layer().sample_unbiased_states((C, 3), random) for _ in betas], axis=1).astype(np.float32)
    for step in range(25):
        v, _, _ = ladder.sweep(sweeper(h, step), states, step % 2)
    for r, model in enumerate(models):
        exact = model_moments(model)
        spread = max(float(v[:, r].std(axis=0).max()), 0.5)
        np.testing.assert_allclose(v[:, r].mean(axis=0), exact.visible, atol=6 * spread / np.sqrt(C))
        expected = exact.hidden
        np.testing.assert_allclose(model.hidden_means(v[:, r]).mean(axis=0), expected, atol=8 * spread / np.sqrt(C))


def test_temperatures_move_to_where_exchanges_are_refused():
    betas, rejected = np.linspace(1.0, 0.0, 5), np.array([0.9, 0.1, 0.1, 0.1])
    parallel_tempering.adapt_temperatures(betas, rejected, np.array([np.nan, 0.1, np.nan, 0.3]))
    np.testing.assert_allclose(rejected, [0.9, 0.1, 0.1, 0.1 + parallel_tempering.SHARE * 0.2])
    knots = np.cumsum([0.0, *(rejected + parallel_tempering.LEAST)])
    quarters = [1 - 0.25 * (knots[-1] * share / 4) / knots[1] for share in (1, 2)]  # a half of all refusals is in the first gap
    expected = [1.0, *(0.98 * old + 0.02 * new for old, new in zip((0.75, 0.5), quarters, strict=True))]
    np.testing.assert_allclose(betas[:3], expected)
    assert betas[-1] == 0.0
    assert (np.diff(betas) < 0).all()


def test_learned_ladders_refuse_alike():
    random = np.random.default_rng(0)
    rows = np.repeat(random.random((400, 1)) < 0.5, 8, axis=1) ^ (random.random((400, 8)) < 0.05)
    settings = Settings(4, "pt", epochs=60, replicas=5, learning_rate=0.1, chains=20)
    state = parallel_fits.RBMLearning(LearningProblem([rows.astype(np.int8)], settings)).init()
    algorithm = parallel_fits.RBMLearning(LearningProblem([rows.astype(np.int8)], settings))
    while not algorithm.done(state):
        state = algorithm.step(state)
    assert state.rejected.max() - state.rejected.min() < 0.25
    assert state.rejected.max() > 0.1
    assert state.chain.shape == (1, 100, 4)


def exact_of(state, problem) -> Harmonium:
    return Harmonium(*(np.asarray(part[0], dtype=np.float64) for part in (state.W, state.b, state.c)), problem.visible, problem.hidden)


def test_the_second_phase_of_learning_is_the_models_own_expectation():
    """With a rate too small to move the model, the statistics become the exact gradient, where persistent chains stay in one mode."""
    h = two_modes()
    states = np.array(list(itertools.product((0, 1), repeat=4)), dtype=np.int8)
    distance = {}
    for algorithm in ("pt", "pcd"):
        settings = Settings(3, algorithm, chains=2000, epochs=60, batch_size=0, learning_rate=1e-9, momentum=0, weight_decay=0, replicas=6)
        problem = LearningProblem([states], settings)
        run = parallel_fits.RBMLearning(problem)
        state = run.init()
        state.W[0], state.b[0], state.c[0], state.chain[:] = h.W, h.b, h.c, 0
        while not run.done(state):
            state = run.step(state)
        exact = states.T @ h.hidden_means(states) / 16 - model_moments(h).pairs
        distance[algorithm] = np.abs(state.W_velocity[0] / (1e-9 / 60) - exact).max()
    assert distance["pt"] < 0.06 < 0.3 < distance["pcd"]
