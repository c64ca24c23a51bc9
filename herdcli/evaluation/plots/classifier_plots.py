"""Pictures of a `classifier`: what is taken for what, whether confidences are right, precision against recall, the strongest weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures.classifier import BINS, calibration_error, heldout_predictions
from herdcli.evaluation.metrics import heldout_examples
from herdcli.evaluation.metrics.feature_importance import column_namer, largest_weight_indices, weight_moments
from herdcli.evaluation.plots import plot_list, plot_style, tiles
from herdcli.online.model import Classifier
from herdcli.schema import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELLS = 15  # classes up to which numbers are written into the cells
CURVES = 8
STRONGEST = 30  # weights of two classes
EACH = 6  # weights of each of several classes
WIDEST = 4.0  # the largest share of the largest weight that is shown of deviations
PANELS = 12


def confusion(value: Classifier, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """True classes against predicted ones, as shares of the true class."""
    p, y, predicted = heldout_predictions(value)
    size = p.shape[1]
    counts = np.bincount(y * size + predicted, minlength=size * size).reshape(size, size)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    height = min(8.0, 2.2 + 0.3 * size)
    figure = plot_list.new_figure(height, min(plot_style.INCHES, height + 2.0))
    axes = figure.add_subplot()
    image = axes.imshow(share, cmap="Greys", vmin=0.0, vmax=1.0)
    axes.set_xticks(range(size), value.classes, rotation=90 if max(len(name) for name in value.classes) > 3 else 0)
    axes.set_yticks(range(size), value.classes)
    axes.set(xlabel="predicted", ylabel="true class")
    if size <= CELLS:
        for i, line in enumerate(counts.tolist()):
            for j, count in enumerate(line):
                if count:
                    dark = share[i, j] > 0.5
                    axes.text(j, i, str(count), ha="center", va="center", size=7, color=plot_style.ON_DARK if dark else plot_style.ON_LIGHT)
    axes.set_title(f"{_row_label(value, y)}: error {100 * np.mean(y != predicted):.2g} %")
    figure.colorbar(image, ax=axes, label="share of the true class")
    return figure


def trace(value: Classifier, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The progressive error after 1, 2, 4, … examples; of a stream that drifts that of windows, with fading evidence and without.

    Of numbers the error is the root of the mean square.
    """
    numbers, found = value.settings.task == "regression", value.forgetting
    error = np.sqrt(value.progress.loss) if numbers else value.progress.error
    if not len(error):
        raise DataError(
            "there is no trace, because the model was merged from shards", hint="plot each shard: herd eval SHARD --plot trace FILE.png"
        )
    what = "root mean square error" if numbers else "error"
    lines = {f"{what} so far": (value.progress.examples, error)}
    if found is not None:
        windows = {"evidence fades": found.fading, "nothing is forgotten": found.still}
        lines |= {name: (found.examples, np.sqrt(y) if numbers else y) for name, y in windows.items()}
    title = f"{what} before learning" + (f"; half-life of {value.settings.half_life:g} examples" if value.settings.half_life else "")
    figure = plot_list.curve_plot(lines, x="examples", y=f"{what} before learning", title=title)
    _use_doubling_axis(figure.axes[0])
    return figure


def _use_doubling_axis(axes: Any) -> None:
    """Make the horizontal axis logarithmic, with ticks at 1, 2, 4, … as the points are."""
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda x, place: f"{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())


def _row_label(value: Classifier, y: Array) -> str:
    assert value.holdout is not None
    return f"{len(y)} {heldout_examples.evaluation_part_and_mask(value.holdout)[0]} rows"


