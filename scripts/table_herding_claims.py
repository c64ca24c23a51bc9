"""The other claims of Welling (2009), sec. 8 and 10, as small tables on USPS digits.

    python scripts/table_herding_claims.py DATA RESULTS [--splits N] [--only NAME]

representation  +-1 against {0,1}, 100 hidden units.
entropy         error and entropy of the hidden units for few of them, with the three readings of the hidden features.
steps           unequal step sizes of pair, visible and hidden features, which change the attractor.
overfitting     error on training and test rows with 1,000 hidden units.
chains          CD-1 against CD-10, full batch against minibatches of 100 (286 epochs are 2,002 updates), as the paper ran CD.

Every figure is the mean over splits of one pipe's row, kept in RESULTS; an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from fig3_usps import CD, PROTOCOL, cell

HERD = f"herd {PROTOCOL} --iterations 2000 --burn-in 1000 --keep 0 --energy-every 2"


def tables() -> dict[str, dict[str, str]]:
    """Table -> row -> command."""
    readings = ("none", "full", "growthless")
    fit = f"fit-rbm {PROTOCOL} {CD} --momentum 0.9 --hidden 100"
    return {
        "representation": {
            f"{name} {variant}": f"{HERD} --representation {name} --variant {variant}"
            for name in ("spin", "binary")
            for variant in ("local", "safe")
        },
        "entropy": {
            f"K={size} {reading}": f"{HERD} --hidden {size} --hidden-bias {reading}" for size in (5, 10, 20, 30) for reading in readings
        },
        "steps": {sizes: f"{HERD} --hidden-bias full --step-sizes {sizes}" for sizes in ("1,1,1", "1,4,1", "4,1,1", "1,1,4")},
        "overfitting": {f"K={size}": f"{HERD} --hidden {size} --score-training" for size in (100, 1000)},
        "chains": {
            "CD-1, all rows": fit,
            "CD-10, all rows": f"{fit} --steps 10",
            "CD-1, batches of 100": fit.replace("--batch-size all", "--batch-size 100").replace("--epochs 2000", "--epochs 286"),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Further claims of Welling (2009) as tables.")
    parser.add_argument("data", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--only", choices=list(tables()), action="append")
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    arguments.results.mkdir(parents=True, exist_ok=True)
    for name in arguments.only or tables():
        lines = [
            f"| {name} | error % | standard error | error on training rows % | hidden entropy, bits | weight growth |",
            "|---|---|---|---|---|---|",
        ]
        for row, line in tables()[name].items():
            stem = row.replace(" ", "-").replace(",", ".")
            found = [cell(arguments.data, line, seed, arguments.results / f"{name}-{stem}-{seed}.json") for seed in range(arguments.splits)]
            errors = 100 * np.array([figures["error"] for figures in found])
            spread = f"{errors.std(ddof=1) / np.sqrt(len(errors)):.2f}" if len(errors) > 1 else "-"
            others = [[figures.get(key) for figures in found] for key in ("error_train", "hidden_entropy", "weight_growth")]
            means = ["-" if None in values else f"{np.mean(values) * scale:.3g}" for values, scale in zip(others, (100, 1, 1), strict=True)]
            lines.append(f"| {row} | {errors.mean():.2f} | {spread} | {' | '.join(means)} |")
        text = "\n".join(lines) + "\n"
        (arguments.results / f"{name}.md").write_text(text)
        print(text)


if __name__ == "__main__":
    main()
