"""Tiles of images in a grid, and matrices with a line for each row where the rows are no images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from herdcli.errors import BadUsage
from herdcli.evaluation.plots import plot_style
from herdcli.evaluation.plots.plot_list import Figure, new_figure
from herdcli.schema import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

MOST_TILES = 400
FEW_NAMES = 60  # columns or rows up to which their names are written
UPRIGHT = 0.6  # inches that upright names of columns need below a matrix
LARGE_NAMES = 40  # names up to this number have the usual size
TALLEST = 8.0  # inches, of a grid
FULLEST = 0.6  # the share of the last line of a grid that has to be filled
NAME_BAND = 0.16  # the height of a name above a picture, of that of the picture
WHOLE_LINES = 0.5  # the weight of a last line that is not full, on the scale of the logarithm of width by height
TALL = 2.0  # the weight of a grid that is taller than wide, beside one that is wider than tall
PUSHES = 300
LARGE, SMALL = 26.0, 19.0  # points, the height of a thumbnail; of more than so many
FEW_THUMBNAILS = 12
THUMBNAIL = 1.7  # the distance of thumbnails, of their size: axes are smaller than the figure
BLANKS = 2.0  # the weight of the share of blank places


def rows_as_images(rows: Array, image_shape: Array | None) -> Array:
    """Rows (n, D) as pictures (n, height, width); without an image shape as one picture whose lines are the rows."""
    if image_shape is None:
        return np.asarray(rows)[None]
    height, width = (int(length) for length in image_shape)
    return np.asarray(rows).reshape(-1, height, width)


def grid_columns(count: int, height: int, width: int) -> int:
    """Return the number of columns of a nearly square grid of `count` tiles of the given size without an orphan in its last line.

    A full last line is preferred, and at least three fifths of it are filled.
    """

    def cost(columns: int) -> float:
        lines = -(-count // columns)
        blank = lines * columns - count
        wide = np.log(columns * width / (lines * height))
        unsquare = max(wide, -TALL * wide)
        orphans = columns - blank < FULLEST * columns
        return round(float(unsquare + (WHOLE_LINES if blank else 0.0) + BLANKS * blank / (lines * columns) + orphans), 9)

    return min(range(count, 0, -1), key=cost)


def tile_into_mosaic(pictures: Array, columns: int | None = None, *, group: int = 1) -> Array:
    """Pictures (n, h, w) side by side, row after row, a gap of NaN between them: one array of float64.

    group  how many successive pictures belong together; groups are never broken, and the gap between them is wider.
    """
    count, height, width = pictures.shape
    gap = _tile_gap(height, width)
    wide = gap if group == 1 else 3 * gap
    groups = -(-count // group)
    group_width = group * (width + gap) - gap
    across = max(1, columns // group) if columns else grid_columns(groups, height, group_width)
    across = min(groups, across)
    lines = -(-groups // across)
    whole = np.full((lines * (height + gap) - gap, across * (group_width + wide) - wide), np.nan)
    for index, picture in enumerate(pictures):
        block, place = divmod(index, group)
        top, left = (height + gap) * (block // across), (group_width + wide) * (block % across) + (width + gap) * place
        whole[top : top + height, left : left + width] = picture
    return whole


def colour_limits(values: Array, signed: bool, most: float = np.inf) -> tuple[float, float]:
    """Return the values at the ends of the colours: of signed numbers symmetric around 0, and at most `most`."""
    if signed:
        largest = min(most, float(np.nanmax(np.abs(values))) or 1.0)
        return -largest, largest
    return float(np.nanmin(values)), float(np.nanmax(values))


def tile_images(
    pictures: Array,
    *,
    columns: int | None = None,
    group: int = 1,
    signed: bool = False,
    limits: tuple[float, float] | None = None,
    title: str = "",
    scale: str | None = None,
    names: Sequence[str] | None = None,
) -> Figure:
    """Return a figure of pictures (n, h, w) in a grid on one scale, NaN blank; only the first MOST_TILES, which the title then says.

    columns  the number of columns; None: a nearly square grid.
    group    how many successive pictures belong together.
    signed   whether colours diverge from white at zero; else the pictures are grey.
    limits   the values at the ends of the colours.
    scale    what the values are, written beside a bar of the colours; None: no bar.
    names    a name for each picture, written above it.
    """
    count = len(pictures)
    if count == 0:
        raise BadUsage("there is nothing to draw")
    pictures = pictures[:MOST_TILES]
    size = pictures.shape[1:]
    band = 0 if names is None else max(1, round(NAME_BAND * size[0]))
    pictures = np.pad(pictures.astype(np.float64), ((0, 0), (band, 0), (0, 0)), constant_values=np.nan)
    whole = tile_into_mosaic(pictures, columns, group=group)
    if limits is None:
        limits = colour_limits(whole, signed)
    if count > MOST_TILES:
        title = f"{title} (the first {MOST_TILES} of {count})".strip()
    across = plot_style.INCHES * (1.0 if scale is None else 0.84)
    ratio = whole.shape[0] / whole.shape[1]
    inner = min(TALLEST, max(0.6 if scale is None else 1.4, across * ratio))
    # A grid that is taller than the page is made narrower, so that no blank is left beside it.
    width = max(3.0, plot_style.INCHES - across + min(across, inner / ratio))
    figure = new_figure(inner + (0.3 if title else 0.0), width)
    axes = figure.add_subplot()
    aspect: Literal["equal", "auto"] = "equal" if 0.02 < ratio < 50 else "auto"
    shown = axes.imshow(whole, cmap=_colour_map(signed), vmin=limits[0], vmax=limits[1], interpolation="none", aspect=aspect)
    axes.set_axis_off()
    if names is not None:
        _write_tile_names(axes, whole.shape, size, band, names[: len(pictures)])
    if title:
        axes.set_title(title, loc="left")
    if scale is not None:
        figure.colorbar(shown, ax=axes, label=scale, shrink=0.7, aspect=25)
    return figure


def _write_tile_names(axes: Axes, whole: tuple[int, ...], size: tuple[int, ...], band: int, names: Sequence[str]) -> None:
    """Write the names of pictures of the given size above them, in the bands that were left for them."""
    height, width = size
    gap = _tile_gap(height + band, width)
    across = (whole[1] + gap) // (width + gap)
    for index, name in enumerate(names):
        line, column = divmod(index, across)
        x, y = column * (width + gap) - 0.5, line * (height + band + gap) + band - 0.5
        axes.annotate(name, (x, y), (0, 1.5), textcoords="offset points", size=6, va="bottom", annotation_clip=False)


def _tile_gap(height: int, width: int) -> int:
    """Return the pixels between pictures of this size."""
    return max(1, round(0.04 * max(height, width)))


def _colour_map(signed: bool) -> str:
    return plot_style.DIVERGING if signed else "gray"


def rows_plot(
    rows: Array,
    image_shape: Array | None,
    *,
    row_label: str,
    column_names: Sequence[str] | None = None,
    row_names: Sequence[str] | None = None,
    title: str = "",
    scale: str | None = None,
    signed: bool = False,
    columns: int | None = None,
    group: int = 1,
    limits: tuple[float, float] | None = None,
    most: float = np.inf,
) -> Figure:
    """Return rows (n, D) as tiles if they are images, else as a matrix with a line for each row and the names of the columns.

    row_label, row_names  what a line of the matrix is, and the names of the lines.
    most  the largest size that has a colour of its own in a matrix of signed numbers.
    The others are those of `tile_images`.
    """
    if image_shape is not None:
        return tile_images(
            rows_as_images(rows, image_shape), columns=columns, group=group, signed=signed, limits=limits, title=title, scale=scale
        )
    return matrix_plot(
        rows,
        column_names=column_names,
        row_label=row_label,
        row_names=row_names,
        title=title,
        scale=scale or "value",
        signed=signed,
        most=most,
    )


def matrix_plot(
    values: Array,
    *,
    row_label: str,
    column_label: str = "column",
    column_names: Sequence[str] | None = None,
    row_names: Sequence[str] | None = None,
    title: str = "",
    scale: str = "value",
    signed: bool = False,
    most: float = np.inf,
) -> Figure:
    """Return a matrix (n, D) as a coloured picture whose axes have the names of rows and columns, where these are few."""
    values = np.asarray(values, dtype=np.float64)
    if not values.size:
        raise BadUsage("there is nothing to draw")
    count, size = values.shape
    named = row_names is not None and count <= FEW_NAMES
    upright = UPRIGHT if column_names is not None and size <= FEW_NAMES and max(map(len, column_names)) > 3 else 0.0
    figure = new_figure(float(np.clip(1.4 + (0.2 if named else 0.12) * count, 2.4, TALLEST)) + upright)
    axes = figure.add_subplot()
    low, high = colour_limits(values, signed, most)
    image = _draw_matrix(axes, values, low, high, signed)
    _write_column_names(axes, size, column_names, column_label)
    if named:
        axes.set_yticks(range(1, count + 1), list(row_names or ()), size=_name_size(count))
    else:
        axes.set_ylabel(row_label)
        _set_integer_ticks(axes.yaxis)
    if title:
        axes.set_title(title)
    figure.colorbar(image, ax=axes, label=scale, extend=_colourbar_extension(values, high))
    return figure


def _colourbar_extension(values: Array, most: float) -> str:
    """Return how a bar of colours ends: with arrows if there are signed values beyond its ends."""
    return "both" if float(np.nanmax(np.abs(values))) > most else "neither"


def paired_matrices(
    pairs: dict[str, Array],
    *,
    row_label: str,
    column_names: Sequence[str] | None = None,
    title: str = "",
    scale: str = "value",
    signed: bool,
    most: float = np.inf,
) -> Figure:
    """Return two matrices (n, D) of the same rows side by side, each with its name above it, on one scale of colours."""
    values = [np.asarray(each, dtype=np.float64) for each in pairs.values()]
    count, size = values[0].shape
    figure = new_figure(float(np.clip(1.6 + 0.1 * count, 2.6, TALLEST)))
    panels = figure.subplots(1, 2, sharey=True)
    low, high = colour_limits(np.stack(values), signed, most)
    for axes, name, each in zip(panels, pairs, values, strict=True):
        image = _draw_matrix(axes, each, low, high, signed)
        few = column_names if size <= FEW_NAMES // 2 else None
        _write_column_names(axes, size, few, "column")
        axes.set_title(name)
    panels[0].set_ylabel(row_label)
    _set_integer_ticks(panels[0].yaxis)
    if title:
        figure.suptitle(title)
    figure.colorbar(image, ax=panels, label=scale, extend=_colourbar_extension(np.stack(values), high))
    return figure


def _draw_matrix(axes: Any, values: Array, low: float, high: float, signed: bool) -> Any:
    """Draw a matrix (n, D): columns are at 0, 1, …, lines at 1, 2, … from the top."""
    count, size = values.shape
    return axes.imshow(
        values,
        cmap=plot_style.DIVERGING if signed else plot_style.SHADES,
        vmin=low,
        vmax=high,
        aspect="auto",
        interpolation="none",
        extent=(-0.5, size - 0.5, count + 0.5, 0.5),
    )


def _write_column_names(axes: Any, size: int, names: Sequence[str] | None, label: str) -> None:
    """Write the names of columns below a matrix, where they are few, else their numbers."""
    if names is None or size > FEW_NAMES:
        axes.set_xlabel(label)
        _set_integer_ticks(axes.xaxis)
    else:
        axes.set_xticks(range(size), list(names), rotation=90 if max(map(len, names)) > 3 else 0, size=_name_size(size))


def _name_size(count: int) -> float:
    """Return the size of so many names in points."""
    return 7 if count <= LARGE_NAMES else 5


def _set_integer_ticks(axis: Axis) -> None:
    """Put the ticks of an axis at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def add_thumbnails(axes: Axes, places: Array, pictures: Array, *, colours: Sequence[str], signed: bool = False) -> None:
    """Put pictures (n, h, w) at places (n, 2) of the axes, each in a frame of its colour, beside each other."""
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage

    low, high = colour_limits(pictures, signed)
    pixels = LARGE if len(places) <= FEW_THUMBNAILS else SMALL
    zoom = pixels / max(pictures.shape[1:])
    axes.autoscale_view()
    size = pixels * THUMBNAIL / (72 * np.asarray(axes.figure.get_size_inches())) * _axes_extent(axes, places)  # type: ignore[union-attr]
    apart = separate_boxes(places, size)
    axes.update_datalim(np.concatenate([apart - size / 2, apart + size / 2]))
    axes.autoscale_view()
    for place, shown, picture, colour in zip(places, apart, pictures, colours, strict=True):
        image = OffsetImage(picture, cmap=_colour_map(signed), zoom=zoom, interpolation="nearest", resample=False)
        image.image.set_clim(low, high)
        box = AnnotationBbox(
            image, tuple(place), tuple(shown), boxcoords="data", frameon=True, pad=0.1, annotation_clip=False,
            bboxprops={"edgecolor": colour, "linewidth": 1.2}, arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.8},
        )  # fmt: skip
        axes.add_artist(box)


def _axes_extent(axes: Axes, places: Array) -> Array:
    """Return width and height (2,) of what the axes show, and at least of the places (n, 2)."""
    shown = [np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())]
    ranges: Array = np.maximum(np.maximum(shown, np.ptp(places, axis=0)), 1e-300)
    return ranges


def separate_boxes(places: Array, size: Array) -> Array:
    """Return places (n, 2) of boxes of the given size (2,) that do not overlap, near the given ones, by pushing neighbours apart."""
    found = np.asarray(places, dtype=np.float64) / size
    number = np.arange(len(found))
    found = found + 1e-6 * np.stack([np.cos(number), np.sin(number)], axis=1)  # equal places have no direction
    for _ in range(PUSHES):
        d = found[:, None] - found[None]
        over = np.clip(1.0 - np.abs(d), 0.0, None)  # of the sides
        touching = (over > 0).all(axis=2) & ~np.eye(len(found), dtype=bool)
        if not touching.any():
            break
        across = over[:, :, 0] <= over[:, :, 1]  # along the side on which less is missing
        push = np.where(np.stack([across, ~across], axis=2), np.sign(d) * over, 0.0) * touching[:, :, None]
        found = found + 0.3 * push.sum(axis=1)
    apart: Array = found * size
    return apart
