"""Firth's penalised likelihood: estimates that are finite for separable classes, and nearly unbiased in small samples.

It maximises Σ w log p(y | η) + ½ log |I(θ)| with I = Z'WZ, Fisher's information, W = w A''(η).  With h the diagonal of the hat matrix
W^½ Z I⁻¹ Z' W^½ the gradient in θ is

    Σ (w (y − μ) + ½ h A'''/A'') z,      A'''/A'' = 1 − 2μ for bernoulli, 1 for poisson.

Steps are J⁻¹ times the gradient, halved until the penalised likelihood rises.  J is its curvature with h held fixed: I, plus
Σ h A'' z z' for bernoulli.  Redundant columns are left out of the determinant.
Source: Firth (1993); Heinze & Schemper (2002) for logistic regression.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli.algorithm import Map
from herdcli.numerics.block_statistics import BlockSource, BlockStatistics, RowBlock, Sums, sum_statistics
from herdcli.records import dataclass
from herdcli.regression.family_table import TABLE
from herdcli.regression.fit import ALIASED, SHORTEST, SUFFICIENT, DescentBase, RegressionFit, RegressionProblem, RemoteRows, derivative_sums
from herdcli.schema import Array, array

FAMILIES = tuple(name for name, entry in TABLE.items() if entry.firth)
TOLERANCE = 1e-18  # steps end when the expected decrease is at most this share of the objective


@dataclass(frozen=True)
class LeverageSums(BlockStatistics):
    """A function from a block to Σ ½ h (A'''/A'') z (p,) at θ, and its curvature (p, p) with h fixed.

    inverse (p, p)  of the information.
    """

    problem: RegressionProblem
    theta: Array
    inverse: Array

    def __call__(self, block: RowBlock) -> Sums:
        """Return the sum of a block."""
        Z, y, offset, weight = self.problem.split_block(block)
        eta = Z @ self.theta.T + offset[:, None]
        _, _, curve = self.problem.family.loss_and_derivatives(eta, y)
        # h, the diagonal of the hat matrix W^½ Z I⁻¹ Z' W^½
        hat = weight * curve[:, 0] * ((Z @ self.inverse) * Z).sum(axis=1)
        # Firth's term in the gradient, ½ Σ h s z, and, with h fixed, minus its derivative
        skew, bend = self.problem.family.firth_terms(eta)
        return {"pull": 0.5 * ((hat * skew) @ Z), "curvature": (Z * (hat * bend)[:, None]).T @ Z}


@dataclass
class FirthState:
    """The state of the ascent: θ, penalised mean loss, gradient and Fisher's information there, and the next step to try."""

    step: int
    theta: Array = array("K p", "coefficients, the intercept last", kind="f")
    direction: Array = array("K p", "of the step tried", kind="f")
    information: Array = array("q q", "of all rows at theta", kind="f")
    trace: Array = array("T", "objective after each step taken", kind="f")
    objective: float = np.inf
    foreseen: float = 0.0  # predicted decrease of a whole step
    rate: float = 0.0
    mass: float = 0.0


@dataclass(frozen=True, kw_only=True)
class FirthAscent(DescentBase):
    """The ascent as an algorithm.  frame (p, r)  scaled directions without redundant columns."""

    frame: Array
    state = FirthState  # the type of its states

    def init(self) -> FirthState:
        """Return the initial θ; the first step evaluates it."""
        q = self.start.size
        return FirthState(0, self.start.copy(), np.zeros_like(self.start), np.zeros((q, q)), np.zeros(0))

    def step(self, state: FirthState) -> FirthState:
        """Evaluate the trial step: accept it and compute the next one, or halve it."""
        problem, tried = self.problem, state.theta + state.rate * state.direction
        sums = sum_statistics(self.source, derivative_sums(problem, tried), self.map)
        inner = self.frame.T @ sums["curvature"] @ self.frame
        sign, logarithm = np.linalg.slogdet(inner)
        mass = float(sums["mass"][0])
        # Penalised loss: −log L − ½ log |I|, Jeffreys' prior; where the information is not definite it is infinite, and the step is halved.
        objective = (float(sums["loss"][0]) - 0.5 * float(logarithm)) / mass if sign > 0 else np.inf
        state.step += 1
        slack = 1e-14 * abs(state.objective) if np.isfinite(state.objective) else 0.0
        if not objective <= state.objective - SUFFICIENT * state.rate * state.foreseen + slack:
            state.rate /= 2
            return state
        inverse = self.frame @ np.linalg.solve(inner, self.frame.T)
        free = replace(problem, rows=RemoteRows(problem.rows.count, problem.rows.columns))
        # Modified score: each row pulls by its leverage h, its entry of the diagonal of the hat matrix with the inverse information.
        bias = sum_statistics(self.source, LeverageSums(free, tried, inverse), self.map)
        slope = self.frame.T @ (bias["pull"] - sums["gradient"])
        direction = np.linalg.solve(inner + self.frame.T @ bias["curvature"] @ self.frame, slope)
        state.theta, state.objective, state.mass, state.information = tried, objective, mass, sums["curvature"]
        state.direction, state.rate = (self.frame @ direction).reshape(tried.shape), 1.0
        state.foreseen = float(slope @ direction) / (2 * mass)
        state.trace = np.append(state.trace, objective)
        return state

    def done(self, state: FirthState) -> bool:
        """Return whether no step gains more than the tolerance, or all iterations are used."""
        return state.step >= self.iterations or self._has_converged(state)

    def _has_converged(self, state: FirthState) -> bool:
        small = len(state.trace) > 0 and state.foreseen <= TOLERANCE * max(1.0, abs(state.objective))
        return bool(small) or 0 < state.rate < SHORTEST

    def memory(self) -> int:
        """Return the bytes of the information matrices in the tree and in use."""
        return 8 * self.start.size**2 * (20 + self.source.count.bit_length())

    def result(self, state: FirthState) -> RegressionFit:
        """Return the coefficients and the information, from which their errors are computed."""
        return RegressionFit(state.theta, state.information, state.trace, state.mass, self._has_converged(state), False)


@dataclass(frozen=True)
class GramSums(BlockStatistics):
    """A function from a block to Σ z z' over rows of positive weight."""

    problem: RegressionProblem

    def __call__(self, block: RowBlock) -> Sums:
        """Return the sum of a block."""
        Z, _, _, weight = self.problem.split_block(block)
        Z = Z[weight > 0]
        return {"gram": Z.T @ Z}


def make_firth_ascent(
    problem: RegressionProblem, start: Array, iterations: int, map: Map, remote_blocks: BlockSource | None
) -> FirthAscent:
    """Return the algorithm for a problem, after a pass that finds the redundant columns."""
    plain = DescentBase(problem, start, iterations, map=map, elsewhere=remote_blocks)
    free = replace(problem, rows=RemoteRows(problem.rows.count, problem.rows.columns))
    gram = sum_statistics(plain.source, GramSums(free), map)["gram"]
    scale = 1 / np.sqrt(np.where(np.diag(gram) > 0, np.diag(gram), 1.0))
    values, vectors = np.linalg.eigh(scale[:, None] * gram * scale)
    frame = scale[:, None] * vectors[:, values > ALIASED * values[-1]]
    return FirthAscent(problem, start, iterations, map=map, elsewhere=remote_blocks, frame=frame)
