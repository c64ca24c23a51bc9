"""Regression as an algorithm: Newton steps on the penalised loss, halved until it falls, each over one pass of the rows.

    f(θ) = Σ_n w_n ℓ(y_n, η_n) / Σ w + ½ λ₂ ‖β‖² + λ₁ ‖β‖₁,     η = X β + α + offset,    the intercepts α free.

With H the mean curvature and g the mean gradient, a step minimises the quadratic model g'd + ½ d'Hd plus the penalties: by a
factorisation where λ₁ = 0, else by coordinate descent.  Undamped, the first step of a Poisson fit can raise the loss sevenfold, and
separable classes have no minimum: steps are halved (Armijo), and separation is reported.
Source: Makin, eq. 5.14 (iteratively reweighted least squares); Friedman, Hastie & Tibshirani (2010) for the descent.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from herdcli.algorithm import Map, RunProgress
from herdcli.numerics.block_statistics import BlockSource, BlockStatistics, RowBlock, RowReader, Sums, sum_statistics
from herdcli.records import dataclass
from herdcli.regression import weight_meaning
from herdcli.regression.families import Family
from herdcli.regression.sparse_rows import SparseBlock, regression_blocks
from herdcli.schema import Array, array

MANY = 2000  # at least this many coefficients are found by the steps of newton_cg.py, without the curvature
SUFFICIENT = 1e-4  # share of the decrease predicted by the model that a step must achieve
SHORTEST = 2.0**-40
ALIASED = 1e-11  # an eigenvalue of the scaled curvature that is at most this fraction of the largest indicates a redundant column
SWEEPS = 1000
ROUNDS = 20  # Newton steps in the nonzero coordinates between two sweeps
DAMPING = 1e-11  # added to the diagonal, relative to it
TORN = 5  # number of consecutive steps
PIVOT = 1e-4  # the spectrum decides if a pivot of the scaled Cholesky factor is at most this; PIVOT² is far above ALIASED
LINEAR = (0.2, 0.6)  # ratio of decrements while classes become separated (1/e), where Newton's would fall to 0


@dataclass(frozen=True)
class RegressionProblem:
    """A regression on rows whose columns are D features, then the target, then the offset.

    features  number of leading features that are used; 0: the null model.
    constant  a column before the target replaces the intercept's ones, as rows with correlated errors have it after whitening.
    weights   meaning of the rows' weights, one of `herdcli.regression.weight_meaning.KINDS`.
    firth     whether half the log-determinant of Fisher's information is added to the log-likelihood (`herdcli.regression.firth`).
    """

    rows: RowReader
    family: Family
    outputs: int
    features: int
    l1: float = 0.0
    l2: float = 0.0
    constant: bool = False
    firth: bool = False
    weights: str = "precision"

    def split_block(self, block: RowBlock | SparseBlock) -> tuple[Any, Array, Array, Array]:
        """Return Z (m, D + 1) with ones last, dense or CSR, target (m,), offset (m,), weights (m,)."""
        if isinstance(block, SparseBlock):
            return block.Z if self.features else np.ones((len(block.y), 1)), block.y, block.offset, block.weight
        Z = np.empty((len(block.X), self.features + 1))
        Z[:, :-1] = block.X[:, : self.features]
        Z[:, -1] = block.X[:, -3] if self.constant else 1.0
        weight = np.ones(len(block.X)) if block.weight is None else block.weight
        return Z, block.X[:, -2], block.X[:, -1], weight

    @property
    def penalty_mask(self) -> Array:
        """A mask with 1 for coefficients and 0 for intercepts, (K (D + 1),)."""
        return np.tile(np.append(np.ones(self.features), 0.0), self.outputs)

    def penalty(self, theta: Array) -> float:
        """Return ½ λ₂ ‖β‖² + λ₁ ‖β‖₁."""
        beta = theta[:, :-1]
        return 0.5 * self.l2 * float(np.square(beta).sum()) + self.l1 * float(np.abs(beta).sum())


@dataclass(frozen=True)
class RemoteRows:
    """A placeholder for a problem's rows, for processes that get blocks of them."""

    count: int
    columns: int

    def read(self, start: int, stop: int) -> RowBlock:
        """Raise LookupError, since the rows are not in this process."""
        raise LookupError("these rows are with somebody else")


