"""The defaults league: fitting commands without options beside the obvious peer's defaults, on twelve tables: results/league-defaults.md.

    python scripts leagues/defaults > results/league-defaults.md

Six tables ship with scikit-learn, six are made here.  None was used to choose a default but one: the weight of the prior of full
covariances (`em --shrinkage`) was compared on iris, wine, breast_cancer and digits, beside drawn clusters.  Peers see the training
rows and are judged on the test rows of the same split (seed 0).

em           test log-likelihood, nats a row   `GaussianMixture` with the number of components, 1 to 6, of least BIC
nherd-train  test error                        `SGDClassifier()`
regress      test error, or R²                 `LogisticRegression()`, or `LinearRegression()`
ica          mean |excess kurtosis| of sources `FastICA()`
fit-rbm      test log-likelihood, nats a row   `BernoulliRBM()`, its log Z by herd, exact or annealed
fit-mrf      test log-likelihood, nats a row   a Chow–Liu tree with one pseudo-row
herd         distance of the moments           as many random rows
kernel-herd  MMD of 20 atoms (it needs -m)     as many random rows, the root of the mean square

The rows of fit-rbm, fit-mrf and herd are those of the table above the medians of their columns, at most 20 columns of them.

A command loses where its error is larger by more than two standard errors of the difference over the test rows, or where it is worse by
more than .05 nats a column, .02 of R², a tenth of a kurtosis, or at all of a distance; it loses silently if its verdict is ok.
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
from sklearn.decomposition import FastICA
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.mixture import GaussianMixture
from sklearn.neural_network import BernoulliRBM

from herdcli import artifacts
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.tables.dataset_preparation import assign_splits
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.metrics.partition_functions import log_partitions
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units import unit_family

MOST_BITS = 20  # columns
Fit = tuple[str, float, float, object, bool]  # command, ours, theirs, the verdict, whether it loses
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


def write(name: str, titles: list[str], rows: np.ndarray) -> None:
    """Write a CSV."""
    with open(name, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(titles)
        out.writerows([map(repr, row) for row in rows.tolist()])


def mixture(train: np.ndarray, test: np.ndarray) -> float:
    """The peer's test log-likelihood."""
    fits = [GaussianMixture(count, random_state=0).fit(train) for count in range(1, 7) if count < len(train)]
    return float(min(fits, key=lambda fit: fit.bic(train)).score(test))


def sources(table: str, X: np.ndarray, train: np.ndarray) -> Fit:
    """Independent components: kurtoses of what both make of all rows."""
    found = eval_of(f"ica {table}")
    subprocess.run([sys.executable, "-m", "herdcli", "apply", "m.h5", table, "-q", "-o", "s.h5"], check=True, capture_output=True)
    varying = X[train].std(axis=0) > 0
    theirs = FastICA(int(np.linalg.matrix_rank(X[train][:, varying] - X[train][:, varying].mean(axis=0))), random_state=0)
    ours, peer = (_kurtosis(S) for S in (artifacts.load("s.h5").value.X, theirs.fit(X[train][:, varying]).transform(X[:, varying])))
    return "ica", ours, peer, found["verdict"], ours < 0.9 * peer


def _kurtosis(S: np.ndarray) -> float:
    Z = (S - S.mean(axis=0)) / S.std(axis=0)
    return float(np.abs((Z**4).mean(axis=0) - 3).mean())


def of_bits(bits: np.ndarray, train: np.ndarray, test: np.ndarray) -> list[Fit]:
    """RBM, tree and herding of rows of 0 and 1, which stand in b.csv."""
    found, D = eval_of("fit-rbm b.csv"), bits.shape[1]
    theirs = BernoulliRBM(random_state=0).fit(bits[train])
    units = unit_family("binary")
    h = Harmonium(theirs.components_.T.copy(), theirs.intercept_visible_, theirs.intercept_hidden_, units, units)
    settings, known = EvaluationSettings(), bits[train].astype(float)
    log_z = log_partitions({0: h}, {0: units.base_rate_parameters(known)}, {0: known}, settings, map, None)[""][0].log_partition
    eta = bits[test] @ h.W + h.c
    peer = float((bits[test] @ h.b + np.logaddexp(0, eta).sum(axis=1)).mean() - log_z)
    rows: list[Fit] = []
    for command, other in (("fit-rbm", peer), ("fit-mrf", tree(bits[train], bits[test]))):
        found = found if command == "fit-rbm" else eval_of("fit-mrf b.csv")
        ours = float(found["log_likelihood"])
        rows.append((command, ours, other, found["verdict"], other - ours > 0.05 * D))
    found = eval_of("herd b.csv")
    ours, peer = float(found["moment_gap"]), float(found["moment_gap_random"])
    return [*rows, ("herd", ours, peer, found["verdict"], ours > peer)]


