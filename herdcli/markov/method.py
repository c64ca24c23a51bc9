"""What every algorithm of inference is: made of a network and settings, run step by step, ended with marginals and log Z."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Generic, Protocol, TypeVar

from herdcli.algorithm import Algorithm, EstimatesSteps, RunProgress
from herdcli.iterate import HasStep
from herdcli.markov.model.network import Factor
from herdcli.records import dataclass
from herdcli.schema import Array

Map = Callable[..., Any]  # like the built-in `map`, perhaps over workers
LEAST_TRACE = 4  # steps from whose residuals it may be told how many there will be


@dataclass(frozen=True)
class InferenceSettings:
    """Options of inference.  orders: runs of the elimination search; damping: share of the old message that is kept;

    damping_schedule: in its place, each for an equal part of the iterations; clamp_sets, region_scopes: in place of `clamp` and `regions`;
    temperatures: of tempered-gibbs, 0 for what suits the network;
    start: 0 for the usual first state, k for the k-th random one; output_marginals: `all`, or `nodes` where nobody asks for those of
    cliques.
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
    """Marginals over the conditioned network, the attributes of a `Beliefs`, and what the user is warned of."""

    nodes: Sequence[Array]
    cliques: Sequence[Factor]
    attributes: dict[str, Any] = field(default_factory=dict)
    warning: str = ""


class TracedState(Protocol):
    """A state with a residual a step: how far from its end the algorithm was."""

    step: int
    residual: Array


class HasTolerance(Protocol):
    """Settings with a residual to reach."""

    @property
    def tolerance(self) -> float:
        """The residual at which a run has converged."""
        ...


S = TypeVar("S", bound=HasStep)
T = TypeVar("T", bound=TracedState)
C = TypeVar("C", bound=HasTolerance)


class Stepwise(Generic[S]):
    """What algorithms of at most `steps` steps share: they end sooner where `met` says so.

    Those that derive from it give `state`, `steps`, `init`, `step` and `result`.  note: a line for the user before the work begins;
    words: what `memory` is of, where it counts.
    """

    state: type[S]
    steps: int
    note: str = ""
    words: str | None = None

    def met(self, state: S) -> bool:
        """Whether the criterion is met that ends the algorithm before its last step; there may be none."""
        return False

    def done(self, state: S) -> bool:
        """Whether no step is left."""
        return state.step >= self.steps or self.met(state)

    def memory(self) -> int:
        """Nothing that counts before the first step, but where an algorithm says so."""
        return 0

    def figure(self, state: S) -> str:
        """The figure that is shown beside the bar."""
        return ""

    def progress(self, state: S) -> RunProgress:
        """The steps done of the most there can be."""
        return RunProgress(state.step, self.steps, self.figure(state) if state.step else "")


class ToTolerance(Stepwise[T], EstimatesSteps[T], Generic[T, C]):
    """Those that end where the residual is at the tolerance of the settings."""

    settings: C

    def met(self, state: T) -> bool:
        """Is the last residual at the tolerance?  (NaN is not.)"""
        return bool(len(state.residual)) and bool(state.residual[-1] <= self.settings.tolerance)

    def figure(self, state: T) -> str:
        """The last residual."""
        return residual_text(state)

    def expected(self, state: T) -> int | None:
        """Steps in all, if the residual goes on to fall as it did in the later half of those done; None if it does not."""
        tail = state.residual[len(state.residual) // 2 :]
        if len(state.residual) < LEAST_TRACE or not 0 < tail[-1] < tail[0] or self.settings.tolerance <= 0:
            return None
        rate = math.log(tail[-1] / tail[0]) / (len(tail) - 1)
        return min(self.steps, state.step + max(0, math.ceil(math.log(self.settings.tolerance / tail[-1]) / rate)))


def residual_text(state: TracedState) -> str:
    """The last residual, as it is shown beside a bar."""
    return f"residual {state.residual[-1]:.3g}" if len(state.residual) else ""


class InferenceMethod(Algorithm[Any, InferenceResult], Protocol):
    """One algorithm on one network."""

    @property
    def steps(self) -> int:
        """Steps at most."""
        ...

    @property
    def note(self) -> str:
        """A line for the user before the work begins."""
        ...

    @property
    def words(self) -> str | None:
        """What `memory` is of, where it counts."""
        ...

    def met(self, state: Any) -> bool:
        """Whether its criterion is met."""
        ...

    def bytes_needed(self, state: Any) -> tuple[int, str]:
        """What `result` will need beyond the state, and for what.

        state  None before the first step, when all but the junction tree know it, whose steps find an order.
        """
        ...


@dataclass(frozen=True)
class Delegate:
    """A method that is another one, but for what a class derived from it says."""

    method: InferenceMethod

    @property
    def state(self) -> type[Any]:
        """That of the method."""
        return self.method.state

    @property
    def steps(self) -> int:
        """Those of the method."""
        return self.method.steps

    @property
    def note(self) -> str:
        """That of the method."""
        return self.method.note

    @property
    def words(self) -> str | None:
        """Those of the method."""
        return self.method.words

    def init(self) -> Any:
        """The method's first state."""
        return self.method.init()

    def step(self, state: Any) -> Any:
        """The method's step."""
        return self.method.step(state)

    def met(self, state: Any) -> bool:
        """Whether the method's criterion is met."""
        return self.method.met(state)

    def done(self, state: Any) -> bool:
        """Whether the method is done."""
        return self.method.done(state)

    def memory(self) -> int:
        """The method's memory."""
        return self.method.memory()

    def bytes_needed(self, state: Any) -> tuple[int, str]:
        """What the method's result needs."""
        return self.method.bytes_needed(state)

    def progress(self, state: Any) -> RunProgress:
        """The method's progress."""
        return self.method.progress(state)

    def result(self, state: Any) -> InferenceResult:
        """The method's result."""
        return self.method.result(state)
