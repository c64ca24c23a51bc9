"""`herd nherd-train` without options beside scikit-learn's linear classifiers and Vowpal Wabbit, over seeds.

    python scripts bench/nherd/league --sets prediction_sets.py [--seeds 20] [--vw PYTHON] [--only NAME …] [-o league.csv]

`prediction_sets.py` has a function `sets()` that yields (name, X, y, test rows or None).  Where a set has no test rows, a seed draws three
tenths of the rows; else it draws the order of the others, but for sets whose names begin with `drift_detection`.  herd gets the training
rows as a data set and nothing else; LogisticRegression and LinearSVC stand behind a StandardScaler, without means where rows are sparse;
Vowpal Wabbit (`--vw`, a Python with its package) reads the same rows once, with its own defaults and hinge loss, and --oaa for several
classes.  For each set: mean errors, and the paired difference of herd to the better of scikit-learn's two (of lower mean error), with its
standard error over seeds.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import h5py
import numpy as np
import scipy.sparse as sp
from sklearn.datasets import make_classification, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from herdcli.online.block_sources import MemorySource
from herdcli.online.example_blocks import block_from_rows
from herdcli.online.learner import OnlineLearner
from herdcli.online.learners import drift_detection, early_stopping, hyperparameter_race
from herdcli.online.learners.state_conversion import classifier_from_state
from herdcli.online.model import Settings
from herdcli.online.predictions.prediction import make_scorer, predict_classes

VW = """
import sys
from vowpalwabbit import Workspace
train, test, classes = sys.argv[1], sys.argv[2], int(sys.argv[3])
several = f"--oaa {classes} " if classes > 2 else "--binary "
vw = Workspace(several + "--loss_function hinge --quiet -b 18")
for line in open(train):
    vw.learn(line)
wrong = lines = 0
for line in open(test):
    wrong += int(float(line.split(" ", 1)[0])) != int(vw.predict(line))
    lines += 1
