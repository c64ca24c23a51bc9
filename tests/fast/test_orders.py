"""Orders of elimination: both loops alike, in prices of every kind, given up where they should be, and bad graphs refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from herdcli import fast
from herdcli.fast import numpy_orders
from herdcli.markov.exact import elimination

FREE = [math.inf, 1e9, -math.inf, 1e9, 1e9]


def random_graph(seed, count, share):
    """Neighbours by chance, of 2 to 5 states each; one variable has none."""
    random = np.random.default_rng(seed)
    joined = np.triu(random.random((count, count)) < share, 1)
    joined[:, 3] = joined[3] = False
    joined |= joined.T
    made = elimination.flatten_graph([set(np.flatnonzero(row).tolist()) for row in joined])
    return made, random.integers(2, 6, count).astype(np.float64), random


def everything(loops, kind, limits, seed, share):
    graph, states, random = random_graph(seed, 30, share)
    weight, ties = np.log2(states), random.random(30).round(1)
    noise = np.where(random.random(30) < 0.5, 1.0, np.exp(0.3 * random.standard_normal(30)))
    greedy, line = np.full(30, -1), np.full(30, -1)
    told = loops.greedy_elimination(graph.offset, graph.near, states, weight, kind, ties, noise, np.array(limits), greedy)
    along = loops.elimination_along(graph.offset, graph.near, states, np.argsort(ties, kind="stable")[:17])
    by_tie = np.argsort(ties, kind="stable")
    complete = loops.elimination_line(graph.offset, graph.near, weight, by_tie, limits[0], line)
    return greedy, told, along, complete, line if complete else None


@pytest.mark.parametrize(("cells", "share"), [(4, 0.1), (64, 0.1), (64, 0.4), (1e9, 0.2)])
def test_both_loops_reach_the_same_variables(cells, share):
    for seed in range(4):
        graph, states, random = random_graph(seed, 30, share)
        states[7] = 1.0
        wanted, held = random.integers(0, 2, 30).astype(np.uint8), (random.random(30) < 0.2).astype(np.uint8)
        made = [np.full(30, -1), np.full(30, -1)]
        loops = (fast, numpy_orders)
        counts = [
            each.elimination_reached(graph.offset, graph.near, states, cells, wanted, held, order)
            for each, order in zip(loops, made, strict=True)
        ]
        assert counts[0] == counts[1]
        assert np.array_equal(*made)
        assert not held[made[0][: counts[0]]].any()
        assert 7 not in made[0]
        assert counts[0] == int(((held == 0) & (states > 1)).sum()) or cells < 1e9


@pytest.mark.parametrize("kind", elimination.KINDS)
@pytest.mark.parametrize(
    ("limits", "share"), [(FREE, 0.1), (FREE, 0.5), ([500.0, 1e9, -math.inf, 1e9, 1e9], 0.2), ([math.inf, 4, 0, 50, 10], 0.15)]
)
def test_both_loops_find_the_same_orders_to_the_bit(kind, limits, share):
    for seed in range(3):
        here, twin = everything(fast, kind, limits, seed, share), everything(numpy_orders, kind, limits, seed, share)
        for one, other in zip(here[:2] + here[3:], twin[:2] + twin[3:], strict=True):
            assert np.array_equal(one, other) or one is other
        assert all(np.array_equal(one, other) for one, other in zip(here[2], twin[2], strict=True))
        assert here[1][0] == 30 or limits is not FREE
        assert sorted(here[0].tolist()) == list(range(30)) or limits is not FREE


def test_bad_graphs_are_refused():
    if fast.loops_in_use() != "cython":
        pytest.skip("the NumPy loops raise what NumPy raises")
    one, order = np.ones(2), np.zeros(2, dtype=np.int64)
    for offset, near in (([0, 1, 2], [1, 2]), ([0, 1, 2], [0, 0]), ([0, 2, 2], [1, 1]), ([0, 3, 2], [1, 0]), ([1, 1, 2], [1, 0])):
        with pytest.raises(ValueError, match="no graph"):
            fast.elimination_along(np.array(offset), np.array(near), one, order)
    graph = np.array([0, 1, 2]), np.array([1, 0])
    with pytest.raises(ValueError, match="no such variable"):
        fast.elimination_along(*graph, one, np.array([2]))
    with pytest.raises(ValueError, match="no such variable"):
        fast.elimination_line(*graph, one, np.array([0, -1]), 1.0, order)
    flags = np.zeros(2, dtype=np.uint8)
    with pytest.raises(ValueError, match="one length"):
        fast.elimination_reached(*graph, one, 4.0, flags, flags[:1], order)
    with pytest.raises(ValueError, match="one length"):
        fast.greedy_elimination(*graph, one, one, "fill", one[:1], one, np.ones(5), order)
