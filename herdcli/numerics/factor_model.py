"""Factor analysis by Newton's method: a few factors shared by all columns, and separate noise for every column.

    x = m + Λ f + ε,   f ~ N(0, I_k),   ε ~ N(0, diag Ψ);      Σ = ΛΛ' + Ψ

Given Ψ the maximum-likelihood Λ is Ψ^½ U (Θ − I)^½, with the k largest eigenvalues Θ and eigenvectors U of Ψ^−½ S Ψ^−½.  The profile
likelihood is a function of log Ψ alone.  Newton's method with the exact Hessian minimises its negative in about ten steps, even with
noises at their least, while alternating between Λ and Ψ takes thousands.
Source: Jöreskog (1967); Clarke (1970) for the Hessian; Bertsekas (1982) for the bounds; Bartlett (1937).

EM (`em/factor/factor_analysis.py`) climbs the same likelihood in other steps, which also work for rows with missing values; this
method needs the covariance of complete rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from herdcli.errors import BadUsage, DataError, NotConverged
from herdcli.records import dataclass
from herdcli.schema import Array

ITERATIONS = 200
SETTLED = 1e-9  # convergence: largest gradient in the log of a noise variance, nats per row
LEAST = 1e-6  # least noise variance relative to the column's variance: a column that is a factor itself would have none
FURTHEST = 2.0  # largest change of the log of a noise in one step
SHORTEST = 2.0**-30
FALLING = 2  # factor by which the gradient must fall where rounding hides the fall of the value
FLATTEST = 1e-3  # least curvature assumed for a step along the gradient
REGULAR = 1e-4  # least eigenvalue of the correlations at which they are inverted
SUFFICIENT = 1e-4  # share of the fall predicted by the gradient that a step must achieve
ROUNDING = 1e-12  # a decrease below this share of the value cannot be distinguished from rounding


@dataclass(frozen=True)
class LowRankPlusDiagonal:
    """A factor model: U (D, k) and Θ (k,) descending, as defined in the module, and noise variances Ψ (D,)."""

    vectors: Array
    values: Array
    noise: Array

    @property
    def loadings(self) -> Array:
        """The loadings Λ (D, k)."""
        return np.asarray(np.sqrt(self.noise)[:, np.newaxis] * self.vectors * np.sqrt(self.values - 1.0))


def fit_factors(S: Array, count: int) -> LowRankPlusDiagonal:
    """Return the maximum-likelihood factors of rows with covariance S (D, D), divided by n.

    Raises BadUsage for more factors than D columns determine, (D − k)² < D + k; DataError for constant columns or too few
    directions above the noise; NotConverged.
    """
    D, variance = len(S), np.diag(S).copy()
    if count > (most := max_identifiable_factors(D)):
        raise BadUsage(
            f"{D} columns determine at most {most} factors, not {count}",
            hint="use --whiten pca" if most < 1 else f"use --components {most}",
        )
    flat = np.flatnonzero(variance <= 0)
    if len(flat):
        raise DataError(f"column {flat[0]} is constant, so its noise variance is zero", hint="use --whiten pca, or remove the column")
    found, settled = fit_factors_above_noise(S, count, LEAST * variance)
    if not settled:
        raise NotConverged(f"the noise variances of the columns did not converge in {ITERATIONS} iterations", hint="use fewer --components")
    return found


def max_identifiable_factors(columns: int) -> int:
    """Return the largest number of factors k that D columns determine, (D − k)² ≥ D + k.      Source: Ledermann (1937)."""
    # A covariance has D(D + 1)/2 numbers; loadings up to a rotation and noises are Dk − k(k − 1)/2 + D.  The former are at least as many
    # if (D − k)² ≥ D + k.
    return max(k for k in range(columns) if (columns - k) ** 2 >= columns + k)


def fit_factors_above_noise(S: Array, count: int, min_noise: Array) -> tuple[LowRankPlusDiagonal, bool]:
    """Return the maximum-likelihood factors of S (D, D) with noise variances of at least `min_noise` (D,) > 0, and whether it converged."""
    lowest = np.log(min_noise)
    x = np.log(np.maximum(_initial_noise_variances(S, count, min_noise), min_noise))
    value, gradient, hessian = _negative_profile_likelihood(S, x, count)
    for _ in range(ITERATIONS):
        # A noise that would fall below its bound stays there: the projected gradient of the others says whether this is a minimum
        # (Bertsekas 1982).
        free = ~((x <= lowest) & (gradient > 0))
        if float(np.abs(gradient[free]).max(initial=0.0)) <= SETTLED:
            break
        found = _line_search(S, x, value, gradient, hessian, free, lowest, count)
        if found is None:
            break
        x, (value, gradient, hessian) = found
    else:
        return _factors_given_noise(S, np.exp(x), count), False
    return _factors_given_noise(S, np.exp(x), count), True


def _initial_noise_variances(S: Array, count: int, min_noise: Array) -> Array:
    """Return initial noises (D,): (1 − k / 2D) / (S⁻¹)_ii, near the variance given the other columns; half its variance if S is singular.

    Source: Jöreskog (1967), sec. 5.
    """
    variance = np.diag(S)
    start: Array = 0.5 * variance
    there = variance > min_noise
    scale = np.sqrt(variance[there])
    correlation = S[np.ix_(there, there)] / np.outer(scale, scale)
    if len(scale) and np.linalg.eigvalsh(correlation)[0] > REGULAR:
        # 1/(S⁻¹)_ii is the variance of column i given all others, an upper bound of its noise.  Correlations are
        # inverted instead of S, whose columns may differ in scale.
        start[there] = (1 - 0.5 * count / len(S)) * scale**2 / np.diag(np.linalg.inv(correlation))
    return start


def _line_search(
    S: Array, x: Array, value: float, gradient: Array, hessian: tuple[Array, Array], free: Array, lowest: Array, count: int
) -> tuple[Array, tuple[float, Array, tuple[Array, Array]]] | None:
    """Return the next point along the path max(x + t d, lowest), or None if there is none.

    t is halved until the value falls or, where rounding hides its fall, until the gradient halves.
    d is Newton's step, or that of the Hessian's diagonal if projecting Newton's step leaves no descent.
    """
    for direction in _descent_directions([part[np.ix_(free, free)] for part in hessian], gradient[free]):
        step = np.zeros_like(x)
        step[free] = direction * min(1.0, FURTHEST / float(np.abs(direction).max()))
        length = 1.0
        while length > SHORTEST:
            new = np.maximum(x + length * step, lowest)
            foreseen = float(gradient @ (new - x))
            if foreseen >= -ROUNDING * abs(value):
                found = _negative_profile_likelihood(S, new, count)
                if FALLING * np.abs(found[1][free]).max() < np.abs(gradient[free]).max():
                    return new, found
                break
            found = _negative_profile_likelihood(S, new, count)
            if found[0] <= value + SUFFICIENT * foreseen:
                return new, found
            length /= 2
    return None


def _descent_directions(hessian: list[Array], gradient: Array) -> Iterator[Array]:
    """Yield Newton's step, the Gauss–Newton step from the semidefinite part of the Hessian, and the step from its diagonal."""
    from scipy.linalg import cho_factor, cho_solve  # imported here because the import takes longer than most runs that need no factors

    for matrix in hessian:
        with contextlib.suppress(np.linalg.LinAlgError):
            yield -cho_solve(cho_factor(matrix), gradient)
    yield -gradient / np.maximum(np.diag(hessian[1]), FLATTEST)


