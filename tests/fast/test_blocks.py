"""Blocks drawn at once and the exchange of parts: both loops alike, the shares those of all states, and bad arrays refused."""

from __future__ import annotations

import numpy as np
import pytest
from small_networks import random_network, weights

from herdcli import fast
from herdcli.fast import numpy_blocks
from herdcli.markov.model.stacked_tables import state_offsets
from herdcli.markov.query.chains import chain_samples as sampling
from herdcli.markov.query.chains.block_programs import compile_block


def drawn(given, cells, draw, seed=0):
    """x and shares after every block was drawn once by a loop, and how many sums were lost."""
    random, states, first = np.random.default_rng(seed), given.cardinality.tolist(), state_offsets(given)
    x = np.zeros((given.count, 8), dtype=np.int64)
    shares, lost = np.ones((int(first[-1]), 8)), 0
    for block in sampling.partition_into_blocks(given, cells):
        made = compile_block(block, states, first)
        uniform = random.random((made.count, 8))
        lost += draw(*made.arrays, made.tables(1.0), x, uniform, made.messages, made.own, shares)
    return x, shares, lost


@pytest.mark.parametrize("cells", [6, 30, 1 << 20])
@pytest.mark.parametrize("seed", range(3))
def test_both_loops_draw_the_same_bits(cells, seed):
    given = random_network(seed, False, 9)
    here, twin = (drawn(given, cells, draw) for draw in (fast.draw_block, numpy_blocks.draw_block))
    assert here[0].tobytes() == twin[0].tobytes()
    assert here[1].tobytes() == twin[1].tobytes()
    assert here[2] == twin[2] == 0


def test_the_last_variable_of_one_block_has_its_marginal_as_chance():
    given = random_network(1, False, 7)
    (block,) = sampling.partition_into_blocks(given, 1 << 20)
    truth, i, first = weights(given), block.order[-1], state_offsets(given)
    _, shares, _ = drawn(given, 1 << 20, fast.draw_block)
    exact = np.bincount([x[i] for x in truth], weights=list(truth.values()), minlength=int(given.cardinality[i]))
    np.testing.assert_allclose(shares[first[i] : first[i + 1]].T, np.tile(exact / exact.sum(), (8, 1)), rtol=1e-12)


def test_a_state_without_probability_is_told():
    from herdcli.markov.model import network

    given = network.build_network([2, 2], [((0, 1), np.array([[0.0, 0.0], [0.0, 1.0]]))])
    for draw in (fast.draw_block, numpy_blocks.draw_block):
        assert drawn(given, 2, draw)[2] > 0  # each by itself, the other at 0


def test_parts_that_differ_are_exchanged_or_not_as_a_whole():
    first, near = np.array([0, 1, 2, 3, 4, 4]), np.array([1, 0, 3, 2])  # 0–1, 2–3, 4 alone
    begin = np.array([[0, 1, 9], [1, 0, 9], [2, 0, 9], [0, 2, 9], [5, 5, 9]], dtype=np.int64)
    coins = np.array([0.1, 0.9, 0.9, 0.1, 0.1])
    for exchange in (fast.exchange, numpy_blocks.exchange):
        x = begin.copy()
        exchange(first, near, x, 0, 1, coins)
        assert x.tolist() == [[1, 0, 9], [0, 1, 9], [2, 0, 9], [0, 2, 9], [5, 5, 9]]
    random = np.random.default_rng(0)
    given = random_network(4, False, 12)
    from herdcli.markov.exact.elimination import moral_graph

    graph = [sorted(each) for each in moral_graph(given)]
    first = np.concatenate([[0], np.cumsum([len(each) for each in graph])]).astype(np.int64)
    near = np.array([j for each in graph for j in each], dtype=np.int64)
    for _ in range(20):
        begin, coins = random.integers(2, size=(12, 4)), random.random(12)
        here, twin = begin.copy(), begin.copy()
        fast.exchange(first, near, here, 1, 3, coins)
        numpy_blocks.exchange(first, near, twin, 1, 3, coins)
        assert here.tobytes() == twin.tobytes()
        assert (np.sort(here[:, [1, 3]], axis=1) == np.sort(begin[:, [1, 3]], axis=1)).all()


