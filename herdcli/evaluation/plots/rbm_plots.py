"""Pictures of an `rbm`: its filters, rows beside their reconstructions, samples, and the trace of its learning."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from herdcli.algorithm import Map, run_algorithm
from herdcli.errors import DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.plots import plot_list, tiles
from herdcli.numerics.row_selection import as_dense
from herdcli.rbm.model import RBM, Harmonium
from herdcli.rbm.sampling.gibbs_samples import BlockGibbsSampling, SamplingProblem
from herdcli.rbm.sampling.independent_sampling import IndependentSampling, plan_enumerations
from herdcli.schema import Array
from herdcli.splits import TEST

PAIRS = 48
MOST_DEVIATIONS = 4.0  # standard deviations from the mean that have a colour of their own
MOST_IN_LINE = 25  # hidden units of a model that are pictures in one line
SAMPLES, BURN_IN = 100, 1000


def filters(value: RBM, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The weights of every hidden unit as a picture; models of classes one after the other."""
    weights = np.concatenate([W[: value.columns].T for W in value.W])
    hidden = value.W.shape[2]
    by_class = value.count > 1 and hidden <= MOST_IN_LINE
    return tiles.rows_plot(
        weights,
        value.image_shape,
        row_label="hidden unit",
        column_names=value.feature_names,
        signed=True,
        columns=hidden if by_class else None,
        title=f"weights of {len(weights)} hidden units" + (f", a line for each of {value.count} classes" if by_class else ""),
        scale="weight",
    )


