"""Pictures of `samples`: atoms over two principal axes by weight and group, and how their MMD falls with their number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import BadUsage
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures.samples import EvaluatedSamples, expected_random_mmd, trace_rows
from herdcli.evaluation.plots import planes, plot_list, plot_style, tiles
from herdcli.quadrature.samples import Samples
from herdcli.schema import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LARGEST, SMALLEST = 120.0, 16.0  # points², the area of the mark of the heaviest of few and of many atoms
INK = 4000.0  # points² of all marks together between these
MOST_ROWS = 1500  # maximum number of the target's rows that are drawn behind the atoms
MOST_THUMBNAILS = 60  # atoms that are drawn as images
CELLS, LEVELS = 80, 10  # cells on a side, and shades, of a density
GROUPS = 12  # maximum number of groups in a legend
Value = Samples | EvaluatedSamples


def atoms(value: Value, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """Atoms over the two axes along which they, or with --data the rows that they stand for, vary most; areas are weights."""
    own = value.samples if isinstance(value, EvaluatedSamples) else value
    X, weight = (value.atoms, value.weight) if isinstance(value, EvaluatedSamples) else (value.x, value.weight)
    rows = value.target.rows if isinstance(value, EvaluatedSamples) and value.target is not None else None
    axes, centre, share = planes.principal_axes(X if rows is None else rows)
    axes = planes.plane_of_columns(axes)
    centre = centre if len(axes) > 2 else np.zeros(len(axes))
    shape = _shape_of_atoms(value)
    figure = plot_list.new_figure(4.8)
    panel = figure.add_subplot()
    if rows is not None:
        behind = (rows[:: -(-len(rows) // MOST_ROWS)] - centre) @ axes
        _draw_density(panel, behind)
        plot_list.draw_points(
            panel, behind[:, 0], behind[:, 1], color=plot_style.GREY, marker="o", markersize=1.5, alpha=0.5, label="rows of --data"
        )
    flat, area = (
        (X - centre) @ axes,
        float(np.clip(INK / len(X), SMALLEST, LARGEST)) * np.abs(weight) / max(float(np.abs(weight).max()), 1e-300),
    )
    names = (own.group_names if own is not None else None) or [""]
    shown = _group_labels(names)
    for g in range(len(names)):
        chosen = np.arange(len(flat)) if own is None or own.group is None else own.group_positions(g)
        _draw_group(panel, flat[chosen], area[chosen], weight[chosen] < 0, g, shown[g] if g < GROUPS else "", len(flat) > plot_style.MANY)
    if shape is not None:
        groups = np.zeros(len(flat), dtype=int) if own is None or own.group is None else own.group
        heaviest = _heaviest_of_each_group(np.abs(weight), groups)[:MOST_THUMBNAILS]
        colours = [plot_style.cycle_colour(int(g)) for g in groups[heaviest]]
        tiles.add_thumbnails(panel, flat[heaviest], tiles.rows_as_images((X if own is None else own.x)[heaviest], shape), colours=colours)
    planes.label_plane(panel, axes, value.feature_names, share=share, image=shape is not None)
    panel.set_aspect("equal" if len(axes) > 2 else "auto", adjustable="datalim")
    of = "" if len(names) == 1 else f" of {len(names)} groups"
    density = " over the density of the rows" if rows is not None else ""
    images = f", {MOST_THUMBNAILS} as images" if shape is not None and len(X) > MOST_THUMBNAILS else ""
    negative = ", hollow ones negative" if (weight < 0).any() else ""
    panel.set_title(f"{len(X)} weighted points{of}{density}{images}; areas are weights{negative}")
    if len(names) > 1 or rows is not None:
        figure.legend(loc="outside right upper")
    return figure


def _heaviest_of_each_group(weight: Array, groups: Array) -> Array:
    """Return the positions (n,) of weights (n,): the largest weight of each group, then the second largest of each, and so on."""
    order = np.lexsort((-weight, groups))
    rank = np.empty(len(order), dtype=int)
    starts = np.searchsorted(groups[order], groups[order])
    rank[order] = np.arange(len(order)) - starts
    return np.lexsort((-weight, rank))


def _shape_of_atoms(value: Value) -> Array | None:
    """Return the height and width of atoms that are images, else None."""
    columns = (value.x if isinstance(value, Samples) else value.atoms).shape[1]
    return value.image_shape if value.image_shape is not None and int(np.prod(value.image_shape)) == columns else None


def _draw_density(panel: Axes, points: Array) -> None:
    """Shade a plane by the density of points (n, 2) on it: a kernel density estimate with Scott's bandwidth."""
    spread = points.std(axis=0)
    if len(points) < 10 or not (spread > 0).all():
        return
    width = spread * len(points) ** (-1 / 6)
    low, high = points.min(axis=0) - 2 * width, points.max(axis=0) + 2 * width
    grids = [np.linspace(low[k], high[k], CELLS) for k in range(2)]
    x, y = (np.exp(-0.5 * np.square((grids[k][:, None] - points[None, :, k]) / width[k])) for k in range(2))
    density = y @ x.T / (len(points) * 2 * np.pi * width.prod())
    panel.contourf(*grids, density, levels=LEVELS, cmap="Greys", alpha=0.5, zorder=0)


