"""Kernel values between a few rows and many, for rules that need a block at a time rather than one row or sums over all pairs."""

from __future__ import annotations

import numpy as np

from herdcli.numerics import exact_arithmetic
from herdcli.quadrature.kernels.joint_kernels import JointKernel
from herdcli.quadrature.kernels.kernel_functions import GaussianKernel, Kernel
from herdcli.quadrature.kernels.point_sums import GaussianPoints, PointEvaluator
from herdcli.schema import Array

BLAS_FROM = 33  # products of rows with at least this many columns are computed by BLAS


def kernel_matrix(kernel: Kernel, X: Array, Y: Array) -> Array:
    """Compute kernel values (n, m) of rows X (n, d) and Y (m, d).

    The Gaussian in many columns is computed by one matrix product, with the rounding error of |x|² + |y|².
    """
    if isinstance(kernel, JointKernel):
        return kernel_matrix(kernel.rows, X[:, :-1], Y[:, :-1]) * kernel.label.matrix(X[:, -1:], Y[:, -1:])
    if not isinstance(kernel, GaussianKernel) or X.shape[1] < BLAS_FROM:
        return kernel.matrix(X, Y)
    left = GaussianPoints(kernel, X, centre=Y.mean(axis=0))
    a, b = left.columns[:, : len(X)], left.pack_columns(Y)[:, : len(Y)]
    return _gaussian_block(a, b, 0.5 * np.square(a).sum(axis=0), 0.5 * np.square(b).sum(axis=0))


def _gaussian_block(a: Array, b: Array, a_half_squares: Array, b_half_squares: Array) -> Array:
    """Compute 2^(a·b − |a|²/2 − |b|²/2) ≤ 1 (n, m) from columns a (d, n), b (d, m) and their half squares."""
    exponent = exact_arithmetic.matrix_product(np.ascontiguousarray(a.T), np.ascontiguousarray(b))
    exponent -= a_half_squares[:, None]
    exponent -= b_half_squares
    np.minimum(exponent, 0.0, out=exponent)
    return np.asarray(exact_arithmetic.exp2(exponent.ravel()).reshape(exponent.shape))


class KernelColumns:
    """Kernel values between any rows and the N candidates, for some rows at a time."""

    def __init__(self, kernel: Kernel, points: Array, values: PointEvaluator) -> None:
        self.kernel, self.points, self.evaluator = kernel, points, values
        self.halves: Array | None = None

    def compute(self, rows: Array) -> Array:
        """Compute the values (r, N) of rows (r, d)."""
        packed = self.evaluator
        if isinstance(packed, GaussianPoints) and rows.shape[1] >= BLAS_FROM:
            b = packed.columns[:, : packed.count]
            if self.halves is None:
                self.halves = 0.5 * np.square(b).sum(axis=0)
            a = packed.pack_columns(rows)[:, : len(rows)]
            return _gaussian_block(a, b, 0.5 * np.square(a).sum(axis=0), self.halves)
        return np.stack([packed.values(row) for row in rows])
