"""The textbook's models on real sets: what each says of held-out rows, beside the simplest model of the same rows.

    python scripts papers/table_em FOLDER [--only MODEL …] [--iterations N] [--draws 5]

em.csv has a row a model and draw: nats a row held out (or squared errors), those of the baseline and of the training rows, how much
better than the baseline the model is, the most that the free energy rose in a half-step, and the verdict of `herd eval`.  A draw is the
seed of the split, where the set has no split of its own and is not cut in time, and of what the model begins with.  The 16 channels of
`lds` are recordings that have nothing to do with each other: 8 states follow some of them and expect the others at their mean, 20 all.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from shared.figure_pipeline import Row, judged, write_csv
from shared.real_data import path as place

# model: data set, command, iterations, figure and baseline in `herd eval`
CELLS: dict[str, tuple[str, str, int, str, str]] = {
    "gmm": ("speech_segments.h5", "em --components 16", 60, "log_likelihood", "log_likelihood_baseline"),
    "gmm usps": ("usps_all.h5", "em --components 10", 60, "log_likelihood", "log_likelihood_baseline"),
    "kmeans": ("usps_all.h5", "em --model kmeans --components 50", 200, "squared_error", "squared_error_baseline"),
    "kmeans mnist": ("mnist.h5", "em --model kmeans --components 100", 200, "squared_error", "squared_error_baseline"),
    "fa": ("usps_all.h5", "em --model fa --components 20", 200, "log_likelihood", "log_likelihood_baseline"),
    "ppca": ("usps_all.h5", "em --model ppca --components 20", 200, "log_likelihood", "log_likelihood_baseline"),
    "pca": ("orl.h5", "em --model pca --components 40", 200, "squared_error", "squared_error_baseline"),
    "hmm": ("music16_long.h5", "em --model hmm --components 8", 100, "log_likelihood", "log_likelihood_mixture"),
    "lds": ("music16_long.h5", "em --model lds --components 8", 60, "log_likelihood", "log_likelihood_baseline"),
    "lds 20": ("music16_long.h5", "em --model lds --components 20", 15, "log_likelihood", "log_likelihood_baseline"),
    "regress": ("a9a", "regress --l2 1e-4", 100, "log_likelihood", "independent"),
}

ALONE = ("lds", "lds 20")  # cut in time, and begun without chance: all draws are one


def cell(name: str, draw: int, folder: Path, most: int | None) -> Row:
    """The row of one model and draw."""
    data, command, iterations, figure, base = CELLS[name]
    line = f"{command} --iterations {min(iterations, most or iterations)} --seed {draw}"
    row = judged(line, place(data), "", folder / f"{name.replace(' ', '-')}-{draw}.json")
    components = next((row[name] for name in ("components", "factors", "states") if row.get(name)), None)
    found: dict[str, Any] = {"model": name, "data": data.removesuffix(".h5"), "draw": draw, "components": components, "figure": figure}
    gain = (row[figure] - row[base]) * (1 if figure == "log_likelihood" else -1)
    found |= {"held_out": row[figure], "baseline": row[base], "gain": gain, "train": row.get(f"{figure}_train")}
    return found | {"rise": row.get("rise"), "verdict": row["verdict"]}


def main() -> None:
    """Write em.csv."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append", choices=list(CELLS))
    parser.add_argument("--iterations", type=int, default=None)
    parser.add_argument("--draws", type=int, default=5)
    asked = parser.parse_args()
    cells = [(name, draw) for name in asked.only or CELLS for draw in range(1 if name in ALONE else asked.draws)]
    write_csv(asked.folder / "em.csv", [cell(name, draw, asked.folder, asked.iterations) for name, draw in cells])


if __name__ == "__main__":
    main()
