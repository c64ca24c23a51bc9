"""Whether `herd regress` tells counts from codes of classes: shares of targets that are taken for counts: results/counts.md.

    python scripts checks/counts > results/counts.md

Targets of whole numbers from 0 on, with features.  Counts follow generalised linear models (Poisson, negative binomial, with an excess
of zeros) of features that are normal, or 0 and 1, or that say nothing.  Classes are those of tables, or drawn by unequal shares, with codes
in the order of their frequencies, which is what a count's distribution looks like, or in any order.  The rule for an excess of
zeros was chosen among three on the first 80 draws of each line; nothing else was tuned on these.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn import datasets

from herdcli.regression.count_detection import contradicts_count_order, look_like_counts

REPEATS = 200
LAWS = ("Poisson", "negative binomial", "excess of zeros")
TABLES = ("digits", "make_classification", "make_blobs")
Target = tuple[np.ndarray, np.ndarray]


def features(random: np.random.Generator, rows: int, columns: int, kind: str) -> np.ndarray:
    """Correlated normal features, or 0 and 1."""
    X = random.normal(size=(rows, columns)) + 0.5 * random.normal(size=(rows, 1))
    return (X > 0.3).astype(float) if kind == "0 and 1" else X


def counts(random: np.random.Generator, law: str, kind: str) -> Target:
    """Counts of 100 to 1,000 rows, 1 to 8 features."""
    X = features(random, int(random.integers(100, 1001)), int(random.integers(1, 9)), kind)
    beta = random.normal(size=X.shape[1]) * 0.5 / np.sqrt(X.shape[1]) * (kind != "nothing")
    mean = np.exp(random.uniform(0.0, 1.2) + X @ beta)
    y = random.poisson(mean) if law != "negative binomial" else random.negative_binomial(2, 2 / (2 + mean))
    return X, np.where(random.random(len(y)) < 0.2, 0, y) if law == "excess of zeros" else y


def classes(random: np.random.Generator, kind: str) -> Target:
    """Classes of unequal shares, each with a centroid of its own."""
    X = features(random, int(random.integers(100, 1001)), int(random.integers(1, 9)), kind)
    K = int(random.integers(4, 10))
    share = np.sort(random.dirichlet(np.full(K, 0.7)))[::-1]
    y = random.choice(K, len(X), p=share)
    if kind == "0 and 1":
        return (random.random(X.shape) < random.uniform(0.1, 0.9, (K, X.shape[1]))[y]).astype(float), y
    return X + random.normal(size=(K, X.shape[1]))[y] * (kind != "nothing"), y


def of_table(random: np.random.Generator, name: str) -> Target:
    """Classes of a table that ships with scikit-learn or is made by it, of which some have fewer rows than others."""
    seed = int(random.integers(1 << 30))
    X, y = {
        "digits": lambda: datasets.load_digits(return_X_y=True),
        "make_classification": lambda: datasets.make_classification(800, 12, n_informative=6, n_classes=8, random_state=seed),
        "make_blobs": lambda: datasets.make_blobs(800, 3, centers=7, random_state=seed),
    }[name]()
    keep = random.random(len(y)) < (0.05 + 0.95 * random.random(int(y.max()) + 1) ** 2)[y]
    return X[keep], y[keep]


def by_frequency(y: np.ndarray) -> np.ndarray:
    """Codes in the order of their frequencies."""
    _, place, count = np.unique(y, return_inverse=True, return_counts=True)
    return np.argsort(np.argsort(-count, kind="stable"), kind="stable")[place]


def in_any_order(random: np.random.Generator, make: Callable[[np.random.Generator], Target]) -> Target:
    """Classes whose codes are permuted."""
    X, y = make(random)
    return X, random.permutation(int(y.max()) + 1)[y]


def share(make: Callable[[np.random.Generator], Target], *, coded: bool) -> tuple[float, float, int]:
    """Shares that the distribution alone, and with the features, takes for counts; and of how many targets of four values or more."""
    alone, both, total = 0, 0, 0
    for seed in range(REPEATS):
        X, y = make(np.random.default_rng(seed))
        y = (by_frequency(y) if coded else y).astype(float)
        if len(np.unique(y)) < 4 or len(np.unique(y)) > 20:
            continue
        said = look_like_counts(y)
        alone, both, total = alone + said, both + (said and not contradicts_count_order(X, y)), total + 1
    return alone / total, both / total, total


def main() -> None:
    """Print the table."""
    print("# Counts and codes of classes\n\nMade by `scripts/checks/counts.py`, which says how.  Share that is taken for counts:\n")
    print("| target | features | targets | by its distribution alone | with the features |\n|---|---|---|---|---|")
    kinds = ("normal", "0 and 1", "nothing")
    cases = [(f"counts, {law}", kind, partial(counts, law=law, kind=kind), False) for law in LAWS for kind in kinds]
    cases += [("classes by frequency", kind, partial(classes, kind=kind), True) for kind in kinds]
    cases += [(f"classes by frequency, {name}", "its own", partial(of_table, name=name), True) for name in TABLES]
    cases += [("classes in any order", kind, partial(in_any_order, make=partial(classes, kind=kind)), False) for kind in kinds]
    cases += [
        (f"classes in any order, {name}", "its own", partial(in_any_order, make=partial(of_table, name=name)), False) for name in TABLES
    ]
    for target, kind, make, coded in cases:
        alone, both, total = share(make, coded=coded)
        print(f"| {target} | {kind} | {total} | {alone:.3f} | {both:.3f} |", flush=True)


if __name__ == "__main__":
    main()
