"""`herd nherd-train --parts P`: rows learned in parts, divided among shards, and merged by precision.

With --rounds R, each part continues from the merged model of the previous round, for R rounds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.rows import labelled_examples
from herdcli.cli.frame.rows.labelled_examples import ClassificationRows
from herdcli.cli.frame.run import block_placement, shards
from herdcli.cli.nherd_train import dataset_rows, heldout_scores, row_sources, runs
from herdcli.cli.nherd_train.row_order import shuffle_if_sorted
from herdcli.errors import BadUsage, DataError
from herdcli.online.learner import OnlineLearner
from herdcli.online.learners import learning_rounds, partitioned_learning
from herdcli.online.learners.hyperparameter_race import EXAMPLES, ReplaySource, race_messages, run_race
from herdcli.online.predictions.coverage import Coverage
from herdcli.online.predictions.score_calibration import calibrate_model
from herdcli.splits import VALID

if TYPE_CHECKING:
    from herdcli.cli.frame.output.outputs import HistorySource
    from herdcli.cli.frame.rows.labelled_examples import ExampleInput
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.nherd_train.request import Request
    from herdcli.online.learners.partitioned_learning import ClassifierShard, EvaluationRows
    from herdcli.online.model import Classifier, RaceResults, Settings
    from herdcli.schema import Array


def learn_in_parts(session: Session, request: Request) -> None:
    """Learn this run's parts, and save a `classifier` or a shard of one."""
    outputs.check_artifact_output(session, "classifier")
    if request.rounds > 1 and session.shard is not None:
        raise BadUsage(
            "--rounds needs all parts in each round, but a shard has only some",
            hint="use --cluster WHERE instead, which keeps all parts with its workers",
        )
    settings = runs.learning_settings(request, None)
    form, label = request.input_format, request.label
    with labelled_examples.open_examples(
        session,
        request.source,
        role="data",
        passes=settings.passes,
        input_format=form,
        label=label,
        lazily=runs.can_stay_in_file(request.model, settings),
    ) as given:
        if given.data is None:
            raise BadUsage(
                "--parts divides the rows of a data set, but text is learned as it arrives",
                hint="make a data set: herd convert TEXT -o FILE.h5",
            )
        try:
            rows, settings = shuffle_if_sorted(
                session, dataset_rows.rows_for_task(session, given.data, request, None), settings, request.in_order
            )
            if request.coverage is not None and not (rows.split == VALID).any():
                why = "--coverage with --parts needs validation rows for the calibration, but there are none"
                raise BadUsage(why, hint="hold out some rows: --split .6,.2,.2")
            if request.rounds > 1:
                _learn_in_rounds(
                    session,
                    rows,
                    settings,
                    request.parts,
                    request.racing_algorithms,
                    request.racing_multiclass_forms,
                    request.rounds,
                    request.coverage,
                    given,
                )
                return
            made = _learn_parts(session, rows, settings, request, given.name)
        except DataError as error:
            error.where = error.where or given.name
            raise
        shards.save_units_or_shard(session, made, "parts", save_all_units, given.data, request)


def _learn_in_rounds(
    session: Session,
    rows: ClassificationRows,
    settings: Settings,
    parts: int,
    racing_algorithms: tuple[str, ...],
    racing_multiclass_forms: tuple[str, ...],
    rounds: int,
    coverage: float | None,
    example_input: ExampleInput,
) -> None:
    """Learn all parts in every round, and save a `classifier`."""
    train, chosen = _partition_rows(session, rows, settings.seed, settings.shuffle, parts, example_input.name)
    settings, table = _race_settings(session, rows, train, settings, racing_algorithms, racing_multiclass_forms)
    source = learning_rounds.PartSource(rows.X, rows.y, rows.weight, [train[part] for part in chosen])
    columns, size = rows.X.shape[1] + 1, row_sources.rows_per_block(settings.kernel, settings.covariance)
    algorithm = learning_rounds.RoundLearning(
        block_placement.place_blocks_on_workers(session, source), settings, columns, list(rows.names), rounds, size
    )
    made = session.run(algorithm, label="learning", memory="the weights of the parts")
    if coverage is not None:
        made = replace(made, coverage=Coverage(level=coverage, alpha=1.0 - coverage))
    made = calibrate_model(heldout_scores.with_heldout_scores(replace(made, feature_names=rows.feature_names, race=table), rows))
    _save_model(session, made, f"{rounds} rounds of {parts} parts", example_input.data)


