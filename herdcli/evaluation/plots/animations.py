"""Moving pictures: panels of images that change from frame to frame, written as a small GIF with one table of colours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import numpy as np

from herdcli.evaluation.plots import plot_style
from herdcli.evaluation.plots.plot_list import require_matplotlib
from herdcli.evaluation.plots.tiles import MOST_TILES, colour_limits, rows_as_images, tile_into_mosaic
from herdcli.herding.dynamics import HiddenRunState
from herdcli.herding.parallel_runs import HerdingRuns
from herdcli.records import dataclass
from herdcli.schema import Array

FRAMES = 40  # most frames of a picture
MILLISECONDS, LAST = 120, 2000  # how long a frame stays, and the last one
LEVELS = 15  # shades of grey and of the diverging colours, an odd number, so that there is one for 0
PAPER, INK, GREY, SIGNED = 0, 1, 2, 2 + LEVELS  # where the table of colours has them
HEIGHT = 128  # pixels of a panel, about
BORDER, TITLE = 8, 16  # pixels
FEW_FILTERS = 36  # hidden units whose weights are shown beside pseudo-samples


@dataclass(frozen=True)
class Panel:
    """One panel of a moving picture: in each frame images (n, h, w) on one scale, which is that of all frames.

    signed  whether colours diverge from white at 0.
    """

    title: str
    frames: list[Array]
    signed: bool = False


def write_animation(panels: Sequence[Panel], captions: Sequence[str], path: str | PathLike[str]) -> None:
    """Write panels side by side as a GIF; captions (f,) stand below, and equal panels are written as equal bytes."""
    require_matplotlib()
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default()
    columns = [_panel_indices(panel) for panel in panels]
    pictures = []
    for k, caption in enumerate(captions):
        parts = [column[k] for column in columns]
        width = sum(part.shape[1] + BORDER for part in parts) + BORDER
        height = max(part.shape[0] for part in parts) + 2 * TITLE + BORDER
        whole, left, places = np.full((height, width), PAPER, dtype=np.uint8), BORDER, []
        for part in parts:
            whole[TITLE : TITLE + part.shape[0], left : left + part.shape[1]] = part
            places.append(left)
            left += part.shape[1] + BORDER
        picture = Image.fromarray(whole, mode="P")
        picture.putpalette(_colour_table())
        words = ImageDraw.Draw(picture)
        for panel, place in zip(panels, places, strict=True):
            words.text((place, 2), panel.title, fill=INK, font=font)
        words.text((BORDER, height - TITLE), caption, fill=INK, font=font)
        pictures.append(picture)
    durations = [MILLISECONDS] * (len(pictures) - 1) + [LAST]
    pictures[0].save(path, format="GIF", save_all=True, append_images=pictures[1:], duration=durations, loop=0, optimize=False)


def _panel_indices(panel: Panel) -> list[Array]:
    """Return each frame of a panel as indices (height, width) into the table of colours."""
    low, high = colour_limits(np.concatenate([np.ravel(frame) for frame in panel.frames]), panel.signed)
    first, found = (SIGNED if panel.signed else GREY), []
    for frame in panel.frames:
        whole = tile_into_mosaic(frame[:MOST_TILES])
        level = np.round((np.nan_to_num(whole, nan=low) - low) / max(high - low, 1e-300) * (LEVELS - 1)).astype(np.int64)
        index = np.where(np.isnan(whole), PAPER, first + np.clip(level, 0, LEVELS - 1)).astype(np.uint8)
        zoom = max(1, round(HEIGHT / index.shape[0]))
        found.append(np.repeat(np.repeat(index, zoom, axis=0), zoom, axis=1))
    return found


def _colour_table() -> list[int]:
    """Return red, green and blue of every colour, one after the other."""
    from matplotlib import colormaps
    from matplotlib.colors import to_rgb

    at = np.linspace(0, 1, LEVELS)
    colours = [to_rgb(plot_style.PAPER), to_rgb(plot_style.INK), *colormaps["gray"](at)[:, :3], *colormaps[plot_style.DIVERGING](at)[:, :3]]
    table: list[int] = np.round(255 * np.array(colours)).astype(int).ravel().tolist()
    return table


def herding_panels(algorithm: HerdingRuns[Any, Any], place_units: Callable[[Array], Array], image_shape: Array) -> list[Panel]:
    """Return the first pseudo-samples of every run as they pass, and beside them the weights of the first run.

    Herding is deterministic, so that its first iterations can be repeated at any time.
    place_units  puts rows (n, D) of units into rows of all columns, where constant units were left out.
    """
    from herdcli.herding.visible_herding import current_weights

    state = algorithm.init()
    samples, weights, filters = [], [], []
    for _ in range(min(FRAMES, algorithm.problem.settings.iterations)):
        for u in range(algorithm.problem.count):
            algorithm.run_iterations(state, 1, u)
        state.iteration += 1
        first = state.runs[0]
        samples.append(rows_as_images(place_units(np.stack([run.x for run in state.runs])), image_shape))
        hidden = isinstance(first, HiddenRunState)
        settings = algorithm.problem.settings
        b = first.b if hidden else current_weights(algorithm.problem.sources[0], first, state.iteration, settings.features)[: len(first.x)]
        weights.append(rows_as_images(place_units(b[None]), image_shape).astype(np.float64))
        if hidden:
            filters.append(rows_as_images(place_units(first.M[:, :FEW_FILTERS].T), image_shape).astype(np.float64))
    several = algorithm.problem.count > 1
    panels = [Panel("pseudo-samples" if several else "pseudo-sample", samples)]
    panels.append(Panel("weights of the first run" if several else "visible weights", weights, signed=True))
    return panels + ([Panel("weights of hidden units", filters, signed=True)] if filters else [])
