"""Finished models with one model per class: the parameters and energies of each, and the artifact that joins them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import DataError
from herdcli.numerics import exact_arithmetic
from herdcli.numerics.nearest_neighbours import nearest_rows_euclidean, nearest_rows_parallel
from herdcli.numerics.row_selection import SelectedRows
from herdcli.numerics.scores import Scores, align_energies
from herdcli.numerics.streamed_rows import StreamedRows
from herdcli.rbm import feature_transform, heldout_rows
from herdcli.rbm.learning.class_rows import ClassGroups, select_evenly_spaced
from herdcli.rbm.learning.learning_problem import InitialModels
from herdcli.rbm.learning.parallel_fits import LearningState, Settings
from herdcli.rbm.learning.validation import FIGURES, MOST
from herdcli.rbm.likelihood import gaussian_moments
from herdcli.rbm.model import RBM, ExternalHeldoutRows, Harmonium, HiddenSizeResults, LearningCurves, ResumableState, StoredHeldoutRows
from herdcli.rbm.units import unit_family
from herdcli.records import dataclass
from herdcli.schema import Array, Matrix, array, is_sparse, require_equal_lengths
from herdcli.shards import Shard
from herdcli.splits import TEST, TRAIN, VALID

TRACKED = ("tracked_log_z", "tracked_se", "tracked_training", "tracked_validation")  # LearningCurves' names of likelihood_tracking.FIGURES
MOVED = 1 << 20  # number of entries that are moved together
ROWS = 1 << 13  # number of rows that are read together if they are not in memory


@dataclass(frozen=True)
class LearnedClassModel:
    """One model of a fit, with the energies of rows that only this model can compute."""

    W: Array = array("D K", "pair weights", kind="f", finite=True)
    b: Array = array("D", "visible biases", kind="f", finite=True)
    c: Array = array("K", "hidden biases", kind="f", finite=True)
    trace: Array = array("E", "reconstruction error of each epoch", kind="f")
    energy: Array | None = array("n", "free energies of the rows that this model scores", kind="f", optional=True)
    reference: Array | None = array("v", "with folds: of the validation rows", kind="f", optional=True)
    training_energy: float | None = None  # mean free energy of the rows that the model learned from; None for models of folds
    base_rates: Array | None = array("D", "natural parameters of independent columns with those rows' means", kind="f", optional=True)
    gaussian_mean: Array | None = array("D", "mean of the real columns of those rows", kind="f", optional=True)
    gaussian_covariance: Array | None = array("D D", "their covariance", kind="f", optional=True)
    gaussian_rows: int = 0
    nearest: Array | None = array("r", "classes of the training rows nearest to its share of the rows", kind="iu", optional=True)
    validation: Array | None = array("V 3", "validation.FIGURES of each look at validation rows", kind="f", optional=True)
    best_epoch: int | None = None
    error: Array | None = array("V", "of a model of rows with labels: State.best.error", kind="f", optional=True)
    densities: Array | None = array("V t", "log p(v, class) of validation rows of all classes at each look", kind="f", optional=True)
    kept: ResumableState | None = None  # the learning state of this model alone
    tracked: Array | None = array("E 4", "trajectory.FIGURES of each epoch", kind="f", optional=True)


@dataclass(frozen=True)
class SharedFitParts:
    """The parts of an `rbm` artifact besides its models.

    folds and the labels in scores define the order of the models' energies.
    """

    settings: Settings
    holdout: StoredHeldoutRows | None = None
    folds: int = 0
    scores: Scores | None = None  # without the column of energies
    classes: list[str] | None = None
    image_shape: Array | None = array("2", "height and width of a row seen as a picture", kind="iu", optional=True)
    threshold: float | None = None
    value_range: Array | None = array("2", "lowest and highest value of the data before the threshold", kind="fiu", optional=True)
    column_mean: Array | None = array("D", "what was taken from the columns before learning", kind="f", optional=True)
    column_scale: Array | None = array("D", "what the columns were divided by then", kind="f", optional=True)
    feature_names: list[str] | None = None
    label_names: list[str] | None = None  # names of the labels, for rows whose last visible unit is the label
    elsewhere: ExternalHeldoutRows | None = None  # used if held-out rows are too many to be stored
    sizes: HiddenSizeResults | None = None  # the search that chose the number of hidden units


@dataclass(frozen=True, kw_only=True)
class RBMShard(Shard):
    """A shard of some models of a fit with one model per class.

    The models of all training rows come first, then for each fold the models that leave it out.
    """

    parts: list[LearnedClassModel]
    rest: SharedFitParts | None = None

    def validate(self) -> None:
        """Raise DataError for an impossible shard, and for models whose sizes or scored rows differ from each other."""
        super().validate()
        require_equal_lengths(self.parts, ("D", "K", "E"), ("energy", "nearest", "validation", "error", "densities", "kept", "tracked"))


def collect_models(
    groups: ClassGroups, state: LearningState, settings: Settings, units: Sequence[int], *, scored: bool, keep: bool = False, map: Map = map
) -> list[LearnedClassModel]:
    """Return the models of a finished fit; model m of the state is number units[m] of `ClassGroups.training_rows`.

    scored  compute the energies of the held-out rows, or, for the model of a fold, those of the fold's rows.  The nearest training rows,
            which are the baseline, are found in C shares: each of the C models of a fold finds those of a C-th of the fold's rows.
    keep    include the state that learning can continue from.
    """
    count, rows = len(groups.names), groups.training_rows()
    layers = unit_family(settings.visible_units), unit_family(settings.hidden_units)

    def finished(m: int, unit: int) -> LearnedClassModel:
        W, b, c, fold = state.W[m], state.b[m], state.c[m], unit // count - 1
        model = Harmonium(W.astype(np.float64), b.astype(np.float64), c.astype(np.float64), *layers)

        def energy(chosen: Array | SelectedRows) -> Array:
            return feature_transform.free_energies_by_model([model], chosen, map)[:, 0]

        found = near = None
        if scored:
            own = groups.heldout_indices if fold < 0 else np.flatnonzero(groups.fold == fold)
            found = energy(SelectedRows(groups.X, own)) if state.energy is None else state.energy[:, m] / settings.average_scores
            near = _nearest_neighbour_classes(groups, np.array_split(own, count)[unit % count], fold, map)
        moments = gaussian_moments.row_moments(rows[unit]) if fold < 0 and unit_family(settings.visible_units).standard_normal else None
        return LearnedClassModel(
            W=W,
            b=b,
            c=c,
            trace=state.trace[:, m],
            energy=found,
            reference=energy(SelectedRows(groups.X, groups.validation_indices)) if scored and groups.folds else None,
            training_energy=_mean_free_energy(model, rows[unit], map) if fold < 0 else None,
            base_rates=layers[0].base_rate_parameters(rows[unit]) if fold < 0 else None,
            gaussian_mean=None if moments is None else moments[0],
            gaussian_covariance=None if moments is None else moments[1],
            gaussian_rows=0 if moments is None else len(rows[unit]),
            nearest=near,
            validation=None if state.best is None else state.best.figures[:, m],
            best_epoch=int(state.best.epoch[m]) if state.best is not None and settings.patience else None,
            error=None if state.best is None or state.best.error is None else state.best.error[:, m],
            densities=_joint_log_likelihoods(state, m, settings, len(rows[unit])),
            kept=_resumable_state(state, m) if keep and fold < 0 else None,
            tracked=None if state.track is None else state.track.figures[:, m],
        )

    return [finished(m, unit) for m, unit in enumerate(units)]


def _joint_log_likelihoods(state: LearningState, m: int, settings: Settings, rows: int) -> Array | None:
    """Compute log p(v) + log n of the validation rows of all classes at each evaluation; a stopped model counts as it was kept."""
    if state.best is None or state.best.densities is None:
        return None
    found = state.best.densities[:, m].copy()
    if state.best.stopped[m]:
        found[-(-state.best.stopped[m] // settings.epochs_per_evaluation) :] = found[
            -(-state.best.epoch[m] // settings.epochs_per_evaluation) - 1
        ]
    return found + np.float32(exact_arithmetic.log(rows))


def _mean_free_energy(model: Harmonium, rows: SelectedRows | StreamedRows, map: Map) -> float:
    """Compute the mean free energy of rows (n, D).

    Rows that are not in memory are summed part by part, so that no list of all energies is needed.
    """
    if not isinstance(rows, StreamedRows):
        return float(feature_transform.free_energies_by_model([model], rows, map).mean())
    parts = (rows.read_stored_rows(slice(start, start + ROWS)) for start in range(0, len(rows), ROWS))
    return sum(float(feature_transform.free_energies_by_model([model], part, map).sum()) for part in parts) / len(rows)


def _resumable_state(state: LearningState, m: int) -> ResumableState:
    """Return the state from which the learning of model m can continue."""
    tracked = {f"track_{name}": getattr(state.track, name, None) for name in ("values", "log_weights", "log_means", "lost")}
    parts = {each.name: getattr(state, each.name) for each in fields(ResumableState) if each.name not in tracked} | tracked
    own: dict[str, Any] = {name: None if part is None else part[m : m + 1] for name, part in parts.items()}
    return ResumableState(**own)


def collect_shared_parts(
    groups: ClassGroups,
    settings: Settings,
    *,
    scored: bool,
    parts: str | None = None,
    label: str | None = None,
    by_class: bool = False,
    **seen: Any,
) -> SharedFitParts:
    """Collect the parts of a fit that belong to no single model.

    seen                    further fields of SharedFitParts: how rows became unit values.
    parts, label, by_class  fields of ExternalHeldoutRows.

    The held-out rows overwrite the rows in memory, so `groups` cannot be used afterwards.
    """
    labels, names = (_scored_row_labels(groups), groups.names) if scored else (None, None)
    if heldout_rows.heldout_bytes(groups.X, groups.split) > heldout_rows.LARGE:
        found = heldout_rows.heldout_digest(groups.X, groups.split, groups.y if scored else None)
        away = ExternalHeldoutRows(
            found, *heldout_rows.count_heldout_rows(groups.split), settings.seed, parts, label, groups.is_streamed, by_class
        )
        return SharedFitParts(settings, None, groups.folds, labels, names, **seen, elsewhere=away)
    held = groups.heldout_indices
    chosen = heldout_rows.read_heldout_rows(groups.X, groups.split) if groups.is_streamed else _select_rows_in_place(groups.X, held)
    rows = StoredHeldoutRows(chosen, groups.split[held], groups.y[held] if scored else None)
    return SharedFitParts(settings, rows, groups.folds, labels, names, **seen)


def divide_by_learned_deviations(
    groups: ClassGroups, state: LearningState, mean: Array | None, scale: Array | None, labels: int = 0
) -> tuple[LearningState, dict[str, Array]]:
    """Divide the rows (n, D) of `groups`, in place, by the learned deviations.

    Returns the learning state for such rows, and the total mean and scale of the columns, (D,) each.
    labels  number of columns that stand for a label; mean and scale do not include them.
    """
    assert state.log_scale is not None
    learned_scale = exact_arithmetic.exp(state.log_scale[0]).astype(np.float32)
    groups.X[...] /= learned_scale
    D = len(learned_scale) - labels
    start = np.zeros(D, dtype=np.float32) if mean is None else mean
    freed = {"column_mean": start, "column_scale": learned_scale[:D] * (np.ones(D, dtype=np.float32) if scale is None else scale)}
    return replace(state, log_scale=np.zeros_like(state.log_scale)), freed  # a signal may still save the original state


def _select_rows_in_place(X: Matrix, row_indices: Array) -> Matrix:
    """Return X[chosen] for rows in ascending order; in a writable array they overwrite the first rows."""
    if is_sparse(X) or not X.flags.writeable:
        return X[row_indices]
    step = max(1, MOVED // max(1, X.shape[1]))
    for start in range(0, len(row_indices), step):  # row i comes from row chosen[i] ≥ i, which has not been overwritten yet
        part = row_indices[start : start + step]
        X[start : start + len(part)] = X[part]
    return X[: len(row_indices)]


def _row_gaussian_moments(model: LearnedClassModel) -> tuple[int, Array, Array] | None:
    """Return the number, mean and covariance of a model's rows, from which one Gaussian is made."""
    if model.gaussian_mean is None or model.gaussian_covariance is None:
        return None
    return model.gaussian_rows, model.gaussian_mean, model.gaussian_covariance


