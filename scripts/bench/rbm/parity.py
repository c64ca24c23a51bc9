"""What learns parities: RBMs of three sets whose columns are independent in pairs, by the options that a hint may name.

    python scripts bench/rbm/parity [--only TITLE] > results/parity-hint.md

Each set has noisy parities, which no pair of columns shows: the default options end in the verdict `learned nothing`.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

NOISE = 0.05
LINES = {
    "default": (),
    "more epochs": ("--epochs", "600"),
    "a higher rate": ("--learning-rate", "0.3"),
    "both": ("--learning-rate", "0.3", "--epochs", "600"),
    "exact": ("--algorithm", "exact"),
    "exact, more epochs": ("--algorithm", "exact", "--epochs", "600"),
    "exact, both": ("--algorithm", "exact", "--learning-rate", "0.3", "--epochs", "600"),
}


def parities(sets: list[tuple[int, ...]], columns: int, rows: int, seed: int) -> np.ndarray:
    """Rows of fair bits, of which the last of each set is the parity of the others but for noise."""
    random = np.random.default_rng(seed)
    X = random.integers(0, 2, (rows, columns))
    for members in sets:
        X[:, members[-1]] = (X[:, list(members[:-1])].sum(axis=1) + (random.random(rows) < NOISE)) % 2
    return X


SETS = {
    "two of three bits": parities([(0, 1, 2), (3, 4, 5)], 6, 2000, 0),
    "three of three bits": parities([(0, 1, 2), (3, 4, 5), (6, 7, 8)], 9, 2000, 1),
    "one of four bits": parities([(0, 1, 2, 3)], 6, 2000, 2),
}


def best(X: np.ndarray, sets: int) -> float:
    """The entropy of a row, nats, negative: fair bits, and noise of each parity."""
    noise = -(NOISE * np.log(NOISE) + (1 - NOISE) * np.log1p(-NOISE))
    return -((X.shape[1] - sets) * np.log(2) + sets * noise)


def row(X: np.ndarray, options: tuple[str, ...], folder: Path) -> dict[str, object]:
    """The figures of eval of one run."""
    with open(folder / "rows.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow([f"b{column}" for column in range(X.shape[1])])
        out.writerows(X.tolist())
    herd = [sys.executable, "-m", "herdcli"]
    subprocess.run([*herd, "fit-rbm", "rows.csv", "--hidden", "8", *options, "-q", "-o", "m.h5"], cwd=folder, check=True)
    told = subprocess.run([*herd, "eval", "m.h5", "--format", "json"], cwd=folder, check=True, capture_output=True, text=True)
    found: dict[str, object] = json.loads(told.stdout)[0]
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=tuple(SETS), default=None, help="Print the line of one set.")
    only = parser.parse_args().only
    print("# What learns parities\n")
    print("Test log-likelihood, nats a row, of `herd fit-rbm --hidden 8` with further options; made by `scripts/bench/rbm/parity.py`.\n")
    print("| set | independent | best possible | " + " | ".join(LINES) + " |")
    print("|---|---|---|" + "---|" * len(LINES))
    with tempfile.TemporaryDirectory() as name:
        for (title, X), count in zip(SETS.items(), (2, 3, 1), strict=True):
            if only not in (None, title):
                continue
            rows = [row(X, options, Path(name)) for options in LINES.values()]
            cells = [f"{each['log_likelihood']:.2f}" + (" ×" if each["verdict"] != "ok" else "") for each in rows]
            print(f"| {title} | {rows[0]['independent']:.2f} | {best(X, count):.2f} | " + " | ".join(cells) + " |", flush=True)
    print("\n× verdict `learned nothing` or worse.")
    print("\n| options | |\n|---|---|")
    for title, options in LINES.items():
        print(f"| {title} | `{' '.join(options) or 'none'}` |")


if __name__ == "__main__":
    main()
