"""Forecast of the cost of propagation over a junction tree: seconds, from counts of its operations, and the largest memory.

The seconds of each kind of operation were fitted to 23 networks (`scripts/bench/program/dry_run.py`).  A trial scales them to the machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from herdcli.markov.exact import table_arithmetic
from herdcli.markov.exact.message_storage import Among, separator_sizes
from herdcli.markov.exact.streamed_propagation import plan_marginal_targets
from herdcli.markov.model.network import Network

if TYPE_CHECKING:
    from herdcli.markov.exact.junction_tree import JunctionTreeLayout

TRIAL = 1 << 18  # number of cells of the trial, which are multiplied and summed
TRIED = 0.45e-9 * TRIAL  # seconds of the trial on the reference machine, on which the seconds below were measured too
TABLE = 3e-5  # seconds per factor or message
TIMES, SUM, NUMBER = 0.5e-9, 0.65e-9, 8e-9  # seconds per cell of a product, per cell of a sum, per number of a message
LOOK, RANK, ADD = (
    9e-9,
    18e-9,
    5e-9,
)  # seconds per cell of a possible column: lookup in a table, lookup in possible columns, addition to a marginal
TOLD, FRESH = 3e-9, 15e-9  # seconds per number of a message to a child, and the extra seconds if its memory is newly allocated
LARGE = 1 << 22  # size of a table from which the C library returns freed memory at once, so that memory is newly allocated
OBJECT = 800  # bytes of a clique or factor in addition to its numbers
SHORT = 2.0  # seconds of the longest propagation that is run as a trial
LOGS = 7.0  # slowdown of propagation in logarithms
RANGE = 700.0  # range of float64 in nats


def measure_relative_time() -> float:
    """Return the time of a small table here relative to the reference machine, the best of several trials."""
    trial, found = np.ones((2, TRIAL // 2)), []
    for _ in range(5):
        started = time.process_time()
        table_arithmetic.sum_over_axes(trial * trial, (0,))
        found.append(time.process_time() - started)
    return max(min(found[1:]), 0.1 * TRIED) / TRIED


def estimate_propagation_seconds(tree: JunctionTreeLayout, network: Network, possible_columns: Among, *, with_marginals: bool) -> float:
    """Estimate the seconds of the pass towards the root; with `with_marginals`, also of the pass back, with marginals of all factors."""
    states: list[int] = network.cardinality.tolist()
    below, whole = clique_children(tree), separator_sizes(tree, network)
    homes: list[list[int]] = [[] for _ in tree.scopes]
    for a, k in enumerate(tree.home):
        homes[k].append(a)
    total = 0.0
    for k, scope in enumerate(tree.scopes):
        shape = tuple(states[i] for i in scope)
        cells, parts = math.prod(shape), len(below[k]) + min(2, len(homes[k]))
        axes = {i: axis for axis, i in enumerate(scope)}
        scopes = [tree.scopes[c][1:] for c in below[k]] + [[i for i in network.factor_scope(a) if i in axes] for a in homes[k]]
        wanted = [tuple(sorted(axes[i] for i in some)) for some in scopes]
        passes = 2 if with_marginals else 1
        total += TABLE * len(wanted) * passes / 2
        columns = possible_columns[k]
        if columns is not None:
            ranked = sum(possible_columns[c] is not None for c in below[k])
            up = LOOK * (len(below[k]) - ranked + min(2, len(homes[k]))) + RANK * ranked
            more = up + ADD * (len(wanted) + 1) + RANK * ranked if with_marginals else 0.0
            total += columns.count * shape[0] * (up + more)
            continue
        if with_marginals:
            total += sum((TOLD + (FRESH if size > LARGE else 0.0)) * size for size in (whole[c] for c in below[k]))
        sums = 1 + (sum(target.source < 0 for target in plan_marginal_targets(shape, [*wanted, (0,)])) if with_marginals else 0)
        total += cells * (TIMES * (passes * parts + passes - 1) + SUM * sums) + NUMBER * passes * (cells // shape[0])
    return total * measure_relative_time()


def products_fit_float64(network: Network) -> bool:
    """Return True if no two nonzero products of all factors differ by more than the range of float64."""
    logs = np.log(network.table, out=np.zeros(len(network.table)), where=network.table > 0)
    low = np.where(network.table > 0, logs, np.inf)
    high = np.where(network.table > 0, logs, -np.inf)
    first = network.table_offset[:-1]
    spans = np.maximum.reduceat(high, first) - np.minimum.reduceat(low, first) if len(first) else np.zeros(0)
    return float(spans[np.isfinite(spans)].sum()) < RANGE


def clique_children(tree: JunctionTreeLayout) -> list[list[int]]:
    """Return the children of each clique, which send messages to it."""
    found: list[list[int]] = [[] for _ in tree.scopes]
    for k, p in enumerate(tree.parent):
        if p >= 0:
            found[p].append(k)
    return found


def working_array_size(largest: int) -> int:
    """Return how many numbers the slabs of a clique with `largest` cells need."""
    return min(3 * largest, 4 * table_arithmetic.SLAB)


def estimate_object_bytes(tree: JunctionTreeLayout, network: Network) -> int:
    """Return the bytes of cliques and factors in addition to their numbers."""
    return OBJECT * (len(tree.scopes) + network.factor_count)


def estimate_peak_bytes(tree: JunctionTreeLayout, network: Network, possible_columns: Among, *, logs: bool = False) -> int:
    """Return the peak memory of both passes with all messages in memory, in bytes.

    It includes all messages, and the messages to the children of one clique.
    """
    sizes = separator_sizes(tree, network, possible_columns)
    whole: Sequence[int] = separator_sizes(tree, network)
    kept = most = sum(sizes)
    below = clique_children(tree)
    for k in range(len(sizes) - 1, -1, -1):
        if below[k]:
            told = sum({tuple(tree.scopes[c][1:]): whole[c] if possible_columns[k] is None else sizes[c] for c in below[k]}.values())
            looked = sum(whole[c] for c in below[k] if possible_columns[k] is None and possible_columns[c] is not None)
            most = max(most, kept + told + looked + (2 if logs else 1) * max(sizes[c] for c in below[k]))
        kept -= sizes[k]
    states: list[int] = network.cardinality.tolist()
    largest = max((math.prod(states[i] for i in scope) for scope in tree.scopes), default=0)
    return 8 * (most + working_array_size(largest)) + estimate_object_bytes(tree, network)
