"""The approximations of the mean embedding μ, and bounds of their effect on the MMD of any atoms.

    exact        all pairs of candidates and rows
    sample:N     the mean of N rows drawn with their weights                  (subsampled_embedding.py)
    nystrom:R    the projection of μ on the span of R rows' features          (nystrom.py)
    fourier:R    R random frequencies of the kernel's spectral measure        (random_fourier.py)

The first three are elements of the kernel's space, so that |MMD(g, μ) − MMD(g, μ̃)| ≤ ‖μ − μ̃‖ for all atoms and weights of g.
Fourier features are not, and their error depends on the weights; see `EmbeddingErrorBounds`.
"""

from __future__ import annotations

import math

import numpy as np

from herdcli.errors import BadUsage
from herdcli.records import dataclass
from herdcli.schema import Array

KINDS = ("sample", "nystrom", "fourier")
LEVEL = 0.001  # probability with which a bound on samples or frequencies may fail
HINT = "exact, sample:N, nystrom:R or fourier:R"


PAIR, COLUMN = 7e-10, 2.8e-11  # CPU seconds per kernel value, and per column of its arguments, on a machine of 2023
VALUES, FACTOR = 4.0, 1e-10  # kernel values for each of R landmarks and a row; CPU seconds per entry of R³ in their factorisation
WORTH = 5.0  # all pairs are always computed if this takes at most this many CPU seconds


def estimate_exact_seconds(points: int, rows: int, columns: int) -> float:
    """Estimate the CPU seconds that the mean embedding of all pairs takes."""
    return points * rows * (PAIR + COLUMN * columns)


def estimate_nystrom_seconds(points: int, rows: int, columns: int, landmarks: int) -> float:
    """Estimate the CPU seconds of the projection on R landmarks: their kernel values with all rows, and their R³ factorisation."""
    return VALUES * (points + rows) * landmarks * (PAIR + COLUMN * columns) + FACTOR * landmarks**3


@dataclass(frozen=True)
class EmbeddingApproximation:
    """One of KINDS with its number of samples, landmarks or frequencies.

    by_cost  use it only if all pairs take longer than WORTH seconds, and longer than this approximation.
    """

    kind: str
    size: int
    by_cost: bool = False

    def text(self) -> str:
        """Return the text of the option."""
        return f"{self.kind}:{self.size}"

    def is_suitable(self, points: int, rows: int, columns: int) -> bool:
        """Whether to use it for this number of candidates and rows.

        With as many samples or landmarks as rows, it would cost more than all pairs.
        """
        if self.kind != "fourier" and rows <= self.size:
            return False
        exact = estimate_exact_seconds(points, rows, columns)
        return not self.by_cost or exact > max(WORTH, estimate_nystrom_seconds(points, rows, columns, self.size))

    def bound_kind(self) -> str:
        """Return the kind of bound that it has."""
        return "for certain" if self.kind == "nystrom" else f"with {100 * (1 - LEVEL):g} % confidence"


def parse_embedding_approximation(text: str) -> EmbeddingApproximation | None:
    """Parse a text such as nystrom:1000; returns None for `exact`.  Raises ValueError."""
    if text == "exact":
        return None
    kind, _, number = text.partition(":")
    if kind not in KINDS or not number.isdecimal() or not 1 < int(number) < 1 << 31:
        raise ValueError(f"is none of {HINT}, N and R above 1")
    return EmbeddingApproximation(kind, int(number))


@dataclass(frozen=True)
class EmbeddingErrorBounds:
    """Bounds on the difference between an approximate embedding μ̃ and μ; 0 if a bound does not apply.

    distance  ‖μ − μ̃‖ in the kernel's space.  For Fourier features: uniform  |μ − μ̃| at each candidate, and norm |‖μ‖² − ‖μ̃‖²|.
    """

    distance: float = 0.0
    uniform: float = 0.0
    norm: float = 0.0

    def mmd_error_bound(self, mmd: float, weights: Array) -> float:
        """Return the bound of |MMD − mmd|, where mmd is the distance of weights (m,) to μ̃."""
        # MMD² − mmd² = −2 Σ w_u (μ − μ̃)(x_u) + ‖μ‖² − ‖μ̃‖² =: Δ, and |√a − √b| = |a − b|/(√a + √b) ≤ min(√|a − b|, |a − b|/√b).
        square = 2.0 * self.uniform * float(np.abs(weights).sum()) + self.norm
        return self.distance + min(math.sqrt(square), square / mmd if mmd > 0 else math.inf)


def no_random_features_error(kernel: str) -> BadUsage:
    """Make the error for a kernel that has no random features."""
    hint = (
        "use --embedding nystrom:R, or a kernel gaussian, laplace, matern…, inverse-multiquadric, rational-quadratic, or their sums "
        "and products"
    )
    return BadUsage(
        f"--embedding fourier: random Fourier features do not exist for the kernel {kernel}, which has no spectral density", hint=hint
    )
