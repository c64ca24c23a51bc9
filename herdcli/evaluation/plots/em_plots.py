"""Pictures of mixtures, k-means and factors: clusters over two principal axes, loadings, the ledger."""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Map
from herdcli.em.artifacts import Clusters, FactorModel, Mixture
from herdcli.em.fitting import FittedArtifact
from herdcli.errors import DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.plots import planes, plot_list, plot_style, tiles
from herdcli.schema import Array

MOST_ROWS = 5000
FEW_COLUMNS = 40  # loadings of more columns are curves
CURVES = 12
MOST_NAMED = 16  # clusters in the legend
MOST_THUMBNAILS = 40  # means of images on the plane
ANGLES = np.linspace(0.0, 2.0 * np.pi, 121)
DEVIATIONS = 2.0  # radius of an ellipse in standard deviations


def clusters(value: Mixture | Clusters, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """Held-out rows over two columns or the two principal axes of the model, with a colour for each cluster; means of images as
    thumbnails.

    Ellipses are components at two standard deviations; crosses are means, their size by the weight.
    """
    mean, covariance, weight = _component_gaussians(value)
    X = _rows_to_plot(value)
    axes, centre = _model_axes(mean, covariance, weight, X)
    axes = planes.plane_of_columns(axes)
    centre = centre if len(axes) > 2 else np.zeros(len(axes))
    known = value.known
    shape = None if known is None else known.image_shape
    figure = plot_list.new_figure(5.2)
    panel = figure.add_subplot()
    cluster = value.assign_clusters(X) if isinstance(value, Clusters) else value.responsibilities(X)[0].argmax(axis=1)
    flat = (np.where(np.isnan(X), mean[cluster], X) - centre) @ axes
    names = _cluster_names(value, cluster)
    places = (mean - centre) @ axes
    for k in range(len(mean)):
        own, colour = flat[cluster == k], plot_style.cycle_colour(k)
        label = {"label": plot_list.legend_label(names[k])} if k < MOST_NAMED else {}
        plot_list.draw_points(panel, own[:, 0], own[:, 1], k, total_points=len(X), **label)
        if shape is None:
            panel.plot(*places[k], "+", ms=6 + 10 * weight[k], mew=1.5, color=plot_style.INK)
        if covariance is not None:
            values, vectors = np.linalg.eigh(axes.T @ covariance[k] @ axes)
            circle = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
            ring = places[k] + DEVIATIONS * (circle * np.sqrt(np.maximum(values, 0))) @ vectors.T
            panel.plot(ring[:, 0], ring[:, 1], "-", lw=1.2, color=colour)
    if shape is not None:
        shown = slice(0, MOST_THUMBNAILS)
        colours = [plot_style.cycle_colour(k) for k in range(len(mean))]
        tiles.add_thumbnails(panel, places[shown], tiles.rows_as_images(mean[shown], shape), colours=colours[shown])
    planes.label_plane(panel, axes, known.feature_names if known is not None else None, image=shape is not None)
    panel.set_aspect("equal" if len(axes) > 2 else "auto", adjustable="datalim")
    ends = "; ellipses at two standard deviations" if covariance is not None else ""
    panel.set_title(f"{len(X)} held-out rows, {len(mean)} cluster{'s' if len(mean) > 1 else ''}{ends}")
    if len(mean) > 1:
        more = f" (the first {MOST_NAMED} of {len(mean)})" if len(mean) > MOST_NAMED else ""
        figure.legend(loc="outside right upper", title=f"cluster{more}", markerscale=1.6)
    return figure


def _cluster_names(value: Mixture | Clusters, cluster: Array) -> list[str]:
    """Return a name for each cluster: its number, and the class of the labels that it stands for or that most of its rows have."""
    count, known = len(_component_gaussians(value)[0]), value.known
    numbers = [str(k + 1) for k in range(count)]
    if known is None or known.holdout_y is None:
        return numbers
    names = known.class_names or [str(z) for z in range(int(known.holdout_y.max(initial=0)) + 1)]
    if known.supervised:
        each = known.per_class
        return [names[k // each] if each == 1 else f"{names[k // each]} {k % each + 1}" for k in range(count)]
    y = known.holdout_y[: len(cluster)]
    for k in range(count):
        own = y[(cluster == k) & (y >= 0)]
        if len(own):
            counts = np.bincount(own)
            numbers[k] += f": {100 * counts.max() / len(own):.0f} % {names[int(counts.argmax())]}"
    return numbers


def _mean_names(value: Mixture | Clusters) -> list[str]:
    """Return the names of the clusters, with classes if held-out rows are stored."""
    if value.holdout is None or not len(value.holdout):
        return [str(k + 1) for k in range(len(_component_gaussians(value)[0]))]
    X = _rows_to_plot(value)
    return _cluster_names(value, value.assign_clusters(X) if isinstance(value, Clusters) else value.responsibilities(X)[0].argmax(axis=1))


def means(value: Mixture | Clusters, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The means of the clusters: as pictures where rows are images, else as a matrix of standardised columns."""
    mean = _component_gaussians(value)[0]
    known = value.known
    shape = None if known is None else known.image_shape
    if shape is not None:
        return tiles.tile_images(
            tiles.rows_as_images(mean, shape), title=f"means of {len(mean)} clusters", scale="value", names=_mean_names(value)
        )
    if known is None:
        raise DataError("the means cannot be drawn, because the model does not store the scale of the columns")
    names = known.feature_names or [f"x{j}" for j in range(mean.shape[1])]
    return tiles.matrix_plot(
        (mean - known.base_mean) / np.sqrt(np.maximum(known.base_variance, 1e-300)),
        row_label="cluster",
        column_names=names,
        row_names=[str(k + 1) for k in range(len(mean))],
        title=f"means of {len(mean)} clusters",
        scale="standard deviations from the mean of all rows",
        signed=True,
    )


def _rows_to_plot(value: FittedArtifact) -> Array:
    if value.holdout is None or not len(value.holdout):
        raise DataError("there are no test rows to draw", hint="fit the model with test rows: herd em --split .6,.2,.2")
    return np.asarray(value.holdout[:MOST_ROWS])


def _component_gaussians(value: Mixture | Clusters) -> tuple[Array, Array | None, Array]:
    if isinstance(value, Mixture):
        return value.mean, value.covariance, value.weight
    count = len(value.centre)
    return value.centre, None, np.full(count, 1.0 / count)


def _model_axes(mean: Array, covariance: Array | None, weight: Array, X: Array) -> tuple[Array, Array]:
    """(D, 2) principal axes of the model's own covariance (of the rows' where it has none), and the mean (D,)."""
    centre: Array = weight @ mean if covariance is not None else X.mean(axis=0)
    d = mean - centre
    if covariance is None:
        Z = X - centre
        total = Z.T @ Z
    else:
        total = np.einsum("k,kij->ij", weight, covariance) + (weight[:, None] * d).T @ d
    vectors = np.linalg.eigh(total)[1][:, ::-1][:, :2]
    if vectors.shape[1] < 2:
        vectors = np.concatenate([vectors, np.zeros((len(vectors), 1))], axis=1)
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), [0, 1]])
    return vectors * np.where(signs == 0, 1.0, signs), centre


def loadings(value: FactorModel, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The loadings of each factor: of images as pictures, else a matrix with a column for each factor; of many columns curves."""
    C, known = value.loading, value.known
    shape = None if known is None else known.image_shape
    if shape is not None:
        title = f"loadings of {C.shape[1]} factors ({value.model})"
        numbers = [str(k + 1) for k in range(C.shape[1])]
        return tiles.tile_images(tiles.rows_as_images(C.T, shape), signed=True, title=title, scale="loading", names=numbers)
    names = known.feature_names if known is not None else None
    if len(C) > (FEW_COLUMNS if names is None else tiles.FEW_NAMES):
        figure = plot_list.new_figure(3.2)
        panel = figure.add_subplot()
        for k in range(min(CURVES, C.shape[1])):
            plot_list.draw_curve(panel, k, np.arange(len(C)), C[:, k], label=str(k + 1), lw=1)
        figure.legend(loc="outside right upper", title="factor")
        panel.set_xlabel("column")
        panel.set_ylabel("loading")
        panel.set_title(f"loadings of {value.model} on {len(C)} columns")
        return figure
    scaled = C if known is None else C / np.sqrt(np.maximum(known.base_variance, 1e-300))[:, None]
    return tiles.matrix_plot(
        scaled,
        row_label="column",
        row_names=names or [f"x{index}" for index in range(len(C))],
        column_label="factor",
        column_names=[str(k + 1) for k in range(C.shape[1])],
        title=f"loadings of {value.model}",
        scale="loading" if known is None else "loading in standard deviations of the column",
        signed=True,
    )


def ledger(value: FittedArtifact, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The free energy at each half-step, and what it is above minus the log-likelihood: the divergence that the next E step closes."""
    book = value.ledger
    if len(book.free_energy) < 2:
        raise DataError("there are no iterations: this model has a closed form")
    steps = np.arange(len(book.free_energy)) / 2.0
    figure = plot_list.new_figure(4.2)
    upper, lower = figure.subplots(2, 1, sharex=True)
    upper.plot(steps, book.free_energy, "-", lw=1.2, label="free energy")
    upper.plot(steps, book.free_energy - book.kl, "--", lw=1, color=plot_style.COLOURS[1], label="free energy − KL")
    upper.set_ylabel("nats per row")
    upper.set_title(f"free energy over {len(steps) // 2} iterations, and its divergence from the log-likelihood")
    upper.legend()
    shown = np.where(book.kl > 0, book.kl, np.nan)
    lower.plot(steps, shown, ".", ms=3)
    lower.set_yscale("log" if np.isfinite(shown).any() else "linear")
    lower.set_ylabel("KL after an M step")
    lower.set_xlabel("iteration")
    plot_list.use_integer_ticks(lower)
    return figure
