"""Layers and half-sweeps against the unit families in float64 and against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from herdcli.rbm.model import Harmonium
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.rbm.units import unit_family
from herdcli.rbm.units.two_state import uniform_uint16
from herdcli.rng import Stream, generator

NAMES = ("binary", "spin")


@pytest.mark.parametrize("name", NAMES)
def test_means_are_the_familys_times_the_scale(name: str) -> None:
    random = np.random.default_rng(0)
    natural, bias = random.normal(0, 3, (11, 23)).astype(np.float32), random.normal(0, 1, 23).astype(np.float32)
    expected = -0.25 * unit_family(name).mean(natural.astype(np.float64) + bias)
    unit_family(name).layer().means(natural, bias, scale=-0.25)
    np.testing.assert_allclose(natural, expected, atol=1e-6)


@pytest.mark.parametrize("name", [*NAMES, "rate:3", "softmax:4", "gaussian", "poisson"])
def test_half_sweeps_write_the_means_themselves_where_no_scale_is_asked_for(name: str) -> None:
    random = np.random.default_rng(1)
    W, b = random.normal(size=(4, 8)).astype(np.float32), random.normal(size=8).astype(np.float32)
    rows = random.normal(size=(5, 4)).astype(np.float32)
    expected = unit_family(name).mean(rows.astype(np.float64) @ W + b)
    half = GibbsSweeper(W, b[:4], b, unit_family("gaussian").layer(), unit_family(name).layer(), generator(0, Stream.GIBBS))
    other = GibbsSweeper(W.T.copy(), b, b[:4], unit_family(name).layer(), unit_family("gaussian").layer(), generator(0, Stream.GIBBS))
    for write in (half.update_hidden, other.update_visible):
        for states in (None, np.empty((5, 8), dtype=np.float32)):
            means = np.empty((5, 8), dtype=np.float32)
            write(rows, means, states)
            np.testing.assert_allclose(means, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_samples_have_the_familys_probability(name: str) -> None:
    n = 40_000
    bias = np.linspace(-3, 3, 9).astype(np.float32)
    natural, states = np.zeros((n, 9), dtype=np.float32), np.empty((n, 9), dtype=np.float32)
    unit_family(name).layer().sample(natural, bias, states, generator(0, Stream.GIBBS))
    off, on = unit_family(name).states
    p = 1 / (1 + np.exp(-(on - off) * bias.astype(np.float64)))
    assert set(np.unique(states)) == set(unit_family(name).states)
    assert (np.abs((states == unit_family(name).states[1]).mean(axis=0) - p) < 5 * np.sqrt(p * (1 - p) / n)).all()
    np.testing.assert_allclose(natural, np.tile(unit_family(name).mean(bias.astype(np.float64)), (n, 1)), atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_natural_undoes_the_mean(name: str) -> None:
    natural = np.linspace(-4, 4, 17)
    np.testing.assert_allclose(unit_family(name).natural(unit_family(name).mean(natural)), natural, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_fair_states_are_fair(name: str) -> None:
    states = unit_family(name).layer().sample_unbiased_states((200, 100), generator(0, Stream.INITIAL))
    low, high = unit_family(name).states
    assert set(np.unique(states)) == {low, high}
    assert abs((states == high).mean() - 0.5) < 5 * 0.5 / np.sqrt(states.size)


def test_words_are_uniform_and_a_function_of_their_stream() -> None:
    words = uniform_uint16(generator(3, Stream.GIBBS, step=5), 300, 101)
    assert words.shape == (300, 101)
    assert words.dtype == np.uint16
    assert np.array_equal(words, uniform_uint16(generator(3, Stream.GIBBS, step=5), 300, 101))
    assert not np.array_equal(words, uniform_uint16(generator(3, Stream.GIBBS, step=6), 300, 101))
    drawn, again = generator(3, Stream.GIBBS), generator(3, Stream.GIBBS)
    uniform_uint16(drawn, 3, 5)  # 15 words of 16 bits are 4 of 64
    assert drawn.bit_generator.random_raw() == again.bit_generator.random_raw(5)[4]
    counts = np.bincount(words.ravel() >> 8, minlength=256)
    expected = words.size / 256
    assert ((counts - expected) ** 2 / expected).sum() < 255 + 5 * np.sqrt(2 * 255)


@pytest.mark.parametrize(("visible", "hidden"), list(itertools.product(NAMES, NAMES)))
def test_sweeps_leave_the_models_own_distribution_in_place(visible: str, hidden: str) -> None:
    """From fair coins, 60 sweeps of 20 000 chains reach p(v) as enumerated from the free energies."""
    n, random = 20_000, np.random.default_rng(2)
    W, b, c = (random.normal(0, 0.7, shape).astype(np.float32) for shape in ((3, 2), 3, 2))
    units = unit_family(visible).layer(), unit_family(hidden).layer()
    sweeper = GibbsSweeper(W, b, c, *units, generator(0, Stream.SAMPLE))
    h = units[1].sample_unbiased_states((n, 2), generator(0, Stream.INITIAL))
    v, means, hidden_means = (np.empty((n, size), dtype=np.float32) for size in (3, 3, 2))
    for _ in range(60):
        sweeper.update_visible(h, means, v)
        sweeper.update_hidden(v, hidden_means, h)
    states = np.array(list(itertools.product(unit_family(visible).states, repeat=3)), dtype=np.float64)
    model = Harmonium(*(part.astype(np.float64) for part in (W, b, c)), unit_family(visible), unit_family(hidden))
    p = np.exp(-model.free_energy(states))
    p /= p.sum()
    seen = np.array([(v == state).all(axis=1).mean() for state in states])
    assert (np.abs(seen - p) < 5 * np.sqrt(p * (1 - p) / n)).all()