print(wrong / lines)
"""


def additional_sets():
    """Seven sets more: a tenth of noise, a wide one, counts, correlated columns far from 0, moons, and counts of words of two corpora."""
    random = np.random.default_rng(11)
    X = random.poisson(np.exp(random.normal(size=(2500, 30)) * 0.5 + 1)).astype(float)
    logs = np.log1p(X) - np.log1p(X).mean(axis=0)
    yield "counts", X, (logs @ random.normal(size=30) + random.normal(size=2500) > 0).astype(int), None
    X, y = make_classification(900, 400, n_informative=20, n_redundant=0, random_state=1)
    yield "400 columns, 900 rows", X, y, None
    A = random.normal(size=(20, 20)) * np.logspace(0, -1.5, 20)
    X = random.normal(size=(3000, 20)) @ A.T
    yield "correlated columns about 500", X + 500, (X @ random.normal(size=20) + 0.5 * random.normal(size=3000) > 0).astype(int), None
    X, y = make_moons(2000, noise=0.25, random_state=2)
    yield "moons", X, y, None
    X, y = make_classification(3000, 25, n_informative=8, n_classes=3, flip_y=0.1, random_state=4)
    yield "three classes, a tenth of noise", X, y, None
    for name in ("r8_bow", "sentiment4_bow"):
        with h5py.File(f"{os.environ['HERD_DATA']}/{name}.h5") as file:
            group = file["X"]
            X = sp.csr_matrix(tuple(group[part][:] for part in ("data", "indices", "indptr")), shape=file.attrs["shape"]).astype(float)
            yield f"text: {name.partition('_')[0]}", X, file["y"][:], file["split"][:] > 0 if "split" in file else None


def herd(X, y, X_test, y_test, seed: int) -> float:
    """What `herd nherd-train` makes of rows of a data set without options."""
    settings = Settings(algorithm="nherd", bias=True, scaling="standard", seed=seed)
    classes, source = int(y.max()) + 1, MemorySource(X, y, seed=seed)
    first = hyperparameter_race.ReplaySource(source).read_first_batches(hyperparameter_race.EXAMPLES)
    settings, _ = hyperparameter_race.run_race(settings, first, classes, ("nherd", "arow"), ("top-1", "one-vs-rest"))
    found = drift_detection.compare_half_lives(settings, first, classes)
    scales, rows = None, 0
    entries = X.nnz if sp.issparse(X) else X.size
    if len(y) <= early_stopping.ROWS and entries <= early_stopping.ENTRIES:
        choice = early_stopping.choose_passes(settings, X, y, None, classes)
        held = float(choice.table.error.min())
        if found is None or held - found.errors.mean() <= drift_detection.SURE * (held * (1 - held) / len(found.errors)) ** 0.5:
            settings, scales, rows, found = choice.settings, choice.scales, len(y), None
    settings = settings if found is None else found.settings
    source = MemorySource(X, y, passes=settings.passes, shuffle=settings.shuffle, seed=seed)
    learner = OnlineLearner(settings, source, classes, X.shape[1] + 1, scales=scales, rows=rows)
    state = learner.init()
    while not learner.done(state):
        state = learner.step(state)
    model = classifier_from_state(settings, X.shape[1] + 1, state, [str(k) for k in range(classes)])
    score, _ = make_scorer(model)(block_from_rows(X_test, y_test, slice(None)))
    return float((predict_classes(score) != y_test).mean())


def lines(path: Path, X, y, classes: int) -> None:
    """Rows as text of Vowpal Wabbit, labels −1 and 1 or from 1."""
    X = sp.csr_matrix(X)
    with open(path, "w") as file:
        for row, label in enumerate(y.tolist()):
            part = slice(X.indptr[row], X.indptr[row + 1])
            own = label + 1 if classes > 2 else 2 * label - 1
            file.write(f"{own} | " + " ".join(f"{k}:{x:.9g}" for k, x in zip(X.indices[part], X.data[part], strict=True)) + "\n")


def vowpal(python: str, X, y, X_test, y_test) -> float:
    """The test error of one pass of Vowpal Wabbit."""
    classes = int(y.max()) + 1
    with tempfile.TemporaryDirectory() as folder:
        train, test = Path(folder, "train"), Path(folder, "test")
        lines(train, X, y, classes)
        lines(test, X_test, y_test, classes)
        done = subprocess.run([python, "-c", VW, train, test, str(classes)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def parts(y, test, seed: int, *, ordered: bool):
    """Training rows in a drawn order, or in their own, and test rows."""
    random = np.random.default_rng(seed)
    if test is None:
        order = random.permutation(len(y))
        cut = 3 * len(y) // 10
        return order[cut:], order[:cut]
    train = np.flatnonzero(~test)
    return train if ordered else random.permutation(train), np.flatnonzero(test)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sets", required=True)
    options.add_argument("--seeds", type=int, default=20)
    options.add_argument("--vw")
    options.add_argument("--only", nargs="*")
    options.add_argument("-o", "--output", default="league.csv")
    given = options.parse_args()
    warnings.filterwarnings("ignore")
    spec = importlib.util.spec_from_file_location("sets", given.sets)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    table = []
    for name, X, labels, test in [*module.sets(), *additional_sets()]:
        if given.only and name not in given.only:
            continue
        y = np.unique(labels, return_inverse=True)[1]
        errors: dict[str, list[float]] = {}
        for seed in range(given.seeds):
            train, held = parts(y, test, seed, ordered=name.startswith("drift"))
            rows = (X[train], y[train], X[held], y[held])
            errors.setdefault("herd", []).append(herd(*rows, seed))
            for model in (LogisticRegression(max_iter=300), LinearSVC()):
                fitted = make_pipeline(StandardScaler(with_mean=not sp.issparse(X)), model).fit(*rows[:2])
                errors.setdefault(type(model).__name__, []).append(float((fitted.predict(rows[2]) != rows[3]).mean()))
            if given.vw:
                errors.setdefault("VW", []).append(vowpal(given.vw, *rows))
        best = min(("LogisticRegression", "LinearSVC"), key=lambda model: float(np.mean(errors[model])))
        apart = np.array(errors["herd"]) - np.array(errors[best])
        row = {"set": name, "seeds": given.seeds} | {model: f"{np.mean(found):.4f}" for model, found in errors.items()}
        row |= {"difference": f"{apart.mean():+.4f}", "standard_error": f"{apart.std(ddof=1) / len(apart) ** 0.5:.4f}"}
        table.append(row)
        print(row, file=sys.stderr, flush=True)
    with open(given.output, "w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    main()
