"""Both loops along chains give the same bits; what they compute is tested against enumeration in tests/em/test_forward_backward.py."""

from __future__ import annotations

import signal

import numpy as np
import pytest

from herdcli import fast
from herdcli.fast import numpy_chain


class Stopped(Exception):
    """What the handler of a signal raises here."""


def stop(number: int, frame: object) -> None:
    raise Stopped


def problem(K: int, lengths: list[int], seed: int) -> dict[str, np.ndarray]:
    random, width = np.random.default_rng(seed), -(-K // 8) * 8
    rows = sum(lengths)
    made = {"b": np.zeros((rows, width)), "transition": np.zeros((K, width)), "backwards": np.zeros((K, width)), "initial": np.zeros(width)}
    made["b"][:, :K] = random.random((rows, K)) * 10.0 ** random.integers(-300, 1, size=(rows, K))
    made["b"][random.random((rows, width)) < 0.2] = 0.0
    transition = random.dirichlet(np.ones(K) * 0.2, K)
    made["transition"][:, :K], made["backwards"][:, :K] = transition, transition.T
    made["initial"][:K] = random.dirichlet(np.ones(K))
    return made | {
        "offsets": np.concatenate([[0], np.cumsum(lengths)]),
        "uniform": random.random(rows),
        "weight": random.random(len(lengths)),
    }


def everything(loops, K: int, made: dict[str, np.ndarray]) -> list[np.ndarray]:
    rows, width = made["b"].shape
    count, offsets = len(made["weight"]), made["offsets"]
    alpha, scale, lost = np.full((rows, width), np.nan), np.full(rows, np.nan), np.full(count, 9, dtype=np.uint8)
    gamma, pairs, high = made["b"].copy(), np.zeros((K, width)), np.full(count, np.nan)
    path, value, draw = np.full(rows, -1), np.full(count, np.nan), np.full(rows, -1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        logs = {name: np.log(made[name]) for name in ("b", "initial", "transition")}
        loops.chain_forward(made["b"], offsets, K, made["initial"], made["transition"], alpha, scale, lost)
        loops.chain_backward(gamma, offsets, K, made["backwards"], alpha, scale, made["weight"], pairs, high)
        loops.chain_viterbi(logs["b"], offsets, K, logs["initial"], logs["transition"], path, value)
        loops.chain_paths(alpha, offsets, K, made["backwards"], made["uniform"], draw)
    return [alpha, scale, lost, gamma, pairs, high, path, value, draw]


@pytest.mark.parametrize(("K", "lengths"), [(1, [1]), (3, [4, 1, 7, 2]), (8, [5, 5]), (11, [30, 1, 12]), (17, [9])])
def test_the_twins_give_the_same_bits(K: int, lengths: list[int]) -> None:
    for seed in range(4):
        made = problem(K, lengths, seed)
        here, twin = everything(fast, K, made), everything(numpy_chain, K, made)
        assert [a.tobytes() for a in here] == [b.tobytes() for b in twin]


def test_shapes_that_do_not_fit_are_refused() -> None:
    if fast.loops_in_use() != "cython":
        pytest.skip("the NumPy loops check no shapes")
    made = problem(3, [4, 2], 0)
    for name, wrong in (("offsets", np.array([0, 4, 4])), ("offsets", np.array([0, 9])), ("initial", np.zeros(3)), ("weight", np.zeros(1))):
        with pytest.raises(ValueError):
            everything(fast, 3, made | {name: wrong})
    with pytest.raises(ValueError):
        everything(fast, 9, made)


def test_stretches_between_looks_at_signals_change_no_bits() -> None:
    """With 1024 states the compiled loops look at signals after each 16 steps."""
    made = problem(1024, [18, 3], 0)
    here, twin = everything(fast, 1024, made), everything(numpy_chain, 1024, made)
    assert [a.tobytes() for a in here] == [b.tobytes() for b in twin]


@pytest.mark.parametrize("name", ["forward", "backward", "viterbi", "paths"])
def test_a_signal_ends_a_call_within_a_long_chain(name: str) -> None:
    """The handler raises in the middle of the call: the steps that come last are never reached."""
    K, rows = 64, 8_000 if fast.loops_in_use() == "python" else 100_000
    b, offsets, matrix, initial = np.full((rows, K), 0.5), np.array([0, rows]), np.full((K, K), 1 / K), np.full(K, 1 / K)
    alpha, scale, out = np.full((rows, K), 0.5), np.full(rows, 0.5), np.full(rows, -1)
    one = np.ones(1)
    calls = {
        "forward": lambda: fast.chain_forward(b, offsets, K, initial, matrix, alpha, scale, np.zeros(1, dtype=np.uint8)),
        "backward": lambda: fast.chain_backward(b, offsets, K, matrix, alpha, scale, one, np.zeros((K, K)), one.copy()),
        "viterbi": lambda: fast.chain_viterbi(b, offsets, K, initial, matrix, out, one),
        "paths": lambda: fast.chain_paths(alpha, offsets, K, matrix, scale * 1.9, out),
    }
    unreached = {"forward": (scale, -1), "backward": (b[:, 0], 0), "viterbi": (out, 0), "paths": (out, 0)}
    array, place = unreached[name]
    before = array[place]
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.004)
    with pytest.raises(Stopped):
        calls[name]()
    assert array[place] == before
