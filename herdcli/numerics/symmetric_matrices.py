"""Factors and linear solutions of symmetric matrices: by LAPACK, or under `exact_arithmetic.exact_arithmetic_enabled` in one order on every
machine.

The exact ones use entrywise operations alone, each rounded once: Cholesky's factor column by column, triangular systems by
substitution, eigenvalues by Jacobi rotations of disjoint pairs.  They are meant for matrices of up to some hundred rows.
Source: Golub & Van Loan (2013), alg. 4.2.2, 3.1.3 and sec. 8.5.5 for the parallel order of rotations.
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import Diverged
from herdcli.numerics import exact_arithmetic
from herdcli.schema import Array

SWEEPS = 40  # sweeps of rotations over all pairs; convergence is quadratic and takes about ten
ROUNDING = 2.0**-53


def solve_lower(L: Array, right: Array, *, transposed: bool = False) -> Array:
    """Return L⁻¹ right, or L'⁻¹ right, for L (n, n) lower triangular and right (n,) or (n, m); as `scipy.linalg.solve_triangular`."""
    if not exact_arithmetic.is_exact():
        from scipy.linalg import solve_triangular

        found: Array = solve_triangular(np.asfortranarray(L), right, lower=True, trans=int(transposed), check_finite=False)
        return found
    left = np.array(right, dtype=np.float64)
    for j in range(len(L))[:: -1 if transposed else 1]:
        # Row j is solved; its contribution is subtracted from all rows that are not.
        left[j] /= L[j, j]
        rest, column = (slice(0, j), L[j, :j]) if transposed else (slice(j + 1, None), L[j + 1 :, j])
        left[rest] -= np.multiply.outer(column, left[j])
    return left


def cholesky(matrix: Array) -> Array:
    """Return L (n, n), lower triangular, with L L' = matrix (n, n).  Raises LinAlgError unless it is positive definite."""
    if not exact_arithmetic.is_exact():
        found: Array = np.linalg.cholesky(matrix)
        return found
    left, factor = np.array(matrix, dtype=np.float64), np.zeros(matrix.shape)
    for j in range(len(left)):
        if not left[j, j] > 0:
            raise np.linalg.LinAlgError("the matrix is not positive definite")
        factor[j:, j] = left[j:, j] / np.sqrt(left[j, j])
        # The remainder is the Schur complement, of which only the lower part is read.
        left[j + 1 :, j + 1 :] -= np.multiply.outer(factor[j + 1 :, j], factor[j + 1 :, j])
    return factor


def solve_positive_definite(matrix: Array, right: Array) -> Array:
    """Return matrix⁻¹ right for a positive definite matrix (n, n) and right (n,), as `np.linalg.solve`."""
    if not exact_arithmetic.is_exact():
        found: Array = np.linalg.solve(matrix, right)
        return found
    L = cholesky(matrix)
    return solve_lower(L, solve_lower(L, right), transposed=True)


def invert_positive_definite(matrix: Array) -> Array:
    """Return the inverse of a positive definite matrix (n, n), as `np.linalg.inv`."""
    return solve_positive_definite(matrix, np.eye(len(matrix))) if exact_arithmetic.is_exact() else np.linalg.inv(matrix)


def log_determinant(matrix: Array) -> float:
    """Return log |matrix| of a positive definite matrix (n, n), as `np.linalg.slogdet`."""
    if not exact_arithmetic.is_exact():
        return float(np.linalg.slogdet(matrix)[1])
    return 2.0 * float(exact_arithmetic.log(np.diag(cholesky(matrix))).sum())


def _require_finite(matrix: Array) -> Array:
    """Return the matrix.  Raises Diverged if it is not finite: LAPACK's xGESDD and xGELSD do not return for infinite entries."""
    if not np.isfinite(matrix).all():
        hint = "check the input for values that are not finite, very large or very small, and scale the columns"
        raise Diverged("the computation failed: a matrix has values that are not finite", hint=hint)
    return matrix


def singular_value_decomposition(matrix: Array) -> tuple[Array, Array, Array]:
    """Return U (n, k), s (k,), V' (k, m) of a matrix (n, m) = U diag(s) V', k = min(n, m).  Raises Diverged unless it is finite."""
    left, values, right = np.linalg.svd(_require_finite(matrix), full_matrices=False)
    return left, values, right


def pseudoinverse(matrix: Array) -> Array:
    """Return the Moore-Penrose inverse (m, n) of a matrix (n, m).  Raises Diverged unless it is finite."""
    found: Array = np.linalg.pinv(_require_finite(matrix))
    return found


def least_squares(matrix: Array, right: Array, *, rcond: float | None = None) -> tuple[Array, int]:
    """Return the shortest x that minimises |matrix x − right|, and the rank of matrix (n, m).

    Singular values below rcond times the largest count as 0.
    right (n,) or (n, r).  Raises Diverged unless both are finite.
    """
    solution, _, rank, _ = np.linalg.lstsq(_require_finite(matrix), _require_finite(right), rcond=rcond)
    return solution, int(rank)


def spectral_norm(matrix: Array) -> float:
    """Return the largest singular value of a matrix (n, m), as `np.linalg.norm(matrix, 2)`.  Raises Diverged unless it is finite."""
    if not exact_arithmetic.is_exact():
        return float(np.linalg.norm(_require_finite(matrix), 2))
    return float(np.sqrt(_smaller_gram_spectrum(matrix)[1].max(initial=0.0)))


