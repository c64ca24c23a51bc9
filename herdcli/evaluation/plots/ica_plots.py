"""Pictures of an `ica`: its filters, their spectra, the Gabor functions fitted to them, and how they tile their plane.

Filters are drawn on the rows' own axes in the whitened domain, as Teh (2003) does, each on a scale of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures.ica import GOOD_FIT, image_shape
from herdcli.evaluation.plots import gabor, plot_list, plot_style, tiles
from herdcli.ica.filters import filter_spectra as signals
from herdcli.ica.model import ICA
from herdcli.schema import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW_COLUMNS = 32  # rows of fewer columns are channels: the filters are drawn as one matrix
CURVES = 20
PAIRS = 96
HALF = 2.0 * np.sqrt(2.0 * np.log(2.0))  # full width at half height of a Gaussian over its standard deviation
CROSS = 1 / 16  # the arms of a cross, of the bandwidth
WIDEST = 3.0  # points, of a bar


def filters(value: ICA, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """Pictures, those of a topography on its map; of signals the twenty filters of largest power; of few channels the unmixing matrix."""
    rows = _normalise_rows(value.whitening.filters_in_row_axes(value.J))
    shape = image_shape(value)
    if shape is not None:
        return tiles.tile_images(
            rows.reshape(-1, *shape),
            columns=_topography_width(value),
            signed=True,
            title="filters in the whitened domain, each on its own scale",
        )
    if rows.shape[1] < FEW_COLUMNS or is_table(value):
        return tiles.matrix_plot(
            _normalise_rows(value.unmixing_matrix),
            row_label="output",
            column_label="channel",
            column_names=value.feature_names,
            signed=True,
            title="unmixing matrix, a line for each output",
            scale="share of the largest in its line",
        )
    return curve_panels(rows[:CURVES], np.arange(rows.shape[1]), "sample", f"the {min(CURVES, len(rows))} filters of largest power")


def is_table(value: ICA) -> bool:
    """Whether the rows are those of a table: their columns have names of their own, so that neighbours are not neighbours in time."""
    names = value.feature_names
    return names is not None and not all(name.lstrip("xXvVtT_").isdigit() for name in names)


def _require_signal(value: ICA) -> None:
    if is_table(value):
        raise DataError("the plot needs columns in order of time, but the model was fitted to the columns of a table")


def _topography_width(value: ICA) -> int | None:
    """Return the number of columns of the map of a topography; None without a topography."""
    return None if value.grid is None else int(value.grid[1])


def spectra(value: ICA, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """Power over frequency: of pictures in both directions, frequency 0 in the middle."""
    rows = value.whitening.filters_in_row_axes(value.J)
    shape = image_shape(value)
    if shape is not None:
        power = np.abs(np.fft.fftshift(np.fft.fft2(rows.reshape(-1, *shape)), axes=(1, 2)))
        shown = power / power.max(axis=(1, 2), keepdims=True)
        return tiles.tile_images(shown, columns=_topography_width(value), title="amplitude spectra of the filters")
    _require_signal(value)
    power = signals.power_spectra(rows[:CURVES])
    return curve_panels(
        _normalise_rows(power), np.arange(power.shape[1]) / rows.shape[1], "cycles per sample", "power spectra of the filters"
    )


def gabors(value: ICA, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """Filters, and to the right of each the Gabor function fitted to it; the best fit first."""
    rows, found = _fit_gabors(value, map)
    r2 = found.r2
    order = np.argsort(-r2, kind="stable")
    shown = order[np.linspace(0, len(order) - 1, min(PAIRS, len(order))).round().astype(int)]
    height, width = rows.shape[1:]
    pairs = np.stack([rows, gabor.gabor_images(found, height, width)], axis=1)[shown].reshape(-1, height * width)
    title = f"filters and Gabor functions, from the best fit to the worst: r² ≥ {GOOD_FIT:g} for {100 * np.mean(r2 >= GOOD_FIT):.0f} %"
    return tiles.tile_images(_normalise_rows(pairs).reshape(-1, height, width), group=2, signed=True, title=title)


def tiling(value: ICA, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """Where the filters are, and at what frequencies: of pictures by their Gabor functions, of signals over time and frequency.

    Source: Teh (2003), fig. 4.10 and 4.11 (pictures), 4.8 (signals).
    """
    if image_shape(value) is None:
        _require_signal(value)
        return _time_frequency_plot(value.whitening.filters_in_row_axes(value.J))
    rows, found = _fit_gabors(value, map)
    good = found.r2 >= GOOD_FIT
    figure = plot_list.new_figure(3.6)
    space, frequency = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    _draw_bars(space, found, good, rows.shape[1:])
    _draw_crosses(frequency, found, good)
    figure.suptitle(f"{int(good.sum())} of {len(good)} filters, with r² ≥ {GOOD_FIT:g}")
    return figure


def curve_panels(rows: Array, across: Array, x: str, title: str = "") -> plot_list.Figure:
    """Each row as a curve of its own, five side by side."""
    lines = -(-len(rows) // 5)
    figure = plot_list.new_figure(0.4 + 0.9 * lines)
    if title:
        figure.suptitle(title)
    for index, row in enumerate(rows):
        axes = figure.add_subplot(lines, 5, index + 1)
        axes.plot(across, row, linewidth=0.8)
        axes.set_yticks([])
        if index < len(rows) - 5:
            axes.set_xticklabels([])
        elif index == len(rows) - 1:
            axes.set_xlabel(x)
    return figure


def _normalise_rows(rows: Array) -> Array:
    """Return each row divided by its largest absolute value."""
    return np.asarray(rows / np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-300))


def _fit_gabors(value: ICA, map: Map) -> tuple[Array, gabor.GaborParameters]:
    """Filters as pictures (M, h, w), and their Gabor functions.  Raises DataError where there are no pictures."""
    shape = image_shape(value)
    if shape is None:
        raise DataError("has no image_shape, so its filters are not images and Gabor functions cannot be fitted")
    rows = value.whitening.filters_in_row_axes(value.J).reshape(-1, *shape)
    return rows, gabor.fit_gabors(rows, map=map)


def _draw_bars(axes: Axes, parameters: gabor.GaborParameters, good: Array, shape: tuple[int, int]) -> None:
    """A bar at the place of each filter, as long as 2τ along its bars and as wide as σ."""
    from matplotlib.collections import LineCollection

    x, y, theta, tau = parameters.x[good], parameters.y[good], parameters.theta[good], parameters.tau[good]
    along = np.stack([-np.sin(theta), np.cos(theta)], axis=1) * tau[:, np.newaxis]
    centre = np.stack([x, y], axis=1)
    bars = list(np.stack([centre - along, centre + along], axis=1))
    axes.add_collection(LineCollection(bars, linewidths=np.minimum(parameters.sigma[good], WIDEST), colors=plot_style.GREY))
    axes.set(xlim=(-0.5, shape[1] - 0.5), ylim=(shape[0] - 0.5, -0.5), aspect="equal")
    axes.set_title("place, length and width")


def _draw_crosses(axes: Axes, parameters: gabor.GaborParameters, good: Array) -> None:
    """A cross at the peak of each filter's spectrum in the upper half plane, its arms 1/16 of the bandwidths."""
    from matplotlib.collections import LineCollection

    theta, f = parameters.theta[good], parameters.frequency[good]
    outwards = np.stack([np.cos(theta), np.sin(theta)], axis=1)
    sideways = np.stack([-np.sin(theta), np.cos(theta)], axis=1)
    centre = f[:, np.newaxis] * outwards
    arms = []
    for direction, size in ((outwards, parameters.sigma[good]), (sideways, parameters.tau[good])):
        # A Gaussian with standard deviation σ in space has standard deviation 1/(2πσ) in frequency.  Its full width at half height is
        # 2√(2 log 2) times this.
        half = direction * (0.5 * CROSS * HALF / (2 * np.pi * size))[:, np.newaxis]
        arms += list(np.stack([centre - half, centre + half], axis=1))
    axes.add_collection(LineCollection(arms, linewidths=0.6, colors=plot_style.INK))
    angle = np.linspace(0, np.pi, 100)
    for radius in (0.125, 0.25, 0.375, 0.5):
        axes.plot(radius * np.cos(angle), radius * np.sin(angle), color=plot_style.GREY, linewidth=0.4)
    axes.set(xlim=(-0.6, 0.6), ylim=(-0.02, 0.72), aspect="equal")
    axes.set_title("cycles per pixel across the bars")


def _time_frequency_plot(rows: Array) -> plot_list.Figure:
    plane = signals.time_frequency_power(rows)
    figure = plot_list.new_figure(4.0)
    axes = figure.add_subplot()
    shown = axes.imshow(plane, origin="lower", aspect="auto", cmap="gray", extent=(0, rows.shape[1], 0, 0.5), interpolation="none")
    axes.set(xlabel="sample", ylabel="cycles per sample", title="power of the filters over time and frequency")
    figure.colorbar(shown, label="power")
    return figure
