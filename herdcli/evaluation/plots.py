"""The pictures of `herd eval --plot`: which ones a kind has, and the two forms they take, tiles of images and curves.

A plot is a function `(value, settings, *, map) -> Figure`; a new one is one line of its kind in `herdcli.kinds`.  matplotlib (the extra
`plot`) is imported when a figure is begun, without its global state; equal figures are written as equal bytes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, BinaryIO

import numpy as np

from herdcli.errors import BadUsage
from herdcli.kinds import KINDS, able, named
from herdcli.schema import Array

Figure = Any  # matplotlib.figure.Figure
Plot = Callable[..., Figure]

SUFFIXES = (".png", ".pdf", ".svg")
INCHES = 6.4  # width of every figure
DPI = 150
MOST_TILES = 400


def names(kind: str) -> list[str]:
    """The plots of a kind."""
    return list(KINDS[kind].plots)


def plot_of(kind: str, name: str) -> Plot:
    """The function that draws one plot of a kind, imported now.  Raises BadUsage for plots that the kind has not."""
    if name not in names(kind):
        known = names(kind)
        hint = f"plots of {kind}: {', '.join(known)}" if known else f"kinds with plots: {', '.join(able('plots'))}"
        raise BadUsage(f"there is no plot '{name}' of kind '{kind}'", hint=hint)
    found: Plot = named(KINDS[kind].plots[name])
    return found


def require_matplotlib() -> None:
    """Raise BadUsage with what to install unless matplotlib is there."""
    try:
        importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise BadUsage("pictures need matplotlib, which is not installed", hint="pip install 'herdcli[plot]'") from error


def begin(height: float, width: float = INCHES) -> Figure:
    """An empty figure of so many inches."""
    require_matplotlib()
    from matplotlib.figure import Figure as Drawn

    return Drawn(figsize=(width, height), dpi=DPI, layout="constrained")


def write(figure: Figure, path: str | PathLike[str] | BinaryIO, suffix: str) -> None:
    """Write a figure to a file or stream as .png, .pdf or .svg, without dates and versions."""
    import matplotlib as mpl

    undated: dict[str, Any] = {".png": {"Software": None}, ".pdf": {"CreationDate": None, "Producer": None}, ".svg": {"Date": None}}
    with mpl.rc_context({"svg.hashsalt": "herd"}):
        figure.savefig(path, format=suffix[1:], metadata=undated[suffix])


def images(rows: Array, image_shape: Array | None) -> Array:
    """Rows (n, D) as pictures (n, height, width); without an image shape as one picture whose lines are the rows."""
    if image_shape is None:
        return np.asarray(rows)[None]
    height, width = (int(length) for length in image_shape)
    return np.asarray(rows).reshape(-1, height, width)


def mosaic(pictures: Array, columns: int | None = None) -> Array:
    """Pictures (n, h, w) side by side, row after row, a gap of NaN between them: one array of float64."""
    count, height, width = pictures.shape
    gap = max(1, round(0.04 * max(height, width)))
    columns = min(count, columns or max(1, round(np.sqrt(count * 1.4 * height / width))))
    lines = -(-count // columns)
    whole = np.full((lines * (height + gap) - gap, columns * (width + gap) - gap), np.nan)
    for index, picture in enumerate(pictures):
        top, left = (height + gap) * (index // columns), (width + gap) * (index % columns)
        whole[top : top + height, left : left + width] = picture
    return whole


def tiles(
    pictures: Array, *, columns: int | None = None, signed: bool = False, limits: tuple[float, float] | None = None, title: str = ""
) -> Figure:
    """Pictures (n, h, w) in rows, grey on one scale, NaN blank; at most 400 of them, and the title says so.

    signed  zero is mid-grey and the largest size black or white.  limits  what is black and what is white.
    """
    count = len(pictures)
    if count == 0:
        raise BadUsage("there is nothing to draw")
    pictures = pictures[:MOST_TILES]
    whole = mosaic(pictures, columns)
    if limits is None:
        largest = float(np.nanmax(np.abs(whole))) or 1.0
        limits = (-largest, largest) if signed else (float(np.nanmin(whole)), float(np.nanmax(whole)))
    if count > MOST_TILES:
        title = f"{title} (the first {MOST_TILES} of {count})".strip()
    figure = begin(min(9.0, max(0.6, INCHES * whole.shape[0] / whole.shape[1])) + (0.25 if title else 0.0))
    axes = figure.add_subplot()
    aspect = "equal" if 0.02 < whole.shape[0] / whole.shape[1] < 50 else "auto"
    axes.imshow(whole, cmap="gray", vmin=limits[0], vmax=limits[1], interpolation="nearest", aspect=aspect)
    axes.set_axis_off()
    if title:
        axes.set_title(title, fontsize=9, loc="left")
    return figure


def curves(lines: Mapping[str, tuple[Array, Array]], *, x: str, y: str, logarithmic: bool = False) -> Figure:
    """Curves (x, y) by their names, the axes labelled; a legend if there are 2 to 12."""
    if not lines:
        raise BadUsage("there is nothing to draw")
    figure = begin(4.0)
    axes = figure.add_subplot()
    for name, (across, up) in lines.items():
        axes.plot(across, up, label=name, linewidth=1.2)
    axes.set(xlabel=x, ylabel=y)
    if logarithmic:
        axes.set_yscale("log")
    if 1 < len(lines) <= 12:
        axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    return figure
