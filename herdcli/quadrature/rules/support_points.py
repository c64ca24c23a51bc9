"""Support points: m points of least energy distance to the rows, found by the convex–concave procedure, then the rows nearest to them.

The energy distance of points x_i of weight 1/m to rows y_j of weights w_j is, up to a constant of the rows,

    E = (2/m) Σ_i Σ_j w_j |x_i − y_j| − (1/m²) Σ_i Σ_l |x_i − x_l|.

Its first sum is bounded above by Σ w_j (|x_i − y_j|²/r_ij + r_ij)/m, r_ij the current distance, and its second, which is concave, by its
tangent; both bounds are exact at the current points.  The minimum of the bound moves all points at once,

    x_i ← (Σ_j w_j y_j/r_ij + (1/m) Σ_l (x_i − x_l)/|x_i − x_l|) / Σ_j w_j/r_ij,

and E never increases.  Source: Mak & Joseph (2018), support points, theorem 6 and sp.ccp.  Their limits are arbitrary points;
here each is replaced by the nearest row that no earlier point has taken.
"""

from __future__ import annotations

import numpy as np

from herdcli.numerics import exact_arithmetic
from herdcli.quadrature.rules.kernel_thinning import draw_systematic_sample
from herdcli.quadrature.rules.rule import Rule, SelectedAtoms, SelectionTask
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array

ITERATIONS = 100
STILL = 1e-3  # movement, relative to the rows' spread, below which the points have converged
JITTER = 0.2  # largest distance of the first points from the rows they are sampled from, in standard deviations; 1/r must be finite
TINY = 1e-12  # least distance that is divided by, relative to the largest coordinate
BLOCK = 1 << 16  # distances of a block


@dataclass
class SupportState:
    """The points.  `support_step` counts iterations; energy[t] is E of the points before iteration t."""

    step: int
    ended: str
    points: Array = array("m d", "where they are", kind="f", finite=True)
    energy: Array = array("t", "E, but for the rows' constant", kind="f")
    index: Array = array("i", "nearest rows, once they have come to rest", kind="i")


@dataclass(frozen=True)
class SupportProblem:
    """Rows (n, d) with weights (n,) of sum 1, and the number of points."""

    rows: Array
    weights: Array
    count: int
    seed: int = 0
    unit: int = 0


def initial_state(problem: SupportProblem) -> SupportState:
    """Return rows sampled by their weights, moved by a small random distance."""
    random = generator(problem.seed, Stream.SUPPORT, unit=problem.unit)
    points = problem.rows[draw_systematic_sample(problem.weights, problem.count, random)]
    points = points + JITTER * _standard_deviations(problem) * (2.0 * random.random(points.shape) - 1.0)
    return SupportState(0, "", points, np.zeros(0), np.zeros(0, dtype=np.int64))


def _standard_deviations(problem: SupportProblem) -> Array:
    mean = exact_arithmetic.matrix_product(problem.weights, problem.rows)
    return np.asarray(np.sqrt(exact_arithmetic.matrix_product(problem.weights, np.square(problem.rows - mean))))


def support_step(problem: SupportProblem, state: SupportState) -> SupportState:
    """Move all points once; when they have converged, or after ITERATIONS, find the rows nearest to them."""
    moved, energy = compute_moved_points(problem, state.points)
    spread = float(np.sqrt(np.square(_standard_deviations(problem)).sum())) or 1.0
    still = float(np.sqrt(np.square(moved - state.points).sum(axis=1).mean())) <= STILL * spread
    state.points, state.energy = moved, np.append(state.energy, energy)
    state.step += 1
    if still or state.step == ITERATIONS:
        state.index, state.ended = assign_nearest_rows(problem, state.points), "count"
    return state