@dataclass(frozen=True)
class DerivativeSums(BlockStatistics):
    """A function from a block to Σw, the loss at θ (K, p), its gradient (K p,) and curvature (K p, K p)."""

    problem: RegressionProblem
    theta: Array

    def __call__(self, block: RowBlock) -> Sums:
        """Return the sums of a block."""
        problem, theta = self.problem, self.theta
        Z, y, offset, weight = problem.split_block(block)
        with np.errstate(over="ignore", invalid="ignore"):
            loss, slope, curve = problem.family.loss_and_derivatives(Z @ theta.T + offset[:, None], y)
            return {
                "mass": np.array([weight.sum()]),
                "loss": np.array([weight @ loss]),
                "gradient": ((slope * weight[:, None]).T @ Z).ravel(),
                "curvature": weighted_curvature(Z, curve, weight),
                "wrong": np.array([np.count_nonzero(misclassified_row_mask(problem, Z @ theta.T, y)[weight > 0])], dtype=np.float64),
            }


def derivative_sums(problem: RegressionProblem, theta: Array) -> DerivativeSums:
    """Return the statistics of a step, with the problem but without its rows."""
    return DerivativeSums(replace(problem, rows=RemoteRows(problem.rows.count, problem.rows.columns)), theta)


def misclassified_row_mask(problem: RegressionProblem, eta: Array, y: Array) -> Array:
    """Return which rows (m,) the predictors η (m, K), without offsets, put on the wrong side of their class.

    All rows count as wrong if the family has no classes.
    """
    if problem.family.name == "bernoulli":
        found: Array = ((2 * y - 1) * eta[:, 0] <= 0) | ((y > 0) & (y < 1))  # fractions of trials are on neither side
        return found
    if problem.family.name != "softmax":
        return np.ones(len(y), dtype=bool)
    mean, rows, index = problem.family.mean(eta), np.arange(len(y)), y.astype(np.int64)
    own = mean[rows, index].copy()
    mean[rows, index] = -1.0
    return np.asarray(own <= mean.max(axis=1))


def weighted_gram(Z: Any, weight: Array) -> Array:
    """Return Σ_n w_n z_n z_n' (p, p) of rows Z (m, p), dense or CSR."""
    if not isinstance(Z, np.ndarray):
        return np.asarray(((Z * weight[:, None]).T @ Z).toarray())
    root = Z if (weight == 1).all() else Z * np.sqrt(weight)[:, None]
    return np.asarray(root.T @ root)  # the product of an array with itself takes half the operations


def weighted_curvature(Z: Array, curve: Array, weight: Array) -> Array:
    """Return Σ_n w_n C_n ⊗ z_n z_n', where C_n is a number, or for K classes diag π_n − π_n π_n'."""
    K, p = curve.shape[1], Z.shape[1]
    if K == 1:
        single: Array = (Z * (curve[:, 0] * weight)[:, None]).T @ Z
        return single
    found = np.empty((K, p, K, p))
    for a in range(K):
        for b in range(a + 1):
            each = weight * curve[:, a] * ((a == b) - curve[:, b])
            # Block (a, b) of Σ w (diag π − ππ') ⊗ zz': Σ w π_a (1[a = b] − π_b) zz'.
            found[a, :, b, :] = (Z * each[:, None]).T @ Z
            found[b, :, a, :] = found[a, :, b, :].T
    return found.reshape(K * p, K * p)


@dataclass
class DescentState:
    """The state of the descent: θ (K, p), f and its derivatives there, the next step to try, and f after each accepted step."""

    step: int
    theta: Array = array("K p", "coefficients, the intercept last", kind="f")
    direction: Array = array("K p", "of the step tried", kind="f")
    gradient: Array = array("q", "of the mean loss at theta", kind="f")
    curvature: Array = array("q q", "of the mean loss at theta", kind="f")
    trace: Array = array("T", "objective after each step taken", kind="f")
    decrements: Array = array("T", "what the model of the next step foresees", kind="f")
    objective: float = np.inf
    rate: float = 0.0
    mass: float = 0.0
    wrong: float = np.inf  # number of rows of positive weight on the wrong side


@dataclass(frozen=True)
class RegressionFit:
    """The result of a fit: θ (K, p), its trace, and the curvature of the summed loss, (K p, K p)."""

    theta: Array
    curvature: Array
    trace: Array
    mass: float
    converged: bool
    separated: bool


class DescentProgress(Protocol):
    """The part of a descent's state that its progress needs."""

    step: int
    objective: float


@dataclass(frozen=True)
class DescentBase:
    """The common fields of descents for problems of every size.

    elsewhere  the blocks of the rows, if other processes hold them.
    """

    problem: RegressionProblem
    start: Array
    iterations: int = 100
    map: Map = map
    elsewhere: BlockSource | None = None

    @property
    def source(self) -> BlockSource:
        """The fixed blocks of the rows."""
        return self.elsewhere or regression_blocks(self.problem.rows)

    def progress(self, state: DescentProgress) -> RunProgress:
        """Return the number of steps and the objective."""
        return RunProgress(state.step, self.iterations, f"objective {state.objective:.6g}")


