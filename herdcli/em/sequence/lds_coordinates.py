"""Coordinates of a linear dynamical system in which its information, were the states known, is the identity.

    [A B a] = F₀ + N_Q f M_z⁻¹,  N_Q N_Q' = Q₀,  M_z M_z' = ⟨zz'⟩;   [C c] in the same way of R₀ and ⟨xx'⟩;   μ = μ₀ + N_P m / √n
    Σ = floor + L T T'L',   L L' = Σ₀ − floor,   T lower with 1 + t / √2n on its diagonal and t / √n below it

Every x gives covariances above their floor, so that no step has to be cut off there.  n  how many vectors have that covariance.
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

NEAR = 1e-8  # least variance above the floor in any direction at the origin, in parts of the variances
ABOVE = 1e-2  # the same in floors
EASE = 1e-9  # of a regressor's square, added where regressors depend on each other


class HasDynamics(Protocol):
    """What the coordinates ask of `lds.LDS`."""

    @property
    def states(self) -> int:
        """K."""
        ...

    @property
    def diagonal(self) -> bool:
        """Whether R is."""
        ...

    @property
    def floor(self) -> float:
        """Of R, relative to scale²."""
        ...

    @property
    def scale(self) -> Array:
        """(D,)."""
        ...

    def regressions(self, p: Parameters) -> tuple[Array, Array]:
        """[A B a], and [C c] of rows less their centre."""
        ...

    def with_regressions(self, p: Parameters, F: Array, G: Array) -> Parameters:
        """Parameters with these in the place of theirs."""
        ...

    def residuals(self, p: Parameters, s: Sums) -> tuple[Array, Array, Array]:
        """Σ E[ee'] of first states, of steps and of rows."""
        ...


@lru_cache(maxsize=32)
def _below_diagonal(D: int) -> tuple[Array, Array]:
    """Places below the diagonal of a matrix (D, D), row by row."""
    return np.tril_indices(D, -1)


@dataclass(frozen=True)
class CovarianceCoordinates:
    """A covariance's coordinates: its floor, the roots L and N of Σ₀ − floor and of Σ₀, how many vectors, and which entries of T vary."""

    floor: Array
    above: Array
    root: Array
    count: float
    diagonal: bool

    @property
    def size(self) -> int:
        """Entries of T that vary."""
        D = len(self.floor)
        return D if self.diagonal else D * (D + 1) // 2

    def turned(self, t: Array) -> Array:
        """T."""
        D = len(self.floor)
        T = np.diag(1.0 + t[:D] / np.sqrt(2.0 * self.count))
        if not self.diagonal:
            T[_below_diagonal(D)] = t[D:] / np.sqrt(self.count)
        return T

    def covariance(self, t: Array) -> Array:
        """Σ."""
        root = self.above @ self.turned(t)
        return np.asarray(self.floor + root @ root.T)

    def slope(self, t: Array, residual: Array, vectors: float) -> Array:
        """d/dt of Σ log N(e; 0, Σ) of `vectors` vectors with Σ ee' = residual."""
        # With H = Σ⁻¹(Σee')Σ⁻¹ − n Σ⁻¹ the differential is ½ tr H dΣ, and dΣ = L(dT T' + T dT')L' makes it tr (L'HLT)' dT.
        inverse = np.linalg.inv(self.covariance(t))
        D, G = len(self.floor), self.above.T @ (inverse @ residual @ inverse - vectors * inverse) @ self.above @ self.turned(t)
        own = np.diag(G) / np.sqrt(2.0 * self.count)
        return own if self.diagonal else np.concatenate([own, G[_below_diagonal(D)] / np.sqrt(self.count)])


def covariance_coordinates(S: Array, least: float, scale: Array, count: float, diagonal: bool) -> CovarianceCoordinates:
    """Coordinates around a covariance that is `least` of scale² or more in every direction."""
    floor, unit = np.diag(least * scale**2), np.sqrt(np.diag(S))
    both = np.outer(unit, unit)
    values, vectors = np.linalg.eigh((S - floor) / both)
    values = np.maximum(values, max(NEAR, ABOVE * float(np.diag(floor / both).min())))
    Z = (vectors * values) @ vectors.T * both
    return CovarianceCoordinates(floor, np.linalg.cholesky(Z), np.linalg.cholesky(floor + Z), max(count, 1.0), diagonal)


def _root(xx: Array) -> Array:
    scale = np.sqrt(np.diag(xx))
    scale[scale == 0] = 1.0
    return np.asarray(np.linalg.cholesky(xx / np.outer(scale, scale) + EASE * np.eye(len(xx))) * scale[:, None])


@dataclass(frozen=True)
class LDSCoordinates:
    """The coordinates: f, those of [C c], m, then those of Q, R and P."""

    model: HasDynamics
    origin: Parameters
    spreads: Mapping[str, CovarianceCoordinates]  # of process, noise and start_covariance
    steps: tuple[Array, Array]  # [A B a] at the origin, and M_z⁻¹
    rows: tuple[Array, Array]  # [C c] and M_x⁻¹

    @property
    def _shapes(self) -> list[tuple[int, ...]]:
        return [self.steps[0].shape, self.rows[0].shape, self.origin["start_mean"].shape, *((one.size,) for one in self.spreads.values())]

    @property
    def size(self) -> int:
        """How many numbers."""
        return sum(int(np.prod(shape)) for shape in self._shapes)

    def _parts(self, x: Array) -> list[Array]:
        shapes = self._shapes
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        return [part.reshape(shape) for part, shape in zip(np.split(x, ends[:-1]), shapes, strict=True)]

    def parameters(self, x: Array) -> Parameters:
        """All of them."""
        f, g, m, *rest = self._parts(x)
        spreads = self.spreads
        F = self.steps[0] + spreads["process"].root @ f @ self.steps[1]
        G = self.rows[0] + spreads["noise"].root @ g @ self.rows[1]
        first = spreads["start_covariance"]
        found = self.model.with_regressions(self.origin, F, G)
        found["start_mean"] = self.origin["start_mean"] + first.root @ m / np.sqrt(first.count)
        return found | {name: one.covariance(t) for (name, one), t in zip(spreads.items(), rest, strict=True)}

    def slope(self, x: Array, sums: Sums) -> Array:
        """(N,) of E log p(states, rows)."""
        *_, q, r, s = self._parts(x)
        p, spreads = self.parameters(x), self.spreads
        F, G = self.model.regressions(p)
        # −½ tr Q⁻¹ Σ(x⁺ − Fz)(x⁺ − Fz)' has the slope Q⁻¹(Σ x⁺z' − F Σ zz') in F; F = F₀ + N f M⁻¹ turns it into N' · M⁻ᵀ.
        f = spreads["process"].root.T @ np.linalg.solve(p["process"], sums["nz"] - F @ sums["zz"]) @ self.steps[1].T
        g = spreads["noise"].root.T @ np.linalg.solve(p["noise"], sums["yx"] - G @ sums["xx"]) @ self.rows[1].T
        first = spreads["start_covariance"]
        away = np.linalg.solve(p["start_covariance"], sums["first"] - sums["counts"][0] * p["start_mean"])
        of_first, of_steps, of_rows = self.model.residuals(p, sums)
        sequences, transitions = sums["counts"]
        return np.concatenate(
            [
                f.ravel(),
                g.ravel(),
                first.root.T @ away / np.sqrt(first.count),
                spreads["process"].slope(q, of_steps, float(transitions)),
                spreads["noise"].slope(r, of_rows, float(sums["xx"][-1, -1])),
                first.slope(s, of_first, float(sequences)),
            ]
        )


def lds_coordinates(model: HasDynamics, parameters: Parameters, sums: Sums, state_floor: float) -> LDSCoordinates:
    """Coordinates around parameters, of which `sums` are the statistics."""
    one, (sequences, transitions) = np.ones(model.states), sums["counts"]
    spreads = {
        "process": covariance_coordinates(parameters["process"], state_floor, one, float(transitions), False),
        "noise": covariance_coordinates(parameters["noise"], model.floor, model.scale, float(sums["xx"][-1, -1]), model.diagonal),
        "start_covariance": covariance_coordinates(parameters["start_covariance"], state_floor, one, float(sequences), False),
    }
    F, G = model.regressions(parameters)
    steps, rows = (F, np.linalg.inv(_root(sums["zz"]))), (G, np.linalg.inv(_root(sums["xx"])))
    return LDSCoordinates(model, parameters, spreads, steps, rows)