def frobenius_norm(matrix: Array) -> float:
    """Return √Σ x² of a matrix (n, m), as `np.linalg.norm(matrix)`."""
    return float(np.sqrt(exact_arithmetic.dot(matrix, matrix))) if exact_arithmetic.is_exact() else float(np.linalg.norm(matrix))


def clip_singular_values(matrix: Array, largest: float) -> Array | None:
    """Return the matrix nearest to one (n, m) with singular values of at most `largest`; None if it has no larger ones."""
    if not exact_arithmetic.is_exact():
        left, values, right = singular_value_decomposition(matrix)
        return np.asarray((left * np.minimum(values, largest)) @ right) if values[0] > largest else None
    # With W = U S V', U min(S, l) V' is W V min(1, l/S) V': the smaller Gram matrix gives V, and U in the same way from W'.
    turned = matrix.shape[0] < matrix.shape[1]
    W, (vectors, squares) = matrix.T if turned else matrix, _smaller_gram_spectrum(matrix)
    values = np.sqrt(np.maximum(squares, np.finfo(np.float64).tiny))
    if values.max() <= largest:
        return None
    share = np.minimum(1.0, largest / values)
    found = exact_arithmetic.matrix_product(exact_arithmetic.matrix_product(W, vectors) * share, vectors.T)
    return found.T if turned else found


def _smaller_gram_spectrum(matrix: Array) -> tuple[Array, Array]:
    """Return eigenvectors (k, k) and eigenvalues (k,) of W'W or of WW', whichever is smaller, k = min(n, m)."""
    W = np.asarray(matrix.T if matrix.shape[0] < matrix.shape[1] else matrix, dtype=np.float64)
    squares, vectors = symmetric_eigendecomposition(exact_arithmetic.matrix_product(W.T, W))
    return vectors, squares


def symmetric_eigenvalues(matrix: Array) -> Array:
    """Return the eigenvalues (n,) of a symmetric matrix (n, n) in ascending order, as `np.linalg.eigvalsh`."""
    return np.sort(_apply_jacobi_rotations(matrix, None)) if exact_arithmetic.is_exact() else np.linalg.eigvalsh(matrix)


def symmetric_eigendecomposition(matrix: Array) -> tuple[Array, Array]:
    """Return eigenvalues (n,) of a symmetric matrix (n, n) in ascending order and eigenvectors (n, n) in columns, as `np.linalg.eigh`."""
    if not exact_arithmetic.is_exact():
        values, vectors = np.linalg.eigh(matrix)
        return values, vectors
    vectors = np.eye(len(matrix))
    values = _apply_jacobi_rotations(matrix, vectors)
    order = np.argsort(values, kind="stable")
    return values[order], vectors[:, order]


def _apply_jacobi_rotations(matrix: Array, vectors: Array | None) -> Array:
    """Return the diagonal (n,) of a symmetric matrix (n, n) after rotations, which are accumulated in `vectors` (n, n)."""
    A = np.array(matrix, dtype=np.float64)
    n = len(A)
    for _ in range(SWEEPS):
        if not np.square(A - np.diag(np.diag(A))).sum() > (ROUNDING * n) ** 2 * np.square(np.diag(A)).sum():
            break
        for p, q in _disjoint_pair_rounds(n):
            c, s = _rotation_angles(A, p, q)
            A[p], A[q] = c[:, None] * A[p] - s[:, None] * A[q], s[:, None] * A[p] + c[:, None] * A[q]
            A[:, p], A[:, q] = A[:, p] * c - A[:, q] * s, A[:, p] * s + A[:, q] * c
            A[p, q] = A[q, p] = 0.0
            if vectors is not None:
                vectors[:, p], vectors[:, q] = vectors[:, p] * c - vectors[:, q] * s, vectors[:, p] * s + vectors[:, q] * c
    return np.diag(A).copy()


def _rotation_angles(A: Array, p: Array, q: Array) -> tuple[Array, Array]:
    """Return cosines and sines that make A[p, q] vanish, pair by pair."""
    off, gap = A[p, q], A[q, q] - A[p, p]
    # With t = tan φ the entry is t² off + t gap − off = 0 up to cos² φ; the smaller of the two roots converges.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        theta = gap / (2.0 * off)
        t = np.copysign(1.0, theta) / (np.abs(theta) + np.sqrt(theta * theta + 1.0))
    t = np.where(off == 0.0, 0.0, t)
    c = 1.0 / np.sqrt(t * t + 1.0)
    return c, t * c


def _disjoint_pair_rounds(n: int) -> list[tuple[Array, Array]]:
    """Return all pairs p < q of n numbers in rounds of disjoint pairs: a round-robin tournament, with a bye if n is odd."""
    seats = list(range(n + n % 2))
    half, found = len(seats) // 2, []
    for _ in range(len(seats) - 1):
        pairs = [(min(a, b), max(a, b)) for a, b in zip(seats[:half], reversed(seats[half:]), strict=True) if max(a, b) < n]
        found.append((np.array([a for a, _ in pairs], dtype=np.int64), np.array([b for _, b in pairs], dtype=np.int64)))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return found