@dataclass(frozen=True)
class NewtonDescent(DescentBase):
    """Newton's descent as an algorithm."""

    tolerance: float = 1e-17

    @property
    def state(self) -> type[DescentState]:
        return DescentState

    def init(self) -> DescentState:
        """Return the initial θ; the first step evaluates it."""
        q = self.start.size
        nothing = np.zeros(0)
        return DescentState(0, self.start.copy(), np.zeros_like(self.start), np.zeros(q), np.zeros((q, q)), nothing, nothing)

    def step(self, state: DescentState) -> DescentState:
        """Evaluate the trial step: accept it and model the next one, or halve it."""
        problem, tried = self.problem, state.theta + state.rate * state.direction
        with np.errstate(over="ignore", invalid="ignore"):
            sums = sum_statistics(self.source, derivative_sums(problem, tried), self.map)
        mass = float(sums["mass"][0])
        # The loss is a mean, so a penalty has the same effect for any number of rows: λ for n copies of the rows is that for one.
        objective = float(sums["loss"][0]) / mass + problem.penalty(tried)
        foreseen = state.decrements[-1] if len(state.decrements) else 0.0
        state.step += 1
        slack = 1e-14 * abs(state.objective) if np.isfinite(state.objective) else 0.0
        if not objective <= state.objective - SUFFICIENT * state.rate * foreseen + slack:
            state.rate /= 2
            return state
        state.theta, state.objective, state.mass, state.wrong = tried, objective, mass, float(sums["wrong"][0])
        state.gradient, state.curvature = sums["gradient"] / mass, sums["curvature"] / mass
        direction, decrement = quadratic_step(problem, state.theta, state.gradient, state.curvature)
        state.direction, state.rate = direction.reshape(tried.shape), 1.0
        state.trace, state.decrements = np.append(state.trace, objective), np.append(state.decrements, decrement)
        return state

    def done(self, state: DescentState) -> bool:
        """Return whether no step gains more than the tolerance, classes are separated, or all iterations are used."""
        return state.step >= self.iterations or self._has_converged(state) or self._is_separated(state)

    def _is_separated(self, state: DescentState) -> bool:
        """Return whether classes are separated without error: Newton steps then gain 1/e of the previous one, without end.

        Slow steps alone prove nothing.  Coefficients that put every row on the side of its class do: the loss of multiples tends to 0.
        """
        problem, last = self.problem, state.decrements[-TORN - 1 :]
        if problem.l1 or problem.l2 or problem.family.name not in ("bernoulli", "softmax") or len(last) <= TORN:
            return False
        if state.wrong:
            return False
        # Beyond all margins the loss is about e^{−t} in the size t of the margins: slope −e^{−t}, curvature e^{−t}, so a step adds 1 to
        # t and the decrement ½ e^{−t} falls to 1/e of itself.  Near a minimum it would fall quadratically.
        ratios = last[1:] / np.maximum(last[:-1], 1e-300)
        return bool(((ratios > LINEAR[0]) & (ratios < LINEAR[1])).all())

    def _has_converged(self, state: DescentState) -> bool:
        small = len(state.decrements) > 0 and state.decrements[-1] <= self.tolerance * max(1.0, abs(state.objective))
        return bool(small) or 0 < state.rate < SHORTEST

    def memory(self) -> int:
        """Return the bytes of the curvature matrices in the tree and in use."""
        return 8 * self.start.size**2 * (20 + self.source.count.bit_length())

    def result(self, state: DescentState) -> RegressionFit:
        """Return the coefficients, with flags for convergence and separation."""
        separated = self._is_separated(state)
        return RegressionFit(
            state.theta,
            state.curvature * state.mass,
            state.trace,
            state.mass,
            self._has_converged(state) and not separated,
            separated,
        )


def quadratic_step(problem: RegressionProblem, theta: Array, gradient: Array, curve: Array) -> tuple[Array, float]:
    """Return the minimum d (q,) of the model at θ, and the predicted decrease of f."""
    penalised, beta = problem.penalty_mask, theta.ravel()
    whole = curve + np.diag(problem.l2 * penalised)
    slope = gradient + problem.l2 * penalised * beta
    if problem.l1 == 0:
        # The model g'd + ½ d'Hd has its minimum at −H⁻¹g, with value −½ g'H⁻¹g = ½ g'd.  θ + d is eq. 5.14 of Makin: weighted least
        # squares of the working response η + (y − μ)/V.
        d = -solve_symmetric(whole, slope)
        return d, float(-slope @ d) / 2
    d = lasso_step(whole, slope, beta, problem.l1 * penalised)
    change = problem.l1 * float((penalised * (np.abs(beta + d) - np.abs(beta))).sum())
    return d, float(-(slope @ d + 0.5 * d @ whole @ d + change))