def _group_labels(names: Sequence[str]) -> list[str]:
    """The names of groups in a legend: bare numbers would say nothing."""
    return [f"group {name}" if name.lstrip("-").isdigit() else name for name in names]


def _draw_group(panel: Axes, flat: Array, area: Array, negative: Array, index: int, name: str, many: bool) -> None:
    """One group, weights below 0 hollow."""
    colour = plot_style.cycle_colour(index)
    face = np.where(negative, "none", colour).tolist() if negative.any() else colour
    size = np.maximum(area, 2.0) if len(area) and np.ptp(area) > 0 else np.maximum(area[:1], 2.0)  # one mark where all are of one size
    panel.scatter(
        flat[:, 0], flat[:, 1], s=size, facecolors=face, edgecolors=colour, marker=plot_style.marker_style(index),
        linewidths=0.6, alpha=0.7, label=plot_list.legend_label(name), rasterized=many,
    )  # fmt: skip


def _shorten_kernel(kernel: str) -> str:
    """The name of a kernel, its numbers to four digits."""
    return re.sub(r"\d+\.\d{4,}", lambda number: f"{float(number[0]):.4g}", kernel)


def mmd(value: Value, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The MMD of the first m atoms against m, beside that of m random rows; with --data or --distribution also to that target."""
    own = value.samples if isinstance(value, EvaluatedSamples) else value
    if own is None:
        raise BadUsage(
            "--plot mmd works only with samples, because the rows of a data set have no order of selection", hint="use --plot atoms"
        )
    figure = plot_list.new_figure(3.8)
    axes = figure.add_subplot()
    names = _group_labels(own.group_names) if own.group_names else [f"herded ({own.rule})"]
    most = 0
    for g in range(own.groups):
        values = own.mmd[own.group_positions(g)]
        most = max(most, len(values))
        if g < GROUPS:
            plot_list.draw_curve(axes, g, np.arange(1, len(values) + 1), values, label=names[g])
    m = np.unique(np.round(np.geomspace(1, most, 100)).astype(int))
    if own.summary is not None:
        one = float(np.nanmean(expected_random_mmd(own, own.summary) * np.sqrt([len(own.group_positions(g)) for g in range(own.groups)])))
        if np.isfinite(one):
            axes.plot(m, one / np.sqrt(m), color=plot_style.GREY, ls="--", label="as many random rows")
    if own.weights != "rule" and own.summary is not None:
        ends = [len(own.group_positions(g)) for g in range(own.groups)]
        axes.plot(ends, own.summary.mmd, marker="*", ms=9, ls="none", color=plot_style.INK, label=f"with {own.weights} weights")
    if isinstance(value, EvaluatedSamples) and value.target is not None and value.kernel is not None and own.rate is not None:
        rows = [row for row in trace_rows(own, value.target, value.kernel) if row.get("target_mmd") is not None]
        plot_list.draw_curve(
            axes,
            own.groups,
            np.array([row["t"] for row in rows]),
            np.array([row["target_mmd"] for row in rows]),
            label="to the target given",
        )
    axes.set(xlabel="atoms m", ylabel=f"MMD, {_shorten_kernel(own.kernel)}", xscale="log", yscale="log")
    first = own.mmd[own.group_positions(0)]
    slope = plot_list.log_log_slope(np.arange(1, len(first) + 1), first) if own.groups == 1 else None
    axes.set_title(f"MMD of the first m of {len(own.index)} points to their target" + plot_list.slope_text(slope))
    axes.legend()
    axes.grid()
    return figure
