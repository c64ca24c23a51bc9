"""By what the race of `--C auto` should choose: test errors of what five figures of the first 10,000 examples pick.

    python scripts bench/nherd/race [--data FOLDER] [--only NAME …]

Each of the sixteen racers (nherd and arow, eight C each; several classes as top-1) learns the whole set in one and five passes; the
last column has the lowest errors.  Rounds are those of the race.  Figures, each over examples before they are learned:

error      share of mistakes, ties by the mean loss: what herd goes by
late       the same of the second half of the examples
loss       mean of ½ max(0, 1 − m)²
late loss  the same of the second half
clipped    mean loss of the second half, no example's counted above 2 (m = −1)
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from itertools import product
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from bench.nherd.defaults import Rows, sets
from shared.real_data import FOLDER

from herdcli import algorithm
from herdcli.online import learner
from herdcli.online.block_sources import MemorySource
from herdcli.online.learners import hyperparameter_race
from herdcli.online.model import Settings
from herdcli.online.predictions.prediction import make_scorer, predict_classes

Figure = Callable[[np.ndarray, np.ndarray], tuple[float, ...]]


def later(values: np.ndarray) -> np.ndarray:
    """The second half."""
    return values[len(values) // 2 :]


FIGURES: dict[str, Figure] = {
    "error": lambda error, loss: (error.mean(), loss.mean()),
    "late": lambda error, loss: (later(error).mean(), later(loss).mean()),
    "loss": lambda error, loss: (loss.mean(),),
    "late loss": lambda error, loss: (later(loss).mean(),),
    "clipped": lambda error, loss: (later(np.minimum(loss, 2.0)).mean(),),
}


def tested(settings: Settings, train: Rows, test: Rows, classes: int) -> float:
    """Test error in %."""
    made = algorithm.run_algorithm(
        learner.OnlineLearner(settings, MemorySource(*train, passes=settings.passes), classes, train[0].shape[1] + 1)
    )
    held, score = MemorySource(*test), make_scorer(made)
    scores = np.concatenate([score(held.block(k).block)[0] for k in range(held.steps)])
    return float(100 * np.mean(predict_classes(scores) != test[1]))


def chosen(figure: Figure, found: list[tuple[np.ndarray, np.ndarray]]) -> int:
    """Which racer a figure picks."""
    left = list(range(len(found)))
    for examples, stay in hyperparameter_race.ROUNDS:
        left = sorted(left, key=lambda k: (*figure(*(each[:examples] for each in found[k])), k))[:stay]
        if len(found[0][0]) <= examples:
            break
    return left[0]


def judged(name: str, train: Rows, test: Rows) -> None:
    """A line of the table: test errors after one and five passes of what each figure picks, and the lowest of all."""
    classes = int(train[1].max()) + 1
    base = Settings(scaling="online", bias=True)
    batch = MemorySource(*train).block(0)
    whole = hyperparameter_race.first_examples(base, [batch], classes)
    unit = whole.rows / float(np.sum(whole.value**2))
    found, errors = [], []
    for kind, power in product(("nherd", "arow"), hyperparameter_race.POWERS):
        settings = Settings(algorithm=kind, C=unit * 4.0**power, scaling="online", bias=True)
        racer = hyperparameter_race.RacingLearner.from_settings(settings, whole, classes)
        racer.learn_more(whole)
        found.append((racer.errors, racer.losses))
        errors.append([tested(Settings(**{**vars(settings), "passes": passes}), train, test, classes) for passes in (1, 5)])
    cells = ["{:.2f}, {:.2f}".format(*errors[chosen(figure, found)]) for figure in FIGURES.values()]
    print(f"| {name} | {' | '.join(cells)} | {'{:.2f}, {:.2f}'.format(*np.min(errors, axis=0))} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=FOLDER)
    parser.add_argument("--only", action="append", help="may be repeated")
    asked = parser.parse_args()
    print(f"| set | {' | '.join(FIGURES)} | best |\n|{'---|' * (len(FIGURES) + 2)}")
    for name, train, test in sets(asked.data):
        if not asked.only or name in asked.only:
            judged(name, train, test)


if __name__ == "__main__":
    main()
