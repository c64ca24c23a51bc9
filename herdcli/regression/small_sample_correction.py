"""The effect of estimating the errors' covariance on the errors of coefficients and on their degrees of freedom.

With Φ = (X'Ω⁻¹X)⁻¹ the covariance σ²Φ̂ of generalised least squares is too small in two ways.  The weights are themselves estimated, which
adds Λ = Φ {Σ W_ij (Q_ij − P_i Φ P_j)} Φ, with W the covariance of Ω's parameters, P_i = X'Ω⁻¹Ω_iΩ⁻¹X and Q_ij = X'Ω⁻¹Ω_iΩ⁻¹Ω_jΩ⁻¹X; and Φ̂
is smaller than Φ, again by Λ.  The standard errors are the roots of the diagonal of σ²(Φ + 2Λ).  The degrees of freedom of t are
2/Var log(σ²Φ_jj), where the variance follows from the gradient of log(σ²Φ_jj) with respect to the parameters.
Source: Kackar & Harville (1984), Kenward & Roger (1997), without the term of the parameters' curvature; Satterthwaite (1946).
"""

from __future__ import annotations

import numpy as np

from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class CovarianceUncertainty:
    """How uncertain the k estimated parameters of the error covariance are, and how this changes the covariance of p coefficients.

    The intercept is the last coefficient.  Λ and Φ are defined in the module's docstring.

    excess (p, p)     2Λ in units of σ², the term added to Φ.
    slopes (k, p, p)  the derivatives of σ²Φ with respect to the k parameters, in units of σ².
    spread (k, k)     the covariance of the k parameters.
    own               the variance of log σ² when the k parameters are known; 0 if σ² is one of the k.
    """

    excess: Array
    slopes: Array
    spread: Array
    own: float

    def covariance(self, bread: Array) -> Array:
        """Return the coefficients' covariance (p, p) in units of the dispersion, with Φ (p, p) = `bread`."""
        found: Array = bread + self.excess
        return found

    def degrees_of_freedom(self, bread: Array, to_original_coefficients: Array | None = None) -> Array:
        """Return the degrees of freedom (p,) of the t statistics of the coefficients `to_original_coefficients` (p, p) times these p."""
        change = np.eye(len(bread)) if to_original_coefficients is None else to_original_coefficients
        level = np.einsum("ji,ik,jk->j", change, bread, change)
        gain = np.einsum("ji,mik,jk->jm", change, self.slopes, change) / np.maximum(level, 1e-300)[:, None]
        variance = self.own + np.einsum("jm,mn,jn->j", gain, self.spread, gain)
        return np.asarray(np.maximum(2.0 / variance, 1.0))


def covariance_excess(bread: Array, first: Array, second: Array, parameter_covariance: Array) -> Array:
    """Return 2Λ (p, p) from P (k, p, p), Σ W_ij Q_ij (p, p) and W (k, k)."""
    mixed = np.einsum("mn,mij->nij", parameter_covariance, first)
    middle = second - (mixed @ bread @ first).sum(axis=0)
    found: Array = 2 * bread @ middle @ bread
    return found
