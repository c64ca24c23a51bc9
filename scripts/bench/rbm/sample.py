"""Rows drawn independently from harmoniums against Gibbs chains of 1,000 sweeps, in CPU time: 100 rows of models with random weights.

    python scripts bench/rbm/sample

Times are CPU seconds, the least of --runs; ratio is independent rows over chains.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from herdcli.algorithm import Algorithm, run_algorithm
from herdcli.rbm.model import Harmonium
from herdcli.rbm.sampling.gibbs_samples import BlockGibbsSampling, SamplingProblem
from herdcli.rbm.sampling.independent_sampling import IndependentSampling, plan_enumerations
from herdcli.rbm.units import unit_family

MODELS = (
    *(("binary", D, K) for D in (64, 784) for K in (16, 20, 22)),
    ("binary", 64, 25),
    *(("gaussian", D, K) for D in (64, 784) for K in (16, 20)),
    *(("softmax:4", 64, K) for K in (16, 20)),
)


def seconds(algorithm: Algorithm[Any, Any], runs: int) -> float:
    """The least CPU time of so many runs."""
    found = []
    for _ in range(runs):
        began = time.process_time()
        run_algorithm(algorithm)
        found.append(time.process_time() - began)
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    print("visible\thidden\tindependent_s\tchains_s\tratio")
    for name, D, K in MODELS:
        random = np.random.default_rng(0)
        h = Harmonium(random.normal(0, 0.05, (D, K)), np.zeros(D), np.zeros(K), unit_family(name), unit_family("binary"))
        problem = SamplingProblem((h,), 100)
        parts = plan_enumerations(problem)
        chains = seconds(BlockGibbsSampling(problem), arguments.runs)
        if parts is None:
            print(f"{D} {name}\t{K}\t-\t{chains:.2f}\t-")
            continue
        own = seconds(IndependentSampling(problem, parts), arguments.runs)
        print(f"{D} {name}\t{K}\t{own:.2f}\t{chains:.2f}\t{own / chains:.2f}", flush=True)


if __name__ == "__main__":
    main()