def calibration(value: Classifier, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """How often rows are right against how sure the classifier was of them, in bins of equal width, with two standard errors."""
    p, y, predicted = heldout_predictions(value)
    top, right = p.max(axis=1), predicted == y
    bins = np.minimum((top * BINS).astype(int), BINS - 1)
    count = np.bincount(bins, minlength=BINS)
    filled = count > 0
    across, up = (np.bincount(bins, weights=each, minlength=BINS)[filled] / count[filled] for each in (top, right.astype(float)))
    figure = plot_list.new_figure(4.6)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    plot_list.draw_diagonal(upper, np.array([float(across.min()), 1.0]), label="confidence = share right")
    error = 2.0 * np.sqrt(across * (1.0 - across) / count[filled])
    upper.errorbar(across, up, yerr=error, fmt="o", color=plot_style.COLOURS[0], label="share ± 2 standard errors")
    upper.set(ylabel="share that is right", ylim=(0.0, 1.05))
    off = calibration_error(top, right)
    upper.set_title(f"{_row_label(value, y)}: calibration error {off:.2g}")
    upper.legend(loc="lower right")
    upper.grid()
    lower.bar((np.arange(BINS) + 0.5) / BINS, count, 0.9 / BINS, color=plot_style.GREY)
    lower.set(xlabel="confidence in the predicted class", ylabel="rows", xlim=(max(0.0, float(across.min()) - 0.1), 1.02))
    return figure


def precision_recall(value: Classifier, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """Precision against recall as the bar for a class is lowered: of two classes for the second, of more for those hardest to find."""
    p, y, _ = heldout_predictions(value)
    classes = [1] if p.shape[1] == 2 else range(p.shape[1])
    found = {z: precision_recall_points(p[:, z], y == z) for z in classes if (y == z).any()}
    if not found:
        raise DataError(f"no held-out row has the class '{value.classes[1]}', which a precision-recall curve needs")
    worst = sorted(found, key=lambda z: found[z][2])[:CURVES]
    figure = plot_list.new_figure(4.0)
    axes = figure.add_subplot()
    for index, z in enumerate(worst):
        precision, recall, average = found[z]
        plot_list.draw_curve(axes, index, recall, precision, label=f"{value.classes[z]}: {average:.3f}", drawstyle="steps-pre")
    if len(found) == 1:
        axes.axhline(float(np.mean(y == worst[0])), color=plot_style.GREY, ls=":", label="by chance")
    axes.set(xlabel="recall", ylabel="precision", ylim=(0, 1.03))
    hardest = f"; the {len(worst)} hardest of {len(found)} classes" if len(worst) < len(found) else ""
    axes.set_title(f"{_row_label(value, y)}, with average precision{hardest}")
    axes.legend(loc="lower left")
    axes.grid()
    return figure


def precision_recall_points(score: Array, positive: Array) -> tuple[Array, Array, float]:
    """Precision and recall (k,) at each distinct score, highest first, and the average precision Σ (R_i − R_{i−1}) P_i."""
    order = np.argsort(-score, kind="stable")
    hits = np.cumsum(positive[order])
    last = np.append(np.flatnonzero(np.diff(score[order])), len(order) - 1)
    precision, recall = hits[last] / (last + 1.0), hits[last] / max(1, int(positive.sum()))
    return precision, recall, float(np.diff(recall, prepend=0.0) @ precision)


def weights(value: Classifier, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The largest weights by the names of their features, with two standard deviations where variances are known; of images pictures."""
    (mean, spread), names = weight_moments(value), column_namer(value)
    if value.image_shape is not None:
        return _weight_images(value, mean)
    if len(mean) == 1 and len(value.classes) == 2:
        figure = plot_list.new_figure(1.0 + 0.19 * min(STRONGEST, mean.shape[1]))
        axes = figure.add_subplot()
        _draw_largest_weights(axes, mean[0], spread if spread is None else spread[0], names, STRONGEST)
        axes.set_xlabel(f"weight: below 0 for class {value.classes[0]}, above 0 for class {value.classes[1]}")
        axes.set_title(f"the strongest of {mean.shape[1]} weights" + ("" if spread is None else ", ±2 standard deviations"))
        return figure
    shown = min(PANELS, len(mean))
    lines = -(-shown // 2)
    figure = plot_list.new_figure(0.4 + 1.35 * lines)
    for c in range(shown):
        axes = figure.add_subplot(lines, 2, c + 1)
        _draw_largest_weights(axes, mean[c], None if spread is None else spread[c], names, EACH)
        axes.set_title(value.classes[c])
    what = "labels" if value.settings.task == "multilabel" else "classes"
    which = f"{shown} of {len(mean)}" if shown < len(mean) else f"all {len(mean)}"
    figure.suptitle(f"the strongest weights of {which} {what}" + ("" if spread is None else ", ±2 standard deviations"))
    return figure


def _weight_images(value: Classifier, mean: Array) -> plot_list.Figure:
    """Return the weights (C, d) of each class as a picture; of two classes those for the second."""
    names = value.classes[1:] if len(mean) == 1 and len(value.classes) == 2 else value.classes
    images = tiles.rows_as_images(mean, value.image_shape)
    return tiles.tile_images(images, signed=True, title=f"weights for {len(value.classes)} classes", scale="weight", names=names)


def _draw_largest_weights(axes: Axes, mean: Array, spread: Array | None, names: Callable[[int], str], max_weights: int) -> None:
    chosen = largest_weight_indices(mean, max_weights)[::-1]
    chosen = chosen[np.argsort(mean[chosen], kind="stable")]
    up = np.arange(len(chosen))
    if spread is not None:
        axes.hlines(up, mean[chosen] - 2 * spread[chosen], mean[chosen] + 2 * spread[chosen], color=plot_style.GREY, lw=1.5)
    for positive in (False, True):
        own = (mean[chosen] > 0) == positive
        axes.plot(mean[chosen][own], up[own], plot_style.marker_style(int(positive)), color=plot_style.cycle_colour(int(positive)))
    axes.axvline(0.0, color=plot_style.INK, lw=0.7)
    if spread is not None and len(chosen) and 2 * float(spread[chosen].max()) > WIDEST * (largest := float(np.abs(mean[chosen]).max())):
        axes.set_xlim(-WIDEST * largest, WIDEST * largest)  # deviations may be far larger than weights, which are then out of sight
    axes.set_yticks(up, [names(int(index)) for index in chosen], size=6)
