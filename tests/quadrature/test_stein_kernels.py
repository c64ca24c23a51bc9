"""Stein's kernels against derivatives, integrals and a search over all candidates."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage, DataError
from herdcli.quadrature import selection, selection_problem
from herdcli.quadrature.kernels import kernel_parsing, stein_kernels
from herdcli.quadrature.kernels.kernel_functions import GaussianKernel
from herdcli.quadrature.kernels.point_sums import make_point_evaluator
from herdcli.quadrature.kernels.stein_kernels import ScoreTarget, SteinKernel
from herdcli.quadrature.row_groups import make_score_groups, normalise_row_weights
from herdcli.quadrature.rules import sequential_rules

RANDOM = np.random.default_rng(3)
POINTS = RANDOM.normal(size=(60, 3)) * [1.0, 2.0, 0.5]
KERNELS = [f"stein:{base}{metric}" for base in stein_kernels.BASES for metric in (",1.7", ",smpcov")]


def _kernel(text):
    return kernel_parsing.choose_length_scales(kernel_parsing.parse_kernel(text), POINTS, "median", 0)


def _rows(points, precision):
    """Points beside the scores −P x of a Gaussian with this precision."""
    return np.concatenate([points, -points @ precision], axis=1)


def _base(kernel, x, y):
    """k(x, y) itself."""
    R = kernel.metric_factor(len(x))
    q = float(np.square((x - y) @ R).sum())
    return np.exp(-0.5 * q) if kernel.base == "gaussian" else (1.0 + q) ** -0.5


@pytest.mark.parametrize("text", KERNELS)
def test_values_are_the_definition_by_differences(text):
    """∇x·∇y k + ∇x k·s(y) + ∇y k·s(x) + k s(x)·s(y), each derivative a central difference."""
    kernel, h = _kernel(text), 1e-3
    for x, y, s, r in RANDOM.normal(size=(5, 4, 3)):
        steps = h * np.eye(3)
        by_x = np.array([(_base(kernel, x + e, y) - _base(kernel, x - e, y)) / (2 * h) for e in steps])
        by_y = np.array([(_base(kernel, x, y + e) - _base(kernel, x, y - e)) / (2 * h) for e in steps])
        both = sum(
            (_base(kernel, x + e, y + e) - _base(kernel, x + e, y - e) - _base(kernel, x - e, y + e) + _base(kernel, x - e, y - e))
            / (4 * h * h)
            for e in steps
        )
        expected = both + by_x @ r + by_y @ s + _base(kernel, x, y) * (s @ r)
        found = kernel.matrix(np.concatenate([x, s])[None], np.concatenate([y, r])[None])[0, 0]
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(("base", "error"), [("gaussian", 1e-12), ("imq", 1e-8)])
def test_the_mean_under_the_law_of_the_scores_is_0(base, error):
    """By Gauss and Hermite's rule, N(0, 4); under another law it is not 0."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(180)
    rows = _rows(2.0 * nodes[:, None], np.array([[0.25]]))
    at = _rows(np.linspace(-5, 5, 11)[:, None], np.array([[0.25]]))
    kernel = SteinKernel(base, 2.0)
    mean = kernel.matrix(at, rows) @ (weights / weights.sum())
    assert np.abs(mean).max() < error
    narrow = _rows(nodes[:, None], np.array([[0.25]]))
    assert np.abs(kernel.matrix(at, narrow) @ (weights / weights.sum())).max() > 0.05


