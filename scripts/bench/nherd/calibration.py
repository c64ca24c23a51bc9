"""Are probabilities right: `herd nherd-train` without options beside Vowpal Wabbit's and scikit-learn's calibrators, on the same lines.

    python scripts bench/nherd/calibration [--data FOLDER] [--vw PYTHON] [--only NAME …]

For sets of 10,000 rows or more: test error in %, expected calibration error of the likeliest class (15 bins of equal width) and log-loss of
the test rows, after one and five passes of herd; of one pass of Vowpal Wabbit (logistic loss, --oaa with --probabilities for several
classes); and of scikit-learn's SGDClassifier (hinge, five passes) calibrated by a sigmoid and by isotonic regression on three folds, rows
divided by the largest |x| of each column.  What is not there is left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from bench.nherd.defaults import HERD, Rows, lines, parted, read, sets
from shared.real_data import FOLDER

from herdcli.evaluation.figures.classifier import calibration_error

LEAST = 10_000


def large(folder: Path) -> Iterator[tuple[str, Rows, Rows]]:
    """The sets with so many rows, and 20 newsgroups with a random tenth in the place of its later posts."""
    for name, train, test in sets(folder):
        if len(train[1]) + len(test[1]) >= LEAST:
            yield name, train, test
    if (folder / "newsgroups20_bow.h5").exists():
        X, y, _, _ = read(folder / "newsgroups20_bow.h5")
        tenth = (np.random.default_rng(1).random(len(y)) < 0.1).astype(np.uint8)
        yield "20NG, random tenth", *parted(X, y, tenth)


def figures(p: np.ndarray, y: np.ndarray) -> str:
    """Error, calibration error and log-loss of probabilities (n, classes)."""
    guessed = p.argmax(axis=1)
    loss = -np.mean(np.log(np.maximum(p[np.arange(len(y)), y], 1e-15)))
    return f"{100 * np.mean(guessed != y):.2f}, {calibration_error(p.max(axis=1), guessed == y):.4f}, {loss:.3f}"


def of_herd(folder: Path, passes: int) -> str:
    model, test = str(folder / "m.h5"), str(folder / "test.svm")
    subprocess.run([HERD, "nherd-train", "-q", str(folder / "train.svm"), "--passes", str(passes), "-o", model], check=True)
    told = subprocess.run([HERD, "eval", model, "--data", test, "--format", "json"], check=True, capture_output=True)
    (row,) = json.loads(told.stdout)
    return f"{100 * row['error']:.2f}, {row['calibration_error']:.4f}, {row['log_loss']:.3f}"


def of_vw(vw: str, folder: Path, y: np.ndarray, classes: int) -> str:
    several = ["--oaa", str(classes), "--probabilities"] if classes > 2 else ["--link", "logistic"]
    model, guesses = str(folder / "m.vw"), folder / "guesses"
    run = [vw, "-m", "vowpalwabbit", "--quiet"]
    subprocess.run([*run, "--loss_function", "logistic", *several, "-f", model, "-d", str(folder / "train.vw")], check=True)
    subprocess.run([*run, "-t", "-i", model, *several[2:], "-d", str(folder / "test.vw"), "-p", str(guesses)], check=True)
    rows = guesses.read_text().splitlines()
    if classes > 2:
        return figures(np.array([[float(part.split(":")[1]) for part in row.split()] for row in rows]), y)
    one = np.array([float(row.split()[0]) for row in rows])
    return figures(np.stack([1 - one, one], axis=1), y)


def of_sklearn(train: Rows, test: Rows, method: str) -> str:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.linear_model import SGDClassifier
    from sklearn.preprocessing import MaxAbsScaler

    scaler = MaxAbsScaler().fit(train[0])
    model = CalibratedClassifierCV(SGDClassifier(max_iter=5, tol=None, random_state=0), method=method, cv=3)
    model.fit(scaler.transform(train[0]), train[1])
    return figures(model.predict_proba(scaler.transform(test[0])), test[1])


def compared(name: str, train: Rows, test: Rows, vw: str | None) -> None:
    classes = int(max(train[1].max(), test[1].max())) + 1
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for part, rows in (("train", train), ("test", test)):
            (folder / f"{part}.svm").write_text(lines(rows, "{0}"))
            (folder / f"{part}.vw").write_text(lines(rows, "{1} |" if classes > 2 else "{2} |"))
        cells = [of_herd(folder, 1), of_herd(folder, 5), "-" if vw is None else of_vw(vw, folder, test[1], classes)]
        try:
            cells += [of_sklearn(train, test, method) for method in ("sigmoid", "isotonic")]
        except ImportError:
            cells += ["-", "-"]
        print(f"| {name} | {len(train[1])} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=FOLDER)
    parser.add_argument("--vw", default=None, metavar="PYTHON", help="an interpreter with the package vowpalwabbit")
    parser.add_argument("--only", action="append", help="may be repeated")
    options = parser.parse_args()
    print("| set | rows | herd, one pass | herd, five | Vowpal Wabbit | SGD, sigmoid | SGD, isotonic |\n|---|---|---|---|---|---|---|")
    for name, train, test in large(options.data):
        if not options.only or name in options.only:
            compared(name, train, test, options.vw)


if __name__ == "__main__":
    main()
