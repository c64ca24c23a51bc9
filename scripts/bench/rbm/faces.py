"""How long scoring 1,000 probes against 1,000 gallery images takes, with 100 hidden units of 100 replicas.

    OPENBLAS_NUM_THREADS=1 python scripts bench/rbm/faces

The images have the 1,768 pixels of Teh (2003), sec. 3.4, and the weights the size of those of a finished fit.  CPU seconds of one
thread, the least of five runs.

totals      the 2 × 100 inputs of every image, 2,000 × 1,768 × 200 multiplications
(herdcli.rbm.pair_similarity.compute_hidden_input_totals).
similarity  F of all million pairs from them (herdcli.rbm.pair_similarity.pair_similarity): 2 × 10^8 terms log(1 + e^a) as products of eight
            factors 1 + e^x e^y before each logarithm.
logaddexp   the same by one logaddexp for each term, on a tenth of the probes and multiplied by ten.

Measured on one core of an AMD EPYC (Zen 4): totals 0.04 s, similarity 0.23 s, logaddexp 4.0 s.
Exit code 1 if totals and similarity together take more than 1 s, or the two ways differ.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from herdcli.rbm import pair_similarity, pairs

IMAGES, PIXELS, BAR, RUNS = 1000, 1768, 1.0, 5


def seconds(work: Callable[[], object], runs: int = RUNS) -> float:
    """Least CPU time of several runs."""
    found = []
    for _ in range(runs):
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return min(found)


def main() -> int:
    random = np.random.default_rng(0)
    W = (random.standard_normal((2, PIXELS, pairs.DEFAULTS.hidden)) * 0.004).astype(np.float32)
    zeros = np.zeros(PIXELS, dtype=np.float32)
    model = pairs.PairRBM(
        W1=W[0],
        W2=W[1],
        b1=zeros,
        b2=zeros,
        c=zeros[: pairs.DEFAULTS.hidden],
        settings=pairs.DEFAULTS,
        pairs=1000,
        trace=np.zeros(1),
        split=np.zeros(1, dtype=np.uint8),
    )
    X = random.random((2, IMAGES, PIXELS), dtype=np.float32) * 10
    taken = {"totals": seconds(lambda: [pair_similarity.compute_hidden_input_totals(model, part) for part in X])}
    probes, gallery = (pair_similarity.compute_hidden_input_totals(model, part) for part in X)
    taken["similarity"] = seconds(lambda: pair_similarity.pair_similarity(model, probes, gallery))
    few = pair_similarity.HiddenInputTotals(probes.first[: IMAGES // 10], probes.second[: IMAGES // 10])

    def plainly() -> np.ndarray:
        def summed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return 100 * np.array([np.logaddexp(0.0, row + b).sum(axis=1) for row in a])

        own = [100 * np.logaddexp(0.0, part.first + part.second).sum(axis=1) for part in (few, gallery)]
        return summed(few.first, gallery.second) + summed(few.second, gallery.first) - own[0][:, None] - own[1]

    taken["logaddexp"] = 10 * seconds(plainly, 1)
    for name, value in taken.items():
        print(f"{name:<12} {value:.3f} s")
    apart = np.abs(plainly() - pair_similarity.pair_similarity(model, few, gallery)).max()
    return int(taken["totals"] + taken["similarity"] > BAR or apart > 1e-6)


if __name__ == "__main__":
    sys.exit(main())
