"""Quasi-Newton steps between those of EM, for models whose likelihood EM climbs slowly: L-BFGS on the exact score.

By Fisher's identity the slope of log p(y; θ) is that of E_q[log p(x, y; θ)] at the parameters of the E step, so that an E step's statistics
give a slope for no more than an M step costs.  It is taken in coordinates in which the information of rows whose latent values were known
is the identity (the model's `chart`); there one M step is, to first order, one step along the slope, and what L-BFGS has to learn is
the information that is missing.  A step is taken only where the likelihood does not fall; after TRIES that fail an M step takes its place.
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

LEAD = 3  # steps of EM before the first quasi-Newton step
PAIRS = 20  # steps and differences of slopes that a direction is made of
TRIES = 2  # lengths of a step that are tried
SHORTER = (0.1, 0.5)  # what a length that failed is multiplied by, at least and at most
CURVED = 1e-10  # least cosine between a step and the difference of slopes along it


class ParameterCoordinates(Protocol):
    """Coordinates x (N,) of parameters around x = 0, all of which are allowed."""

    @property
    def size(self) -> int:
        """N."""
        ...

    def parameters(self, x: Array) -> Parameters:
        """The parameters at x."""
        ...

    def slope(self, x: Array, sums: Sums) -> Array:
        """(N,) d E_q[log p(x, y)] / dx there, of the statistics of q."""
        ...


class HasCoordinates(ABC):
    """Declares a model with coordinates."""

    @abstractmethod
    def chart(self, parameters: Parameters, sums: Sums) -> ParameterCoordinates:
        """Coordinates around these parameters, of which `sums` are the statistics."""


@dataclass
class QuasiNewtonState:
    """Quasi-Newton steps under way: the chart, the point they have reached, and the trial at work.

    kept, after  the parameters at the point reached, and those of an M step from there, with their free energy and variances at the floor.
    """

    origin: Parameters
    basis: Sums
    x: Array
    slope: Array
    steps: Array  # (m, N), m at most PAIRS, the oldest first
    turns: Array  # (m, N), slope before less slope after each
    objective: float  # nats in all
    kept: Parameters
    after: Parameters
    energy: float
    floors: int
    direction: Array
    length: float = 1.0
    tries: int = 0

    @property
    def trial(self) -> Array:
        """The point that is tried."""
        return self.x + self.length * self.direction


def begin_steps(model: HasCoordinates, parameters: Parameters, sums: Sums) -> QuasiNewtonState:
    """A chart around parameters, nothing known of the curvature."""
    chart = model.chart(parameters, sums)
    none, x = np.empty((0, chart.size)), np.zeros(chart.size)
    return QuasiNewtonState(
        dict(parameters), dict(sums), x, chart.slope(x, sums), none, none.copy(), 0.0, {}, {}, 0.0, 0, np.zeros(chart.size)
    )


def accept_trial(model: HasCoordinates, leap: QuasiNewtonState, sums: Sums) -> None:
    """Take the trial as the point reached, and learn from the slope there."""
    chart, trial = model.chart(leap.origin, leap.basis), leap.trial
    slope = chart.slope(trial, sums)
    step, turn = trial - leap.x, leap.slope - slope
    if step @ turn > CURVED * np.linalg.norm(step) * np.linalg.norm(turn):
        leap.steps = np.vstack([leap.steps, step])[-PAIRS:]
        leap.turns = np.vstack([leap.turns, turn])[-PAIRS:]
    leap.x, leap.slope = trial, slope


def next_trial(model: HasCoordinates, leap: QuasiNewtonState, mass: float) -> Parameters:
    """Set out from the point reached; the parameters to try first.

    mass  a step is at most √mass long: so far that the standard deviation of all noise would be about doubled.
    """
    direction = ascent_direction(leap.steps, leap.turns, leap.slope)
    if not direction @ leap.slope > 0:
        leap.steps, leap.turns, direction = leap.steps[:0], leap.turns[:0], leap.slope.copy()
    longest = float(np.linalg.norm(direction))
    leap.direction = direction * min(1.0, np.sqrt(mass) / longest) if longest > 0 else direction
    leap.length, leap.tries = 1.0, 0
    return model.chart(leap.origin, leap.basis).parameters(leap.trial)


def retry_trial(model: HasCoordinates, leap: QuasiNewtonState, reached: float) -> Parameters | None:
    """After a trial that failed with log-likelihood `reached` (nats in all; not finite: nowhere): a shorter one, or None."""
    leap.tries += 1
    if leap.tries >= TRIES:
        return None
    # The parabola through φ(0), φ'(0) and φ(λ) has its top at λ = −φ'(0) λ² / 2(φ(λ) − φ(0) − φ'(0) λ).
    rise = float(leap.direction @ leap.slope) * leap.length
    share = rise / (2.0 * (rise + leap.objective - reached)) if np.isfinite(reached) else 0.0
    leap.length *= float(np.clip(share, *SHORTER))
    return model.chart(leap.origin, leap.basis).parameters(leap.trial)


def ascent_direction(steps: Array, turns: Array, slope: Array) -> Array:
    """H g, H the inverse of the negated second derivatives by L-BFGS from the identity (Nocedal, 1980, two loops)."""
    found, shares = slope.copy(), np.empty(len(steps))
    for k in reversed(range(len(steps))):
        shares[k] = (steps[k] @ found) / (steps[k] @ turns[k])
        found -= shares[k] * turns[k]
    for k, share in enumerate(shares):
        found += (share - (turns[k] @ found) / (steps[k] @ turns[k])) * steps[k]
    return found
