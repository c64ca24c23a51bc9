"""Inverses of triangles, and roots of inverses, against LAPACK's general ones."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.ica.cholesky_inverse import SMALL, inverse_root_and_logdet, invert_lower_triangles


@pytest.mark.parametrize("M", [1, 2, SMALL, SMALL + 1, 40])
def test_triangles_times_their_inverses_are_the_identity(M):
    L = np.tril(np.random.default_rng(M).standard_normal((5, M, M))) + 4 * np.sqrt(M) * np.eye(M)
    found = invert_lower_triangles(L)
    np.testing.assert_allclose(L @ found, np.broadcast_to(np.eye(M), L.shape), atol=1e-12)
    assert (found == np.tril(found)).all()


@pytest.mark.parametrize("M", [1, 7, 30])
def test_roots_of_inverses_and_determinants(M):
    A = np.random.default_rng(M).standard_normal((4, M, M + 3))
    P = A @ A.transpose(0, 2, 1)
    W, logs = inverse_root_and_logdet(P)
    np.testing.assert_allclose(W.transpose(0, 2, 1) @ W, np.linalg.inv(P), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(logs, np.linalg.slogdet(P)[1], rtol=1e-10)


def test_what_rounding_makes_indefinite_is_held_above_0():
    v = np.array([1.0, 1.0 + 1e-9, 3.0])
    P = np.stack([np.outer(v, v) - 1e-17 * np.eye(3), np.array([[4.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 0.3]])])
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(P)
    W, logs = inverse_root_and_logdet(P)
    assert np.isfinite(W).all()
    assert np.isfinite(logs).all()
    np.testing.assert_allclose(W[1].T @ W[1], np.linalg.inv(P[1]), rtol=1e-10, atol=1e-12)
    assert logs[1] == pytest.approx(np.log(np.linalg.det(P[1])), rel=1e-12)
