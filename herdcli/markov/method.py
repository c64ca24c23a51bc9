"""The protocol of all inference algorithms: built from a network and settings, run step by step, ended with marginals and log Z."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from herdcli.algorithm import Algorithm, EstimatesSteps, RunProgress
from herdcli.iterate import HasStep
from herdcli.records import dataclass
from herdcli.schema import Array

if TYPE_CHECKING:
    from herdcli.markov.model.network import Factor

LEAST_TRACE = 4  # minimum number of steps before the total number of steps is estimated from residuals


@dataclass(frozen=True)
class InferenceSettings:
    """Options of inference algorithms.

    orders            number of runs of the search for an elimination order.
    damping           share of the old message that is kept.
    damping_schedule  several values of damping, each for an equal part of the iterations; replaces `damping`.
    clamp_sets        sets of variables to clamp; replaces `clamp`.
    region_scopes     scopes of the regions; replaces `regions`.
    temperatures      number of temperatures of tempered-gibbs; 0 chooses a number that suits the network.
    start             0 for the default first state, k for the k-th random one.
    output_marginals  `all`, or `nodes` if the marginals of cliques are not needed.
    """

    algorithm: str = "junction-tree"
    tolerance: float = 1e-9
    iterations: int = 1000
    orders: int = 8
    schedule: str = "auto"
    damping: float = 0.0
    damping_kind: str = "geometric"
    damping_schedule: tuple[float, ...] = ()
    clamp: str = "auto"
    clamp_sets: list[list[int]] | None = None
    regions: str = "auto"
    region_scopes: list[list[int]] | None = None
    start: int = 0
    linear_response: bool = False
    sweeps: int = 10_000
    burn_in: int = 1000
    chains: int = 8
    annealing: int = 0
    temperatures: int = 0
    message_passing: str = "hugin"
    seed: int = 0
    output_marginals: str = "all"


@dataclass(frozen=True)
class InferenceResult:
    """Marginals over the conditioned network, attributes for a `Beliefs`, and a warning for the user."""

    nodes: Sequence[Array]
    cliques: Sequence[Factor]
    attributes: dict[str, Any] = field(default_factory=dict)
    warning: str = ""


class TracedState(Protocol):
    """A state with one residual per step, which measures how far the algorithm was from its fixed point."""

    step: int
    residual: Array


class HasTolerance(Protocol):
    """Settings with a tolerance for the residual."""

    @property
    def tolerance(self) -> float:
        """The residual at which a run has converged."""
        ...


S = TypeVar("S", bound=HasStep)
T = TypeVar("T", bound=TracedState)
C = TypeVar("C", bound=HasTolerance)


class Stepwise(Generic[S]):
    """A base class of algorithms that take at most `steps` steps, and fewer if `meets_criterion` returns True.

    Derived classes define `state`, `steps`, `init`, `step` and `result`.

    note   a line for the user, printed before the work begins.
    words  the object that `memory` measures, in words; None if memory is not counted.
    """

    state: type[S]
    steps: int
    note: str = ""
    words: str | None = None

    def meets_criterion(self, state: S) -> bool:
        """Return True if a criterion ends the algorithm before its last step.  By default there is none."""
        return False

    def done(self, state: S) -> bool:
        """Return True if no step is left."""
        return state.step >= self.steps or self.meets_criterion(state)

    def memory(self) -> int:
        """Return the bytes that are needed before the first step; 0 unless an algorithm overrides this."""
        return 0

    def progress_text(self, state: S) -> str:
        """The figure that is shown next to the progress bar."""
        return ""

    def progress(self, state: S) -> RunProgress:
        """The number of steps done and the largest number of steps."""
        return RunProgress(state.step, self.steps, self.progress_text(state) if state.step else "")


class ToTolerance(Stepwise[T], EstimatesSteps[T], Generic[T, C]):
    """A base class of algorithms that end when the residual reaches the tolerance of the settings."""

    settings: C

    def meets_criterion(self, state: T) -> bool:
        """Return True if the last residual is at most the tolerance.  A residual of NaN is not."""
        return bool(len(state.residual)) and bool(state.residual[-1] <= self.settings.tolerance)

    def progress_text(self, state: T) -> str:
        """The last residual, as text."""
        return residual_text(state)

    def estimate_total_steps(self, state: T) -> int | None:
        """Estimate the total number of steps; None if the residual does not fall.

        The estimate assumes that the residual continues to fall as in the later half of the steps done.
        """
        tail = state.residual[len(state.residual) // 2 :]
        if len(state.residual) < LEAST_TRACE or not 0 < tail[-1] < tail[0] or self.settings.tolerance <= 0:
            return None
        rate = math.log(tail[-1] / tail[0]) / (len(tail) - 1)
        return min(self.steps, state.step + max(0, math.ceil(math.log(self.settings.tolerance / tail[-1]) / rate)))


def residual_text(state: TracedState) -> str:
    """Return the last residual as text for the progress bar."""
    return f"residual {state.residual[-1]:.3g}" if len(state.residual) else ""


MethodState: TypeAlias = Any  # the state of some method, which only that method reads


class InferenceMethod(Algorithm[MethodState, InferenceResult], Protocol):
    """One inference algorithm applied to one network."""

    @property
    def steps(self) -> int:
        """The largest number of steps."""
        ...

    @property
    def note(self) -> str:
        """A line for the user, printed before the work begins."""
        ...

    @property
    def words(self) -> str | None:
        """The object that `memory` measures, in words; None if memory is not counted."""
        ...

    def meets_criterion(self, state: MethodState) -> bool:
        """Return True if the algorithm's criterion of convergence is met."""
        ...

    def bytes_needed(self, state: MethodState) -> tuple[int, str]:
        """Return the bytes that `result` needs in addition to the state, and their purpose, in words.

        state  None before the first step.  All algorithms know the answer then, except the junction tree, whose steps find an order.
        """
        ...


@dataclass(frozen=True)
class Delegate:
    """A method that forwards everything to another method; derived classes override parts of it."""

    method: InferenceMethod

    @property
    def state(self) -> type[MethodState]:
        """The state type of the wrapped method."""
        return self.method.state

    @property
    def steps(self) -> int:
        """The largest number of steps of the wrapped method."""
        return self.method.steps

    @property
    def note(self) -> str:
        """The note of the wrapped method."""
        return self.method.note

    @property
    def words(self) -> str | None:
        """The words of the wrapped method."""
        return self.method.words

    def init(self) -> MethodState:
        """Return the first state of the wrapped method."""
        return self.method.init()

    def step(self, state: MethodState) -> MethodState:
        """Do one step of the wrapped method."""
        return self.method.step(state)

    def meets_criterion(self, state: MethodState) -> bool:
        """Return True if the criterion of the wrapped method is met."""
        return self.method.meets_criterion(state)

    def done(self, state: MethodState) -> bool:
        """Return True if the wrapped method is done."""
        return self.method.done(state)

    def memory(self) -> int:
        """Return the memory that the wrapped method needs, in bytes."""
        return self.method.memory()

    def bytes_needed(self, state: MethodState) -> tuple[int, str]:
        """Return the bytes that the result of the wrapped method needs, and their purpose in words."""
        return self.method.bytes_needed(state)

    def progress(self, state: MethodState) -> RunProgress:
        """Return the progress of the wrapped method."""
        return self.method.progress(state)

    def result(self, state: MethodState) -> InferenceResult:
        """Return the result of the wrapped method."""
        return self.method.result(state)
