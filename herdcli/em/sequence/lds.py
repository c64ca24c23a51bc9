"""Linear dynamical systems by EM: all of A, B, a, Q, C, c, R and the first state, from sequences with missing values.

    x_1 ~ N(μ, P),   x_{t+1} = A x_t + B u_t + a + N(0, Q),   y_t = C x_t + c + N(0, R)

    E   the smoother's means, covariances P_t and Cov(x_{t+1}, x_t); missing values are latent, like the states
    M   [A B a] = ⟨x_{t+1} z_t'⟩ ⟨z_t z_t'⟩⁻¹ with z = (x, u, 1) and Q = ⟨(x_{t+1} − [A B a] z_t)(…)'⟩, both over T − 1 steps a sequence;
        [C c] and R in the same way over all T rows; μ and P over first rows

The normaliser of Q is T − 1, the number of steps of a sequence: with T the likelihood falls, by 0.2 nats on sequences of length 4.
A single sequence has one first state and so no information about the variance of first states: its P shrinks towards the floor.
Source: Shumway & Stoffer (1982); Ghahramani & Hinton (1996); Makin, sec. 6.4.4.  Controls in the M step: ADDED.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace

import numpy as np

from herdcli.em.driver import Parameters
from herdcli.em.mixture.gaussian_densities import LOG_TAU
from herdcli.em.quasi_newton import HasCoordinates
from herdcli.em.sequence import lds_initialization
from herdcli.em.sequence.kalman import (
    MissingPatterns,
    SmoothedStates,
    filter_sequences,
    find_missing_patterns,
    masked_noise_cholesky,
    smooth_sequences,
)
from herdcli.em.sequence.lds_coordinates import LDSCoordinates, lds_coordinates
from herdcli.em.sequence.lds_initialization import WindowMoments
from herdcli.em.sequence.sequences import SequenceBlock
from herdcli.em.variance_floors import FLOOR, apply_variance_floor
from herdcli.errors import Diverged
from herdcli.numerics.block_statistics import BlockStatistics, Sums
from herdcli.records import dataclass
from herdcli.schema import Array

STATE_FLOOR = 1e-6  # least variance of a state's noise; states start with variance 1
SINGULAR = 1e-13  # a direction counts as absent if its eigenvalue is at most this share of the largest one


@dataclass(frozen=True)
class LDSEStep(BlockStatistics):
    """The E step of a block of sequences; controls of the rows come with the block.  centre  (D,) subtracted from the rows."""

    parameters: Parameters
    centre: Array

    def __call__(self, block: SequenceBlock) -> Sums:
        """Return the sums of a block."""
        p, U, missing = self.parameters, block.beside, find_missing_patterns(block.X)
        found = filter_sequences(p, block.X, block.offsets, U, missing)
        after = smooth_sequences(p, found, block.offsets)
        w = None if block.weight is None else np.repeat(block.weight, block.lengths)
        sums = sum_state_statistics(block, after, U, w) | self._row_statistics(block, missing, after, w)
        total = found.log_likelihood.sum() if w is None else w @ found.log_likelihood
        return sums | {"mass": np.array([block.mass]), "log_likelihood": np.array([float(total)])}

    def _row_statistics(self, block: SequenceBlock, missing: MissingPatterns, smoothed: SmoothedStates, w: Array | None) -> Sums:
        """Return Σ E[x̃x̃'], Σ E[y x̃'] and Σ E[yy'] of x̃ = (x, 1) and y less its centre."""
        m, centre = smoothed.mean, self.centre
        K = m.shape[1]
        one = np.ones((len(m), 1))
        X = np.concatenate([m, one], axis=1)
        weighted = X if w is None else X * w[:, None]
        xx = weighted.T @ X
        xx[:K, :K] += _sum_covariances(smoothed.covariances, smoothed.which, w)
        Y = block.X - centre
        if missing.is_complete:
            yy = (Y if w is None else Y * w[:, None]).T @ Y
            return {"xx": xx, "yx": Y.T @ weighted, "yy": yy}
        Y, gain, spread = impute_rows(self.parameters, Y + centre, missing, smoothed, w)
        Y -= centre
        yx = Y.T @ weighted
        yx[:, :K] += gain
        return {"xx": xx, "yx": yx, "yy": (Y if w is None else Y * w[:, None]).T @ Y + spread}


@dataclass(frozen=True)
class LDS(HasCoordinates):
    """The linear dynamical system for `driver.EM`.

    Parameters: transition, control, drift, process, loading, mean, noise, start_mean, start_covariance.
    controls  (n, m) of the table that the sequences index, or None.   scale  (D,) the unit of `floor` for each column.
    sent      whether blocks carry their controls.
    """

    states: int
    diagonal: bool
    floor: float
    scale: Array
    opening: WindowMoments
    controls: Array | None
    seed: int
    several: bool  # whether there are several sequences; for a single one a floored P is expected
    given: Parameters | None = None
    random: bool = False  # whether the first restart is random too
    sent: bool = False
    charts: list[tuple[Parameters, Sums, LDSCoordinates]] = field(default_factory=list, repr=False, compare=False)  # the last one

    def start(self, restart: int) -> Parameters:
        """Return parameters from principal axes of short windows and regressions on them; later restarts use random directions."""
        if self.given is not None:
            return {name: item.copy() for name, item in self.given.items()}
        found = lds_initialization.initial_parameters(self.opening, self.states, self.seed, restart + self.random, diagonal=self.diagonal)
        return found | {"noise": apply_variance_floor(found["noise"], self.floor, self.scale, self.diagonal)[0]}

    def expect(self, parameters: Parameters) -> Callable[[SequenceBlock], Sums]:
        """Return the E step, which computes the statistics of a block of sequences with the smoother."""
        step, controls = LDSEStep(parameters, self.opening.centre), self.controls
        if controls is None or self.sent:
            return step
        return lambda block: step(replace(block, beside=controls[block.chosen]))

    def complete_statistics(self, parameters: Parameters, sums: Sums) -> Sums:
        """Return the statistics unchanged."""
        return sums

    def regression_coefficients(self, p: Parameters) -> tuple[Array, Array]:
        """Return the coefficients [A B a], and [C c] for rows less their centre."""
        F = np.concatenate([p["transition"], p["control"], p["drift"][:, None]], axis=1)
        return F, np.concatenate([p["loading"], (p["mean"] - self.opening.centre)[:, None]], axis=1)

    def with_regression_coefficients(self, p: Parameters, F: Array, G: Array) -> Parameters:
        """Return the parameters with these regression coefficients."""
        K = self.states
        steps = {"transition": F[:, :K].copy(), "control": F[:, K:-1].copy(), "drift": F[:, -1].copy()}
        return p | steps | {"loading": G[:, :K].copy(), "mean": self.opening.centre + G[:, K]}

    def make_coordinates(self, parameters: Parameters, sums: Sums) -> LDSCoordinates:
        """Return coordinates for quasi-Newton steps, cached because the same ones are requested repeatedly."""
        for origin, basis, known in self.charts:
            if origin is parameters and basis is sums:
                return known
        found = lds_coordinates(self, parameters, sums, STATE_FLOOR)
        self.charts[:] = [(parameters, sums, found)]
        return found

    def residual_sums(self, p: Parameters, s: Sums) -> tuple[Array, Array, Array]:
        """Return Σ E[ee'] of first states, of steps and of rows."""
        F, G = self.regression_coefficients(p)
        one = p["start_mean"][:, None]
        first = residual_sums(s["firsts"], s["first"][:, None], s["counts"][:1][:, None], one)
        return first, residual_sums(s["nn"], s["nz"], s["zz"], F), residual_sums(s["yy"], s["yx"], s["xx"], G)

    def expected_log_likelihood(self, parameters: Parameters, sums: Sums) -> float:
        """Return Σ E log p(x, y), including missing values."""
        first, steps, rows = self.residual_sums(parameters, sums)
        sequences, transitions = sums["counts"]
        return (
            _gaussian_log_likelihood(sequences, parameters["start_covariance"], first)
            + _gaussian_log_likelihood(transitions, parameters["process"], steps)
            + _gaussian_log_likelihood(float(sums["xx"][-1, -1]), parameters["noise"], rows)
        )

    def maximise(self, parameters: Parameters, sums: Sums) -> tuple[Parameters, int]:
        """Return regressions on the states and noise from the residuals, with no variance below its floor."""
        K, (sequences, transitions) = self.states, sums["counts"]
        F = regression_coefficients(sums["zz"], sums["nz"]) if transitions else self.regression_coefficients(parameters)[0]
        after = self.with_regression_coefficients(parameters, F, regression_coefficients(sums["xx"], sums["yx"]))
        after["start_mean"] = sums["first"] / sequences
        first, steps, rows = self.residual_sums(after, sums)
        after["noise"], low = apply_variance_floor(rows / sums["xx"][-1, -1], self.floor, self.scale, self.diagonal)
        unit = np.ones(K)
        if transitions:
            after["process"], more = apply_variance_floor(steps / transitions, STATE_FLOOR, unit, diagonal=False)
            low += more
        after["start_covariance"], more = apply_variance_floor(first / sequences, STATE_FLOOR, unit, diagonal=False)
        low += more * self.several
        return after, low

    def penalty(self, parameters: Parameters) -> float:
        """Return 0: this is maximum likelihood."""
        return 0.0

    def memory(self) -> int:
        """Return the bytes that the moments of one block need in the worst case, when no two rows share a covariance."""
        return 8 * self.opening.longest * (6 * self.states**2 + 2 * len(self.scale))


def sum_state_statistics(block: SequenceBlock, smoothed: SmoothedStates, U: Array | None, w: Array | None) -> Sums:
    """Return sums over steps of z = (x, u, 1) and the next state, and sums over first states.

    E[x_t x_t'] = P_t + m m' and E[x_{t+1} x_t'] = Cov(x_{t+1}, x_t) + m_{t+1} m_t'.  Three different sums of ⟨xx'⟩ are needed: over rows
    with a next row, over rows with a previous row, and over all rows.  Source: Makin, sec. 6.4.4.
    """
    m, K, n = smoothed.mean, smoothed.mean.shape[1], len(smoothed.mean)
    has_next = np.ones(n, dtype=bool)
    has_next[block.offsets[1:] - 1] = False
    now = np.flatnonzero(has_next)
    controls = np.zeros((n, 0)) if U is None else U
    z = np.concatenate([m[now], controls[now], np.ones((len(now), 1))], axis=1)
    share = None if w is None else w[now]
    weighted = z if share is None else z * share[:, None]
    zz, nz = weighted.T @ z, m[now + 1].T @ weighted
    zz[:K, :K] += _sum_covariances(smoothed.covariances, smoothed.which[now], share)
    nz[:, :K] += _sum_covariances(smoothed.lags, smoothed.pair[now], share)
    x = m[now + 1]
    nn = (x if share is None else x * share[:, None]).T @ x + _sum_covariances(smoothed.covariances, smoothed.which[now + 1], share)
    start = block.offsets[:-1]
    each = block.weights
    firsts = (m[start] * each[:, None]).T @ m[start] + _sum_covariances(smoothed.covariances, smoothed.which[start], each)
    steps = float(len(now)) if share is None else float(share.sum())
    counts = np.array([each.sum(), steps])
    return {"zz": zz, "nz": nz, "nn": nn, "first": each @ m[start], "firsts": firsts, "counts": counts}


def _sum_covariances(table: Array, which: Array, w: Array | None) -> Array:
    """Return the sum of the matrices of a table (f, K, K) that the rows refer to."""
    counts = np.bincount(which, w, minlength=len(table)).astype(np.float64)
    return np.asarray(np.tensordot(counts, table, axes=1))


def impute_rows(p: Parameters, Y: Array, missing: MissingPatterns, smoothed: SmoothedStates, w: Array | None) -> tuple[Array, Array, Array]:
    """Return rows with missing values replaced by E[y | observed], Σ Cov(y, x) (D, K), and Σ Cov(y, y) (D, D).

    For a missing part u and an observed part o,  y_u = C_u x + c_u + S (y_o − C_o x − c_o) + N(0, R_uu − S R_ou)  with  S = R_uo R_oo⁻¹,
    so that y = G x + h with G_u = C_u − S C_o and G_o = 0.
    """
    C, c, R = p["loading"], p["mean"], p["noise"]
    (D, K), found = C.shape, Y.copy()
    cross, spread = np.zeros((D, K)), np.zeros((D, D))
    order = np.argsort(missing.which, kind="stable")
    bounds = np.searchsorted(missing.which[order], np.arange(len(missing.masks) + 1))
    for number, mask in enumerate(missing.masks):
        if mask.all():
            continue
        rows = order[bounds[number] : bounds[number + 1]]
        S, u = regress_missing_on_observed(R, mask), ~mask
        # Cov(y_u, x) = G P and Cov(y_u) = G P G' + R_uu − S R_ou: uncertainty of x plus noise given the observed part.
        G = np.where(u[:, None], C - S @ C, 0.0)
        e = np.where(mask, Y[rows] - c, 0.0)
        found[rows] = np.where(u, smoothed.mean[rows] @ G.T + (c + e @ S.T), Y[rows])
        share = None if w is None else w[rows]
        P = _sum_few_covariances(smoothed, rows, share)
        cross += G @ P
        count = float(len(rows)) if share is None else float(share.sum())
        spread += G @ P @ G.T + count * np.where(u[:, None] & u, R - S @ R, 0.0)
    return found, cross, spread


def _sum_few_covariances(smoothed: SmoothedStates, rows: Array, w: Array | None) -> Array:
    """Return the sum of the covariances of some rows."""
    if len(rows) > len(smoothed.covariances):
        return _sum_covariances(smoothed.covariances, smoothed.which[rows], w)
    P = smoothed.covariances[smoothed.which[rows]]
    return np.asarray(P.sum(axis=0) if w is None else np.tensordot(w, P, axes=1))


def regress_missing_on_observed(R: Array, mask: Array) -> Array:
    """Return S (D, D): R_uo R_oo⁻¹ in the rows of missing values and the columns of observed ones, 0 elsewhere."""
    L = masked_noise_cholesky(R, mask)
    cross = np.where(~mask[:, None] & mask, R, 0.0)
    if not cross.any():
        return cross
    return np.where(~mask[:, None] & mask, np.linalg.solve(L.T, np.linalg.solve(L, cross.T)).T, 0.0)


def residual_sums(yy: Array, yx: Array, xx: Array, F: Array) -> Array:
    """Return Σ E(y − F x)(y − F x)' from sums."""
    # yy' − F xy' − yx'F' + F xx'F' holds for any F.  The shorter yy' − F xy' holds only for F = yx'(xx')⁻¹, which does not apply
    # with a floor, a pseudo-inverse or the last parameters (`expected_log_likelihood`).
    cross = F @ yx.T
    found: Array = yy - cross - cross.T + F @ xx @ F.T
    return 0.5 * (found + found.T)


def regression_coefficients(xx: Array, yx: Array) -> Array:
    """Return F = ⟨yx'⟩⟨xx'⟩⁻¹; for linearly dependent regressors, the smallest such F in their own scales."""
    scale = np.sqrt(np.diag(xx))
    scale[scale == 0] = 1.0
    values, vectors = np.linalg.eigh(xx / np.outer(scale, scale))
    inverse = np.where(values > SINGULAR * values[-1], 1.0 / np.where(values > 0, values, 1.0), 0.0)
    return np.asarray(((yx / scale) @ vectors * inverse) @ vectors.T / scale)


def _gaussian_log_likelihood(count: float, covariance: Array, residual: Array) -> float:
    """Return Σ log N(e; 0, S) of `count` vectors with Σ ee' = residual."""
    if not count:
        return 0.0
    try:
        L = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        raise Diverged("a covariance of the noise is singular", hint="a --floor above 0") from None
    white = np.linalg.solve(L, np.linalg.solve(L, residual).T)
    return -0.5 * float(count * (len(L) * LOG_TAU + 2.0 * np.log(np.diag(L)).sum()) + np.trace(white))


def parameter_count(states: int, columns: int, controls: int, *, diagonal: bool, several: bool) -> int:
    """Return the number of free parameters: the entries of all matrices minus K² + K, since basis and origin of the states are free."""
    K, D = states, columns
    noise = D if diagonal else D * (D + 1) // 2
    dynamics = K * K + K * controls + K + K * (K + 1) // 2
    first = K + (K * (K + 1) // 2 if several else 0)
    return dynamics + D * K + D + noise + first - K * K - K


def variance_floor_and_scale(variance: Array, floor: float | None) -> tuple[float, Array]:
    """Return the floor and its unit for each column: a share of the column's variance, or a given floor in every direction."""
    if floor is not None:
        return floor, np.ones(len(variance))
    varies = variance > 0
    return FLOOR, np.sqrt(np.where(varies, variance, variance[varies].mean() if varies.any() else 1.0))
