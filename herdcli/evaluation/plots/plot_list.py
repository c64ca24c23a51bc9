"""The pictures of `herd eval --plot`: which ones a kind has, and the form of curves; `plots.tiles` has images.

A plot is a function `(value, settings, *, map) -> Figure`; a new one is one line of its kind in `herdcli.kinds`.  `plots.plot_style` alone
determines how plots look.  matplotlib (the extra `plot`) is imported when a figure is begun, without its global state; equal figures are
written as equal bytes.
"""

from __future__ import annotations

import importlib
import inspect
import io
import re
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np

from herdcli.errors import BadUsage, escape_text, nearest_name
from herdcli.evaluation.plots import plot_style
from herdcli.evaluation.plots.appearance import Appearance, finish_figure
from herdcli.kinds import KINDS, kinds_with
from herdcli.parts import import_by_path
from herdcli.schema import Array

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes

Figure: TypeAlias = "matplotlib.figure.Figure"
Plot = Callable[..., Figure]

SUFFIXES = (".png", ".pdf", ".svg")
FEW_CURVES = 4  # of more curves the legend is beside the axes
LONG = 400  # characters of a path, which is then a curve
ALL = "all"  # the name that stands for every plot of a kind
COUNTED = ("epoch", "iteration", "step", "atoms")  # axes whose ticks are whole
DEFAULT_APPEARANCE = Appearance()


def plot_names(kind: str) -> list[str]:
    """The plots of a kind."""
    return list(KINDS[kind].plots)


def import_plot_function(kind: str, name: str) -> Plot:
    """The function that draws one plot of a kind, imported now.  Raises BadUsage for plots that the kind has not."""
    if name not in plot_names(kind):
        known = plot_names(kind)
        close = nearest_name(name, known)
        listed = f"plots of {kind}: {', '.join(known)}" if known else f"kinds with plots: {', '.join(kinds_with('plots'))}"
        hint = f"did you mean {close}?  {listed}" if close else listed
        raise BadUsage(f"there is no plot '{name}' for artifacts of kind '{kind}'", hint=hint)
    return partial(_draw_in_style, import_by_path(KINDS[kind].plots[name]))


def plot_caption(kind: str, name: str) -> str:
    """Return what a plot shows: the first paragraph of its docstring."""
    whole = inspect.getdoc(import_by_path(KINDS[kind].plots[name])) or ""
    return " ".join(whole.split("Source:")[0].split("\n\n")[0].split())


def _draw_in_style(plot: Plot, *arguments: Any, appearance: Appearance = DEFAULT_APPEARANCE, **options: Any) -> Figure:
    """Return a plot drawn with the settings of `plot_style`, which matplotlib's artists read when they are made."""
    require_matplotlib()
    import matplotlib as mpl

    with mpl.rc_context(plot_style.matplotlib_settings()), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing|constrained_layout not applied")
        figure: Figure = finish_figure(escape_mathtext(plot(*arguments, **options)), appearance)
        return figure


def escape_mathtext(figure: Figure) -> Figure:
    """Return the figure with names of columns and classes as plain text: a dollar begins no formula, except in ticks at powers of ten."""
    from matplotlib.text import Text
    from matplotlib.ticker import FixedFormatter, FuncFormatter

    texts = [text for text in figure.findobj(Text) if "$" in text.get_text()]
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_formatter(), (FixedFormatter, FuncFormatter)):
                texts += axis.get_ticklabels()
    for text in texts:
        text.set_parse_math(False)
    return figure


def require_matplotlib() -> None:
    """Raise BadUsage with what to install unless matplotlib is there."""
    try:
        importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise BadUsage("plots need matplotlib, which is not installed", hint="pip install 'herdcli[plot]'") from error


def new_figure(height: float, width: float = plot_style.INCHES) -> Figure:
    """Return an empty figure of the given height and width in inches."""
    require_matplotlib()
    from matplotlib.figure import Figure as Drawn

    return Drawn(figsize=(width, height), dpi=plot_style.DPI, layout="constrained")


