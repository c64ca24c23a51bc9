"""Parallel tempering of counts of words, whose temperatures are the lengths of rows: shares of modes and gradients against enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.rbm.learning import length_tempering, minibatch_statistics, parallel_fits
from herdcli.rbm.learning.parallel_fits import LearningProblem, Settings
from herdcli.rbm.learning.phases import PhaseScratch
from herdcli.rbm.likelihood import word_counts
from herdcli.rbm.model import Harmonium
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.rbm.units import unit_family
from herdcli.rbm.units.words import MultinomialLayer, softmax_weights_in_place

STATES = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])


def model(W: np.ndarray, b: np.ndarray, c: np.ndarray) -> Harmonium:
    return Harmonium(W, b, c, unit_family("words"), unit_family("binary"))


def test_chains_of_many_words_have_the_shares_of_the_model_though_their_words_leave_no_choice() -> None:
    """Two hidden units with words of their own, rows of 40 and 60: a chain alone stays where it is for e^{tens} sweeps."""
    h = model(np.array([[2.5, -2.5], [-2.5, 2.5], [0.0, 0.0]]), np.array([0.15, 0.1, 0.0]), np.array([0.0, 2.8]))
    own = GibbsSweeper(
        *(part.astype(np.float32) for part in (h.W, h.b, h.c)), MultinomialLayer(1), h.hidden.layer(), np.random.default_rng(0)
    )
    rows, chain = np.array([[60, 0, 0], [40, 0, 0]], dtype=np.float32), np.zeros((12, 2), dtype=np.float32)
    scratch, seen = PhaseScratch.allocate(12, 3, 2), np.zeros((2, 4))
    for _ in range(4000):
        length_tempering.length_tempered_phases(own, rows, chain, 1, 2, False, scratch)
        for i, state in enumerate(chain[-2:]):
            seen[i, int(state[0] + 2 * state[1])] += 1
    growth = np.logaddexp.reduce(h.b + STATES @ h.W.T, axis=1)
    for found, N, share in zip(seen / 4000, (40, 60), (0.277, 0.490), strict=True):
        weight = N * growth + STATES @ h.c
        expected = np.exp(weight - np.logaddexp.reduce(weight))
        assert expected[1] == pytest.approx(share, abs=1e-3)
        np.testing.assert_allclose(found, expected, atol=0.05)


@pytest.mark.parametrize(("chains", "updates"), [(0, 1500), (5, 1500), (40, 800)])
def test_the_statistics_are_the_gradient_of_the_likelihood_given_lengths(chains: int, updates: int) -> None:
    """Means over many updates of a model that stays as it is: as many chains as rows and ten, fewer, and more."""
    random = np.random.default_rng(0)
    h = model(random.normal(0, 0.6, (3, 2)), random.normal(0, 0.5, 3), np.zeros(2))
    rows = np.array(
        [[2, 0, 0], [1, 1, 0], [0, 1, 1], [0, 0, 2], [3, 1, 1], [0, 5, 0], [1, 1, 3], [0, 0, 5], [4, 1, 0], [2, 2, 1]], np.float32
    )
    problem = LearningProblem([rows], Settings(2, algorithm="pt", visible_units="words", batch_size=0, chains=chains))
    state = parallel_fits.RBMLearning(problem).init()
    state.W[0], state.b[0], state.c[0] = h.W, h.b, h.c
    for room in (problem.scratch().v, problem.scratch().h):
        room.fill(np.nan)  # what chains that stand for no row leave there is no part of it
    assert problem.chains == (chains or len(rows) + 10)
    W, b = np.zeros((3, 2)), np.zeros(3)
    for step in range(updates):
        found = minibatch_statistics.batch_statistics(problem, state, 0, np.arange(len(rows)), step, reconstruct=step % 2 == 0)
        W += found.pair_statistics(slice(None)) / updates
        b += found.b / updates
        assert not found.c.any()
    sizes, step = np.array([2, 5]), 1e-4
    for name, slope in (("W", W), ("b", b)):
        for index in np.ndindex(slope.shape):
            ends = []
            for sign in (1, -1):
                parts = {"W": h.W.copy(), "b": h.b.copy()}
                parts[name][index] += sign * step
                g = model(parts["W"], parts["b"], h.c)
                ends.append(word_counts.row_log_likelihoods(g, rows, sizes, word_counts.exact_log_partitions(g, sizes)).mean())
            assert slope[index] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=0.08 if chains == 5 else 0.05)


def test_shorter_chains_lead_from_one_word_to_the_rows_and_fewer_chains_are_spread_over_them() -> None:
    found, counted = length_tempering.choose_chain_lengths(np.array([90, 30, 50]), 7)
    assert (found.tolist(), counted) == ([1, 2, 5, 13, 30, 50, 90], 3)
    found, counted = length_tempering.choose_chain_lengths(np.array([1, 8]), 4)
    assert (found.tolist(), counted) == ([1, 1, 1, 8], 2)
    found, counted = length_tempering.choose_chain_lengths(np.arange(1, 11), 5)
    assert (found.tolist(), counted) == ([2, 4, 6, 8, 10], 5)
    found, counted = length_tempering.choose_chain_lengths(np.empty(0, dtype=np.int64), 2)
    assert (found.tolist(), counted) == ([1, 1], 0)


def test_exponentials_are_shares_to_a_factor_and_the_logarithm_of_their_sum() -> None:
    natural = np.array([[1.0, 2.0, -3.0], [500.0, 500.0, 0.0]], dtype=np.float32)
    shares = natural.copy()
    np.testing.assert_allclose(softmax_weights_in_place(shares), np.logaddexp.reduce(natural.astype(np.float64), axis=1), rtol=1e-6)
    np.testing.assert_allclose(shares[0] / shares[0].sum(), np.exp([1, 2, -3]) / np.exp([1, 2, -3]).sum(), rtol=1e-6)


def test_the_bytes_do_not_depend_on_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    random = np.random.default_rng(2)
    rows = random.poisson(0.4, (240, 30)).astype(np.float32)
    rows[:, 0] += 1
    problem = LearningProblem([rows], Settings(4, algorithm="pt", visible_units="words", epochs=2, batch_size=120, learning_rate=0.001))
    ends = []
    with ThreadPoolExecutor(2) as pool:
        for run in (map, pool.map):
            algorithm = parallel_fits.RBMLearning(problem, run)
            state = algorithm.init()
            while not algorithm.done(state):
                state = algorithm.step(state)
            ends.append((state.W.tobytes(), state.b.tobytes(), state.chain.tobytes()))
    assert ends[0] == ends[1]
