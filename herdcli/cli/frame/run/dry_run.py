"""--dry-run: some steps of a computation are tried, and what they say of the whole is told in one line.

What is told are seconds of a machine that has nothing else to do: on a crowded one the clock says more, and says it of the trial too.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

import click

from herdcli import iterate
from herdcli.artifacts.message_numbers import format_size
from herdcli.cli.frame.run.console import Console, write_stdout
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.algorithm import Algorithm

S = TypeVar("S", bound=iterate.HasStep)
TRIAL_SECONDS = 0.5  # of steps that are tried
TRIAL_STEPS, TRIAL_MOST = 8, 10.0  # of what a criterion ends: steps that are tried at least, for no more seconds
ENDING = 0.05  # seconds in which what a run has made is written, and its process ends
KNOWN, LIKELY, MOST, LEAST = "", "likely ", "at most ", "at least "


class CpuStopwatch:
    """A clock that stands still while other programs have the processor: it runs as that of the wall does, or as this program's work if
    that is less.

    What is waited for, files or what comes through a pipe, it leaves out; with several threads it is the wall's.
    """

    def __init__(self) -> None:
        self.wall, self.work = time.monotonic(), time.process_time()

    def seconds(self) -> float:
        """Since it was made."""
        return min(time.monotonic() - self.wall, time.process_time() - self.work)


@dataclass(frozen=True)
class TrialRun(Generic[S]):
    """What some steps have shown of a run: the state they came to, whether it is the last, and what all of it will take.

    steps   in all, in the words of `how`.  more  seconds beyond those that the trial took.  size  bytes beyond those that are taken now.
    """

    state: S
    done: bool
    steps: int
    how: str
    more: float
    size: int


def try_steps(
    algorithm: Algorithm[S, object], after: Callable[[S], tuple[float, int]] | None = None, *, longer: float = 1.0
) -> TrialRun[S]:
    """Try some steps.  after  from a state: the seconds and bytes of what follows the steps.  longer  times the usual time of a trial.

    The first step loads what the others find loaded; of the others the run takes as much as their share of the work is, without a bound
    only those that were tried.  Where a criterion ends it, and the first steps show how soon, of so many steps.
    """
    from herdcli.algorithm import EstimatesSteps, FixedLengthAlgorithm

    state = algorithm.init()
    state = state if algorithm.done(state) else algorithm.step(state)
    watch, started, first = CpuStopwatch(), time.monotonic(), algorithm.progress(state)
    ends = isinstance(algorithm, EstimatesSteps)
    while not algorithm.done(state) and (gone := time.monotonic() - started) < TRIAL_MOST:
        if gone >= longer * TRIAL_SECONDS and (not ends or state.step >= TRIAL_STEPS):
            break
        state = algorithm.step(state)
    taken, last, done = watch.seconds(), algorithm.progress(state), algorithm.done(state)
    likely = algorithm.expected(state) if isinstance(algorithm, EstimatesSteps) and not done else None
    times = 1.0
    if likely is not None:
        times = (likely - first.step) / (last.step - first.step)
    elif not done and last.bound is not None:
        times = (1.0 - first.done) / (last.done - first.done)
    steps = likely or (last.step if last.bound is None or done else last.bound)
    how = KNOWN if done else LEAST if last.bound is None else KNOWN if isinstance(algorithm, FixedLengthAlgorithm) else MOST
    seconds, size = after(state) if after else (0.0, 0)
    return TrialRun(state, done, steps, how if likely is None else LIKELY, (times - 1.0) * taken + seconds, size)


def report_plan(console: Console, label: str, how: str, steps: int, more: float, size: int) -> NoReturn:
    """Say what a run would take, so much more than the seconds and bytes that are taken now, and end the command."""
    seconds = min(console.startup + console.elapsed(), time.process_time()) + more + ENDING
    peak = format_size(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + size)
    write_stdout(f"{label}: {how}{steps} step{'' if steps == 1 else 's'}, about {seconds:.3g} s and {peak} of memory\n")
    raise click.exceptions.Exit(0)