def assemble_rbm(models: Sequence[LearnedClassModel], shared_parts: SharedFitParts) -> RBM:
    """Make the artifact of all models in their order and of the other parts; models of folds serve the scores and are dropped."""
    count = len(models) // (shared_parts.folds + 1)
    final = models[:count]
    energies = [model.training_energy for model in final]
    known = [model.base_rates for model in final if model.base_rates is not None]
    settings = {name: value for name, value in vars(shared_parts.settings).items() if name != "hidden"}
    seen = (
        "holdout",
        "elsewhere",
        "classes",
        "image_shape",
        "threshold",
        "value_range",
        "column_mean",
        "column_scale",
        "feature_names",
        "sizes",
    )
    return RBM(
        W=np.stack([model.W for model in final]),
        b=np.stack([model.b for model in final]),
        c=np.stack([model.c for model in final]),
        trace=_learning_curves(final, shared_parts.settings, shared_parts.scores),
        **_tracked_log_z_fields(final, shared_parts.settings),
        best_epoch=None if final[0].best_epoch is None else np.array([model.best_epoch for model in final], dtype=np.int64),
        kept=_join_resumable_states([model.kept for model in final if model.kept is not None]),
        scores=None if shared_parts.scores is None else _add_class_energies(shared_parts.scores, models, shared_parts.folds),
        training_energy=None if None in energies else np.array(energies, dtype=np.float64),
        base_rates=np.stack(known) if len(known) == count else None,
        gaussian=gaussian_moments.stack_model_moments([_row_gaussian_moments(model) for model in final]),
        labels=shared_parts.label_names,
        **settings,
        **{name: getattr(shared_parts, name) for name in seen},
    )


