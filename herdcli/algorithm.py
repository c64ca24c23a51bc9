"""The interface of every iterated computation: its first state, its step, its stopping test and its result.

An algorithm is a frozen dataclass with the methods below; some of `markov` are plain classes, as their constructors derive orders and
index arrays.  Its fields are everything that its numbers depend on (rows, settings, seed), and how it is run (`map`).  Its state is a
dataclass that holds all that its future depends on.  The type of the state is known without a start, so that a resumed run reads its
checkpoint and never repeats `init`.  An algorithm whose start is expensive derives from `HasStateShapes` and has the method
`state_template` as well.
An algorithm declares further abilities by its base classes, never by the names of its attributes.  Commands run every algorithm by
the same call.  This call checks the memory, saves and resumes, responds to signals, tries the first steps for a dry run, and shows
the progress.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from herdcli import iterate
from herdcli.iterate import HasStep
from herdcli.records import dataclass

S = TypeVar("S", bound=HasStep)
T = TypeVar("T", bound=HasStep, covariant=True)
U = TypeVar("U", bound=HasStep, contravariant=True)
R = TypeVar("R", covariant=True)

# The built-in `map`, or one that uses several threads or workers.  No protocol describes the overloads of the built-in one.
Map: TypeAlias = Callable[..., Iterable[Any]]


@dataclass(frozen=True)
class RunProgress:
    """The progress of a run: `step` of at most `bound` steps (None: unknown), and the most important figure as a short text.

    share  the share of all work that is done, for steps of different cost; the remaining time is estimated from it.
    """

    step: int
    bound: int | None
    figure: str = ""
    share: float | None = None

    @property
    def done(self) -> float:
        """The share of the work that is done; 0 for a run without a bound."""
        return self.share if self.share is not None else self.step / self.bound if self.bound else 0.0


ProgressCallback = Callable[[RunProgress], None]  # called with the progress of a run after each of its steps


class FixedLengthAlgorithm(ABC, Generic[S]):
    """The base of algorithms whose number of steps is known beforehand."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """The total number of steps."""

    def done(self, state: S) -> bool:
        """Return whether all steps have been done."""
        return state.step >= self.steps


class Algorithm(Protocol[S, R]):
    """The methods that `session.run` needs from a computation."""

    @property
    def state(self) -> type[S]:
        """The type of its states."""
        ...

    def init(self) -> S:
        """Return the state before the first step (`step` is 0)."""
        ...

    def step(self, state: S) -> S:
        """Return the next state, after one block of work of a millisecond to a second; the step owns the arrays of the state it gets."""
        ...

    def done(self, state: S) -> bool:
        """Return whether no step is left: the last one has been done, or the stopping criterion is met."""
        ...

    def memory(self) -> int:
        """Return the bytes that the run needs in addition to its inputs; called before anything is computed."""
        ...

    def progress(self, state: S) -> RunProgress:
        """Return the progress at this state."""
        ...

    def result(self, state: S) -> R:
        """Return the result of the computation, from its last state."""
        ...


class HasStateShapes(ABC, Generic[T]):
    """The base of algorithms whose start is expensive (a pass over the rows, sampling, a first propagation).

    A resumed run skips the start.
    """

    @abstractmethod
    def state_template(self) -> T:
        """Return a state with the types and shapes of the first one; its numbers are arbitrary."""


class EstimatesSteps(ABC, Generic[U]):
    """The base of algorithms that end by a criterion and can estimate, from the steps done so far, when it will be met."""

    @abstractmethod
    def estimate_total_steps(self, state: U) -> int | None:
        """Return the estimated total number of steps, or None if there is no sign that it will be smaller than the maximum."""


def state_shapes(algorithm: Algorithm[S, R]) -> S:
    """Return a state whose types and shapes a checkpoint must have; the work of a start is avoided if the algorithm has
    `state_template`."""
    return algorithm.state_template() if isinstance(algorithm, HasStateShapes) else algorithm.init()


def run_algorithm(algorithm: Algorithm[S, R], state: S | None = None, *, watch: ProgressCallback | None = None) -> R:
    """Run an algorithm outside of a command, from its start or from a given state, and return its result."""
    begun = algorithm.init() if state is None else state
    told = None if watch is None else lambda now: watch(algorithm.progress(now))
    return algorithm.result(iterate.run_steps(algorithm.step, begun, until=algorithm.done, watch=told))
