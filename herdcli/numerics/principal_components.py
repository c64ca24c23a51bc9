"""Principal components of rows, from the smaller of the two Gram matrices.

With centred rows Z (n, D) and C = Z'Z/n = Σ λ_r u_r u_r', the n × n matrix ZZ'/n has the same positive eigenvalues,
and its eigenvectors a_r give u_r = Z'a_r / sqrt(n λ_r).
Source: Turk & Pentland (1991), sec. "Computing eigenfaces"; any text on the singular value decomposition.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli.errors import DataError
from herdcli.records import dataclass
from herdcli.schema import Array

BLOCK = 1 << 20  # numbers that are centred at one time


@dataclass(frozen=True)
class PrincipalComponents:
    """Principal components: mean (D,), orthonormal components (R, D), descending eigenvalues (R,), and the covariance's trace.

    An eigenvalue is the variance (divided by n) of the rows along its component.  The entry of a component with the largest
    absolute value is positive.
    """

    mean: Array
    components: Array
    eigenvalues: Array
    total: float  # sum of all eigenvalues, including those left out
    rank: int  # number of eigenvalues above the rounding error of the Gram matrix

    def project(self, X: Array) -> Array:
        """Return the coordinates (n, R) of rows (n, D) along the components, float64."""
        result: Array = np.asarray(X, dtype=np.float64) @ self.components.T - self.mean @ self.components.T
        return result

    def keep_leading(self, count: int) -> PrincipalComponents:
        """Return the first `count` components, or all if there are fewer."""
        return replace(self, components=self.components[:count], eigenvalues=self.eigenvalues[:count])


def fit_principal_components(X: Array, count: int | None = None, *, mean: Array | None = None) -> PrincipalComponents:
    """Return the first `count` principal components of rows X (n, D), or all with a positive eigenvalue.

    There are fewer than `count` if the rows span fewer directions.  mean  (D,) in place of the rows' own: 0 for differences.
    Raises DataError unless there is a row, and one that differs from the mean.
    """
    n, D = X.shape
    if n == 0:
        raise DataError("principal components need rows, but there are none")
    mean = X.mean(axis=0, dtype=np.float64) if mean is None else np.asarray(mean, dtype=np.float64)
    if n >= D:
        return principal_components_from_covariance(mean, _column_covariance(X, mean), n, count)
    gram = _row_gram(X, mean)
    eigenvalues, vectors, rank = _sorted_gram_spectrum(gram, mean, D)
    kept = rank if count is None else min(count, rank)
    # ZZ'a = nλ a gives Z'Z(Z'a) = nλ (Z'a): the eigenvectors of the small Gram matrix, mapped by Z', are those of the covariance.
    components = _orthonormalise((np.asarray(X, dtype=np.float64) - mean).T @ vectors[:, :kept])
    return PrincipalComponents(mean, _make_signs_positive(components), eigenvalues[:kept].copy(), float(np.trace(gram)), rank)


def principal_components_from_covariance(mean: Array, S: Array, rows: int, count: int | None = None) -> PrincipalComponents:
    """Return the principal components of `rows` rows from their mean (D,) and covariance (D, D)."""
    eigenvalues, vectors, rank = _sorted_gram_spectrum(S, mean, rows)
    kept = rank if count is None else min(count, rank)
    return PrincipalComponents(mean, _make_signs_positive(vectors[:, :kept].T), eigenvalues[:kept].copy(), float(np.trace(S)), rank)


def _sorted_gram_spectrum(gram: Array, mean: Array, other: int) -> tuple[Array, Array, int]:
    """Return the descending eigenvalues of a Gram matrix, its eigenvectors, and the number of eigenvalues above rounding.

    other  the length of the other side of the rows' matrix.
    """
    eigenvalues, vectors = np.linalg.eigh(gram)
    eigenvalues, vectors = eigenvalues[::-1], vectors[:, ::-1]
    eps = np.finfo(np.float64).eps
    rank = int(np.count_nonzero(eigenvalues > eigenvalues[0] * max(len(gram), other) * eps))
    if not eigenvalues[0] > len(mean) * (eps * np.abs(mean).max()) ** 2:  # rounding error of the mean, for rows that are all equal
        raise DataError("principal components need rows that differ, but all rows are equal")
    return eigenvalues, vectors, rank


def mean_and_covariance(X: Array) -> tuple[Array, Array]:
    """Return mean (D,) and covariance (D, D) of rows X (n, D), divided by n."""
    mean = X.mean(axis=0, dtype=np.float64)
    return mean, _column_covariance(X, mean)


def _column_covariance(X: Array, mean: Array) -> Array:
    """Return Z'Z/n (D, D), computed block by block to avoid a float64 copy of all rows."""
    total = np.zeros((X.shape[1], X.shape[1]))
    size = max(1, BLOCK // X.shape[1])
    for start in range(0, len(X), size):
        part = X[start : start + size] - mean
        total += part.T @ part
    total /= len(X)
    return total


def _row_gram(X: Array, mean: Array) -> Array:
    """Return ZZ'/n (n, n)."""
    Z = np.asarray(X, dtype=np.float64) - mean
    result: Array = Z @ Z.T / len(X)
    return result


def _orthonormalise(columns: Array) -> Array:
    """Return nearly orthogonal columns (D, R) as orthonormal rows (R, D); needed because a Gram matrix squares the condition number."""
    q, _ = np.linalg.qr(columns)
    return q.T


def _make_signs_positive(components: Array) -> Array:
    """Return the rows with signs such that their entry of largest absolute value is positive."""
    largest = np.take_along_axis(components, np.abs(components).argmax(axis=1)[:, None], axis=1)
    result: Array = np.ascontiguousarray(components * np.where(largest < 0, -1.0, 1.0))
    return result
