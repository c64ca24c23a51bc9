"""The picture at the head of the README: the first pipeline, what goes in and what comes out, made by running it.

    python scripts dev/make_pipeline_picture docs/pipeline.svg

Runs `herd` from the PATH or beside this interpreter.  The figures are texts of the picture, so that a test can hold them to a run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from herdcli.artifacts import load
from herdcli.evaluation.plots.tiles import tile_into_mosaic

INK, PAPER, EDGE, ACCENT = "#1b1b1b", "#ffffff", "#8a8a8a", "#0072b2"
MIDDLE = 0.56  # of the boxes' height
TILES = 16


def run(folder: Path, line: str) -> str:
    """The standard output of one herd command in a folder."""
    herd = Path(sys.executable).with_name("herd")
    return subprocess.run([herd, *line.split()], cwd=folder, check=True, capture_output=True, text=True).stdout


def gathered() -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, float]]:
    """Test digits, filters, drawn digits, and the row that `herd eval` prints."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(folder, "data digits -o digits.h5")
        run(folder, "fit-rbm digits.h5 -q -o digits.rbm.h5")
        run(folder, f"sample digits.rbm.h5 -m {TILES} --burn-in 500 --means -q -o drawn.npz")
        figures = json.loads(run(folder, "eval digits.rbm.h5 --format json"))
        digits = load(str(folder / "digits.h5")).value
        model = load(str(folder / "digits.rbm.h5")).value
        rows = np.asarray(digits.X)[digits.split == 2]
        chosen = [np.flatnonzero(digits.y[digits.split == 2] == label % 10)[label // 10] for label in range(TILES)]
        filters = model.W[0].T[np.argsort(-np.linalg.norm(model.W[0], axis=0))[:TILES]]
        with np.load(folder / "drawn.npz") as drawn:
            return rows[chosen], filters, drawn["X"], figures[0] if isinstance(figures, list) else figures


def said(figures: dict[str, float]) -> list[str]:
    """The lines of figures in the picture."""
    low, high = figures["log_likelihood_low"], figures["log_likelihood_high"]
    return [
        f"log-likelihood  {figures['log_likelihood']:.2f} nats",
        f"95 %: {low:.2f} … {high:.2f}",
        f"independent pixels  {figures['independent']:.2f}",
        f"verdict  {figures['verdict']}",
    ]


def drawn(rows: np.ndarray, filters: np.ndarray, samples: np.ndarray, figures: dict[str, float]) -> Figure:
    """Boxes from left to right, arrows between them."""
    figure = Figure(figsize=(10.4, 2.9), facecolor=PAPER)
    panels = (
        ("herd data digits", "1,797 digits of 8 × 8 pixels", rows, "gray_r"),
        ("herd fit-rbm", "100 hidden units learn", filters, "RdBu"),
        ("herd eval", "is the model any good?", None, ""),
        ("herd sample", "digits that nobody wrote", samples, "gray_r"),
    )
    for index, (title, text, pictures, colours) in enumerate(panels):
        left, width = 0.012 + 0.252 * index, 0.205
        figure.text(left + width / 2, 0.93, title, ha="center", va="center", family="monospace", weight="bold", size=11, color=INK)
        figure.text(left + width / 2, 0.06, text, ha="center", va="center", size=10, color=INK)
        axes = figure.add_axes((left, 0.13, width, 0.73), xticks=[], yticks=[])
        axes.set_facecolor(PAPER)
        for spine in axes.spines.values():
            spine.set_edgecolor(EDGE)
        if pictures is not None:
            whole = tile_into_mosaic(np.asarray(pictures, dtype=float).reshape(-1, 8, 8), 4)
            size = float(np.nanmax(np.abs(whole)))
            axes.imshow(whole, cmap=colours, vmin=-size if colours == "RdBu" else 0.0, vmax=size, interpolation="nearest")
        else:
            for line, words in enumerate(said(figures)):
                weight, colour = ("bold", ACCENT) if line == 0 else ("normal", INK)
                axes.text(0.05, 0.78 - 0.18 * line, words, size=10, weight=weight, color=colour, transform=axes.transAxes)
        if index < len(panels) - 1:
            figure.text(left + 0.2285, MIDDLE - 0.06, "│" if index < 2 else "", ha="center", va="center", size=20, color=EDGE)
    return figure


def main() -> None:
    """Write the picture."""
    with mpl.rc_context({"svg.hashsalt": "herd", "svg.fonttype": "none", "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"]}):
        drawn(*gathered()).savefig(sys.argv[1], metadata={"Date": None} if sys.argv[1].endswith(".svg") else None, dpi=110)


if __name__ == "__main__":
    main()
