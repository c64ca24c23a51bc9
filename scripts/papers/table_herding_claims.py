"""The other claims of Welling (2009), sec. 8 and 10, as small tables on USPS digits.

    python scripts papers/table_herding_claims FOLDER [--splits 4] [--iterations 2000] [--only NAME] [--units 5,30]

representation  +-1 against {0,1}, 100 hidden units.
entropy         error and entropy of the hidden units for few of them, with the three readings of the hidden features.
steps           unequal step sizes of pair, visible and hidden features, which change the attractor.
overfitting     error on training and test rows with 1,000 hidden units.
chains          CD-1 against CD-10, full batch against minibatches of 100 (286 epochs are 2,002 updates), as the paper ran CD.

Every figure is the mean over splits of one pipe's row, kept in FOLDER; an interrupted run goes on where it stopped.  CD-1 on all rows is
the column CD2 of papers/fig3_usps.py, and comes from its cells where --cells names their folder.  Rows `A less B` are
the differences of two rows split by split, whose standard error is that of the pairs; of fewer splits where one of the two has fewer.
--units leaves the other numbers of hidden units out of `entropy`; --kept makes the table of what is there, without running more.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from papers.fig3_usps import PROTOCOL, cd, cell, mean_and_error
from shared.figure_pipeline import Row, write_csv

FEW = (5, 10, 20, 30)  # hidden units
OTHERS = ("error_train", "hidden_entropy", "weight_growth")

PAIRS = {  # table -> rows that are compared split by split
    "representation": [("binary local", "spin local"), ("binary safe", "spin safe")],
    "entropy": [(f"K={size} full", f"K={size} growthless") for size in FEW],
    "steps": [(sizes, "1,1,1") for sizes in ("1,4,1", "4,1,1", "1,1,4")],
    "chains": [("CD-1, all rows", "CD-10, all rows"), ("CD-1, batches of 100", "CD-1, all rows")],
}


def tables(iterations: int, few: tuple[int, ...] = FEW) -> dict[str, dict[str, str]]:
    """Table -> row -> command."""
    herd = f"herd {PROTOCOL} --iterations {iterations} --burn-in {iterations // 2} --keep-last 0 --energy-every 2"
    readings = ("none", "full", "growthless")
    fit = f"fit-rbm {PROTOCOL} {cd(iterations)} --momentum 0.9 --hidden 100"
    epochs = -(-iterations // 7)
    return {
        "representation": {
            f"{name} {variant}": f"{herd} --representation {name} --variant {variant}"
            for name in ("spin", "binary")
            for variant in ("local", "safe")
        },
        "entropy": {f"K={size} {reading}": f"{herd} --hidden {size} --hidden-bias {reading}" for size in few for reading in readings},
        "steps": {sizes: f"{herd} --hidden-bias full --step-sizes {sizes}" for sizes in ("1,1,1", "1,4,1", "4,1,1", "1,1,4")},
        "overfitting": {f"K={size}": f"{herd} --hidden {size} --score-training" for size in (100, 1000)},
        "chains": {
            "CD-1, all rows": fit,
            "CD-10, all rows": f"{fit} --steps 10",
            "CD-1, batches of 100": fit.replace("--batch-size all", "--batch-size 100").replace(
                f"--epochs {iterations}", f"--epochs {epochs}"
            ),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--only", choices=list(tables(2)), action="append")
    parser.add_argument("--units", default=",".join(map(str, FEW)))
    parser.add_argument("--cells", type=Path, help="of papers/fig3_usps.py")
    parser.add_argument("--kept", action="store_true")
    arguments = parser.parse_args()
    folder, few = arguments.folder, tuple(map(int, arguments.units.split(",")))
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    for name in arguments.only or tables(arguments.iterations):
        errors: dict[str, dict[int, float]] = {}
        for row, line in tables(arguments.iterations, few)[name].items():
            stem = row.replace(" ", "-").replace(",", ".")
            places = {seed: folder / f"{name}-{stem}-{seed}.json" for seed in range(arguments.splits)}
            if row == "CD-1, all rows" and arguments.cells:
                places = {seed: arguments.cells / f"CD2-{seed}.json" for seed in places}
            found = {seed: cell(line, seed, place) for seed, place in places.items() if place.exists() or not arguments.kept}
            if not found:
                continue
            errors[row] = {seed: figures["error"] for seed, figures in found.items()}
            means = {key: [figures.get(key) for figures in found.values()] for key in OTHERS}
            rows.append(
                {"table": name, "row": row, **mean_and_error(list(errors[row].values()))}
                | {key: None if None in values else float(np.mean(values)) for key, values in means.items()}
            )
        rows += differences(name, errors)
    write_csv(folder / "herding-claims.csv", rows)


def differences(name: str, errors: dict[str, dict[int, float]]) -> list[Row]:
    """The pairs of one table, from the errors of its rows by split."""
    made: list[Row] = []
    for first, second in PAIRS.get(name, []):
        seeds = [seed for seed in errors.get(first, {}) if seed in errors.get(second, {})]
        if seeds:
            apart = [errors[first][seed] - errors[second][seed] for seed in seeds]
            made.append({"table": name, "row": f"{first} less {second}", **mean_and_error(apart)} | dict.fromkeys(OTHERS))
    return made


if __name__ == "__main__":
    main()
