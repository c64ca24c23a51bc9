"""Fully visible herding: exact maximisers, periodic sequences, convergence; feature bookkeeping."""

from __future__ import annotations

import copy
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from herdcli.errors import BadUsage, DataError
from herdcli.herding import maximisers, visible_herding
from herdcli.herding.binary_features import (
    feature_count,
    feature_sums,
    find_varying_units,
    pack_bits,
    pack_rows,
    to_unit_values,
    units_from_feature_count,
    unpack_bits,
)


def finish(problem):
    state = visible_herding.VisibleHerding(problem).init()
    while state.iteration < problem.settings.iterations:
        state = visible_herding.VisibleHerding(problem).step(state)
    return state.runs[0]


def states_of(run, D, representation="spin"):
    return to_unit_values(np.unpackbits(run.states, axis=1, count=D, bitorder="little") == 1, representation).astype(int)


def phi(x, features):
    x = np.asarray(x)
    return x if features == "x" else np.concatenate([x, [x[i] * x[j] for i in range(len(x)) for j in range(i + 1, len(x))]])


@pytest.mark.parametrize("features", ["x", "x,xx"])
@pytest.mark.parametrize("representation", ["spin", "binary"])
def test_scores_of_all_states_equal_the_definition(features, representation):
    D = 5
    w = np.random.default_rng(1).integers(-9, 10, feature_count(D, features))
    states = maximisers.enumerate_states(D, representation)
    low = -1 if representation == "spin" else 0
    assert sorted(map(tuple, states.tolist())) == sorted(product((low, 1), repeat=D))
    expected = [phi(x, features) @ w for x in states.astype(int)]
    np.testing.assert_array_equal(maximisers.enumerate_scores(w, D, features, representation), expected)
    np.testing.assert_array_equal(maximisers.score_rows(w, states, features), expected)
    best = maximisers.maximise_by_enumeration(w, D, features, representation)
    assert phi(best.astype(int), features) @ w == max(expected)


@pytest.mark.parametrize("representation", ["spin", "binary"])
def test_coordinate_ascent_ends_where_no_single_flip_gains(representation):
    draws = np.random.default_rng(2)
    for _ in range(20):
        D = 12
        w = draws.normal(size=feature_count(D, "x,xx"))
        start = to_unit_values(draws.random(D) < 0.5, representation)
        found = maximisers.maximise_by_coordinates(w, start, "x,xx", representation).astype(int)
        score = phi(found, "x,xx") @ w
        assert score >= phi(start.astype(int), "x,xx") @ w
        total = 0 if representation == "spin" else 1
        for i in range(D):
            flipped = found.copy()
            flipped[i] = total - flipped[i]
            assert phi(flipped, "x,xx") @ w <= score + 1e-12


@pytest.mark.parametrize("maximiser", ["exact", "enumerate", "coordinates"])
def test_rational_means_give_a_periodic_sequence_with_exact_means(maximiser):
    """Means p/6 of independent bits: after 6 (binary) iterations the counts are exact and the sequence starts again."""
    mean = np.array([1, 2, 3, 5]) / 6
    settings = visible_herding.VisibleHerdingSettings(maximiser=maximiser, iterations=60, burn_in=0, representation="binary")
    run = finish(visible_herding.VisibleHerdingProblem((visible_herding.source_from_moments(mean, 4, "x", "binary"),), settings))
    x = states_of(run, 4, "binary")
    np.testing.assert_array_equal(x[6:], x[:-6])
    np.testing.assert_array_equal(x[:6].sum(axis=0), [1, 2, 3, 5])
    np.testing.assert_array_equal(run.counts, [10, 20, 30, 50])


