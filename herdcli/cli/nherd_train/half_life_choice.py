"""The learners that `herd nherd-train` compares with the winner of the race: learners that forget, and first-order learners."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from herdcli.online.learners.drift_detection import SURE, DriftResult, compare_half_lives
from herdcli.online.learners.hyperparameter_race import EXAMPLES, ReplaySource, better_first_order_learner

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.nherd_train.request import Request
    from herdcli.online.learner import OnlineLearner
    from herdcli.online.learners.early_stopping import PassChoice

L = TypeVar("L", bound="OnlineLearner")


def find_half_life(session: Session, learner: OnlineLearner, compares_half_lives: bool) -> DriftResult | None:
    """Return the best learner that forgets, if it is better than one that does not."""
    if not compares_half_lives or learner.settings.shuffle or session.dry_run:
        return None
    source = learner.source if isinstance(learner.source, ReplaySource) else ReplaySource(learner.source)
    return compare_half_lives(learner.settings, source.read_first_batches(EXAMPLES), learner.classes)


def prefer_first_order(session: Session, learner: L, request: Request, drift: DriftResult | None) -> tuple[L, DriftResult | None]:
    """Return a PA-I or perceptron learner if it makes fewer mistakes on the first examples; else the arguments unchanged."""
    if not request.races_full_covariance(frozenset(session.given)) or session.dry_run or not isinstance(learner.source, ReplaySource):
        return learner, drift
    if learner.settings.covariance != "diagonal":
        return learner, drift
    rival = better_first_order_learner(
        learner.settings, learner.source.read_first_batches(EXAMPLES), learner.classes, request.racing_multiclass_forms
    )
    if rival is None or (drift is not None and drift.errors.mean() <= rival.errors.mean()):
        return learner, drift
    name = "" if learner.count == 1 else f" {rival.settings.multiclass}"
    C = "" if rival.settings.algorithm == "perceptron" else f" with C = {rival.settings.C:.4g}"
    session.console.note(
        f"{rival.settings.algorithm}{name}{C} is used: in the second half of the first examples, its error is {rival.errors.mean():.4g} "
        f"and that of {learner.settings.algorithm} is {rival.error_of_winner:.4g} (--algorithm {learner.settings.algorithm} uses that one)"
    )
    return replace(learner, settings=rival.settings), None


def passes_beat_drift(drift: DriftResult | None, choice: PassChoice) -> bool:
    """Return whether passes over rows in memory make fewer mistakes than a learner that forgets, or not significantly more."""
    if drift is None:
        return True
    held = float(choice.table.error.min())
    return not held - drift.errors.mean() > SURE * (held * (1 - held) / len(drift.errors)) ** 0.5


def learner_with_half_life(session: Session, learner: L, drift: DriftResult | None) -> L:
    """Return the learner with the half-life and C of the best learner that forgets, and print a note."""
    if drift is None:
        return learner
    last, settings = float(drift.kept.still[len(drift.kept.still) // 2 :].mean()), drift.settings
    session.console.note(
        f"the stream drifts: with --half-life {settings.half_life:g} and C = {settings.C:.4g} the error is {drift.errors.mean():.4g} in "
        f"the second half of the first examples, without it {last:.4g} (--half-life none turns it off)"
    )
    return replace(learner, settings=settings)
