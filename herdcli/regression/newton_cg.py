"""Regression with many coefficients: the loss of fit.py, minimised with products of the curvature but never the curvature itself.

The model g'd + ½ d'Hd of the loss at θ is minimised over ‖d‖ ≤ r in the metric of H's diagonal.  Conjugate gradients start at 0 and end
where the gradient is small or at the border.  If the loss does not follow the model, the step is rejected and r shrinks; if the model
is right at the border, r grows.  K classes of D columns have K²D²/2 second derivatives of N rows each; a product costs 4 K D N operations.
Source: Steihaug (1983); Lin, Weng & Keerthi (2008) for the loss of classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np

from herdcli.algorithm import Algorithm, Map
from herdcli.numerics.block_statistics import Block, BlockSource, BlockStatistics, RemoteSource, RowBlock, Sums, sum_statistics
from herdcli.records import dataclass
from herdcli.regression import firth
from herdcli.regression.fit import (
    MANY,
    DescentBase,
    NewtonDescent,
    RegressionFit,
    RegressionProblem,
    RemoteRows,
    derivative_sums,
    weighted_gram,
)
from herdcli.regression.sparse_rows import SparseBlock, SparseBlocks, SparseRows, compress_blocks, side_by_side
from herdcli.schema import Array, array

P = TypeVar("P", bound=RegressionProblem)
TAKEN = 1e-4  # share of the decrease predicted by the model that a step must achieve
POOR, GOOD = 0.25, 0.75  # the region shrinks if the share of the predicted decrease is below POOR, and grows if it is above GOOD
NARROWER, WIDER = 0.25, 4.0
RESIDUAL = 0.1  # largest share of the gradient that conjugate gradients leave
PRODUCTS = 1000  # largest number of products per step
FLATTEST = 1e-3  # least share of its first value that the metric keeps where the curvature vanishes
TOLERANCE = 1e-14  # an expected decrease of at most this share of the loss is rounding
CAREFUL = 100.0  # factor for the intercepts, which are not penalised
CORRELATED = 100  # most columns per class whose correlations are part of the metric
CACHED = 128  # number of dense rows whose two products follow each other
COPIES = 8  # number of curvature matrices in memory while errors are computed
SPECTRUM = 2.4e-10  # seconds of processor time for errors, times the cube of the number of coefficients: 85 s for 7,065
MARGIN = 1e-3  # least η that puts a row on the side of its class beyond rounding


def make_large_problem_descent(
    problem: RegressionProblem, start: Array, iterations: int, map: Map, remote_blocks: BlockSource | None
) -> Algorithm[Any, RegressionFit]:
    """Return the algorithm for a problem of this size; least squares takes one step at any size, and ℓ1 has no other."""
    if problem.firth:
        return firth.make_firth_ascent(problem, start, iterations, map, remote_blocks)
    few = start.size < MANY or problem.l1 > 0 or problem.family.name == "gaussian"
    if few and not isinstance(problem.rows, SparseRows):
        return NewtonDescent(problem, start, iterations, map=map, elsewhere=remote_blocks)
    return TrustRegion(problem, start, iterations, map=map, elsewhere=None if remote_blocks is None else compress_blocks(remote_blocks))


def without_rows(problem: P) -> P:
    """Return the problem without its rows."""
    return replace(problem, rows=RemoteRows(problem.rows.count, problem.rows.columns))


def _linear_predictors(problem: RegressionProblem, block: RowBlock | SparseBlock, theta: Array) -> Array:
    """Return X β + α (m, K), without offsets."""
    if isinstance(block, SparseBlock):
        return block.products(theta)
    found: Array = (theta[:, :-1] @ block.X[:, : problem.features].T).T + theta[:, -1]  # with few predictors twice as fast as X β
    return found


def _gradient_sum(problem: RegressionProblem, block: RowBlock | SparseBlock, values: Array) -> Array:
    """Return Σ_n v_n ⊗ z_n (K, p) for values (m, K) of the rows."""
    if isinstance(block, SparseBlock):
        return block.transposed_products(values)
    return np.column_stack([values.T @ block.X[:, : problem.features], values.sum(axis=0)])


def _diagonal_sum(problem: RegressionProblem, block: RowBlock | SparseBlock, values: Array) -> Array:
    """Return Σ_n v_n ⊗ z_n² (K, p) for values (m, K) of the rows."""
    if isinstance(block, SparseBlock):
        return block.transposed_products(values, squares=True)
    return np.column_stack([values.T @ np.square(block.X[:, : problem.features]), values.sum(axis=0)])


def response_columns(block: RowBlock | SparseBlock) -> tuple[Array, Array, Array]:
    """Return target (m,), offset (m, 1) and weights (m, 1)."""
    if isinstance(block, SparseBlock):
        return block.y, block.offset[:, None], block.weight[:, None]
    return block.X[:, -2], block.X[:, -1:], np.ones((len(block.X), 1)) if block.weight is None else block.weight[:, None]


@dataclass(frozen=True)
class GradientSums(BlockStatistics):
    """A function from a block to Σw, the loss at θ (K, p), its gradient and curvature diagonal (K, p), and doubtful rows.

    Doubtful rows are those that `poorly_classified_row_mask` finds.
    """

    problem: RegressionProblem
    theta: Array

    def __call__(self, block: RowBlock | SparseBlock) -> Sums:
        """Return the sums of a block."""
        problem = self.problem
        y, offset, weight = response_columns(block)
        with np.errstate(over="ignore", invalid="ignore"):
            eta = _linear_predictors(problem, block, self.theta)
            loss, slope, curve = problem.family.loss_and_derivatives(eta + offset, y)
            return {
                "mass": np.array([weight.sum()]),
                "loss": np.array([weight[:, 0] @ loss]),
                "gradient": _gradient_sum(problem, block, slope * weight),
                "diagonal": _diagonal_sum(problem, block, (curve if curve.shape[1] == 1 else curve * (1 - curve)) * weight),
                "doubtful": np.array(
                    [np.count_nonzero(poorly_classified_row_mask(problem, eta, y) & (weight[:, 0] > 0))], dtype=np.float64
                ),
            }


@dataclass(frozen=True)
class HessianProduct(BlockStatistics):
    """A function from a block to the curvature at θ times v, both (K, p)."""

    problem: RegressionProblem
    theta: Array
    v: Array

    def __call__(self, block: RowBlock | SparseBlock) -> Sums:
        """Return the sums of a block."""
        return self.product_sums(block, self.row_curvature(block))

    def row_curvature(self, block: RowBlock | SparseBlock) -> Array:
        """Return the second derivatives of each row's loss at θ, (m, 1) or (m, K) as `Family.loss_and_derivatives` has them.

        Those of sparse rows are padded with zeros, as `sparse_rows.side_by_side` does it.
        """
        y, offset, _ = response_columns(block)
        found = self.problem.family.loss_and_derivatives(_linear_predictors(self.problem, block, self.theta) + offset, y)[2]
        return side_by_side(found.T) if isinstance(block, SparseBlock) else found

    def product_sums(self, block: RowBlock | SparseBlock, curve: Array) -> Sums:
        """Return the sums of a block with the second derivatives of its rows."""
        if isinstance(block, SparseBlock):
            return {"product": block.curvature_products(curve, self.v)}
        weight = response_columns(block)[2]
        columns, curve = block.X[:, : self.problem.features], np.ascontiguousarray(curve.T)
        slopes, intercepts = np.ascontiguousarray(self.v[:, :-1]), self.v[:, -1:]
        product = np.zeros_like(self.v)
        for start in range(0, len(columns), CACHED):  # rows that are in the cache for the second of the two products
            part = slice(start, start + CACHED)
            along = _curvature_product(curve[:, part], slopes @ columns[part].T + intercepts) * weight[part].T
            product[:, :-1] += along @ columns[part]
            product[:, -1] += along.sum(axis=1)
        return {"product": product}


def _curvature_product(curve: Array, u: Array) -> Array:
    """Return the products of the rows' second derivatives in η, (1, m) or (K, m) as `Family.loss_and_derivatives` has them, with u (K,
    m)."""
    along: Array = curve * u
    if len(curve) > 1:  # (diag π − ππ') u
        along -= curve * along.sum(axis=0)
    return along


def _sums_with_known_curvature(statistics: HessianProduct, curves: dict[int, Array], block: RowBlock | SparseBlock) -> Sums:
    """Return the sums of a block; its second derivatives are taken from `curves`, or computed and kept there."""
    if block.first not in curves:
        curves[block.first] = statistics.row_curvature(block)
    return statistics.product_sums(block, curves[block.first])


def poorly_classified_row_mask(problem: RegressionProblem, eta: Array, y: Array) -> Array:
    """Return which rows (m,) the predictors η (m, K), without offsets, do not put clearly on the side of their class.

    All rows count if the family has no classes.
    """
    if problem.family.name == "bernoulli":
        return np.asarray(~((2 * y - 1) * eta[:, 0] > MARGIN) | ((y > 0) & (y < 1)))
    if problem.family.name != "softmax":
        return np.ones(len(y), dtype=bool)
    rows, index = np.arange(len(y)), y.astype(np.int64)
    classes = getattr(problem.family, "classes", eta.shape[1])
    whole = np.concatenate([np.zeros((len(y), classes - eta.shape[1])), eta], axis=1)
    own = whole[rows, index].copy()
    whole[rows, index] = -np.inf
    return np.asarray(~(own - whole.max(axis=1) > MARGIN))


@dataclass(frozen=True)
class ColumnProducts(BlockStatistics):
    """A function from a block to the weighted sum of products of its columns, the intercept's ones last, (p, p)."""

    problem: RegressionProblem

    def __call__(self, block: RowBlock | SparseBlock) -> Sums:
        """Return the sums of a block."""
        Z, _, _, weight = self.problem.split_block(block)
        return {"products": weighted_gram(Z.toarray() if isinstance(block, SparseBlock) else Z, weight)}


