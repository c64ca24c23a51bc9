"""Mini-buckets: elimination with tables of bounded size, which gives upper bounds of sums and maxima.

If the product over a variable would be too large, its tables are partitioned into several small groups (mini-buckets), each eliminated
separately.  Hölder's inequality bounds the sum, Σ_x Π_r f_r ≤ Π_r (Σ_x f_r^{1/w_r})^{w_r} with Σ w_r = 1, and the maximum of a product
is at most the product of maxima (w_r → 0).  Before that the mini-buckets' marginals over the variable are matched, which leaves
their product unchanged and lowers the bound.  Source: Dechter & Rish (2003); Liu & Ihler (2011), eqs 6 and 10, uniform weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from herdcli.markov.exact.junction_tree import log_sum_exp
from herdcli.markov.model.network import Network
from herdcli.markov.query.log_tables import (
    EliminationResult,
    LogTable,
    argmax_first_axis,
    elimination_positions,
    factor_log_tables,
    multiply_tables,
    rounding_error_bound,
)
from herdcli.records import dataclass
from herdcli.schema import Array

CELLS = 1 << 12  # default size of a mini-bucket


@dataclass(frozen=True)
class MiniBucketBound:
    """An upper bound of log Σ max Π f, and the states decoded from the maximised variables."""

    bound: float
    states: dict[int, int]
    exact: bool  # True if no bucket was partitioned


@dataclass(frozen=True)
class MiniBuckets:
    """An upper bound, the mini-buckets of each maximised variable in elimination order, and whether no bucket was partitioned."""

    bound: float
    parts: list[tuple[int, list[LogTable]]]
    whole: bool


def compute_mini_bucket_bound(
    network: Network, order: Sequence[int], maximised: frozenset[int] = frozenset(), cells: int = CELLS
) -> MiniBucketBound:
    """Eliminate every variable in order, maximised ones last, with tables of at most `cells` as far as the factors allow.

    The bound is −∞ if the zeros of the factors show that no state is possible.
    """
    given = factor_log_tables(network, elimination_positions(network, order))
    found = eliminate_log_tables(network, order, given, maximised, cells)
    return MiniBucketBound(found.bound + rounding_error_bound(table.logs for table in given), _decode_states(found.parts), found.whole)


def eliminate_log_tables(
    network: Network, order: Sequence[int], tables: Sequence[LogTable], maximised: frozenset[int], cells: int
) -> MiniBuckets:
    """Eliminate log tables with axes by position in the order; return also the mini-buckets of the maximised variables."""
    place, states = elimination_positions(network, order), network.cardinality.tolist()
    buckets: list[list[LogTable]] = [[] for _ in order]
    kept: list[tuple[int, list[LogTable]]] = []
    found = EliminationResult([], [])
    whole = True
    for table in tables:
        (buckets[place[table.scope[0]]] if table.scope else found.rest).append(table)
    for k, i in enumerate(order):
        parts = [multiply_tables(part, place, states, [i]) for part in partition_bucket(buckets[k], states, cells)] or [
            LogTable((i,), np.zeros(states[i]))
        ]
        whole = whole and len(parts) == 1
        parts = match_moments(parts, summed=i not in maximised)
        if i in maximised:
            kept.append((i, parts))
        for part in parts:
            logs = part.logs.max(axis=0) if i in maximised else log_power_sum(part.logs, len(parts))
            table = LogTable(part.scope[1:], logs)
            (buckets[place[table.scope[0]]] if table.scope else found.rest).append(table)
        buckets[k] = []
    return MiniBuckets(float(sum(float(table.logs) for table in found.rest)), kept, whole)


def count_mini_bucket_cells(network: Network, order: Sequence[int], tables: Sequence[LogTable], cells: int) -> int:
    """Return the number of cells of all mini-buckets, computed from their scopes only."""
    place, states = elimination_positions(network, order), network.cardinality.tolist()
    buckets: list[list[LogTable]] = [[] for _ in order]
    count = 0

    def put(scope: tuple[int, ...]) -> None:
        if scope:
            buckets[place[scope[0]]].append(LogTable(scope, np.broadcast_to(0.0, [states[i] for i in scope])))

    for table in tables:
        put(table.scope)
    for k, i in enumerate(order):
        for part in partition_bucket(buckets[k], states, cells):
            scope = sorted({i, *(j for table in part for j in table.scope)}, key=place.__getitem__)
            count += math.prod(states[j] for j in scope)
            put(tuple(scope[1:]))
        buckets[k] = []
    return count


def partition_bucket(tables: Sequence[LogTable], states: Sequence[int], cells: int) -> list[list[LogTable]]:
    """Group tables so that each product has at most `cells` (or is one table); the widest is placed first, each where it fits best."""
    groups: list[tuple[set[int], list[LogTable]]] = []
    for table in sorted(tables, key=lambda table: -table.logs.size):
        fitting = [
            (math.prod(states[j] for j in scope | set(table.scope)), number)
            for number, (scope, _) in enumerate(groups)
            if math.prod(states[j] for j in scope | set(table.scope)) <= cells or set(table.scope) <= scope
        ]
        if fitting:
            scope, members = groups[min(fitting)[1]]
            scope.update(table.scope)
            members.append(table)
        else:
            groups.append((set(table.scope), [table]))
    return [members for _, members in groups]


def match_moments(parts: list[LogTable], *, summed: bool) -> list[LogTable]:
    """Match the marginals of mini-buckets over their common first variable; their product is unchanged."""
    if len(parts) == 1:
        return parts
    axes = [tuple(range(1, part.logs.ndim)) for part in parts]
    # The derivative of Σ_r w_r log Σ f_r^{1/w_r} with respect to a shift s_r(x_i) of log f_r is the marginal p_r(x_i) ∝ Σ f_r^{1/w_r}.
    # Under Σ s_r = 0 the minimum has equal p_r.  One step s_r = w_r (mean of log p − log p_r) reaches it with the others fixed (Liu & Ihler
    # 2011).
    rows = [
        log_sum_exp(part.logs * len(parts), axis) if summed else part.logs.max(axis=axis) for part, axis in zip(parts, axes, strict=True)
    ]
    with np.errstate(invalid="ignore"):
        mean = sum(rows) / len(parts)
        shifts = [(mean - row) / (len(parts) if summed else 1) for row in rows]
    shifts = [np.where(np.isfinite(shift), shift, 0.0) for shift in shifts]
    lost = ~np.isfinite(mean)
    for part, shift in zip(parts, shifts, strict=True):
        shift[lost] = 0.0
        part.logs[...] += shift.reshape(-1, *[1] * (part.logs.ndim - 1))
    return parts


def log_power_sum(logs: Array, count: int) -> Array:
    """Compute w log Σ exp(logs/w) over the first axis, w = 1/count."""
    return log_sum_exp(logs * count, (0,)) / count


def _decode_states(buckets_by_variable: list[tuple[int, list[LogTable]]]) -> dict[int, int]:
    """Return the best state of each variable given those eliminated later, according to its mini-buckets."""
    x: dict[int, int] = {}
    for i, parts in reversed(buckets_by_variable):
        total = np.zeros(parts[0].logs.shape[0])
        for part in parts:
            at: tuple[slice | int, ...] = (slice(None), *(x[j] for j in part.scope[1:]))
            total += part.logs[at]
        x[i] = int(argmax_first_axis(total))
    return x
