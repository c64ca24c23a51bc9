"""Least squares in a Hilbert space over the simplex: argmin ½ w'Kw − w'z over w ≥ 0, Σw = 1, by an active set.

The support grows by one point at a time and its weights are solved for exactly (`move_to_hull_minimum`).  A point whose weight would
become negative is dropped on the way.  Adding c·11' to K and c·1 to z changes nothing on the simplex and makes the
Gram matrix of affinely independent points definite, so one Cholesky factor is sufficient.  All arrays are float64.
Source: Wolfe (1976), finding the nearest point in a polytope; Lawson & Hanson (1974), the same steps for NNLS.
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import NotConverged
from herdcli.numerics import exact_arithmetic
from herdcli.numerics.symmetric_matrices import solve_lower
from herdcli.records import dataclass
from herdcli.schema import Array, array

PIVOT = 16 * np.finfo(float).eps  # a point lies in the affine hull of the others if its pivot, relative to the diagonal, is below this
ROUNDING = 2.0**-52  # rounding error of an objective, relative to the largest k(x, x)
TOLERANCE = 2.0**-46  # tolerance of the optimality conditions, relative to the largest k(x, x)
PATIENCE = 10  # the iterations end after this many consecutive points that lower the objective only by rounding
LOOSE = 1e-9  # largest violation of the optimality conditions, relative as above, that counts as rounding when they end so


@dataclass
class Hull:
    """The support, its Gram matrix and factor, and the weights.

    Arrays have memory for `capacity` points; `size` of them are in use.
    """

    size: int
    shift: float  # c, about the largest k(x, x)
    ids: Array = array("capacity", "what each point of the support is, to its owner", kind="i")
    gram: Array = array("capacity capacity", "k between points of the support", kind="f")
    factor: Array = array("capacity capacity", "lower Cholesky factor of gram + shift", kind="f")
    linear: Array = array("capacity", "z at the support", kind="f")
    weight: Array = array("capacity", "weights, positive, of sum 1", kind="f", finite=True)


def allocate_hull(capacity: int, shift: float) -> Hull:
    """Return a hull without points and with memory for `capacity`."""
    square = (capacity, capacity)
    return Hull(0, shift, np.zeros(capacity, np.int64), np.zeros(square), np.zeros(square), np.zeros(capacity), np.zeros(capacity))


def enlarge_hull(hull: Hull, capacity: int) -> Hull:
    """Return the same hull with memory for `capacity` points."""
    new = allocate_hull(max(capacity, hull.size), hull.shift)
    new.size = n = hull.size
    for name in ("ids", "linear", "weight"):
        getattr(new, name)[:n] = getattr(hull, name)[:n]
    new.gram[:n, :n], new.factor[:n, :n] = hull.gram[:n, :n], hull.factor[:n, :n]
    return new


def add_point(hull: Hull, identity: int, row: Array, diagonal: float, linear: float) -> bool:
    """Add a point with weight 0 (1 if it is the first): row (size,) of k to the support, k(x, x), z(x).

    Returns False, and adds nothing, if the point lies in the affine hull of the support to rounding.
    """
    n = hull.size
    below = solve_lower(hull.factor[:n, :n], row + hull.shift, transposed=False) if n else row
    # The new row of the factor solves L b = k + c.  Its pivot² = k(x, x) + c − b'b is the squared distance of (Φ(x), √c) from the span of
    # the existing points: 0 exactly if Φ(x) is an affine combination of theirs, as the last coordinate makes coefficients sum to 1.
    pivot = diagonal + hull.shift - float(exact_arithmetic.matrix_product(below, below))
    if n == len(hull.ids) or pivot <= PIVOT * (diagonal + hull.shift):
        return False
    hull.ids[n], hull.linear[n], hull.weight[n] = identity, linear, 0.0 if n else 1.0
    hull.gram[n, :n] = hull.gram[:n, n] = row
    hull.gram[n, n] = diagonal
    hull.factor[n, :n], hull.factor[n, n] = below, np.sqrt(pivot)
    hull.size = n + 1
    return True


def move_to_hull_minimum(hull: Hull) -> None:
    """Move the weights to the minimum over the support's hull, dropping points whose weights reach 0."""
    while True:
        n = hull.size
        target = _affine_minimum(hull)
        weight = hull.weight[:n]
        falling = target <= 0
        if not falling.any():
            weight[:] = target / target.sum()
            return
        ratios = np.full(n, np.inf)
        # On the line w + s (t − w) to the affine minimum t a weight reaches 0 at s = w/(w − t); the first that does ends the step and is
        # removed.  The objective decreases along the line, so no support recurs and the loop ends (Wolfe 1976).
        ratios[falling] = weight[falling] / (weight[falling] - target[falling])
        share = float(ratios.min())
        weight += share * (target - weight)
        weight[ratios <= share] = 0.0
        np.maximum(weight, 0.0, out=weight)
        _retain_points(hull, weight > 0)
        hull.weight[: hull.size] /= hull.weight[: hull.size].sum()


