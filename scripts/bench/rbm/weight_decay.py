"""What weight decay does to `herd fit-rbm` at its other defaults, by the number of training rows.

    OPENBLAS_NUM_THREADS=1 HERD_DATA=DIR python scripts bench/rbm/weight_decay [--hidden 100] [--epochs 100] [--algorithm cd] [--sets
    a9a,w8a]

The sets of checks/likelihood.py: of at most --rows rows 60 % are learned from, 20 % choose nothing here, and 20 % judge, by `herd eval`.
A line a set: training rows, independent columns, then nats a row for each decay, the default's last; a star where log Z is not reliable.
Exit code 1 if the default is more than .5 nats behind the best.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial

import numpy as np
from checks.likelihood import FILES, rows_of

from herdcli.algorithm import run_algorithm
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures.rbm import metrics
from herdcli.rbm import class_models
from herdcli.rbm.learning import parallel_fits
from herdcli.rbm.learning.class_rows import ClassGroups, assign_class_folds
from herdcli.rbm.learning.curvature_bound import largest_covariance_eigenvalue
from herdcli.rbm.learning.learning_problem import LearningProblem
from herdcli.rbm.settings import Settings, fill_defaults

DECAYS = (1e-4, 5e-4, 1e-3, 3e-3)
BAR = 0.5


def judged(groups: ClassGroups, settings: Settings) -> tuple[float, str, float]:
    """Log-likelihood of the test rows, a star where log Z is not reliable, and that of independent columns."""
    problem = LearningProblem(groups.training_rows(), settings, valid=groups.validation_rows())
    state = run_algorithm(parallel_fits.RBMLearning(problem))
    model = class_models.assemble_rbm(
        class_models.collect_models(groups, state, settings, [0], scored=False),
        class_models.collect_shared_parts(groups, settings, scored=False),
    )
    found = metrics(model, EvaluationSettings())
    star = "*" if found.get("log_likelihood_conservative") is not None else ""
    return float(found["log_likelihood"]), star, float(found["independent"])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hidden", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--algorithm", default="cd")
    parser.add_argument("--sets", default=",".join(FILES))
    parser.add_argument("--rows", type=int, default=6000)
    arguments = parser.parse_args()
    behind = 0
    print("set\ttraining_rows\tindependent", *(f"{decay:g}" for decay in DECAYS), "default", sep="\t")
    for name in arguments.sets.split(","):
        if (rows := rows_of(name)) is None:
            continue
        rows = rows[: arguments.rows]
        split = np.searchsorted([0.6, 0.8], (np.arange(len(rows)) + 0.5) / len(rows)).astype(np.uint8)
        groups, n = (
            assign_class_folds(rows, np.broadcast_to(np.int64(0), len(rows)), split, ["all"], folds=0, seed=0),
            int((split == 0).sum()),
        )
        asked, moment = (
            Settings(arguments.hidden, arguments.algorithm, epochs=arguments.epochs),
            partial(largest_covariance_eigenvalue, rows[split == 0]),
        )
        default = fill_defaults(asked, n, rate=True, centering=True, decay=True, largest_eigenvalue=moment)
        found = [judged(groups, replace(default, weight_decay=decay)) for decay in (*DECAYS, default.weight_decay)]
        behind += max(value for value, star, _ in found if not star) - found[-1][0] > BAR
        print(name, n, f"{found[-1][2]:.2f}", *(f"{value:.2f}{star}" for value, star, _ in found), sep="\t", flush=True)
    return int(behind > 0)


if __name__ == "__main__":
    sys.exit(main())
