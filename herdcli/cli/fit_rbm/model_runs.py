"""`herd fit-rbm`: one model, or one model for each class and fold, divided among shards.

The learning is in herdcli.rbm.learning.parallel_fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from herdcli.artifacts.tables.dataset_preparation import current_split_rule
from herdcli.cli.fit_rbm import distributed_minibatches, hidden_size, missing_values
from herdcli.cli.fit_rbm.filter_film import FilterAnimation
from herdcli.cli.fit_rbm.labelled_rows import append_labels, column_scaling_with_labels
from herdcli.cli.fit_rbm.messages import note_best_epoch, note_omitted_heldout_rows, warn_of_nearly_improper, warn_of_training_rows
from herdcli.cli.fit_rbm.text_units import resolve_text_units
from herdcli.cli.frame.output import animations, outputs
from herdcli.cli.frame.rows.column_order import drop_zero_weights, warn_of_unused_weights
from herdcli.cli.frame.run import exact_mode, shards
from herdcli.errors import BadUsage, DataError
from herdcli.kinds import kind_for_value
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.fit_rbm.request import Request
    from herdcli.cli.frame.output.outputs import HistorySource
    from herdcli.cli.frame.rows.dataset_rows import PreparedRows
    from herdcli.cli.frame.run.session import Session
    from herdcli.numerics.row_selection import SelectedRows
    from herdcli.numerics.streamed_rows import StreamedRows
    from herdcli.rbm.class_models import LearnedClassModel, RBMShard
    from herdcli.rbm.learning.class_rows import ClassGroups
    from herdcli.rbm.learning.learning_state import LearningState
    from herdcli.rbm.learning.minibatch_statistics import RemoteGroups
    from herdcli.rbm.learning.parallel_fits import LearningProblem, Settings
    from herdcli.rbm.model import RBM
    from herdcli.schema import Array


REAL_UNIT = 20  # bytes per entry that reading and learning real values in memory need in addition to the stored ones


@dataclass(frozen=True)
class FitInputs:
    """Rows with the class (n,) of each among `names`, the settings of the learning, and the earlier models that learning continues."""

    rows: PreparedRows
    y: Array
    names: list[str]
    settings: Settings
    scored: bool  # whether there is one model for each class
    history: Artifact
    earlier: RBM | None = None
    labels: list[str] | None = None  # class names, if labels are the last visible unit
    known: Array | None = None  # the known entries of the rows, (n, D) bool; None: all


def fit_models(session: Session, request: Request) -> None:
    """Learn models and save an artifact of kind `rbm` or a shard of one."""
    from herdcli.rbm import class_models
    from herdcli.rbm.learning.class_rows import assign_class_folds
    from herdcli.rbm.learning.parallel_fits import LearningProblem, RBMLearning
    from herdcli.rbm.learning.validation import MOST
    from herdcli.rbm.model import RBM

    outputs.check_artifact_output(session, kind_for_value(RBM).name)
    animations.check_animations(session, request.plots, "filters")
    if request.draw_missing:
        missing_values.refuse_for_missing_values(session, request)
    if request.hidden == "auto":
        if request.plots:
            raise BadUsage("--plot filters needs a number of hidden units, but --hidden auto tries several", hint="use --hidden N")
        hidden_size.refuse_shards(session)
    given = _inputs_to_continue(session, request) if request.model else _inputs_from_scratch(session, request)
    rows, settings = given.rows, given.settings
    exact_mode.refuse_units_when_exact(session, settings.visible_units, settings.hidden_units)
    groups = assign_class_folds(rows.X, given.y, rows.split, given.names, folds=request.folds or 0, seed=settings.seed)
    problem = LearningProblem(
        groups.training_rows(),
        settings,
        groups.X[groups.heldout_indices] if settings.average_scores else None,
        valid=_validation_rows(groups, settings, needed=request.hidden == "auto"),
        told=groups.evenly_spaced_validation_rows(MOST) if settings.epochs_per_evaluation and given.scored else None,
        begun=None if given.earlier is None else class_models.find_resume_point(given.earlier),
        known=missing_values.known_masks_per_model(groups, given.known),
    )
    count = len(problem.rows)
    away = distributed_minibatches.minibatches_on_workers(session, problem) if count == 1 and not request.per_class else None
    if away is None:
        animations.refuse_cluster(session, request.plots)
    units = range(1) if away is not None else shards.unit_numbers_of_run(session, count, "models")
    own = problem if len(units) == count else problem.select_models(units) if units else None
    if own is not None:
        session.require_memory(RBMLearning(own).memory(), f"learning {len(units)} × {rows.X.shape[1]} × {settings.hidden} weights")
    learned: dict[str, object] = rows.reading_record()
    warn_of_training_rows(session, problem, getattr(rows, "feature_names", None))
    parts: list[LearnedClassModel] = []
    if own is not None:
        parts, more = _learn_models(session, request, groups, own, units, given, away)
        learned |= more
    seen = column_scaling_with_labels(learned, given.labels)
    made = class_models.RBMShard(
        place=session.place,
        units=count,
        parts=parts,
        rest=class_models.collect_shared_parts(
            groups, settings, scored=given.scored, parts=request.split, label=request.label, by_class=current_split_rule().by_class, **seen
        )
        if session.place.is_first
        else None,
    )
    shards.save_units_or_shard(session, made, "models", save_all_units, given.history, request)


def _validation_rows(groups: ClassGroups, settings: Settings, *, needed: bool) -> Sequence[SelectedRows | StreamedRows] | None:
    """Return the validation rows of each model if they are needed; for a tracked likelihood alone, only if there are any."""
    if settings.epochs_per_evaluation or needed:
        return groups.validation_rows()
    try:
        return groups.validation_rows() if settings.track_likelihood else None
    except DataError:
        return None


def _inputs_from_scratch(session: Session, request: Request) -> FitInputs:
    """Return the inputs of models that start from random weights."""
    from herdcli.cli.frame.rows.dataset_rows import OF_MODELS, RowReading, rows_in_units
    from herdcli.cli.frame.rows.streamed_rows import suggest_streaming
    from herdcli.rbm.learning.class_rows import largest_class_size
    from herdcli.rbm.units import unit_family

    settings = request.settings()
    data, known = (
        missing_values.read_rows(session, request.source, request.input_format, request.label, request.seed)
        if request.draw_missing
        else (_load_data(session, request, settings), None)
    )
    data = drop_zero_weights(session, data) if known is None else data
    warn_of_unused_weights(session, data.value)
    settings = replace(settings, visible_units=resolve_text_units(session, settings.visible_units, data))
    reading = replace(RowReading.from_request(request, default=OF_MODELS), in_place=True, sparse=not request.labels)
    on_disk = "--on-disk --split 1,0,0 reads rows in shuffled blocks and keeps none with the model"
    with suggest_streaming(on_disk, lambda: request.source != "-" and not request.in_memory_option(), request.source):
        rows = rows_in_units(session, data, unit_family(settings.visible_units), reading)
    request = request.resolve_for_columns(rows.X.shape[1], settings.visible_units)
    settings = replace(settings, algorithm=request.algorithm)
    data = replace(data, value=None)  # frees memory: only the prepared rows are needed from here on
    if known is not None:
        rows, known = missing_values.drop_incomplete_heldout_rows(session, rows, known)
    y, names = rows.labels_and_class_names(data.name, "--per-class") if request.per_class else rows.single_class_labels()
    if request.per_class and len(names) == 1:
        raise DataError(f"has only one label, {names[0]}, but classes need at least two", where=data.name)
    if request.labels:
        rows, labels, settings = append_labels(request.generative_share, request.labels, rows, data.name, settings)
        settings = request.settings_for_row_count(settings, largest_class_size(y, rows.split), partial(largest_moment, rows, settings))
        session.request = replace(request, **settings.data_dependent_settings())
        return FitInputs(
            rows, y, names, settings, False, data, labels=labels, known=missing_values.known_mask_with_labels(known, len(labels))
        )
    settings = request.settings_for_row_count(settings, largest_class_size(y, rows.split), partial(largest_moment, rows, settings))
    session.request = replace(_request_with_on_disk(request, rows), **settings.data_dependent_settings())
    return FitInputs(rows, y, names, settings, request.per_class, data, known=known)


def largest_moment(rows: PreparedRows, settings: Settings) -> float:
    """Return the bound on the learning rate: the largest moment of the training rows, or for word counts a statistic of their totals."""
    import numpy as np

    from herdcli.numerics.row_selection import SelectedRows
    from herdcli.numerics.streamed_rows import StreamedRows
    from herdcli.rbm.learning.curvature_bound import estimate_hidden_input_shift, largest_covariance_eigenvalue, mean_squared_row_sum
    from herdcli.rbm.units import unit_family
    from herdcli.schema import is_sparse
    from herdcli.splits import TRAIN

    if unit_family(settings.visible_units).multinomial:
        return (estimate_hidden_input_shift if settings.tempers_lengths else mean_squared_row_sum)(
            rows.X[np.flatnonzero(rows.split == TRAIN)]
        )
    if isinstance(rows.X, np.ndarray) or is_sparse(rows.X):
        return largest_covariance_eigenvalue(SelectedRows(rows.X, np.flatnonzero(rows.split == TRAIN)))
    return largest_covariance_eigenvalue(StreamedRows(rows.X, rows.split, TRAIN))


def _load_data(session: Session, request: Request, settings: Settings) -> Artifact:
    """Return the data set, in memory, or with its rows left in the file if that is requested or they do not fit into memory."""
    from herdcli.cli.frame.rows import streamed_rows
    from herdcli.rbm.units import unit_family

    if not request.in_memory_option():
        unit_bytes = 1 if unit_family(settings.visible_units).two_state else REAL_UNIT
        found = streamed_rows.open_streamed_dataset(
            session,
            request.source,
            label=request.label,
            input_format=request.input_format,
            is_requested=bool(request.on_disk),
            unit_bytes=unit_bytes,
        )
        if found is not None:
            return found
    smaller = streamed_rows.FEWER_COLUMNS.replace(" -o", f" --label {request.label} -o" if request.label else " -o")
    with streamed_rows.suggest_streaming(smaller, request.in_memory_option):
        return session.load(request.source, "data", kinds={"dataset"}, input_format=request.input_format, label=request.label)


def _request_with_on_disk(request: Request, rows: PreparedRows) -> Request:
    """Return the request for the record, with --on-disk if rows are read, and so shuffled, in blocks."""
    import numpy as np

    return request if isinstance(rows.X, np.ndarray) or hasattr(rows.X, "indptr") else replace(request, on_disk=True)


def _inputs_to_continue(session: Session, request: Request) -> FitInputs:
    """Return the inputs of models whose learning is continued; their rows are read as in the first run."""
    from herdcli.cli.frame.rows.dataset_rows import model_class_indices, rows_for_model
    from herdcli.rbm.model import RBM

    earlier: RBM = session.load(str(request.model), "model", kinds={kind_for_value(RBM).name}).value
    settings = request.settings_to_continue(earlier)
    request = replace(request, seed=settings.seed)
    data = _load_data(session, request, settings)
    warn_of_unused_weights(session, data.value)
    rows = rows_for_model(session, earlier, data, request, sparse=True, in_place=True)
    data = replace(data, value=None)
    y = model_class_indices(earlier, rows, data.name)
    if earlier.kept is None:
        session.console.note(
            f"{request.model} has no saved state, so momentum, chains and learning rates start again (herd fit-rbm --keep-state saves them)"
        )
    session.request = replace(_request_with_on_disk(request, rows).with_chosen_settings(settings), epochs=request.epochs)
    names = earlier.classes or rows.single_class_labels()[1]
    return FitInputs(rows, rows.single_class_labels()[0] if y is None else y, names, settings, y is not None, data, earlier, earlier.labels)


def _learn_models(
    session: Session,
    request: Request,
    groups: ClassGroups,
    problem: LearningProblem,
    units: Sequence[int],
    inputs: FitInputs,
    remote_groups: RemoteGroups | None,
) -> tuple[list[LearnedClassModel], dict[str, object]]:
    """Learn the models with these unit numbers and return them with other results.

    The other results are the numbers of hidden units that were tried and the scales removed from the columns.
    """
    from herdcli.rbm import class_models
    from herdcli.rbm.learning.parallel_fits import RBMLearning

    more: dict[str, object] = {}
    if request.hidden == "auto":
        found = hidden_size.choose_hidden_size(session, problem, len(groups.names))
        state, more["sizes"] = found.state, found.sizes
    else:
        going_on = partial(_request_of_shorter_run, session, request, inputs), partial(_resume_with_more_epochs, session, problem)
        longer = None if problem.settings.average_scores else going_on
        label = f"learning by {problem.settings.algorithm}" if session.dry_run else "learning"
        algorithm = RBMLearning(problem, session.map, remote_groups)
        film = FilterAnimation(session, request, algorithm, inputs.rows.image_shape) if request.plots else None
        state = session.run(algorithm, label=label, longer=longer)
        if film is not None:
            film.write()
    if state.log_scale is not None:
        state, freed = class_models.divide_by_learned_deviations(
            groups, state, inputs.rows.column_mean, inputs.rows.column_scale, len(inputs.labels or ())
        )
        more |= freed
    made = class_models.collect_models(
        groups, state, problem.settings, units, scored=inputs.scored, keep=bool(request.keep_state), map=session.map
    )
    if problem.known is not None:
        made = [replace(one, training_energy=None) for one in made]  # the known part of a row has another free energy than the whole row
    return made, more


def _request_of_shorter_run(session: Session, request: Request, inputs: FitInputs, state: LearningState) -> Request:
    """Return the request of the shorter run that a state belongs to: its number of epochs and the learning rate chosen for them."""
    from herdcli.rbm.learning.class_rows import largest_class_size

    fewer = inputs.settings.epochs - len(state.trace)
    asked: Request = session.request  # type: ignore[assignment]
    if fewer <= 0:
        return asked
    if not request.model:
        fewer_epochs = replace(inputs.settings, epochs=len(state.trace))
        chosen = request.settings_for_row_count(
            fewer_epochs, largest_class_size(inputs.y, inputs.rows.split), partial(largest_moment, inputs.rows, inputs.settings)
        )
        asked = replace(asked, learning_rate=chosen.learning_rate)
    return replace(asked, epochs=request.epochs - fewer)


def _resume_with_more_epochs(session: Session, problem: LearningProblem, state: LearningState) -> LearningState:
    """Return the state extended to the larger number of epochs, and print a note."""
    from herdcli.rbm.learning.epoch_extension import extend_state_traces

    settings = problem.settings
    falls = "" if settings.rate_decay == "none" else ", and the learning rate falls over all of them"
    session.console.note(f"the checkpoint is from a run of {len(state.trace)} epochs; this run continues to epoch {settings.epochs}{falls}")
    return extend_state_traces(state, settings.epochs, settings.evaluation_count)


def save_all_units(session: Session, whole: RBMShard, history: HistorySource, request: Request) -> None:
    """Save the models of all units as one artifact."""
    from herdcli.rbm import class_models

    assert whole.rest is not None
    model, settings = class_models.assemble_rbm(whole.parts, whole.rest), whole.rest.settings
    note_best_epoch(session, model)
    note_omitted_heldout_rows(session, model)
    warn_of_nearly_improper(session, model)
    models = f"{model.count} models × " if model.count > 1 else ""
    outputs.write_artifact(
        session,
        model,
        f"{models}{model.W.shape[2]} hidden, {'at most ' if settings.patience else ''}{settings.epochs} epochs",
        history=history,
    )
