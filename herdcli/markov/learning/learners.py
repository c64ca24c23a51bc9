"""Settings of learning, what every learning algorithm is to the loop that runs it, and which of them takes a problem."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np

from herdcli.algorithm import Algorithm
from herdcli.errors import BadUsage
from herdcli.markov.learning.algorithm_table import ALGORITHMS, NEEDS_ROWS, NO_BASE, NO_FEATURES
from herdcli.markov.model.constraints import LearningProblem
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class LearningSettings:
    """Options of learning.

    expectations  of gradient: exact, gibbs (chains that go on) or cd (chains that start at rows); sweeps each update.
    penalty       L2, on log factors.  damping  share that is kept.
    max_clique    0 leaves the cliques of loopy-is and cvm as they come.  regions  those cliques, where they are given.
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
    """A factor for each cluster, and how they were learned.

    counts  scaling and propagation updates.  residual  one entry an iteration: the largest difference between a
    marginal (or expectation) of the model and the given one, or what else the algorithm brings to zero.
    """

    factors: list[Array]
    converged: bool
    iterations: int
    residual: Array
    counts: tuple[int, int] = (0, 0)


class SizedLearner(ABC):
    """A learner that knows what `init` will need."""

    @abstractmethod
    def bytes_needed(self) -> tuple[int, str]:
        """What `init` will need, and for what."""

    def memory(self) -> int:
        """Bytes that `init` will need."""
        return self.bytes_needed()[0]


class Learner(Algorithm[Any, LearnedFactors], Protocol):
    """One algorithm on one problem."""

    steps: int
    note: str  # a line for the user before the work begins, "" for none

    def met(self, state: Any) -> bool:
        """Whether its criterion is met."""
        ...

    def bytes_needed(self) -> tuple[int, str]:
        """What `init` will need, and for what."""
        ...


def make_learner(problem: LearningProblem, settings: LearningSettings) -> Learner:
    """The algorithm that the settings name.  Raises BadUsage for constraints that it cannot take."""
    name = settings.algorithm
    if name in NEEDS_ROWS and problem.rows is None:
        raise BadUsage(f"--algorithm {name} needs rows, but --moments has none", hint="--algorithm ups-jt")
    if name in NO_FEATURES and problem.has_features():
        raise BadUsage(f"--algorithm {name} takes marginals, not features", hint="--algorithm ups-jt")
    if name in NO_BASE and problem.base is not None:
        raise BadUsage(f"--algorithm {name} does not work with --base", hint="--algorithm ups-jt")
    module, _, attribute = ALGORITHMS[name].rpartition(".")
    made: Learner = getattr(importlib.import_module(module), attribute)(problem, settings)
    return made


def no_residual() -> Array:
    """Before the first iteration."""
    return np.empty(0)
