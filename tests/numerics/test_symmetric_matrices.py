"""Singular values: NumPy's own for finite matrices, a refusal of others, from which LAPACK does not return."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.errors import Diverged
from herdcli.numerics import symmetric_matrices


def matrix(n: int = 6, m: int = 6, worst: float = 0.0) -> np.ndarray:
    made = np.random.default_rng(0).normal(size=(n, m))
    made[0] += worst
    return made


@pytest.mark.parametrize("worst", [np.inf, -np.inf, np.nan])
def test_a_row_that_is_not_finite_is_refused_and_does_not_keep_lapack_busy_for_ever(worst):
    bad, good = matrix(worst=worst), matrix()
    asked = (
        lambda: symmetric_matrices.singular_value_decomposition(bad),
        lambda: symmetric_matrices.pseudoinverse(bad),
        lambda: symmetric_matrices.least_squares(bad, good),
        lambda: symmetric_matrices.least_squares(good, bad),
        lambda: symmetric_matrices.spectral_norm(bad),
        lambda: symmetric_matrices.clip_singular_values(bad, 1.0),
    )
    for ask in asked:
        with pytest.raises(Diverged, match="not finite"):
            ask()


def test_finite_matrices_are_taken_apart_and_solved():
    A = matrix(5, 3)
    left, values, right = symmetric_matrices.singular_value_decomposition(A)
    np.testing.assert_allclose((left * values) @ right, A, atol=1e-14)
    inverse = symmetric_matrices.pseudoinverse(A)
    np.testing.assert_allclose(inverse @ A, np.eye(3), atol=1e-14)
    solution, rank = symmetric_matrices.least_squares(A, A @ [1.0, 2.0, 3.0])
    np.testing.assert_allclose(solution, [1.0, 2.0, 3.0], atol=1e-13)
    assert rank == 3
    assert symmetric_matrices.least_squares(np.ones((3, 2)), np.ones(3))[1] == 1
    assert symmetric_matrices.spectral_norm(A) == pytest.approx(values[0])
