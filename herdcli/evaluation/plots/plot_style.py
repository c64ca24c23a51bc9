"""How every picture looks: colours, marks, sizes.  The one place that says so.

Colours of things are those of Okabe & Ito (2008), told apart by people with any of the common kinds of colour blindness; beside a colour
there is always a mark or a kind of line.  INK, PAPER, GRID and the colours of things stand for what a page may put in their place: a
report turns them into CSS variables, so that pictures follow the reader's light or dark setting.
"""

from __future__ import annotations

from typing import Any

INK, PAPER, GRID = "#1b1b1f", "#fefefe", "#c9c9d2"
GREY = "#80808a"  # of what stands behind: bands, guides, rows of data; visible on white and on black
ON_LIGHT, ON_DARK = "#010102", "#fdfdfd"  # of words on cells of a picture, which are light or dark whatever the page is
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c510a", "#6a51a3")
LIGHTER = ("#58b0e6", "#f28a45", "#35c79b", "#e3a2c6", "#f0b93a", "#8fd0f5", "#c98f4e", "#a590d8")  # the same on black
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (5, 2, 1, 2)))
SHADES = "cividis"  # colour map of sizes from low to high
DIVERGING = "RdBu_r"  # colour map of signed numbers, white at 0

INCHES = 6.4  # width of every figure
DPI = 150
RASTER = 80  # dots an inch of what is drawn as an image inside a vector picture
MANY = 200  # points, from which they are drawn as an image inside a vector picture

RULES: dict[str, Any] = {
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.grid": False,
    "axes.labelcolor": INK,
    "axes.labelsize": 8,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "figure.facecolor": PAPER,
    "figure.titlesize": 9,
    "font.size": 8,
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "image.interpolation": "none",
    "legend.edgecolor": GRID,
    "legend.facecolor": PAPER,
    "legend.fontsize": 7,
    "legend.framealpha": 0.85,
    "legend.title_fontsize": 7,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "text.color": INK,
    "xtick.color": INK,
    "xtick.labelsize": 7,
    "ytick.color": INK,
    "ytick.labelsize": 7,
}


def matplotlib_settings() -> Any:
    """Return the settings of matplotlib, including the cycle of colours, as a dict."""
    from matplotlib.rcsetup import cycler

    return {**RULES, "axes.prop_cycle": cycler(color=COLOURS)}


def cycle_colour(index: int) -> str:
    """Return the colour of the thing with this number; colours repeat."""
    return COLOURS[index % len(COLOURS)]


def marker_style(index: int) -> str:
    """Return the mark of the thing with this number; when colours repeat, they have other marks."""
    return MARKS[(index + index // len(MARKS)) % len(MARKS)]


def line_style(index: int) -> Any:
    """Return the line style of the thing with this number."""
    return LINES[(index + index // len(LINES)) % len(LINES)]
