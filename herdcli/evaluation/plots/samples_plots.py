"""Pictures of `samples`: atoms over two principal axes by weight and group, and how their MMD falls with their number."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from herdcli.errors import BadUsage
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures.samples import EvaluatedSamples, expected_random_mmd, trace_rows
from herdcli.evaluation.plots import plot_list, plot_style
from herdcli.quadrature.samples import Samples
from herdcli.schema import Array

LARGEST, SMALLEST = 120.0, 16.0  # points², the area of the mark of the heaviest of few and of many atoms
INK = 4000.0  # points² of all marks together between these
MOST_ROWS = 1500  # maximum number of the target's rows that are drawn behind the atoms
GROUPS = 12  # maximum number of groups in a legend
Value = Samples | EvaluatedSamples
Map = Callable[..., Any]


def atoms(value: Value, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """Atoms over the two axes along which they, or with --data the rows that they stand for, vary most; areas are weights."""
    own = value.samples if isinstance(value, EvaluatedSamples) else value
    X, weight = (value.atoms, value.weight) if isinstance(value, EvaluatedSamples) else (value.x, value.weight)
    rows = value.target.rows if isinstance(value, EvaluatedSamples) and value.target is not None else None
    axes, centre, share = plot_list.principal_axes(X if rows is None else rows)
    figure = plot_list.new_figure(4.8)
    panel = figure.add_subplot()
    if rows is not None:
        behind = (rows[:: -(-len(rows) // MOST_ROWS)] - centre) @ axes
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
    panel.set_xlabel(f"first principal axis, {100 * share[0]:.0f} % of the variance")
    panel.set_ylabel(f"second, {100 * share[1]:.0f} %")
    panel.set_aspect("equal", adjustable="datalim")
    of = "" if len(names) == 1 else f" of {len(names)} groups"
    panel.set_title(f"{len(X)} weighted points{of}; areas are weights" + (", hollow ones negative" if (weight < 0).any() else ""))
    if len(names) > 1 or rows is not None:
        panel.legend()
    return figure


def _group_labels(names: Sequence[str]) -> list[str]:
    """The names of groups in a legend: bare numbers would say nothing."""
    return [f"group {name}" if name.lstrip("-").isdigit() else name for name in names]


def _draw_group(panel: Any, flat: Array, area: Array, negative: Array, index: int, name: str, many: bool) -> None:
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
        raise BadUsage("--plot mmd needs samples: the rows of a data set have no order of selection", hint="--plot atoms")
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
    axes.set_title(f"how near the first m of {len(own.index)} points are to their target")
    axes.legend()
    axes.grid()
    return figure
