"""Directions of recession, in which a likelihood rises without end, so that some coefficients have no finite estimate (separation).

The log-likelihood of a row does not fall along δ (K, p), with u = δz the change of its predictors, if

    bernoulli   u ≥ 0 if y = 1, u ≤ 0 if y = 0, and u = 0 for a fraction between them
    poisson     u ≤ 0 if y = 0, else u = 0
    softmax     u_y ≥ u_k for every other class k

Each of these is a contrast a'δ ≥ 0, of a row and an alternative to the observed value, or a'δ = 0.  δ is a direction of recession if all
of them hold and one is strict.  Without such a direction the likelihood has a finite maximum (Albert & Anderson 1984; Geyer 2009).  With
them, a coefficient has a finite estimate exactly if it is 0 in all of them.  Those estimates and their errors belong to the limiting
model, in which the contrasts that can be strict are left out.

The search begins where the descent ended: alternatives whose probability has not vanished there cannot be strict.  The directions that
leave these contrasts at 0 are a small space, often a line, in which a linear program finds those that the other contrasts allow.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from herdcli.algorithm import Map
from herdcli.numerics.block_statistics import RowBlock, RowBlocks, Sums, sum_statistics
from herdcli.records import dataclass
from herdcli.regression.family_table import TABLE
from herdcli.regression.fit import ALIASED, RegressionFit, RegressionProblem, symmetric_inverse
from herdcli.schema import Array

VANISHED = 1e-6  # an alternative has vanished if its probability is below this, after a descent that converged
SMALL = 1e-2  # the same after a descent that did not converge
EXACT = 1e-9  # a length below this share of the largest one counts as 0
PRESENT = 1e-6  # the share of a direction in a coefficient is rounding if it is below this
ROUNDING = 1e-12
MOST_COEFFICIENTS = 2000  # the null space is computed for at most this many coefficients; its cost grows as the cube
MOST_NUMBERS = 4_000_000  # largest number of entries of the linear program's matrix
SECONDS = 20.0  # time limit of the linear program


@dataclass(frozen=True)
class RecessionDirections:
    """The directions in which coefficients (q,) have no finite estimate.

    span (q, m)  orthonormal directions of recession, in units of `scale` (q,), the root mean square of each column.
    rows         number of rows that can be separated without error.  certain: whether the search was completed.
    """

    span: Array
    scale: Array
    rows: int
    certain: bool = True

    def unscaled_directions(self, to_original_coefficients: Array | None = None) -> Array:
        """Return the directions in the units of the coefficients (q, m), which are `to_original_coefficients` (q, q) times the fitted
        ones."""
        found: Array = self.span / self.scale[:, None]
        return found if to_original_coefficients is None else to_original_coefficients @ found

    def unbounded_mask(self, to_original_coefficients: Array | None = None) -> Array:
        """Return which coefficients (q,) have no finite estimate."""
        found = np.abs(self.unscaled_directions(to_original_coefficients)) * self.scale[:, None] > PRESENT
        return np.asarray(found.any(axis=1))

    def inverse_curvature(self, curvature: Array) -> Array:
        """Return the inverse (q, q) of the curvature of the limiting model, in the directions in which it is not flat."""
        # In the limit the curvature along δ vanishes; the remainder depends on where the descent stopped and is left out.
        U = _orthogonal_complement(self.span)
        bread = U @ symmetric_inverse(U.T @ (curvature / self.scale[:, None] / self.scale) @ U) @ U.T
        found: Array = bread / self.scale[:, None] / self.scale
        return found


def _orthogonal_complement(span: Array) -> Array:
    """Return orthonormal directions (q, q − m) orthogonal to the given ones (q, m)."""
    along = (span != 0).any(axis=1)
    if along.sum() == span.shape[1]:
        found: Array = np.eye(len(span))[:, ~along]
        return found
    whole: Array = np.linalg.qr(span, mode="complete")[0][:, span.shape[1] :]
    return whole


@dataclass(frozen=True)
class ClassContrast:
    """Rows (m,) of a block whose predictor `plus` must not fall relative to `minus`; 0 is the reference, with predictor 0.

    rival (m,)  probability, or mean count, of the alternative; infinite where the contrast must be 0.
    """

    rows: Array
    plus: int
    minus: int
    rival: Array


def find_recession_directions(problem: RegressionProblem, fit: RegressionFit, map: Map = map) -> RecessionDirections | None:
    """Return the directions of recession of an unpenalised fit; None if there are none."""
    if not TABLE[problem.family.name].recedes or problem.l1 or problem.l2 or problem.firth:
        return None
    sums = sum_statistics(RowBlocks(problem.rows), lambda block: _column_scales(problem, block), map)
    scale = np.tile(np.sqrt(sums["squares"] / max(float(sums["rows"][0]), 1.0)), problem.outputs)
    scale[scale == 0] = 1.0
    rows, q = int(sums["rows"][0]), fit.theta.size
    if fit.separated:
        return RecessionDirections(np.eye(q), scale, rows)
    search = _RecessionSearch(problem, fit.theta, scale, VANISHED if fit.converged else SMALL, fit.mass / max(rows, 1), map)
    if q > MOST_COEFFICIENTS:
        return search.search_along_axes()
    return search.search_any_direction()


def _column_scales(problem: RegressionProblem, block: RowBlock) -> Sums:
    Z, _, _, weight = problem.split_block(block)
    Z = Z[weight > 0]
    return {"rows": np.array([float(len(Z))]), "squares": np.square(Z).sum(axis=0)}


def class_contrasts(problem: RegressionProblem, theta: Array, block: RowBlock) -> Iterator[ClassContrast]:
    """Yield the contrasts of the rows of a block with positive weight."""
    Z, y, offset, weight = problem.split_block(block)
    mean, there = problem.family.mean(Z @ theta.T + offset[:, None]), weight > 0
    if problem.family.name == "softmax":
        for own in range(mean.shape[1]):
            rows = np.flatnonzero(there & (y == own))
            for other in range(mean.shape[1]):
                if other != own and len(rows):
                    yield ClassContrast(rows, own, other, mean[rows, other])
        return
    low, high = there & (y == 0), there & (y == 1) & (problem.family.name == "bernoulli")
    between = np.flatnonzero(there & ~low & ~high)
    for rows, plus, rival in ((np.flatnonzero(low), 0, mean[:, 0]), (np.flatnonzero(high), 1, 1 - mean[:, 0])):
        yield ClassContrast(rows, plus, 1 - plus, rival[rows])
    yield ClassContrast(between, 1, 0, np.full(len(between), np.inf))


@dataclass(frozen=True)
class _RecessionSearch:
    """The data of the search, used in every pass.

    limit    probability below which an alternative has vanished.
    typical  mean weight of a row.
    """

    problem: RegressionProblem
    theta: Array
    scale: Array
    limit: float
    typical: float
    map: Map

    def search_any_direction(self) -> RecessionDirections | None:
        """Return directions of recession of any orientation."""
        near = sum_statistics(RowBlocks(self.problem.rows), self._near_contrast_products, self.map)
        if not near["far"][0]:
            return None
        basis = self._free_directions(near["gram"], near["all"])
        if not basis.shape[1]:
            return None
        # A second pass multiplies rows by the basis itself: squares of zero entries are then 1e-30 and not 1e-16 of the largest.
        basis = basis @ _null_directions(
            sum_statistics(RowBlocks(self.problem.rows), lambda block: self._remaining_contrasts(block, basis), self.map)["gram"],
            EXACT**2,
        )
        if not basis.shape[1]:
            return None
        strict, rows, certain = self._strict_combinations(basis)
        if strict is None:
            return None
        span = basis @ strict
        span[np.abs(span) < ROUNDING] = 0.0
        return RecessionDirections(span, self.scale, rows, certain)

    def _near_contrast_products(self, block: RowBlock) -> Sums:
        """Return Σ a a' over contrasts with alternatives that have not vanished, the number of the others, and Σ z z' over all rows."""
        Z, p = self._columns(block), self.problem.features + 1
        K = self.problem.outputs
        gram, far = np.zeros((K + 1, p, K + 1, p)), 0.0
        for each in class_contrasts(self.problem, self.theta, block):
            vanished = self._has_vanished_alternative(block, each)
            far += float(np.count_nonzero(vanished))
            part = Z[each.rows[~vanished]]
            product = part.T @ part
            gram[each.plus, :, each.plus] += product
            gram[each.minus, :, each.minus] += product
            gram[each.plus, :, each.minus] -= product
            gram[each.minus, :, each.plus] -= product
        inner = gram[1:, :, 1:].reshape(K * p, K * p)
        Z = Z[self.problem.split_block(block)[3] > 0]
        return {"gram": inner, "far": np.array([far]), "all": Z.T @ Z}

    def _has_vanished_alternative(self, block: RowBlock, contrast: ClassContrast) -> Array:
        """Return which contrasts (m,) have an alternative that has vanished; a low-weight row's probability is less informative."""
        weight = 1.0 if block.weight is None else np.minimum(1.0, block.weight[contrast.rows] / self.typical)
        found: Array = contrast.rival * weight < self.limit
        return found

    def _columns(self, block: RowBlock) -> Array:
        found: Array = self.problem.split_block(block)[0] / self.scale[: self.problem.features + 1]
        return found

    def _free_directions(self, near: Array, gram: Array) -> Array:
        """Return orthonormal directions (q, m) that leave near contrasts unchanged, without those that leave all rows unchanged."""
        free = _null_directions(near, ALIASED)
        repeated = np.kron(np.eye(self.problem.outputs), _null_directions(gram, ALIASED))
        free = free - repeated @ (repeated.T @ free)
        # The remainder is 0 for directions within the redundant ones; the others are orthogonal to them: lengths are 0 or 1.
        squares, vectors = np.linalg.eigh(free.T @ free)
        found: Array = free @ vectors[:, squares > 0.5] / np.sqrt(squares[squares > 0.5])
        return found

    def _contrast_products(self, basis: Array, block: RowBlock, contrast: ClassContrast, rows: Array) -> Array:
        """Return a'V (m, directions) of some of a contrast's rows."""
        K, p = self.problem.outputs, self.problem.features + 1
        whole = np.concatenate([np.zeros((1, p, basis.shape[1])), basis.reshape(K, p, -1)])
        found: Array = self._columns(block)[rows] @ (whole[contrast.plus] - whole[contrast.minus])
        return found

    def _remaining_contrasts(self, block: RowBlock, basis: Array) -> Sums:
        """Return Σ over near contrasts of V'a a'V, each for a row scaled to length 1."""
        found = np.zeros((basis.shape[1], basis.shape[1]))
        lengths = np.linalg.norm(self._columns(block), axis=1)
        for each in class_contrasts(self.problem, self.theta, block):
            rows = each.rows[~self._has_vanished_alternative(block, each)]
            part = self._contrast_products(basis, block, each, rows) / lengths[rows, None]
            found += part.T @ part
        return {"gram": found}

    def _strict_combinations(self, basis: Array) -> tuple[Array | None, int, bool]:
        """Return combinations (m, r) of the basis that vanished contrasts allow, the number of rows they separate, and if it is certain."""
        parts, numbers = [np.zeros((0, basis.shape[1]))], [np.zeros(0, dtype=np.int64)]
        for block in RowBlocks(self.problem.rows).take(0, RowBlocks(self.problem.rows).count):
            for each in class_contrasts(self.problem, self.theta, block):
                rows = each.rows[self._has_vanished_alternative(block, each)]
                parts.append(self._contrast_products(basis, block, each, rows))
                numbers.append(block.first + rows)
        B, number = np.concatenate(parts), np.concatenate(numbers)
        lengths = np.linalg.norm(B, axis=1)
        there = lengths > EXACT * max(float(lengths.max(initial=0.0)), 1e-300)
        B, number = B[there] / lengths[there, None], number[there]
        strict, certain = _allowed_direction(B, basis.T @ (self.theta.ravel() * self.scale))
        if not strict.any():
            return None, 0, certain
        return _null_directions(B[~strict].T @ B[~strict], EXACT), len(np.unique(number[strict])), certain

    def search_along_axes(self) -> RecessionDirections | None:
        """Return directions of single coefficients, such as a level that only one class has, in one pass for any number of columns."""
        K, p = self.problem.outputs, self.problem.features + 1

        def extremes(block: RowBlock) -> Sums:
            Z = self.problem.split_block(block)[0]
            found = np.zeros((K, 3, p))  # contrasts that rise and fall with each coefficient, and rows that must not change
            for each in class_contrasts(self.problem, self.theta, block):
                part = Z[each.rows]
                up, down = np.count_nonzero(part > 0, axis=0), np.count_nonzero(part < 0, axis=0)
                if len(each.rival) and np.isinf(each.rival).all():
                    found[:, 2] += up + down
                    continue
                if each.plus:
                    found[each.plus - 1, :2] += [up, down]
                if each.minus:
                    found[each.minus - 1, :2] += [down, up]
            return {"signs": found}

        rise, fall, fixed = np.moveaxis(sum_statistics(RowBlocks(self.problem.rows), extremes, self.map)["signs"], 1, 0)
        free = ((fixed == 0) & ((rise > 0) != (fall > 0))).ravel()
        if not free.any():
            return None
        return RecessionDirections(np.eye(K * p)[:, free], self.scale, 0, certain=False)