def _add_class_energies(labels: Scores, models: Sequence[LearnedClassModel], folds: int) -> Scores:
    """Add the models' energies and the baseline to the labels.

    Each model has found a share of the baseline; in older shards the first model has all of it.
    """
    near = [model.nearest for model in models if model.nearest is not None]
    energy = _scored_class_energies(models, folds)
    return replace(labels, energy=energy, nearest=np.concatenate(near)) if len(near) == len(models) else replace(labels, energy=energy)


def _learning_curves(final: Sequence[LearnedClassModel], settings: Settings, scores: Scores | None) -> LearningCurves:
    """Return the learning curves of the models."""
    errors = np.stack([model.trace for model in final], axis=1)
    looks = [model.validation for model in final if model.validation is not None]
    tracks = [model.tracked for model in final if model.tracked is not None]
    columns = {} if len(tracks) < len(final) else {name: np.stack([one[:, n] for one in tracks], axis=1) for n, name in enumerate(TRACKED)}
    if len(looks) < len(final):
        return LearningCurves(errors, **columns)
    epochs = np.minimum(settings.epochs_per_evaluation * np.arange(1, settings.evaluation_count + 1), settings.epochs)
    columns |= {name: np.stack([look[:, n] for look in looks], axis=1) for n, name in enumerate(FIGURES)}
    return LearningCurves(errors, epochs, **columns, error=final[0].error if scores is None else _validation_error_rates(final, scores))


