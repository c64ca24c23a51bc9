"""`herd ups-infer --algorithm auto`: the exact algorithm that fits, else what several approximations have in common."""

from __future__ import annotations

import math
import time
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

from herdcli.cli.ups_infer import queries
from herdcli.cli.ups_infer.request import Request
from herdcli.errors import BadUsage, DataError, Diverged, NegativeResult, NoRoom
from herdcli.markov.method import Delegate
from herdcli.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from herdcli.cli.frame.session import Session
    from herdcli.iterate import Steppable
    from herdcli.markov.algorithms.automatic import Attempt, Choice
    from herdcli.markov.method import Method, Result, Settings
    from herdcli.markov.model.network import Network

    Run = Callable[..., Result]

TRIAL = 10  # steps


def infer(session: Session, network: Network, asked: Settings, run: Run) -> tuple[Result, str]:
    """The result of the algorithm that is chosen, and its name.  run  runs one algorithm."""
    from herdcli.artifacts import arrays_file, memory
    from herdcli.cli.ups_infer import planned
    from herdcli.markov import algorithms
    from herdcli.markov.algorithms.automatic import MILLION, Choice

    if session.checkpoint:
        raise BadUsage("--algorithm auto takes no checkpoint", hint="name the algorithm")
    limit = session.max_memory or memory.default_limit()
    exact = algorithms.exactly(network, asked, limit, partial(session.aside, label="orders"), room=arrays_file.room() // 2, map=session.map)
    if isinstance(exact, algorithms.Candidate):
        for option in ("effort", "time"):
            session.ignored(option, "where auto is exact")
        session.console.note(f"auto: {exact.name}, {exact.why}")
        return run(session, network, replace(asked, algorithm=exact.name), True, exact.method), exact.name
    request = session.request
    assert isinstance(request, Request)
    if network.observations():
        session.console.note(f"auto: ups, {exact.why}")
        return run(session, network, replace(asked, algorithm="ups")), "ups"
    ends = None if request.time is None else time.monotonic() + request.time
    effort = float(round(request.effort * MILLION)) if ends is None else float("inf")
    sampled = queries.output_format(session, request) != "pr"
    choice = Choice(network, asked, exact.why, effort, sampled, None if ends is None else partial(_steps_until, ends))
    if session.dry_run:
        planned.tell(session, choice, request.time or math.inf)
    spent = _tried(choice, partial(_attempt, session, choice, run, ends), session.console.note)
    if ends is not None:
        session.request = replace(request, effort=spent / MILLION)
        session.console.note(f"auto: --effort {spent / MILLION:.6f} repeats what the time allowed")
    found, name, told = choice.best()
    if len(choice.found) > 1:
        session.console.note(f"auto: {told}")
    return found, name


def _tried(choice: Choice, attempted: Callable[[Attempt], tuple[Result | None, int]], note: Callable[[str], None]) -> float:
    """Run what there is to try; the work that was done."""
    spent = 0.0
    for attempt in choice.attempts():
        note(f"auto: {attempt.name}, {attempt.why}")
        found, steps = attempted(attempt)
        spent += attempt.cost(steps)
        choice.add(attempt, found, steps)
    if not choice.found:
        raise Diverged("auto: nothing that was tried gave an answer", hint="--algorithm double-loop, which converges on every network")
    return spent


def _attempt(session: Session, choice: Choice, run: Run, ends: float | None, attempt: Attempt) -> tuple[Result | None, int]:
    """The result (None: it failed, which is told), and how many steps it took."""
    from herdcli.markov import algorithms

    watched: Watched | None = None
    try:
        method = attempt.method or algorithms.method(choice.network, attempt.settings, session.map)
        watched = Watched(method, ends if attempt.name == "gbp" else None)
        return run(session, choice.network, attempt.settings, True, watched), watched.made.count
    except (Diverged, NegativeResult, DataError) as error:
        if not attempt.may_fail(error):
            raise
        session.console.note(f"auto: {attempt.name} fails: {error.message}")
        return None, 0 if watched is None or isinstance(error, NoRoom) else watched.made.count


def _steps_until(ends: float, method: Method) -> int:
    """How many steps of a method there is time for, judged from some that are thrown away."""
    try:
        state, started = method.init(), time.monotonic()
    except NegativeResult:
        return 0
    for _ in range(TRIAL):
        state = method.step(state)
    each = (time.monotonic() - started) / TRIAL
    return max(0, int((ends - time.monotonic()) / max(each, 1e-9)))


@dataclass
class Steps:
    """How many have been made."""

    count: int = 0


@dataclass(frozen=True)
class Watched(Delegate):
    """A method that counts its steps, and is done when its time is up."""

    ends: float | None
    made: Steps = field(default_factory=Steps)

    def step(self, state: Steppable) -> Steppable:
        """One step more."""
        self.made.count += 1
        after: Steppable = self.method.step(state)
        return after

    def done(self, state: Steppable) -> bool:
        """Whether it is done, or out of time (not before the fewest steps that it would be begun for)."""
        from herdcli.markov.algorithms.automatic import LEAST

        late = self.ends is not None and self.made.count >= LEAST and time.monotonic() >= self.ends
        return late or self.method.done(state)
