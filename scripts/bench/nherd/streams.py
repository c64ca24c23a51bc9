"""`herd nherd-train` without options on columns that lie far from 0, heavy tails and a majority, beside averaged learners.

    python scripts bench/nherd/streams [--seeds 3] [--only NAME …]

Test errors of three tenths of the rows, means over seeds:

rows      herd with a data set, which it passes over until held-out rows stop getting better
text      herd with the same rows as text of Vowpal Wabbit, learned in one pass
perceptron, averaged   a perceptron in one pass, and the mean of its weights over all examples (Freund & Schapire 1999)
PA-I, averaged         PA-I with C = 0.1, and the same of it

Features of the other learners are standardized by what all training rows say, which helps them.  An averaged learner belongs into herd's
race where its column is below `text`.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from bench.nherd.defaults import sets
from bench.nherd.league import lines
from scipy import sparse
from shared import forked_commands
from shared.real_data import FOLDER

OFFSETS = (0.0, 3.0, 10.0, 30.0, 100.0, 1e3, 1e6)
REAL = ("a9a", "w8a", "spambase", "phoneme")
Rows = tuple[object, np.ndarray]


def drawn_sets(seed: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Sets of 3,000 rows."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(3000, 10))
    y = (X[:, 0] - X[:, 1] + 0.3 * random.normal(size=3000) > 0).astype(int)
    for offset in OFFSETS:
        yield f"columns about {offset:g}", X + offset, y
    X = random.standard_t(1.5, size=(3000, 15))
    yield "heavy tails", X, (X @ random.normal(size=15) + random.normal(size=3000) > 0).astype(int)
    X = random.integers(0, 2, (3000, 20)).astype(float)
    yield "majority of 7 bits of 20", X, (X[:, :7].sum(1) > 3).astype(int)


def parts(seed: int, only: list[str] | None) -> Iterator[tuple[str, Rows, Rows]]:
    """Training and test rows of each set; real sets have one split."""
    for name, X, y in drawn_sets(seed):
        yield name, (X[:2100], y[:2100]), (X[2100:], y[2100:])
    if seed == 0:
        for name, train, test in sets(FOLDER):
            if name in (only or REAL):
                yield name, train[:2], test[:2]


def herd(train: Rows, test: Rows, *, text: bool) -> float:
    """The test error of herd without options."""
    with tempfile.TemporaryDirectory() as folder:
        names = [Path(folder, f"{name}.{'vw' if text else 'npz'}") for name in ("train", "test")]
        for path, (X, y) in zip(names, (train, test), strict=True):
            if text:
                lines(path, X, y, int(max(train[1].max(), test[1].max())) + 1)
            elif sparse.issparse(X):
                X = X.tocsr()
                np.savez(path, format="csr", shape=X.shape, data=X.data, indices=X.indices, indptr=X.indptr, y=y)
            else:
                np.savez(path, X=X, y=y)
        words = ["nherd-train", "-q", str(names[0]), "-o", str(Path(folder, "m.h5"))]
        for command in (words, ["eval", "-q", str(Path(folder, "m.h5")), "--data", str(names[1]), "--format", "json"]):
            code, out, err = forked_commands.run(command, errors=True)
            if code:
                raise SystemExit(err)
    found = json.loads(out)
    return float(found["error"] if isinstance(found, dict) else next(row["error"] for row in found if "error" in row))


def averaged(train: Rows, test: Rows, aggressiveness: float | None) -> tuple[float, float]:
    """Test errors of a perceptron (None) or PA-I with this C after one pass, and of the mean of its weights."""
    X, Z = (sparse.csr_matrix(part[0]).astype(float) for part in (train, test))
    dense = not sparse.issparse(train[0])
    square = np.asarray(X.multiply(X).mean(axis=0)).ravel()
    location = np.asarray(X.mean(axis=0)).ravel() if dense else np.zeros(X.shape[1])
    spread = np.sqrt(np.maximum(square - location**2, 0))
    factor = np.where(spread > 0, 1 / np.where(spread > 0, spread, 1), 0)
    y, classes = train[1], int(train[1].max()) + 1
    weights, total = np.zeros((2, classes, X.shape[1] + 1))
    rows = (X.toarray() - location) * factor if dense else None
    for t in range(len(y)):
        if rows is not None:
            at, x = slice(0, X.shape[1]), rows[t]
        else:
            at = X.indices[X.indptr[t] : X.indptr[t + 1]]
            x = X.data[X.indptr[t] : X.indptr[t + 1]] * factor[at]
        score = weights[:, :-1][:, at] @ x + weights[:, -1]
        own, rival = y[t], max((k for k in range(classes) if k != y[t]), key=lambda k, score=score: score[k])
        margin = score[own] - score[rival]
        if margin > 0 if aggressiveness is None else margin >= 1:
            continue
        step = 1.0 if aggressiveness is None else min(aggressiveness, (1 - margin) / (2 * (x @ x + 1)))
        for k, sign in ((own, step), (rival, -step)):
            for table, times in ((weights, 1), (total, t)):
                table[k, :-1][at] += sign * times * x
                table[k, -1] += sign * times
    held = (Z.toarray() - location) * factor if dense else Z @ sparse.diags(factor)
    found = [(np.asarray(held @ w[:, :-1].T) + w[:, -1]).argmax(axis=1) for w in (weights, weights - total / len(y))]
    return float((found[0] != test[1]).mean()), float((found[1] != test[1]).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", action="append", help="may be repeated")
    asked = parser.parse_args()
    errors: dict[str, list[list[float]]] = {}
    for seed in range(asked.seeds):
        for name, train, test in parts(seed, asked.only):
            if asked.only and name not in asked.only:
                continue
            own = [herd(train, test, text=text) for text in (False, True)]
            errors.setdefault(name, []).append([*own, *averaged(train, test, None), *averaged(train, test, 0.1)])
            print(name, *(f"{error:.4f}" for error in errors[name][-1]), flush=True)
    print("\n| set | rows | text | perceptron | averaged | PA-I | averaged |\n|---|---|---|---|---|---|---|")
    for name, found in errors.items():
        print(f"| {name} | {' | '.join(f'{error:.4f}' for error in np.mean(found, axis=0))} |")


if __name__ == "__main__":
    main()
