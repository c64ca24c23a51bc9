"""Settings of learning, the protocol of all learning algorithms, and the construction of the algorithm for a problem."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np

from herdcli.algorithm import Algorithm
from herdcli.errors import BadUsage
from herdcli.markov.learning.algorithm_table import ALGORITHMS, NEEDS_ROWS, NO_BASE, NO_FEATURES
from herdcli.markov.method import MethodState
from herdcli.markov.model.constraints import LearningProblem
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class LearningSettings:
    """Options of learning algorithms.

    expectations  of gradient: exact, gibbs (chains that continue) or cd (chains that start at rows); sweeps per update.
    penalty       L2, on log factors.
    damping       share of the old value that is kept.
    max_clique    largest clique of loopy-is and cvm, 0 for no change.
    regions       the cliques of loopy-is and cvm, if they are given.
    """

    algorithm: str = "ups-jt"
    tolerance: float = 1e-9
    iterations: int = 1000
    orders: int = 8
    expectations: str = "exact"
    learning_rate: float = 0.5
    penalty: float = 0.0
    chains: int = 100
    sweeps: int = 1
    max_clique: int = 0
    regions: tuple[tuple[int, ...], ...] = ()
    double_loop: bool = False
    damping: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class LearnedFactors:
    """A factor for each cluster, and the course of the fit.

    counts    numbers of scaling and propagation updates.
    residual  one entry per iteration: the largest difference between a marginal (or expectation) of the model and the given one,
              or another quantity that the algorithm brings to zero.
    """

    factors: list[Array]
    converged: bool
    iterations: int
    residual: Array
    counts: tuple[int, int] = (0, 0)


class SizedLearner(ABC):
    """A learner that knows the memory that `init` will need."""

    @abstractmethod
    def bytes_needed(self) -> tuple[int, str]:
        """Return the bytes that `init` will need, with a description."""

    def memory(self) -> int:
        """Return the bytes that `init` will need."""
        return self.bytes_needed()[0]


class Learner(Algorithm[MethodState, LearnedFactors], Protocol):
    """One learning algorithm applied to one problem."""

    steps: int
    note: str  # a line for the user, printed before the work begins, "" for none

    def meets_criterion(self, state: MethodState) -> bool:
        """Return True if the algorithm's criterion of convergence is met."""
        ...

    def bytes_needed(self) -> tuple[int, str]:
        """Return the bytes that `init` will need, with a description."""
        ...


def make_learner(problem: LearningProblem, settings: LearningSettings) -> Learner:
    """Construct the algorithm that the settings name.  Raises BadUsage for constraints that it does not support."""
    name = settings.algorithm
    if name in NEEDS_ROWS and problem.rows is None:
        raise BadUsage(f"--algorithm {name} needs rows, but --moments has none", hint="use --algorithm ups-jt")
    if name in NO_FEATURES and problem.has_features():
        raise BadUsage(
            f"--algorithm {name} matches only marginals, not expectations of features", hint="use --algorithm ups-jt, which matches both"
        )
    if name in NO_BASE and problem.base is not None:
        raise BadUsage(f"--algorithm {name} does not work with --base", hint="use --algorithm ups-jt")
    module, _, attribute = ALGORITHMS[name].rpartition(".")
    made: Learner = getattr(importlib.import_module(module), attribute)(problem, settings)
    return made


def empty_residual() -> Array:
    """Return the residuals before the first iteration."""
    return np.empty(0)
