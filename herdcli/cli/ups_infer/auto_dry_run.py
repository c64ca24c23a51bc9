"""`--dry-run` with --algorithm auto if nothing exact fits: each algorithm that it is likely to try runs for some steps."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from herdcli.cli.frame.run import dry_run
from herdcli.errors import DataError, Diverged, NegativeResult
from herdcli.markov.algorithms.automatic import CHAINS

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session
    from herdcli.iterate import HasStep
    from herdcli.markov.algorithms.automatic import AutomaticChoice, MethodAttempt
    from herdcli.markov.method import InferenceMethod, InferenceResult

PATIENT = 4.0  # chains are tried this many times longer, because their rate predicts that of later chains
SURE = 1e-3  # residual below which marginals are final enough to compare two approximations


def print_auto_plan(session: Session, choice: AutomaticChoice, max_seconds: float) -> NoReturn:
    """Print the plan of `auto`, which ends at most `max_seconds` seconds from now, and end the command.

    Where trials do not decide, the more expensive case is assumed: approximations that have not converged may disagree.
    """
    plan, began = AutoPlan(session, choice), time.monotonic()
    for attempt in choice.attempts():
        session.console.note(f"auto: {attempt.name}, {attempt.why}")
        plan.add(attempt)
    names = ", ".join(dict.fromkeys(plan.names))
    left = max_seconds - (time.monotonic() - began)
    how = dry_run.MOST if choice.unsure or left < plan.more else plan.how
    dry_run.print_plan_and_exit(session.console, names, how, plan.steps, min(left, plan.more), plan.size)


class AutoPlan:
    """The trials so far.  rate  the seconds that the chains need per unit of their work."""

    def __init__(self, session: Session, choice: AutomaticChoice) -> None:
        self.session, self.choice = session, choice
        self.names: list[str] = []
        self.how, self.steps, self.more, self.size, self.rate = dry_run.KNOWN, 0, 0.0, 0, 0.0

    def add(self, attempt: MethodAttempt) -> None:
        """Try an algorithm for some steps, and give its projected result to the choice."""
        from herdcli.markov import algorithms

        method = attempt.method or algorithms.make_inference_method(self.choice.network, attempt.settings, self.session.map)
        found, steps = None, 0
        try:
            trial = self._run_trial(method, attempt)
            self.steps, self.more = self.steps + trial.steps, self.more + trial.more
            self.how = max(self.how, trial.how, key=[dry_run.KNOWN, dry_run.LIKELY, dry_run.MOST].index)
            self.session.require_memory(trial.size, method.bytes_needed(trial.state)[1])  # as the run does, after the steps
            found, steps = self._projected_result(method, trial, attempt), trial.steps
            self.names.append(attempt.name)
            self.size = max(self.size, trial.size)
        except (Diverged, NegativeResult, DataError) as error:
            if not attempt.is_tolerated(error):
                raise
        self.choice.add(attempt, found, steps)

    def _run_trial(self, method: InferenceMethod, attempt: MethodAttempt) -> dry_run.TrialRun[HasStep]:
        """Run some steps; chains run only the first time, because the second time the cost per unit of work is known."""
        if attempt.name == CHAINS and self.rate:
            state = method.init()
            seconds, size = self.rate * attempt.work * method.steps, method.bytes_needed(state)[0]
            return dry_run.TrialRun(state, False, method.steps, dry_run.KNOWN, seconds, size)
        watch = dry_run.CpuStopwatch()
        trial = dry_run.run_trial_steps(
            method, lambda state: (0.0, method.bytes_needed(state)[0]), longer=PATIENT if attempt.name == CHAINS else 1.0
        )
        if attempt.name == CHAINS:
            self.rate = (watch.seconds() + trial.more) / (trial.steps * attempt.work)
        return trial

    def _projected_result(
        self, method: InferenceMethod, trial: dry_run.TrialRun[HasStep], attempt: MethodAttempt
    ) -> InferenceResult | None:
        """Return the result of a trial as if it had continued as expected; None for the last chains, after which nothing is decided."""
        if attempt.name == CHAINS and attempt.name in self.choice.found:
            return None
        found = method.result(trial.state)
        if trial.done or (trial.steps == method.steps and attempt.name != CHAINS):
            return found
        if attempt.name == CHAINS:  # assume that they do not mix
            return replace(found, attributes=found.attributes | {"residual": math.inf, "converged": False})
        self.choice.unsure |= found.attributes["residual"] > SURE
        return replace(found, attributes=found.attributes | {"converged": True})