def write_figure(figure: Figure, path: str | PathLike[str] | BinaryIO, suffix: str, *, page: bool = False) -> None:
    """Write a figure to a file or stream as .png, .pdf or .svg, without dates and versions.

    page  for a page of HTML: SVG whose words are words, on a ground that lets the page through.
    """
    import matplotlib as mpl

    undated: dict[str, Any] = {".png": {"Software": None}, ".pdf": {"CreationDate": None, "Producer": None}, ".svg": {"Date": None}}
    rules = plot_style.matplotlib_settings() | {"svg.hashsalt": "herd", "svg.fonttype": "none" if page else "path"}
    with mpl.rc_context(rules), warnings.catch_warnings():
        # Names in other scripts are boxes in a picture, and letters on a page; a figure may be too small for its names.
        warnings.filterwarnings("ignore", message="Glyph .* missing|constrained_layout not applied")
        if suffix != ".svg":
            figure.savefig(path, format=suffix[1:], metadata=undated[suffix], dpi=figure.get_dpi())
            return
        drawn = io.BytesIO()
        figure.savefig(drawn, format="svg", metadata=undated[suffix], transparent=page, dpi=plot_style.RASTER)
    small = compact_svg(drawn.getvalue().decode()).encode()
    if isinstance(path, (str, PathLike)):
        Path(path).write_bytes(small)
    else:
        path.write(small)


def compact_svg(svg: str) -> str:
    """Return the same picture in fewer bytes.

    Coordinates are rounded to hundredths of a point (of long curves to tenths), needless blanks are removed, and the style of consecutive
    marks is written once.
    """
    svg = escape_text(svg, keep="\n\t")  # names of columns and classes: XML has no control characters, and some turn the text around
    svg = re.sub(r'\b(?:d|x|y|points)="[^"]*"', _round_coordinates, svg)
    svg = re.sub(r"\n\s*(?=[\nLQCMz<]|$)", "\n", svg)
    return re.sub(r'<use [^>]*? style="([^"]*)"/>(?:\n<use [^>]*? style="\1"/>)+', _merge_marks, svg)


def _merge_marks(match: re.Match[str]) -> str:
    """Return a group of consecutive marks of one style, with the style written once for the group."""
    own = f' style="{match[1]}"'
    return f"<g{own}>\n{match[0].replace(own, '')}\n</g>"


def _round_coordinates(match: re.Match[str]) -> str:
    digits = 1 if len(match[0]) > LONG else 2
    short = re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.{digits}f}".rstrip("0").rstrip("."), match[0])
    return re.sub(r"\s*\n\s*", " ", short).replace(' "', '"')


def curve_plot(lines: Mapping[str, tuple[Array, Array]], *, x: str, y: str, title: str = "", logarithmic: bool = False) -> Figure:
    """Curves (x, y) by their names, each with a colour, a line and a mark of its own; a legend if there are 2 to 12.

    Axes that count (epochs, iterations, steps, atoms) have whole ticks.
    """
    if not lines:
        raise BadUsage("there is nothing to draw")
    figure = new_figure(3.6)
    axes = figure.add_subplot()
    for index, (name, (across, up)) in enumerate(lines.items()):
        draw_curve(axes, index, across, up, label=name)
    axes.set(xlabel=x, ylabel=y)
    if logarithmic:
        axes.set_yscale("log")
    if x.split()[0] in COUNTED:
        use_integer_ticks(axes)
    if title:
        axes.set_title(title)
    if 1 < len(lines) <= FEW_CURVES:
        axes.legend()
    elif FEW_CURVES < len(lines) <= 12:
        figure.legend(loc="outside right upper")
    axes.grid()
    return figure


