"""What propagation over a junction tree will take, before it is done: seconds by counts of its work, and the most numbers at once.

The seconds of a unit of each kind of work were fitted to 23 networks (`scripts/bench_dry_run.py`); a trial scales them to the machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from herdcli.markov.exact import table_arithmetic
from herdcli.markov.exact.message_storage import Among, separator_sizes
from herdcli.markov.exact.streamed_propagation import marginal_targets
from herdcli.markov.model.network import Network

if TYPE_CHECKING:
    from herdcli.markov.exact.junction_tree import JunctionTreeLayout

TRIAL = 1 << 18  # cells that are multiplied and summed
TRIED = 0.45e-9 * TRIAL  # seconds of that on the machine of the others:
TABLE = 3e-5  # of a factor or message
TIMES, SUM, NUMBER = 0.5e-9, 0.65e-9, 8e-9  # of a cell of a product and of a sum, of a number of a message
LOOK, RANK, ADD = (
    9e-9,
    18e-9,
    5e-9,
)  # of a cell of a possible column: to look it up in a table, in possible columns; to add it to a marginal
TOLD, FRESH = 3e-9, 15e-9  # of a number that a child is told, and more where their memory is new each time:
LARGE = 1 << 22  # numbers of a table that the C library gives back at once
OBJECT = 800  # bytes of a clique or factor beside its numbers
SHORT = 2.0  # seconds that a propagation may take that is tried
LOGS = 7.0  # times as long it takes in logarithms
RANGE = 700.0  # nats that a float64 holds


def relative_speed() -> float:
    """How many times as long as elsewhere a small table takes here, the best of some trials."""
    trial, found = np.ones((2, TRIAL // 2)), []
    for _ in range(5):
        started = time.process_time()
        table_arithmetic.sum_out(trial * trial, (0,))
        found.append(time.process_time() - started)
    return max(min(found[1:]), 0.1 * TRIED) / TRIED


def propagation_seconds(tree: JunctionTreeLayout, network: Network, among: Among, *, back: bool) -> float:
    """Of the pass towards the root, and with marginals of all factors if it goes back."""
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
        scopes = [tree.scopes[c][1:] for c in below[k]] + [[i for i in network.scope_of(a) if i in axes] for a in homes[k]]
        wanted = [tuple(sorted(axes[i] for i in some)) for some in scopes]
        passes = 2 if back else 1
        total += TABLE * len(wanted) * passes / 2
        columns = among[k]
        if columns is not None:
            ranked = sum(among[c] is not None for c in below[k])
            up = LOOK * (len(below[k]) - ranked + min(2, len(homes[k]))) + RANK * ranked
            more = up + ADD * (len(wanted) + 1) + RANK * ranked if back else 0.0
            total += columns.count * shape[0] * (up + more)
            continue
        if back:
            total += sum((TOLD + (FRESH if size > LARGE else 0.0)) * size for size in (whole[c] for c in below[k]))
        sums = 1 + (sum(target.source < 0 for target in marginal_targets(shape, [*wanted, (0,)])) if back else 0)
        total += cells * (TIMES * (passes * parts + passes - 1) + SUM * sums) + NUMBER * passes * (cells // shape[0])
    return total * relative_speed()


def fits_float64(network: Network) -> bool:
    """Are no two products of all factors, zeros left out, further apart than a float64 holds?"""
    logs = np.log(network.table, out=np.zeros(len(network.table)), where=network.table > 0)
    low = np.where(network.table > 0, logs, np.inf)
    high = np.where(network.table > 0, logs, -np.inf)
    first = network.table_offset[:-1]
    spans = np.maximum.reduceat(high, first) - np.minimum.reduceat(low, first) if len(first) else np.zeros(0)
    return float(spans[np.isfinite(spans)].sum()) < RANGE


def clique_children(tree: JunctionTreeLayout) -> list[list[int]]:
    """Of each clique those that send to it."""
    found: list[list[int]] = [[] for _ in tree.scopes]
    for k, p in enumerate(tree.parent):
        if p >= 0:
            found[p].append(k)
    return found


def working_numbers(largest: int) -> int:
    """Numbers of slabs of a clique of so many cells."""
    return min(3 * largest, 4 * table_arithmetic.SLAB)


def object_bytes(tree: JunctionTreeLayout, network: Network) -> int:
    """Bytes of cliques and factors beside their numbers."""
    return OBJECT * (len(tree.scopes) + network.factor_count)


def peak_bytes(tree: JunctionTreeLayout, network: Network, among: Among, *, logs: bool = False) -> int:
    """Bytes of both passes where all messages are kept in memory: they, and what the children of the clique at work are told."""
    sizes = separator_sizes(tree, network, among)
    whole: Sequence[int] = separator_sizes(tree, network)
    kept = most = sum(sizes)
    below = clique_children(tree)
    for k in range(len(sizes) - 1, -1, -1):
        if below[k]:
            told = sum({tuple(tree.scopes[c][1:]): whole[c] if among[k] is None else sizes[c] for c in below[k]}.values())
            looked = sum(whole[c] for c in below[k] if among[k] is None and among[c] is not None)
            most = max(most, kept + told + looked + (2 if logs else 1) * max(sizes[c] for c in below[k]))
        kept -= sizes[k]
    states: list[int] = network.cardinality.tolist()
    largest = max((math.prod(states[i] for i in scope) for scope in tree.scopes), default=0)
    return 8 * (most + working_numbers(largest)) + object_bytes(tree, network)
