"""Selection of pairs of binary variables, by ℓ1-penalised logistic regression of each variable on all others.

    min_w  (1/n) Σ_rows [log(1 + e^{η}) − x_i η] + λ Σ_j |w_j|,    η = w_0 + Σ_{j ≠ i} w_j x_j

All variables are fitted together, as the columns of one matrix, by accelerated proximal gradients that restart when the loss would
increase.  The path of λ begins at the smallest value without pairs and decreases.  A pair is joined if both regressions (`and`) contain
it.  The model is chosen by the extended BIC, or pairs by their frequency in random halves of the rows (stability selection).
Source: Ravikumar, Wainwright & Lafferty (2010); Foygel & Drton (2010), eq. 1.3; Meinshausen & Bühlmann (2010); Beck & Teboulle (2009).
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from herdcli.algorithm import FixedLengthAlgorithm, RunProgress, run_algorithm
from herdcli.markov.model.graphs.structure_selection import Pair
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

POINTS = 20  # number of penalties on the path
SHARE = 0.01  # the last penalty of the path, relative to the first and largest one
SWEEPS = 500
CLOSE = 1e-5  # a fit has converged if no weight changes by more than this
GAMMA = 0.5  # γ of the extended BIC
CHOSEN = 0.75  # a pair is stable if it is selected in at least this share of the halves


@dataclass(frozen=True)
class PenaltyPath:
    """The fits along a path of penalties.

    penalty  (K,) the penalties λ, the largest first.
    weight   (K, N, N) the weights; column i is the regression of variable i.
    score    (K,) the extended BIC; lower is better.
    """

    penalty: Array
    weight: Array
    score: Array

    @property
    def best_index(self) -> int:
        """The index of the lowest score."""
        return int(np.argmin(self.score))


def mutually_selected_pairs(weight: Array) -> list[Pair]:
    """Return the pairs i < j whose weights are both nonzero."""
    both = (weight != 0) & (weight.T != 0)
    return [(int(i), int(j)) for i, j in np.argwhere(np.triu(both, 1))]


def smallest_zeroing_penalty(x: Array, row_weights: Array) -> float:
    """Return the smallest λ at which no variable has a weight.

    It is the largest |slope| at w = 0 and fitted w_0, which is the largest covariance.
    """
    mean = row_weights @ x
    covariance = (x * row_weights[:, None]).T @ x - np.outer(mean, mean)
    np.fill_diagonal(covariance, 0.0)
    return float(np.abs(covariance).max())


@dataclass
class PenaltyPathState:
    """The last weights (N, N) and offsets (N,); weights (K, N, N) and scores (K,) of the finished penalties."""

    weight: Array
    offset: Array
    weights: Array
    score: Array
    step: int


class PenalisedRegressions(FixedLengthAlgorithm[PenaltyPathState]):
    """The fits along a path of penalties, the largest first, one per step.

    x      (n, N) of 0 and 1.
    share  (n,) weights that sum to one.
    """

    state = PenaltyPathState

    def __init__(self, x: Array, share: Array, penalties: Array | None = None) -> None:
        self.x, self.share = x.astype(np.float64), share
        if penalties is None:
            top = smallest_zeroing_penalty(self.x, share)
            penalties = top * (1 + 1e-9) * np.geomspace(1.0, SHARE, POINTS) if top > 0 else np.zeros(1)
        self.penalties = penalties

    @property
    def steps(self) -> int:
        """The number of penalties."""
        return len(self.penalties)

    def init(self) -> PenaltyPathState:
        """Return the state without weights."""
        nodes = self.x.shape[1]
        return PenaltyPathState(
            np.zeros((nodes, nodes)), _logit(self.share @ self.x), np.zeros((self.steps, nodes, nodes)), np.zeros(self.steps), 0
        )

    def step(self, state: PenaltyPathState) -> PenaltyPathState:
        """Fit the next penalty, starting from the previous fit."""
        penalty = float(self.penalties[state.step])
        state.weight, state.offset = fit_penalised_regressions(self.x, self.share, penalty, state.weight, state.offset)
        # The selected model is evaluated without the penalty, which shrinks the weights.
        free = fit_penalised_regressions(self.x, self.share, 0.0, state.weight, state.offset, state.weight != 0)
        state.weights[state.step], state.score[state.step] = state.weight, extended_bic(self.x, self.share, *free)
        state.step += 1
        return state

    def memory(self) -> int:
        """Return the bytes of the path together with those of one regression of all variables."""
        return int(8 * (self.steps * self.x.shape[1] ** 2 + 6 * self.x.size))

    def progress(self, state: PenaltyPathState) -> RunProgress:
        """The number of penalties that are finished, and the number of pairs of variables selected at the last of them."""
        return RunProgress(state.step, self.steps, f"{len(mutually_selected_pairs(state.weight))} pairs" if state.step else "")

    def result(self, state: PenaltyPathState) -> PenaltyPath:
        """Return the path."""
        return PenaltyPath(self.penalties, state.weights, state.score)


def fit_penalty_path(x: Array, row_weights: Array, penalties: Array | None = None) -> PenaltyPath:
    """Compute the path without progress display."""
    return run_algorithm(PenalisedRegressions(x, row_weights, penalties))


def _logit(p: Array) -> Array:
    kept = np.clip(p, 1e-6, 1 - 1e-6)
    result: Array = np.log(kept / (1 - kept))
    return result


def fit_penalised_regressions(
    x: Array, row_weights: Array, penalty: float, weight: Array, offset: Array, allowed: Array | None = None
) -> tuple[Array, Array]:
    """Fit all regressions at one penalty, from a start, with the allowed weights.  Columns are centred inside, which only changes w_0."""
    mean = row_weights @ x
    centred = x - mean
    # The curvature of the mean loss is X' diag(p(1 − p)/n) X, at most ¼ of the largest eigenvalue of X' diag(share) X, and ¼ in w_0.
    gram = (centred * row_weights[:, None]).T @ centred
    rate = 1.0 / (0.25 * max(1.0, float(np.linalg.eigvalsh(gram)[-1])) + 1e-12)
    base = offset + mean @ weight
    now, ahead, base_now, base_ahead, momentum = weight, weight, base, base, 1.0
    for _ in range(SWEEPS):
        slope = row_weights[:, None] * (expit(centred @ ahead + base_ahead) - x)
        moved = ahead - rate * (centred.T @ slope)
        new = np.sign(moved) * np.maximum(np.abs(moved) - rate * penalty, 0.0)
        np.fill_diagonal(new, 0.0)
        if allowed is not None:
            new *= allowed
        base_new = base_ahead - rate * slope.sum(axis=0)
        change = max(float(np.abs(new - now).max()), float(np.abs(base_new - base_now).max()))
        if float(((ahead - new) * (new - now)).sum() + ((base_ahead - base_new) * (base_new - base_now)).sum()) > 0:
            momentum = 1.0  # it would increase: restart the acceleration (O'Donoghue & Candès 2015, eq. 13)
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        ratio = (momentum - 1.0) / following
        ahead, base_ahead = new + ratio * (new - now), base_new + ratio * (base_new - base_now)
        now, base_now, momentum = new, base_new, following
        if change < CLOSE:
            break
    return now, base_now - mean @ now


def extended_bic(x: Array, row_weights: Array, weight: Array, offset: Array) -> float:
    """Compute −2 n Σ_i log-likelihood + (log n + 2γ log N) for each weight; the weights of a pair are in two regressions."""
    rows, nodes = x.shape
    eta = x @ weight + offset
    loss = float((row_weights @ (np.logaddexp(0.0, eta) - x * eta)).sum())
    chosen = int((weight != 0).sum())
    return float(2.0 * rows * loss + chosen * (np.log(rows) + 2.0 * GAMMA * np.log(max(2, nodes))))


@dataclass
class StabilityState:
    """The number of finished halves that join each pair (N, N)."""

    found: Array
    step: int


class StabilitySelection(FixedLengthAlgorithm[StabilityState]):
    """The share of random halves of the rows in which a pair is joined at any penalty of `points`; one half per step."""

    state = StabilityState

    def __init__(self, x: Array, share: Array, halves: int, seed: int, points: Array) -> None:
        self.x, self.share, self.halves, self.seed, self.points = x, share, halves, seed, points

    @property
    def steps(self) -> int:
        """The number of halves."""
        return self.halves

    def init(self) -> StabilityState:
        """Return the state before the first half."""
        return StabilityState(np.zeros((self.x.shape[1], self.x.shape[1])), 0)

    def step(self, state: StabilityState) -> StabilityState:
        """Fit the path of one more half."""
        x = self.x
        rows = np.sort(generator(self.seed, Stream.STRUCTURE, unit=1, step=state.step).permutation(len(x))[: max(2, len(x) // 2)])
        made = fit_penalty_path(x[rows], self.share[rows] / self.share[rows].sum(), self.points)
        state.found += ((made.weight != 0) & (made.weight.transpose(0, 2, 1) != 0)).any(axis=0)
        state.step += 1
        return state

    def memory(self) -> int:
        """Return the bytes of one half's path."""
        return int(8 * (len(self.points) * self.x.shape[1] ** 2 + 4 * self.x.size))

    def progress(self, state: StabilityState) -> RunProgress:
        """The number of finished halves."""
        return RunProgress(state.step, self.steps)

    def result(self, state: StabilityState) -> Array:
        """Return the shares (N, N)."""
        shares: Array = state.found / self.halves
        return shares