@dataclass(frozen=True)
class CorrelatedMetric:
    """The metric that multiplies row k of a direction (K, p) by c_k A + λ: A are mean products of columns, which all classes share.

    Conjugate gradients then need few products where columns are correlated.
    vectors, values  (p, p), (p,) eigenvectors and eigenvalues of A.  scales  (K, p) c_k times the eigenvalues, plus λ.
    Source: Boehning (1992), whose bound of the curvature of classes has the same factor A.
    """

    vectors: Array
    scales: Array

    def multiply(self, d: Array) -> Array:
        """Return the product with d (K, p)."""
        found: Array = ((d @ self.vectors) * self.scales) @ self.vectors.T
        return found

    def solve(self, d: Array) -> Array:
        """Return the product of the inverse with d (K, p)."""
        found: Array = ((d @ self.vectors) / self.scales) @ self.vectors.T
        return found


Metric = Array | CorrelatedMetric


@dataclass
class TrustRegionState:
    """The state of the descent: θ, f and its derivatives there, the next step to try, and f after each accepted step."""

    step: int
    theta: Array = array("K p", "coefficients, the intercept last", kind="f")
    direction: Array = array("K p", "the step tried", kind="f")
    gradient: Array = array("K p", "of the penalised mean loss at theta", kind="f")
    metric: Array = array("K p", "squared lengths of the units, in which the region is a ball", kind="f")
    first: Array = array("K p", "the diagonal of the curvature at the start", kind="f")
    trace: Array = array("T", "objective after each step taken", kind="f")
    objective: float = np.inf
    radius: float = np.inf
    foreseen: float = np.inf  # predicted decrease of the trial step
    inside: bool = False  # whether the trial step ends inside the border
    mass: float = 0.0
    doubtful: float = np.inf  # number of rows of positive weight not clearly on the side of their class


