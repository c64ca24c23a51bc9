"""Multinomial logistic regression for few features: damped Newton, with the penalty chosen by cross-validation.

    minimise  −Σ_n log p(y_n | x_n) + ½ λ ‖W‖²,   p(y = k | x) ∝ exp(w_k·x + a_k),   intercepts a not penalised.

The C logits matter only up to a common shift, so the search runs in an orthonormal basis of the C − 1
contrasts: the minimiser is the same and the Hessian regular.
Source: Böhning (1992) for the bound on the Hessian that damps it, after Levenberg (1944).
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import BadUsage
from herdcli.numerics import exact_arithmetic, symmetric_matrices
from herdcli.rbm.learning.folds import assign_stratified_folds
from herdcli.records import dataclass
from herdcli.schema import Array

FOLDS = 5
GRID = np.array(  # penalties tried by cross-validation, strongest first; literal numbers, since powers differ between processors
    [
        *(1000.0, 316.2277660168379, 100.0, 31.622776601683793, 10.0, 3.1622776601683795, 1.0),
        *(0.31622776601683794, 0.1, 0.03162277660168379, 0.01, 0.0031622776601683794, 0.001),
    ]
)
ITERATIONS = 200
LEAST_SHARE = 1e-10  # share of the bound on the Hessian that is always added: saturated rows make the Hessian singular
TOLERANCE = 1e-12  # nats per row: the search ends if a further step could gain less
SEPARATED = 1e-4  # mean loss at which a separable unpenalised fit ends, since it has no minimum
NEWTON_SIZE = 1200  # largest number of parameters for which the Hessian is formed


@dataclass(frozen=True)
class LogisticFit:
    """A fitted regression: W (C, d), intercept (C,), both summing to zero over classes."""

    W: Array
    intercept: Array
    penalty: float
    loss: float  # −Σ log p(y|x), nats, without the penalty
    converged: bool
    separable: bool  # unpenalised, and every row is classified correctly: no finite minimum, stopped at a mean loss below 1e-4

    def logits(self, X: Array) -> Array:
        """Return the logits (n, C) for rows X (n, d)."""
        result: Array = exact_arithmetic.matrix_product(X, self.W.T) + self.intercept
        return result

    def probabilities(self, X: Array) -> Array:
        """Return p(y | x) (n, C) for rows X (n, d)."""
        result: Array = exact_arithmetic.exp(_log_probabilities(self.logits(X)))
        return result

    def log_loss(self, X: Array, y: Array) -> float:
        """Return −Σ log p(y|x) over the rows, in nats."""
        return float(-_log_probabilities(self.logits(X))[np.arange(len(y)), y].sum())


@dataclass(frozen=True)
class _Objective:
    """The penalised loss in contrast coordinates U (C−1, d+1); the last column has the intercepts."""

    X: Array  # (n, d+1), a column of ones last
    y: Array
    basis: Array  # (C, C−1), orthonormal columns that sum to zero
    penalty: float

    def loss(self, U: Array) -> tuple[float, Array]:
        """Return (−Σ log p, log-probabilities (n, C))."""
        log_p = _log_probabilities(exact_arithmetic.matrix_product(self.X, (exact_arithmetic.matrix_product(self.basis, U)).T))
        return float(-log_p[np.arange(len(self.y)), self.y].sum()), log_p

    def penalised_loss(self, loss: float, U: Array) -> float:
        return loss + 0.5 * self.penalty * float(np.square(U[:, :-1]).sum())

    def gradient(self, U: Array, p: Array) -> Array:
        residual = p.copy()
        residual[np.arange(len(self.y)), self.y] -= 1.0
        # ∂/∂(logits) of −log p_y is p − 1[y]; logits = B U x with B'B = I, so that U has B'(p − 1[y]) x'.
        result = exact_arithmetic.matrix_product((exact_arithmetic.matrix_product(residual, self.basis)).T, self.X)
        result[:, :-1] += self.penalty * U[:, :-1]
        return result

    def hessian(self, p: Array) -> Array:
        """Return the Hessian ((C−1)(d+1), same): Σ_n [B'(diag p_n − p_n p_n')B] ⊗ x_n x_n' + λ on the weights."""
        rows, width = self.X.shape
        contrasts = self.basis.shape[1]
        projected = exact_arithmetic.matrix_product(p, self.basis)
        spread = _curvature_blocks(p, self.basis) - projected[:, :, None] * projected[:, None, :]
        result = np.zeros((contrasts * contrasts, width * width))
        size = max(1, (1 << 20) // (width * width))
        for start in range(0, rows, size):
            part = self.X[start : start + size]
            outer = (part[:, :, None] * part[:, None, :]).reshape(len(part), -1)
            result += exact_arithmetic.matrix_product(spread[start : start + size].reshape(len(part), -1).T, outer)
        matrix: Array = result.reshape(contrasts, contrasts, width, width).transpose(0, 2, 1, 3).reshape(contrasts * width, -1)
        weights = np.tile(np.arange(width) < width - 1, contrasts)
        matrix[weights, weights] += self.penalty
        return matrix


def _log_probabilities(logits: Array) -> Array:
    shifted = logits - logits.max(axis=1, keepdims=True)
    result: Array = shifted - exact_arithmetic.log(exact_arithmetic.exp(shifted).sum(axis=1, keepdims=True))
    return result


def _curvature_blocks(p: Array, basis: Array) -> Array:
    """Return (n, C−1, C−1) B' diag(p_n) B for p (n, C)."""
    if not exact_arithmetic.is_exact():
        return np.asarray(np.einsum("nk,ki,kj->nij", p, basis, basis, optimize=True))
    pairs = (basis[:, :, None] * basis[:, None, :]).reshape(len(basis), -1)
    return exact_arithmetic.matrix_product(p, pairs).reshape(len(p), basis.shape[1], -1)


def _helmert_contrasts(classes: int) -> Array:
    """Return (C, C−1) orthonormal Helmert contrasts."""
    basis = np.zeros((classes, classes - 1))
    for k in range(1, classes):
        basis[:k, k - 1] = 1.0
        basis[k, k - 1] = -float(k)
        basis[:, k - 1] /= np.sqrt(k * (k + 1.0))
    return basis


def fit_logistic(X: Array, y: Array, classes: int, penalty: float = 0.0, *, start: LogisticFit | None = None) -> LogisticFit:
    """Return the minimiser for rows X (n, d) and labels y (n,) in 0…classes−1.

    start  an initial fit, which saves iterations along a path of penalties.  The loss never rises
    from step to step.  Separable rows without penalty have no minimum: the fit ends when every row
    is classified correctly and the mean loss is below 1e-4, and sets `separable`.
    """
    if classes < 2 or penalty < 0.0 or not len(X):
        raise ValueError("logistic regression needs rows, two classes and a penalty of at least 0")
    basis = _helmert_contrasts(classes)
    objective = _Objective(np.column_stack([X, np.ones(len(X))]).astype(np.float64), np.asarray(y), basis, float(penalty))
    U = np.zeros((classes - 1, X.shape[1] + 1))
    if start is not None:
        U = exact_arithmetic.matrix_product(basis.T, np.column_stack([start.W, start.intercept]))
    U, converged, separable = _minimise_by_newton(objective, U) if U.size <= NEWTON_SIZE else _minimise_by_quasi_newton(objective, U)
    parameters = exact_arithmetic.matrix_product(basis, U)
    return LogisticFit(parameters[:, :-1], parameters[:, -1], float(penalty), objective.loss(U)[0], converged, separable)


def _minimise_by_newton(objective: _Objective, U: Array) -> tuple[Array, bool, bool]:
    """Minimise by Newton steps; a step that lowers the loss too little is repeated with a larger share of the bound added to the Hessian.

    The bound ½ I ⊗ X'X is at least as large as every Hessian of the unpenalised loss, so with all of it added a step cannot overshoot.
    """
    rows = len(objective.y)
    # diag p − pp' ≤ ½ (I − 11'/C) for every p (Böhning 1992), and B'(I − 11'/C)B = I.
    bound = np.kron(np.eye(len(U)) / 2, exact_arithmetic.matrix_product(objective.X.T, objective.X))
    bound.flat[:: len(bound) + 1] += 1e-3 * bound.trace() / len(bound)  # repeated features make the bound singular
    share = LEAST_SHARE
    loss, log_p = objective.loss(U)
    value = objective.penalised_loss(loss, U)
    for _ in range(ITERATIONS):
        if _is_separated(objective, loss, log_p):
            return U, True, True
        p = exact_arithmetic.exp(log_p)
        gradient, hessian = objective.gradient(U, p), objective.hessian(p)
        while True:
            direction = -symmetric_matrices.solve_positive_definite(hessian + share * bound, gradient.ravel()).reshape(U.shape)
            slope = float((gradient * direction).sum())
            if share == LEAST_SHARE and -slope / 2 <= TOLERANCE * rows:
                return U, True, False
            trial = U + direction
            loss, log_p = objective.loss(trial)
            trial_value = objective.penalised_loss(loss, trial)
            if trial_value <= value + 1e-4 * slope:
                break
            if share > 1.0:  # only rounding errors are left
                return U, False, False
            share = max(share * 10.0, 1e-3)
        U, value = trial, trial_value
        share = max(share / 100.0, LEAST_SHARE)
    return U, False, False


def _minimise_by_quasi_newton(objective: _Objective, U: Array) -> tuple[Array, bool, bool]:
    from scipy.optimize import minimize

    if exact_arithmetic.is_exact():
        what = f"the regression on {U.shape[1] - 1} energies of {U.shape[0] + 1} classes has {U.size} coefficients"
        raise BadUsage(f"{what}, but --exact allows at most {NEWTON_SIZE}", hint="leave out --exact")

    rows = len(objective.y)

    def value(flat: Array) -> tuple[float, Array]:
        point = flat.reshape(U.shape)
        loss, log_p = objective.loss(point)
        if _is_separated(objective, loss, log_p):
            return loss / rows, np.zeros(U.size)  # there is no minimum: a zero gradient ends the search
        return objective.penalised_loss(loss, point) / rows, objective.gradient(point, exact_arithmetic.exp(log_p)).ravel() / rows

    found = minimize(value, U.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 5000, "maxfun": 10000, "ftol": 1e-13, "gtol": 1e-6})
    result: Array = found.x.reshape(U.shape)
    separable = _is_separated(objective, *objective.loss(result))
    return result, bool(found.success), separable


def _is_separated(objective: _Objective, loss: float, log_p: Array) -> bool:
    right = log_p.argmax(axis=1) == objective.y
    return objective.penalty == 0.0 and loss < SEPARATED * len(right) and bool(right.all())


def choose_penalty(X: Array, y: Array, classes: int, seed: int) -> float:
    """Return the penalty of `GRID` with the least log-loss in 5-fold cross-validation; the stronger one on ties."""
    assigned = assign_stratified_folds(y, FOLDS, seed)
    loss = np.zeros(len(GRID))
    for fold in range(FOLDS):
        inside = assigned != fold
        if inside.all() or not inside.any():
            continue
        found: LogisticFit | None = None
        for g, penalty in enumerate(GRID):
            found = fit_logistic(X[inside], y[inside], classes, float(penalty), start=found)
            loss[g] += found.log_loss(X[~inside], y[~inside])
    return float(GRID[loss.argmin()])


def fit_penalised_logistic(X: Array, y: Array, classes: int, *, penalty: float | None, seed: int) -> LogisticFit:
    """Return `fit_logistic` with the given penalty, or with the one that cross-validation chooses if it is None."""
    return fit_logistic(X, y, classes, choose_penalty(X, y, classes, seed) if penalty is None else penalty)
