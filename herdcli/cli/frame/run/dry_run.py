"""--dry-run: a trial of some steps of a computation, and one line that predicts the cost of the whole run.

The prediction is in seconds of an otherwise idle machine.  On a busy machine the clock runs longer, both for the run and for the trial.
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
TRIAL_SECONDS = 0.5  # seconds of trial steps
TRIAL_STEPS, TRIAL_MOST = 8, 10.0  # for runs that end by a criterion: least number of trial steps, and most seconds of trial
ENDING = 0.05  # seconds for writing the result and ending the process
KNOWN, LIKELY, MOST, LEAST = "", "likely ", "at most ", "at least "


class CpuStopwatch:
    """A clock that stops while other programs use the processor: it shows the smaller of wall-clock time and this program's CPU time.

    It does not count the time spent waiting for files or pipes; with several threads it shows the wall-clock time.
    """

    def __init__(self) -> None:
        self.wall, self.work = time.monotonic(), time.process_time()

    def seconds(self) -> float:
        """Return the seconds since the stopwatch was made."""
        return min(time.monotonic() - self.wall, time.process_time() - self.work)


@dataclass(frozen=True)
class TrialRun(Generic[S]):
    """The result of some trial steps: the last state, whether the run is done, and the cost of the whole run.

    steps  the number of steps of the whole run; `how` says whether it is exact, likely, an upper or a lower bound.
    more   seconds of the run in addition to those that the trial took.
    size   bytes of the run in addition to those that are in use now.
    """

    state: S
    done: bool
    steps: int
    how: str
    more: float
    size: int


def run_trial_steps(
    algorithm: Algorithm[S, object], after: Callable[[S], tuple[float, int]] | None = None, *, longer: float = 1.0
) -> TrialRun[S]:
    """Run some trial steps and return the predicted cost of the whole run.

    after   returns, for a state, the seconds and bytes of the work after the last step.
    longer  a factor for the usual duration of a trial.
    The first step is not extrapolated, because it loads what later steps reuse.  The time of the other trial steps is scaled by their share
    of the work.  A run without a bound on its steps counts only the trial steps.  If a criterion ends the run and the first steps show how
    soon, the predicted number of steps is used.
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
    likely = algorithm.estimate_total_steps(state) if isinstance(algorithm, EstimatesSteps) and not done else None
    times = 1.0
    if likely is not None:
        times = (likely - first.step) / (last.step - first.step)
    elif not done and last.bound is not None:
        times = (1.0 - first.done) / (last.done - first.done)
    steps = likely or (last.step if last.bound is None or done else last.bound)
    how = KNOWN if done else LEAST if last.bound is None else KNOWN if isinstance(algorithm, FixedLengthAlgorithm) else MOST
    seconds, size = after(state) if after else (0.0, 0)
    return TrialRun(state, done, steps, how if likely is None else LIKELY, (times - 1.0) * taken + seconds, size)


def print_plan_and_exit(
    console: Console, label: str, step_qualifier: str, steps: int, further_seconds: float, further_bytes: int
) -> NoReturn:
    """Print the cost of a run (`further_seconds` seconds and `further_bytes` bytes in addition to those used so far) and end the
    command."""
    seconds = min(console.startup + console.elapsed_seconds(), time.process_time()) + further_seconds + ENDING
    peak = format_size(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + further_bytes)
    write_stdout(f"{label}: {step_qualifier}{steps} step{'' if steps == 1 else 's'}, about {seconds:.3g} s and {peak} of memory\n")
    raise click.exceptions.Exit(0)
