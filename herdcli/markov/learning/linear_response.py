"""Learning of Boltzmann machines without hidden units by one matrix inversion: linear response on the mean-field equations.

    (C^{-1})_ij = δ_ij / (m_i (1 − m_i)) − W_ij,      logit m_i = b_i + Σ_{j≠i} W_ij m_j + W_ii (m_i − ½).

The self-couplings W_ii make the variances correct.  They represent the reaction term, −Σ_j W_ij² m_j (1 − m_j) to second
order (in units of −1 and 1 it acts on the mean, hence the ½), and are not part of the model.
Source: Kappen & Rodríguez (1998); Teh (2003), 2.48 and 2.49.
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.markov.learning.learners import LearnedFactors, LearningSettings, SizedLearner, empty_residual
from herdcli.markov.method import Stepwise
from herdcli.markov.model.constraints import LearningProblem
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass
class LinearResponseState:
    """Weights W (N, N) and biases b (N,)."""

    W: Array
    b: Array
    step: int


class LinearResponse(SizedLearner, Stepwise[LinearResponseState]):
    """The algorithm `linear-response` on the marginals of all pairs."""

    state, steps = LinearResponseState, 1

    def __init__(self, problem: LearningProblem, settings: LearningSettings) -> None:
        self.problem = problem
        if problem.cardinality.max(initial=0) > 2 or problem.cardinality.min(initial=2) < 2:
            raise BadUsage("--algorithm linear-response needs two-state variables", hint="use --algorithm ups-jt")
        n = len(problem.cardinality)
        if n < 2 or {frozenset(c.scope) for c in problem.clusters} != {frozenset((i, j)) for i in range(n) for j in range(i)}:
            raise BadUsage("--algorithm linear-response needs the marginals of all pairs", hint="use --structure full")

    def bytes_needed(self) -> tuple[int, str]:
        """Return the bytes of the covariance and its inverse, and their purpose in words."""
        return 32 * len(self.problem.cardinality) ** 2, "the covariance"

    def init(self) -> LinearResponseState:
        """Return the state before the inversion."""
        n = len(self.problem.cardinality)
        return LinearResponseState(np.zeros((n, n)), np.zeros(n), 0)

    def step(self, state: LinearResponseState) -> LinearResponseState:
        """Do the inversion."""
        n = len(self.problem.cardinality)
        both = np.zeros((n, n))
        for cluster in self.problem.clusters:
            i, j = cluster.scope
            both[i, j] = both[j, i] = cluster.target[1, 1]
            both[i, i], both[j, j] = cluster.target[1].sum(), cluster.target[:, 1].sum()
        m = np.diag(both).copy()
        if (fixed := np.flatnonzero(m * (1 - m) <= 0)).size:
            name = self.problem.names[fixed[0]] if self.problem.names else f"x{fixed[0]}"
            raise DataError(
                f"variable {name} is constant, so the covariance matrix has no inverse", hint="use --smoothing 1, or remove the column"
            )
        # Covariances of the given pair marginals; their inverse is that of 2.49.
        C = both - np.outer(m, m)
        if not np.linalg.cond(C) < 1e12:
            raise DataError("the covariance matrix has no inverse, because some variables determine others", hint="use --smoothing 1")
        # Inverse of 2.49, with the rest of the diagonal as self-couplings; b is the remainder of the mean-field equation with these at m.
        W = np.diag(1 / (m * (1 - m))) - np.linalg.inv(C)
        b = np.log(m / (1 - m)) - W @ m + np.diag(W) / 2
        np.fill_diagonal(W, 0.0)
        return LinearResponseState(W, b, 1)

    def result(self, state: LinearResponseState) -> LearnedFactors:
        """Return a factor e^{W x_i x_j} for each pair; the first pair of each unit includes its bias."""
        factors, seen = [], set()
        for cluster in self.problem.clusters:
            logs = np.zeros((2, 2))
            i, j = cluster.scope
            logs[1, 1] = state.W[i, j]
            if i not in seen:
                logs[1] += state.b[i]
            if j not in seen:
                logs[:, 1] += state.b[j]
            seen |= {i, j}
            factors.append(np.exp(logs - logs.max()))
        return LearnedFactors(factors, True, 1, empty_residual())
