"""Log tables over variables, and bucket elimination by sums and maxima, which removes variables from the product one after the other.

Axes of a table are in elimination order, so that the eliminated variable is the first axis of its tables, and products
only need new axes of length 1.  Source: Dechter (1999), bucket elimination.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from herdcli.errors import NegativeResult
from herdcli.markov.exact.junction_tree import log_sum_exp
from herdcli.markov.model.network import Network, drop_single_state_variables
from herdcli.markov.model.possible_states import IMPOSSIBLE
from herdcli.records import dataclass
from herdcli.schema import Array

ROUNDING = 4 * 2.0**-52  # bound of the rounding error, relative to the sum of the largest logarithms of all tables


@dataclass(frozen=True)
class LogTable:
    """A log table with one axis for each variable of the scope, in elimination order."""

    scope: tuple[int, ...]
    logs: Array


@dataclass(frozen=True)
class BestStateTable:
    """The best state of a maximised variable, with one axis for each other variable in its scope; these are eliminated after it."""

    variable: int
    scope: tuple[int, ...]
    state: Array


@dataclass(frozen=True)
class EliminationResult:
    """The result of an elimination: tables over the remaining variables, and the choices of maximised variables in elimination order."""

    rest: list[LogTable]
    choices: list[BestStateTable]

    def value(self) -> float:
        """Return the logarithm of the sum or maximum, if no variable remains.  Raises NegativeResult if it is log 0."""
        found = float(sum(float(table.logs) for table in self.rest))
        if found == -math.inf:
            raise NegativeResult(IMPOSSIBLE)
        return found

    def states(self) -> dict[int, int]:
        """Return the best state of every maximised variable."""
        x: dict[int, int] = {}
        for choice in reversed(self.choices):
            # Its table is the max over x_i with all earlier variables at their best, as a function of later variables; in reverse order,
            # all of these are known (Dechter 1999, the forward phase).
            x[choice.variable] = int(choice.state[tuple(x[j] for j in choice.scope)])
        return x


def rounding_error_bound(logs: Iterable[Array]) -> float:
    """Return the possible rounding error of a sum of logarithms, which is added to upper bounds so that they stay valid."""
    return ROUNDING * (1.0 + sum(float(np.abs(table).max(initial=0.0, where=np.isfinite(table))) for table in logs))


def elimination_positions(network: Network, order: Sequence[int]) -> list[int]:
    """Return the position of each variable in an elimination order; remaining variables come after it, by number."""
    place = np.full(network.count, -1, dtype=np.int64)
    place[list(order)] = np.arange(len(order))
    left = np.flatnonzero(place < 0)
    place[left] = len(order) + np.arange(len(left))
    found: list[int] = place.tolist()
    return found


def factor_log_tables(network: Network, positions: Sequence[int]) -> list[LogTable]:
    """Return the logarithm of every factor, with axes by position; variables of one state are left out."""
    made = []
    for factor in network.factors():
        scope, values = drop_single_state_variables(network, factor)
        axes = sorted(range(len(scope)), key=lambda axis: positions[scope[axis]])
        with np.errstate(divide="ignore"):
            made.append(LogTable(tuple(scope[axis] for axis in axes), np.log(values).transpose(axes)))
    return made


def multiply_tables(
    parts: Iterable[LogTable], positions: Sequence[int], states: Sequence[int], extra_variables: Iterable[int] = ()
) -> LogTable:
    """Return the sum of log tables over all their variables, and over those in `extra_variables`."""
    parts = list(parts)
    scope = tuple(sorted({*extra_variables, *(i for part in parts for i in part.scope)}, key=positions.__getitem__))
    total = np.zeros([states[i] for i in scope])
    for part in parts:
        total += broadcast_table(part, scope, states)
    return LogTable(scope, total)


def broadcast_table(table: LogTable, scope: Sequence[int], states: Sequence[int]) -> Array:
    """Reshape a table to the axes of a scope that contains its own."""
    inside = set(table.scope)
    return table.logs.reshape([states[i] if i in inside else 1 for i in scope])


def eliminate_variables(network: Network, order: Sequence[int], maximised: frozenset[int] = frozenset()) -> EliminationResult:
    """Sum out, or maximise over, the variables of an order.  Maxima do not commute with sums: maximised variables must come last."""
    place, states = elimination_positions(network, order), network.cardinality.tolist()
    buckets: list[list[LogTable]] = [[] for _ in order]
    found = EliminationResult([], [])

    def put(table: LogTable) -> None:
        first = place[table.scope[0]] if table.scope else len(order)
        (buckets[first] if first < len(order) else found.rest).append(table)

    for table in factor_log_tables(network, place):
        put(table)
    for k, i in enumerate(order):
        whole = multiply_tables(buckets[k], place, states, [i])
        buckets[k] = []
        rest = whole.scope[1:]
        if i in maximised:
            found.choices.append(BestStateTable(i, rest, argmax_first_axis(whole.logs)))
            put(LogTable(rest, whole.logs.max(axis=0)))
        else:
            put(LogTable(rest, log_sum_exp(whole.logs, (0,))))
    return found


def argmax_first_axis(logs: Array) -> Array:
    """Return the position of the maximum along the first axis, in the smallest integer type."""
    found: Array = logs.argmax(axis=0)
    return found.astype(np.min_scalar_type(max(1, logs.shape[0] - 1)))


def state_log_value(network: Network, x: Sequence[int]) -> float:
    """Compute log Π f_a(x) of one state; variables fixed by evidence have state 0."""
    total = 0.0
    with np.errstate(divide="ignore"):
        for scope, table in network.factors():
            total += float(np.log(table[tuple(x[i] for i in scope)]))
    return total
