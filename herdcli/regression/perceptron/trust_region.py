"""A perceptron fitted by the trust region of `newton_cg`, with exact gradients and Hessian products of all rows."""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import RunProgress
from herdcli.numerics.block_statistics import BLOCK, BlockStatistics
from herdcli.records import dataclass
from herdcli.regression.newton_cg import TrustRegion, TrustRegionState, without_rows
from herdcli.regression.perceptron.early_stopping import BestParameters, PerceptronFit, is_patience_exhausted, record_evaluation
from herdcli.regression.perceptron.problem import PerceptronGradient, PerceptronHessianProduct, PerceptronProblem, ValidationRows
from herdcli.regression.sparse_rows import SparseRows
from herdcli.schema import Array


@dataclass(kw_only=True)
class PerceptronDescentState(TrustRegionState):
    """The state of the descent, and the best parameters so far."""

    best: BestParameters


@dataclass(frozen=True)
class PerceptronDescent:
    """One start of the trust-region descent.  start (1, q)."""

    region: PerceptronRegion
    validation: ValidationRows
    patience: int
    restart: int
    state = PerceptronDescentState

    def init(self) -> PerceptronDescentState:
        """Return the initial state; the first step evaluates it."""
        first = self.region.init()
        best = BestParameters(theta=self.region.start.ravel().copy(), losses=np.zeros(0))
        return PerceptronDescentState(**vars(first), best=best)

    def step(self, state: PerceptronDescentState) -> PerceptronDescentState:
        """Take one step of the trust region, and evaluate the validation rows if it was accepted."""
        taken = len(state.trace)
        self.region.step(state)
        if len(state.trace) > taken:
            problem = self.region.problem
            assert isinstance(problem, PerceptronProblem)
            record_evaluation(state.best, state.theta.ravel(), self.validation.loss(problem, state.theta, self.region.map))
        return state

    def done(self, state: PerceptronDescentState) -> bool:
        """Return whether no step gains more, early stopping applies, or all iterations are used."""
        return self.region.done(state) or is_patience_exhausted(state.best, self.patience)

    def progress(self, state: PerceptronDescentState) -> RunProgress:
        """Return the number of steps and the loss."""
        return self.region.progress(state)

    def result(self, state: PerceptronDescentState) -> PerceptronFit:
        """Return the best parameters."""
        ended = self.region.has_converged(state) or is_patience_exhausted(state.best, self.patience)
        loss = state.best.loss if self.validation.rows is not None else state.objective
        return PerceptronFit(state.best.theta, loss, state.trace, state.best.losses, ended, self.restart)


@dataclass(frozen=True)
class PerceptronRegion(TrustRegion):
    """The trust region over the parameters of a perceptron, with a metric in which all parameters are equal."""

    def gradient_sums(self, theta: Array) -> BlockStatistics:
        """Return the gradient statistics by the backward recursion."""
        problem = without_rows(self.problem)
        assert isinstance(problem, PerceptronProblem)
        return PerceptronGradient(problem, theta)

    def hessian_product_sums(self, theta: Array, v: Array) -> BlockStatistics:
        """Return the Hessian product statistics by Pearlmutter's recursion."""
        problem = without_rows(self.problem)
        assert isinstance(problem, PerceptronProblem)
        return PerceptronHessianProduct(problem, theta, v)


def descent_bytes(problem: PerceptronProblem, threads: int) -> int:
    """Return the bytes of a block's layers, at six arrays per layer, and of parameter vectors, for all threads."""
    parameters, widths = problem.architecture.parameters, sum(problem.architecture.widths)
    if isinstance(problem.rows, SparseRows):
        widths -= problem.features
    return 8 * threads * (6 * min(BLOCK, problem.rows.count) * widths + 4 * parameters) + 8 * 16 * parameters