def _validation_error_rates(final: Sequence[LearnedClassModel], labels: Scores) -> Array | None:
    """Compute the share of validation rows (V,) that are classified wrongly at each evaluation, with log Z as known then."""
    known = [model.densities for model in final if model.densities is not None]
    if len(known) < len(final):
        return None
    joint = np.stack(known, axis=-1)
    shown = select_evenly_spaced(labels.y[labels.split == VALID], MOST)
    lost = np.isnan(joint).any(axis=(1, 2))
    wrong: Array = np.where(lost, np.nan, (joint.argmax(axis=-1) != shown).mean(axis=1))
    return wrong


def _tracked_log_z_fields(final: Sequence[LearnedClassModel], settings: Settings) -> dict[str, Any]:
    """Return log Z of the models that are kept, as it was at the end of their last or best epoch."""
    tracks = [model.tracked for model in final if model.tracked is not None]
    if len(tracks) < len(final):
        return {}
    ends = [(model.best_epoch or settings.epochs) - 1 for model in final]
    return {name: np.array([one[end, n] for one, end in zip(tracks, ends, strict=True)]) for n, name in enumerate(TRACKED[:2])}


def _join_resumable_states(parts: Sequence[ResumableState]) -> ResumableState | None:
    """Join the learning states of all models."""
    if not parts:
        return None
    names = [each.name for each in fields(ResumableState) if getattr(parts[0], each.name) is not None]
    joined: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return ResumableState(**joined)