def reconstructions(value: RBM, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """Test rows beside what one step up and down by means makes of them, each by its own class's model."""
    models = value.harmoniums()

    def by_owner(rows: Array, owner: Array) -> Array:
        pairs = zip(rows, owner, strict=True)
        return np.concatenate([models[m].visible_means(models[m].hidden_means(row[None])) for row, m in pairs])

    return draw_reconstructions(value, by_owner)


def draw_reconstructions(value: RBM, reconstruct: Callable[[Array, Array], Array]) -> plot_list.Figure:
    """Test rows from all over the set, and to the right of each what `reconstruct` makes of (rows, index of their models)."""
    if value.holdout is None or not (value.holdout.split == TEST).any():
        raise DataError("there are no test rows to reconstruct")
    chosen = np.flatnonzero(value.holdout.split == TEST)
    chosen = chosen[np.linspace(0, len(chosen) - 1, min(PAIRS, len(chosen))).astype(int)]
    rows = np.asarray(as_dense(value.holdout.X[chosen]), dtype=np.float64)
    owner = np.zeros(len(rows), dtype=int) if value.holdout.y is None or value.count == 1 else value.holdout.y[chosen]
    found, title = reconstruct(rows, owner), "test rows and their reconstructions"
    if value.image_shape is None:
        scale, signed = _matrix_scale(value)
        shown = [rows[..., : value.columns], found[..., : value.columns]] if signed else [value.to_original(each) for each in (rows, found)]
        pair = dict(zip(("test rows", "reconstructions"), shown, strict=True))
        return tiles.paired_matrices(
            pair, row_label="row", column_names=value.feature_names, scale=scale, signed=signed, most=MOST_DEVIATIONS
        )
    pairs = value.to_original(np.stack([rows, found], axis=1).reshape(len(rows) * 2, -1))
    return tiles.tile_images(tiles.rows_as_images(pairs, value.image_shape), group=2, title=title)


def _matrix_scale(value: RBM) -> tuple[str, bool]:
    """Return what the colours of rows are that are no images, and whether they diverge: columns in different units are standardised."""
    return ("value", False) if value.column_scale is None else ("standard deviations from the column's mean", True)


def samples(value: RBM, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """Means of the visible units in 100 rows drawn as `herd sample` draws them; models of classes ten rows each."""
    each = SAMPLES if value.count == 1 else 10
    return draw_samples(value.harmoniums(), (), each, value, settings, map)


def draw_samples(
    models: list[Harmonium], lower_layers: tuple[Harmonium, ...], rows_per_model: int, lowest: RBM, settings: EvaluationSettings, map: Map
) -> plot_list.Figure:
    """So many rows drawn from each model, carried down through the models below, as means of the lowest layer."""
    problem = SamplingProblem(tuple(models), rows_per_model, burn_in=BURN_IN, means=True, seed=settings.seed, below=lower_layers)
    parts = plan_enumerations(problem)
    found = run_algorithm(BlockGibbsSampling(problem, map)) if parts is None else run_algorithm(IndependentSampling(problem, parts, map))
    how = "independent rows" if parts is not None else f"Gibbs chains after {BURN_IN} sweeps"
    scale, signed = ("value", False) if lowest.image_shape is not None else _matrix_scale(lowest)
    rows = np.concatenate(found.rows)
    return tiles.rows_plot(
        rows[..., : lowest.columns] if signed else lowest.to_original(rows),
        lowest.image_shape,
        row_label="sample",
        column_names=lowest.feature_names,
        columns=10,
        scale=None if lowest.image_shape is not None else scale,
        signed=signed,
        most=MOST_DEVIATIONS,
        title=f"means of {how}",
    )


def trace(value: RBM, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """Reconstruction error of every epoch, one curve for each model."""
    if value.trace is None:
        raise DataError("there is no trace, because the model was not fitted by herd fit-rbm")
    errors = value.trace.reconstruction
    epochs = np.arange(1, len(errors) + 1)
    labels = value.classes or [str(m) for m in range(value.count)]
    lines = {name: (epochs, errors[:, m]) for m, name in enumerate(labels)}
    title = f"reconstruction error over {plot_list.count_text(len(errors), 'epoch')}" + (
        "" if value.count == 1 else f", one curve for each of {value.count} classes"
    )
    return plot_list.curve_plot(lines, x="epoch", y="mean squared reconstruction error", title=title)


def validation(value: RBM, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """Log-likelihood of validation rows along the epochs, one curve for each model; of a single model its pseudo-likelihood too."""
    found = value.trace
    if found is None or found.validated is None or found.log_likelihood is None or found.pseudo_likelihood is None:
        raise DataError("there is no trace of validation rows: fit the model with herd fit-rbm --validate-every 1")
    labels = value.classes or ["log-likelihood"]
    lines = {name: (found.validated, found.log_likelihood[:, m]) for m, name in enumerate(labels)}
    if value.count == 1 and np.isfinite(found.pseudo_likelihood).any():
        lines["pseudo-likelihood"] = (found.validated, found.pseudo_likelihood[:, 0])
    return plot_list.curve_plot(lines, x="epoch", y="nats per validation row", title="likelihood of validation rows by epoch")


def told(value: RBM, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The share of validation rows with a wrong predicted class or label, by epoch."""
    found = value.trace
    if found is None or found.validated is None or found.error is None:
        raise DataError("there is no trace of errors: fit the model with herd fit-rbm --validate-every 1, and --per-class or --labels")
    lines = {"error": (found.validated, 100.0 * found.error)}
    return plot_list.curve_plot(lines, x="epoch", y="% of validation rows", title="wrong predictions of validation rows by epoch")


def tracked(value: RBM, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """Log-likelihoods by the log Z that was kept along the updates: of training and validation rows, or a curve for each class."""
    found = value.trace
    if found is None or found.tracked_training is None or found.tracked_validation is None:
        raise DataError("there is no trace of log Z: fit the model with herd fit-rbm --track-likelihood")
    held = found.tracked_validation if np.isfinite(found.tracked_validation).any() else None
    if value.count == 1:
        columns = {"training rows": found.tracked_training[:, 0]} | ({} if held is None else {"validation rows": held[:, 0]})
    else:
        shown, labels = found.tracked_training if held is None else held, value.classes or [str(m) for m in range(value.count)]
        columns = {name: shown[:, m] for m, name in enumerate(labels)}
    lines = {name: (np.flatnonzero(np.isfinite(column)) + 1, column[np.isfinite(column)]) for name, column in columns.items()}
    y = "nats per row" if value.count == 1 else f"nats per {'training' if held is None else 'validation'} row"
    return plot_list.curve_plot(lines, x="epoch", y=y, title="log-likelihood tracked along the updates")
