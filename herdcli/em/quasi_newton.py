"""Quasi-Newton steps between EM steps, for models whose likelihood EM climbs slowly: L-BFGS on the exact score.

By Fisher's identity the gradient of log p(y; θ) equals that of E_q[log p(x, y; θ)] at the parameters of the E step.  So the statistics of
an E step give a gradient at the cost of an M step.  The gradient is taken in the coordinates of the model's `make_coordinates`, in which
the complete-data information is the identity.  There an M step is, to first order, a step along the gradient, and L-BFGS has to learn only
the missing information.  A step is accepted only if the likelihood does not fall; after TRIES rejected trials an M step takes its place.
Source: Jamshidian & Jennrich (1997), Acceleration of the EM algorithm by using quasi-Newton methods, for the idea; Nocedal (1980).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np

from herdcli.numerics.block_statistics import Sums
from herdcli.records import dataclass
from herdcli.schema import Array

Parameters = dict[str, Array]

LEAD = 3  # EM steps before the first quasi-Newton step
PAIRS = 20  # number of pairs (step, difference of gradients) that L-BFGS keeps
TRIES = 2  # number of step lengths to try
SHORTER = (0.1, 0.5)  # least and greatest factor by which a rejected length is multiplied
CURVED = 1e-10  # least cosine between a step and its difference of gradients


class ParameterCoordinates(Protocol):
    """Unconstrained coordinates x (N,) of parameters around x = 0."""

    @property
    def size(self) -> int:
        """The number of coordinates, N."""
        ...

    def parameters(self, x: Array) -> Parameters:
        """Return the parameters at x."""
        ...

    def gradient(self, x: Array, sums: Sums) -> Array:
        """Return the gradient (N,) d E_q[log p(x, y)] / dx at x, from the statistics of q."""
        ...


class HasCoordinates(ABC):
    """A model that has coordinates for quasi-Newton steps."""

    @abstractmethod
    def make_coordinates(self, parameters: Parameters, sums: Sums) -> ParameterCoordinates:
        """Return coordinates around these parameters, whose statistics are `sums`."""


@dataclass
class QuasiNewtonState:
    """Quasi-Newton steps in progress: the chart, the current point, and the current trial.

    kept   parameters at the current point.
    after  parameters of an M step from there, with their free energy (`energy`) and number of floored variances (`floors`).
    """

    origin: Parameters
    basis: Sums
    x: Array
    slope: Array
    steps: Array  # (m, N), m at most PAIRS, oldest first
    turns: Array  # (m, N), gradient before less gradient after each step
    objective: float  # total nats
    kept: Parameters
    after: Parameters
    energy: float
    floors: int
    direction: Array
    length: float = 1.0
    tries: int = 0

    @property
    def trial(self) -> Array:
        """The point of the current trial."""
        return self.x + self.length * self.direction


def begin_quasi_newton(model: HasCoordinates, parameters: Parameters, sums: Sums) -> QuasiNewtonState:
    """Return a chart around these parameters, without any information about the curvature."""
    chart = model.make_coordinates(parameters, sums)
    none, x = np.empty((0, chart.size)), np.zeros(chart.size)
    return QuasiNewtonState(
        dict(parameters), dict(sums), x, chart.gradient(x, sums), none, none.copy(), 0.0, {}, {}, 0.0, 0, np.zeros(chart.size)
    )


def accept_trial(model: HasCoordinates, leap: QuasiNewtonState, sums: Sums) -> None:
    """Accept the trial as the current point, and update the curvature with the gradient there."""
    chart, trial = model.make_coordinates(leap.origin, leap.basis), leap.trial
    slope = chart.gradient(trial, sums)
    step, turn = trial - leap.x, leap.slope - slope
    if step @ turn > CURVED * np.linalg.norm(step) * np.linalg.norm(turn):
        leap.steps = np.vstack([leap.steps, step])[-PAIRS:]
        leap.turns = np.vstack([leap.turns, turn])[-PAIRS:]
    leap.x, leap.slope = trial, slope


def begin_line_search(model: HasCoordinates, leap: QuasiNewtonState, mass: float) -> Parameters:
    """Choose a direction from the current point and return the parameters of the first trial.

    mass  bounds the step to length √mass, at which the standard deviation of all noise would about double.
    """
    direction = ascent_direction(leap.steps, leap.turns, leap.slope)
    if not direction @ leap.slope > 0:
        leap.steps, leap.turns, direction = leap.steps[:0], leap.turns[:0], leap.slope.copy()
    longest = float(np.linalg.norm(direction))
    leap.direction = direction * min(1.0, np.sqrt(mass) / longest) if longest > 0 else direction
    leap.length, leap.tries = 1.0, 0
    return model.make_coordinates(leap.origin, leap.basis).parameters(leap.trial)


def shorten_trial(model: HasCoordinates, leap: QuasiNewtonState, reached: float) -> Parameters | None:
    """Return a shorter trial after one that failed, or None if no tries are left.

    reached  log-likelihood of the failed trial in total nats; not finite if it is undefined there.
    """
    leap.tries += 1
    if leap.tries >= TRIES:
        return None
    # The parabola through φ(0), φ'(0) and φ(λ) has its top at λ = −φ'(0) λ² / 2(φ(λ) − φ(0) − φ'(0) λ).
    rise = float(leap.direction @ leap.slope) * leap.length
    share = rise / (2.0 * (rise + leap.objective - reached)) if np.isfinite(reached) else 0.0
    leap.length *= float(np.clip(share, *SHORTER))
    return model.make_coordinates(leap.origin, leap.basis).parameters(leap.trial)


def ascent_direction(steps: Array, gradient_changes: Array, slope: Array) -> Array:
    """Return H g, where H is the L-BFGS inverse of the negated Hessian, started from the identity (Nocedal, 1980, two loops)."""
    found, shares = slope.copy(), np.empty(len(steps))
    for k in reversed(range(len(steps))):
        shares[k] = (steps[k] @ found) / (steps[k] @ gradient_changes[k])
        found -= shares[k] * gradient_changes[k]
    for k, share in enumerate(shares):
        found += (share - (gradient_changes[k] @ found) / (steps[k] @ gradient_changes[k])) * steps[k]
    return found