def find_resume_point(model: RBM) -> InitialModels:
    """Return the point that learning resumes from: with a saved state its last epoch, otherwise the parameters alone."""
    if model.trace is None or model.kept is None:
        return InitialModels(model.W, model.b, model.c, 0 if model.kept is None else model.epochs, model.kept)
    columns = [column for name in TRACKED if (column := getattr(model.trace, name)) is not None]
    tracked = np.stack(columns, axis=-1) if len(columns) == len(TRACKED) else None
    return InitialModels(model.W, model.b, model.c, model.epochs, model.kept, model.trace.reconstruction, tracked)


def _scored_class_energies(models: Sequence[LearnedClassModel], folds: int) -> Array:
    """Return the energies (n, C) of the held-out rows and then of each fold, shifted by the validation rows to the final models' scale."""
    count = len(models) // (folds + 1)

    def columns(name: str, fold: int) -> Array:
        own = models[count * (fold + 1) : count * (fold + 2)]
        return np.stack([getattr(model, name) for model in own], axis=1)

    parts = [columns("energy", -1)]
    for fold in range(folds):
        found, reference = columns("energy", fold), columns("reference", -1)
        parts.append(align_energies(found, columns("reference", fold), reference) if len(reference) else found)
    return np.concatenate(parts)


def _scored_row_labels(groups: ClassGroups) -> Scores:
    """Return the class and split of the scored rows: the held-out rows, then those of each fold; the models add the nearest rows."""
    order = np.concatenate([groups.heldout_indices, *(np.flatnonzero(groups.fold == f) for f in range(groups.folds))])
    training = groups.split == TRAIN
    return Scores(
        energy=np.empty((len(order), 0)),
        y=groups.y[order],
        split=groups.split[order],
        nearest=np.full(len(order), -1, dtype=np.int64),
        majority=int(np.bincount(groups.y[training], minlength=len(groups.names)).argmax()),
    )


def _nearest_neighbour_classes(groups: ClassGroups, rows: Array, fold: int, map: Map) -> Array:
    """Return the class of the training row nearest to each row, among those that the fold's models (−1: no fold) learned from."""
    seen = np.flatnonzero((groups.split == TRAIN) & ((groups.fold != fold) | (fold < 0)))
    near = partial(nearest_rows_parallel, map=map) if groups.X.dtype.kind in "iub" else nearest_rows_euclidean
    found: Array = groups.y[seen[near(SelectedRows(groups.X, rows), SelectedRows(groups.X, seen))]]
    return found


def replace_evaluation_rows(model: RBM, X: Matrix, split: Array, y: Array | None, map: Map = map) -> RBM:
    """Return the model with other rows X (n, D) for evaluation; y (n,) are their classes if there are several models.

    Figures that need the training rows are removed: scores, and without training rows the training energy.  A model that stores the
    digest of its held-out rows accepts only these rows.  Raises DataError for others.
    """
    if model.elsewhere is not None:
        return _attach_heldout_rows(model, model.elsewhere, X, split, y)
    held, training = np.isin(split, (VALID, TEST)), split == TRAIN
    energy = None
    if training.any():
        models = model.harmoniums()
        owners = np.zeros(X.shape[0], dtype=np.int64) if y is None else y
        own = [SelectedRows(X, np.flatnonzero(training & (owners == m))) for m in range(len(models))]
        if all(len(rows) for rows in own):
            energy = np.array(
                [feature_transform.free_energies_by_model([h], rows, map).mean() for h, rows in zip(models, own, strict=True)]
            )
    rows = StoredHeldoutRows(X[held], split[held], None if y is None else y[held])
    return replace(model, holdout=rows, scores=None, training_energy=energy)


def _attach_heldout_rows(model: RBM, external_rows: ExternalHeldoutRows, X: Matrix, split: Array, y: Array | None) -> RBM:
    """Return the model with the rows that were held out of it, which are checked by their digest."""
    if (
        heldout_rows.count_heldout_rows(split) != (external_rows.valid, external_rows.test)
        or heldout_rows.heldout_digest(X, split, y) != external_rows.sha256
    ):
        rows = f"{external_rows.valid} validation and {external_rows.test} test rows"
        raise DataError(
            f"the held-out rows of these data are not the {rows} that were held out when the model was fitted",
            hint="give the data set from which fit-rbm learned the model",
        )
    held = np.isin(split, heldout_rows.PARTS)
    chosen = X[held] if is_sparse(X) or isinstance(X, np.ndarray) else StreamedRows(X, held, 1)
    return replace(model, holdout=StoredHeldoutRows(chosen, split[held], None if y is None else y[held]))
