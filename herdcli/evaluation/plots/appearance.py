"""What `--cmap`, `--size`, `--dpi` and `--title` change in a finished figure, and texts that fit into it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np

from herdcli.errors import BadUsage, nearest_name
from herdcli.evaluation.plots import plot_style
from herdcli.records import dataclass

Figure = Any  # matplotlib.figure.Figure

LONGEST_NAME = 32  # characters of a tick label or a legend entry; of longer names the middle is left out
MARGIN = 2.0  # pixels that a text may stand out of the figure by rounding
NARROWEST = 8  # characters of a line
ROUNDS = 3  # a wrapped text moves the axes, so that others may no longer fit
OUTSIDE_CMAPS = "viridis, magma, gray, RdBu_r, PuOr"


@dataclass(frozen=True)
class Appearance:
    """The appearance of a figure; None leaves what the plot itself has.

    cmap   name of a matplotlib colour map, for everything that is coloured by numbers.
    size   width and height in inches; without a height that of the plot is scaled with the width.
    dpi    dots per inch.
    title  the title; an empty one removes it.
    """

    cmap: str | None = None
    size: tuple[float, float | None] | None = None
    dpi: int | None = None
    title: str | None = None

    def check(self) -> None:
        """Raise BadUsage for a colour map that does not exist."""
        if self.cmap is None:
            return
        from matplotlib import colormaps

        if self.cmap not in colormaps:
            near = nearest_name(self.cmap, list(colormaps))
            raise BadUsage(
                f"there is no colour map '{self.cmap}'", hint=f"did you mean --cmap {near}?" if near else f"such as {OUTSIDE_CMAPS}"
            )


def finish_figure(figure: Figure, appearance: Appearance) -> Figure:
    """Return the figure with its appearance changed, numbers on coloured cells legible, and every text inside."""
    if appearance.cmap is not None:
        for mapped in find_colour_mapped_artists(figure):
            mapped.set_cmap(appearance.cmap)
    if appearance.size is not None:
        width, height = appearance.size
        old_width, old_height = figure.get_size_inches()
        figure.set_size_inches(width, height if height is not None else old_height * width / old_width)
    if appearance.dpi is not None:
        figure.set_dpi(appearance.dpi)
    if appearance.title is not None:
        _set_title(figure, appearance.title)
    for axes in figure.axes:
        _contrast_cell_texts(axes)
        _colour_boxes(axes)
    fit_texts(figure)
    return figure


def find_colour_mapped_artists(figure: Figure) -> list[Any]:
    """Return the images and marks whose colours stand for numbers."""
    from matplotlib.cm import ScalarMappable

    found = [artist for axes in figure.axes if not _is_colorbar(axes) for artist in (*axes.images, *axes.collections)]
    return [artist for artist in found if isinstance(artist, ScalarMappable) and artist.get_array() is not None]


def _is_colorbar(axes: Any) -> bool:
    return getattr(axes, "_colorbar", None) is not None


def _set_title(figure: Figure, title: str) -> None:
    """Put a title over the whole figure, in place of the one that it has."""
    main = [axes for axes in figure.axes if not _is_colorbar(axes)]
    if figure.get_suptitle() or len(main) != 1:
        if not figure.get_suptitle() and main:
            main[0].set_title("", loc="left")
        figure.suptitle(title, parse_math=False)
        return
    main[0].set_title(title, loc="left", parse_math=False)


def _contrast_cell_texts(axes: Any) -> None:
    """Write the numbers on the cells of an image dark on light colours and light on dark ones, whatever the colour map is."""
    if len(axes.images) != 1:
        return
    (image,) = axes.images
    values = np.ma.asarray(image.get_array())
    if values.ndim != 2:
        return
    for text in axes.texts:
        x, y = text.get_position()
        if text.get_transform() != axes.transData:
            continue
        row, column = round(float(y)), round(float(x))
        if 0 <= row < values.shape[0] and 0 <= column < values.shape[1]:
            text.set_color(_legible_colour(image.cmap(image.norm(values[row, column]))))


def _legible_colour(ground: tuple[float, float, float, float]) -> str:
    """Return the colour of words on a ground."""
    red, green, blue, _ = ground
    return plot_style.ON_DARK if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else plot_style.ON_LIGHT


def _colour_boxes(axes: Any) -> None:
    """Give boxes with words the colours of the marks at the same places."""
    marks = [each for each in axes.collections if each.get_array() is not None and hasattr(each, "get_offsets")]
    if len(marks) != 1:
        return
    places = {tuple(place): k for k, place in enumerate(np.asarray(marks[0].get_offsets()).tolist())}
    colours = marks[0].to_rgba(marks[0].get_array())
    for text in axes.texts:
        k, box = places.get(tuple(float(each) for each in text.get_position())), text.get_bbox_patch()
        if box is not None and k is not None and text.get_va() == "center":
            box.set_facecolor(colours[k])
            text.set_color(_legible_colour(tuple(colours[k])))


def shorten_name(name: str, longest: int = LONGEST_NAME) -> str:
    """Return a name of at most so many characters; of a longer one the middle is left out."""
    if len(name) <= longest:
        return name
    kept = longest - 1
    return f"{name[: kept - kept // 3]}…{name[len(name) - kept // 3 :]}"


def fit_texts(figure: Figure) -> None:
    """Shorten the names of ticks and legends, and wrap titles and labels of axes, until every text is inside the figure."""
    for text in _short_texts(figure):
        text.set_text(shorten_name(text.get_text()))
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            _shorten_ticks(axis)
    for _ in range(ROUNDS):
        figure.draw_without_rendering()
        width, height = figure.bbox.width, figure.bbox.height
        wrapped = [_wrap_text(text, room) for text, room in _wrappable_texts(figure, width, height)]
        if not any(wrapped):
            return


def _short_texts(figure: Figure) -> Iterator[Any]:
    for legend in [*figure.legends, *(axes.get_legend() for axes in figure.axes if axes.get_legend() is not None)]:
        yield from legend.get_texts()


def _shorten_ticks(axis: Any) -> None:
    """Shorten tick labels that are names; numbers are never long."""
    from matplotlib.ticker import FixedFormatter, FuncFormatter

    formatter = axis.get_major_formatter()
    if isinstance(formatter, FixedFormatter):
        formatter.seq = [shorten_name(str(name)) for name in formatter.seq]
    elif isinstance(formatter, FuncFormatter):
        labels = axis.get_ticklabels()
        if any(len(label.get_text()) > LONGEST_NAME for label in labels):
            axis.set_ticks(axis.get_ticklocs(), [shorten_name(label.get_text()) for label in labels])


def _wrappable_texts(figure: Figure, width: float, height: float) -> Iterator[tuple[Any, float]]:
    """Yield each title and label with the pixels that it may be long."""
    if figure._suptitle is not None:
        yield figure._suptitle, width
    for axes in figure.axes:
        begin = axes.get_window_extent().x0
        corners = [legend.get_window_extent().x0 for legend in figure.legends]
        outside = [x for x in corners if x >= axes.get_window_extent().x1]
        panels = [other.get_window_extent() for other in figure.axes if other is not axes and not _is_colorbar(other)]
        right = min(
            [box.x0 for box in panels if box.x0 > axes.get_window_extent().x1 and _overlap_vertically(box, axes)] + [width, *outside]
        )
        middle = (axes.get_window_extent().x0 + axes.get_window_extent().x1) / 2
        yield axes._left_title, right - max(begin, 0.0)
        for text in (axes.title, axes.xaxis.label):
            yield text, 2 * min(middle, right - middle)
        upright = (axes.get_window_extent().y0 + axes.get_window_extent().y1) / 2
        yield axes.yaxis.label, 2 * min(upright, height - upright)


def _overlap_vertically(box: Any, axes: Any) -> bool:
    own = axes.get_window_extent()
    return bool(box.y0 < own.y1 and own.y0 < box.y1)


def _wrap_text(text: Any, room: float) -> bool:
    """Break a text into lines that fit, and return whether it changed."""
    words = text.get_text()
    if not words or not text.get_visible():
        return False
    box = text.get_window_extent()
    length = box.height if text.get_rotation() in (90.0, 270.0) else box.width
    if length <= room + MARGIN:
        return False
    longest = max(len(line) for line in words.split("\n"))
    lines = textwrap.wrap(" ".join(words.split("\n")), max(NARROWEST, int(longest * 0.97 * room / length)), break_on_hyphens=False)
    if "\n".join(lines) == words:
        return False
    text.set_text("\n".join(lines))
    return True
