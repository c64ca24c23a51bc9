"""Mixing matrices, and telling one from sources and mixtures."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.errors import DataError
from herdcli.rows import mixing_matrices


def test_instamix_at_one_half_is_that_of_the_thesis():
    A = mixing_matrices.instamix_matrix(16, 0.5)
    assert np.array_equal(np.diag(A), np.ones(16))
    assert np.allclose(A[~np.eye(16, dtype=bool)], 1 / 9)
    assert np.linalg.eigvalsh(A).min() > 0
    assert np.array_equal(mixing_matrices.instamix_matrix(3, 1.0), np.eye(3))


def test_random_matrices_are_a_function_of_the_seed():
    assert np.array_equal(mixing_matrices.random_mixing_matrix(4, seed=2), mixing_matrices.random_mixing_matrix(4, seed=2))
    assert not np.array_equal(mixing_matrices.random_mixing_matrix(4, seed=2), mixing_matrices.random_mixing_matrix(4, seed=3))


def test_the_mixing_matrix_is_told_from_sources_and_mixtures():
    random = np.random.default_rng(0)
    S, A = random.laplace(size=(50, 3)), random.normal(size=(5, 3))
    assert np.allclose(mixing_matrices.estimate_mixing_matrix(S, mixing_matrices.mix_sources(S, A) + 7.0), A)


def test_sources_that_do_not_determine_the_mixing_are_refused():
    S = np.random.default_rng(0).normal(size=(10, 2))
    with pytest.raises(DataError, match=r"^the sources have 10 rows, but the mixtures have 9$"):
        mixing_matrices.estimate_mixing_matrix(S, S[:9])
    with pytest.raises(DataError, match=r"^the 2 sources are linearly dependent: the mixing matrix cannot be determined$"):
        mixing_matrices.estimate_mixing_matrix(S[:, [0, 0]], S)
