"""The part that both kinds of herding share as algorithms: parallel runs, with a block of iterations in each step."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from herdcli.algorithm import FixedLengthAlgorithm, Map, RunProgress
from herdcli.records import dataclass


class HasIterations(Protocol):
    """Settings with the length of a herding run."""

    @property
    def iterations(self) -> int:
        """The number of iterations of every run."""
        ...


class MultiRunProblem(Protocol):
    """A problem of several runs, with the number of iterations in one step."""

    @property
    def settings(self) -> HasIterations:
        """The settings, which give the length of a run."""
        ...

    @property
    def count(self) -> int:
        """The number of runs."""
        ...

    @property
    def block(self) -> int:
        """The number of iterations in one step."""
        ...


class HerdingState(Protocol):
    """The state of all runs after `iteration` iterations."""

    step: int
    iteration: int
    runs: list[Any]


P = TypeVar("P", bound=MultiRunProblem)
S = TypeVar("S", bound=HerdingState)


@dataclass(frozen=True)
class HerdingRuns(FixedLengthAlgorithm[S], Generic[P, S]):
    """The runs of a problem as an algorithm.

    map  maps over the runs, which change disjoint parts of the state; it may use threads.
    """

    problem: P
    map: Map = map

    @property
    @abstractmethod
    def state(self) -> type[S]:
        """The type of the states."""

    @abstractmethod
    def init(self) -> S:
        """Return the state of every run before its first iteration."""

    @abstractmethod
    def run_iterations(self, state: S, count: int, u: int) -> None:
        """Run `count` iterations of run u, in place."""

    @abstractmethod
    def memory(self) -> int:
        """The size of the state in bytes."""

    @property
    def steps(self) -> int:
        """The number of steps, each a block of iterations of every run."""
        return -(-self.problem.settings.iterations // self.problem.block)

    def step(self, state: S) -> S:
        """Run a block of iterations of every run; `state` is updated in place."""
        count = min(self.problem.block, self.problem.settings.iterations - state.iteration)
        list(self.map(partial(self.run_iterations, state, count), range(self.problem.count)))
        state.iteration += count
        state.step += 1
        return state

    def progress(self, state: S) -> RunProgress:
        """Return the progress with the largest norm of the weights, which stays bounded if herding works."""
        norm = max(float(run.weight_norm[state.iteration - 1]) for run in state.runs) if state.iteration else 0.0
        return RunProgress(state.step, self.steps, f"‖w‖ {norm:.3g}")

    def result(self, state: S) -> S:
        """Return the last state."""
        return state
