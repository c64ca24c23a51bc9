"""The effect of estimating the errors' covariance on the errors of coefficients and on their degrees of freedom.

With Φ = (X'Ω⁻¹X)⁻¹ the covariance σ²Φ̂ of generalised least squares is too small in two ways.  The weights are themselves estimated, which
adds Λ = Φ {Σ W_ij (Q_ij − P_i Φ P_j)} Φ, with W the covariance of Ω's parameters, P_i = X'Ω⁻¹Ω_iΩ⁻¹X and Q_ij = X'Ω⁻¹Ω_iΩ⁻¹Ω_jΩ⁻¹X; and Φ̂
falls short of Φ by as much.  Errors are the roots of σ²(Φ + 2Λ).  Their own variance determines the degrees of freedom of t:
2/Var log(σ²Φ_jj), from the gradient of log(σ²Φ_jj) in the parameters.
Source: Kackar & Harville (1984), Kenward & Roger (1997), without the term of the parameters' curvature; Satterthwaite (1946).
"""

from __future__ import annotations

import numpy as np

from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class CovarianceUncertainty:
    """The uncertainty of k parameters of the errors' covariance, for p coefficients, the intercept last.

    excess (p, p)     2Λ, in units of the dispersion.
    slopes (k, p, p)  derivatives of σ²Φ in the parameters, in units of σ².  spread (k, k)  the parameters' covariance.
    own               variance of log σ² given them; 0 if σ² is one of them.
    """

    excess: Array
    slopes: Array
    spread: Array
    own: float

    def covariance(self, bread: Array) -> Array:
        """Return the coefficients' covariance (p, p) in units of the dispersion, with Φ (p, p) = `bread`."""
        found: Array = bread + self.excess
        return found

    def freedom(self, bread: Array, to_original_coefficients: Array | None = None) -> Array:
        """Return the degrees of freedom (p,) of t, for coefficients that are `to_original_coefficients` (p, p) times these."""
        change = np.eye(len(bread)) if to_original_coefficients is None else to_original_coefficients
        level = np.einsum("ji,ik,jk->j", change, bread, change)
        gain = np.einsum("ji,mik,jk->jm", change, self.slopes, change) / np.maximum(level, 1e-300)[:, None]
        variance = self.own + np.einsum("jm,mn,jn->j", gain, self.spread, gain)
        return np.asarray(np.maximum(2.0 / variance, 1.0))


def covariance_excess(bread: Array, first: Array, second: Array, spread: Array) -> Array:
    """Return 2Λ (p, p) from P (k, p, p), Σ W_ij Q_ij (p, p) and W (k, k)."""
    mixed = np.einsum("mn,mij->nij", spread, first)
    middle = second - (mixed @ bread @ first).sum(axis=0)
    found: Array = 2 * bread @ middle @ bread
    return found
