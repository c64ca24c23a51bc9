"""Kernels of rows with a label: the product of one on x and one on the label, which is the rows' last column.

k((x, y), (x', y')) = k_x(x, x') k_y(y, y') embeds the joint law of rows and labels, so atoms stand for the labels' shares and for the
rows of each label at once; with the share of equal columns for k_y, which of one column is 1 or 0, labels that differ are orthogonal.  The
product of two Gaussians is one Gaussian in columns (x, y ℓ/λ) and is computed as such.
Source: Song, Huang, Smola & Fukumizu (2009), sec. 2: embeddings of joint laws by products of kernels.
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import DataError
from herdcli.quadrature.kernels.kernel_functions import GaussianKernel, HammingKernel, Kernel, require_length
from herdcli.records import dataclass
from herdcli.schema import Array

MARK = "&"  # between the kernel on x and that on the label


@dataclass(frozen=True)
class JointKernel:
    """k_x on all columns but the last, times k_y on the last."""

    rows: Kernel
    label: Kernel

    def matrix(self, X: Array, Y: Array) -> Array:
        """(n, m) values k_x k_y of rows X (n, d + 1) and Y (m, d + 1)."""
        return self.rows.matrix(X[:, :-1], Y[:, :-1]) * self.label.matrix(X[:, -1:], Y[:, -1:])

    def diagonal(self, X: Array) -> Array:
        """(n,) values k_x(x, x) k_y(y, y) of rows X (n, d + 1)."""
        return self.rows.diagonal(X[:, :-1]) * self.label.diagonal(X[:, -1:])

    def check(self, X: Array) -> None:
        """Raise DataError where there is no column beside the label in rows X (n, d + 1), or a part is not defined on them."""
        if X.shape[1] < 2:
            raise DataError("rows with a label need at least one more column")
        self.rows.check(X[:, :-1])
        self.label.check(X[:, -1:])

    def text(self) -> str:
        """Both texts, joined by &."""
        return f"{self.rows.text()}{MARK}{self.label.text()}"

    def folded(self, dimension: int) -> tuple[GaussianKernel, Array] | None:
        """Of two Gaussians the one they are, and what columns (d + 1,) are multiplied by before it; else None."""
        if not isinstance(self.rows, GaussianKernel) or not isinstance(self.label, GaussianKernel):
            return None
        # |x − x'|²/ℓ² + (y − y')²/λ² is the square of a distance in columns (x, y ℓ/λ) over ℓ².
        factors = np.ones(dimension)
        factors[-1] = require_length(self.rows.bandwidth) / require_length(self.label.bandwidth)
        return self.rows, factors


def default_label_kernel(labels: Array) -> str:
    """The kernel of labels (n,) as text: whole numbers are classes, of which each is like itself alone; others have a median distance."""
    return HammingKernel().text() if (labels == np.rint(labels)).all() else "gaussian"