def compute_moved_points(problem: SupportProblem, points: Array) -> tuple[Array, float]:
    """Compute the points (m, d) after one iteration, and E of those before it (m, d)."""
    m, rows, w = len(points), problem.rows, problem.weights
    least = TINY * (float(np.abs(rows).max()) or 1.0)
    height = max(1, BLOCK // max(1, m))
    shares, pulled, linear = np.zeros(m), np.zeros(points.shape), 0.0
    for start in range(0, len(rows), height):
        # Attraction to the rows: Σ_j w_j y_j/r_ij and Σ_j w_j/r_ij, block by block; a row at a point's own place has r = `least`, not 0.
        part, weight = rows[start : start + height], w[start : start + height]
        r = euclidean_distances(points, part)
        linear += float(exact_arithmetic.matrix_product(r, weight).sum())
        inverse = np.divide(weight, np.maximum(r, least, out=r), out=r)
        shares += inverse.sum(axis=1)
        pulled += exact_arithmetic.matrix_product(inverse, part)
    # Repulsion of the points from each other: (1/m) Σ_l (x_i − x_l)/|x_i − x_l|, where coinciding points do not push.
    own = euclidean_distances(points, points)
    np.fill_diagonal(own, 0.0)
    apart = np.divide(1.0, own, out=np.zeros_like(own), where=own > least)
    pushed = (points * apart.sum(axis=1)[:, None] - exact_arithmetic.matrix_product(apart, points)) / m
    return (pulled + pushed) / shares[:, None], 2.0 * linear / m - float(own.sum()) / m**2


def euclidean_distances(X: Array, Y: Array) -> Array:
    """Compute Euclidean distances (n, m) of rows X (n, d) and Y (m, d), by one product after subtracting their common mean."""
    centre = Y.mean(axis=0)
    # |a − b|² = |a|² − 2 a·b + |b|² would cancel for points far from the origin, so their mean is the origin; rounding below 0 is cut.
    a, b = X - centre, Y - centre
    squares = exact_arithmetic.matrix_product(-2.0 * a, np.ascontiguousarray(b.T))
    squares += np.square(a).sum(axis=1)[:, None]
    squares += np.square(b).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(squares, 0.0, out=squares), out=squares))


def assign_nearest_rows(problem: SupportProblem, points: Array) -> Array:
    """Assign to each point in turn the nearest row (m,) that no earlier point has taken; the lowest of equally near ones."""
    taken = np.zeros(len(problem.rows), dtype=bool)
    found = np.empty(len(points), dtype=np.int64)
    height = max(1, BLOCK // max(1, len(problem.rows)))
    for start in range(0, len(points), height):
        for i, row in enumerate(euclidean_distances(points[start : start + height], problem.rows), start):
            row[taken] = np.inf
            found[i] = int(np.argmin(row))
            taken[found[i]] = True
    return found


class SupportPointsRule(Rule):
    """The rule of support points and the rows nearest to them."""

    field = "supported"

    def steps(self, n: int, count: int) -> int:
        """Return the largest number of iterations."""
        return ITERATIONS

    def count_kernel_values(self, n: int, count: int) -> int:
        """Return the number of distances between rows and points, with their gradient."""
        return 2 * ITERATIONS * n * count

    def working_bytes(self, n: int, d: int, count: int) -> int:
        """Return the size of blocks of distances, the points and the rows."""
        return super().working_bytes(n, d, count) + 8 * (4 * BLOCK + 4 * count * d + count**2 + 2 * n * d)

    def make_problem(self, task: SelectionTask) -> SupportProblem:
        """Return the rows themselves: the kernel is not used, but distances."""
        return SupportProblem(task.space.candidates, task.weights, task.count, task.seed, task.unit)

    def begin(self, problem: SupportProblem, saved: SupportState | None) -> SupportState:
        """Return rows sampled by their weights, moved by a small random distance."""
        return initial_state(problem)

    def step(self, problem: SupportProblem, state: SupportState) -> SupportState:
        """Move all points once."""
        return support_step(problem, state)

    def atoms(self, state: SupportState) -> Array:
        """Return the rows nearest to the points, after these have converged."""
        return state.index

    def selected_atoms(self, state: SupportState) -> SelectedAtoms:
        """Return the rows so far with equal weights."""
        m = len(state.index)
        return SelectedAtoms(state.ended, state.index, np.full(m, 1.0 / max(m, 1)), np.full(m, np.nan), np.full(m, np.nan))
