"""What the two kinds of herding share as algorithms: runs side by side, a block of iterations in one step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from herdcli.algorithm import FixedLengthAlgorithm, RunProgress
from herdcli.records import dataclass


class HerdingLength(Protocol):
    """How long herding goes on."""

    @property
    def iterations(self) -> int:
        """Iterations of every run."""
        ...


class RunBlocks(Protocol):
    """Runs, and how many iterations of them are one step."""

    @property
    def settings(self) -> HerdingLength:
        """How long."""
        ...

    @property
    def count(self) -> int:
        """Runs."""
        ...

    @property
    def block(self) -> int:
        """Iterations of one step."""
        ...


class HerdingState(Protocol):
    """All runs after `iteration` iterations."""

    step: int
    iteration: int
    runs: list[Any]


P = TypeVar("P", bound=RunBlocks)
S = TypeVar("S", bound=HerdingState)


@dataclass(frozen=True)
class HerdingRuns(FixedLengthAlgorithm[S], Generic[P, S]):
    """An algorithm of the runs of a problem.  map: goes over the runs, which touch disjoint parts of the state; it may use threads."""

    problem: P
    map: Callable[..., Iterable[Any]] = map

    @property
    @abstractmethod
    def state(self) -> type[S]:
        """The type of its states."""

    @abstractmethod
    def init(self) -> S:
        """Every run before its first iteration."""

    @abstractmethod
    def advance(self, state: S, count: int, u: int) -> None:
        """`count` iterations of run u, in place."""

    @abstractmethod
    def memory(self) -> int:
        """Bytes of the state."""

    @property
    def steps(self) -> int:
        """Steps in all, each a block of iterations of every run."""
        return -(-self.problem.settings.iterations // self.problem.block)

    def step(self, state: S) -> S:
        """A block of iterations of every run; `state` is updated in place."""
        count = min(self.problem.block, self.problem.settings.iterations - state.iteration)
        list(self.map(partial(self.advance, state, count), range(self.problem.count)))
        state.iteration += count
        state.step += 1
        return state

    def progress(self, state: S) -> RunProgress:
        """With the largest norm of the weights, which stays bounded where herding works."""
        norm = max(float(run.weight_norm[state.iteration - 1]) for run in state.runs) if state.iteration else 0.0
        return RunProgress(state.step, self.steps, f"‖w‖ {norm:.3g}")

    def result(self, state: S) -> S:
        """The last state."""
        return state