def quadratic_and_linear_terms(hull: Hull) -> tuple[float, float]:
    """Compute w'Kw and w'z."""
    n = hull.size
    w = hull.weight[:n]
    return float(exact_arithmetic.matrix_product(w, exact_arithmetic.matrix_product(hull.gram[:n, :n], w))), float(
        exact_arithmetic.matrix_product(w, hull.linear[:n])
    )


def _affine_minimum(hull: Hull) -> Array:
    """Compute the minimum over Σw = 1 alone: H⁻¹z + (1 − Σ H⁻¹z)/(Σ H⁻¹1) H⁻¹1 with H = K + c·11', refined once."""
    n = hull.size
    L = np.asfortranarray(hull.factor[:n, :n])
    right = np.column_stack([hull.linear[:n], np.ones(n)])
    # One step of iterative refinement with the unfactored matrix: the residual is that of K and c themselves, not of their factor.
    found = solve_lower(L, solve_lower(L, right, transposed=False), transposed=True)
    residual = right - (exact_arithmetic.matrix_product(hull.gram[:n, :n], found) + hull.shift * found.sum(axis=0))
    found += solve_lower(L, solve_lower(L, residual, transposed=False), transposed=True)
    # Gradient 0 with a multiplier for Σw = 1: Kw − z = λ1, or H w = z + ν1 with ν = λ + c; ν makes H⁻¹z + ν H⁻¹1 sum to 1.
    return np.asarray(found[:, 0] + (1.0 - found[:, 0].sum()) / found[:, 1].sum() * found[:, 1])


def _retain_points(hull: Hull, is_retained: Array) -> None:
    """Remove points; the factor is computed again from the first removed point on."""
    first = int(np.argmin(is_retained))
    rest = np.flatnonzero(is_retained[first:]) + first
    saved = [(int(hull.ids[i]), hull.gram[i].copy(), float(hull.linear[i]), float(hull.weight[i])) for i in rest]
    hull.size = first
    order = list(range(first))
    for position, (identity, row, linear, weight) in zip(rest, saved, strict=True):
        if add_point(hull, identity, row[order], row[position], linear):
            hull.weight[hull.size - 1] = weight
            order.append(int(position))


def simplex_weights(gram: Array, linear: Array, *, start: Array | None = None) -> Array:
    """Compute the simplex weights (m,) argmin ½ w'Kw − w'z of points with Gram matrix (m, m) and embedding z (m,).

    start  indices of a likely support.  The result satisfies the optimality conditions to 2^−46 of the largest k(x, x)
    if K's condition allows: Kw − z is at its minimum, up to that, wherever w is positive.
    Raises NotConverged if it does not (the matrix is not positive semidefinite).
    """
    diagonal = np.diag(gram)
    scale = float(np.abs(diagonal).max())
    hull = allocate_hull(len(gram), scale or 1.0)
    first = [int(np.argmin(0.5 * diagonal - linear))] if start is None or not len(start) else [int(i) for i in start]
    for j in first:
        _add_candidate(hull, gram, diagonal, linear, j)
    if hull.size > 1:
        hull.weight[: hull.size] = 1.0 / hull.size
    move_to_hull_minimum(hull)
    refused: list[int] = []
    best, stalled = np.inf, 0
    while stalled < PATIENCE:
        support = hull.ids[: hull.size]
        # Optimality over the simplex: Kw − z ≥ λ everywhere and = λ where w > 0, λ the multiplier of Σw = 1.
        slope = exact_arithmetic.matrix_product(gram[:, support], hull.weight[: hull.size]) - linear
        # At the minimum over the support's hull Kw − z is the same at all of its points, the level.  It is set to this value explicitly, so
        # that rounding cannot let a point of the support enter again.  A point below the level descends; if there is none, w is optimal.
        level = float(exact_arithmetic.matrix_product(slope[support], hull.weight[: hull.size]))
        slope[support] = level
        slope[refused] = level
        j = int(np.argmin(slope))
        if slope[j] >= level - TOLERANCE * scale:
            break
        if not _add_candidate(hull, gram, diagonal, linear, j):
            refused.append(j)
            continue
        move_to_hull_minimum(hull)
        quadratic, along = quadratic_and_linear_terms(hull)
        value = 0.5 * quadratic - along
        stalled = 0 if value < best - ROUNDING * scale else stalled + 1
        best = min(best, value)
        refused = refused if stalled else []
    if slope[j] < level - LOOSE * scale:
        raise NotConverged("the optimisation of simplex weights did not converge: the kernel may not be positive definite")
    found = np.zeros(len(gram))
    found[hull.ids[: hull.size]] = hull.weight[: hull.size]
    return found


def _add_candidate(hull: Hull, gram: Array, diagonal: Array, linear: Array, j: int) -> bool:
    return add_point(hull, j, gram[j, hull.ids[: hull.size]], float(diagonal[j]), float(linear[j]))
