"""`herd nherd-train --task regression` of data sets without options, beside scikit-learn and Vowpal Wabbit, on three real sets.

    python scripts bench/nherd/regression [--data FOLDER] [--vw PYTHON] [--only NAME …]

Diabetes (442 patients, scikit-learn's), visits to a doctor (RAND health insurance experiment, 20,190 person-years, statsmodels'), and the
middle pixel of 16×16 patches of photographs from the pixels that do not touch it (20,000 of them, $HERD_DATA).  A fifth is tested.  Root
mean square error of the test rows over that of the training rows' mean, after one and five passes of herd; of least squares; of ridge with
its penalty by cross-validation and of SGDRegressor with its defaults, on columns divided by their deviations; and of Vowpal Wabbit with
its defaults in one and five passes.  Seconds are of the whole process of herd.  What is not there is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import h5py
import numpy as np
from bench.nherd.defaults import HERD
from shared.real_data import FOLDER

Rows = tuple[np.ndarray, np.ndarray]


def sets(folder: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, rows and targets."""
    try:
        from sklearn.datasets import load_diabetes

        yield "diabetes", *load_diabetes(return_X_y=True, scaled=False)
    except ImportError:
        pass
    try:
        from statsmodels.datasets import randhie

        table = randhie.load_pandas()
        yield "visits to a doctor", table.exog.to_numpy(dtype=float), table.endog.to_numpy(dtype=float)
    except ImportError:
        pass
    if (folder / "patches16.h5").exists():
        with h5py.File(folder / "patches16.h5") as file:
            pixels = file["X"][:20_000].astype(float)
        place = np.arange(256)
        near = (np.abs(place // 16 - 8) <= 1) & (np.abs(place % 16 - 8) <= 1)
        yield "middle pixel", pixels[:, ~near], pixels[:, 8 * 16 + 8]


def of_herd(folder: Path, train: Rows, test: Rows, *options: str) -> tuple[float, float]:
    """Test error and seconds."""
    X, y = (np.concatenate(parts) for parts in zip(train, test, strict=True))
    with h5py.File(folder / "t.h5", "w") as file:
        file["X"], file["y"], file["split"] = X, y, np.repeat([0, 2], [len(train[1]), len(test[1])]).astype(np.uint8)
    start = time.perf_counter()
    subprocess.run([HERD, "nherd-train", "-q", "--task", "regression", "t.h5", *options, "-o", "m.h5"], check=True, cwd=folder)
    seconds = time.perf_counter() - start
    told = subprocess.run([HERD, "eval", "m.h5", "--format", "json"], check=True, cwd=folder, capture_output=True)
    return float(json.loads(told.stdout)[0]["rmse"]), seconds


def of_vw(vw: str, folder: Path, train: Rows, test: Rows, passes: int) -> float:
    for name, (X, y) in (("train", train), ("test", test)):
        with (folder / f"{name}.vw").open("w") as out:
            for row, target in zip(X.tolist(), y.tolist(), strict=True):
                out.write(f"{target!r} | {' '.join(f'{k}:{value:.9g}' for k, value in enumerate(row))}\n")
    run = [vw, "-m", "vowpalwabbit", "--quiet"]
    again = ["--passes", str(passes), "-c", "-k", "--holdout_off"] if passes > 1 else []
    subprocess.run([*run, "-d", "train.vw", "-f", "m.vw", *again], check=True, cwd=folder)
    subprocess.run([*run, "-t", "-i", "m.vw", "-d", "test.vw", "-p", "guesses"], check=True, cwd=folder)
    return rmse(np.loadtxt(folder / "guesses"), test[1])


def rmse(guessed: np.ndarray, y: np.ndarray) -> float:
    return float(np.sqrt(np.mean((guessed - y) ** 2)))


def of_sklearn(train: Rows, test: Rows) -> list[float]:
    from sklearn.linear_model import LinearRegression, RidgeCV, SGDRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    models = (LinearRegression(), RidgeCV(np.logspace(-3, 5, 17)), SGDRegressor(random_state=0))
    return [rmse(make_pipeline(StandardScaler(), model).fit(*train).predict(test[0]), test[1]) for model in models]


def compared(name: str, X: np.ndarray, y: np.ndarray, vw: str | None) -> None:
    order = np.random.default_rng(0).permutation(len(y))
    cut = len(y) - len(y) // 5
    train, test = ((X[part], y[part]) for part in (order[:cut], order[cut:]))
    worst = rmse(np.full(len(test[1]), train[1].mean()), test[1])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        cells = []
        for options in (("--passes", "1"), ("--passes", "5")):
            error, seconds = of_herd(folder, train, test, *options)
            cells.append(f"{error / worst:.4f} ({seconds:.1f} s)")
        try:
            cells += [f"{error / worst:.4f}" for error in of_sklearn(train, test)]
        except ImportError:
            cells += ["-"] * 3
        cells += ["-", "-"] if vw is None else [f"{of_vw(vw, folder, train, test, passes) / worst:.4f}" for passes in (1, 5)]
    print(f"| {name} | {cut} × {X.shape[1]} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=FOLDER)
    parser.add_argument("--vw", default=None, metavar="PYTHON", help="an interpreter with the package vowpalwabbit")
    parser.add_argument("--only", action="append", help="may be repeated")
    options = parser.parse_args()
    print("| set | rows | herd, one pass | five | least squares | ridge by cross-validation | SGD | Vowpal Wabbit, one pass | five |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, X, y in sets(options.data):
        if not options.only or name in options.only:
            compared(name, X, y, options.vw)


if __name__ == "__main__":
    main()
