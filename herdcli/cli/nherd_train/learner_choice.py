"""The choice of the learner of `herd nherd-train`: the fewest mistakes on the first examples, or over passes in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.cli.nherd_train import half_life_choice, in_memory
from herdcli.cli.nherd_train.reporting_learner import ReportingLearner
from herdcli.numerics.freed_memory import release_freed_memory
from herdcli.online.learners import hyperparameter_race
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.rows.labelled_examples import ClassificationRows
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.nherd_train.request import Request
    from herdcli.online.block_sources import MemorySource
    from herdcli.online.learners.drift_detection import DriftResult
    from herdcli.online.model import Classifier, RaceResults


@dataclass(frozen=True)
class LearnerChoice:
    """A learner, and the comparisons that chose it.

    race   errors of the algorithms and values of C that were compared; None: they were given.
    drift  the comparison of half-lives, if evidence fades.
    """

    learner: ReportingLearner
    race: RaceResults | None
    drift: DriftResult | None

    def with_comparison_record(self, model: Classifier) -> Classifier:
        """Return the learned model with a record of the comparisons that chose its learner."""
        return replace(model, race=self.race, forgetting=None if self.drift is None else self.drift.kept)


def choose_learner(session: Session, learner: ReportingLearner, request: Request, name: str = "") -> LearnerChoice:
    """Return the best learner on the first examples, among algorithms, values of C, covariances, half-lives and first-order learners.

    name  the name of the input, for errors.
    """
    learner, race = race_hyperparameters(
        session, learner, request.racing_algorithms, request.racing_multiclass_forms, request.algorithm, name
    )
    learner = choose_full_covariance(session, learner, request)
    drift = half_life_choice.find_half_life(session, learner, request.compares_half_lives)
    learner, drift = half_life_choice.prefer_first_order(session, learner, request, drift)
    release_freed_memory()  # of the compared learners
    return LearnerChoice(half_life_choice.learner_with_half_life(session, learner, drift), race, drift)


def choose_learner_in_memory(
    session: Session, learner: ReportingLearner, source: MemorySource, rows: ClassificationRows, request: Request
) -> LearnerChoice:
    """Return the best learner over passes that end when held-out error stops falling, or one whose evidence fades if it is better."""
    learner, race = race_hyperparameters(session, learner, request.racing_algorithms, request.racing_multiclass_forms, request.algorithm)
    drift = half_life_choice.find_half_life(session, learner, request.compares_half_lives)
    choice, passes = in_memory.choose_passes(session, learner, source, rows, request)
    if half_life_choice.passes_beat_drift(drift, choice):
        learner = replace(learner, settings=choice.settings, source=passes, scales=choice.scales, rows=len(source.label), chosen=True)
        return LearnerChoice(learner, choice.table, None)
    return LearnerChoice(half_life_choice.learner_with_half_life(session, learner, drift), race, drift)


def race_hyperparameters(
    session: Session,
    learner: ReportingLearner,
    racing_algorithms: tuple[str, ...],
    racing_multiclass_forms: tuple[str, ...],
    algorithm: str,
    name: str = "",
) -> tuple[ReportingLearner, RaceResults | None]:
    """Return the learner with the algorithm and C that win a race on its first examples, if a race is needed."""
    if not racing_algorithms:
        return learner, None
    replay = hyperparameter_race.ReplaySource(learner.source, name)
    least_squares = learner.settings.task == "regression" and learner.settings.covariance == "full" and algorithm == "auto"
    racers = ("arow",) if least_squares else racing_algorithms
    settings, table = hyperparameter_race.run_race(
        learner.settings, replay.read_first_batches(hyperparameter_race.EXAMPLES), learner.classes, racers, racing_multiclass_forms
    )
    first, *others = hyperparameter_race.race_messages(settings, table)
    session.console.note(first)
    for line in others:
        session.console.detail(line)
    return replace(learner, settings=settings, source=replay, chosen=True), table


def choose_full_covariance(session: Session, learner: ReportingLearner, request: Request) -> ReportingLearner:
    """Return the learner with a full covariance if that makes fewer mistakes on the first examples."""
    if (
        not request.races_full_covariance(frozenset(session.given))
        or session.dry_run
        or not isinstance(learner.source, hyperparameter_race.ReplaySource)
    ):
        return learner
    if learner.features > hyperparameter_race.FULL:  # as with hashed text: a covariance has all columns, even those that no example uses
        return learner
    found = hyperparameter_race.better_full_covariance_learner(
        learner.settings, learner.source.read_first_batches(hyperparameter_race.EXAMPLES), learner.classes
    )
    if found is None:
        return learner
    settings, error, diagonal = found
    second = "in the second half of the first examples"
    what = f"arow with a full covariance is used: {second}, its error is {error:.4g}, that of a diagonal one {diagonal:.4g}"
    session.console.note(f"{what} (--covariance diagonal turns it off)")
    return replace(learner, settings=settings)
