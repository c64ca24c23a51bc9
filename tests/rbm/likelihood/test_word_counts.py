"""Counts of words in rows of any length: partition functions and gradients by enumeration of all rows, draws, learning."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.special import gammaln

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage, DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures.rbm import metrics
from herdcli.rbm.learning import minibatch_statistics, parallel_fits
from herdcli.rbm.learning.parallel_fits import LearningProblem, Settings
from herdcli.rbm.likelihood import length_annealing, word_counts
from herdcli.rbm.model import Harmonium, StoredHeldoutRows, rbm_from_weights
from herdcli.rbm.units import unit_family
from herdcli.rbm.units.words import MultinomialLayer, WordCountUnits


def model(hidden: str = "binary", change: tuple[str, tuple[int, ...], float] | None = None) -> Harmonium:
    random = np.random.default_rng(0)
    parts = {"W": random.normal(0, 0.6, (3, 2)), "b": random.normal(0, 0.5, 3), "c": np.zeros(2)}
    if change:
        parts[change[0]][change[1]] += change[2]
    return Harmonium(parts["W"], parts["b"], parts["c"], unit_family("words"), unit_family(hidden))


def all_rows(length: int) -> np.ndarray:
    """Every row of three columns with so many words."""
    return np.array([row for row in itertools.product(range(length + 1), repeat=3) if sum(row) == length], dtype=np.float64)


def unnormalised(h: Harmonium, v: np.ndarray) -> np.ndarray:
    """log Σ_h e^{−E(v, h)} with the number of orders of the words."""
    values = h.hidden.support[:, 0]
    inputs = (v @ h.W)[:, :, None] * values
    inputs = inputs + np.asarray([h.hidden.log_base_measure(np.array([x])) for x in values])
    orders = gammaln(v.sum(axis=1) + 1) - gammaln(v + 1).sum(axis=1)
    return v @ h.b + np.logaddexp.reduce(inputs, axis=2).sum(axis=1) + orders


@pytest.mark.parametrize("hidden", ["binary", "spin", "rate:2"])
def test_partition_functions_are_sums_over_all_rows_of_a_length(hidden):
    h, lengths = model(hidden), np.array([1, 2, 5])
    expected = [np.logaddexp.reduce(unnormalised(h, all_rows(N))) for N in lengths]
    np.testing.assert_allclose(word_counts.exact_log_partitions(h, lengths), expected)
    annealed = length_annealing.anneal_log_partitions(h, np.arange(1, 6), np.ones(5), chains=400, max_sweeps=1000, seed=1)
    np.testing.assert_allclose(annealed.log_z[[0, 1, 4]], expected, atol=0.05)


@pytest.mark.parametrize("hidden", ["binary", "spin"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_likelihoods_of_rows_add_up_to_one_at_every_length(hidden, kind):
    h, lengths = model(hidden), np.array([2, 4])
    log_z = word_counts.exact_log_partitions(h, lengths)
    for N in lengths:
        found = word_counts.row_log_likelihoods(h, kind(all_rows(N)), lengths, log_z)
        assert np.exp(found).sum() == pytest.approx(1)
    np.testing.assert_allclose(
        WordCountUnits().row_log_base_measure(kind(all_rows(4))), WordCountUnits().log_base_measure(all_rows(4)), atol=1e-12
    )


def test_cd_reaches_the_gradient_of_the_likelihood_given_lengths():
    """CD-30 over many rows, against finite differences of the exact mean log-likelihood."""
    data = np.repeat(np.concatenate([all_rows(2)[:4], all_rows(5)[3:9]]), 2000, axis=0).astype(np.float32)
    lengths, step, h = np.array([2, 5]), 1e-4, model()
    settings = Settings(2, visible_units="words", steps=30, batch_size=0)
    problem = LearningProblem([data], settings)
    state = parallel_fits.RBMLearning(problem).init()
    state.W[0], state.b[0], state.c[0] = h.W, h.b, h.c
    found = minibatch_statistics.batch_statistics(problem, state, 0, np.arange(len(data)), 0, reconstruct=True)
    slopes = {"W": found.pair_statistics(slice(None)), "b": found.b}
    assert not found.c.any()
    for name, slope in slopes.items():
        for index in np.ndindex(slope.shape):
            above, below = (
                word_counts.row_log_likelihoods(g, data, lengths, word_counts.exact_log_partitions(g, lengths)).mean()
                for g in (model("binary", (name, index, sign * step)) for sign in (1, -1))
            )
            assert slope[index] == pytest.approx((above - below) / (2 * step), abs=5 * 1.5 / np.sqrt(len(data)))


def test_draws_have_their_lengths_and_shares():
    lengths = np.array([0, 3, 4000])
    natural = np.log(np.tile([[0.5, 0.2, 0.3]], (3, 1))).astype(np.float32)
    states = np.empty_like(natural)
    MultinomialLayer(lengths).sample(natural, np.zeros(3, np.float32), states, np.random.default_rng(0))
    assert states.sum(axis=1).tolist() == lengths.tolist()
    np.testing.assert_allclose(states[2] / 4000, [0.5, 0.2, 0.3], atol=0.04)
    np.testing.assert_allclose(natural, lengths[:, None] * [[0.5, 0.2, 0.3]], rtol=1e-5)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_topics_are_learned(kind):
    random = np.random.default_rng(1)
    topics = np.array([[0.3, 0.3, 0.3, 0.04, 0.03, 0.03], [0.03, 0.03, 0.04, 0.3, 0.3, 0.3]])
    rows = np.array([random.multinomial(random.integers(5, 20), topics[i % 2]) for i in range(300)], dtype=np.float32)
    given = kind(rows)
    settings = Settings(3, visible_units="words", epochs=40, learning_rate=0.005)
    problem = LearningProblem([parallel_fits.SelectedRows(given, np.arange(300))], settings)
    state = run_algorithm(parallel_fits.RBMLearning(problem))
    h = Harmonium(*(np.asarray(part[0], dtype=np.float64) for part in (state.W, state.b, state.c)), problem.visible, problem.hidden)
    lengths = np.unique(word_counts.count_words_per_row(given))
    found = word_counts.row_log_likelihoods(h, given, lengths, word_counts.exact_log_partitions(h, lengths)).mean()
    p = rows.sum(axis=0) / rows.sum()
    independent = (rows @ np.log(p) + WordCountUnits().log_base_measure(rows)).mean()
    assert found > independent + 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"algorithm": "pcd"},
            "--visible-units words works only with --algorithm cd or pt, without --centering and without validation during learning",
        ),
        (
            {"centering": True},
            "--visible-units words works only with --algorithm cd or pt, without --centering and without validation during learning",
        ),
        ({"algorithm": "pt", "optimizer": "natural"}, "--optimizer natural does not work with words units and --algorithm pt"),
        ({"hidden_units": "gaussian"}, "--visible-units words needs hidden units with a bounded range, but these are gaussian"),
        ({"visible_units": "binary", "hidden_units": "words"}, "words units are possible only in the visible layer"),
    ],
)
def test_what_words_do_not_go_with_is_refused(options, message):
    with pytest.raises(BadUsage) as caught:
        Settings(3, **{"visible_units": "words"} | options)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("rows", "message"), [([[1, 2], [0, 0]], "row 1 has no words"), ([[1, 0.5]], "there is a value 0.5 in row 0, column 1, but words need")]
)
def test_rows_without_words_are_refused(rows, message):
    with pytest.raises(DataError, match=message):
        WordCountUnits().require_rows(np.array(rows, dtype=np.float32))


def test_words_are_drawn_by_their_shares_and_as_many_as_a_row_has() -> None:
    from herdcli.rbm.units.words import MultinomialLayer

    lengths = np.array([40000, 0, 7, 1])
    natural = np.log(np.array([[0.5, 0.2, 0.3, 1e-30]] * 4, dtype=np.float32))
    states = np.empty((4, 4), dtype=np.float32)
    MultinomialLayer(lengths).sample(natural, np.zeros(4, dtype=np.float32), states, np.random.default_rng(5))
    assert states.sum(axis=1).tolist() == lengths.tolist()
    expected = 40000 * np.array([0.5, 0.2, 0.3])
    assert states[0, 3] == 0
    assert (np.square(states[0, :3] - expected) / expected).sum() < 13.8  # χ² of two degrees of freedom, p = .001


def test_what_eval_says_of_annealed_words_holds_the_sum_over_hidden_states():
    """Rows of 2 to 300 words: log Z is no straight line between a few lengths."""
    random = np.random.default_rng(3)
    W, b, c = random.normal(0, 0.4, (1, 20, 6)), random.normal(0, 0.5, (1, 20)), random.normal(0, 0.5, (1, 6))
    lengths = np.concatenate([np.arange(2, 60), [90, 150, 300]])
    rows = np.stack([random.multinomial(N, np.full(20, 0.05)) for N in lengths])
    held = StoredHeldoutRows(rows, np.full(len(rows), 2, dtype=np.uint8))
    value = replace(rbm_from_weights(W[0], b[0], c[0], "words", "binary"), holdout=held)
    exact = metrics(value, EvaluationSettings())
    for settings in (EvaluationSettings(likelihood="ais"), EvaluationSettings(likelihood="ais", seed=1, chains=200)):
        found = metrics(value, settings)
        assert found["log_likelihood_low"] <= exact["log_likelihood"] <= found["log_likelihood_high"]
        assert found["log_likelihood_high"] - found["log_likelihood_low"] < 1.0
        assert (found["log_z_method"], exact["log_z_method"], exact["log_likelihood_se"]) == ("annealed", "exact", 0.0)
        assert found["effective_chains"] >= 20


def test_words_whose_chains_are_too_few_are_not_relied_on():
    random = np.random.default_rng(4)
    h = Harmonium(random.normal(0, 3.0, (20, 40)), np.zeros(20), np.zeros(40), unit_family("words"), unit_family("binary"))
    found = length_annealing.anneal_log_partitions(h, np.array([5, 500]), np.ones(2), chains=16, max_sweeps=200, seed=0)
    assert not found.mean.reliable
    assert found.mean.standard_error > 0.1


def test_an_exact_likelihood_of_words_is_refused_where_hidden_states_are_too_many():
    h = Harmonium(np.zeros((3, 30)), np.zeros(3), np.zeros(30), unit_family("words"), unit_family("binary"))
    held = StoredHeldoutRows(all_rows(2), np.full(6, 2, dtype=np.uint8))
    value = replace(rbm_from_weights(h.W, h.b, h.c, "words", "binary"), holdout=held)
    with pytest.raises(BadUsage) as caught:
        metrics(value, EvaluationSettings(likelihood="exact"))
    assert (
        caught.value.message == "the exact likelihood of word counts needs at most 2^20 hidden states, but this model has 30 hidden units"
    )


def test_annealed_words_tell_how_far_they_are_and_begin_with_two_chains():
    h, told = model(), []
    length_annealing.anneal_log_partitions(h, np.array([3, 40]), np.ones(2), chains=16, max_sweeps=60, seed=0, progress=told.append)
    assert [progress.step for progress in told if progress.figure == "40 words"]
    with pytest.raises(BadUsage) as caught:
        length_annealing.anneal_log_partitions(h, np.array([3]), np.ones(1), chains=1, max_sweeps=60, seed=0)
    assert caught.value.message == "annealed importance sampling needs at least 2 chains, not 1"


@pytest.mark.parametrize("length", [0.4, 1.0, 2.7])
def test_sweeps_at_words_in_part_leave_the_distribution_of_so_many_words(length):
    random = np.random.default_rng(6)
    h = Harmonium(
        random.normal(0, 1.5, (3, 2)), random.normal(0, 0.5, 3), np.array([0.3, -0.2]), unit_family("words"), unit_family("binary")
    )
    states, rows = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], dtype=np.float32), 6000
    weight = length * np.logaddexp.reduce(h.b + states @ h.W.T, axis=1) + states @ h.c
    expected = np.exp(weight - np.logaddexp.reduce(weight))
    walk = length_annealing.LengthWalk.allocate(h, np.zeros((rows, 2), dtype=np.float32))
    for _ in range(25):
        walk.sweep(length, random)
    seen = np.array([(walk.hidden == state).all(axis=1).mean() for state in states])
    assert (np.abs(seen - expected) < 5 * np.sqrt(expected / rows)).all()
    np.testing.assert_allclose(walk.growth, np.logaddexp.reduce(h.b + walk.hidden @ h.W.T, axis=1), rtol=1e-5)


def test_rows_without_words_have_the_log_z_of_independent_hidden_units():
    h = model()
    exact = word_counts.exact_log_partitions(h, np.array([0, 4]))
    found = length_annealing.anneal_log_partitions(h, np.array([0, 4]), np.ones(2), chains=400, max_sweeps=400, seed=0)
    assert found.log_z[0] == pytest.approx(exact[0])
    assert found.log_z[1] == pytest.approx(exact[1], abs=0.05)
    assert found.mean.effective is not None
    assert found.mean.effective > 20
