"""Situations of other people's tables, each with its right value and what herd says: results/situations.md.

    python scripts leagues/situations > results/situations.md

Each is of a kind that threads about such programs report; rows are made here, from fixed seeds, or ship with scikit-learn.  Right values
come from closed forms, from scikit-learn, or from what the rows were made by.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

Case = tuple[str, str, str, str]  # what happens, the command, the right value, ours
CASES: list[tuple[str, Callable[[], Case]]] = []


def case(source: str) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    """Take a function among the situations.  source  the kind of place where such situations are reported."""

    def taken(function: Callable[[], Case]) -> Callable[[], Case]:
        CASES.append((source, function))
        return function

    return taken


def table(name: str, titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV."""
    with open(name, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(titles)
        out.writerows(rows)


def herd(line: str) -> tuple[int, str, str]:
    """Exit code and both streams of a command."""
    done = subprocess.run([sys.executable, "-m", "herdcli", *line.split()], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def figures(line: str) -> dict[str, object]:
    """What eval says of what a command makes as m.h5."""
    code, _, told = herd(f"{line} -q -o m.h5")
    if code:
        raise SystemExit(f"{line}: {told}")
    found: dict[str, object] = json.loads(herd("eval m.h5 --format json")[1])[0]
    return found


def coefficients(line: str) -> dict[str, dict[str, str]]:
    """The table of coefficients by name."""
    code, _, told = herd(f"{line} -q -o c.csv")
    if code:
        raise SystemExit(f"{line}: {told}")
    with open("c.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return {next(iter(row.values())): row for row in rows}


@case("regression libraries")
def separation() -> Case:
    random = np.random.default_rng(0)
    x, z = np.repeat([0, 1], 60), random.normal(size=120)
    y = np.where(x == 1, 1, random.integers(0, 2, 120))
    table("t.csv", ["x", "z", "y"], zip(x, z.round(3), y, strict=True))
    line = "regress t.csv --split 1,0,0"
    told = herd(f"{line} -o m.h5")[2]
    return (
        "A column separates some rows",
        line,
        "no finite coefficient of x",
        next((t for t in told.splitlines() if "x" in t and "warning" in t), told),
    )


@case("HMM libraries")
def symbols() -> Case:
    random = np.random.default_rng(1)
    state, rows = 0, []
    for step in range(1200):
        state = state if random.random() < 0.9 else 1 - state
        rows.append((step // 100, int(random.choice(3, p=[[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]][state]))))
    table("i.csv", ["sequence", "s"], rows)
    table("t.csv", ["sequence", "s"], [(k, "abc"[s]) for k, s in rows])
    lines = [f"em {name} --model hmm --emission categorical --components 2" for name in ("i.csv", "t.csv")]
    coded, texts = (float(figures(line)["log_likelihood"]) for line in lines)  # type: ignore[arg-type]
    return "Symbols given as text", lines[1], f"{coded:.4f} nats a row, as of 0, 1, 2", f"{texts:.4f}"


@case("regression libraries")
def weights_of_nothing() -> Case:
    random = np.random.default_rng(2)
    X = random.normal(size=(200, 2)).round(3)
    y = (X @ [1.0, -1.0] + random.normal(size=200)).round(3)
    w = np.repeat([1, 0], 100)
    table("t.csv", ["a", "b", "w", "y"], np.column_stack([X, w, y]).tolist())
    line = "regress t.csv --weights w --family gaussian --split 1,0,0"
    A = np.column_stack([X[:100], np.ones(100)])
    rest = y[:100] - A @ np.linalg.lstsq(A, y[:100], rcond=None)[0]
    right = np.sqrt(np.diag(np.linalg.inv(A.T @ A)) * (rest @ rest) / 97)
    found = coefficients(line)
    column = next(name for name in found["a"] if "error" in name)
    return (
        "Rows of weight 0",
        line,
        f"standard errors {right[0]:.4f}, {right[1]:.4f}",
        ", ".join(f"{float(found[n][column]):.4f}" for n in "ab"),
    )


@case("ICA libraries")
def unlike_units() -> Case:
    from herdcli import artifacts

    random = np.random.default_rng(3)
    S = random.laplace(size=(3000, 4))
    X = S @ random.normal(size=(4, 4)) * [1, 1e-6, 1, 1e-6]
    table("t.csv", list("abcd"), X.tolist())
    line = "ica t.csv --split 1,0,0"
    herd(f"{line} -q -o m.h5")
    herd("apply m.h5 t.csv -q -o s.h5")
    made = artifacts.load("s.h5").value.X
    best = np.abs(np.corrcoef(S.T, made.T)[:4, 4:]).max(axis=1)
    return "Columns of unlike units", line, "4 sources, correlations ≥ .99", f"{made.shape[1]} sources, {best.min():.3f} and above"


@case("Kalman filter libraries")
def a_constant_column() -> Case:
    random = np.random.default_rng(4)
    noise = random.normal(size=(300, 1)).round(3)
    table("one.csv", ["a"], noise.tolist())
    table("two.csv", ["a", "b"], np.hstack([noise, np.zeros((300, 1))]).tolist())
    line = "em two.csv --model lds --components 1"
    plain, other = (str(figures(f"em {name} --model lds --components 1")["verdict"]) for name in ("one.csv", "two.csv"))
    return "A column of zeros beside noise", line, f"the verdict without it: {plain}", other


@case("questions on classifiers")
def default_classifier() -> Case:
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression

    X, y = load_iris(return_X_y=True)
    table("t.csv", ["a", "b", "c", "d", "y"], [[*row, label] for row, label in zip(X.tolist(), y.tolist(), strict=True)])
    from herdcli.artifacts.dataset import Dataset
    from herdcli.artifacts.tables.dataset_preparation import assign_splits

    ours, peers = [], []
    for seed in range(3):
        ours.append(float(figures(f"nherd-train t.csv --seed {seed}")["error"]))  # type: ignore[arg-type]
        split = assign_splits(Dataset(X), None, seed)
        fitted = LogisticRegression(max_iter=1000).fit(X[split == 0], y[split == 0])
        peers.append(float((fitted.predict(X[split == 2]) != y[split == 2]).mean()))
    text = [" ".join(f"{error:.3f}" for error in errors) for errors in (peers, ours)]
    return (
        "The default classifier on iris, seeds 0 to 2",
        "nherd-train t.csv --seed S",
        f"test errors {text[0]} (scikit-learn's logistic regression)",
        text[1],
    )


@case("questions on tables")
def everyday_names() -> Case:
    from herdcli import artifacts

    random = np.random.default_rng(5)
    table("t.csv", ["height", "weight", "class"], random.normal(size=(100, 3)).round(3).tolist())
    line = "em t.csv --components 1"
    herd(f"{line} -q -o m.h5")
    names = artifacts.load("m.h5").value.known.feature_names
    return "Columns called weight and class", line, "height, weight, class are learned", ", ".join(names)


@case("questions on classifiers")
def one_split() -> Case:
    random = np.random.default_rng(6)
    y = np.repeat(["a", "b", "c"], [60, 30, 10])
    table("t.csv", ["u", "v", "y"], [[*row, label] for row, label in zip(random.laplace(size=(100, 2)).round(3).tolist(), y, strict=True)])
    herd("em t.csv --label y -q -o a.h5")
    herd("nherd-train t.csv -q -o b.h5")
    herd("ica t.csv --label y -q -o c.h5")
    told = herd("eval a.h5 b.h5 c.h5")[2]
    return (
        "Three models of one file and seed",
        "eval a.h5 b.h5 c.h5",
        "the same test rows",
        "different test rows" if "different test rows" in told else "the same test rows",
    )


@case("questions on tables")
def exclusive_or() -> Case:
    from herdcli import artifacts

    triples = [(x, y, x ^ y) for x, y in itertools.product((0, 1), repeat=2)] * 40
    table("t.csv", ["x", "y", "z"], triples)
    Path("all.txt").write_text("x y z\n")
    line = "fit-mrf t.csv --clusters all.txt --split 1,0,0"
    herd(f"{line} -q -o m.h5")
    fitted = artifacts.load("m.h5").value
    return (
        "z is x xor y, and a column is called y",
        line,
        "three variables, log-likelihood −1.386 but for smoothing",
        f"{len(fitted.names)} variables, {fitted.fit.log_likelihood:.3f}",
    )


@case("clustering libraries")
def more_clusters_than_rows() -> Case:
    table("t.csv", ["a", "b"], [(a, b) for a, b in itertools.product(range(3), repeat=2) for _ in range(8)])
    line = "em t.csv --model kmeans --components 12"
    from herdcli import artifacts

    herd(f"{line} -q -o m.h5")
    return "More clusters than different rows", line, "9 centres", f"{len(artifacts.load('m.h5').value.centre)} centres"


@case("regression libraries")
def trials() -> Case:
    random = np.random.default_rng(7)
    x, n = random.normal(size=80).round(3), random.integers(5, 40, 80)
    won = random.binomial(n, 1 / (1 + np.exp(-(0.5 * x - 0.2))))
    table("t.csv", ["x", "n", "share"], zip(x, n, won / n, strict=True))
    line = "regress t.csv --target share --trials n --split 1,0,0"
    A, beta = np.column_stack([x, np.ones(80)]), np.zeros(2)
    for _ in range(50):
        p = 1 / (1 + np.exp(-A @ beta))
        beta = beta + np.linalg.solve(A.T @ (A * (n * p * (1 - p))[:, None]), A.T @ (won - n * p))
    found = coefficients(line)
    column = next(name for name in found["x"] if "estimate" in name or "coefficient" in name)
    return "Fractions of trials", line, f"x {beta[0]:.5f}", f"{float(found['x'][column]):.5f}"


@case("regression libraries")
def counts() -> Case:
    random = np.random.default_rng(8)
    x = random.normal(size=200).round(3)
    table("t.csv", ["x", "y"], zip(x, random.poisson(np.exp(1 + 0.5 * x)), strict=True))
    line = "regress t.csv"
    told = herd(f"{line} -o m.h5")[2]
    return "A target of counts", line, "poisson", "poisson" if "poisson" in told else told.splitlines()[0]


@case("questions on RBMs")
def whole_numbers() -> Case:
    random = np.random.default_rng(9)
    table("t.csv", list("abc"), random.poisson(3.0, (100, 3)).tolist())
    told = herd("fit-rbm t.csv -o m.h5")[2]
    return "Counts for an RBM", "fit-rbm t.csv", "names --visible-units poisson", "names it" if "--visible-units poisson" in told else told


@case("questions on classifiers")
def a_quantity() -> Case:
    random = np.random.default_rng(10)
    x = random.normal(size=300).round(3)
    table("t.csv", ["x", "y"], zip(x, (100 + 50 * x).round().astype(int), strict=True))
    told = herd("nherd-train t.csv -o m.h5")[2]
    return (
        "A quantity for a classifier",
        "nherd-train t.csv",
        "names --task regression",
        "names it" if "--task regression" in told else told,
    )


@case("Kalman filter libraries")
def silent_channel() -> Case:
    random = np.random.default_rng(11)
    rows = [[f"{v:.3f}" for v in row] for row in random.normal(size=(200, 2)).cumsum(axis=0)]
    table("t.csv", ["a", "b", "silent"], [[*row, "" if step < 160 else "1.5"] for step, row in enumerate(rows)])
    line = "em t.csv --model lds --components 1 --split .8,0,.2"
    code, _, told = herd(f"{line} -o m.h5")
    return (
        "A channel without training values",
        line,
        "left out and named",
        next((t for t in told.splitlines() if "silent" in t), f"exit {code}"),
    )


@case("questions on tables")
def new_levels() -> Case:
    random = np.random.default_rng(12)
    colours = random.choice(["red", "blue"], 60)
    table("t.csv", ["colour", "x", "price"], zip(colours, random.normal(size=60).round(3), random.normal(size=60).round(3), strict=True))
    table("n.csv", ["colour", "x", "price"], [("green", 0.5, 1.0), ("red", 1.0, 2.0)])
    herd("regress t.csv --target price -q -o m.h5")
    told = herd("apply m.h5 n.csv -o p.csv")[2]
    said = "green is named" if "'green'" in told else "green is not named"
    return (
        "A level that training never saw",
        "apply m.h5 n.csv -o p.csv",
        "green is named; a column predicted_price",
        f"{said}; {Path('p.csv').read_text().splitlines()[0]}",
    )


@case("papers on RBMs")
def gaussian_log_z() -> Case:
    from herdcli.rbm.likelihood.enumeration import exact_log_partition, iterate_hidden_states
    from herdcli.rbm.model import Harmonium
    from herdcli.rbm.units import unit_family

    random = np.random.default_rng(13)
    real, two = unit_family("gaussian"), unit_family("binary")
    parts = [Harmonium(random.normal(size=(9, 10)) * 0.7, random.normal(size=9), random.normal(size=10), real, two) for _ in range(3)]
    W = np.zeros((27, 30))
    for k, part in enumerate(parts):
        W[9 * k : 9 * k + 9, 10 * k : 10 * k + 10] = part.W
    whole = Harmonium(W, np.concatenate([p.b for p in parts]), np.concatenate([p.c for p in parts]), real, two)
    right = sum(
        np.log(np.exp(w - w.max()).sum()) + w.max()
        for w in (np.concatenate([s.log_weight for s in iterate_hidden_states(p)]) for p in parts)
    )
    return (
        "log Z of 27 real columns and 30 hidden units",
        "eval of fit-rbm --visible-units gaussian --hidden 30",
        f"{right:.6f}",
        f"{exact_log_partition(whole):.6f}",
    )


@case("questions on RBMs")
def parity() -> Case:
    random = np.random.default_rng(14)
    X = random.integers(0, 2, (600, 6))
    for last in (2, 5):
        X[:, last] = (X[:, last - 2] + X[:, last - 1] + (random.random(600) < 0.03)) % 2
    table("t.csv", [f"b{k}" for k in range(6)], X.tolist())
    line = "fit-rbm t.csv --hidden 8"
    told = herd(f"{line} -o m.h5")[2]
    named = "--algorithm exact --learning-rate 0.3 --epochs 600" in told
    after = figures(f"{line} --algorithm exact --learning-rate 0.3 --epochs 600")
    best = -(4 * np.log(2) - 2 * (0.03 * np.log(0.03) + 0.97 * np.log(0.97)))
    said = "the hint names it" if named else "the hint does not name it"
    return "Parities, which no pair of columns shows", line, f"{best:.2f} nats at best", f"{said}: {float(after['log_likelihood']):.2f}"  # type: ignore[arg-type]


@case("regression libraries")
def softmax_separation() -> Case:
    random = np.random.default_rng(20)
    x, z = np.repeat([0, 1], 90), random.normal(size=180)
    y = np.where(x == 1, 2, random.integers(0, 3, 180))
    table("t.csv", ["x", "z", "label"], zip(x, z.round(3), y, strict=True))
    line = "regress t.csv --target label --split 1,0,0"
    rows = coefficients(line)
    errors = [float(row["standard_error"] or "nan") for name, row in rows.items() if name.startswith("x")]
    withheld = "withheld" if rows and all(np.isnan(errors)) else f"{errors}"
    return "A column separates a class of several", line, "errors of x are withheld", withheld


@case("regression libraries")
def a_level_without_counts() -> Case:
    random = np.random.default_rng(21)
    level = random.choice(["a", "b", "c"], 150, p=[0.5, 0.4, 0.1])
    table("t.csv", ["level", "n"], zip(level, np.where(level == "c", 0, random.poisson(3.0, 150)), strict=True))
    line = "regress t.csv --target n --family poisson --split 1,0,0"
    told = herd(f"{line} -o m.h5")[2]
    return (
        "All counts of a level are 0",
        line,
        "there is no finite estimate for level=c",
        named_in(told, "there is no finite estimate for level=c"),
    )


def named_in(told: str, words: str) -> str:
    """The words where they were said, else the first line."""
    return words if words in told else (told.splitlines() or ["nothing"])[0]


@case("HMM libraries")
def states_beside_one_state() -> Case:
    random = np.random.default_rng(22)
    walk = random.normal(size=(200, 12)).cumsum(axis=0) * 10.0 ** np.arange(-3, 9, 1.0)
    table("t.csv", [f"q{k}" for k in range(12)], walk.tolist())
    line = "em t.csv --model hmm --components 5"
    found = figures(line)
    first = str(found["verdict"]).split("; ")[0]
    return "A hidden Markov model far below one state", line, "worse than baseline, told first", first


@case("clustering libraries")
def few_rows() -> Case:
    from herdcli.artifacts.dataset import Dataset
    from herdcli.artifacts.tables.dataset_preparation import assign_splits

    X = np.random.default_rng(23).normal(300, 80, size=(12, 10)).round(2)
    table("t.csv", [f"x{k}" for k in range(10)], X.tolist())
    line, split = "em t.csv --components 2 --covariance full", assign_splits(Dataset(X), None, 0)
    train, test = X[split == 0], X[split == 2]
    variance = train.var(axis=0) * (len(train) + 1) / (len(train) - 1)
    right = -0.5 * (np.square(test - train.mean(axis=0)) / variance + np.log(2 * np.pi * variance)).sum(axis=1).mean()
    found = figures(line)
    told = f"{float(found['log_likelihood_independent']):.1f}, {found['verdict']}"  # type: ignore[arg-type]
    return "12 rows × 10 columns", line, f"independent columns have {right:.1f} nats, no verdict of ok", told


@case("questions on RBMs")
def real_columns_of_an_rbm() -> Case:
    random = np.random.default_rng(24)
    X = random.normal(size=(300, 4)) @ random.normal(size=(4, 4))
    table("t.csv", list("abcd"), X.tolist())
    line = "fit-rbm t.csv --visible-units gaussian --standardize --hidden 8 --epochs 3"
    return "Correlated real columns for an RBM", line, "worse than one Gaussian", str(figures(line)["verdict"])


@case("questions on classifiers")
def worse_than_centroids() -> Case:
    random = np.random.default_rng(25)
    y = random.integers(0, 2, 600)
    X = (random.normal(size=(600, 3)) + 1.2 * (2 * y - 1)[:, None] * [1, 1, 0]) * [1, 1, 1e3]
    table("t.csv", ["a", "b", "c", "y"], [[*row, label] for row, label in zip(X.tolist(), y.tolist(), strict=True)])
    line = "nherd-train t.csv --algorithm perceptron --scale none --passes 1 --split .5,0,.5"
    found = figures(line)
    told = f"{float(found['error']):.2f} against {float(found['error_centroid']):.2f}: {found['verdict']}"  # type: ignore[arg-type]
    return "A classifier that loses to the nearest centroid", line, "the verdict names it", told


@case("clustering libraries")
def a_gain_within_errors() -> Case:
    random = np.random.default_rng(26)
    table("t.csv", ["a", "b"], random.normal(size=(40, 2)).round(3).tolist())
    line = "em t.csv --components 2"
    found = figures(line)
    told = f"{float(found['gain']):.2f} ± {float(found['gain_se']):.2f}: {found['verdict']}"  # type: ignore[arg-type]
    return "Noise in 40 rows", line, "no ok for a gain within two standard errors", told


@case("regression libraries")
def no_test_rows() -> Case:
    X = np.random.default_rng(27).normal(size=(20, 31))
    table("t.csv", [*(f"x{k}" for k in range(30)), "y"], X.round(3).tolist())
    line = "regress t.csv --split 1,0,0 --l2 0.1 --family gaussian"
    return "Nothing is held out", line, "no test rows", str(figures(line)["verdict"])


@case("regression libraries")
def exposure() -> Case:
    random = np.random.default_rng(28)
    x, years = random.normal(size=120).round(3), random.uniform(0.5, 4, 120).round(2)
    n = random.poisson(years * np.exp(0.2 + 0.4 * x))
    table("t.csv", ["x", "years", "rate"], zip(x, years, n / years, strict=True))
    line = "regress t.csv --target rate --exposure years --split 1,0,0"
    A, beta = np.column_stack([x, np.ones(120)]), np.zeros(2)
    for _ in range(50):
        mean = years * np.exp(A @ beta)
        beta = beta + np.linalg.solve(A.T @ (A * mean[:, None]), A.T @ (n - mean))
    found = coefficients(line)
    column = next(name for name in found["x"] if "estimate" in name or "coefficient" in name)
    return "Rates with an exposure", line, f"x {beta[0]:.5f}", f"{float(found['x'][column]):.5f}"


@case("questions on classifiers")
def codes_by_frequency() -> Case:
    random = np.random.default_rng(29)
    y = random.choice(6, 400, p=[0.35, 0.3, 0.2, 0.1, 0.03, 0.02])
    centre = random.normal(size=(6, 2)) * 2
    X = centre[y] + random.normal(size=(400, 2))
    table("t.csv", ["a", "b", "y"], [[*row, label] for row, label in zip(X.tolist(), y.tolist(), strict=True)])
    line = "regress t.csv"
    told = herd(f"{line} -o m.h5")[2]
    return "Classes whose codes look like counts", line, "softmax, poisson is named", named_in(told, "--family softmax (--family poisson")


@case("questions on tables")
def states_of_new_rows() -> Case:
    random = np.random.default_rng(30)
    table("t.csv", ["a", "b"], [(f"s{k % 9}", f"s{k % 4}") for k in random.integers(0, 900, 60).tolist()])
    line = "fit-mrf t.csv"
    found = figures(line)
    return "States that few rows have", line, "a finite likelihood of new rows", f"{float(found['log_likelihood']):.2f}"  # type: ignore[arg-type]


@case("Kalman filter libraries")
def constant_channel() -> Case:
    random = np.random.default_rng(31)
    rows = [[f"{v:.3f}" for v in row] for row in random.normal(size=(200, 2)).cumsum(axis=0)]
    table("t.csv", ["a", "b", "still"], [[*row, "1.5" if step < 160 else "2.5"] for step, row in enumerate(rows)])
    line = "em t.csv --model lds --components 1 --split .8,0,.2"
    told = herd(f"{line} -o m.h5")[2]
    return "A channel of one training value", line, "left out and named", next((t for t in told.splitlines() if "still" in t), told)


@case("Kalman filter libraries")
def without_options() -> Case:
    random = np.random.default_rng(32)
    table("t.csv", ["co2"], ((np.arange(2284) * 0.02 + 3 * np.sin(np.arange(2284) / 8.3) + random.normal(size=2284))[:, None]).tolist())
    line = "em t.csv --model lds"
    before = os.multiply()
    herd(f"{line} -o m.h5")
    after = os.multiply()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    return "2,284 steps without options", line, "at most 10 s of processor time", f"{seconds:.1f} s"


@case("questions on tables")
def identifiers() -> Case:
    random = np.random.default_rng(33)
    table("t.csv", ["id", "a", "b"], [(1000 + 7 * k, *random.normal(size=2).round(3)) for k in range(60)])
    line = "em t.csv --components 1"
    told = herd(f"{line} -o m.h5")[2]
    return "A column of identifiers", line, "--drop id is named", named_in(told, "--drop id")


@case("econometrics")
def errors_of_gls() -> Case:
    path = Path(__file__).resolve().parents[2] / "results" / "gls_coverage.tsv"
    head, *rows = [line.split("\t") for line in path.read_text().splitlines() if not line.startswith("#")]
    covered = [float(row[head.index(name)]) for row in rows for name in ("first", "second", "intercept")]
    return (
        "Intervals of 60 rows with correlated errors",
        "regress --gls (scripts/bench/tables/gls_coverage.py)",
        "95 % of them, at least 93 %",
        f"{100 * min(covered):.1f} to {100 * max(covered):.1f} %",
    )


def main() -> None:
    """Print the table."""
    print("# Situations\n")
    print("Made by `scripts/leagues/situations.py`: situations that people report of such programs, on rows made from fixed seeds.\n")
    print("| situation | reported to | command | right | herd |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for source, each in CASES:
            what, line, right, ours = (text.replace("|", "/") for text in each())
            print(f"| {what} | {source} | `herd {line}` | {right} | {ours} |", flush=True)


if __name__ == "__main__":
    main()
