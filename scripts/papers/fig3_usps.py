"""Fig. 3 of Welling (2009): test error on USPS digits, mean and standard error over 4 splits.

    python scripts papers/fig3_usps FOLDER [--splits 4] [--iterations 2000] [--columns H,SH,CD,PCD]

700 training, 300 validation and 100 test rows per class; split s is drawn from seed s. H1-H5 and SH1-SH5 are `herd herd` with 50, 100,
250, 500, 1000 hidden units, local and safe, 2,000 iterations, energies averaged over the second thousand; CD1-CD3 and PCD are `herd
fit-rbm`, whose full batches standardise energies by all training rows of a class; MLR, with the penalty that has the fewest errors on the
validation rows, and 1NN see the units themselves. Every cell is a pipe whose row of figures is kept in FOLDER, so that an interrupted run
goes on where it stopped. Makes herding-fig3.csv and, by the extra `plot`, herding-fig3.png. --columns names kinds (H) or single columns
(H2).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from shared.figure_pipeline import Row, judged, pyplot, replace, write_csv
from shared.real_data import path

SIZES = {1: 50, 2: 100, 3: 250, 4: 500, 5: 1000}
SPLIT, THRESHOLD = "700,300,100", 0.2
PROTOCOL = f"--per-class --split {SPLIT} --threshold {THRESHOLD}"
JUDGE = "--calibrate valid --mlr-penalty 0"
PENALTIES = tuple(10.0**-power for power in np.arange(0, 5.5, 0.5))
UNREAD = "--likelihood ais --chains 2 --temperatures 2"  # of `fit-rbm`'s models: errors are read, and no likelihood
COLOURS = {"M": "tab:gray", "1": "tab:gray", "H": "tab:blue", "S": "tab:green", "C": "tab:orange", "P": "tab:red"}


def cd(iterations: int, algorithm: str = "cd") -> str:
    """(P)CD as the paper ran it: full batches, scores averaged over the second half."""
    schedule = f"--epochs {iterations} --average-scores {iterations // 2} --learning-rate 1e-3 --rate-decay none"
    return f"--algorithm {algorithm} --no-centering --units spin --batch-size all {schedule} --weight-decay 0"


def commands(iterations: int) -> dict[str, str]:
    """Column -> the command that makes its artifact, without data and seed."""
    herd = f"herd {PROTOCOL} --iterations {iterations} --burn-in {iterations // 2} --keep-last 0"
    fit = f"fit-rbm {PROTOCOL}"
    found = {f"H{i}": f"{herd} --variant local --hidden {size}" for i, size in SIZES.items()}
    found |= {f"SH{i}": f"{herd} --variant safe --hidden {size}" for i, size in SIZES.items()}
    found |= {f"CD{i}": f"{fit} {cd(iterations)} --momentum 0.9 --hidden {SIZES[i]}" for i in (1, 2, 3)}
    return found | {"PCD": f"{fit} {cd(iterations, 'pcd')} --chains 1 --momentum 0 --hidden 500"}


def cell(line: str, seed: int, target: Path) -> Row:
    """The figures of one command on one split of USPS, from `target` or by running the pipe."""
    judge = f"{JUDGE} {UNREAD}" if line.startswith("fit-rbm") else JUDGE
    return judged(f"{line} --seed {seed}", path("usps_all.h5"), judge, target)


def regression(seed: int, target: Path) -> float:
    """Error of multinomial logistic regression on the units, with the penalty that has the fewest errors on the validation rows."""
    if not target.exists():
        from herdcli import artifacts
        from herdcli.artifacts.tables import dataset_preparation
        from herdcli.evaluation.baselines import logistic

        dataset = artifacts.load(str(path("usps_all.h5"))).value
        split = dataset_preparation.assign_splits(dataset, SPLIT, seed)
        X = dataset_preparation.binarise(dataset, THRESHOLD, THRESHOLD)[0].astype(np.float64)
        y = np.unique(dataset.y, return_inverse=True)[1]
        fit, errors = None, []
        for penalty in PENALTIES:
            fit = logistic.fit_logistic(X[split == 0], y[split == 0], int(y.max()) + 1, penalty, start=fit)
            errors.append([float(np.mean(fit.logits(X[split == part]).argmax(axis=1) != y[split == part])) for part in (1, 2)])
        fewest = min(range(len(PENALTIES)), key=lambda place: errors[place][0])  # of equal ones the largest penalty
        replace(target, json.dumps(errors[fewest][1]) + "\n")
    return float(json.loads(target.read_text(encoding="utf-8")))


def mean_and_error(values: list[float]) -> dict[str, float | None]:
    """Mean error over splits and, of more than one, its standard error."""
    spread = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return {"splits": len(values), "error": float(np.mean(values)), "standard_error": spread}


def table(errors: dict[str, list[float]]) -> list[Row]:
    """A row a column of the figure."""
    hidden = {"PCD": 500} | {f"{kind}{i}": size for i, size in SIZES.items() for kind in ("H", "SH", "CD")}
    return [{"column": name, "hidden": hidden.get(name), **mean_and_error(found)} for name, found in errors.items()]


def draw(rows: list[Row], target: Path) -> None:
    """Bars in the order of the paper."""
    figure, axes = pyplot().subplots(figsize=(7.5, 3.4), layout="constrained")
    for place, row in enumerate(rows):
        spread = None if row["standard_error"] is None else 100 * row["standard_error"]
        axes.bar(place, 100 * row["error"], yerr=spread, color=COLOURS[row["column"][0]], capsize=2)
    axes.set_xticks(range(len(rows)), [row["column"] for row in rows], fontsize=8)
    splits = rows[0]["splits"]
    axes.set(ylabel="test error, %", title="USPS, one split" if splits == 1 else f"USPS, mean and standard error over {splits} splits")
    figure.savefig(target, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--columns", default="H,SH,CD,PCD")
    arguments = parser.parse_args()
    folder, wanted = arguments.folder, arguments.columns.split(",")
    folder.mkdir(parents=True, exist_ok=True)
    errors: dict[str, list[float]] = {"MLR": [], "1NN": []}
    for seed in range(arguments.splits):
        errors["MLR"].append(regression(seed, folder / f"MLR-{seed}.json"))
        for name, line in commands(arguments.iterations).items():
            if name in wanted or name.rstrip("12345") in wanted:
                row = cell(line, seed, folder / f"{name}-{seed}.json")
                errors.setdefault(name, []).append(row["error"])
                errors["1NN"][seed:] = [row["error_1nn"]]
    rows = table(errors)
    write_csv(folder / "herding-fig3.csv", rows)
    draw(rows, folder / "herding-fig3.png")


if __name__ == "__main__":
    main()
