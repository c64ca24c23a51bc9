"""The columns whose variances are at their floor."""

from __future__ import annotations

import numpy as np

from herdcli.em.variance_floors import apply_variance_floor, columns_at_floor


def test_columns_of_a_floored_direction_come_by_their_share():
    scale = np.array([1.0, 10.0, 1.0, 1.0])
    direction = np.array([0.6, 0.8, 0.0, 0.0])
    S = (np.eye(4) - np.outer(direction, direction)) * np.outer(scale, scale)
    raised, low = apply_variance_floor(S, 1e-6, scale, diagonal=False)
    assert low == 1
    assert columns_at_floor(raised[None], scale**2, scale, 1e-6) == [1, 0]


def test_constant_columns_and_variances_above_the_floor_are_left_out():
    covariance = np.diag([1e-6, 2e-6, 1e-6])
    assert columns_at_floor(covariance, np.array([0.0, 1.0, 1.0]), np.ones(3), 1e-6) == [2]
    assert columns_at_floor(covariance, np.ones(3), np.ones(3), 1e-9) == []