def draw_curve(axes: Axes, index: int, across: Array, up: Array, **more: Any) -> None:
    """Draw a curve in the colour, line and marks of its number; about a dozen marks, which different curves have at different places."""
    apart = max(1, len(across) // 12)
    more |= {"label": legend_label(str(more["label"]))} if "label" in more else {}
    look = {"color": plot_style.cycle_colour(index), "linestyle": plot_style.line_style(index), "marker": plot_style.marker_style(index)}
    axes.plot(across, up, markevery=(index % apart, apart), **(look | more))


def legend_label(name: str) -> str:
    """Return a name as a label; a blank is added before an underscore, because matplotlib omits such labels from legends."""
    return f" {name}" if name.startswith("_") else name


def count_text(count: int, noun: str) -> str:
    """Return a number with its noun for a title: 1 epoch, 20 epochs."""
    return f"{count} {noun}{'s' * (count != 1)}"


def use_integer_ticks(axes: Axes) -> None:
    """Put the ticks of the horizontal axis at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    low, high = axes.get_xlim()
    if high - low < 1.0:  # a single epoch
        axes.set_xlim(low - 0.5, high + 0.5)


def draw_points(axes: Axes, x: Array, y: Array, index: int = 0, *, total_points: int = 0, **more: Any) -> None:
    """Draw marks without a line, in the colour of a number; many marks become an image, since a vector picture would be large.

    total_points  the number of marks in the whole picture, if these are not all.
    """
    look: dict[str, Any] = {
        "color": plot_style.cycle_colour(index),
        "marker": plot_style.marker_style(index),
        "linestyle": "none",
        "markersize": 3,
        "alpha": 0.6,
    }
    axes.plot(x, y, rasterized=max(len(x), total_points) > plot_style.MANY, markeredgewidth=0, **(look | more))


def draw_diagonal(axes: Axes, *values: Array, label: str) -> None:
    """Draw the line on which both axes have the same value, over the range of the values."""
    known = np.concatenate([np.ravel(each) for each in values])
    ends = [float(np.nanmin(known)), float(np.nanmax(known))]
    axes.plot(ends, ends, color=plot_style.GREY, lw=1, zorder=0, label=label)


def scatter_plot(parts: Mapping[str, tuple[Array, Array]], *, x: str, y: str, title: str, diagonal_label: str) -> Figure:
    """Return a scatter plot of pairs of numbers that should be equal, with a name for each part and the line on which they are equal."""
    if not any(len(across) for across, _ in parts.values()):
        raise BadUsage("there is nothing to draw")
    figure = new_figure(4.4, 5.2)
    axes = figure.add_subplot()
    draw_diagonal(axes, *(each for pair in parts.values() for each in pair), label=diagonal_label)
    for index, (name, (across, up)) in enumerate(parts.items()):
        draw_points(axes, across, up, index, label=name)
    axes.set(xlabel=x, ylabel=y)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_title(title)
    axes.legend(markerscale=1.6)
    axes.grid()
    return figure


def log_log_slope(x: Array, y: Array) -> float | None:
    """Return the slope of y (n,) over x (n,) by least squares on logarithmic axes, from a tenth of the range of x on; None if unknown.

    Points are taken at evenly spaced logarithms, so that the many last ones do not count more.
    """
    if len(x) < 2:
        return None
    at = np.unique(np.searchsorted(x, np.geomspace(max(x[0], x[-1] / 10), x[-1], 60)))
    at = at[at < len(x)]
    across, up = np.log(np.asarray(x, dtype=np.float64)[at]), np.asarray(y, dtype=np.float64)[at]
    usable = (up > 0) & np.isfinite(up)
    if usable.sum() < 3 or np.ptp(across[usable]) == 0:
        return None
    return float(np.polyfit(across[usable], np.log(up[usable]), 1)[0])


def slope_text(slope: float | None) -> str:
    """Return a slope on logarithmic axes as the end of a title; nothing if it is unknown."""
    return "" if slope is None else f"; slope {slope:.2f}".replace("-", "−")
