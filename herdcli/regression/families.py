"""Families of generalised linear models: the distribution of the response as a function of its linear predictor η.

For each row a family gives the loss −log p(y | η) up to a constant in η, its slope in η and its expected curvature:

    gaussian      ½ (y − η)²                    η − y                  1
    bernoulli     log(1 + e^η) − y η            μ − y                  μ (1 − μ)            μ = 1/(1 + e^−η)
    poisson       e^η − y η                     μ − y                  μ                    μ = e^η
    gamma         η + y e^−η                    1 − y/μ                1                    μ = e^η, the mean; in units of 1/φ
    gamma-shape   log Γ(k) + k log s − k log y  k (ψ(k) + log s − log y)  k² ψ'(k)          k = e^η, the shape; scale s known
    softmax       log Σ e^η − η_y               π − 1[y]               diag π − π π'

Source: McCullagh & Nelder (1989), ch. 2; Makin, eqs. 5.10 to 5.15 (gamma-shape: 5.15).  The curvature is the expected one, so that a
step is one of Fisher scoring; for canonical links it is Newton's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy.special import digamma, gammaln, polygamma, xlogy

from herdcli.errors import BadUsage, DataError, IncompletePart
from herdcli.parts import import_complete_class, require_attributes
from herdcli.records import dataclass
from herdcli.regression.family_table import TABLE
from herdcli.schema import Array


class Family(ABC):
    """A distribution and its link; η (m, K), y (m,).

    name       the name in --family.
    dispersed  whether there is a dispersion to estimate besides η.
    """

    name: str
    dispersed: bool

    @classmethod
    def make(cls, *, classes: int, symmetric: bool, scale: float) -> Family:
        """Return the family for a response with this number of classes or this known scale, if the family has them."""
        return cls()

    def response_totals(self, y: Array, weight: Array) -> Array:
        """Return the statistics of a block's responses that `start` needs, summed over all blocks: Σ w and Σ w y."""
        return np.array([weight.sum(), weight @ y])

    @abstractmethod
    def initial_intercepts(self, totals: Array) -> Array:
        """Return the approximate intercepts (K,) of a model without columns, from the sum of `totals` over all rows."""

    def firth_terms(self, eta: Array) -> tuple[Array, Array]:
        """Return the terms of Firth's penalty: s (m,), the slope of log A″ in η, and −½ ds/dη (m,).

        Raises IncompletePart for families without them.
        """
        raise IncompletePart(
            f"{self.name} lacks firth_terms", hint=f"leave firth out of its line, or define them in {type(self).__module__}"
        )

    @abstractmethod
    def require_valid_response(self, y: Array) -> None:
        """Raise DataError for values outside the family's support."""

    @abstractmethod
    def loss_and_derivatives(self, eta: Array, y: Array) -> tuple[Array, Array, Array]:
        """Return loss (m,), slope (m, K) and curvature, (m, 1) or for softmax of K > 1 predictors (m, K) = π."""

    @abstractmethod
    def mean(self, eta: Array) -> Array:
        """Return E[y | η], (m, K)."""

    @abstractmethod
    def deviance(self, eta: Array, y: Array) -> Array:
        """Return the deviance of each row, (m,), in units of the dispersion.

        It is twice the difference in log-likelihood from a model that fits the row exactly.
        """

    @abstractmethod
    def log_likelihood(self, eta: Array, y: Array, dispersion: float | Array) -> Array:
        """Return log p(y | η) in nats, (m,)."""