def _negative_profile_likelihood(S: Array, x: Array, count: int) -> tuple[float, Array, tuple[Array, Array]]:
    """Return −log-likelihood per row (without D/2 log 2π) at x = log Ψ, its gradient (D,), and two forms of its Hessian (D, D).

    With β_m, u_m the spectrum of B = Ψ^−½ S Ψ^−½, descending, f = ½ (Σ x + Σ_{m ≤ k} (log β_m + 1) + Σ_{m > k} β_m).
    From dB/dx_i = −½ (E_i B + B E_i): dβ_m/dx_i = −β_m u_im², so that df/dx_i = ½ Σ_{m > k} (1 − β_m) u_im², and with W_m = u_m u_m'

        d²f = ½ Σ_{m, n > k} β_m W_m ∘ W_n + ½ Σ_{m > k} Σ_{n ≤ k} (1 − β_m) (β_n + β_m) / (β_n − β_m) W_m ∘ W_n.

    The first sum is semidefinite, by Schur's theorem; the second vanishes where the rest is noise, β_m = 1.  β_n ≤ 1 has no factor.
    """
    scale = np.exp(-0.5 * x)
    values, vectors = np.linalg.eigh(S * np.outer(scale, scale))
    above = np.arange(len(x)) >= len(x) - count
    above &= values > 1.0
    low, high, U, V = values[~above], values[above], vectors[:, ~above], vectors[:, above]
    # −log p per row is ½ log|Σ| + ½ tr SΣ⁻¹.  With the best Λ, Ψ^−½ΣΨ^−½ has the eigenvalues β_m for m ≤ k and 1 for the others: ½ (Σ x +
    # Σ_{m≤k} log β_m) and ½ (k + Σ_{m>k} β_m).
    value = 0.5 * float(x.sum() + np.log(high).sum() + len(high) + low.sum())
    gradient = 0.5 * np.square(U) @ (1.0 - low)
    part = 0.5 * ((U * low) @ U.T) * (U @ U.T)
    whole = part.copy()
    for n, v in zip(high, V.T, strict=True):
        # Where β_n and β_m cross above 1, the profile has a kink and the quotient is unbounded; the quotient is kept finite.
        share = (1.0 - low) * (n + low) / np.maximum(n - low, 1e-12 * n)
        whole += 0.5 * ((U * share) @ U.T) * np.outer(v, v)
    return value, gradient, (whole, part)


def _factors_given_noise(S: Array, noise: Array, count: int) -> LowRankPlusDiagonal:
    scale = np.sqrt(noise)
    values, vectors = np.linalg.eigh(S / np.outer(scale, scale))
    return LowRankPlusDiagonal(vectors[:, : -count - 1 : -1], np.maximum(values[: -count - 1 : -1], 1.0), noise)