def _partition_rows(
    session: Session, rows: ClassificationRows, seed: int, shuffle: bool, parts: int, name: str
) -> tuple[Array, list[Array]]:
    """Return the indices of the training rows, and for each part the positions of its rows among them."""
    train = np.flatnonzero(dataset_rows.training_mask(session, rows, name))
    if parts > len(train):
        raise BadUsage(f"--parts {parts} is more than the {len(train)} training rows", hint="give a smaller --parts")
    return train, partitioned_learning.partition_rows(len(train), parts, seed, shuffle=shuffle)


def _learn_parts(session: Session, rows: ClassificationRows, settings: Settings, request: Request, name: str) -> ClassifierShard:
    train, chosen = _partition_rows(session, rows, settings.seed, settings.shuffle, request.parts, name)
    units = shards.unit_numbers_of_run(session, request.parts, "parts")
    settings, table = (
        _race_settings(session, rows, train, settings, request.racing_algorithms, request.racing_multiclass_forms)
        if units or session.place.is_first
        else (settings, None)
    )
    learners = [_part_learner(session, rows, train[chosen[unit]], settings, request) for unit in units]
    learning = partitioned_learning.PartLearning(learners)
    made = session.run(learning, label="learning", memory="the weights of all parts") if units else []
    return partitioned_learning.ClassifierShard(
        place=session.place,
        units=request.parts,
        parts=[replace(part, feature_names=rows.feature_names) for part in made],
        rest=_heldout_rows(rows, table) if session.place.is_first else None,
    )


def _part_learner(session: Session, rows: ClassificationRows, chosen: Array, settings: Settings, request: Request) -> OnlineLearner:
    source = row_sources.memory_source(session, rows, chosen, settings)
    return OnlineLearner(settings, source, len(rows.names) or 2, rows.X.shape[1] + 1, rows, coverage=request.target_coverage(None))


def _race_settings(
    session: Session,
    rows: ClassificationRows,
    train: Array,
    settings: Settings,
    racing_algorithms: tuple[str, ...],
    racing_multiclass_forms: tuple[str, ...],
) -> tuple[Settings, RaceResults | None]:
    """Return the settings of all parts, with the algorithm and C that win a race on the first training rows."""
    if not racing_algorithms:
        return settings, None
    first = ReplaySource(row_sources.memory_source(session, rows, train, settings)).read_first_batches(EXAMPLES)
    settings, table = run_race(settings, first, len(rows.names), racing_algorithms, racing_multiclass_forms)
    head, *others = race_messages(settings, table)
    session.console.note(head)
    for line in others:
        session.console.detail(line)
    return settings, table


def _heldout_rows(rows: ClassificationRows, table: RaceResults | None) -> EvaluationRows:
    """Return the rows for the evaluation of the merged model."""
    held = heldout_scores.heldout_row_indices(rows)
    return partitioned_learning.EvaluationRows(rows.X[held], rows.y[held].astype(np.int64), rows.split[held].astype(np.uint8), table)


def save_all_units(session: Session, whole: ClassifierShard, history: HistorySource, request: Request) -> None:
    """Merge the parts, evaluate the merged model, and save it."""
    held, model = whole.rest, partitioned_learning.merge_parts(whole.parts, whole.rest)
    if held is not None and len(held.y):
        rows = ClassificationRows(held.X, held.y, held.split, list(model.classes), None, model.feature_names)
        model = calibrate_model(heldout_scores.with_heldout_scores(model, rows))
    _save_model(session, model, f"{len(whole.parts)} parts", history)


def _save_model(session: Session, model: Classifier, what: str, history: HistorySource) -> None:
    running = model.running
    judged = f", progressive error of the parts {running.wrong / running.seen:.4g}" if running.seen else ""
    outputs.write_artifact(session, model, f"{what}, {running.examples} examples{judged}", history=history)
