"""Greedy Stein thinning beside the package stein-thinning: the same indices, and CPU seconds.

    OPENBLAS_NUM_THREADS=1 python scripts bench/herding/stein            # 1,000,000 x 10 -> 100; needs pip install stein-thinning

Draws of an autoregression under a correlated normal law, with their exact scores.  Both choose among the same rows with the same kernel
(imq with length 1, or the draws' covariance as metric) in one process on one thread; a step is a column of the kernel, so that few
atoms show the time of any number.  Bar: the package takes 10 times as long, and all indices are equal.

Measured on one thread of an AMD EPYC 9xx4: at 5,000 and 1,000,000 rows all indices are equal; 1,000,000 x 10 -> 100 takes 2.40 CPU s
(smpcov 2.06) and the package 23.4 (23.9), 9.8 (11.6) times as long, of which .5 s prepare the rows; a column, the step that every further
atom repeats, takes 13 ms and is read from memory at 13 GB/s.

Exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from herdcli.algorithm import run_algorithm
from herdcli.quadrature import selection, selection_problem
from herdcli.quadrature.kernels import stein_kernels
from herdcli.quadrature.kernels.stein_kernels import ScoreTarget, SteinKernel
from herdcli.quadrature.rules import sequential_rules


def draws(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """(n, d) draws of an autoregression whose law is normal, and their scores."""
    random = np.random.default_rng(0)
    root = np.eye(d) + 0.5 * np.tri(d, k=-1) / d
    X = random.standard_normal((n, d))
    for start in range(1, n):
        X[start] = 0.9 * X[start - 1] + np.sqrt(1 - 0.81) * X[start]
    X = X @ root.T
    return X, -np.linalg.solve(root @ root.T, X.T).T


def herd(X: np.ndarray, S: np.ndarray, kernel: SteinKernel, count: int) -> np.ndarray:
    """Indices of the rule greedy."""
    rows = np.concatenate([X, S], axis=1)
    group = selection_problem.SelectionGroup(ScoreTarget(rows.shape[1]), rows, count)
    return (
        run_algorithm(
            selection.AtomSelection(
                selection_problem.SelectionProblem(
                    kernel, (group,), selection_problem.SelectionSettings(sequential_rules.RuleSettings("greedy"))
                )
            )
        )
        .done[0]
        .index
    )


def main() -> None:
    """A line for each kernel."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--count", type=int, default=100)
    asked = parser.parse_args()
    try:
        from stein_thinning.thinning import thin
    except ImportError:
        raise SystemExit("pip install stein-thinning") from None
    fine = True
    for rows, count in ((5000, 300), (int(asked.rows), asked.count)):
        X, S = draws(rows, asked.columns)
        for name, kernel in (
            ("id", SteinKernel("imq", 1.0)),
            ("smpcov", stein_kernels.with_covariance_metric(SteinKernel("imq", smpcov=True), X)),
        ):
            started = time.process_time()
            ours = herd(X, S, kernel, count)
            middle = time.process_time()
            theirs = thin(X, S, count, standardize=False, preconditioner=name)
            taken = middle - started, time.process_time() - middle
            equal = int((ours == theirs).sum())
            ratio = taken[1] / taken[0]
            met = equal == count and (ratio >= 10 or rows < 100_000)
            text = (
                f"{rows:,} x {asked.columns} -> {count}, {name}: herd {taken[0]:.2f} s, stein-thinning {taken[1]:.2f} s ({ratio:.1f} times)"
            )
            print(f"{text}, {equal} of {count} indices equal  {'ok' if met else 'MISSED'}", flush=True)
            fine &= met
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
