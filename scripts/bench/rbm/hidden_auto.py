"""Whether the number of hidden units that `herd fit-rbm --hidden auto` chooses is as good as the best of the ladder.

    OPENBLAS_NUM_THREADS=1 HERD_DATA=DIR python scripts bench/rbm/hidden_auto [--epochs 30] [--sets a9a,w8a] [--algorithm cd] [--out FILE]

The sets of checks/likelihood.py, 60 % of at most 6000 rows to learn from, 20 % to choose by and 20 % for `herd eval`, with default rates.
A line a set: how many sizes were tried, the chosen one, its test log-likelihood in nats a row, the best of all eight sizes by that, and
what it is above the chosen one's; then CPU seconds of the whole climb over those of the chosen fit and of the largest fit alone.
A star is a size whose log Z is not reliable by eval's own bar; its conservative figure counts, as it does for the climb.
Bar: within .5 nats of the best.  Exit code 1 if it is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from checks.likelihood import FILES, rows_of

from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures.rbm import metrics
from herdcli.rbm import class_models
from herdcli.rbm.learning import hidden_size_search
from herdcli.rbm.learning.class_rows import ClassGroups, assign_class_folds
from herdcli.rbm.learning.curvature_bound import largest_covariance_eigenvalue
from herdcli.rbm.learning.learning_problem import LearningProblem
from herdcli.rbm.settings import Settings, fill_defaults

BAR = 0.5
COLUMNS = ("set", "tried", "chosen", "test", "best", "best_test", "short_by", "independent", "climb/chosen", "climb/largest", "all sizes")


def judged(groups: ClassGroups, problem: LearningProblem, hidden: int, state: object) -> tuple[float, str, float]:
    """What `herd eval` says of the test rows: their log-likelihood, a star where log Z is not reliable, and that of independent columns."""
    settings = replace(problem.settings, hidden=hidden)
    model = class_models.assemble_rbm(
        class_models.collect_models(groups, state, settings, [0], scored=False),
        class_models.collect_shared_parts(groups, settings, scored=False),
    )
    found = metrics(model, EvaluationSettings())
    lower = found.get("log_likelihood_conservative")
    return float(lower if lower is not None else found["log_likelihood"]), "" if lower is None else "*", float(found["independent"])


def raced(name: str, rows: np.ndarray, algorithm: str, epochs: int) -> tuple[float, list[object]]:
    """By how much the chosen size falls short of the best on test rows, and the line of the set."""
    split = np.searchsorted([0.6, 0.8], (np.arange(len(rows)) + 0.5) / len(rows)).astype(np.uint8)
    groups = assign_class_folds(rows, np.broadcast_to(np.int64(0), len(rows)), split, ["all"], folds=0, seed=0)
    asked, moment = (
        Settings(hidden_size_search.LADDER[-1], algorithm, epochs=epochs),
        partial(largest_covariance_eigenvalue, rows[split == 0]),
    )
    settings = fill_defaults(asked, int((split == 0).sum()), rate=True, centering=True, decay=True, largest_eigenvalue=moment)
    problem = LearningProblem(groups.training_rows(), settings, valid=groups.validation_rows())
    run, taken, tests = hidden_size_search.HiddenSizeSearch(problem), {}, {}
    state = run.init()
    for hidden in hidden_size_search.LADDER:  # the climb, and beyond its end for the table
        tried, start = len(state.tried), time.process_time()
        if tried and run.done(state):
            alone = hidden_size_search.HiddenSizeSearch(problem, sizes=(hidden,))
            other = alone.init()
            while not alone.done(other):
                other = alone.step(other)
            last = other.current
        else:
            while len(state.tried) == tried:
                last = state.current
                state = run.step(state)
            taken[hidden] = time.process_time() - start
        tests[hidden] = judged(groups, problem, hidden, last)
    sizes = run.result(state).sizes
    chosen = sizes.hidden[sizes.best]
    best = max(tests, key=lambda hidden: tests[hidden][0])
    short, whole = tests[best][0] - tests[chosen][0], sum(taken.values())
    largest = f"{whole / taken[hidden_size_search.LADDER[-1]]:.1f}" if hidden_size_search.LADDER[-1] in taken else "-"
    every = " ".join(f"{hidden}:{value:.2f}{star}" for hidden, (value, star, _) in tests.items())
    figures = [
        len(taken),
        chosen,
        f"{tests[chosen][0]:.2f}{tests[chosen][1]}",
        best,
        f"{tests[best][0]:.2f}{tests[best][1]}",
        f"{short:.2f}",
    ]
    return short, [name, *figures, f"{tests[chosen][2]:.2f}", f"{whole / taken[chosen]:.1f}", largest, every]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--algorithm", default="cd")
    parser.add_argument("--sets", default=",".join(FILES))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    lines, worst = ["\t".join(COLUMNS)], 0.0
    print(lines[0], flush=True)
    for name in arguments.sets.split(","):
        rows = rows_of(name)
        if rows is None:
            continue
        rows.setflags(write=False)  # the artifact of a size takes no room from the next
        short, line = raced(name, rows, arguments.algorithm, arguments.epochs)
        worst = max(worst, short)
        lines.append("\t".join(map(str, line)))
        print(lines[-1], flush=True)
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")
    print(f"the chosen size falls short of the best by at most {worst:.2f} nats")
    return int(worst > BAR)


if __name__ == "__main__":
    sys.exit(main())
