"""The comparison of Crammer & Lee (2010), sec. 5: five diagonal algorithms on every task at three levels of label noise.

    python scripts papers/paper_nherd FOLDER [--only SET]

C (five values) and passes (1, 2, 5, 10, 20) are tuned for each task, algorithm and noise on a noisy development split (a
quarter of the training rows of the first fold); beside this, every C is tried at 5 passes, the same for all algorithms.
Makes nherd-tuned.csv and nherd-equal.csv (C in the task's name), nherd-phoneme.csv (McNemar, 30 % noise) and nherd-many.csv (more than
two classes) in FOLDER; tasks that are there already are not run again.  scripts/papers/fig_nherd.py draws them.

The learners are those of `herd nherd-train`, called as functions: 25 settings go through the rows together, at five numbers of passes,
of which a process each (some 70,000) would start for longer than it learns.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from papers.nherd_tasks import SETS, Task, tasks
from shared.figure_pipeline import Row, read_csv, write_csv

from herdcli import fast
from herdcli.evaluation.figures.classifier import sign_test
from herdcli.online.learners.reference_updates import settings_as_codes
from herdcli.online.model import Settings

ALGORITHMS = {
    "NHERD_P": ("nherd", "project"),
    "NHERD_E": ("nherd", "exact"),
    "NHERD_D": ("nherd", "drop"),
    "AROW_P": ("arow", "project"),
    "AROW_D": ("arow", "drop"),
}
NOISES = (0.0, 0.1, 0.3)
CS = (0.01, 0.1, 1.0, 10.0, 100.0)
PASSES = (1, 2, 5, 10, 20)
EQUAL_PASSES = 5
Choice = tuple[str, float]
GRID: list[Choice] = [(name, C) for name in ALGORITHMS for C in CS]
Asked = tuple[Choice, Sequence[int]]  # and numbers of passes


def learned(task: Task, rows: np.ndarray, label: np.ndarray, asked: Sequence[Asked], test: np.ndarray) -> list[list[np.ndarray]]:
    """Of each choice the predicted classes (n,) of test rows after each number of passes that is asked for, ascending.

    Every pass is in a new order, the same for all choices.
    """
    count = 1 if task.classes == 2 else task.classes
    rules = [settings_as_codes(Settings(algorithm=ALGORITHMS[name][0], form=ALGORITHMS[name][1], C=C)) for (name, C), _ in asked]
    tables = [np.zeros((task.X.shape[1] + 1, 2, count)) for _ in asked]
    for table in tables:
        table[:, 1] = 1.0
    held, running = task.X[test], np.zeros((len(asked), 2))
    found: list[list[np.ndarray]] = [[] for _ in asked]
    for turn in range(1, max(max(marks) for _, marks in asked) + 1):
        order = np.random.default_rng(turn).permutation(len(rows))
        X = task.X[rows[order]]
        data = (X.indptr.astype(np.int64), X.indices.astype(np.int32) + 1, X.data, label[order].astype(np.int32), None)
        for (_, marks), table, rule, so_far, guesses in zip(asked, tables, rules, running, found, strict=True):
            if turn > max(marks):
                continue
            if count == 1:
                fast.learn_binary(table, *data, rule, so_far, *np.zeros((2, len(rows))))
            else:
                fast.learn_multiclass(table, *data, rule, True, so_far, *np.zeros((2, len(rows), count)))
            if turn in marks:
                score = held @ table[1:, 0]
                guesses.append((score[:, 0] > 0).astype(int) if count == 1 else score.argmax(axis=1))
    return found


def noisy(task: Task, noise: float, seed: int) -> np.ndarray:
    """All labels, each replaced by another with this probability."""
    random = np.random.default_rng(seed)
    flipped = random.random(len(task.y)) < noise
    return np.where(flipped, (task.y + random.integers(1, task.classes, len(task.y))) % task.classes, task.y)


def tuned(task: Task, label: np.ndarray) -> dict[str, tuple[float, int]]:
    """C and passes of least error on the noisy development quarter, for each algorithm."""
    order = np.random.default_rng(1).permutation(task.folds[0][0])
    cut = len(order) * 3 // 4
    train, dev = order[:cut], order[cut:]
    guesses = np.array(learned(task, train, label[train], [(choice, PASSES) for choice in GRID], dev))
    errors = (guesses != label[dev]).mean(axis=2).reshape(len(ALGORITHMS), -1)
    best = [np.unravel_index(row.argmin(), (len(CS), len(PASSES))) for row in errors]
    return {name: (CS[C], PASSES[passes]) for name, (C, passes) in zip(ALGORITHMS, best, strict=True)}


def run(task: Task, noise: float) -> tuple[list[Row], list[Row], dict[str, np.ndarray]]:
    """Rows of the tuned and (two classes) of the equal-C table, and for the tuned ones which test rows were wrong."""
    label = noisy(task, noise, 7)
    settings = tuned(task, label)
    wrong: dict[str, list[np.ndarray]] = {name: [] for name in ALGORITHMS}
    missed = np.zeros(len(GRID))
    equal_passes = [EQUAL_PASSES] if task.classes == 2 else []
    marks = [sorted({*equal_passes, *([settings[name][1]] if settings[name][0] == C else [])}) for name, C in GRID]
    asked = [(choice, own) for choice, own in zip(GRID, marks, strict=True) if own]
    for train, test in task.folds:
        guesses = learned(task, train, label[train], asked, test)
        found = {
            (choice, passes): each
            for (choice, own), made in zip(asked, guesses, strict=True)
            for passes, each in zip(own, made, strict=True)
        }
        for name, (C, passes) in settings.items():
            wrong[name].append(found[(name, C), passes] != task.y[test])
        if equal_passes:
            missed += [np.count_nonzero(found[choice, EQUAL_PASSES] != task.y[test]) for choice in GRID]
    judged = {name: np.concatenate(parts) for name, parts in wrong.items()}
    common = {"group": task.group, "noise": noise}
    chosen = [
        {"task": task.name, "algorithm": name, **common, "error": float(judged[name].mean()), "C": C, "passes": passes}
        for name, (C, passes) in settings.items()
    ]
    rows = sum(len(test) for _, test in task.folds)
    equal = [
        {"task": f"{task.name} C={C:g}", "algorithm": name, **common, "error": float(count / rows), "C": C}
        for (name, C), count in zip(GRID, missed, strict=True)
        if equal_passes
    ]
    return chosen, equal, judged


def apart(task: Task, one: np.ndarray, other: np.ndarray) -> Row:
    """By how much the error of one is above that of another, fold by fold, and the standard error of the mean of that."""
    ends = np.cumsum([len(test) for _, test in task.folds])[:-1]
    more = [a.mean() - b.mean() for a, b in zip(np.split(one, ends), np.split(other, ends), strict=True)]
    return {"over_arow_p": float(np.mean(more)), "over_arow_p_se": float(np.std(more, ddof=1) / np.sqrt(len(more)))}


def known(path: Path) -> list[Row]:
    """The rows of an earlier run, numbers as numbers."""
    words = {"task", "group", "algorithm", "pair"}
    return [{name: text if name in words else float(text) for name, text in row.items()} for row in read_csv(path)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=list(SETS), action="append", help="may be repeated")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    tables = {name: known(options.folder / f"nherd-{name}.csv") for name in ("equal", "phoneme", "many", "tuned")}
    done = {row["task"] for row in tables["tuned"] + tables["many"]}
    tables["equal"] = [row for row in tables["equal"] if row["task"].rpartition(" C=")[0] in done]
    tables["phoneme"] = [row for row in tables["phoneme"] if row["pair"] in done]
    for task in tasks(options.only or SETS):
        if task.name in done:
            continue
        for noise in NOISES:
            chosen, equal, wrong = run(task, noise)
            if task.classes > 2:
                tables["many"] += [row | apart(task, wrong[row["algorithm"]], wrong["AROW_P"]) for row in chosen]
            else:
                tables["tuned"] += chosen
            tables["equal"] += equal
            if task.group == "phoneme" and noise == NOISES[-1]:
                a, b = wrong["NHERD_P"], wrong["AROW_P"]
                p = sign_test(int((a & ~b).sum()), int((b & ~a).sum()))
                tables["phoneme"].append({"pair": task.name, "rows": len(a), "nherd_p": a.mean(), "arow_p": b.mean(), "p": p})
        print(task.name, *(f"{row['error']:.4f}" for row in chosen), flush=True)
        tables["phoneme"].sort(key=lambda row: -row["p"])
        for name, rows in tables.items():  # the tuned ones, which say what is done, last
            if rows:
                write_csv(options.folder / f"nherd-{name}.csv", rows)


if __name__ == "__main__":
    main()
