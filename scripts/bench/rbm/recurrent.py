"""What links through time are worth: recurrent temporal RBMs of handwritten digits read line by line, beside an RBM of the lines.

    HERD_DATA=DIR python scripts bench/rbm/recurrent [--digits 600] [--hidden 20] [--epochs 100] [--seeds 3]

Sequences are the 16 lines of 16 pixels of USPS digits, $HERD_DATA/usps_all.h5, on where at least 0.4 of full grey; three fifths are
learned from, a fifth chooses the epoch, and a fifth is judged: nats a line given those before it, and root mean squared errors of
one-step predictions in standard deviations.  Seconds are of learning, the same number of epochs each.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import h5py
import numpy as np

from herdcli.algorithm import run_algorithm
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures.recurrent import metrics
from herdcli.rbm.recurrent.artifacts import assemble_recurrent_rbm
from herdcli.rbm.recurrent.learning import RecurrentLearning, RecurrentProblem
from herdcli.rbm.recurrent.likelihood import EvaluationSequences
from herdcli.rbm.recurrent.settings import RecurrentSettings, fill_defaults

SHOWN = ("log_likelihood", "log_likelihood_unlinked", "independent", "prediction_error", "mean_error", "persistence")


def digits(count: int, seed: int) -> np.ndarray:
    """(count, 16, 16) int8 of 0 and 1."""
    with h5py.File(os.path.join(os.environ["HERD_DATA"], "usps_all.h5")) as file:
        X = file["X"][:]
    chosen = np.random.default_rng(seed).permutation(len(X))[:count]
    return (X[chosen] >= 0.4 * 255).astype(np.int8).reshape(count, 16, 16)


def held(X: np.ndarray) -> EvaluationSequences:
    """Sequences whose rows all count."""
    return EvaluationSequences(X.reshape(-1, 16), np.arange(len(X) + 1) * 16, np.ones(len(X) * 16, dtype=bool))


def run(X: np.ndarray, settings: RecurrentSettings) -> list[float]:
    """The figures of SHOWN, and the seconds of learning."""
    first, second = int(0.6 * len(X)), int(0.8 * len(X))
    training = held(X[:first])
    problem = RecurrentProblem(training.v, training.offsets, settings, held(X[first:second]))
    begun = time.perf_counter()
    state = run_algorithm(RecurrentLearning(problem))
    seconds = time.perf_counter() - begun
    row = metrics(assemble_recurrent_rbm(problem, state, held(X[second:])), EvaluationSettings())
    return [*(float(row[name]) for name in SHOWN), seconds]  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("digits", 600), ("hidden", 20), ("epochs", 100), ("seeds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    print("\t".join(("links", *SHOWN, "seconds")))
    for links in ("none", "hidden", "both"):
        found = [
            run(
                digits(asked.digits, seed),
                fill_defaults(RecurrentSettings(hidden=asked.hidden, epochs=asked.epochs, links=links, seed=seed), ()),
            )
            for seed in range(asked.seeds)
        ]
        print("\t".join((links, *(f"{figure:.3f}" for figure in np.mean(found, axis=0)))), flush=True)


if __name__ == "__main__":
    main()
