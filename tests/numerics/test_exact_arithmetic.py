"""Functions of numerics.real: NumPy's own without `exactly`, within it near them, and never those of NumPy, BLAS or the C library."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from herdcli.numerics import exact_arithmetic, symmetric_matrices
from herdcli.schema import Array

RANDOM = np.random.default_rng(8)
A, B = RANDOM.normal(size=(6, 40)), RANDOM.normal(size=(40, 5))
X = np.concatenate([RANDOM.normal(size=40) * 5, [0.0, 1e-9, -30.0, 30.0]])
ONE = {
    "exp": (exact_arithmetic.exp, np.exp, X),
    "log": (exact_arithmetic.log, np.log, np.abs(X) + 1e-9),
    "log1p": (exact_arithmetic.log1p, np.log1p, np.abs(X)),
    "exp2": (exact_arithmetic.exp2, np.exp2, X),
    "tanh": (exact_arithmetic.tanh, np.tanh, X),
}


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_number(name: str) -> None:
    ours, theirs, x = ONE[name]
    assert ours(x).tobytes() == theirs(x).tobytes()
    with exact_arithmetic.exact_arithmetic_enabled():
        np.testing.assert_allclose(ours(x), theirs(x), rtol=2e-15, atol=1e-300)


def test_types_shapes_and_places() -> None:
    with exact_arithmetic.exact_arithmetic_enabled():
        assert exact_arithmetic.exp(np.float32(1.0)).dtype == np.float32
        assert exact_arithmetic.exp(3).dtype == np.float64
        x = np.asfortranarray(RANDOM.normal(size=(3, 4))).astype(np.float32)
        out = np.empty((8, 3), dtype=np.float32).T[:, ::2]
        assert exact_arithmetic.exp(x, out=out) is out
        np.testing.assert_allclose(out, np.exp(x), rtol=1e-6)
        assert exact_arithmetic.log(x * x).shape == (3, 4)


@pytest.mark.parametrize(
    ("a", "b"), [(A, B), (A, B[:, 0]), (A[0], B), (A[0], B[:, 0]), (A.astype(np.float32), B), (A > 0, B), (A.T, A), (A[:, :0], B[:0])]
)
def test_products(a: Array, b: Array) -> None:
    assert np.asarray(exact_arithmetic.matrix_product(a, b)).tobytes() == np.asarray(a @ b).tobytes()
    with exact_arithmetic.exact_arithmetic_enabled():
        found = exact_arithmetic.matrix_product(a, b)
        assert np.shape(found) == np.shape(a @ b)
        np.testing.assert_allclose(found, a @ b, rtol=1e-12, atol=1e-12)


def test_products_of_single_precision_stay_single_and_of_sparse_rows_are_those_of_scipy() -> None:
    from scipy.sparse import csr_array

    with exact_arithmetic.exact_arithmetic_enabled():
        assert exact_arithmetic.matrix_product(A.astype(np.float32), B.astype(np.float32)).dtype == np.float32
        out = np.empty((6, 5))
        assert exact_arithmetic.matrix_product(A, B, out=out) is out
        np.testing.assert_allclose(out, A @ B, rtol=1e-12)
        np.testing.assert_allclose(exact_arithmetic.matrix_product(csr_array(A), B), A @ B, rtol=1e-12)
        assert exact_arithmetic.dot(A, A) == pytest.approx(np.vdot(A, A), rel=1e-14)


def test_logarithms_of_sums() -> None:
    a, b = np.array([0.0, -np.inf, -np.inf, np.inf, 3.0, -800.0]), np.array([1.0, 2.0, -np.inf, np.inf, 3.0, 0.0])
    rows = np.array([[1.0, 2.0, -np.inf], [-np.inf] * 3, [700.0, 710.0, 720.0]])
    expected = np.logaddexp(a, b), np.logaddexp.reduce(rows, axis=1), np.logaddexp.reduce(rows, axis=0, keepdims=True)
    for exact in (False, True):
        with exact_arithmetic.exact_arithmetic_enabled() if exact else np.errstate():
            found = (
                exact_arithmetic.log_add_exp(a, b),
                exact_arithmetic.log_sum_exp(rows, axis=1),
                exact_arithmetic.log_sum_exp(rows, keepdims=True),
            )
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-15)
            assert float(exact_arithmetic.log_sum_exp(np.empty(0))) == -np.inf


@pytest.mark.parametrize("n", [-3, -2, -1, 0, 1, 2, 3, 7, 32])
def test_whole_powers(n: int) -> None:
    assert exact_arithmetic.integer_power(1.1, n) == 1.1**n
    with exact_arithmetic.exact_arithmetic_enabled():
        assert exact_arithmetic.integer_power(1.1, n) == pytest.approx(1.1**n, rel=1e-14)
        assert exact_arithmetic.integer_power(X, 2).tobytes() == (X * X).tobytes()
        assert exact_arithmetic.hypot(3.0, 4.0) == 5.0


class Given:
    """A generator whose uniform numbers are these."""

    def __init__(self, u: Array) -> None:
        self.u = u

    def random(self, shape: object) -> Array:
        return self.u


def test_normal_numbers_are_quantiles_of_uniform_ones() -> None:
    from scipy.special import ndtri

    u = np.concatenate([np.linspace(0.0005, 0.9995, 2000), 10.0 ** -np.arange(1.0, 16.0), [0.0]])
    with exact_arithmetic.exact_arithmetic_enabled():
        found = exact_arithmetic.standard_normals(Given(u), u.shape)  # type: ignore[arg-type]
        assert exact_arithmetic.standard_normals(np.random.default_rng(0), (4, 3), np.float32).dtype == np.float32
    np.testing.assert_allclose(found, ndtri(np.maximum(u, 2.0**-54)), rtol=3e-15, atol=1e-16)
    plain = exact_arithmetic.standard_normals(np.random.default_rng(5), (2, 3), np.float32)
    assert plain.tobytes() == np.random.default_rng(5).standard_normal((2, 3), dtype=np.float32).tobytes()


def test_exactness_ends_with_its_block_and_is_handed_to_threads_alone_that_ask() -> None:
    with ThreadPoolExecutor(1) as plain, ThreadPoolExecutor(1, initializer=exact_arithmetic.set_exact, initargs=(True,)) as given:
        with pytest.raises(KeyError), exact_arithmetic.exact_arithmetic_enabled():
            assert exact_arithmetic.is_exact()
            assert not plain.submit(exact_arithmetic.is_exact).result()
            assert given.submit(exact_arithmetic.is_exact).result()
            raise KeyError
        assert not exact_arithmetic.is_exact()


def spd(n: int) -> Array:
    root = np.random.default_rng(n).normal(size=(n, n + 1))
    return np.asarray(root @ root.T)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 15])
def test_factors_and_eigenvalues(n: int) -> None:
    matrix, right = spd(n), np.arange(2.0 * n).reshape(n, 2)
    L = np.linalg.cholesky(matrix)
    plain = (
        symmetric_matrices.symmetric_eigenvalues(matrix),
        symmetric_matrices.log_determinant(matrix),
        symmetric_matrices.invert_positive_definite(matrix),
        symmetric_matrices.spectral_norm(L),
    )
    with exact_arithmetic.exact_arithmetic_enabled():
        np.testing.assert_allclose(symmetric_matrices.cholesky(matrix), L, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(L @ symmetric_matrices.solve_lower(L, right), right, atol=1e-9)
        np.testing.assert_allclose(L.T @ symmetric_matrices.solve_lower(L, right[:, 0], transposed=True), right[:, 0], atol=1e-9)
        np.testing.assert_allclose(matrix @ symmetric_matrices.solve_positive_definite(matrix, right[:, 1]), right[:, 1], atol=1e-8)
        exact = (
            symmetric_matrices.symmetric_eigenvalues(matrix),
            symmetric_matrices.log_determinant(matrix),
            symmetric_matrices.invert_positive_definite(matrix),
            symmetric_matrices.spectral_norm(L),
        )
        values, vectors = symmetric_matrices.symmetric_eigendecomposition(matrix)
    for one, other in zip(exact, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    assert (np.diff(values) >= 0).all()
    np.testing.assert_allclose((vectors * values) @ vectors.T, matrix, atol=1e-12 * n)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(n), atol=1e-13)


def test_eigenvalues_that_come_again() -> None:
    matrix = np.kron(np.array([[2.0, 1.0], [1.0, 2.0]]), np.eye(3))
    with exact_arithmetic.exact_arithmetic_enabled():
        assert symmetric_matrices.symmetric_eigenvalues(np.eye(4)).tolist() == [1.0] * 4
        values, vectors = symmetric_matrices.symmetric_eigendecomposition(matrix)
    np.testing.assert_allclose(values, [1.0] * 3 + [3.0] * 3, rtol=1e-14)
    np.testing.assert_allclose((vectors * values) @ vectors.T, matrix, atol=1e-14)


def test_a_matrix_that_is_not_definite_has_no_factor() -> None:
    with exact_arithmetic.exact_arithmetic_enabled(), pytest.raises(np.linalg.LinAlgError):
        symmetric_matrices.cholesky(np.array([[1.0, 2.0], [2.0, 1.0]]))


@pytest.mark.parametrize("shape", [(7, 4), (4, 7)])
def test_singular_values_are_cut_off_where_they_are_too_large(shape: tuple[int, int]) -> None:
    W = np.random.default_rng(2).normal(size=shape)
    plain = symmetric_matrices.clip_singular_values(W, 1.5)
    with exact_arithmetic.exact_arithmetic_enabled():
        exact = symmetric_matrices.clip_singular_values(W, 1.5)
        assert symmetric_matrices.clip_singular_values(W, 100.0) is None
        assert symmetric_matrices.frobenius_norm(W) == pytest.approx(math.sqrt((W * W).sum()))
    assert plain is not None
    assert exact is not None
    np.testing.assert_allclose(exact, plain, atol=1e-10)