@dataclass(frozen=True)
class TrustRegion(DescentBase):
    """The trust-region descent as an algorithm."""

    state = TrustRegionState  # the type of its states
    spectrum: list[Array] = field(default_factory=list, compare=False)  # eigenvalues and eigenvectors of the mean products, once known

    def init(self) -> TrustRegionState:
        """Return the initial θ; the first step evaluates it."""
        direction, gradient, metric, first = np.zeros((4, *self.start.shape))
        return TrustRegionState(0, self.start.copy(), direction, gradient, metric, first, np.zeros(0))

    def step(self, state: TrustRegionState) -> TrustRegionState:
        """Evaluate the trial step, accept or reject it, adapt the region and compute the next step."""
        problem, tried = self.problem, state.theta + state.direction
        sums = sum_statistics(self.source, self.gradient_sums(tried), self.map)
        mass = float(sums["mass"][0])
        objective = float(sums["loss"][0]) / mass + problem.penalty(tried)
        begun = state.step == 0
        share = 1.0 if begun else (state.objective - objective) / state.foreseen
        state.step += 1
        if not begun:
            length = _scaled_norm(state.direction, self._region_metric(state))
            if not share >= POOR:
                state.radius = NARROWER * length
            elif share > GOOD and not state.inside:
                state.radius = WIDER * length
        if share > TAKEN:
            penalised = self.problem.l2 * problem.penalty_mask.reshape(tried.shape)
            state.theta, state.objective, state.mass, state.doubtful = tried, objective, mass, float(sums["doubtful"][0])
            state.gradient = sums["gradient"] / mass + penalised * tried
            diagonal = sums["diagonal"] / mass + penalised
            state.first = diagonal if begun else state.first
            state.metric = np.maximum(diagonal, FLATTEST * state.first)
            state.trace = np.append(state.trace, objective)
        # A penalised loss has a curvature of at least λ₂, so that no step gains more than |g|²/(2 λ₂): then none has to be computed.
        squares = float(np.square(state.gradient).sum())
        if squares <= self._negligible_gradient(state):
            state.direction, state.foreseen, state.inside = np.zeros_like(tried), squares / (2.0 * problem.l2), True
            return state
        metric = self._region_metric(state)
        if begun:
            state.radius = _scaled_norm(_metric_inverse(metric)(state.gradient), metric)
        gradient = state.gradient
        if isinstance(self.source, SparseBlocks):  # the order in which these take directions
            gradient, metric = np.asfortranarray(gradient), np.asfortranarray(metric) if isinstance(metric, np.ndarray) else metric
        direction, state.foreseen, state.inside = trust_region_step(
            self._curvature_product(state), gradient, metric, state.radius, self._negligible_gradient(state)
        )
        state.direction = np.ascontiguousarray(direction)
        if isinstance(metric, CorrelatedMetric) and len(tried) == getattr(problem.family, "classes", 0):
            # The same change of all intercepts changes no probability.  The diagonal metric and Newton's steps have none of it.
            own = state.metric[:, -1]
            state.direction[:, -1] -= own @ state.direction[:, -1] / own.sum()
        return state

    def _negligible_gradient(self, state: TrustRegionState) -> float:
        """Return |g|² of a gradient from which a step gains nothing but rounding, by the penalty alone; −1 without a penalty."""
        if not self.problem.l2 or type(self) is not TrustRegion:
            return -1.0
        return 2.0 * self.problem.l2 * TOLERANCE * max(1.0, abs(state.objective)) / CAREFUL

    def _region_metric(self, state: TrustRegionState) -> Metric:
        """Return the metric of the region: that of the state's diagonal, or one with the same mean and the correlations of the columns."""
        K, p = state.theta.shape
        many = MANY <= K * p <= CORRELATED * K**2
        if not (many and self.problem.l2) or isinstance(self.problem.rows, SparseRows) or type(self) is not TrustRegion:
            return state.metric
        if not self.spectrum:
            products = sum_statistics(self.source, ColumnProducts(without_rows(self.problem)), self.map)["products"] / state.mass
            self.spectrum.extend(np.linalg.eigh(products))
        values, vectors = self.spectrum
        values = np.maximum(values, 0.0)
        scale = np.maximum(state.metric - self.problem.l2 * self.problem.penalty_mask.reshape(K, p), 0.0).sum(axis=1) / values.sum()
        if len(scale) == getattr(self.problem.family, "classes", 0):
            scale[:] = scale.mean()  # no class is the reference: the curvature couples all of them alike, and needs fewer products
        return CorrelatedMetric(vectors, scale[:, None] * values + self.problem.l2)

    def gradient_sums(self, theta: Array) -> BlockStatistics:
        """Return the statistics `GradientSums` at θ."""
        return GradientSums(without_rows(self.problem), theta)

    def hessian_product_sums(self, theta: Array, v: Array) -> BlockStatistics:
        """Return the statistics for the product of the curvature at θ with v."""
        return HessianProduct(without_rows(self.problem), theta, v)

    def _curvature_product(self, state: TrustRegionState) -> Callable[[Array], Array]:
        """Return the curvature at θ as a function of a direction."""
        problem, source = self.problem, self.source
        order: Literal["F", "C"] = "F" if isinstance(source, SparseBlocks) else "C"
        penalised = np.asarray(problem.l2 * problem.penalty_mask.reshape(state.theta.shape), order=order)
        curves: dict[int, Array] = {}  # the second derivatives of the rows of a block by its first row: equal for all directions

        def product(v: Array) -> Array:
            statistics: Callable[[Block], Sums] = self.hessian_product_sums(state.theta, v)
            if isinstance(statistics, HessianProduct) and not isinstance(source, RemoteSource):
                statistics = partial(_sums_with_known_curvature, statistics, curves)
            found: Array = sum_statistics(source, statistics, self.map)["product"]
            found /= state.mass
            if problem.l2:
                found += penalised * v
            return found

        return product

    def done(self, state: TrustRegionState) -> bool:
        """Return whether no step gains more than rounding, classes are separated, or all iterations are used."""
        return state.step >= self.iterations or self.has_converged(state) or self._is_separated(state)

    def has_converged(self, state: TrustRegionState) -> bool:
        """Return whether no step gains more than rounding."""
        return np.isfinite(state.objective) and state.foreseen <= TOLERANCE * max(1.0, abs(state.objective))

    def _is_separated(self, state: TrustRegionState) -> bool:
        """Return whether unpenalised coefficients put every row on the side of its class, so that multiples of them lose less and less."""
        return state.doubtful == 0 and not self.problem.l2

    def memory(self) -> int:
        """Return the bytes of the curvature and its inverse, needed for errors without penalty, or else of the coefficients in use."""
        q = self.start.size
        curves = self.problem.rows.count * self.problem.outputs
        correlated = 4 * (q // self.problem.outputs) ** 2 if MANY <= q <= CORRELATED * self.problem.outputs**2 else 0
        return 8 * (20 * q + curves + correlated if self.problem.l2 else q**2 * (COPIES + self.source.count.bit_length()))

    def estimate_error_costs(self, state: TrustRegionState) -> tuple[float, int]:
        """Return the approximate seconds and bytes for the errors after a descent that continues from this state."""
        if self.problem.l2 or self._is_separated(state):
            return 0.0, 0
        return SPECTRUM * self.start.size**3, self.memory()

    def result(self, state: TrustRegionState) -> RegressionFit:
        """Return the coefficients, flags for convergence and separation, and the curvature if errors are computed from it."""
        separated = self._is_separated(state)
        curve = np.zeros((0, 0))
        if not (separated or self.problem.l2):
            curve = sum_statistics(self.source, derivative_sums(self.problem, state.theta), self.map)["curvature"]
        return RegressionFit(state.theta, curve, state.trace, state.mass, self.has_converged(state) and not separated, separated)


def trust_region_step(
    product: Callable[[Array], Array], gradient: Array, metric: Metric, radius: float, negligible: float = -1.0
) -> tuple[Array, float, bool]:
    """Return d (K, p) that nearly minimises g'd + ½ d'Hd over Σ metric d² ≤ radius², the predicted decrease, and if it ends inside.

    product  v ↦ Hv.  negligible  |g|² of a gradient that is as good as 0.  Coordinates with metric 0 stay 0.  The iterates of conjugate
    gradients grow in length in their preconditioner's metric, so the first one beyond the border is the last one.
    """
    invert = _metric_inverse(metric)
    d, rest = np.zeros_like(gradient), -gradient
    way = invert(rest)
    slope = begun = _inner_product(rest, way)
    least = min(RESIDUAL, begun**0.25) ** 2 * begun  # residuals fall faster from step to step of the descent: order 3/2
    # Products of d and the direction in the metric M, by M M⁻¹ r = r and r'd = 0 for conjugate directions: no product with M is computed.
    lengths = np.array([0.0, 0.0, slope])
    inside = True
    for _ in range(min(PRODUCTS, 2 * gradient.size)):  # without rounding, as many products as coordinates are enough
        if slope <= least or _inner_product(rest, rest) <= negligible:
            break
        image = product(way)
        bent = _inner_product(way, image)
        reach = _distance_to_border(lengths, radius)
        rate = slope / bent if bent > 0 else np.inf
        inside = rate < reach
        rate = rate if inside else reach
        d += rate * way
        rest -= rate * image
        if not inside:
            break
        scaled = invert(rest)
        slope, last = _inner_product(rest, scaled), slope
        share = slope / last
        way *= share
        way += scaled
        own, both, along = lengths
        lengths[:] = own + 2 * rate * both + rate**2 * along, share * (both + rate * along), slope + share**2 * along
    return d, 0.5 * (_inner_product(d, rest) - _inner_product(d, gradient)), inside  # Hd = −g − r


def _distance_to_border(lengths: Array, radius: float) -> float:
    """Return t ≥ 0 with ‖d + t way‖ = radius; lengths  |d|², d'way and |way|² in the metric."""
    own, both, along = lengths.tolist()
    return float((np.sqrt(both * both + along * max(radius**2 - own, 0.0)) - both) / along)


def _inner_product(a: Array, b: Array) -> float:
    """Return Σ a b of arrays (K, p), without a copy of arrays that are contiguous in either order."""
    return float(np.vdot(a.T, b.T) if a.flags.f_contiguous and b.flags.f_contiguous else np.vdot(a, b))


def _scaled_norm(d: Array, metric: Metric) -> float:
    return float(np.sqrt((d * _multiply_by_metric(d, metric)).sum()))


def _multiply_by_metric(values: Array, metric: Metric) -> Array:
    return metric.multiply(values) if isinstance(metric, CorrelatedMetric) else metric * values


def _metric_inverse(metric: Metric) -> Callable[[Array], Array]:
    """Return the inverse of a metric as a function of a direction; coordinates with metric 0 become 0."""
    if isinstance(metric, CorrelatedMetric):
        return metric.solve
    inverse: Array = np.divide(1.0, metric, out=np.zeros_like(metric), where=metric > 0)
    return lambda d: np.multiply(d, inverse)