def test_exact_sequence_from_rows_equals_fractions():
    """Moments from data stay exact: the integers N w_t against rational arithmetic, ties included."""
    X = to_unit_values(np.random.default_rng(3).random((7, 4)) < 0.4, "spin").astype(int)
    settings = visible_herding.VisibleHerdingSettings(features="x,xx", maximiser="enumerate", iterations=300, burn_in=0)
    run = finish(visible_herding.VisibleHerdingProblem((visible_herding.source_from_rows(X.astype(np.int8), "x,xx"),), settings))
    mu = [Fraction(int(total), 7) for total in sum(phi(x, "x,xx") for x in X)]
    w, states = [Fraction(0)] * 10, maximisers.enumerate_states(4, "spin").astype(int)
    table = [[int(f) for f in phi(x, "x,xx")] for x in states]
    for chosen in states_of(run, 4):
        best = max(sum(a * b for a, b in zip(w, row, strict=True)) for row in table)
        mine = phi(chosen, "x,xx")
        assert sum(a * int(b) for a, b in zip(w, mine, strict=True)) == best
        w = [a + m - int(f) for a, m, f in zip(w, mu, mine, strict=True)]
    assert [
        Fraction(int(n), 7)
        for n in visible_herding.current_weights(visible_herding.source_from_rows(X.astype(np.int8), "x,xx"), run, 300, "x,xx")
    ] == w


def test_rationally_independent_means_converge_to_the_product_distribution():
    mean = np.array([np.sqrt(2) - 1, np.sqrt(3) - 1.5, np.sqrt(5) - 2.1])
    errors = []
    for T in (300, 30_000):
        settings = visible_herding.VisibleHerdingSettings(iterations=T, burn_in=0)
        x = states_of(
            finish(visible_herding.VisibleHerdingProblem((visible_herding.source_from_moments(mean, 3, "x", "spin"),), settings)), 3
        )
        found = np.bincount((x > 0) @ [1, 2, 4], minlength=8) / T
        on = (1 + mean) / 2
        expected = [np.prod(np.where(bits, on, 1 - on)) for bits in (maximisers.enumerate_states(3, "spin") > 0)]
        errors.append(np.abs(found - expected).max())
    assert errors[1] < 1e-3
    assert errors[1] < errors[0] / 10


def test_moment_error_of_an_enumerated_maximiser_falls_as_one_over_t():
    """‖w_t‖ is bounded by the feature norm R: ‖μ − mean‖ ≤ 2R/t for feasible moments (w_0 = 0)."""
    X = to_unit_values(np.random.default_rng(4).random((50, 6)) < 0.3, "spin")
    settings = visible_herding.VisibleHerdingSettings(features="x,xx", maximiser="enumerate", iterations=3000, burn_in=0)
    run = finish(visible_herding.VisibleHerdingProblem((visible_herding.source_from_rows(X, "x,xx"),), settings))
    assert run.weight_norm.max() < 2 * np.sqrt(21) * 3
    assert run.weight_norm[2000:].max() < 1.5 * run.weight_norm[:1000].max()


def test_rows_as_features_draw_on_every_row_alike():
    """Fig. 1's circle: x = −π + i, Φ = (sin x, cos x), uniform over the rows."""
    x = -np.pi + np.arange(7)
    vectors = np.column_stack([np.sin(x), np.cos(x)])
    settings = visible_herding.VisibleHerdingSettings(features="rows", maximiser="rows", iterations=700, burn_in=0)
    source = visible_herding.source_from_vectors(vectors)
    run = finish(visible_herding.VisibleHerdingProblem((source,), settings))
    assert run.counts.sum() == 700
    np.testing.assert_allclose(run.counts @ vectors / 700, vectors.mean(axis=0), atol=4 / 700)
    w = 700 * vectors.mean(axis=0) - run.counts @ vectors
    np.testing.assert_allclose(visible_herding.current_weights(source, run, 700, "rows"), w, atol=1e-12)
    assert run.weight_norm.max() < 2


def test_start_scale_and_offset_give_the_same_states():
    """Prop. 4 for a visible model: weights shifted and rescaled with their updates choose the same states."""
    mean = np.array([np.sqrt(2) - 1, 1 - np.sqrt(2) / 2, np.sqrt(5) - 2.1, np.pi - 3])  # irrational: no ties for rounding to break
    settings = visible_herding.VisibleHerdingSettings(iterations=500, burn_in=0)
    source = visible_herding.source_from_moments(mean, 4, "x", "spin")
    offset = np.array([0.7, -1.1, 0.2, 3.0])
    started = finish(
        visible_herding.VisibleHerdingProblem((visible_herding.MomentSource(4, 0, mean, source.candidates, offset),), settings)
    )
    w, chosen = 5.0 * offset, []
    for _ in range(500):  # step size 5, from 5 w_0
        chosen.append(np.where(w >= 0, 1, -1))
        w = w + 5.0 * (mean - chosen[-1])
    np.testing.assert_array_equal(states_of(started, 4), chosen)


