"""Limited-memory BFGS: the two-loop recursion, and a minimiser in state and step for smooth functions that are expensive to evaluate.

Source: Nocedal & Wright (2006), algorithms 7.4 and 7.5.  The step length satisfies the weak Wolfe conditions by bisection, or, where
values differ by rounding alone, the approximate ones of Hager & Zhang (2005).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from herdcli.records import dataclass
from herdcli.schema import Array

MEMORY = 12
ROUNDING = 1e-14  # if a change is below this share of the value, it is rounding, and a step is accepted by its gradient alone
Function = Callable[[Array], tuple[float, Array]]


@dataclass
class LBFGSState:
    """A point x with its value and gradient, and the last changes (k, n) of both, newest last.

    stuck  no descent was found.
    """

    x: Array
    value: float
    gradient: Array
    moves: Array
    changes: Array
    stuck: bool = False


def initial_lbfgs_state(function: Function, x: Array) -> LBFGSState:
    """Return the state at an initial point x (P,)."""
    value, gradient = function(x)
    return LBFGSState(x, value, gradient, np.empty((0, len(x))), np.empty((0, len(x))))


def lbfgs_step(function: Function, state: LBFGSState) -> LBFGSState:
    """Return the state after one step."""
    direction = -apply_inverse_hessian(state.gradient, state.moves, state.changes, _initial_inverse_hessian(state))
    slope = float(direction @ state.gradient)
    if not slope < 0:
        direction, slope = -state.gradient, -float(state.gradient @ state.gradient)
    length, low, high = 1.0, 0.0, np.inf
    if not len(state.moves):
        # Without curvature information the first step is −g, shortened so that no coordinate moves by more than 1.
        length = min(1.0, 1.0 / max(1e-300, float(np.abs(state.gradient).sum())))
    for _ in range(40):
        x = state.x + length * direction
        value, gradient = function(x)
        steepness = float(direction @ gradient)
        # For a parabola φ(a) − φ(0) = ½a (φ'(0) + φ'(a)), so that sufficient decrease φ(a) ≤ φ(0) + δa φ'(0), δ = 1e−4, reads
        # φ'(a) ≤ (2δ − 1) φ'(0): near a minimum, where differences of values are rounding errors, gradients still work (Hager & Zhang 2005,
        # approximate Wolfe conditions).
        level = value <= state.value + ROUNDING * abs(state.value) and steepness <= (2e-4 - 1) * slope
        if not (value <= state.value + 1e-4 * length * slope or level):
            high = length
        elif steepness < 0.9 * slope:
            low = length
        else:
            break
        length = (low + high) / 2 if np.isfinite(high) else 2 * length
    else:
        if not value < state.value:
            return LBFGSState(state.x, state.value, state.gradient, state.moves, state.changes, True)
    move, change = x - state.x, gradient - state.gradient
    moves, changes = state.moves, state.changes
    # A pair with s·y ≤ 0 would make H⁻¹ indefinite; the weak Wolfe condition on gradients ensures s·y > 0 up to rounding.
    if float(move @ change) > 1e-16 * float(change @ change):
        moves, changes = np.concatenate([moves, move[None]])[-MEMORY:], np.concatenate([changes, change[None]])[-MEMORY:]
    return LBFGSState(x, value, gradient, moves, changes)


def apply_inverse_hessian(
    gradient: Array, steps: Array, gradient_changes: Array, initial_inverse_hessian: Callable[[Array], Array]
) -> Array:
    """Return H⁻¹g by the two-loop recursion, for a gradient of any shape; pairs with s·y ≤ 0 are ignored.

    steps, gradient_changes  (k, …) the last steps s and the changes y of the gradient along them, newest last.
    initial_inverse_hessian  the function q ↦ H₀⁻¹q, the inverse Hessian to which these pairs (s, y) are added.

    BFGS: H⁻¹ ← (I − s y'/s·y) H⁻¹ (I − y s'/s·y) + s s'/s·y.  Applied to g from the newest pair to the oldest, the factors on the
    right make q ← q − α y with α = s·q/s·y; after H₀⁻¹ those on the left, and the last terms, make r ← r + (α − y·r/s·y) s.
    Source: Nocedal & Wright (2006), eq. 7.16 and algorithm 7.4.
    """
    q, pairs = gradient.copy(), []
    for s, y in zip(steps[::-1], gradient_changes[::-1], strict=True):
        inner = _inner_product(s, y)
        if inner > 0:
            weight = _inner_product(s, q) / inner
            pairs.append((weight, inner, s, y))
            q -= weight * y
    r = initial_inverse_hessian(q)
    for weight, inner, s, y in reversed(pairs):
        r += (weight - _inner_product(y, r) / inner) * s
    return r


def _inner_product(a: Array, b: Array) -> float:
    """Return a·b; for matrices the sum of a_ij b_ij."""
    return float(a @ b) if a.ndim == 1 else float((a * b).sum())


def _initial_inverse_hessian(state: LBFGSState) -> Callable[[Array], Array]:
    """Return H₀⁻¹ as a function, with H₀⁻¹ = (s·y/y·y) I of the newest pair.      Source: Nocedal & Wright (2006), eq. 7.20."""

    def middle(q: Array) -> Array:
        if len(state.moves):
            s, y = state.moves[-1], state.changes[-1]
            q *= float(s @ y) / float(y @ y)
        return q

    return middle
