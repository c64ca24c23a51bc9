"""Kernels of rows with a label: the product of a kernel on x and one on the label, which is the rows' last column.

k((x, y), (x', y')) = k_x(x, x') k_y(y, y') embeds the joint distribution of rows and labels, so atoms represent both the labels' shares
and the rows of each label.  If k_y is the share of equal columns, which is 1 or 0 for one column, different labels are orthogonal.  The
product of two Gaussians is one Gaussian in columns (x, y ℓ/λ) and is computed as such.
Source: Song, Huang, Smola & Fukumizu (2009), sec. 2: embeddings of joint distributions by products of kernels.
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import DataError
from herdcli.quadrature.kernels.kernel_functions import GaussianKernel, HammingKernel, Kernel, require_length_scale
from herdcli.records import dataclass
from herdcli.schema import Array

MARK = "&"  # separates the kernel on x from that on the label


@dataclass(frozen=True)
class JointKernel:
    """The product of k_x on all columns but the last and k_y on the last."""

    rows: Kernel
    label: Kernel

    def matrix(self, X: Array, Y: Array) -> Array:
        """Compute the values k_x k_y (n, m) of rows X (n, d + 1) and Y (m, d + 1)."""
        return self.rows.matrix(X[:, :-1], Y[:, :-1]) * self.label.matrix(X[:, -1:], Y[:, -1:])

    def diagonal(self, X: Array) -> Array:
        """Compute the values k_x(x, x) k_y(y, y) (n,) of rows X (n, d + 1)."""
        return self.rows.diagonal(X[:, :-1]) * self.label.diagonal(X[:, -1:])

    def check(self, X: Array) -> None:
        """Raise DataError if rows X (n, d + 1) have no column except the label, or a part is not defined on them."""
        if X.shape[1] < 2:
            raise DataError("a kernel for rows and labels needs at least one column besides the label")
        self.rows.check(X[:, :-1])
        self.label.check(X[:, -1:])

    def text(self) -> str:
        """Return both texts, joined by &."""
        return f"{self.rows.text()}{MARK}{self.label.text()}"

    def as_gaussian_kernel(self, dimension: int) -> tuple[GaussianKernel, Array] | None:
        """Return the Gaussian kernel that equals a product of two, with the factors of the columns (d + 1,); None for other kernels."""
        if not isinstance(self.rows, GaussianKernel) or not isinstance(self.label, GaussianKernel):
            return None
        # |x − x'|²/ℓ² + (y − y')²/λ² is ℓ^−2 times a squared distance in the columns (x, y ℓ/λ).
        factors = np.ones(dimension)
        factors[-1] = require_length_scale(self.rows.bandwidth) / require_length_scale(self.label.bandwidth)
        return self.rows, factors


def default_label_kernel_text(labels: Array) -> str:
    """Return the kernel of labels (n,) as text.

    Whole numbers are classes, each of which is similar to itself alone; other labels have a length scale of the median distance.
    """
    return HammingKernel().text() if (labels == np.rint(labels)).all() else "gaussian"
