"""Pictures of an `rbm-pairs`: its pairs of filters, its trace; with a gallery the error rates and the most similar images."""

from __future__ import annotations

from typing import Any

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import BadUsage
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures.gallery import RecognitionTask, model_similarity, recognition_rows
from herdcli.evaluation.plots import plot_list, plot_style, tiles
from herdcli.faces.rank_errors import RANKS, nearest_gallery_images
from herdcli.rbm.pairs import PairRBM

SHOWN = 60  # hidden units
PROBES, NEAREST = 8, 8
HATCHES = ("", "//", "..", "xx", "--")
LABELS = {"rbm-pairs": "RBMrate", "dppca": "δppca"}


def filters(value: PairRBM | RecognitionTask, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The two receptive fields of the hidden units with the largest weights, side by side.  Source: Teh (2003), fig. 3.11, 3.12."""
    model = value.model if isinstance(value, RecognitionTask) else value
    size = np.sum(model.W1.astype(np.float64) ** 2 + model.W2.astype(np.float64) ** 2, axis=0)
    order = np.argsort(-size, kind="stable")[:SHOWN]
    pairs = np.stack([model.W1.T[order], model.W2.T[order]], axis=1)
    title = f"weights of {len(order)} hidden units to the first and the second image"
    pictures = tiles.rows_as_images(pairs.reshape(-1, pairs.shape[2]), model.image_shape)
    return tiles.tile_images(pictures, group=1 if model.image_shape is None else 2, signed=True, title=title, scale="weight")


def trace(value: PairRBM | RecognitionTask, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """Reconstruction error of every epoch."""
    model = value.model if isinstance(value, RecognitionTask) else value
    return plot_list.curve_plot(
        {"pairs": (np.arange(1, len(model.trace) + 1), model.trace)}, x="epoch", y="mean squared reconstruction error", logarithmic=True,
        title=f"reconstruction error of pairs over {plot_list.count_text(len(model.trace), 'epoch')}",
    )  # fmt: skip


def errors(value: PairRBM | RecognitionTask, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """Error rates as bars, one panel for each test set.  Source: Teh (2003), fig. 3.9."""
    return error_rate_bars([row for row in recognition_rows(_require_gallery(value, "errors"), map) if row["set"] != "all"])


def error_rate_bars(table: list[dict[str, Any]]) -> plot_list.Figure:
    """Groups of bars, one for each method, of the rank-1, 2, 4, 8 and 16 error rates; a panel for each test set.

    Rows of several partitions may have the standard error `rank_1_se`, which is drawn on the first bar.
    """
    sets, methods = (list(dict.fromkeys(row[name] for row in table)) for name in ("set", "method"))
    figure = plot_list.new_figure(0.2 + (2.8 * -(-len(sets) // 2) if len(sets) > 1 else 3.2))
    for index, name in enumerate(sets):
        axes = figure.add_subplot(-(-len(sets) // 2) if len(sets) > 1 else 1, min(2, len(sets)), index + 1)
        chosen = {row["method"]: row for row in table if row["set"] == name}
        for place, rank in enumerate(RANKS):
            heights = [100 * float(chosen[method][f"rank_{rank}"]) for method in methods]
            errors = [100 * float(chosen[method].get("rank_1_se") or 0) for method in methods] if rank == 1 else []
            axes.bar(
                np.arange(len(methods)) + (place - 2) * 0.16,
                heights,
                0.15,
                yerr=errors if any(errors) else None,
                capsize=2,
                color=plot_style.cycle_colour(place),
                hatch=HATCHES[place],
                label=f"rank {rank}",
            )
        axes.set_xticks(np.arange(len(methods)), [LABELS.get(method, method) for method in methods], fontsize="x-small")
        axes.set_title(f"{name}, {chosen[methods[0]]['probes']} probes", fontsize="medium")
        axes.set_ylabel("error rate (%)")
        if index == 0:
            axes.legend(fontsize="x-small")
    told = "; lines: ± one standard error" if any(row.get("rank_1_se") for row in table) else ""
    figure.suptitle(f"probes whose person is not among the most similar 1, 2, 4, 8, 16 gallery images{told}", fontsize="small")
    return figure


def most_similar_gallery_images(value: PairRBM | RecognitionTask, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """Probes, each with its eight most similar gallery images; probes that are not recognised first.  Source: Teh (2003), fig. 3.10."""
    judged = _require_gallery(value, "nearest")
    order = nearest_gallery_images(model_similarity(judged, map), NEAREST)
    found = judged.persons[judged.gallery[order]] == judged.persons[judged.probes][:, None]
    shown = np.argsort(found[:, 0], kind="stable")[:PROBES]
    lines = [np.vstack([judged.images[judged.probes[row]][None], judged.images[judged.gallery[order[row]]]]) for row in shown]
    pictures = tiles.rows_as_images(np.concatenate(lines), judged.model.image_shape)
    title = "probes (left) and their most similar gallery images"
    return tiles.tile_images(pictures, columns=1 + order.shape[1], title=title)


def _require_gallery(value: PairRBM | RecognitionTask, name: str) -> RecognitionTask:
    if not isinstance(value, RecognitionTask):
        raise BadUsage(f"--plot {name} needs images to compare", hint="give them with --gallery DATA")
    return value