def solve_symmetric(matrix: Array, vector: Array) -> Array:
    """Return matrix⁻¹ vector of a symmetric matrix, scaled to a unit diagonal; the shortest solution for redundant columns."""
    scale = _diagonal_scale(matrix)
    # S M S with S = diag(M)^−½ has a unit diagonal, so units of the columns do not affect singularity.
    factor, failed = dpotrf(scale[:, None] * matrix * scale, lower=1)
    if not failed and np.diag(factor).min() > PIVOT:
        return np.asarray(scale * dpotrs(factor, scale * vector, lower=1)[0])
    scale, values, vectors = _scaled_spectrum(matrix)
    keep = values > ALIASED * values[-1]
    found: Array = scale * (vectors[:, keep] @ ((vectors[:, keep].T @ (scale * vector)) / values[keep]))
    return found


def symmetric_inverse(matrix: Array) -> Array:
    """Return the inverse of a symmetric matrix, scaled and with redundant columns handled as in `solve_symmetric`."""
    scale, values, vectors = _scaled_spectrum(matrix)
    keep = values > ALIASED * values[-1]
    found: Array = scale[:, None] * ((vectors[:, keep] / values[keep]) @ vectors[:, keep].T) * scale
    return found


def _diagonal_scale(matrix: Array) -> Array:
    diagonal = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    found: Array = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
    return found


def _scaled_spectrum(matrix: Array) -> tuple[Array, Array, Array]:
    scale = _diagonal_scale(matrix)
    values, vectors = np.linalg.eigh(scale[:, None] * matrix * scale)
    return scale, values, vectors


def find_redundant_columns(gram: Array) -> tuple[int, Array]:
    """Return the number of columns beyond a largest linearly independent set, and which columns (p,) are combinations of others.

    These are the columns in the null space of Z'WZ (p, p), scaled, and those that are 0.
    """
    used = np.diag(gram) > 0
    found = ~used
    if not used.any():
        return len(gram), found
    inner = gram if used.all() else gram[np.ix_(used, used)]
    scale = _diagonal_scale(inner)
    factor, failed = dpotrf(scale[:, None] * inner * scale, lower=1)
    if not failed and np.diag(factor).min() > PIVOT:
        return int(np.count_nonzero(found)), found
    _, values, vectors = _scaled_spectrum(inner)
    null = values <= ALIASED * values[-1]
    redundant = int(np.count_nonzero(found)) + int(np.count_nonzero(null))
    found[used] = (np.abs(vectors[:, null]) > 1e-6).any(axis=1)
    return redundant, found


def lasso_step(curve: Array, slope: Array, beta: Array, l1: Array) -> Array:
    """Return the minimum over d (q,) of slope'd + ½ d'Hd + Σ l1 |β + d|.

    In u = β + d it minimises ½ u'Hu − b'u + Σ l1 |u|, b = Hβ − slope.  Sweeps over single coordinates find the nonzero ones, linear
    equations the minimum over those with their signs.
    """
    free = np.diag(curve) > 0
    b, u = curve @ beta - slope, beta.copy()
    for _ in range(SWEEPS):
        moved = _coordinate_sweep(curve, b, u, l1, np.flatnonzero(free))
        for _ in range(ROUNDS):
            if not _nonzero_newton_step(curve, b, u, l1, free):
                break
        if moved <= 1e-14 or _is_minimum(curve, b, u, l1, free):
            break
    return u - beta


def _coordinate_sweep(curve: Array, b: Array, u: Array, l1: Array, order: Array) -> float:
    """Minimise over each coordinate in turn, in place: u_j = S(b_j − Σ_{i≠j} H_ji u_i, l1_j) / H_jj; return the largest H_jj move².

    S(a, λ) = sign(a) max(|a| − λ, 0): in u_j alone the function is ½ H_jj u² − a u + l1 |u|, with minimum where H_jj u − a + l1 sign u
    = 0, or at 0 where |a| ≤ l1.
    """
    product, largest = curve @ u, 0.0
    for j in order:
        own = curve[j, j]
        a = own * u[j] + b[j] - product[j]
        move = np.sign(a) * max(abs(a) - l1[j], 0.0) / own - u[j]
        if move:
            u[j] += move
            product += move * curve[:, j]
            largest = max(largest, own * move * move)
    return float(largest)


