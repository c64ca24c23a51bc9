"""Pictures of `herding`: the moments it reached beside the rates that drove it, how their distance falls, and its pseudo-samples."""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures.herding import expected_random_gap
from herdcli.evaluation.plots import plot_list, plot_style, tiles
from herdcli.evaluation.plots.plot_list import log_log_slope
from herdcli.herding.model import Herding
from herdcli.schema import Array

MOST_PAIRS = 4000  # features of a kind that are drawn
TILES = 100


def rates(value: Herding, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """Means of features over the pseudo-samples against the rates that drove the weights; on the line they are the same."""
    scale = value.rates.scale[:, None]
    parts = {"visible units": (value.rates.visible / scale, value.moments.visible / value.iterations)}
    pairs = (("pairs of units", "visible_pair"), ("pairs with hidden units", "pair"), ("hidden units", "hidden"))
    for name, field in pairs:
        drove, reached = getattr(value.rates, field), getattr(value.moments, field)
        if drove is not None and reached is not None:
            parts[name] = (drove / scale.reshape(-1, *[1] * (drove.ndim - 1)), reached / value.iterations)
    shown = {name: (_thin_evenly(drove), _thin_evenly(reached)) for name, (drove, reached) in parts.items()}
    gap = max(float(np.abs(drove - reached).max()) for drove, reached in parts.values())
    title = f"moments of {value.iterations} pseudo-samples beside the rates: at most {gap:.2g} apart"
    return plot_list.scatter_plot(shown, x="rate", y="mean over the pseudo-samples", title=title, diagonal_label="as driven")


def _thin_evenly(values: Array) -> Array:
    """Return at most MOST_PAIRS of the values, evenly spaced."""
    flat = np.ravel(values)
    return flat[:: -(-len(flat) // MOST_PAIRS)]


def gap(value: Herding, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """How far the moments are from the rates after each iteration, beside 1/t and what independent draws would leave.

    The moments of t pseudo-samples are off by (w_0 − w_t)/t (Prop. 1), so ‖w_t‖/t is that distance but for where the weights began.
    """
    norm = value.weight_norm
    t = np.unique(np.round(np.geomspace(1, len(norm), 120)).astype(int))
    names = value.classes if value.classes and len(value.classes) == value.count else [f"run {c + 1}" for c in range(value.count)]
    figure = plot_list.new_figure(3.8)
    axes = figure.add_subplot()
    for c in range(value.count):
        plot_list.draw_curve(axes, c, t, norm[t - 1, c] / t, label="‖w‖ / t, the moments' distance" if value.count == 1 else names[c])
    last = float(np.median(norm[-1])) / len(norm)
    axes.plot(t, last * len(norm) / t, color=plot_style.INK, lw=0.8, ls=":", label="1 / t")
    axes.plot(t, last * np.sqrt(len(norm) / t), color=plot_style.GREY, lw=0.8, ls="--", label="1 / √t")
    ends = [part.max() for part in (value.gap.largest_visible, value.gap.largest_pair) if part is not None]
    axes.plot([len(norm)], [max(ends)], marker="*", ms=9, ls="none", color=plot_style.INK, label="largest gap of a feature")
    drawn = expected_random_gap(value)
    if drawn is not None:
        axes.plot([len(norm)], [drawn], marker="x", ms=7, ls="none", color=plot_style.GREY, label="that of independent draws")
    axes.set(xlabel="iteration t", ylabel="distance of moments from rates", xscale="log", yscale="log")
    slope = log_log_slope(np.arange(1, len(norm) + 1), np.median(norm, axis=1) / np.arange(1, len(norm) + 1))
    axes.set_title(f"distance of moments from rates over {len(norm)} iterations" + plot_list.slope_text(slope))
    axes.legend(ncols=1 if value.count < 6 else 2)
    axes.grid()
    return figure


def samples(value: Herding, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The last kept pseudo-samples as pictures, those of each run in rows of their own; of real rows how often each was taken."""
    if not value.states.shape[1]:
        raise DataError("the file has no pseudo-samples to draw", hint="keep some: herd herd --keep-last 100")
    if value.features == "rows":
        return _visit_count_plot(value)
    each = TILES if value.count == 1 else 10
    kept = [restore_pruned_units(value, value.kept_samples(c)[0][-each:]) for c in range(value.count)]
    shape = value.image_shape
    runs = "" if value.count == 1 else f" of each of {value.count} runs"
    title = f"the last {len(kept[0])} pseudo-samples{runs}" + ("" if shape is not None else ", a line for each")
    return tiles.rows_plot(
        np.concatenate(kept).astype(np.float64),
        shape,
        row_label="pseudo-sample",
        column_names=value.feature_names,
        columns=None if value.count == 1 else 10,
        title=title,
    )


def restore_pruned_units(value: Herding, x: Array) -> Array:
    """Return pseudo-samples (n, kept units) with the pruned units in their places, at their lowest value."""
    if value.units is None:
        return x
    lowest = -1 if value.representation == "spin" else 0
    found = np.full((len(x), value.all_units), lowest, dtype=x.dtype)
    found[:, value.units] = x
    return found


def _visit_count_plot(value: Herding) -> plot_list.Figure:
    figure = plot_list.new_figure(3.2)
    axes = figure.add_subplot()
    for c in range(value.count):
        counts = np.sort(np.bincount(value.kept_samples(c)[0][:, 0]))[::-1]
        plot_list.draw_curve(axes, c, np.arange(1, len(counts) + 1), counts, label=value.classes[c] if value.classes else f"run {c + 1}")
    axes.set(xlabel="rows, those taken most often first", ylabel="times taken")
    axes.set_title(f"how often each row is among the {value.states.shape[1]} kept pseudo-samples")
    if value.count > 1:
        axes.legend()
    axes.grid()
    return figure
