"""Whether the intervals that `herd eval` states for annealed log-likelihoods hold the exact values.

    HERD_DATA=DIR python scripts checks/likelihood [--models 20] [--minutes 10] [--seed 0] [--defaults]
        [--out results/likelihood_coverage.tsv]

Trained models with at most 20 hidden units, whose log Z is summed, are annealed as if it could not be (the way of
`--likelihood auto` beyond 25 units).  Sets: digits (ships with herd) and, where HERD_DATA holds them, eights8x8, usps_all, mnist,
news_w100, spambase, a9a, w8a, patches16 and speech_segments; models of a set differ in hidden units (8 to 20), algorithm (CD-1, PCD),
learning rate (.01 to .1, which at momentum .9 and batches of 20 is too much for some, on purpose) and seed.  A line a model: exact
log Z, the estimate's error, its half interval, effective chains, temperatures and whether it was called reliable; beside them the
error of plain annealing (100 chains, 1000 temperatures) and its standard error.

Bars: the reliable intervals hold the exact value at least 93 % of the time, at most 10 % are called not reliable, and the median
width is at most .5 nats.  Exit code 1 if one is missed.
`--models 200 --minutes 600` is the whole test; models are drawn in turns from the sets, so that fewer of them are a sample.
`--defaults` has models as the command learns them without options on learning: rpcd, and the rate and weight decay that suit the rows.
`--seed` is added to the seeds of all models: what was tuned on some seeds is judged on others.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from importlib.resources import files
from pathlib import Path

import numpy as np

from herdcli import artifacts
from herdcli.algorithm import run_algorithm
from herdcli.rbm.learning import parallel_fits
from herdcli.rbm.learning.curvature_bound import largest_covariance_eigenvalue
from herdcli.rbm.likelihood import annealed_importance, repeated_annealing
from herdcli.rbm.likelihood.enumeration import exact_log_partition
from herdcli.rbm.likelihood.log_z_estimates import STUDENT, LogZEstimate
from herdcli.rbm.model import Harmonium
from herdcli.rbm.settings import fill_defaults
from herdcli.rng import Stream, generator

MOST_ROWS = 6000
FILES = {  # name in HERD_DATA, and the value from which a column is on
    "digits": ("", 6.4),
    "eights8x8": ("eights8x8.h5", 1),
    "usps": ("usps_all.h5", 51),
    "news_w100": ("news_w100.h5", 1),
    "spambase": ("spambase.h5", 1e-9),
    "a9a": ("a9a", 1),
    "w8a": ("w8a", 1),
    "mnist": ("mnist.h5", 102),
    "patches16": ("patches16.h5", 110),
    "speech": ("speech_segments.h5", 1),
}
COLUMNS = ("set", "hidden", "algorithm", "rate", "seed", "log_z", "error", "half_width", "effective", "temperatures", "reliable")


def rows_of(name: str) -> np.ndarray | None:
    """At most MOST_ROWS binary rows, int8, of a set in a fixed random order; None where its file is not there."""
    file, threshold = FILES[name]
    path = str(files("herdcli.data") / "digits.h5") if not file else str(Path(os.environ.get("HERD_DATA", "")) / file)
    if not Path(path).is_file():
        return None
    X = artifacts.load(path).value.X
    chosen = generator(0, Stream.SPLIT).permutation(X.shape[0])[:MOST_ROWS]
    dense = X[chosen].toarray() if hasattr(X, "toarray") else np.asarray(X)[chosen]
    return (dense >= threshold).astype(np.int8)


def trained(train: np.ndarray, hidden: int, algorithm: str, rate: float, seed: int) -> Harmonium:
    settings = parallel_fits.Settings(hidden, algorithm, epochs=8, batch_size=20, learning_rate=rate or 1.0, momentum=0.9, seed=seed)
    if not rate:
        settings = fill_defaults(
            settings, len(train), rate=True, centering=True, decay=True, largest_eigenvalue=partial(largest_covariance_eigenvalue, train)
        )
    problem = parallel_fits.LearningProblem([train], settings)
    state = run_algorithm(parallel_fits.RBMLearning(problem))
    W, b, c = (np.asarray(part[0], dtype=np.float64) for part in (state.W, state.b, state.c))
    return Harmonium(W, b, c, problem.visible, problem.hidden)


def plain(h: Harmonium, own: np.ndarray) -> LogZEstimate:
    problem = annealed_importance.AnnealingProblem((h,), (own,), 100, 1000)
    return run_algorithm(annealed_importance.AnnealedImportanceSampling(problem))[0]


def cases(count: int, first: int, defaults: bool) -> Iterator[tuple[str, np.ndarray, int, str, float, int]]:
    known = {name: rows for name in FILES if (rows := rows_of(name)) is not None}
    for number in range(count):
        name = list(known)[number % len(known)]
        turn = number // len(known)
        hidden, algorithm, rate = (12, 16, 8, 20)[turn % 4], ("cd", "pcd")[turn % 2], (0.05, 0.02, 0.1, 0.01)[(turn + number) % 4]
        yield name, known[name], hidden, *(("rpcd", 0.0) if defaults else (algorithm, rate)), first + turn


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--defaults", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    began, lines, found = time.monotonic(), ["\t".join((*COLUMNS, "plain_error", "plain_se"))], []
    for name, rows, hidden, algorithm, rate, seed in cases(arguments.models, arguments.seed, arguments.defaults):
        if time.monotonic() - began > 60 * arguments.minutes:
            break
        train, held = rows[: len(rows) * 3 // 4], rows[len(rows) * 3 // 4 :]
        h = trained(train, hidden, algorithm, rate, seed)
        own, exact = h.visible.base_rate_parameters(train), exact_log_partition(h)
        (estimate,) = repeated_annealing.estimate_log_partitions(
            (h,), (own,), (held,), 100, repeated_annealing.MOST_TEMPERATURES, seed, map, None
        )
        error, half, once = estimate.log_partition - exact, STUDENT * estimate.standard_error, plain(h, own)
        found.append((abs(error) <= half, half, estimate.reliable, abs(once.log_partition - exact) <= 2 * once.standard_error))
        said = (
            name,
            hidden,
            algorithm,
            rate or "default",
            seed,
            f"{exact:.3f}",
            f"{error:+.4f}",
            f"{half:.4f}",
            f"{estimate.effective:.1f}",
        )
        said += (estimate.temperatures, int(estimate.reliable), f"{once.log_partition - exact:+.4f}", f"{once.standard_error:.4f}")
        lines.append("\t".join(map(str, said)))
        print(lines[-1], flush=True)
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")
    covered, half, reliable, once = (np.array(part) for part in zip(*found, strict=True))
    share, doubtful, width = covered[reliable].mean(), 1 - reliable.mean(), 2 * np.median(half[reliable])
    print(f"{len(found)} models; covered {share:.1%}; not reliable {doubtful:.1%}; median width {width:.3f} nats")
    print(f"plain annealing: 2 standard errors covered {once.mean():.1%}")
    return 0 if share >= 0.93 and doubtful <= 0.1 and width <= 0.5 else 1


if __name__ == "__main__":
    sys.exit(main())