@pytest.mark.parametrize("text", KERNELS)
def test_columns_are_those_of_the_matrix_far_from_the_origin_too(text):
    kernel, precision = _kernel(text), np.diag([1.0, 0.25, 4.0])
    rows = _rows(POINTS, precision)
    rows[:, :3] += 1e5
    K = kernel.matrix(rows, rows)
    points = make_point_evaluator(kernel, rows)
    np.testing.assert_allclose(points.values(rows[7]), K[:, 7], rtol=1e-7, atol=1e-7)
    weights = RANDOM.random(5)
    np.testing.assert_allclose(points.weighted_kernel_sums(rows[:5], weights), K[:, :5] @ weights, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(kernel.diagonal(rows), np.diag(K), rtol=1e-8)
    near = kernel.matrix(_rows(POINTS, precision), _rows(POINTS, precision))
    np.testing.assert_allclose(K, near, rtol=1e-7, atol=1e-7)
    assert np.linalg.eigvalsh(near)[0] > -1e-9


def test_the_metric_is_the_inverse_of_the_covariance():
    R = _kernel("stein:imq,smpcov").metric_factor(3)
    np.testing.assert_allclose(R @ R.T @ np.cov(POINTS, rowvar=False), np.eye(3), atol=1e-10)
    np.testing.assert_array_equal(SteinKernel("imq", 4.0).metric_factor(2), np.eye(2) / 4.0)


def _greedy(K, mean, count):
    """Candidates that make the distance of equal weights least at every step, each tried."""
    chosen = []
    for t in range(1, count + 1):
        own = np.array([K[np.ix_([*chosen, j], [*chosen, j])].sum() / t**2 - 2 * mean[[*chosen, j]].sum() / t for j in range(len(K))])
        chosen.append(int(np.flatnonzero(own <= own.min() + 1e-12)[0]))
    return chosen


def _chosen(kernel, groups, count, rule="greedy"):
    problem = selection_problem.SelectionProblem(
        kernel, tuple(groups), selection_problem.SelectionSettings(sequential_rules.RuleSettings(rule))
    )
    return run_algorithm(selection.AtomSelection(problem)).done[0]


@pytest.mark.parametrize("text", KERNELS)
def test_greedy_takes_what_makes_the_discrepancy_least(text):
    kernel, scores = _kernel(text), -POINTS * [1.0, 0.25, 4.0]
    groups, rows = make_score_groups(normalise_row_weights(POINTS, None, None, None), scores, np.ones(3), 12)
    found = _chosen(kernel, groups, 12)
    K = kernel.matrix(groups[0].points, groups[0].points)
    assert found.index.tolist() == _greedy(K, np.zeros(60), 12)
    assert found.mmd[-1] == pytest.approx(np.sqrt(K[np.ix_(found.index, found.index)].mean()), rel=1e-10)
    np.testing.assert_array_equal(rows[0], np.arange(60))
    assert found.spread == pytest.approx(np.diag(K).mean())


def test_greedy_with_rows_as_target():
    """The rule serves every kernel: with an embedding that is not 0."""
    kernel, X = GaussianKernel(1.3), POINTS
    own = normalise_row_weights(X.copy(), RANDOM.random(60), None, None)
    from herdcli.quadrature.row_groups import make_row_groups

    groups, _ = make_row_groups(own, None, np.ones(3), 9, polish=False)
    K = kernel.matrix(X, X)
    assert _chosen(kernel, groups, 9).index.tolist() == _greedy(K, K @ own.weights, 9)


def test_columns_that_are_scaled_have_their_scores_scaled():
    """The law of x / c has the score c s: the discrepancy is what it would be of rows given in those units."""
    scale, scores = np.array([2.0, 10.0, 0.5]), -POINTS * [1.0, 0.25, 4.0]
    given, _ = make_score_groups(normalise_row_weights(POINTS, None, None, None), scores, scale, 1)
    units, _ = make_score_groups(normalise_row_weights(POINTS / scale, None, None, None), scores * scale, np.ones(3), 1)
    np.testing.assert_array_equal(given[0].points, units[0].points)
    precision = np.diag([1.0, 0.25, 4.0])
    np.testing.assert_allclose(given[0].points[:, 3:], -given[0].points[:, :3] @ (precision * scale**2), rtol=1e-12)


def test_groups_keep_their_own_rows():
    labels = np.arange(60) % 2
    groups, rows = make_score_groups(normalise_row_weights(POINTS, None, labels, ["even", "odd"]), -POINTS, np.ones(3), 4)
    for g, group in enumerate(groups):
        np.testing.assert_array_equal(rows[g], np.arange(g, 60, 2))
        np.testing.assert_array_equal(group.points, np.concatenate([POINTS[g::2], -POINTS[g::2]], axis=1))


@pytest.mark.parametrize("text", ["stein:imq", "stein:gaussian,2.5", "stein:imq,0.25", "stein:imq,smpcov"])
def test_texts_come_back(text):
    assert kernel_parsing.parse_kernel(text).text() == text


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("stein:laplace", "stein is one of stein:imq, stein:gaussian"),
        ("stein:imq+linear", "Stein kernels have no sums and products"),
        ("stein:imq,-1", "a length scale is above 0"),
        ("stein:imq,inf", "a length scale is above 0"),
        ("stein", "stein is one of stein:imq, stein:gaussian"),
    ],
)
def test_texts_that_are_none(text, what):
    with pytest.raises(BadUsage, match="is not a kernel") as error:
        kernel_parsing.parse_kernel(text)
    assert what in error.value.message


def test_what_cannot_be():
    with pytest.raises(DataError, match="the covariance matrix of the columns is singular"):
        stein_kernels.with_covariance_metric(SteinKernel("imq", smpcov=True), np.repeat(POINTS[:, :1], 2, axis=1))
    with pytest.raises(BadUsage, match="cannot sample from this target"):
        ScoreTarget(4).sample(RANDOM, 3)
    with pytest.raises(DataError, match="needs one column of scores"):
        SteinKernel("imq", 1.0).check(np.zeros((2, 3)))
