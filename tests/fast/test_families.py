"""Counts and scores of families: both loops alike, right by plain counting, and bad arrays refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from herdcli import fast
from herdcli.fast import numpy_families

STATES, FIRST, SHARED = np.array([3, 2, 4, 5, 256]), np.array([0, 2, 4, 5]), 6


def groups(seed: int, rows: int = 500) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """States of five variables in three groups, the joint state of each group, and that of the shared variables."""
    random = np.random.default_rng(seed)
    x = random.integers(0, STATES[:, None], (5, rows))
    return x, np.array([x[0] * 2 + x[1], x[2] * 5 + x[3], x[4]]).astype(np.uint8), random.integers(0, SHARED, rows).astype(np.int32)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("wanted", [[0, 1, 2, 3, 4], [1, 4], [2], []])
def test_variables_of_groups_are_counted_as_by_themselves(wanted, weighted):
    x, packed, code = groups(0)
    weight = np.random.default_rng(1).exponential(size=x.shape[1]) if weighted else np.empty(0)
    start, total = np.full(5, -1), 0
    for k in wanted:
        start[k], total = total, total + STATES[k] * SHARED
    found = []
    for loop in (fast.count_added_variables, numpy_families.count_added_variables):
        out = np.zeros(total + 7)
        loop(code, SHARED, packed, FIRST, STATES, start, weight, out)
        found.append(out)
    assert found[0].tobytes() == found[1].tobytes()
    assert not found[0][total:].any()
    for k in wanted:
        right = np.bincount(x[k] * SHARED + code, weight if weighted else None, STATES[k] * SHARED)
        np.testing.assert_allclose(found[0][start[k] : start[k] + len(right)], right, rtol=1e-13)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_terms_are_summed_by_both_loops_alike(alpha):
    random = np.random.default_rng(2)
    rows, states = np.array([4, 1, 6]), 3
    tables = random.integers(0, 3, 33).astype(float)
    tables[:3] = 0
    alphas = alpha * np.array([1.0, 2.0, 3.0])
    made = []
    for name in (fast, numpy_families):
        scratch = np.zeros(44)
        values = np.cos(scratch[: name.gather_arguments(tables, rows, states, alphas, scratch)])
        out = np.empty(3)
        name.sum_terms(tables, rows, states, values, np.cos(alphas), np.cos(3 * alphas), out)
        made.append(out)
    assert made[0].tobytes() == made[1].tobytes()
    row = 0
    for k, count in enumerate(rows):
        own = tables.reshape(-1, 3)[row : row + count]
        right = sum(math.cos(n + alphas[k]) - math.cos(alphas[k]) for n in own.ravel())
        right += sum(math.cos(3 * alphas[k]) - math.cos(n + 3 * alphas[k]) for n in own.sum(axis=1))
        assert made[0][k] == pytest.approx(right, rel=1e-12)
        row += count


def random_graph(seed: int, count: int = 7) -> tuple[np.ndarray, ...]:
    """An acyclic graph, its paths, gains with ties, and what is allowed and required."""
    random = np.random.default_rng(seed)
    order = random.permutation(count)
    edge = np.zeros((count, count), dtype=bool)
    edge[np.ix_(order, order)] = np.triu(random.random((count, count)) < 0.3, 1)
    below = np.linalg.matrix_power(np.eye(count, dtype=int) + edge, count) - np.eye(count, dtype=int) > 0
    add, away = random.integers(-3, 4, (2, count, count)).astype(float)
    allowed = (random.random((count, count)) < 0.8) & ~np.eye(count, dtype=bool)
    return edge, add, away, below, allowed, edge & (random.random((count, count)) < 0.2)


@pytest.mark.parametrize("seed", range(25))
def test_the_best_change_is_the_first_of_the_best_by_trying_all(seed):
    edge, add, away, below, allowed, required = random_graph(seed)
    count, most, needed = len(edge), 2, 1.5
    recent = np.random.default_rng(seed).integers(0, count, (seed % 4, 2))
    pairs = {frozenset(pair) for pair in recent.tolist()}
    best = (0, 0, 0, -math.inf)
    for kind in range(3):
        for i in range(count):
            for j in range(count):
                other = edge.copy()
                if kind == 0 and not edge[i, j] and allowed[i, j]:
                    other[i, j], worth = True, add[i, j]
                elif kind == 1 and edge[i, j] and not required[i, j]:
                    other[i, j], worth = False, away[i, j]
                elif kind == 2 and edge[i, j] and not required[i, j] and allowed[j, i]:
                    other[i, j], other[j, i], worth = False, True, away[i, j] + add[j, i]
                else:
                    continue
                closed = np.linalg.matrix_power(other.astype(int), count).any()
                crowded = ((other.sum(axis=0) > most) & (other.sum(axis=0) > edge.sum(axis=0))).any()
                if not closed and not crowded and (worth > needed or frozenset((i, j)) not in pairs) and worth > best[3]:
                    best = (kind, i, j, worth)
    for loop in (fast.best_change, numpy_families.best_change):
        assert loop(edge, add, away, below, allowed, required, recent, most, needed, 1e-9) == best


def test_no_change_is_left():
    none, all_pairs = np.zeros((2, 2), dtype=bool), ~np.eye(2, dtype=bool)
    gains = np.ones((2, 2))
    for loop in (fast.best_change, numpy_families.best_change):
        found = loop(none, gains, gains, none, none, none, np.empty((0, 2), dtype=np.int64), 3, 0.0, 1e-9)
        assert found[3] == -math.inf
        assert loop(none, gains, gains, none, all_pairs, none, np.array([[1, 0]]), 3, 2.0, 1e-9)[3] == -math.inf


def test_arrays_that_do_not_fit_are_refused():
    compiled = pytest.importorskip("herdcli.fast._families", reason="the compiled loops are not built")
    _, packed, code = groups(0)
    start, none, out = np.array([0, -1, -1, -1, -1]), np.empty(0), np.zeros(18)
    count = compiled.count_added_variables
    count(code, SHARED, packed, FIRST, STATES, start, none, out)
    for change in (
        (code[1:], SHARED, packed, FIRST, STATES, start, none, out),
        (code, 5, packed, FIRST, STATES, start, none, out),
        (code, SHARED, packed, FIRST + 1, STATES, start, none, out),
        (code, SHARED, packed, FIRST[[0, 2, 1, 3]], STATES, start, none, out),
        (code, SHARED, packed, FIRST, STATES, start + 1, none, out),
        (code, SHARED, packed, FIRST, STATES * 2**40, start, none, out),
        (code, SHARED, packed, FIRST, STATES, start, np.ones(3), out),
        (code + np.int32(1 << 15), 1 << 16, packed + np.uint8(100), FIRST, STATES, start - 1, none, out),
    ):
        with pytest.raises(ValueError, match=r"fit|length|range|divide"):
            count(*change)
    tables, alpha = np.ones(6), np.zeros(1)
    for rows, states, scratch in ((np.array([3]), 3, 9), (np.array([0]), 3, 9), (np.array([2]), 0, 9), (np.array([2]), 3, 7)):
        with pytest.raises(ValueError, match=r"fit|length|cells"):
            compiled.gather_arguments(tables, rows, states, alpha, np.empty(scratch))
    with pytest.raises(ValueError, match="length"):
        compiled.sum_terms(tables, np.array([2]), 3, np.ones(5), alpha, alpha, np.empty(1))
    edge, add, away, below, allowed, required = random_graph(0)
    recent = np.empty((0, 2), dtype=np.int64)
    for change in ((edge, add[:3], below, recent), (edge[:3], add, below, recent), (edge, add, below, np.array([[0, 7]]))):
        with pytest.raises(ValueError, match=r"shape|no such"):
            compiled.best_change(change[0], change[1], away, change[2], allowed, required, change[3], 2, 0.0, 0.0)
