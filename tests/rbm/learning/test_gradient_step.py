"""Adam and natural updates, and schedules: against plain programs and enumeration."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage
from herdcli.rbm.learning import gradient_step, minibatch_statistics, parallel_fits
from herdcli.rbm.learning.parallel_fits import LearningProblem, Settings
from herdcli.rbm.model import Harmonium
from herdcli.rbm.settings import fill_defaults
from herdcli.rbm.units import unit_family

ROWS = (np.random.default_rng(0).random((60, 7)) < 0.4).astype(np.int8)


def exact_gradient(theta, rows):
    h = Harmonium(*theta, unit_family("binary"), unit_family("binary"))
    states = np.array(list(itertools.product((0, 1), repeat=rows.shape[1])), dtype=float)
    p = np.exp(-h.free_energy(states))
    p /= p.sum()
    up, down = h.hidden_means(rows), h.hidden_means(states)
    return [
        rows.T @ up / len(rows) - (states * p[:, None]).T @ down,
        rows.mean(axis=0) - p @ states,
        up.mean(axis=0) - p @ down,
    ]


def test_adam_follows_a_plain_program():
    settings = Settings(3, "exact", epochs=12, batch_size=0, optimizer="adam", learning_rate=0.02, momentum=0.8, weight_decay=0.05)
    problem = LearningProblem([ROWS], settings)
    run = parallel_fits.RBMLearning(problem)
    state = run.init()
    theta = [part[0].astype(float) for part in (state.W, state.b, state.c)]
    mean, square = ([np.zeros_like(part) for part in theta] for _ in range(2))
    for t in range(1, 13):
        rate = 0.02 * (1 - (t - 1) / 12)
        for i, G in enumerate(exact_gradient(theta, ROWS.astype(float))):
            mean[i] = 0.8 * mean[i] + 0.2 * G
            square[i] = 0.999 * square[i] + 0.001 * G**2
            theta[i] = theta[i] * (1 - rate * 0.05 * (i == 0))
            theta[i] = theta[i] + rate * (mean[i] / (1 - 0.8**t)) / (np.sqrt(square[i] / (1 - 0.999**t)) + 1e-8)
        state = run.step(state)
        for mine, theirs in zip((state.W, state.b, state.c), theta, strict=True):
            np.testing.assert_allclose(mine[0], theirs, atol=2e-4)


@pytest.mark.parametrize(("visible", "hidden"), [("binary", "binary"), ("spin", "rate:3"), ("rate:2", "spin"), ("softmax:2", "gaussian")])
def test_the_diagonal_of_the_fisher_matrix_is_the_variance_of_the_centred_statistics(visible, hidden):
    random = np.random.default_rng(3)
    h = Harmonium(
        random.normal(0, 0.6, (4, 3)), random.normal(0, 0.5, 4), random.normal(0, 0.5, 3), unit_family(visible), unit_family(hidden)
    )
    units = [np.array(list(itertools.product(h.visible.support, repeat=4 // h.visible.group))).reshape(-1, 4)]
    (states,) = units
    p = np.exp(-h.free_energy(states))
    p /= p.sum()
    count = 200_000
    v = states[np.searchsorted(np.cumsum(p), (np.arange(count) + 0.5) / count)]
    mu, lam = random.random(4), random.random(3)
    W, b, c = gradient_step.fisher_diagonal(v, h.hidden_means(v), mu, lam, h.hidden)
    # By sums: E[x²] and E[x] of x = (v − μ)(h − λ), hidden units by their own states or, of Gaussian ones, by mean and variance 1.
    natural = states @ h.W + h.c
    if hidden == "gaussian":
        first, second = natural, 1 + natural**2
    else:
        values = h.hidden.support[:, 0]
        weight = np.exp(natural[..., None] * values + h.hidden.log_base_measure(h.hidden.support))
        weight /= weight.sum(axis=-1, keepdims=True)
        first, second = weight @ values, weight @ values**2
    centred = second - 2 * lam * first + lam**2
    expected = (p[:, None] * (states - mu) ** 2).T @ centred - ((p[:, None] * (states - mu)).T @ (first - lam)) ** 2
    np.testing.assert_allclose(W, expected, atol=2e-3)
    np.testing.assert_allclose(b, p @ states**2 - (p @ states) ** 2, atol=1e-3)
    np.testing.assert_allclose(c, p @ second - (p @ first) ** 2, atol=2e-3)


def test_natural_updates_divide_the_centred_gradient_by_the_diagonal():
    settings = Settings(
        3,
        "pcd",
        chains=5000,
        epochs=1,
        batch_size=0,
        optimizer="natural",
        momentum=0.0,
        weight_decay=0.0,
        learning_rate=0.5,
        initial_scale=0.5,
    )
    problem = LearningProblem([ROWS], settings)
    run = parallel_fits.RBMLearning(problem)
    state = run.init()
    theta = [part[0].astype(float) for part in (state.W, state.b, state.c)]
    state = run.step(state)
    mu, lam = ROWS.mean(axis=0), state.hidden_mean[0].astype(float)
    F = [state.W_square[0], state.b_square[0], state.c_square[0]]
    scale = [part.mean() / (part + 0.1 * part.mean()) for part in F]
    assert all(part.std() > 0.01 * part.mean() for part in F)
    before = [part.astype(float) for part in theta]
    change = [(after[0] - old) / 0.5 for after, old in zip((state.W, state.b, state.c), before, strict=True)]
    centred = change[0] / scale[0], (change[1] + change[0] @ lam) / scale[1], (change[2] + change[0].T @ mu) / scale[2]
    # The chains have made one sweep from fair states: what is compared is the algebra, by undoing it, with the statistics of rows alone.
    h = Harmonium(*theta, unit_family("binary"), unit_family("binary"))
    second_b = ROWS.mean(axis=0) - centred[1]
    assert ((second_b > 0) & (second_b < 1)).all()
    second_c = h.hidden_means(ROWS).mean(axis=0) - centred[2]
    assert ((second_c > 0) & (second_c < 1)).all()
    pairs = ROWS.T @ h.hidden_means(ROWS) / len(ROWS) - (centred[0] + np.outer(centred[1], lam) + np.outer(mu, centred[2]))
    assert (pairs > 0).all()
    assert (pairs < np.minimum(second_b[:, None], second_c) + 1e-3).all()  # P(v and h) is at most either


@pytest.mark.parametrize(
    "options", [{"optimizer": "adam"}, {"optimizer": "natural"}, {"algorithm": "pt", "replicas": 3}, {"algorithm": "tap"}]
)
@pytest.mark.parametrize("batch", [20, 130])
def test_threads_and_resumed_runs_change_nothing(options, batch):
    rows = (np.random.default_rng(4).random((280, 9)) < 0.4).astype(np.int8)
    problem = LearningProblem([rows], Settings(5, **{"algorithm": "pcd"} | options, epochs=3, batch_size=batch, learning_rate=0.01))
    whole = run_algorithm(parallel_fits.RBMLearning(problem))
    with ThreadPoolExecutor(3) as pool:
        run = parallel_fits.RBMLearning(problem, pool.map)
        shared = run.init()
        while not run.done(shared):
            shared = run.step(shared)
    for name in ("W", "b", "c", "chain", "W_square", "betas", "rejected"):
        one, other = getattr(whole, name), getattr(shared, name)
        assert (one is None and other is None) or np.array_equal(one, other), name


@pytest.mark.parametrize(("algorithm", "chains"), [("pcd", 20), ("pcd", 1500), ("cd", 0)])
def test_the_fisher_matrix_is_of_all_chains_of_a_large_minibatch(algorithm, chains):
    rows = np.tile(ROWS, (20, 1))
    problem = LearningProblem([rows], Settings(3, algorithm, chains=chains, batch_size=len(rows), optimizer="natural", initial_scale=1.0))
    state = parallel_fits.RBMLearning(problem).init()
    found = minibatch_statistics.batch_statistics(problem, state, 0, np.arange(len(rows)), 0, reconstruct=False)
    v, h = found.chain_values_and_means()
    assert len(v) == len(h) == (chains or len(rows))
    np.testing.assert_allclose(h, Harmonium(state.W[0], state.b[0], state.c[0], problem.visible, problem.hidden).hidden_means(v), atol=1e-5)


def test_sweeps_go_from_the_first_to_the_last_evenly():
    settings = Settings(3, steps=1, final_steps=3)
    assert [settings.sweeps(t / 6) for t in range(6)] == [1, 1, 2, 2, 3, 3]
    assert [Settings(3, steps=4, final_steps=2).sweeps(t / 3) for t in range(3)] == [4, 3, 2]
    assert Settings(3, steps=2).sweeps(0.9) == 2


def test_rates_fall_as_they_are_said_to():
    left = {
        name: [Settings(3, rate_decay=name).learning_rate_factor(t) for t in (0.0, 0.5, 1.0)]
        for name in ("linear", "cosine", "inverse", "none")
    }
    assert left["linear"] == [1.0, 0.5, 0.0]
    assert left["cosine"] == pytest.approx([1.0, 0.5, 0.0])
    assert left["inverse"] == pytest.approx([1.0, 1 / 5.5, 0.1])
    assert left["none"] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"optimizer": "sgd"}, "unknown optimizer 'sgd', expected momentum, adam or natural"),
        ({"optimizer": "natural", "algorithm": "exact"}, "--optimizer natural needs sampled states, but --algorithm exact samples none"),
        ({"optimizer": "adam", "l1_decay": 0.1}, "--optimizer adam does not work with --l1-decay or --non-negative"),
        ({"replicas": 1}, "--replicas must be at least 2, not 1"),
        ({"final_steps": -1}, "final_steps must be at least 0, not -1"),
        ({"rate_decay": "square"}, "unknown rate_decay 'square', expected linear, cosine, inverse or none"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(bad, message):
    with pytest.raises(BadUsage) as caught:
        Settings(3, **bad)
    assert caught.value.message == message


def test_adams_default_rate_is_its_own():
    assert fill_defaults(Settings(optimizer="adam"), 400, rate=True, centering=True).learning_rate == 0.01
    assert fill_defaults(Settings(), 400, rate=True, centering=True).learning_rate == 0.05
