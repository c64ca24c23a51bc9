"""What `herd fit-rbm --track-likelihood` costs, and whether its error tells when it has lost the model.

    OPENBLAS_NUM_THREADS=1 HERD_DATA=DIR python scripts bench/rbm/likelihood_tracking [--epochs 5] [--rows 6000]

A line a case, one thread: CPU seconds of learning without and with it, their ratio, and CPU seconds that one of the 25 places takes to
which rows are carried (of a run of more than 25 epochs they lie several epochs apart, so that the share of the whole falls); then log Z as
it was kept along, its standard error, and log Z summed over all states or, where they are too many, annealed as `herd eval` does, a star
where that is not reliable.  The rows are of mnist.h5 and of the digits that ship with herd.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace

import numpy as np
from checks.likelihood import rows_of

from herdcli.algorithm import run_algorithm
from herdcli.rbm.learning import parallel_fits
from herdcli.rbm.learning.learning_problem import LearningProblem
from herdcli.rbm.likelihood.enumeration import exact_log_partition, log2_state_count
from herdcli.rbm.likelihood.repeated_annealing import estimate_log_partitions
from herdcli.rbm.model import Harmonium
from herdcli.rbm.settings import Settings, fill_defaults

CASES = (  # set, hidden units, algorithm, batch, rate or None for the default
    ("digits", 12, "cd", 20, None),
    ("digits", 100, "cd", 20, None),
    ("mnist", 16, "pcd", 100, None),
    ("mnist", 500, "cd", 100, None),
    ("mnist", 500, "pcd", 100, None),
    ("mnist", 500, "pcd", 100, 0.005),
)
COLUMNS = ("set", "hidden", "algorithm", "batch", "rate", "plain_s", "tracked_s", "ratio", "s_a_place", "log_z_tracked", "error", "log_z")


def measured(rows: np.ndarray, settings: Settings) -> tuple[float, LearningProblem, parallel_fits.LearningState]:
    """CPU seconds of a whole fit, its problem and its last state."""
    problem = LearningProblem([rows], settings)
    start = time.process_time()
    state = run_algorithm(parallel_fits.RBMLearning(problem))
    return time.process_time() - start, problem, state


def line(name: str, hidden: int, algorithm: str, batch: int, rate: float | None, epochs: int, most: int) -> list[object] | None:
    """One case."""
    rows = rows_of(name)
    if rows is None:
        return None
    rows = rows[:most]
    settings = fill_defaults(Settings(hidden, algorithm, epochs=epochs, batch_size=batch), len(rows), rate=True, centering=True, decay=True)
    settings = settings if rate is None else replace(settings, learning_rate=rate)
    plain = min(measured(rows, settings)[0] for _ in range(2))
    runs = [measured(rows, replace(settings, track_likelihood=True)) for _ in range(2)]
    tracked, problem, state = min(runs, key=lambda run: run[0])
    h = Harmonium(*(part[0].astype(np.float64) for part in (state.W, state.b, state.c)), problem.visible, problem.hidden)
    log_z, error = state.track.figures[-1, 0, :2]
    if log2_state_count(h.hidden, hidden) <= 20:
        truth = f"{exact_log_partition(h):.2f}"
    else:
        (found,) = estimate_log_partitions((h,), (problem.base_rate_parameters(0),), (rows[:1000],), 100, 2000, 0, map, None)
        truth = f"{found.log_partition:.2f}" + ("" if found.reliable else "*")
    figures = [f"{plain:.2f}", f"{tracked:.2f}", f"{tracked / plain:.2f}", f"{(tracked - plain) / epochs:.3f}"]
    return [name, hidden, algorithm, batch, settings.learning_rate, *figures, f"{log_z:.2f}", f"{error:.2f}", truth]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=6000)
    asked = parser.parse_args()
    print(*COLUMNS, sep="\t")
    for case in CASES:
        found = line(*case, asked.epochs, asked.rows)
        if found is not None:
            print(*found, sep="\t", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