def test_resumed_run_equals_an_uninterrupted_one(monkeypatch):
    monkeypatch.setattr(visible_herding, "BLOCK", 7)
    X = to_unit_values(np.random.default_rng(5).random((20, 5)) < 0.5, "spin")
    settings = visible_herding.VisibleHerdingSettings(features="x,xx", maximiser="coordinates", iterations=100, burn_in=50)
    problem = visible_herding.VisibleHerdingProblem((visible_herding.source_from_rows(X, "x,xx"),), settings, X[:4])
    state = visible_herding.VisibleHerding(problem).init()
    for _ in range(5):
        state = visible_herding.VisibleHerding(problem).step(state)
    saved = copy.deepcopy(state)
    ends = []
    for now in (state, saved):
        while now.iteration < 100:
            now = visible_herding.VisibleHerding(problem).step(now)
        ends.append(now.runs[0])
    for name, item in vars(ends[0]).items():
        np.testing.assert_array_equal(item, getattr(ends[1], name), err_msg=name)
    assert ends[0].averaged == 50
    assert np.abs(ends[0].energy).max() > 0


def test_packed_rows_come_back():
    draws = np.random.default_rng(6)
    for shape in [(1, 1), (3, 64), (65, 7), (130, 129)]:
        on = draws.random(shape) < 0.5
        np.testing.assert_array_equal(unpack_bits(pack_bits(on), shape[1]), on)
        rows = pack_rows(on, "spin")
        np.testing.assert_array_equal(rows.total, np.where(on, 1, -1).sum(axis=0))
        np.testing.assert_array_equal(unpack_bits(rows.columns, shape[0]), on.T)
        np.testing.assert_array_equal(rows.row(shape[0] - 1, "binary"), on[-1])


def test_feature_sums_are_those_of_the_rows():
    X = to_unit_values(np.random.default_rng(7).random((9, 4)) < 0.5, "binary").astype(int)
    np.testing.assert_array_equal(feature_sums(X, "x,xx"), sum(phi(x, "x,xx") for x in X))
    assert units_from_feature_count(feature_count(4, "x,xx"), "x,xx") == 4
    with pytest.raises(DataError, match="the number of moments is 7"):
        units_from_feature_count(7, "x,xx")


def test_constant_units_and_single_rows_are_found():
    on = np.array([[1, 0, 1], [1, 0, 0]], dtype=bool)
    np.testing.assert_array_equal(find_varying_units(on, np.arange(len(on))), [2])
    with pytest.raises(DataError, match="two distinct"):
        find_varying_units(on, np.array([0, 0]))
    with pytest.raises(DataError, match="two distinct"):
        visible_herding.source_from_vectors(np.ones((3, 2)))


def test_settings_that_cannot_be_run_are_refused():
    moments = visible_herding.source_from_moments(np.zeros(21), 21, "x", "spin")
    with pytest.raises(BadUsage, match="handles at most 20 units"):
        visible_herding.VisibleHerdingProblem((moments,), visible_herding.VisibleHerdingSettings(maximiser="enumerate"))
    with pytest.raises(BadUsage, match="only moments"):
        visible_herding.VisibleHerdingProblem((moments,), visible_herding.VisibleHerdingSettings(maximiser="rows"))
    for options in ({"features": "x,xx"}, {"features": "rows", "maximiser": "enumerate"}, {"burn_in": 5, "iterations": 5}):
        with pytest.raises(BadUsage):
            visible_herding.VisibleHerdingSettings(**options)
    with pytest.raises(DataError, match="but must be from 0 to 1"):
        visible_herding.source_from_moments(np.array([0.2, -0.1]), 2, "x", "binary")
    with pytest.raises(DataError, match="3 moments"):
        visible_herding.source_from_moments(np.zeros(3), 2, "x", "spin")


def test_two_distinct_rows_are_enough():
    source = visible_herding.source_from_vectors(np.array([[1.0, 2.0], [3.0, 6.0], [1.0, 2.0]]))
    np.testing.assert_allclose(source.moment, [5 / 3, 10 / 3])
