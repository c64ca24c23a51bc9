"""Passes along chains against enumeration of all paths, in numbers and in logarithms."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hidden_markov import enumerated, parts

from herdcli.em.sequence import forward_backward
from herdcli.errors import DataError

CASES = [(1, 1), (1, 4), (2, 1), (2, 7), (3, 6), (4, 5)]
CLOSE = 1e-12


def logs_of(K: int, T: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(T, K)) * 3 - 20


def states(K: int, *, zeros: bool = False) -> forward_backward.HiddenChain:
    return forward_backward.HiddenChain(*parts(K, zeros=zeros))


@pytest.mark.parametrize(("K", "T"), CASES)
@pytest.mark.parametrize("zeros", [False, True])
def test_smoothing_is_what_enumeration_finds(K: int, T: int, zeros: bool) -> None:
    made, logs = states(K, zeros=zeros), logs_of(K, T)
    expected = enumerated(made.initial, made.transition, logs)
    for found in (
        forward_backward.smooth_states(made, forward_backward.scale_likelihoods(logs), np.array([0, T])),
        forward_backward.smooth_states_in_logs(made, logs),
    ):
        assert found.log_likelihood[0] == pytest.approx(expected.log_likelihood, abs=CLOSE)
        assert found.smoothed[:, :K] == pytest.approx(expected.smoothed, abs=CLOSE)
        assert found.filtered[:, :K] == pytest.approx(expected.filtered, abs=CLOSE)
        assert found.pairs == pytest.approx(expected.pairs, abs=CLOSE)


@pytest.mark.parametrize(("K", "T"), CASES)
def test_the_likeliest_path_is_the_one_that_enumeration_finds(K: int, T: int) -> None:
    made, logs = states(K), logs_of(K, T, 1)
    expected = enumerated(made.initial, made.transition, logs)
    path, value = forward_backward.viterbi_paths(made, logs, np.array([0, T]))
    assert path.tolist() == expected.paths[expected.joint.argmax()].tolist()
    assert value[0] == pytest.approx(expected.joint.max(), abs=CLOSE)


def test_paths_are_drawn_from_their_posterior() -> None:
    K, T, draws = 3, 4, 20_000
    made, logs = states(K), logs_of(K, T, 2) / 3
    expected = enumerated(made.initial, made.transition, logs)
    alpha, _ = forward_backward.filter_states(made, forward_backward.scale_likelihoods(np.tile(logs, (draws, 1))), np.arange(draws + 1) * T)
    found = forward_backward.sample_paths(made, alpha, np.arange(draws + 1) * T, np.random.default_rng(0).random(draws * T)).reshape(
        draws, T
    )
    counts = np.bincount(found @ K ** np.arange(T)[::-1], minlength=K**T)
    p = np.exp(expected.joint - expected.log_likelihood)
    squared = ((counts - draws * p) ** 2 / (draws * p)).sum()
    assert squared < K**T + 5 * np.sqrt(2 * K**T)  # chi-squared: mean K^T − 1, variance twice that


def test_predictions_are_filtered_states_moved_on() -> None:
    K, T = 3, 5
    made, logs = states(K), logs_of(K, T)
    alpha, _ = forward_backward.filter_states(made, forward_backward.scale_likelihoods(np.tile(logs, (2, 1))), np.array([0, T, 2 * T]))
    found = forward_backward.predict_states(made, alpha, np.array([0, T, 2 * T]))
    for t in range(T):
        blind = np.where(np.arange(T)[:, None] >= t, 0.0, logs)  # rows from t on say nothing
        expected = enumerated(made.initial, made.transition, blind[: t + 1]).smoothed[t]
        assert found[t] == pytest.approx(expected, abs=CLOSE)
        assert found[T + t] == pytest.approx(expected, abs=CLOSE)


def test_ragged_chains_are_those_taken_alone_and_weights_are_of_chains() -> None:
    K, lengths = 3, [4, 1, 6, 2]
    made, offsets = states(K), np.concatenate([[0], np.cumsum(lengths)])
    logs, weight = logs_of(K, sum(lengths)), np.array([1.0, 2.0, 0.5, 0.0])
    found = forward_backward.smooth_states(made, forward_backward.scale_likelihoods(logs), offsets, weight)
    pairs = np.zeros((K, K))
    for s, (a, b) in enumerate(pairwise(offsets)):
        expected = enumerated(made.initial, made.transition, logs[a:b])
        assert found.smoothed[a:b, :K] == pytest.approx(expected.smoothed, abs=CLOSE)
        assert found.log_likelihood[s] == pytest.approx(expected.log_likelihood, abs=CLOSE)
        pairs += weight[s] * expected.pairs
    assert found.pairs == pytest.approx(pairs, abs=CLOSE)


def test_a_path_that_seems_lost_and_is_the_only_one_is_found() -> None:
    """Two states without a way between them: the rows speak e^800 to one for the second at first, and e^1600 for the first later."""
    made = forward_backward.HiddenChain(np.array([0.5, 0.5]), np.eye(2))
    logs = np.array([[-800.0, 0.0], [0.0, -700.0], [0.0, -900.0]])
    expected = enumerated(made.initial, made.transition, logs)
    found = forward_backward.smooth_states(made, forward_backward.scale_likelihoods(logs), np.array([0, 3]))
    assert expected.smoothed[0, 0] == pytest.approx(1.0)
    assert found.smoothed[:, :2] == pytest.approx(expected.smoothed, abs=CLOSE)
    assert found.filtered[:, :2] == pytest.approx(expected.filtered, abs=CLOSE)
    assert found.log_likelihood[0] == pytest.approx(expected.log_likelihood, rel=CLOSE)
    alpha, total = forward_backward.filter_states(made, forward_backward.scale_likelihoods(logs), np.array([0, 3]))
    assert alpha[:, :2] == pytest.approx(expected.filtered, abs=CLOSE)
    assert total[0] == pytest.approx(expected.log_likelihood, rel=CLOSE)


def test_slow_return_of_a_lost_path_is_found_too() -> None:
    """Each later row takes back 100 nats: no scale is small, yet after nine of them the lost state is the likelier one."""
    made = forward_backward.HiddenChain(np.array([0.5, 0.5]), np.eye(2))
    logs = np.array([[-800.0, 0.0]] + [[0.0, -100.0]] * 12)
    expected = enumerated(made.initial, made.transition, logs)
    two = np.concatenate([logs, logs_of(2, 13)])  # beside a chain that loses nothing
    found = forward_backward.smooth_states(made, forward_backward.scale_likelihoods(two), np.array([0, 13, 26]))
    assert found.smoothed[:13, :2] == pytest.approx(expected.smoothed, abs=CLOSE)
    assert found.log_likelihood[0] == pytest.approx(expected.log_likelihood, rel=CLOSE)
    other = enumerated(made.initial, made.transition, two[13:])
    assert found.pairs == pytest.approx(expected.pairs + other.pairs, abs=CLOSE)


def test_a_row_that_nothing_can_emit_is_named() -> None:
    made = forward_backward.HiddenChain(np.array([1.0, 0.0]), np.eye(2))
    logs = np.zeros((5, 2))
    logs[3] = -np.inf, 0.0
    for attempt in (
        lambda: forward_backward.smooth_states(made, forward_backward.scale_likelihoods(logs), np.array([0, 2, 5])),
        lambda: forward_backward.viterbi_paths(made, logs, np.array([0, 2, 5])),
    ):
        with pytest.raises(DataError, match="row 3 is impossible in every state"):
            attempt()
    assert forward_backward.filter_states(made, forward_backward.scale_likelihoods(logs), np.array([0, 2, 5]))[1].tolist() == [0.0, -np.inf]


def test_long_chains_do_not_underflow() -> None:
    made = states(5)
    logs = logs_of(5, 20_000) * 10
    found = forward_backward.smooth_states(made, forward_backward.scale_likelihoods(logs), np.array([0, 20_000]))
    again = forward_backward.smooth_states_in_logs(made, logs)
    assert found.log_likelihood[0] == pytest.approx(again.log_likelihood[0], rel=1e-12)
    assert found.smoothed[:, :5] == pytest.approx(again.smoothed, abs=1e-9)