def tree(train: np.ndarray, test: np.ndarray) -> float:
    """The test log-likelihood of the tree of largest mutual information, with one pseudo-row spread over all states."""
    D = train.shape[1]
    pair = np.zeros((D, D, 2, 2))
    for a in (0, 1):
        for b in (0, 1):
            pair[:, :, a, b] = ((train == a).T.astype(float) @ (train == b) + 0.25) / (len(train) + 1)
    one = np.stack([((train == a).sum(axis=0) + 0.5) / (len(train) + 1) for a in (0, 1)], axis=1)
    gain = (pair * np.log(pair / (one[:, None, :, None] * one[None, :, None, :]))).sum(axis=(2, 3))
    inside, total = [0], np.log(one[0, test[:, 0]])
    while len(inside) < D:
        outside = [j for j in range(D) if j not in inside]
        i, j = max(((i, j) for i in inside for j in outside), key=lambda edge: gain[edge])
        total = total + np.log(pair[i, j, test[:, i], test[:, j]] / one[i, test[:, i]])
        inside.append(j)
    return float(total.mean())


def error_loses(ours: float, theirs: float, rows: int) -> bool:
    """Whether an error is larger by more than two standard errors."""
    return ours - theirs > 2 * np.sqrt((ours * (1 - ours) + theirs * (1 - theirs)) / rows)


def main() -> None:
    """Print the table and what it comes to."""
    warnings.simplefilter("ignore")
    print("# The defaults league\n\nMade by `scripts/leagues/defaults.py`, which says how.\n")
    print("| table | rows × columns | command | herd | peer | verdict | |\n|---|---|---|---|---|---|---|")
    lost, silent, count, only = 0, 0, 0, sys.argv[1:]  # names of tables, of which these alone
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, (X, y, classes) in ((name, table) for name, table in tables().items() if not only or name in only):
            names = [f"x{j}" for j in range(X.shape[1])]
            with open("t.csv", "w", newline="") as file:
                out = csv.writer(file)
                out.writerow([*names, "y"])
                out.writerows(
                    [*map(repr, map(float, row)), repr(int(label) if classes else float(label))] for row, label in zip(X, y, strict=True)
                )
            part = assign_splits(Dataset(X), None, 0)
            train, test = part == 0, part == 2
            lines: list[Fit] = []
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
            write("x.csv", names, X)
            lines.append(sources("x.csv", X, train))
            found = eval_of("kernel-herd x.csv -m 20")
            ours, peer = float(found["mmd"]), float(found["mmd_random"])
            lines.append(("kernel-herd", ours, peer, found["verdict"], ours > peer))
            bits = (np.median(X, axis=0) < X).astype(int)
            bits = bits[:, np.sort(np.argsort(-bits.var(axis=0), kind="stable")[:MOST_BITS])]
            write("b.csv", [f"b{j}" for j in range(bits.shape[1])], bits)
            lines += of_bits(bits, train, test)
            for command, ours, peer, verdict, loses in lines:
                count, lost, silent = count + 1, lost + loses, silent + (loses and verdict == "ok")
                said = "loses" if loses else ""
                print(f"| {name} | {X.shape[0]} × {X.shape[1]} | {command} | {ours:.3f} | {peer:.3f} | {verdict} | {said} |", flush=True)
    print(f"\nOf {count} fits {lost} lose, {silent} of them silently.")


if __name__ == "__main__":
    main()
