"""Whether the intervals of RBMs with gaussian visible units hold the truth: models whose log Z is known by their parts.

    python scripts checks/gaussian_intervals --models 60 --seed 1000 > results/gaussian-intervals.tsv

A model is three or four independent parts of real columns and binary hidden units, 24 to 30 columns and 21 to 35 hidden units in all, mixed
by a permutation of both.  log Z of each part is summed state by state.  `herd eval` is asked for the log-likelihood of 200 rows that the
parts themselves would draw; what it says, with its interval and whether it is called reliable, stands beside the truth.  Nothing was tuned
on these models.  With --likelihood ais log Z is annealed once, with --from and --to the numbers of hidden units are others.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.metrics.partition_functions import log_partitions
from herdcli.numerics import exact_arithmetic
from herdcli.rbm.likelihood.enumeration import iterate_hidden_states
from herdcli.rbm.likelihood.log_z_estimates import STUDENT
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units import unit_family

COLUMNS = (24, 30)


def part(random: np.random.Generator, columns: int, hidden: int) -> Harmonium:
    """One part, whose hidden units pull the columns by about one standard deviation each."""
    W = random.normal(size=(columns, hidden)) * random.uniform(0.3, 1.2)
    c = random.normal(size=hidden) - 0.5 * np.square(W).sum(axis=0)  # about half of the units are on
    return Harmonium(W, random.normal(size=columns), c, unit_family("gaussian"), unit_family("binary"))


def shares(random: np.random.Generator, total: int, count: int) -> np.ndarray:
    """Whole numbers of about the same size with a sum."""
    found = np.full(count, total // count)
    found[: total % count] += 1
    return random.permutation(found)


def model(seed: int, least: int, most: int) -> tuple[Harmonium, float]:
    """The model of a seed, and its log Z."""
    random = np.random.default_rng(seed)
    D, K, count = int(random.integers(COLUMNS[0], COLUMNS[1] + 1)), int(random.integers(least, most + 1)), int(random.integers(3, 5))
    parts = [part(random, int(d), int(k)) for d, k in zip(shares(random, D, count), shares(random, K, count), strict=True)]
    W, rows, columns = np.zeros((D, K)), 0, 0
    for each in parts:
        d, k = each.W.shape
        W[rows : rows + d, columns : columns + k] = each.W
        rows, columns = rows + d, columns + k
    left, right = random.permutation(D), random.permutation(K)
    b, c = np.concatenate([each.b for each in parts]), np.concatenate([each.c for each in parts])
    truth = sum(
        float(exact_arithmetic.log_sum_exp(np.concatenate([states.log_weight for states in iterate_hidden_states(each)]))) for each in parts
    )
    return Harmonium(W[left][:, right], b[left], c[right], unit_family("gaussian"), unit_family("binary")), truth


def rows_of(h: Harmonium, seed: int) -> np.ndarray:
    """200 rows of a Gibbs chain, from which annealing may look for modes."""
    random = np.random.default_rng(seed)
    v = random.normal(size=(200, len(h.b)))
    for _ in range(500):
        on = random.random((200, len(h.c))) < 1 / (1 + np.exp(-(v @ h.W + h.c)))
        v = on @ h.W.T + h.b + random.normal(size=v.shape)
    return v


def main() -> None:
    """Print a line a model, and what all of them come to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--likelihood", default="auto")
    parser.add_argument("--from", dest="least", type=int, default=21)
    parser.add_argument("--to", dest="most", type=int, default=35)
    asked = parser.parse_args()
    print("seed", "columns", "hidden", "log_z", "told", "error", "reliable", "inside", "seconds", sep="\t")
    inside, reliable = 0, 0
    with threadpool_limits(1, user_api="blas"):
        for seed in range(asked.seed, asked.seed + asked.models):
            h, truth = model(seed, asked.least, asked.most)
            known, begun = rows_of(h, seed), time.process_time()
            settings = EvaluationSettings(likelihood=asked.likelihood, seed=seed)
            found = log_partitions({0: h}, {0: h.visible.base_rate_parameters(known)}, {0: known}, settings, map, None)[""][0]
            used = time.process_time() - begun
            width = STUDENT * found.standard_error + 1e-9 * abs(truth)
            holds = abs(found.log_partition - truth) <= width
            inside, reliable = inside + (holds and found.reliable), reliable + found.reliable
            D, K = h.W.shape
            told = (f"{truth:.4f}", f"{found.log_partition:.4f}", f"{found.standard_error:.4f}")
            print(seed, D, K, *told, int(found.reliable), int(holds), f"{used:.2f}", sep="\t", flush=True)
    print(f"# {inside} of {reliable} called reliable hold the truth, {asked.models - reliable} of {asked.models} are called not reliable")


if __name__ == "__main__":
    main()
