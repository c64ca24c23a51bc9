"""Pictures of mixtures, k-means and factors: clusters over two principal axes, loadings, the ledger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from herdcli.em.artifacts import Clusters, FactorModel, Mixture
from herdcli.em.fitting import FittedArtifact
from herdcli.errors import DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.plots import plot_list, plot_style
from herdcli.schema import Array

MOST_ROWS = 5000
FEW_COLUMNS = 40  # loadings of more columns are curves
CURVES = 12
ANGLES = np.linspace(0.0, 2.0 * np.pi, 121)
DEVIATIONS = 2.0  # radius of an ellipse in standard deviations


def clusters(value: Mixture | Clusters, settings: EvaluationSettings, *, map: Callable[..., Any] = map) -> plot_list.Figure:
    """Held-out rows over the two axes that most of the variance between and within the components lies along, a colour for each cluster.

    Ellipses are components at two standard deviations; crosses are means, their size by the weight.
    """
    mean, covariance, weight = _component_gaussians(value)
    X = _plotted_rows(value)
    axes, centre = _model_axes(mean, covariance, weight, X)
    figure = plot_list.new_figure(5.2)
    panel = figure.add_subplot()
    cluster = value.clusters(X) if isinstance(value, Clusters) else value.responsibilities(X)[0].argmax(axis=1)
    flat = (np.where(np.isnan(X), centre, X) - centre) @ axes
    for k in range(len(mean)):
        own, colour = flat[cluster == k], plot_style.cycle_colour(k)
        plot_list.draw_points(panel, own[:, 0], own[:, 1], k, total_points=len(X))
        at = (mean[k] - centre) @ axes
        panel.plot(*at, "+", ms=6 + 10 * weight[k], mew=1.5, color=plot_style.INK)
        if covariance is not None:
            values, vectors = np.linalg.eigh(axes.T @ covariance[k] @ axes)
            ring = at + DEVIATIONS * (np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1) * np.sqrt(np.maximum(values, 0))) @ vectors.T
            panel.plot(ring[:, 0], ring[:, 1], "-", lw=1.2, color=colour)
    panel.set_xlabel("first principal axis")
    panel.set_ylabel("second principal axis")
    panel.set_aspect("equal", adjustable="datalim")
    ends = "; ellipses at two standard deviations" if covariance is not None else ""
    panel.set_title(f"{len(X)} held-out rows, {len(mean)} cluster{'s' if len(mean) > 1 else ''}{ends}")
    return figure


def _plotted_rows(value: FittedArtifact) -> Array:
    if value.holdout is None or not len(value.holdout):
        raise DataError("there are no rows in split 2 to draw", hint="herd em with rows in split 2: --split .6,.2,.2")
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


def loadings(value: FactorModel, settings: EvaluationSettings, *, map: Callable[..., Any] = map) -> plot_list.Figure:
    """A matrix with a column for each factor; of many columns a curve for each of the first factors."""
    C = value.loading
    if len(C) > FEW_COLUMNS:
        figure = plot_list.new_figure(3.2)
        panel = figure.add_subplot()
        for k in range(min(CURVES, C.shape[1])):
            plot_list.draw_curve(panel, k, np.arange(len(C)), C[:, k], label=str(k + 1), lw=1)
        panel.legend(ncols=2, title="factor")
        panel.set_xlabel("column")
        panel.set_ylabel("loading")
        panel.set_title(f"loadings of {value.model}: what each factor adds to {len(C)} columns")
        return figure
    figure = plot_list.new_figure(1.0 + 0.22 * len(C))
    panel = figure.add_subplot()
    most = float(np.abs(C).max()) or 1.0
    image = panel.imshow(C, cmap=plot_style.DIVERGING, vmin=-most, vmax=most, aspect="auto")
    names = value.known.feature_names if value.known is not None else None
    panel.set_yticks(range(len(C)), names or [f"x{index}" for index in range(len(C))])
    panel.set_xticks(range(C.shape[1]), [str(k + 1) for k in range(C.shape[1])])
    panel.set_xlabel("factor")
    panel.set_title(f"loadings of {value.model}: what each factor adds to a column")
    figure.colorbar(image, label="loading")
    return figure


def ledger(value: FittedArtifact, settings: EvaluationSettings, *, map: Callable[..., Any] = map) -> plot_list.Figure:
    """The free energy at each half-step, and what it is above minus the log-likelihood: the divergence that the next E step closes."""
    book = value.ledger
    steps = np.arange(len(book.free_energy)) / 2.0
    figure = plot_list.new_figure(4.2)
    upper, lower = figure.subplots(2, 1, sharex=True)
    upper.plot(steps, book.free_energy, "-", lw=1.2, label="free energy")
    upper.plot(steps, book.free_energy - book.kl, "--", lw=1, color=plot_style.COLOURS[1], label="free energy − KL")
    upper.set_ylabel("nats a row")
    upper.set_title("the free energy never rises; what it is above minus the log-likelihood the next E step closes")
    upper.legend()
    shown = np.where(book.kl > 0, book.kl, np.nan)
    lower.plot(steps, shown, ".", ms=3)
    lower.set_yscale("log" if np.isfinite(shown).any() else "linear")
    lower.set_ylabel("KL after an M step")
    lower.set_xlabel("iteration")
    plot_list.use_integer_ticks(lower)
    return figure
