"""Fig. 3 of Welling (2009): test error on USPS digits, mean and standard error over 4 splits, as a table.

    python scripts/fig3_usps.py DATA RESULTS [--quick] [--columns H,SH,CD,PCD] [--energy-every R]

700 training, 300 validation and 100 test rows per class; split s is drawn from seed s.  H1-H5 and SH1-SH5 are
`herd herd` with 50, 100, 250, 500, 1000 hidden units, local and safe, 2,000 iterations, energies averaged over the
second thousand; CD1-CD3 and PCD are `herd fit-rbm`; MLR and 1NN see the units themselves.  Every cell is a pipe whose
row of figures is kept in RESULTS, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

HERD = [sys.executable, "-m", "herdcli"]
SIZES = {1: 50, 2: 100, 3: 250, 4: 500, 5: 1000}
PROTOCOL = "--per-class --split 700,300,100 --threshold 0.2"
CD = "--units spin --batch-size all --epochs 2000 --average-scores 1000 --learning-rate 1e-3 --rate-decay none --weight-decay 0"


def commands(arguments: argparse.Namespace) -> dict[str, str]:
    """Column -> the command that makes its artifact, without data and seed."""
    herd = f"herd {PROTOCOL} --iterations 2000 --burn-in 1000 --keep 0 --energy-every {arguments.energy_every}"
    found = {f"H{i}": f"{herd} --variant local --hidden {size}" for i, size in SIZES.items()}
    found |= {f"SH{i}": f"{herd} --variant safe --hidden {size}" for i, size in SIZES.items()}
    found |= {f"CD{i}": f"fit-rbm {PROTOCOL} {CD} --momentum 0.9 --hidden {SIZES[i]}" for i in (1, 2, 3)}
    found["PCD"] = f"fit-rbm {PROTOCOL} {CD} --algorithm pcd --chains 1 --momentum 0 --hidden 500"
    wanted = tuple(arguments.columns.split(","))
    chosen = {name: line for name, line in found.items() if name.rstrip("12345") in wanted}
    return {name: line for name, line in chosen.items() if not arguments.quick or name in ("H1", "H2", "SH1", "SH2")}


def cell(data: Path, line: str, seed: int, target: Path) -> dict[str, float]:
    """The figures of one column on one split, from `target` or by running the pipe."""
    if not target.exists():
        maker = subprocess.Popen([*HERD, *shlex.split(line), "--seed", str(seed), str(data)], stdout=subprocess.PIPE)
        judge = [*HERD, "eval", "--calibrate", "valid", "--mlr-penalty", "0", "--format", "json", "-o", str(target)]
        judged = subprocess.run(judge, stdin=maker.stdout)
        if maker.wait() or judged.returncode:
            sys.exit(f"failed: herd {line} --seed {seed} {data}")
    row: dict[str, float] = json.loads(target.read_text())[0]
    return row


def regression(data: Path, seed: int, target: Path) -> float:
    """Error of multinomial logistic regression on the units of the training rows."""
    if not target.exists():
        from herdcli import artifacts
        from herdcli.artifacts import preparation
        from herdcli.numerics import logistic

        dataset = artifacts.load(str(data)).value
        split = preparation.split_rows(dataset, "700,300,100", seed)
        X = preparation.binarise(dataset, 0.2, 0.2)[0].astype(np.float64)
        y = np.unique(dataset.y, return_inverse=True)[1]
        fit = logistic.fit(X[split == 0], y[split == 0], int(y.max()) + 1)
        error = float(np.mean(fit.logits(X[split == 2]).argmax(axis=1) != y[split == 2]))
        target.write_text(json.dumps([{"error": error}]))
    return float(json.loads(target.read_text())[0]["error"])


def table(errors: dict[str, list[float]]) -> str:
    """Markdown rows: column, mean and standard error in percent."""
    lines = ["| column | error % | standard error |", "|---|---|---|"]
    for name, found in errors.items():
        percent = 100 * np.array(found)
        spread = f"{percent.std(ddof=1) / np.sqrt(len(percent)):.2f}" if len(percent) > 1 else "-"
        lines.append(f"| {name} | {percent.mean():.2f} | {spread} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Fig. 3 of Welling (2009) as a table.")
    parser.add_argument("data", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--quick", action="store_true", help="one split, at most 100 hidden units")
    parser.add_argument("--columns", default="H,SH,CD,PCD")
    parser.add_argument("--energy-every", type=int, default=1)
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    arguments.results.mkdir(parents=True, exist_ok=True)
    errors: dict[str, list[float]] = {"MLR": [], "1NN": []}
    for seed in range(1 if arguments.quick else 4):
        errors["MLR"].append(regression(arguments.data, seed, arguments.results / f"MLR-{seed}.json"))
        for name, line in commands(arguments).items():
            row = cell(arguments.data, line, seed, arguments.results / f"{name}-{seed}.json")
            errors.setdefault(name, []).append(row["error"])
            errors["1NN"][seed:] = [row["error_1nn"]]
    text = table(errors)
    (arguments.results / "table.md").write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
