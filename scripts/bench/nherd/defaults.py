"""`herd nherd-train` with no option against the best of a grid of Vowpal Wabbit, and what `--C auto` costs.

    python scripts bench/nherd/defaults [--data FOLDER] [--vw PYTHON] [--only NAME …] [--no-time]

Both read the same lines in the same order, drawn once.  Vowpal Wabbit gets two losses and eight learning rates and is judged on the
same test lines, of which its best is taken: the bar is the best that a hand could have tuned on the test set itself, 1 and 5 passes.
Sets with several classes go through --oaa there.  The last column is the CPU time of `herd nherd-train` with its race over that of one
with C and algorithm given, each the best of five runs in turn, both whole processes.  What is not there is left out.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import h5py
import numpy as np
from bench.nherd.online_learning import children_seconds
from scipy.sparse import csr_matrix
from shared.real_data import FOLDER

RATES = (0.03, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 15.0)
LOSSES = ("hinge", "logistic")
HERD = str(Path(sys.executable).with_name("herd"))
Rows = tuple[csr_matrix, np.ndarray]


def read(path: Path) -> tuple[csr_matrix, np.ndarray, np.ndarray | None, list[str]]:
    """Rows, labels as they stand, the part of each row if the file has one, and names of classes."""
    with h5py.File(path) as file:
        if isinstance(file["X"], h5py.Group):
            parts = (file["X/data"][:].astype(float), file["X/indices"][:], file["X/indptr"][:])
            shape = file["X"].attrs.get("shape", file.attrs.get("shape"))
            X = csr_matrix(parts) if shape is None else csr_matrix(parts, shape=tuple(shape))
        else:
            X = csr_matrix(file["X"][:].astype(float))
        names = list(file["class_names"].asstr()[:]) if "class_names" in file else []
        split = file["split"][:] if "split" in file else None
        return X, file["y"][:].astype(int), split, names


def parted(X: csr_matrix, y: np.ndarray, split: np.ndarray | None = None) -> tuple[Rows, Rows]:
    """Training and test rows in one random order; a fifth is held out where the set has no split of its own."""
    order = np.random.default_rng(0).permutation(len(y))
    test = split == split.max() if split is not None else np.isin(np.arange(len(y)), order[: len(y) // 5])
    train, held = order[~test[order]], order[test[order]]
    return (X[train], y[train]), (X[held], y[held])


def svmlight(path: Path, columns: int | None = None) -> Rows:
    """Rows of a file of svmlight text whose indices begin at 1."""
    index, value, pointer, label = [], [], [0], []
    for line in path.read_text().splitlines():
        first, *pairs = line.split()
        label.append(int(float(first) > 0))
        for pair in pairs:
            place, number = pair.split(":")
            index.append(int(place) - 1)
            value.append(float(number))
        pointer.append(len(index))
    return csr_matrix((value, index, pointer), shape=(len(label), columns or max(index) + 1)), np.array(label)


def sets(folder: Path) -> Iterator[tuple[str, Rows, Rows]]:
    """Name, training rows and test rows."""
    if (folder / "a9a").exists():
        yield "a9a", svmlight(folder / "a9a", 123), svmlight(folder / "a9a.t", 123)
    if (folder / "w8a").exists():
        yield "w8a", *parted(*svmlight(folder / "w8a"))
    for name in ("spambase", "phoneme", "usps_all", "r8_bow", "newsgroups20_bow", "mnist", "sentiment4_bow"):
        if not (folder / f"{name}.h5").exists():
            continue
        X, y, split, names = read(folder / f"{name}.h5")
        if name == "newsgroups20_bow":
            yield "20NG", *parted(X, y, split)
            yield "20NG comp", *parted(X, np.array([each.startswith("comp.") for each in names])[y].astype(int), split)
        elif name == "mnist":
            for a, b in ((3, 8), (4, 9)):
                pair = np.isin(y, (a, b))
                yield f"MNIST {a}/{b}", *parted(X[pair], (y[pair] == b).astype(int), split[pair])
        elif name == "sentiment4_bow":
            with h5py.File(folder / f"{name}.h5") as file:
                domain, called = file["domain"][:], file["domain_names"].asstr()[:]
            for number, each in enumerate(called):
                yield f"sentiment {each}", *parted(X[domain == number], y[domain == number])
        else:
            yield name.removesuffix("_bow").removesuffix("_all"), *parted(X, y, split)


def lines(rows: Rows, first: str) -> str:
    """Text of rows; first: how a label is written, with {0} (from 0), {1} (from 1) or {2} (−1 or 1)."""
    X, y = rows
    told = [first.format(int(label), int(label) + 1, 2 * int(label) - 1) for label in y]
    pairs = [f"{place + 1}:{value:.6g}" for place, value in zip(X.indices.tolist(), X.data.tolist(), strict=True)]
    return "".join(f"{label} {' '.join(pairs[X.indptr[k] : X.indptr[k + 1]])}\n" for k, label in enumerate(told))


def herd_error(folder: Path, passes: int) -> float:
    """Test error in % with no option but --passes."""
    model = str(folder / "m.h5")
    subprocess.run([HERD, "nherd-train", "-q", str(folder / "train.svm"), "--passes", str(passes), "-o", model], check=True)
    subprocess.run([HERD, "apply", "-q", model, str(folder / "test.svm"), "-o", str(folder / "p.csv")], check=True)
    header, *rows = (folder / "p.csv").read_text().splitlines()
    # a column of probabilities for each class comes first
    names = header.split(",")[: len(set(header.split(",")) - {"y", "predicted_y", "split"})]
    guessed = np.array([names[int(np.argmax([float(cell) for cell in row.split(",")[: len(names)]]))].strip('"') for row in rows])
    label = np.array([line.split(" ", 1)[0] for line in (folder / "test.svm").read_text().splitlines()])
    return float(100 * np.mean(guessed != label))


def vw_error(vw: str, folder: Path, classes: int, passes: int, loss: str, rate: float) -> float:
    """Test error in % of one setting."""
    run = [vw, "-m", "vowpalwabbit", "--quiet", "-b", "18", "--loss_function", loss, "-l", str(rate), "-f", str(folder / "m.vw")]
    several = ["--oaa", str(classes)] if classes > 2 else []
    again = ["--passes", str(passes), "-k", "--holdout_off"] if passes > 1 else []
    cache = ["--cache_file", str(folder / "x.cache")] if passes > 1 else []
    subprocess.run([*run, *several, *again, *cache, "-d", str(folder / "train.vw")], check=True, capture_output=True)
    guesses = folder / "guesses"
    judge = [vw, "-m", "vowpalwabbit", "--quiet", "-t", "-i", str(folder / "m.vw"), "-d", str(folder / "test.vw"), "-p", str(guesses)]
    subprocess.run(judge, check=True, capture_output=True)
    found = np.array([float(line.split()[0]) for line in guesses.read_text().splitlines()])
    label = np.array([int(line.split(" ", 1)[0]) for line in (folder / "test.vw").read_text().splitlines()])
    return float(100 * np.mean((found if classes > 2 else np.where(found > 0, 1, -1)) != label))


def price(folder: Path) -> float:
    """CPU time of one pass with the race over one with C and algorithm given."""
    plain = [HERD, "nherd-train", "-q", str(folder / "train.svm"), "-o", str(folder / "p.h5")]
    times = children_seconds({"auto": plain, "given": [*plain, "--C", "1", "--algorithm", "nherd"]}, 5)
    return times["auto"][1] / times["given"][1]


def compared(name: str, train: Rows, test: Rows, vw: str | None, *, timed: bool) -> None:
    classes = int(train[1].max()) + 1
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for part, rows in (("train", train), ("test", test)):
            (folder / f"{part}.svm").write_text(lines(rows, "{0}"))
            (folder / f"{part}.vw").write_text(lines(rows, "{1} |" if classes > 2 else "{2} |"))
        cells = []
        for passes in (1, 5):
            ours = herd_error(folder, passes)
            grid = (
                {}
                if vw is None
                else {(loss, rate): vw_error(vw, folder, classes, passes, loss, rate) for loss, rate in product(LOSSES, RATES)}
            )
            best = min(grid, key=lambda key: grid[key]) if grid else None
            theirs = f"{grid[best]:5.2f} ({best[0]}, {best[1]:g})" if best else "-"
            cells.append(f"{ours:5.2f} | {theirs}")
        print(f"| {name} | {len(train[1])} | {' | '.join(cells)} | {f'{price(folder):.2f}' if timed else '-'} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=FOLDER)
    parser.add_argument("--vw", default=None, metavar="PYTHON", help="an interpreter with the package vowpalwabbit")
    parser.add_argument("--only", action="append", help="may be repeated")
    parser.add_argument("--no-time", action="store_true", help="leave the last column out")
    options = parser.parse_args()
    print("| set | rows | herd, 1 pass | VW, 1 pass | herd, 5 | VW, 5 | time of auto over given |\n|---|---|---|---|---|---|---|")
    for name, train, test in sets(options.data):
        if not options.only or name in options.only:
            compared(name, train, test, options.vw, timed=not options.no_time)


if __name__ == "__main__":
    main()
