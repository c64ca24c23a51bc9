"""Baum–Welch beside hmmlearn: one iteration over many sequences on one thread, as a ratio of times in one run.

    python scripts bench/tables/hmm [--states 10] [--sequences 1000] [--steps 1000] [--repeats 3] [--slow-share 0.02]

Times are of the processor, the least of the repeats; hmmlearn's `log` implementation is timed on a share of the sequences, since its time
is proportional to their number.  hmmlearn is a benchmark extra.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from herdcli.em import driver
from herdcli.em.sequence import hmm, sequences


def rows(name: str, states: int, lengths: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Rows of a chain that likes to stay: three columns of Gaussians, or one of twenty symbols."""
    n = int(lengths.sum())
    jumps = np.flatnonzero(random.random(n) < 0.1)
    state = np.repeat(random.integers(states, size=len(jumps) + 1), np.diff(np.concatenate([[0], jumps, [n]])))
    if name == "categorical":
        return np.asarray((2 * state + random.integers(4, size=n)) % 20, dtype=np.float64)[:, None]
    return np.asarray(random.normal(size=(states, 3))[state] * 3 + random.normal(size=(n, 3)))


def least(work: Callable[[], Any], repeats: int) -> float:
    """Seconds of the processor."""
    found = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def rival(name: str, covariance: str, implementation: str, p: dict[str, Any], iterations: int = 1) -> Any:
    """hmmlearn's model with these parameters."""
    from hmmlearn.hmm import CategoricalHMM, GaussianHMM

    shared = {"n_components": len(p["initial"]), "n_iter": iterations, "tol": -1e9, "init_params": "", "implementation": implementation}
    if name == "categorical":
        other = CategoricalHMM(**shared)
        other.emissionprob_ = p["table"][:, 0]
    else:
        without = {"min_covar": 0, "covars_prior": 0, "covars_weight": 0, "means_weight": 0}
        other = GaussianHMM(covariance_type="diag" if covariance == "diagonal" else "full", **without, **shared)
        given = p["covariance"][:, 0]
        other.covars_ = np.diagonal(given, axis1=1, axis2=2).copy() if covariance == "diagonal" else given
        other.means_ = p["mean"][:, 0]
    other.startprob_, other.transmat_ = p["initial"], p["transition"]
    return other


def compare(name: str, covariance: str, options: argparse.Namespace) -> None:
    """One line: our seconds for an iteration, and how many times as long hmmlearn takes."""
    random = np.random.default_rng(0)
    lengths = np.full(options.sequences, options.steps)
    X = rows(name, options.states, lengths, random)
    found = sequences.group_rows_into_sequences(X, np.repeat(np.arange(options.sequences), lengths))
    family, moments = hmm.emission_family(name, found, covariance=covariance, floor=0.0)
    model = hmm.prepare_hmm(found, options.states, family, moments)
    p = model.start(0)

    def own() -> float:
        sums = driver.SumTree()
        for block in map(model.expect(p), sequences.SequenceBlocks(found).take(0, sequences.SequenceBlocks(found).count)):
            sums.add_block_sums(block)
        whole = model.complete_statistics(p, sums.total_sums())
        model.maximise(p, whole)
        return float(whole["log_likelihood"][0])

    given = X if name != "categorical" else X.astype(int)
    few = max(1, int(options.slow_share * options.sequences))
    reached = own()
    times = {"herd": least(own, options.repeats)}
    for way, count in (("scaling", options.sequences), ("log", few)):
        part, ends = given[: count * options.steps], lengths[:count]
        fits: list[Any] = []

        def other(part: np.ndarray = part, ends: np.ndarray = ends, way: str = way, fits: list[Any] = fits) -> None:
            fits.append(rival(name, covariance, way, p).fit(part, ends))

        times[way] = least(other, options.repeats) * options.sequences / count
        if way == "scaling":
            wrong = abs(fits[0].monitor_.history[0] - reached) / abs(reached)
            assert wrong < 1e-10, f"log-likelihoods differ by {wrong:.2g}"
    label = name if name == "categorical" else f"{name}, {covariance}"
    ratios = {way: times[way] / times["herd"] for way in ("scaling", "log")}
    print(f"{label:24s} herd {times['herd']:6.2f} s   hmmlearn scaling {ratios['scaling']:5.2f} ×   log {ratios['log']:6.1f} ×")


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for option, default in (("states", 10), ("sequences", 1000), ("steps", 1000), ("repeats", 3)):
        parser.add_argument(f"--{option}", type=int, default=default)
    parser.add_argument("--slow-share", type=float, default=0.02, help="of the sequences, that `log` is timed on")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"one iteration: {options.states} states, {options.sequences} sequences of {options.steps} steps, one thread")
    for name, covariance in (("categorical", "full"), ("gaussian", "diagonal"), ("gaussian", "full")):
        compare(name, covariance, options)


if __name__ == "__main__":
    main()
