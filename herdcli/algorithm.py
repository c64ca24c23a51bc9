"""The one shape of every iterated computation: where it starts, what a step does, when it has ended, what came of it.

An algorithm is a frozen dataclass of everything its numbers depend on (rows, settings, seed) and of how it is run (`map`), with
the methods below.  Its state is a dataclass that holds all that its future depends on; the type of it is known without a start,
so that a resumed run reads its checkpoint and never repeats `init`; one whose start is work is `HasStateShapes` and has `like` besides.
What an algorithm can do besides it declares by its base classes, never by the names of its attributes.  Commands run every
algorithm by the same call, which guards memory, saves and resumes, answers signals, tries the first steps for a dry run, and shows
how far it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from herdcli import iterate
from herdcli.iterate import HasStep
from herdcli.records import dataclass

S = TypeVar("S", bound=HasStep)
T = TypeVar("T", bound=HasStep, covariant=True)
U = TypeVar("U", bound=HasStep, contravariant=True)
R = TypeVar("R", covariant=True)


@dataclass(frozen=True)
class RunProgress:
    """How far a run is: `step` of at most `bound` (None: nobody knows), and the figure that matters, as a few words.

    share  of all work that is done, where steps do not cost the same: what is left is estimated from it.
    """

    step: int
    bound: int | None
    figure: str = ""
    share: float | None = None

    @property
    def done(self) -> float:
        """The share of the work that is done; of a run without bound 0."""
        return self.share if self.share is not None else self.step / self.bound if self.bound else 0.0


Watch = Callable[[RunProgress], None]  # is told how far a run is, after each of its steps


class FixedLengthAlgorithm(ABC, Generic[S]):
    """What algorithms share whose number of steps is known beforehand."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """Steps in all."""

    def done(self, state: S) -> bool:
        """Whether all steps are behind it."""
        return state.step >= self.steps


class Algorithm(Protocol[S, R]):
    """What `session.run` asks of a computation."""

    @property
    def state(self) -> type[S]:
        """The type of its states."""
        ...

    def init(self) -> S:
        """The state before the first step (`step` is 0)."""
        ...

    def step(self, state: S) -> S:
        """One block of work, between a millisecond and a second; it owns the arrays of the state it is given."""
        ...

    def done(self, state: S) -> bool:
        """Whether no step is left: the last one is behind it, or its criterion is met."""
        ...

    def memory(self) -> int:
        """Bytes that the run takes beside its inputs, before anything is done."""
        ...

    def progress(self, state: S) -> RunProgress:
        """How far it is."""
        ...

    def result(self, state: S) -> R:
        """What came of it."""
        ...


class HasStateShapes(ABC, Generic[T]):
    """Declares an algorithm whose start is work (a pass over the rows, draws, a first propagation): a resumed run need not do it again."""

    @abstractmethod
    def like(self) -> T:
        """A state with the types and shapes of the first one, whatever its numbers."""


class EstimatesSteps(ABC, Generic[U]):
    """Declares an algorithm that ends by a criterion, and tells from the steps that are done when it is likely to be met."""

    @abstractmethod
    def expected(self, state: U) -> int | None:
        """Steps in all; None if nothing shows that they will be fewer than there may be."""


def state_shapes(algorithm: Algorithm[S, R]) -> S:
    """A state whose types and shapes those of a checkpoint must have: without the work of a start, where that is any."""
    return algorithm.like() if isinstance(algorithm, HasStateShapes) else algorithm.init()


def run_algorithm(algorithm: Algorithm[S, R], state: S | None = None, *, watch: Watch | None = None) -> R:
    """Run an algorithm outside of a command: from its start, or on from a state, to its result."""
    begun = algorithm.init() if state is None else state
    told = None if watch is None else lambda now: watch(algorithm.progress(now))
    return algorithm.result(iterate.run_steps(algorithm.step, begun, until=algorithm.done, watch=told))
