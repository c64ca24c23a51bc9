"""Several starts of a perceptron's fit, one after another, with the best one as result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np

from herdcli.algorithm import RunProgress
from herdcli.records import dataclass
from herdcli.regression.perceptron.early_stopping import PerceptronFit
from herdcli.regression.perceptron.minibatches import BatchState
from herdcli.regression.perceptron.trust_region import PerceptronDescentState
from herdcli.schema import Array, array

DescentState: TypeAlias = Any  # `PerceptronDescentState` or `BatchState`: that of the descent itself


class StartDescent(Protocol):
    """The descent from one start."""

    def init(self) -> DescentState:
        """Return the first state."""
        ...

    def step(self, state: DescentState) -> DescentState:
        """Return the next state."""
        ...

    def done(self, state: DescentState) -> bool:
        """Return whether the descent has ended."""
        ...

    def progress(self, state: DescentState) -> RunProgress:
        """Return the progress."""
        ...

    def result(self, state: DescentState) -> PerceptronFit:
        """Return the fit."""
        ...


@dataclass(kw_only=True)
class BestStart:
    """The result of the best start so far; `restart` −1: there is none."""

    theta: Array = array("q", "parameters", kind="f")
    trace: Array = array("T", "as of `PerceptronFit`", kind="f")
    losses: Array = array("V", "as of `PerceptronFit`", kind="f")
    loss: float = float("inf")
    converged: bool = False
    restart: int = -1


@dataclass
class DescentRestartState:
    """The state of all starts, with that of the current start, by the trust region."""

    step: int
    descent: PerceptronDescentState
    best: BestStart
    restart: int = 0


@dataclass
class BatchRestartState:
    """The state of all starts, with that of the current start, by minibatches."""

    step: int
    descent: BatchState
    best: BestStart
    restart: int = 0


RestartState = DescentRestartState | BatchRestartState


@dataclass(frozen=True)
class RestartedFit:
    """A fit with several starts, as an algorithm.

    make   a function from the index of a start to its descent.  batches  whether by minibatches.  needed  bytes of one start.
    floor  the loss that the best start should not exceed, if there is one; where it does, the start of index `restarts` follows.
    """

    make: Callable[[int], StartDescent]
    restarts: int
    batches: bool
    needed: int = 0
    floor: Callable[[], float] | None = None

    @property
    def state(self) -> type[RestartState]:
        """The type of its states."""
        return BatchRestartState if self.batches else DescentRestartState

    def init(self) -> RestartState:
        """Return the first start."""
        nothing = np.zeros(0)
        return self.state(0, self.make(0).init(), BestStart(theta=nothing, trace=nothing, losses=nothing))

    def step(self, state: RestartState) -> RestartState:
        """Take a step of the current start; when it ends, begin the next one."""
        descent = self.make(state.restart)
        moved: DescentState = descent.step(state.descent)
        state.descent, state.step = moved, state.step + 1
        if descent.done(moved):
            fit = descent.result(moved)
            if state.best.restart < 0 or fit.loss < state.best.loss or not np.isfinite(state.best.loss):
                state.best = BestStart(**vars(fit))
            state.restart += 1
            if not self.done(state):
                state.descent = self.make(state.restart).init()
        return state

    def done(self, state: RestartState) -> bool:
        """Return whether all starts have ended, and their best loss is not above the floor."""
        if state.restart != self.restarts:
            return state.restart > self.restarts
        return self.floor is None or not state.best.loss > self.floor()

    def progress(self, state: RestartState) -> RunProgress:
        """Return the number of finished starts and the progress of the current one."""
        if self.done(state):
            return RunProgress(state.step, state.step, share=1.0)
        own = self.make(state.restart).progress(state.descent)
        starts = max(self.restarts, state.restart + 1)
        figure = f"start {state.restart + 1} of {starts}, {own.figure}" if starts > 1 else own.figure
        bound = None if own.bound is None else own.bound * starts
        return RunProgress(own.step + state.restart * (own.bound or 0), bound, figure, (state.restart + own.done) / starts)

    def memory(self) -> int:
        """Return the bytes of one start."""
        return self.needed

    def result(self, state: RestartState) -> PerceptronFit:
        """Return the fit of the best start."""
        return PerceptronFit(**vars(state.best))
