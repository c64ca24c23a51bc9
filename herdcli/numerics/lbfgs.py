"""Limited-memory BFGS as state and step, for smooth functions that are cheap to hold and dear to evaluate.

Source: Nocedal & Wright (2006), algorithms 7.4 and 7.5; the step length satisfies the weak Wolfe
conditions by bisection, where values differ by rounding alone the approximate ones of Hager & Zhang (2005).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from herdcli.schema import Array

MEMORY = 12
ROUNDING = 1e-14  # of the value, below which a step is judged by slopes alone
Function = Callable[[Array], tuple[float, Array]]


@dataclass
class Minimum:
    """x with its value and gradient, and the last changes (k, n) of both, newest last.  stuck  no descent was found."""

    x: Array
    value: float
    gradient: Array
    moves: Array
    changes: Array
    stuck: bool = False


def begin(function: Function, x: Array) -> Minimum:
    """At a starting point."""
    value, gradient = function(x)
    return Minimum(x, value, gradient, np.empty((0, len(x))), np.empty((0, len(x))))


def descend(function: Function, now: Minimum) -> Minimum:
    """One step of the method."""
    direction = -_apply_inverse(now)
    slope = float(direction @ now.gradient)
    if not slope < 0:
        direction, slope = -now.gradient, -float(now.gradient @ now.gradient)
    length, low, high = 1.0, 0.0, np.inf
    if not len(now.moves):
        length = min(1.0, 1.0 / max(1e-300, float(np.abs(now.gradient).sum())))
    for _ in range(40):
        x = now.x + length * direction
        value, gradient = function(x)
        steepness = float(direction @ gradient)
        level = value <= now.value + ROUNDING * abs(now.value) and steepness <= (2e-4 - 1) * slope
        if not (value <= now.value + 1e-4 * length * slope or level):
            high = length
        elif steepness < 0.9 * slope:
            low = length
        else:
            break
        length = (low + high) / 2 if np.isfinite(high) else 2 * length
    else:
        if not value < now.value:
            return Minimum(now.x, now.value, now.gradient, now.moves, now.changes, True)
    move, change = x - now.x, gradient - now.gradient
    moves, changes = now.moves, now.changes
    if float(move @ change) > 1e-16 * float(change @ change):
        moves, changes = np.concatenate([moves, move[None]])[-MEMORY:], np.concatenate([changes, change[None]])[-MEMORY:]
    return Minimum(x, value, gradient, moves, changes)


def _apply_inverse(now: Minimum) -> Array:
    """The inverse Hessian's estimate on the gradient (two-loop recursion)."""
    q = now.gradient.copy()
    pairs = list(zip(now.moves, now.changes, strict=True))
    weights = []
    for s, y in reversed(pairs):
        weights.append(float(s @ q) / float(s @ y))
        q -= weights[-1] * y
    if pairs:
        s, y = pairs[-1]
        q *= float(s @ y) / float(y @ y)
    for (s, y), a in zip(pairs, reversed(weights), strict=True):
        q += (a - float(y @ q) / float(s @ y)) * s
    return q
