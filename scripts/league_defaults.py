"""The defaults league: fitting commands without options beside the obvious peer's defaults, on twelve tables: results/league-defaults.md.

    python scripts/league_defaults.py > results/league-defaults.md

Six tables ship with scikit-learn, six are made here; none was used to choose a default.  Peers see the training rows and are judged on the
test rows of the same split (seed 0).

em           test log-likelihood, nats a row   `GaussianMixture` with the number of components, 1 to 6, of least BIC
nherd-train  test error                        `SGDClassifier()`
regress      test error, or R²                 `LogisticRegression()`, or `LinearRegression()`

A command loses where its error is larger by more than two standard errors of the difference over the test rows, or where it is worse by
more than .05 nats a column or .02 of R²; it loses silently if its verdict is ok.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
from sklearn import datasets
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.mixture import GaussianMixture

from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.preparation import split_rows

Table = tuple[np.ndarray, np.ndarray, bool]  # rows, target, whether it is a class


def tables() -> dict[str, Table]:
    """The twelve tables."""
    random = np.random.default_rng(77)
    found: dict[str, Table] = {}
    for name in ("iris", "wine", "breast_cancer", "digits"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        found[name] = (X, y, True)
    for name in ("diabetes", "linnerud"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        found[name] = (X, y if y.ndim == 1 else y[:, 0], False)
    for name, made in (
        ("moons", datasets.make_moons(600, noise=0.2, random_state=1)),
        ("blobs", datasets.make_blobs(600, centers=4, n_features=5, random_state=2)),
        ("classes", datasets.make_classification(800, 15, n_informative=6, n_classes=3, random_state=3)),
        ("units", datasets.make_classification(800, 10, random_state=4)),
    ):
        X, y = made
        found[name] = (X * 10.0 ** random.integers(-3, 4, X.shape[1]) if name == "units" else X, y, True)
    for name, made in (
        ("linear", datasets.make_regression(400, 8, noise=20, random_state=5)),
        ("friedman", datasets.make_friedman1(500, random_state=6)),
    ):
        found[name] = (*made, False)
    return found


def eval_of(line: str) -> dict[str, float | str]:
    """The figures of what a command makes."""
    subprocess.run([sys.executable, "-m", "herdcli", *line.split(), "-q", "-o", "m.h5"], check=True, capture_output=True)
    told = subprocess.run([sys.executable, "-m", "herdcli", "eval", "m.h5", "--format", "json"], check=True, capture_output=True, text=True)
    found: dict[str, float | str] = json.loads(told.stdout)[0]
    return found


def mixture(train: np.ndarray, test: np.ndarray) -> float:
    """The peer's test log-likelihood."""
    fits = [GaussianMixture(count, random_state=0).fit(train) for count in range(1, 7) if count < len(train)]
    return float(min(fits, key=lambda fit: fit.bic(train)).score(test))


def error_loses(ours: float, theirs: float, rows: int) -> bool:
    """Whether an error is larger by more than two standard errors."""
    return ours - theirs > 2 * np.sqrt((ours * (1 - ours) + theirs * (1 - theirs)) / rows)


def main() -> None:
    """Print the table and what it comes to."""
    warnings.simplefilter("ignore")
    print("# The defaults league\n\nMade by `scripts/league_defaults.py`, which says how.\n")
    print("| table | rows × columns | command | herd | peer | verdict | |\n|---|---|---|---|---|---|---|")
    lost, silent, count = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, (X, y, classes) in tables().items():
            names = [f"x{j}" for j in range(X.shape[1])]
            with open("t.csv", "w", newline="") as file:
                out = csv.writer(file)
                out.writerow([*names, "y"])
                out.writerows(
                    [*map(repr, map(float, row)), repr(int(label) if classes else float(label))] for row, label in zip(X, y, strict=True)
                )
            part = split_rows(Dataset(X), None, 0)
            train, test = part == 0, part == 2
            lines: list[tuple[str, float, float, object, bool]] = []
            found, peer = eval_of("em t.csv --drop y"), mixture(X[train], X[test])
            ours = float(found["log_likelihood"])
            lines.append(("em", ours, peer, found["verdict"], peer - ours > 0.05 * X.shape[1]))
            if classes:
                found = eval_of("nherd-train t.csv")
                peer = float((SGDClassifier(random_state=0).fit(X[train], y[train]).predict(X[test]) != y[test]).mean())
                lines.append(
                    ("nherd-train", float(found["error"]), peer, found["verdict"], error_loses(float(found["error"]), peer, test.sum()))
                )
                found = eval_of("regress t.csv")
                peer = float((LogisticRegression().fit(X[train], y[train]).predict(X[test]) != y[test]).mean())
                lines.append(
                    ("regress", float(found["error"]), peer, found["verdict"], error_loses(float(found["error"]), peer, test.sum()))
                )
            else:
                found, peer = eval_of("regress t.csv"), float(LinearRegression().fit(X[train], y[train]).score(X[test], y[test]))
                ours = 1 - float(found["rmse"]) ** 2 / float(np.var(y[test])) if "rmse" in found else float(found["explained"])
                lines.append(("regress", ours, peer, found["verdict"], peer - ours > 0.02))
            for command, ours, peer, verdict, loses in lines:
                count, lost, silent = count + 1, lost + loses, silent + (loses and verdict == "ok")
                said = "loses" if loses else ""
                print(f"| {name} | {X.shape[0]} × {X.shape[1]} | {command} | {ours:.3f} | {peer:.3f} | {verdict} | {said} |", flush=True)
    print(f"\nOf {count} fits {lost} lose, {silent} of them silently.")


if __name__ == "__main__":
    main()
