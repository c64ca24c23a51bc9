"""`herd ups-infer --algorithm auto`: an exact algorithm if one fits into memory, else a comparison of several approximations."""

from __future__ import annotations

import math
import time
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

from herdcli.cli.ups_infer import queries
from herdcli.cli.ups_infer.request import Request
from herdcli.errors import DataError, Diverged, MemoryLimitExceeded, NegativeResult
from herdcli.markov.method import Delegate
from herdcli.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from herdcli.cli.frame.run.session import Session
    from herdcli.iterate import HasStep
    from herdcli.markov.algorithms.automatic import AutomaticChoice, MethodAttempt
    from herdcli.markov.method import InferenceMethod, InferenceResult, InferenceSettings
    from herdcli.markov.model.network import Network

    Run = Callable[..., InferenceResult]

TRIAL = 10  # trial steps to estimate the time of a step


def infer_automatically(session: Session, network: Network, settings: InferenceSettings, run: Run) -> tuple[InferenceResult, str]:
    """Return the result of the chosen algorithm and its name.  run  runs one algorithm."""
    from herdcli.artifacts import memory_budget
    from herdcli.artifacts.rows import arrays_file
    from herdcli.cli.ups_infer import auto_dry_run
    from herdcli.markov import algorithms
    from herdcli.markov.algorithms.automatic import MILLION, AutomaticChoice

    limit = session.max_memory or memory_budget.default_memory_limit()
    exact = algorithms.choose_exact_algorithm(
        network,
        settings,
        limit,
        partial(session.run_preparation, label="orders"),
        file_bytes=arrays_file.free_disk_bytes() // 2,
        map=session.map,
    )
    if isinstance(exact, algorithms.ExactCandidate):
        for option in ("effort", "time"):
            session.warn_of_ignored_option(option, "where auto is exact")
        session.console.note(f"auto: {exact.name}, {exact.why}")
        return run(session, network, replace(settings, algorithm=exact.name), True, exact.method), exact.name
    request = session.request
    assert isinstance(request, Request)
    if network.stored_marginals():
        session.console.note(f"auto: ups, {exact.why}")
        return run(session, network, replace(settings, algorithm="ups")), "ups"
    ends = None if request.time is None else time.monotonic() + request.time
    effort = float(round(request.effort * MILLION)) if ends is None else float("inf")
    sampled = queries.output_format(session, request.query_kind, request.format, request.evidence_rows) != "pr"
    choice = AutomaticChoice(network, settings, exact.why, effort, sampled, None if ends is None else partial(_affordable_steps, ends))
    if session.dry_run:
        auto_dry_run.print_auto_plan(session, choice, request.time or math.inf)
    spent = _try_algorithms(choice, partial(_attempt_algorithm, session, choice, run, ends), session.console.note)
    if ends is not None:
        session.request = replace(request, effort=spent / MILLION)
        session.console.note(f"auto: --effort {spent / MILLION:.6f} repeats this run, on any machine")
    found, name, told = choice.select_best_result()
    if len(choice.found) > 1:
        session.console.note(f"auto: {told}")
    return found, name


def _try_algorithms(
    choice: AutomaticChoice, attempt_method: Callable[[MethodAttempt], tuple[InferenceResult | None, int]], note: Callable[[str], None]
) -> float:
    """Run the algorithms that the choice proposes, and return the total work."""
    spent = 0.0
    for attempt in choice.attempts():
        note(f"auto: {attempt.name}, {attempt.why}")
        found, steps = attempt_method(attempt)
        spent += attempt.cost(steps)
        choice.add(attempt, found, steps)
    if not choice.found:
        raise Diverged("auto: none of the algorithms gave an answer", hint="use --algorithm double-loop, which converges on every network")
    return spent


def _attempt_algorithm(
    session: Session, choice: AutomaticChoice, run: Run, end_time: float | None, attempt: MethodAttempt
) -> tuple[InferenceResult | None, int]:
    """Return the result, or None if the algorithm failed, which a note reports, and the number of steps."""
    from herdcli.markov import algorithms

    watched: TimedMethod | None = None
    try:
        method = attempt.method or algorithms.make_inference_method(choice.network, attempt.settings, session.map)
        watched = TimedMethod(method, end_time if attempt.name == "gbp" else None)
        return run(session, choice.network, attempt.settings, True, watched), watched.made.count
    except (Diverged, NegativeResult, DataError) as error:
        if not attempt.is_tolerated(error):
            raise
        session.console.note(f"auto: {attempt.name} fails: {error.message}")
        return None, 0 if watched is None or isinstance(error, MemoryLimitExceeded) else watched.made.count


def _affordable_steps(end_time: float, method: InferenceMethod) -> int:
    """Return the number of steps of a method for which there is time, estimated from some trial steps."""
    try:
        state, started = method.init(), time.monotonic()
    except NegativeResult:
        return 0
    for _ in range(TRIAL):
        state = method.step(state)
    each = (time.monotonic() - started) / TRIAL
    return max(0, int((end_time - time.monotonic()) / max(each, 1e-9)))


@dataclass
class StepCounter:
    """A counter of the steps made."""

    count: int = 0


@dataclass(frozen=True)
class TimedMethod(Delegate):
    """A method that counts its steps and ends when its time is over."""

    ends: float | None
    made: StepCounter = field(default_factory=StepCounter)

    def step(self, state: HasStep) -> HasStep:
        """Make one step."""
        self.made.count += 1
        after: HasStep = self.method.step(state)
        return after

    def done(self, state: HasStep) -> bool:
        """Return whether the method is done or out of time; time counts only after the minimum number of steps."""
        from herdcli.markov.algorithms.automatic import LEAST

        late = self.ends is not None and self.made.count >= LEAST and time.monotonic() >= self.ends
        return late or self.method.done(state)
