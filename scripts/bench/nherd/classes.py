"""Several classes: the difference to the best rival (top-1) against each class against the rest (one-vs-rest), on the same rows.

    python scripts bench/nherd/classes [--data FOLDER] [--only NAME …]

Test error in % after one and after five passes, for values of C in units of 1 over the mean of |x|² (4⁻² to 4⁴) with nherd and with
arow, features scaled online and with a bias, as without options.  Of each form the line `run_race` is the pair that `--C auto` takes by
progressive error on the first 10,000 examples, the line `best` the lowest of the grid on the test rows themselves.  What is not there is
left out.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import h5py
import numpy as np
from bench.nherd.defaults import Rows, parted, read, sets
from shared.real_data import FOLDER

from herdcli.online import learner
from herdcli.online.block_sources import MemorySource
from herdcli.online.example_blocks import block_from_rows
from herdcli.online.learners.hyperparameter_race import EXAMPLES, ReplaySource, run_race
from herdcli.online.model import Settings
from herdcli.online.predictions.prediction import make_scorer, predict_classes

FORMS = ("top-1", "one-vs-rest")
POWERS = range(-2, 5)
PASSES = (1, 5)


def several(folder: Path) -> Iterator[tuple[str, Rows, Rows]]:
    """Sets of more than two classes: name, training rows, test rows."""
    for name, train, test in sets(folder):
        if train[1].max() > 1:
            yield name, train, test
    if (folder / "mnist.h5").exists():
        X, y, split, _ = read(folder / "mnist.h5")
        yield "MNIST", *parted(X, y, split)
    if (folder / "digits8x8.h5").exists():
        X, y, split, _ = read(folder / "digits8x8.h5")
        yield "digits", *parted(X, y, split)
    if (folder / "sentiment4_bow.h5").exists():
        X, _, split, _ = read(folder / "sentiment4_bow.h5")
        with h5py.File(folder / "sentiment4_bow.h5") as file:
            yield "sentiment, which domain", *parted(X, file["domain"][:].astype(int))


def errors(settings: Settings, train: Rows, test: Rows, classes: int) -> list[float]:
    """Test error in % after each number of `PASSES`."""
    source = MemorySource(*train, passes=max(PASSES))
    one, found = learner.OnlineLearner(settings, source, classes, train[0].shape[1] + 1), []
    state = one.init()
    for step in range(source.steps):
        state = one.step(state)
        if step + 1 in [passes * source.blocks_per_pass for passes in PASSES]:
            score = make_scorer(one.result(state))
            held = [block_from_rows(*test, slice(start, start + 5000)) for start in range(0, len(test[1]), 5000)]
            guessed = np.concatenate([predict_classes(score(block)[0]) for block in held])
            found.append(float(100 * np.mean(guessed != test[1])))
    return found


def compared(name: str, train: Rows, test: Rows) -> None:
    """Rows of a table: for each form the race's choice and the best of the grid."""
    classes = int(max(train[1].max(), test[1].max())) + 1
    for form in FORMS:
        base = Settings(multiclass=form, scaling="online", bias=True)
        first = ReplaySource(MemorySource(*train)).read_first_batches(EXAMPLES)
        chosen, table = run_race(base, first, classes, ("nherd", "arow"))
        unit = float(table.C.min()) * 16.0
        grid = {
            (algorithm, power): errors(replace(base, algorithm=algorithm, C=unit * 4.0**power), train, test, classes)
            for algorithm in ("nherd", "arow")
            for power in POWERS
        }
        picked = errors(chosen, train, test, classes)
        cells = []
        for k in range(len(PASSES)):
            best = min(grid, key=lambda key: grid[key][k])
            cells.append(f"{picked[k]:.2f} | {grid[best][k]:.2f} ({best[0]}, 4^{best[1]})")
        print(f"| {name} | {classes} | {len(train[1])} | {form} | {' | '.join(cells)} |", flush=True)
        for algorithm in ("nherd", "arow"):
            curve = " ".join("/".join(f"{error:.2f}" for error in grid[algorithm, power]) for power in POWERS)
            print(f"    {algorithm}, one/five passes by C: {curve}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=FOLDER)
    parser.add_argument("--only", action="append", help="may be repeated")
    options = parser.parse_args()
    print("| set | classes | rows | form | race, 1 pass | best, 1 | race, 5 | best, 5 |\n|---|---|---|---|---|---|---|---|")
    for name, train, test in several(options.data):
        if not options.only or name in options.only:
            compared(name, train, test)


if __name__ == "__main__":
    main()
