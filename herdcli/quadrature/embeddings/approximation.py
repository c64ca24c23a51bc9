"""Which approximation of the mean embedding μ is taken, and what it adds to the distance of any atoms from the rows.

    exact        all pairs of candidates and rows
    sample:N     the mean of N rows drawn with their weights                  (subsampled_embedding.py)
    nystrom:R    the projection of μ on the span of R rows' features          (nystrom.py)
    fourier:R    R random frequencies of the kernel's spectral measure        (random_fourier.py)

The first three are elements of the kernel's space, so that |MMD(g, μ) − MMD(g, μ̃)| ≤ ‖μ − μ̃‖ whatever the atoms and weights of g.
Fourier features are not, and their error depends on the weights; see `Added`.
"""

from __future__ import annotations

import math

import numpy as np

from herdcli.errors import BadUsage
from herdcli.records import dataclass
from herdcli.schema import Array

KINDS = ("sample", "nystrom", "fourier")
LEVEL = 0.001  # probability with which a bound of draws or frequencies may fail
HINT = "exact, sample:N, nystrom:R or fourier:R"


PAIR, COLUMN = 7e-10, 2.8e-11  # CPU seconds of a kernel value, and of each column it is of, on a machine of 2023
VALUES, FACTOR = 4.0, 1e-10  # kernel values for each of R landmarks and a row; of R³ entries of their factor
WORTH = 5.0  # CPU seconds that all pairs are always worth


def exact_seconds(points: int, rows: int, columns: int) -> float:
    """CPU seconds that the mean embedding of all pairs takes, about."""
    return points * rows * (PAIR + COLUMN * columns)


def nystrom_seconds(points: int, rows: int, columns: int, size: int) -> float:
    """CPU seconds that the projection on R landmarks takes, about: their values with all rows, and their R³ factor."""
    return VALUES * (points + rows) * size * (PAIR + COLUMN * columns) + FACTOR * size**3


@dataclass(frozen=True)
class EmbeddingApproximation:
    """One of KINDS with the number of its draws, landmarks or frequencies.

    by_cost  used where all pairs take longer than WORTH seconds, and longer than this.
    """

    kind: str
    size: int
    by_cost: bool = False

    def text(self) -> str:
        """As it is typed."""
        return f"{self.kind}:{self.size}"

    def is_suitable(self, points: int, rows: int, columns: int) -> bool:
        """Whether it is taken for so many candidates and rows: as many draws or landmarks as rows would cost more than all pairs."""
        if self.kind != "fourier" and rows <= self.size:
            return False
        exact = exact_seconds(points, rows, columns)
        return not self.by_cost or exact > max(WORTH, nystrom_seconds(points, rows, columns, self.size))

    def guarantee(self) -> str:
        """What kind of bound it has."""
        return "for certain" if self.kind == "nystrom" else f"with {100 * (1 - LEVEL):g} % confidence"


def parse_embedding(text: str) -> EmbeddingApproximation | None:
    """The approximation of a text such as nystrom:1000, None for `exact`.  Raises ValueError."""
    if text == "exact":
        return None
    kind, _, number = text.partition(":")
    if kind not in KINDS or not number.isdigit() or not 1 < int(number) < 1 << 31:
        raise ValueError(f"is none of {HINT}, N and R above 1")
    return EmbeddingApproximation(kind, int(number))


@dataclass(frozen=True)
class Added:
    """How far an approximate embedding μ̃ may be from μ; 0 where it does not say.

    distance  ‖μ − μ̃‖ in the kernel's space.  uniform  |μ − μ̃| at each candidate, and norm |‖μ‖² − ‖μ̃‖²|: of Fourier features.
    """

    distance: float = 0.0
    uniform: float = 0.0
    norm: float = 0.0

    def mmd_bound(self, mmd: float, weights: Array) -> float:
        """The bound of |MMD − mmd|, mmd that of weights (m,) to μ̃."""
        # MMD² − mmd² = −2 Σ w_u (μ − μ̃)(x_u) + ‖μ‖² − ‖μ̃‖² =: Δ, and |√a − √b| = |a − b|/(√a + √b) ≤ min(√|a − b|, |a − b|/√b).
        square = 2.0 * self.uniform * float(np.abs(weights).sum()) + self.norm
        return self.distance + min(math.sqrt(square), square / mmd if mmd > 0 else math.inf)


def no_features_error(kernel: str) -> BadUsage:
    """A kernel that random features do not know."""
    hint = "fourier goes with gaussian, laplace, matern…, inverse-multiquadric, rational-quadratic, their sums and products; or nystrom:R"
    return BadUsage(f"--embedding fourier: the kernel {kernel} has no spectral density", hint=hint)