def test_arrays_of_other_shapes_are_refused():
    compiled = pytest.importorskip("herdcli.fast._blocks", reason="the compiled loops are not built")
    with pytest.raises(ValueError, match="arrays of different shapes"):
        compiled.exchange(np.zeros(3, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros((3, 2), dtype=np.int64), 0, 1, np.zeros(3))
    given = random_network(0, False, 6)
    (block,) = sampling.partition_into_blocks(given, 1 << 20)
    made = compile_block(block, given.cardinality.tolist(), state_offsets(given))
    for lanes, rows in ((7, 6), (8, 1)):
        with pytest.raises(ValueError, match="eight chains" if lanes == 7 else "different shapes"):
            compiled.draw_block(
                *made.arrays, made.tables(1.0), np.zeros((6, lanes), dtype=np.int64), np.zeros((rows, lanes)),
                made.messages[:, :lanes].copy(), made.own[:, :lanes].copy(), np.zeros((30, lanes)),
            )  # fmt: skip


@pytest.mark.parametrize("cells", [6, 30, 1 << 20])
def test_both_loops_have_the_same_marginals_of_a_block(cells):
    for seed in range(2):
        given = random_network(seed, False, 9)
        states, first = given.cardinality.tolist(), state_offsets(given)
        x, uniform = np.zeros((9, 8), dtype=np.int64), np.random.default_rng(seed).random((9, 8))
        for block in sampling.partition_into_blocks(given, cells):
            made = compile_block(block, states, first)
            fast.draw_block(*made.arrays, made.tables(1.0), x, uniform, made.messages, made.own, np.empty((int(first[-1]), 8)))
            here, twin = np.zeros((2, int(first[-1]), 8))
            made.marginals(here)
            numpy_blocks.block_marginals(*made.arrays, made.messages, made.own, np.empty(made.messages.shape), twin)
            assert here.tobytes() == twin.tobytes()


def test_marginals_of_a_block_are_those_given_what_is_held():
    given = random_network(2, False, 7)
    truth, first = weights(given), state_offsets(given)
    x = np.tile(np.array([[int(n > 1)] for n in given.cardinality]), 8)
    (block, *_) = sampling.partition_into_blocks(given, 12)
    made, held = compile_block(block, given.cardinality.tolist(), first), [i for i in range(7) if i not in block.order]
    assert held
    assert len(block.order) > 2
    begin, shares = x[:, 0].copy(), np.zeros((int(first[-1]), 8))
    assert made.draw_states(x, np.random.default_rng(0).random((made.count, 8)), shares, made.tables(1.0))
    made.marginals(shares)
    some = {state: p for state, p in truth.items() if all(state[i] == begin[i] for i in held)}
    for i in block.order:
        exact = np.bincount([state[i] for state in some], weights=list(some.values()), minlength=int(given.cardinality[i]))
        np.testing.assert_allclose(shares[first[i] : first[i + 1]].T, np.tile(exact / exact.sum(), (8, 1)), rtol=1e-10)


def test_programs_of_other_shapes_are_refused_for_marginals():
    compiled = pytest.importorskip("herdcli.fast._blocks", reason="the compiled loops are not built")
    given = random_network(0, False, 6)
    (block,) = sampling.partition_into_blocks(given, 1 << 20)
    made = compile_block(block, given.cardinality.tolist(), state_offsets(given))
    for lanes, rows, message in ((7, len(made.messages), "eight chains"), (8, 0, "different shapes")):
        with pytest.raises(ValueError, match=message):
            compiled.block_marginals(*made.arrays, made.messages, made.own, np.empty((rows, lanes)), np.empty((30, 8)))
    assert (
        compiled.block_marginals(
            *compile_block(sampling.VariableBlock((), (), 0), [], state_offsets(given)).arrays, *(np.empty((1, 8)),) * 4
        )
        is None
    )
