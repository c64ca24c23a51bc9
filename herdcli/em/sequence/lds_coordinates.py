"""Coordinates of a linear dynamical system in which the information, if the states were observed, is the identity.

    [A B a] = F₀ + N_Q f M_z⁻¹,  N_Q N_Q' = Q₀,  M_z M_z' = ⟨zz'⟩;   [C c] in the same way of R₀ and ⟨xx'⟩;   μ = μ₀ + N_P m / √n
    Σ = floor + L T T'L',   L L' = Σ₀ − floor,   T lower with 1 + t / √2n on its diagonal and t / √n below it

Every x gives covariances above their floor, so no step has to be cut short there.  n  number of vectors with that covariance.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

import numpy as np

from herdcli.em.quasi_newton import Parameters
from herdcli.numerics.block_statistics import Sums
from herdcli.records import dataclass
from herdcli.schema import Array

NEAR = 1e-8  # least variance above the floor in any direction at the origin, relative to the variances
ABOVE = 1e-2  # the same, relative to the floor
EASE = 1e-9  # share of a regressor's square that is added for linearly dependent regressors


class HasDynamics(Protocol):
    """The part of `lds.LDS` that the coordinates need."""

    @property
    def states(self) -> int:
        """The number of states, K."""
        ...

    @property
    def diagonal(self) -> bool:
        """Whether R is diagonal."""
        ...

    @property
    def floor(self) -> float:
        """The floor of R, relative to scale²."""
        ...

    @property
    def scale(self) -> Array:
        """The scales of the columns (D,)."""
        ...

    def regression_coefficients(self, p: Parameters) -> tuple[Array, Array]:
        """Return the coefficients [A B a], and [C c] for rows less their centre."""
        ...

    def with_regression_coefficients(self, p: Parameters, F: Array, G: Array) -> Parameters:
        """Return the parameters with these regression coefficients."""
        ...

    def residual_sums(self, p: Parameters, s: Sums) -> tuple[Array, Array, Array]:
        """Return Σ E[ee'] of first states, of steps and of rows."""
        ...


@lru_cache(maxsize=32)
def _below_diagonal_indices(D: int) -> tuple[Array, Array]:
    """Return the indices below the diagonal of a matrix (D, D), row by row."""
    return np.tril_indices(D, -1)


@dataclass(frozen=True)
class CovarianceCoordinates:
    """Coordinates T of a covariance around Σ₀.

    floor     the least covariance.
    above     L, a root of Σ₀ − floor.
    root      N, a root of Σ₀.
    count     number of vectors that the covariance is estimated from.
    diagonal  whether T is diagonal.
    """

    floor: Array
    above: Array
    root: Array
    count: float
    diagonal: bool

    @property
    def size(self) -> int:
        """The number of free entries of T."""
        D = len(self.floor)
        return D if self.diagonal else D * (D + 1) // 2

    def triangular_factor(self, t: Array) -> Array:
        """Return the matrix T at t."""
        D = len(self.floor)
        T = np.diag(1.0 + t[:D] / np.sqrt(2.0 * self.count))
        if not self.diagonal:
            T[_below_diagonal_indices(D)] = t[D:] / np.sqrt(self.count)
        return T

    def covariance(self, t: Array) -> Array:
        """Return the covariance Σ at t."""
        root = self.above @ self.triangular_factor(t)
        return np.asarray(self.floor + root @ root.T)

    def gradient(self, t: Array, residual: Array, vectors: float) -> Array:
        """Return the gradient of Σ log N(e; 0, Σ) in t, for `vectors` vectors with Σ ee' = residual."""
        # With H = Σ⁻¹(Σee')Σ⁻¹ − n Σ⁻¹ the differential is ½ tr H dΣ, and dΣ = L(dT T' + T dT')L' makes it tr (L'HLT)' dT.
        inverse = np.linalg.inv(self.covariance(t))
        D, G = len(self.floor), self.above.T @ (inverse @ residual @ inverse - vectors * inverse) @ self.above @ self.triangular_factor(t)
        own = np.diag(G) / np.sqrt(2.0 * self.count)
        return own if self.diagonal else np.concatenate([own, G[_below_diagonal_indices(D)] / np.sqrt(self.count)])


def covariance_coordinates(S: Array, variance_floor: float, scale: Array, count: float, diagonal: bool) -> CovarianceCoordinates:
    """Return coordinates around a covariance that is at least `variance_floor` · scale² in every direction."""
    floor, unit = np.diag(variance_floor * scale**2), np.sqrt(np.diag(S))
    both = np.outer(unit, unit)
    values, vectors = np.linalg.eigh((S - floor) / both)
    values = np.maximum(values, max(NEAR, ABOVE * float(np.diag(floor / both).min())))
    Z = (vectors * values) @ vectors.T * both
    return CovarianceCoordinates(floor, np.linalg.cholesky(Z), np.linalg.cholesky(floor + Z), max(count, 1.0), diagonal)


def _scaled_cholesky(xx: Array) -> Array:
    scale = np.sqrt(np.diag(xx))
    scale[scale == 0] = 1.0
    return np.asarray(np.linalg.cholesky(xx / np.outer(scale, scale) + EASE * np.eye(len(xx))) * scale[:, None])


@dataclass(frozen=True)
class LDSCoordinates:
    """Coordinates of all parameters: f, those of [C c], m, then those of Q, R and P."""

    model: HasDynamics
    origin: Parameters
    spreads: Mapping[str, CovarianceCoordinates]  # coordinates of process, noise and start_covariance
    steps: tuple[Array, Array]  # [A B a] at the origin, and M_z⁻¹
    rows: tuple[Array, Array]  # [C c] and M_x⁻¹

    @property
    def _shapes(self) -> list[tuple[int, ...]]:
        return [self.steps[0].shape, self.rows[0].shape, self.origin["start_mean"].shape, *((one.size,) for one in self.spreads.values())]

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return sum(int(np.prod(shape)) for shape in self._shapes)

    def _parts(self, x: Array) -> list[Array]:
        shapes = self._shapes
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        return [part.reshape(shape) for part, shape in zip(np.split(x, ends[:-1]), shapes, strict=True)]

    def parameters(self, x: Array) -> Parameters:
        """Return all parameters at x."""
        f, g, m, *rest = self._parts(x)
        spreads = self.spreads
        F = self.steps[0] + spreads["process"].root @ f @ self.steps[1]
        G = self.rows[0] + spreads["noise"].root @ g @ self.rows[1]
        first = spreads["start_covariance"]
        found = self.model.with_regression_coefficients(self.origin, F, G)
        found["start_mean"] = self.origin["start_mean"] + first.root @ m / np.sqrt(first.count)
        return found | {name: one.covariance(t) for (name, one), t in zip(spreads.items(), rest, strict=True)}

    def gradient(self, x: Array, sums: Sums) -> Array:
        """Return the gradient (N,) of E log p(states, rows)."""
        *_, q, r, s = self._parts(x)
        p, spreads = self.parameters(x), self.spreads
        F, G = self.model.regression_coefficients(p)
        # −½ tr Q⁻¹ Σ(x⁺ − Fz)(x⁺ − Fz)' has the gradient Q⁻¹(Σ x⁺z' − F Σ zz') in F; F = F₀ + N f M⁻¹ turns it into N' · M⁻ᵀ.
        f = spreads["process"].root.T @ np.linalg.solve(p["process"], sums["nz"] - F @ sums["zz"]) @ self.steps[1].T
        g = spreads["noise"].root.T @ np.linalg.solve(p["noise"], sums["yx"] - G @ sums["xx"]) @ self.rows[1].T
        first = spreads["start_covariance"]
        away = np.linalg.solve(p["start_covariance"], sums["first"] - sums["counts"][0] * p["start_mean"])
        of_first, of_steps, of_rows = self.model.residual_sums(p, sums)
        sequences, transitions = sums["counts"]
        return np.concatenate(
            [
                f.ravel(),
                g.ravel(),
                first.root.T @ away / np.sqrt(first.count),
                spreads["process"].gradient(q, of_steps, float(transitions)),
                spreads["noise"].gradient(r, of_rows, float(sums["xx"][-1, -1])),
                first.gradient(s, of_first, float(sequences)),
            ]
        )


def lds_coordinates(model: HasDynamics, parameters: Parameters, sums: Sums, state_floor: float) -> LDSCoordinates:
    """Return coordinates around these parameters, whose statistics are `sums`."""
    one, (sequences, transitions) = np.ones(model.states), sums["counts"]
    spreads = {
        "process": covariance_coordinates(parameters["process"], state_floor, one, float(transitions), False),
        "noise": covariance_coordinates(parameters["noise"], model.floor, model.scale, float(sums["xx"][-1, -1]), model.diagonal),
        "start_covariance": covariance_coordinates(parameters["start_covariance"], state_floor, one, float(sequences), False),
    }
    F, G = model.regression_coefficients(parameters)
    steps, rows = (F, np.linalg.inv(_scaled_cholesky(sums["zz"]))), (G, np.linalg.inv(_scaled_cholesky(sums["xx"])))
    return LDSCoordinates(model, parameters, spreads, steps, rows)
