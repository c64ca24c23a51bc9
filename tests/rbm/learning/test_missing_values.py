"""Learning from rows with missing entries: the gradient of log p(v_O), by sums over all states and by chains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage, DataError
from herdcli.rbm.learning import gradients, missing_values, parallel_fits
from herdcli.rbm.learning.learning_problem import LearningProblem
from herdcli.rbm.learning.minibatch_statistics import _read_imputed_rows
from herdcli.rbm.likelihood.enumeration import exact_log_partition, iterate_hidden_states
from herdcli.rbm.model import Harmonium
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.rbm.units import unit_family

RANDOM = np.random.default_rng(4)
D, K, N = 5, 3, 7
PAIRS = [("binary", "binary"), ("spin", "binary"), ("rate:3", "binary"), ("gaussian", "binary"), ("poisson", "spin"), ("binary", "rate:2")]


def model(visible: str, hidden: str) -> Harmonium:
    W, b, c = (RANDOM.normal(0, 0.4, shape).astype(np.float32).astype(np.float64) for shape in ((D, K), D, K))
    return Harmonium(W, b, c, unit_family(visible), unit_family(hidden))


def rows(units: str) -> np.ndarray:
    on = RANDOM.integers(0, 2, (N, D))
    return {"spin": 2 * on - 1, "rate:3": on + RANDOM.integers(0, 3, on.shape), "gaussian": RANDOM.normal(size=on.shape)}.get(
        units, on
    ) * 1.0


def log_marginal(h: Harmonium, v: np.ndarray, known: np.ndarray) -> float:
    """Mean log p(v_O) by all hidden states; the visible units that are not known are summed out one by one."""
    total = 0.0
    for row, given in zip(v, known, strict=True):
        terms = []
        for block in iterate_hidden_states(h):
            for state in block.hidden:
                natural = h.b + h.W @ state
                own = row[given] @ natural[given] + h.c @ state + np.sum(h.hidden.log_base_measure(state[None]))
                terms.append(own + h.visible.log_partition(natural)[~given].sum())
        total += np.logaddexp.reduce(terms) - exact_log_partition(h)
    return total / len(v)


def sweeper(h: Harmonium, seed: int = 0) -> GibbsSweeper:
    parts = (np.ascontiguousarray(part, dtype=np.float32) for part in (h.W, h.b, h.c))
    return GibbsSweeper(*parts, h.visible.layer(), h.hidden.layer(), np.random.default_rng(seed))


@pytest.mark.parametrize(("visible", "hidden"), PAIRS, ids="-".join)
def test_the_exact_gradient_is_the_slope_of_the_likelihood_of_what_is_known(visible: str, hidden: str) -> None:
    h, v, known = model(visible, hidden), rows(visible), RANDOM.random((N, D)) < 0.6
    found = gradients.exact_likelihood_gradient(sweeper(h), h.visible, h.hidden, v.astype(np.float32), known)
    for name in ("W", "b", "c"):
        gradient = getattr(found, name)
        for place in np.ndindex(gradient.shape):
            ends = []
            for step in (1e-4, -1e-4):
                moved = getattr(h, name).copy()
                moved[place] += step
                ends.append(log_marginal(replace(h, **{name: moved}), v, known))
            assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-4, abs=3e-5)


@pytest.mark.parametrize("visible", ["binary", "spin", "gaussian", "poisson"])
def test_chains_draw_the_same_moments(visible: str) -> None:
    h, v, known = model(visible, "binary"), rows(visible).astype(np.float32), RANDOM.random((N, D)) < 0.6
    copies = 3000
    many = missing_values.sample_missing_entries(sweeper(h), np.repeat(v, copies, axis=0), np.repeat(known, copies, axis=0))
    np.testing.assert_array_equal(many[np.repeat(known, copies, axis=0)], np.repeat(v, copies, axis=0)[np.repeat(known, copies, axis=0)])
    _, visible_mean, hidden_mean = missing_values.moments_given_known_entries(h, v.astype(np.float64), known)
    np.testing.assert_allclose(many.mean(axis=0, dtype=np.float64), visible_mean, atol=0.03)
    np.testing.assert_allclose(h.hidden_means(many).mean(axis=0), hidden_mean, atol=0.03)


def test_chains_beside_labels_draw_the_moments_of_all_states() -> None:
    """Rows with a label, which is known: E[v | v_O, y] and E[h | v_O, y] by every state of what is missing and of the hidden units."""
    parts = (RANDOM.normal(0, 0.6, shape) for shape in ((5, 2), 5, 2))
    h = Harmonium(*(part.astype(np.float32).astype(np.float64) for part in parts), unit_family("binary+softmax:2"), unit_family("binary"))
    v = np.array([[1, 0, 1, 1, 0], [0, 0, 1, 0, 1]], dtype=np.float32)
    known = np.array([[True, False, False, True, True], [False, False, True, True, True]])
    many = missing_values.sample_missing_entries(sweeper(h), np.repeat(v, 6000, axis=0), np.repeat(known, 6000, axis=0)).reshape(2, 6000, 5)
    for row, given, drawn in zip(v, known, many, strict=True):
        states = np.tile(row.astype(np.float64), (4, 1))
        states[:, ~given] = list(np.ndindex(2, 2))
        p = np.exp(-h.free_energy(states))
        p /= p.sum()
        np.testing.assert_array_equal(drawn[:, given], np.tile(row[given], (6000, 1)))
        np.testing.assert_allclose(drawn.mean(axis=0), p @ states, atol=0.03)
        np.testing.assert_allclose(h.hidden_means(drawn).mean(axis=0), p @ h.hidden_means(states), atol=0.03)


def test_filled_values_are_those_of_their_columns() -> None:
    X = RANDOM.normal(size=(200, 3))
    X[::3, 1] = np.nan
    found = missing_values.fill_missing_at_random(X, 0)
    assert np.isin(found[::3, 1], X[:, 1]).all()
    np.testing.assert_array_equal(found[~np.isnan(X)], X[~np.isnan(X)])
    np.testing.assert_array_equal(found, missing_values.fill_missing_at_random(X, 0))
    X[:, 2] = np.nan
    with pytest.raises(DataError, match="all values of column 2 of /X are missing"):
        missing_values.fill_missing_at_random(X, 0)


def problem(settings: parallel_fits.Settings, known: np.ndarray, base: np.ndarray) -> LearningProblem:
    index = np.arange(len(base))
    return LearningProblem([parallel_fits.SelectedRows(base, index)], settings, known=[parallel_fits.SelectedRows(known, index)])


def test_what_is_known_of_all_rows_learns_as_whole_rows_do() -> None:
    base = RANDOM.integers(0, 2, (60, 6)).astype(np.int8)
    settings = parallel_fits.Settings(hidden=3, epochs=3)
    whole = run_algorithm(parallel_fits.RBMLearning(LearningProblem([base], settings)))
    found = run_algorithm(parallel_fits.RBMLearning(problem(settings, np.ones((60, 6), dtype=bool), base)))
    np.testing.assert_array_equal(whole.W, found.W)


def test_gaps_do_not_hide_how_columns_go_together() -> None:
    on = RANDOM.integers(0, 2, 2000)
    base = np.stack([on, on, on, on], axis=1).astype(np.int8)
    known = RANDOM.random(base.shape) < 0.7
    torn = np.where(known, base, RANDOM.integers(0, 2, base.shape)).astype(np.int8)
    state = run_algorithm(
        parallel_fits.RBMLearning(problem(parallel_fits.Settings(hidden=2, epochs=15, learning_rate=0.1, centering=True), known, torn))
    )
    W, b, c = (part[0].astype(np.float64) for part in (state.W, state.b, state.c))
    h = Harmonium(W, b, c, unit_family("binary"), unit_family("binary"))
    states = np.array(list(np.ndindex(2, 2, 2, 2)))
    p = np.exp(-h.free_energy(states) - exact_log_partition(h))
    assert p[0] + p[-1] > 0.9  # rows as they were filled have .43 in these two


def test_each_update_draws_anew() -> None:
    base, known = RANDOM.integers(0, 2, (30, 6)).astype(np.int8), RANDOM.random((30, 6)) < 0.5
    given = problem(parallel_fits.Settings(hidden=3), known, base)
    state, order = parallel_fits.RBMLearning(given).init(), np.arange(30)
    first, again, later = (_read_imputed_rows(given, state, 0, order, step) for step in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != later).any()


def test_what_gaps_do_not_go_with_is_refused() -> None:
    base, known = np.eye(6, dtype=np.float32), np.ones((6, 6), dtype=bool)
    with pytest.raises(BadUsage, match="missing values can be sampled only for units with one column, not for softmax:3 units"):
        problem(parallel_fits.Settings(hidden=3, visible_units="softmax:3"), known, np.tile(np.eye(3, dtype=np.float32), (2, 2)))
    joined = parallel_fits.Settings(hidden=3, visible_units="binary+softmax:2", joint="generative", algorithm="exact")
    with pytest.raises(
        BadUsage,
        match="missing values of rows with labels can be sampled only with --labels generative and an algorithm that samples, such as cd",
    ):
        problem(joined, known, np.tile(np.eye(2, dtype=np.float32)[:, [0, 1, 0, 1, 0, 1]], (3, 1)))
    with pytest.raises(BadUsage, match="missing values cannot be sampled with --algorithm pseudo-likelihood"):
        problem(parallel_fits.Settings(hidden=3, algorithm="pseudo-likelihood"), known, base)
