"""Loops over models of many units of which few are on: the compiled ones give the bits of NumPy's, and draws are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from herdcli.fast import numpy_wide


@pytest.fixture(params=["python", "cython"])
def loops(request: pytest.FixtureRequest) -> Any:
    if request.param == "python":
        return numpy_wide
    return pytest.importorskip("herdcli.fast._wide", reason="the compiled loops are not built")


class Model:
    """Weights (D, K) that lag at T places, and hidden states of n rows."""

    def __init__(self, D: int, K: int, T: int = 4, n: int = 3, scale: float = 0.5) -> None:
        random = np.random.default_rng([D, K, T])
        normal = lambda *shape: random.normal(0, scale, shape).astype(np.float32)  # noqa: E731
        self.W, self.V, self.b, self.mean = normal(D, K), normal(D, K), normal(D), np.abs(normal(D))
        self.lag = random.integers(0, T, D).astype(np.int32)
        self.P, self.Q = (np.tile([1, 0, 0, 1], (T, 1)) + normal(T, 4)).astype(np.float32), normal(T, 2, K)
        self.P[-1], self.Q[-1] = (1, 0, 0, 1), 0
        self.h = random.integers(0, 2, (n, K)).astype(np.float32)
        self.now = self.current()
        self.extents = np.empty((3, D), np.float32)
        for x, row in ((self.W, 0), (self.V, 1)):
            self.extents[row] = np.linalg.norm(x, axis=1)

    def current(self) -> tuple[np.ndarray, np.ndarray]:
        """W and V as they are now, float64."""
        p, q, m = self.P[self.lag].astype(np.float64), self.Q[self.lag], self.mean[:, None].astype(np.float64)
        return tuple(p[:, 2 * j, None] * self.W + p[:, 2 * j + 1, None] * self.V - m * q[:, j] for j in (0, 1))

    @property
    def tables(self) -> tuple[np.ndarray, ...]:
        return self.W, self.V, self.lag, self.P, self.Q, self.mean

    @property
    def hidden(self) -> tuple[np.ndarray, ...]:
        return self.W, self.V, self.lag, self.P, np.ascontiguousarray(self.h @ self.Q[:, 0].T), self.b, self.mean, self.h

    def natural(self) -> np.ndarray:
        """x (n, D) float64."""
        return self.b + self.h @ self.now[0].T

    def slack(self, loops: Any) -> np.ndarray:
        far = np.stack((np.abs(1 - self.P[:, 0]) + 1e-4, np.abs(self.P[:, 1]), np.linalg.norm(self.Q[:, 0], axis=1)), axis=1)
        out = np.empty_like(self.b)
        loops.lag_slacks(self.lag, far.astype(np.float32), self.extents, self.mean, self.b, out)
        return out


def entries(D: int, n: int, most: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(D)
    lengths = random.integers(0, most, n)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return starts, random.integers(0, D, starts[-1]).astype(np.int32), random.integers(1, 4, starts[-1]).astype(np.float32)


def moved(loops: Any, model: Model) -> tuple[np.ndarray, ...]:
    """W, V, extents, statistics, products, what follows and the largest weight after a step of the units that rows of `product_entries`
    have."""
    K, D, (starts, units, values) = model.W.shape[1], len(model.W), entries(len(model.W), 6)
    random = np.random.default_rng(1)
    h, signs, above, gradient = (random.normal(0, 1, shape).astype(np.float32) for shape in ((6, K), 6, K, K))
    order, distinct, heads = np.empty(len(units), np.int32), np.empty(len(units), np.int64), np.empty(len(units) + 1, np.int32)
    count = loops.by_unit(units, np.empty(D, np.int32), order, distinct, heads)
    rows, constant = np.repeat(np.arange(6, dtype=np.int32), np.diff(starts)), (np.arange(D) % 5 == 0).astype(np.uint8)
    W, V, extents, statistics, dots = model.W.copy(), model.V.copy(), model.extents.copy(), *np.empty((2, count), np.float32)
    follows, room = np.zeros((2, K), np.float32)
    largest = loops.move_units(
        *(W, V, *model.tables[2:], distinct[:count], heads[: count + 1], rows[order], values[order], h, signs, above, gradient, constant),
        *(0.1, 0.9, 1e-3, 0.0, 1.0, extents, statistics, dots, follows, room),
    )
    return W, V, extents, statistics, dots, follows, np.float32(largest), order, distinct[:count], heads[: count + 1]


@pytest.mark.parametrize(("D", "K"), [(1, 1), (7, 31), (9, 32), (20, 33), (70, 200)])
def test_twins_give_the_same_bits(D: int, K: int) -> None:
    compiled = pytest.importorskip("herdcli.fast._wide", reason="the compiled loops are not built")
    model, found = Model(D, K), []
    starts, units, values = entries(D, 3)
    words = np.random.default_rng(2).integers(0, 2**16, (3, D + 1), dtype=np.uint16)
    for loops in (numpy_wide, compiled):
        rows = np.arange(0, D, 2)
        out = [np.empty((len(rows), K), np.float32) for _ in "WV"]
        loops.current_rows(*model.tables[:2], rows, *model.tables[2:], *out)
        lengths, reaches, product = np.empty(D, np.float32), np.empty(D, np.float32), np.empty((3, K), np.float32)
        loops.row_extents(model.W, -1.0, 1.0, lengths, reaches)
        loops.shown_product(*model.tables, starts, units, values, product)
        heads, listed, x, raw = np.empty(4, np.int32), np.empty(3 * D, np.int32), np.empty(len(units), np.float32), np.empty(5, np.uint64)
        count = loops.list_below(model.h @ model.W.T, model.b, words, heads, listed)
        loops.natural_at(*model.hidden, starts, units, x)
        loops.fill_words(2**63 + 5, raw)
        found.append(
            [*out, lengths, reaches, product, heads, listed[:count], x, raw, model.slack(loops), *moved(loops, model), *drawn(loops, model)]
        )
    for mine, other in zip(*found, strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_array_equal(mine, other)


def drawn(loops: Any, model: Model, length: int = 20) -> tuple[np.ndarray, ...]:
    """Words of each row, and how many were tried, proposed by the largest natural parameter of any row and a little more."""
    upper = (model.natural().max(axis=0) + 0.3).astype(np.float32)
    sums, guide = np.cumsum(np.exp(upper.astype(np.float64))), np.empty(len(upper), np.int32)
    loops.guide_table(sums, guide)
    n, reach = len(model.h), np.linalg.norm(model.h, axis=1).astype(np.float32) + 1
    words = np.empty(n * length, np.int32)
    seeds = np.random.default_rng(3).integers(0, 2**63, n).astype(np.uint64)
    tries = loops.draw_words(*model.hidden, model.slack(loops), reach, upper, sums, guide, np.full(n, length), seeds, words)
    return words, np.array([tries]), guide


def test_words_are_drawn_by_their_shares(loops: Any) -> None:
    """Against the softmax of all words by the weights as they are now, which are far from those as they were."""
    model, length = Model(6, 5), 20000
    words, tries, _ = drawn(loops, model, length)
    assert tries[0] > 3 * length
    shares = np.exp(model.natural())
    shares /= shares.sum(axis=1, keepdims=True)
    for row, expected in zip(words.reshape(3, -1), length * shares, strict=True):
        counts = np.bincount(row, minlength=6)
        assert (np.square(counts - expected) / expected).sum() < 20.5  # χ² of five degrees of freedom, p = .001


def test_no_unit_that_is_on_is_left_out_of_the_list(loops: Any) -> None:
    random = np.random.default_rng(0)
    natural = random.normal(0, 6, (40, 101)).astype(np.float32)
    bias = np.full(101, 1e-4, np.float32)
    words = random.integers(0, 2**16, (40, 102), dtype=np.uint16)
    words[:, :20] = np.clip(2.0**16 * expit(natural[:, :20].astype(np.float64)), 0, 2**16 - 1)  # at the border
    starts, listed = np.empty(41, np.int32), np.empty(40 * 101, np.int32)
    count = loops.list_below(natural, bias, words, starts, listed)
    found = np.zeros((40, 101), bool)
    found[np.repeat(np.arange(40), np.diff(starts)), listed[:count]] = True
    on = words[:, :-1] < 2.0**16 * expit(natural.astype(np.float64))
    assert not (on & ~found).any()
    low = natural < -1
    assert found[low].sum() < 1.5 * on[low].sum() + 30


def test_what_weights_have_moved_by_is_within_the_slack(loops: Any) -> None:
    model = Model(50, 40, n=30)
    moved_by = np.abs(model.h @ (model.now[0] - model.W).T)
    bound = model.slack(loops) * np.linalg.norm(model.h, axis=1)[:, None]
    assert (moved_by <= bound).all()
    x = np.empty(50, np.float32)
    loops.natural_at(*model.hidden, np.array([0, 50] + [50] * 29, np.int32), np.arange(50, dtype=np.int32), x)
    np.testing.assert_allclose(x, model.natural()[0], rtol=1e-4, atol=1e-4)


def test_units_move_along_their_gradient(loops: Any) -> None:
    """Momentum, decay and centring of the rows that get one, in float64; the others stay as they are."""
    model = Model(20, 33)
    W, V, extents, statistics, dots, follows, largest, _, units, _ = moved(loops, model)
    starts, all_units, values = entries(20, 6)
    random = np.random.default_rng(1)
    h, signs, above, gradient = (random.normal(0, 1, shape).astype(np.float32).astype(np.float64) for shape in ((6, 33), 6, 33, 33))
    v = np.zeros((6, 20))
    np.add.at(v, (np.repeat(np.arange(6), np.diff(starts)), all_units), values)
    own = v.T @ signs
    G = v.T @ h - np.outer(own, above) - np.outer(model.mean, gradient)
    G[::5] = 0
    change = 0.9 * model.now[1] + 0.1 * (G - 1e-3 * model.now[0])
    expected = model.now[0] + change
    tolerance = {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(W[units], expected[units], **tolerance)
    np.testing.assert_allclose(V[units], change[units], **tolerance)
    np.testing.assert_allclose(statistics, own[units], **tolerance)
    np.testing.assert_allclose(dots, (G @ above)[units], **tolerance)
    np.testing.assert_allclose(follows, (model.mean[:, None] * G)[units].sum(axis=0), **tolerance)
    np.testing.assert_allclose(extents[0, units], np.linalg.norm(expected[units], axis=1), **tolerance)
    np.testing.assert_allclose(extents[1, units], np.linalg.norm(change[units], axis=1), **tolerance)
    np.testing.assert_allclose(extents[2, units], np.maximum(expected[units], 0).sum(axis=1), **tolerance)
    assert largest == pytest.approx(np.abs(expected[units]).max(), rel=1e-5)
    others = np.setdiff1d(np.arange(20), units)
    np.testing.assert_array_equal(W[others], model.W[others])


def test_places_that_are_not_there_are_refused() -> None:
    loops = pytest.importorskip("herdcli.fast._wide", reason="the compiled loops are not built")
    model = Model(4, 3)
    out = np.empty((1, 3), np.float32)
    with pytest.raises(ValueError, match="a row that is not there"):
        loops.current_rows(*model.tables[:2], np.array([4]), *model.tables[2:], out, out.copy())
    with pytest.raises(ValueError, match="a unit that is not there"):
        loops.shown_product(*model.tables, np.array([0, 1], np.int32), np.array([4], np.int32), np.ones(1, np.float32), out)
    model.lag[0] = 4
    with pytest.raises(ValueError, match="a lag beyond the tables"):
        loops.current_rows(*model.tables[:2], np.array([0]), *model.tables[2:], out, out.copy())