def _nonzero_newton_step(curve: Array, b: Array, u: Array, l1: Array, free: Array) -> bool:
    """Move u, in place, to the minimum over its nonzero coordinates; return whether signs would change, so that it must be repeated.

    Coordinates that would change sign become 0 if that lowers the function; otherwise all move as far as the first of them allows.
    """
    chosen = np.flatnonzero(free & ((u != 0) | (l1 == 0)))
    if not len(chosen):
        return False
    here, H, push = u[chosen], curve[np.ix_(chosen, chosen)], (b - l1 * np.sign(u))[chosen]
    # With signs s the function is ½ u'Hu − (b − l1 s)'u, with minimum at u + H⁻¹(b − l1 s − Hu).  Where H is singular the rest is 0 too,
    # so adding a little of its diagonal changes nothing.
    factor, failed = dpotrf(H + np.diag(DAMPING * np.diag(H)), lower=1)
    if failed:
        return False
    target = here + np.asarray(dpotrs(factor, push - H @ here, lower=1)[0])
    turned = (l1[chosen] > 0) & (target * here < 0)
    if not turned.any():
        u[chosen] = target
        return False
    cut = np.where(turned, 0.0, target)
    if cut @ (0.5 * (H @ cut) - push) > here @ (0.5 * (H @ here) - push):
        reach = np.where(turned, here / np.where(turned, here - target, 1.0), 1.0)
        cut = here + reach.min() * (target - here)
        cut[np.argmin(reach)] = 0.0
    u[chosen] = cut
    return True


def _is_minimum(curve: Array, b: Array, u: Array, l1: Array, free: Array) -> bool:
    """Return whether b − Hu = l1 sign u where u is not 0, and |b − Hu| ≤ l1 elsewhere, up to rounding."""
    rest = (b - curve @ u)[free]
    wrong = np.where(u[free] != 0, np.abs(rest - l1[free] * np.sign(u[free])), np.maximum(np.abs(rest) - l1[free], 0.0))
    return bool(wrong.max(initial=0.0) <= 1e-12 * (np.abs(b).max() + l1.max()))


def final_fit_sums(
    problem: RegressionProblem, theta: Array, map: Map = map, *, scored: bool = True, with_gram: bool = True
) -> dict[str, Any]:
    """Return sums at θ over rows of positive weight: rows, mass, deviance, Pearson's χ² in units of the dispersion.

    If `with_gram`, also Σ w z z'.  If `scored`, also Σ s s' of the scores s_n = w_n slope_n ⊗ z_n; under frequency weights a row counts as
    w_n equal rows.
    """
    family = problem.family

    def statistics(block: RowBlock) -> Sums:
        Z, y, offset, weight = problem.split_block(block)
        eta = Z @ theta.T + offset[:, None]
        _, slope, curve = family.loss_and_derivatives(eta, y)
        factor = np.sqrt(weight) if problem.weights == "frequency" else weight
        scores = ((slope * factor[:, None])[:, :, None] * Z[:, None, :]).reshape(len(y), -1) if scored else np.zeros((len(y), 0))
        # (y − μ)²/V(μ): in η the slope is (μ − y) dμ/dη / V, the curvature (dμ/dη)²/V.
        pearson = slope[:, 0] ** 2 / np.maximum(curve[:, 0], 1e-300) if slope.shape[1] == 1 else np.zeros(len(y))
        return {
            "figures": np.array([np.count_nonzero(weight), weight.sum(), weight @ family.deviance(eta, y), weight @ pearson]),
            "scores": scores.T @ scores,
            "gram": weighted_gram(Z, weight) if with_gram else np.zeros((0, 0)),
        }

    sums = sum_statistics(regression_blocks(problem.rows), statistics, map)
    rows, mass, deviance, pearson = sums["figures"].tolist()
    return {"rows": int(rows), "mass": mass, "deviance": deviance, "pearson": pearson, "scores": sums["scores"], "gram": sums["gram"]}


def total_log_likelihood(problem: RegressionProblem, theta: Array, dispersion: float, map: Map = map) -> float:
    """Return the log-likelihood of all rows in nats, with weights as in `herdcli.regression.weight_meaning`."""

    def statistics(block: RowBlock) -> Sums:
        Z, y, offset, weight = problem.split_block(block)
        there = weight > 0
        eta = (Z @ theta.T + offset[:, None])[there]
        return {
            "sum": weight_meaning.row_log_likelihoods(problem.family, problem.weights, eta, y[there], weight[there], dispersion).sum(
                keepdims=True
            )
        }

    return float(sum_statistics(regression_blocks(problem.rows), statistics, map)["sum"][0])
