"""What people give: scales of columns, tables of targets, levels and moments of these; exact numbers by hand."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.errors import BadUsage, DataError
from herdcli.quadrature import (
    input_preparation,
)
from herdcli.quadrature.targets import MixtureTarget, MomentTarget, RowTarget, TrigonometricTarget, UniformTarget, make_sign_target

X = np.random.default_rng(3).standard_normal((60, 2))


def test_scales_of_columns_by_hand() -> None:
    table = np.array([[1.0, 5.0, 0.0], [3.0, 5.0, 4.0], [2.0, 5.0, 2.0], [2.0, 5.0, 2.0]])
    for rule, expected in (("none", [1, 1, 1]), ("range", [2, 1, 4]), ("std", [np.sqrt(0.5), 1, np.sqrt(2)])):
        found, constant = input_preparation.choose_column_scales(table, rule)
        np.testing.assert_allclose(found, expected)
        assert constant == ([] if rule == "none" else [1])
    found, constant = input_preparation.choose_column_scales(table, (2.0, 3.0, 4.0))
    assert (found.tolist(), constant) == ([2.0, 3.0, 4.0], [])
    with pytest.raises(BadUsage, match="--scale has 2 numbers, but there are 3 columns"):
        input_preparation.choose_column_scales(table, (2.0, 3.0))
    long = np.random.default_rng(0).random((40_000, 1)) + 5
    np.testing.assert_allclose(input_preparation.choose_column_scales(long, "std")[0], long.std(axis=0), rtol=1e-12)


def test_cubes_have_from_1_to_20_units() -> None:
    assert input_preparation.all_hypercube_states(1).tolist() == [[-1.0], [1.0]]
    for wrong in (0, 21):
        with pytest.raises(BadUsage, match=f"cube:{wrong} is out of range: D must be from 1 to 20"):
            input_preparation.all_hypercube_states(wrong)
    found = input_preparation.make_candidates("cube", 3, MomentTarget(np.zeros(3), None), 0)
    np.testing.assert_array_equal(found @ [1, 2, 4], np.arange(8) * 2 - 7)


def test_tables_of_targets_by_hand() -> None:
    named = input_preparation.parse_mixture_table(np.array([[0.5, 2.0, -1.0, 3.0]]), ["mean1", "sd1", "mean2", "sd2"])
    np.testing.assert_array_equal(named.means, [[0.5, -1.0]])
    np.testing.assert_array_equal(named.covariances, [np.diag([4.0, 9.0])])
    np.testing.assert_array_equal(named.weights, [1.0])
    for table, names in (
        (np.ones((1, 4)), None),
        (np.ones((1, 1)), None),
        (np.ones((1, 2)), ["weight", "sd1"]),
        (np.ones((1, 3)), ["weight", "mean1", "mean2"]),
        (np.ones((1, 4)), ["weight", "weight2", "mean1", "sd1"]),
        (np.ones((1, 4)), ["weight", "mean1", "mean2", "cov11"]),
    ):
        with pytest.raises(
            DataError, match=r"a mixture (without column names needs an odd number of columns|needs the columns weight, mean…)"
        ):
            input_preparation.parse_mixture_table(table, names)
    for row in ([-1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 0.0, -1.0], [1.0, 0.0, 0.0]):
        with pytest.raises(DataError, match="a mixture needs weights that are not negative"):
            input_preparation.parse_mixture_table(np.array([row]), None)
    two = input_preparation.parse_mixture_table(np.array([[1.0, 0.5, -0.5, 2.0, 3.0], [3.0, 0.0, 0.0, 1.0, 1.0]]), None)
    np.testing.assert_array_equal(two.means, [[0.5, -0.5], [0.0, 0.0]])
    np.testing.assert_array_equal(two.covariances, [np.diag([4.0, 9.0]), np.eye(2)])
    np.testing.assert_array_equal(two.weights, [0.25, 0.75])
    normal = input_preparation.make_independent_gaussian(1.5, 0.5, 2)
    np.testing.assert_array_equal(normal.covariances, [np.eye(2) / 4])
    np.testing.assert_array_equal(normal.means, [[1.5, 1.5]])
    box = input_preparation.make_uniform_box(-1.0, 2.0, 2)
    np.testing.assert_array_equal([box.low, box.high], [[-1, -1], [2, 2]])
    with pytest.raises(BadUsage, match="needs a lower bound below the upper bound"):
        input_preparation.make_uniform_box(1.0, 1.0, 1)
    with pytest.raises(BadUsage, match="above 0"):
        input_preparation.make_independent_gaussian(0.0, 0.0, 1)
    assert isinstance(input_preparation.parse_target_table("gaussian", np.array([[1.0, 0.0, 1.0]]), None), MixtureTarget)
    with pytest.raises(DataError, match="the file of a gaussian target needs one row, not 2"):
        input_preparation.parse_target_table("gaussian", np.array([[1.0, 0.0, 1.0]] * 2), None)
    waves = input_preparation.parse_target_table("trigonometric", np.array([[1.0, 2.0], [3.0, 4.0]]), None)
    assert (waves.a.tolist(), waves.b.tolist()) == ([1.0, 3.0], [2.0, 4.0])
    moments = input_preparation.parse_target_table("moments", np.array([[0.5, 0.0], [1.0, 0.1], [0.1, 1.0]]), None)
    assert (moments.mean.tolist(), moments.second.tolist()) == ([0.5, 0.0], [[1.0, 0.1], [0.1, 1.0]])
    assert input_preparation.parse_target_table("moments", np.array([[0.5, 0.0]]), None).second is None
    for kind, table, says in (
        ("trigonometric", np.ones((2, 3)), "two columns, a and b, not 3"),
        ("signs", np.ones((2, 3)), "square covariance matrix, not 2×3"),
        ("moments", np.ones((2, 2)), "not 2×2"),
        ("moments", np.ones((4, 2)), "not 4×2"),
    ):
        with pytest.raises(DataError, match=says):
            input_preparation.parse_target_table(kind, table, None)


def test_moments_boxes_and_draws_of_targets() -> None:
    w = np.array([0.1, 0.2, 0.7])
    mean, second = RowTarget(X[:3], w).moments()
    np.testing.assert_allclose(mean, sum(w[i] * X[i] for i in range(3)))
    np.testing.assert_allclose(second, sum(w[i] * np.outer(X[i], X[i]) for i in range(3)))
    box = UniformTarget(np.array([1.0, -1.0]), np.array([3.0, 0.0]))
    mean, second = box.moments()
    np.testing.assert_allclose(mean, [2.0, -0.5])
    np.testing.assert_allclose(second, [[4 + 4 / 12, -1.0], [-1.0, 0.25 + 1 / 12]])
    np.testing.assert_array_equal(box.quantile(np.array([[0.25, 0.5]])), [[1.5, -0.5]])
    mixed = MixtureTarget(
        np.array([0.25, 0.75]), np.array([[1.0, 0.0], [-1.0, 2.0]]), np.stack([np.diag([4.0, 1.0]), np.array([[1.0, 0.5], [0.5, 9.0]])])
    )
    mean, second = mixed.moments()
    np.testing.assert_allclose(mean, [-0.5, 1.5])
    np.testing.assert_allclose(second, [[0.25 * 5 + 0.75 * 2, 0.75 * (0.5 - 2)], [0.75 * (0.5 - 2), 0.25 + 0.75 * 13]])
    low, high = mixed.bounding_box()
    np.testing.assert_allclose([low, high], [[-11.0, -16.0], [13.0, 20.0]])
    drawn = mixed.sample(np.random.default_rng(0), 40_000)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.06)
    np.testing.assert_allclose(drawn.T @ drawn / len(drawn), second, rtol=0.05, atol=0.1)
    assert (drawn[:, 0] > 4).mean() == pytest.approx(0.25 * 0.0668, abs=0.004)  # P(N > 1.5), of one component alone


def test_levels_and_draws_of_weighted_rows() -> None:
    target = RowTarget(np.array([[3.0], [1.0], [2.0]]), np.array([0.5, 0.0, 0.5]))
    np.testing.assert_array_equal(target.row_indices_at_levels(np.array([[0.0], [0.499], [0.5], [1.0]])), [2, 2, 0, 0])
    drawn = target.draw(np.random.default_rng(0), 4000)
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / 4000, [0.5, 0.0, 0.5], atol=0.04)
    unscaled = RowTarget(target.X, target.weights * 8)
    np.testing.assert_array_equal(unscaled.draw(np.random.default_rng(0), 4000), drawn)
    np.testing.assert_array_equal(unscaled.row_indices_at_levels(np.array([[0.499], [0.5]])), [2, 0])


def test_quantiles_of_gaussians_and_mixtures() -> None:
    square = np.array([[4.0, 1.2], [1.2, 1.0]])
    one = MixtureTarget(np.ones(1), np.array([[1.0, -1.0]]), square[None])
    u, normal = np.array([[0.3, 0.8], [0.5, 0.5]]), np.array([[-0.5244005127080407, 0.8416212335729143], [0.0, 0.0]])
    np.testing.assert_allclose(one.quantile(u), [1.0, -1.0] + normal @ np.linalg.cholesky(square).T, atol=1e-12)
    assert np.isfinite(one.quantile(np.zeros((1, 2)))).all()
    far = MixtureTarget(np.array([1e-12, 1.0]), np.array([[-20.0], [0.0]]), np.ones((2, 1, 1)))
    np.testing.assert_allclose(far.quantile(np.array([[0.975], [0.5]])), [[1.959964], [0.0]], atol=1e-5)
    assert far.quantile(np.array([[0.0]]))[0, 0] < -20
    halves = MixtureTarget(np.full(2, 0.5), np.zeros((2, 1)), np.ones((2, 1, 1)))
    np.testing.assert_allclose(halves.quantile(np.array([[0.0]])), [[-8.2095361516]], atol=1e-6)  # Φ⁻¹(2⁻⁵³)
    with pytest.raises(BadUsage, match="a mixture with several columns has none"):
        MixtureTarget(np.full(2, 0.5), np.zeros((2, 2)), np.stack([np.eye(2)] * 2)).quantile(u)


def test_signs_that_are_none() -> None:
    for bad in ([[0.0, 0.0], [0.0, 1.0]], [[1.0, 0.2], [0.1, 1.0]]):
        with pytest.raises(DataError, match="symmetric with a positive diagonal"):
            make_sign_target(np.array(bad))
    law = make_sign_target(np.array([[4.0, -4.0], [-4.0, 4.0]]))
    np.testing.assert_allclose(law.second, [[1.0, -1.0], [-1.0, 1.0]])
    np.testing.assert_allclose(np.diag(law.correlation), 1.0)
    drawn = law.sample(np.random.default_rng(0), 50)
    np.testing.assert_array_equal(drawn[:, 0], -drawn[:, 1])
    with pytest.raises(BadUsage, match="cannot sample from this target: only its moments are known"):
        MomentTarget(np.zeros(2), None).sample(np.random.default_rng(0), 1)
    with pytest.raises(DataError, match="all coefficients"):
        TrigonometricTarget(np.zeros(2), np.zeros(2))


def test_a_column_dominates_that_has_nearly_all_of_the_variance() -> None:
    """Variances 1, a², 4 of columns over the same rows: the share of the second is a² / (5 + a²)."""
    steps = np.tile([-1.0, 1.0], 4000)
    for a, there in ((22.0, False), (23.0, True)):  # 0.9898 and 0.9906, about 0.99
        X = np.column_stack([steps, 7.0 + a * steps, 2.0 * steps])
        found = input_preparation.find_dominant_column(X)
        assert (found is not None) == there
        if found is not None:
            assert found == (1, pytest.approx(a * a / (5 + a * a)))
        assert input_preparation.find_dominant_column(X[:, :2]) is None
    assert input_preparation.find_dominant_column(np.ones((5, 3))) is None
    assert input_preparation.find_dominant_column(np.zeros((0, 3))) is None
    with np.errstate(over="ignore"):
        assert input_preparation.find_dominant_column(np.array([[1.0, 2.0, 1e200], [0.0, 0.0, 0.0]])) is None