def _null_directions(gram: Array, share: float) -> Array:
    """Return orthonormal directions (q, m) along which a sum of squares is at most a share of its largest, or of one row's."""
    values, vectors = np.linalg.eigh(gram)
    found: Array = vectors[:, values <= share * max(float(values[-1]) if len(values) else 0.0, 1.0)]
    return found


def _allowed_direction(B: Array, coefficients: Array) -> tuple[Array, bool]:
    """Return which contrasts (n,) can be strict while all B x ≥ 0, for B (n, m) with rows of length 1, and whether that is certain.

    coefficients (m,)  the coefficients so far, which usually are such an x.
    """
    for x in (coefficients, -coefficients) if B.shape[1] == 1 else (coefficients,):
        margins = B @ x
        if len(B) and margins.min() > EXACT * np.abs(margins).max():
            return np.ones(len(B), dtype=bool), True
    if B.shape[1] == 1:
        return np.zeros(len(B), dtype=bool), True
    if B.size > MOST_NUMBERS:
        return np.ones(len(B), dtype=bool), False
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, hstack

    n, m = B.shape
    # max Σ t over 0 ≤ t ≤ 1, t ≤ B x: directions can be added and scaled, so every contrast that can be strict has t = 1.
    cost = np.concatenate([np.zeros(m), -np.ones(n)])
    bounds = [(None, None)] * m + [(0.0, 1.0)] * n
    matrix = hstack([csr_array(-B), eye_array(n)], format="csr")
    solved = linprog(cost, A_ub=matrix, b_ub=np.zeros(n), bounds=bounds, method="highs", options={"time_limit": SECONDS})
    if solved.status != 0:
        return np.ones(len(B), dtype=bool), False
    return np.asarray(solved.x[m:] > 0.5), True