def _refuse_values(bad: Array, y: Array, requirement: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(f"the target has {y[row]:g} in row {row}; {requirement}")


def _log_mean(totals: Array) -> Array:
    """Return (1,) log of the mean response, taken to be at least that of half a row."""
    return np.asarray(np.log(np.maximum(totals[1:] / totals[0], 0.5 / totals[0])))


@dataclass(frozen=True)
class Gaussian(Family):
    """The Gaussian family, for real responses."""

    name: str = "gaussian"
    dispersed: bool = True

    def require_valid_response(self, y: Array) -> None:
        _refuse_values(~np.isfinite(y), y, "it must be finite")

    def initial_intercepts(self, totals: Array) -> Array:
        return np.asarray(totals[1:] / totals[0])

    def loss_and_derivatives(self, eta: Array, y: Array) -> tuple[Array, Array, Array]:
        slope = eta - y[:, None]
        # −log N(y; η, φ) in units of 1/φ.  The dispersion scales loss, slope and curvature equally and cancels in the step (Makin, sec.
        # 5.1.1).
        return 0.5 * slope[:, 0] ** 2, slope, np.ones_like(eta)

    def mean(self, eta: Array) -> Array:
        return eta

    def deviance(self, eta: Array, y: Array) -> Array:
        found: Array = (y - eta[:, 0]) ** 2
        return found

    def log_likelihood(self, eta: Array, y: Array, dispersion: float | Array) -> Array:
        found: Array = -0.5 * (np.log(2 * np.pi * dispersion) + (y - eta[:, 0]) ** 2 / dispersion)
        return found


@dataclass(frozen=True)
class Bernoulli(Family):
    """The Bernoulli family, for responses 0 and 1."""

    name: str = "bernoulli"
    dispersed: bool = False

    def require_valid_response(self, y: Array) -> None:
        _refuse_values((y != 0) & (y != 1), y, "--family bernoulli needs 0 and 1")

    def initial_intercepts(self, totals: Array) -> Array:
        # With an intercept alone Σ (μ − y) = 0 at the minimum, so it is the link of the mean; half a row of either class keeps it
        # finite.
        mean, half = totals[1:] / totals[0], 0.5 / totals[0]
        return np.asarray(np.log((mean + half) / (1 - mean + half)))

    def firth_terms(self, eta: Array) -> tuple[Array, Array]:
        # log A″ = log μ(1 − μ) has the derivative 1 − 2μ, whose derivative is −2μ(1 − μ)
        p = self.mean(eta)[:, 0]
        return 1 - 2 * p, p * (1 - p)

    def loss_and_derivatives(self, eta: Array, y: Array) -> tuple[Array, Array, Array]:
        p = self.mean(eta)
        # y log μ + (1 − y) log (1 − μ) = y η − log (1 + e^η).  For any canonical link: slope A'(η) − y = μ − y, curvature A''(η) = Var y.
        return np.logaddexp(0.0, eta[:, 0]) - y * eta[:, 0], p - y[:, None], p * (1 - p)

    def mean(self, eta: Array) -> Array:
        # 1/(1 + e^−η) without overflow on either side
        small = np.exp(-np.abs(eta))
        found: Array = np.where(eta >= 0, 1.0, small) / (1.0 + small)
        return found

    def deviance(self, eta: Array, y: Array) -> Array:
        # For a share of trials the loss cannot fall below its entropy; for 0 and 1 that is 0.
        found: Array = 2 * (self.loss_and_derivatives(eta, y)[0] + xlogy(y, y) + xlogy(1 - y, 1 - y))
        return found

    def log_likelihood(self, eta: Array, y: Array, dispersion: float | Array) -> Array:
        return -self.loss_and_derivatives(eta, y)[0]


@dataclass(frozen=True)
class Poisson(Family):
    """The Poisson family with log link, for counts."""

    name: str = "poisson"
    dispersed: bool = False

    def require_valid_response(self, y: Array) -> None:
        _refuse_values((y < 0) | (y != np.floor(y)), y, "--family poisson needs counts 0, 1, 2, …")

    def initial_intercepts(self, totals: Array) -> Array:
        return _log_mean(totals)

    def firth_terms(self, eta: Array) -> tuple[Array, Array]:
        # log A″ = η
        return np.ones(len(eta)), np.zeros(len(eta))

    def loss_and_derivatives(self, eta: Array, y: Array) -> tuple[Array, Array, Array]:
        mu = self.mean(eta)
        # A(η) = e^η = mean = variance (Makin, sec. 5.1.2); log y! does not depend on η.
        return mu[:, 0] - y * eta[:, 0], mu - y[:, None], mu

    def mean(self, eta: Array) -> Array:
        found: Array = np.exp(np.minimum(eta, 700.0))
        return found

    def deviance(self, eta: Array, y: Array) -> Array:
        # The best η of one row is log y, with loss y − y log y; 0 log 0 = 0.
        found: Array = 2 * (xlogy(y, y) - y * eta[:, 0] - y + self.mean(eta)[:, 0])
        return found

    def log_likelihood(self, eta: Array, y: Array, dispersion: float | Array) -> Array:
        found: Array = -self.loss_and_derivatives(eta, y)[0] - gammaln(y + 1)
        return found


@dataclass(frozen=True)
class Gamma(Family):
    """The gamma family, for positive responses with mean e^η and one dispersion φ (shape 1/φ)."""

    name: str = "gamma"
    dispersed: bool = True

    def require_valid_response(self, y: Array) -> None:
        _refuse_values(~((y > 0) & np.isfinite(y)), y, "--family gamma needs values above 0")

    def initial_intercepts(self, totals: Array) -> Array:
        return _log_mean(totals)

    def loss_and_derivatives(self, eta: Array, y: Array) -> tuple[Array, Array, Array]:
        ratio = y * np.exp(np.minimum(-eta[:, 0], 700.0))
        # −log p = (1/φ)(log μ + y/μ) + terms without η.  In η = log μ: slope 1 − y/μ, second derivative y/μ with mean 1: the
        # log link is not canonical, and the expected curvature is positive everywhere.
        return eta[:, 0] + ratio, (1 - ratio)[:, None], np.ones_like(eta)

    def mean(self, eta: Array) -> Array:
        found: Array = np.exp(np.minimum(eta, 700.0))
        return found

    def deviance(self, eta: Array, y: Array) -> Array:
        ratio = y / self.mean(eta)[:, 0]
        # The best mean of one row is y, with loss log y + 1.
        found: Array = 2 * (ratio - 1 - np.log(ratio))
        return found

    def log_likelihood(self, eta: Array, y: Array, dispersion: float | Array) -> Array:
        shape = 1 / dispersion
        rate = shape / self.mean(eta)[:, 0]
        found: Array = shape * np.log(rate) + (shape - 1) * np.log(y) - rate * y - gammaln(shape)
        return found


@dataclass(frozen=True)
class GammaShape(Family):
    """The gamma family for positive responses with shape e^η and a known scale."""

    scale: float = 1.0
    name: str = "gamma-shape"
    dispersed: bool = False

    @classmethod
    def make(cls, *, classes: int, symmetric: bool, scale: float) -> GammaShape:
        """Return the family with the known scale."""
        return cls(scale)

    def require_valid_response(self, y: Array) -> None:
        _refuse_values(~((y > 0) & np.isfinite(y)), y, "--family gamma-shape needs values above 0")

    def initial_intercepts(self, totals: Array) -> Array:
        return np.asarray(np.log(np.maximum(totals[1:] / totals[0] / self.scale, 1e-300)))

    def loss_and_derivatives(self, eta: Array, y: Array) -> tuple[Array, Array, Array]:
        k = np.exp(np.minimum(eta, 100.0))
        # −log p = log Γ(k) + k log s − (k − 1) log y + y/s.  In η = log k, d/dη = k d/dk: slope k (ψ(k) + log s − log y), with mean 0
        # since E log y = ψ(k) + log s; its derivative has the mean k²ψ'(k) (Makin, eq. 5.15).
        lift = np.log(self.scale) - np.log(y)
        return gammaln(k[:, 0]) + k[:, 0] * lift, k * (digamma(k) + lift[:, None]), k * k * polygamma(1, k)

    def mean(self, eta: Array) -> Array:
        found: Array = self.scale * np.exp(np.minimum(eta, 100.0))
        return found

    def deviance(self, eta: Array, y: Array) -> Array:
        # the shape with the best fit to a row solves ψ(k) = log(y/s)
        best = np.log(_inverse_digamma(np.log(y / self.scale)))[:, None]
        found: Array = 2 * (self.loss_and_derivatives(eta, y)[0] - self.loss_and_derivatives(best, y)[0])
        return found

    def log_likelihood(self, eta: Array, y: Array, dispersion: float | Array) -> Array:
        found: Array = -self.loss_and_derivatives(eta, y)[0] - np.log(y) - y / self.scale
        return found


@dataclass(frozen=True)
class Softmax(Family):
    """The softmax family, for one of C classes, an index in y.

    free  number of predictors; if it is C − 1, the first class has none.
    """

    classes: int
    free: int
    name: str = "softmax"
    dispersed: bool = False

    @classmethod
    def make(cls, *, classes: int, symmetric: bool, scale: float) -> Softmax:
        """Return the family with a predictor for each class, or for each but the first."""
        return cls(classes, classes if symmetric else classes - 1)

    def require_valid_response(self, y: Array) -> None:
        _refuse_values((y < 0) | (y >= self.classes), y, f"classes go from 0 to {self.classes - 1}")

    def response_totals(self, y: Array, weight: Array) -> Array:
        """Return the weight of each class (C,)."""
        return np.bincount(y.astype(np.int64), weights=weight, minlength=self.classes)

    def initial_intercepts(self, totals: Array) -> Array:
        logs = np.log(np.maximum(totals, 0.5))
        return np.asarray(logs[1:] - logs[0] if self.free < self.classes else logs - logs.mean())

    def _log_mean(self, eta: Array) -> Array:
        whole = eta if self.free == self.classes else np.concatenate([np.zeros((len(eta), 1)), eta], axis=1)
        top = whole.max(axis=1, keepdims=True)
        found: Array = whole - top - np.log(np.exp(whole - top).sum(axis=1, keepdims=True))
        return found

    def loss_and_derivatives(self, eta: Array, y: Array) -> tuple[Array, Array, Array]:
        log_p, rows, index = self._log_mean(eta), np.arange(len(y)), y.astype(np.int64)
        p = np.exp(log_p)
        slope = p.copy()
        # −log π_y = log Σ e^η − η_y: slope π − 1[y], second derivatives diag π − ππ' for any y.
        slope[rows, index] -= 1
        skip = self.classes - self.free
        curve = p[:, skip:]
        # A single predictor has the curvature π(1 − π).
        return -log_p[rows, index], slope[:, skip:], curve if self.free > 1 else curve * (1 - curve)

    def mean(self, eta: Array) -> Array:
        found: Array = np.exp(self._log_mean(eta))
        return found

    def deviance(self, eta: Array, y: Array) -> Array:
        return 2 * self.loss_and_derivatives(eta, y)[0]

    def log_likelihood(self, eta: Array, y: Array, dispersion: float | Array) -> Array:
        return -self.loss_and_derivatives(eta, y)[0]


def family_by_name(name: str, *, classes: int = 2, symmetric: bool = False, scale: float = 1.0) -> Family:
    """Return the family of this name.

    classes, symmetric  for softmax: its first class is the reference unless it is penalised.
    """
    if name not in TABLE:
        raise BadUsage(f"there is no family '{name}'", hint=f"families: {', '.join(TABLE)}")
    found: Family = import_complete_class(TABLE[name].path, Family).make(classes=classes, symmetric=symmetric, scale=scale)
    require_attributes(found, Family)
    return found


def _inverse_digamma(value: Array) -> Array:
    """Return k with ψ(k) = value, by Newton's method from Minka's start: e^v + ½ for v ≥ −2.22, else −1/(v − ψ(1))."""
    k = np.where(value >= -2.22, np.exp(np.minimum(value, 700.0)) + 0.5, -1 / np.minimum(value - digamma(1.0), -1.0))
    for _ in range(6):
        k = k - (digamma(k) - value) / polygamma(1, k)
    return k
