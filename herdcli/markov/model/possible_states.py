"""The states that the zeros of the factors leave possible, by generalised arc consistency.

A state of a variable is kept if every factor over the variable has a cell above zero that agrees with it and with the
kept states of the factor's other variables.  Removed states have probability zero.  Kept states may have probability zero too,
because factors are considered one at a time; on trees they do not.  Source: Mackworth (1977), AC-3.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from herdcli.errors import NegativeResult
from herdcli.markov.model.network import ConditionedNetwork, Factor, Network, build_network
from herdcli.records import dataclass
from herdcli.schema import Array

IMPOSSIBLE = "every joint state has probability 0: the evidence and the zeros of the factors contradict each other"


def find_possible_states(network: Network) -> list[Array]:
    """Return the kept states of each variable, (card,) bool.  Raises NegativeResult with the variable's name if none is left."""
    kept = [np.ones(count, dtype=bool) for count in network.cardinality.tolist()]
    factors = [(scope, table > 0) for scope, table in network.factors()]
    holding: list[list[int]] = [[] for _ in kept]
    for a, (scope, _) in enumerate(factors):
        for i in scope:
            holding[i].append(a)
    queue = deque(a for a, (_, possible) in enumerate(factors) if not possible.all())
    waiting = [not possible.all() for _, possible in factors]
    while queue:
        a = queue.popleft()
        waiting[a] = False
        scope, possible = factors[a]
        possible = restrict_to_possible_cells(possible, [kept[i] for i in scope])
        for axis, i in enumerate(scope):
            stays = kept[i] & possible.any(axis=tuple(k for k in range(possible.ndim) if k != axis))
            if not stays.any():
                raise NegativeResult(
                    f"every joint state has probability 0: zeros of the factors, or the evidence, exclude all states of {network.name(i)}"
                )
            if stays.all() or np.array_equal(stays, kept[i]):
                continue
            kept[i] = stays
            for b in holding[i]:
                if b != a and not waiting[b]:
                    waiting[b] = True
                    queue.append(b)
    return kept


def restrict_to_possible_cells(possible: Array, possible_states_by_axis: list[Array]) -> Array:
    """Restrict a table of booleans to the cells that agree with the kept states of each axis."""
    for axis, stays in enumerate(possible_states_by_axis):
        if not stays.all():
            possible = possible & stays.reshape([-1 if k == axis else 1 for k in range(possible.ndim)])
    return possible


@dataclass(frozen=True)
class TrimmedNetwork:
    """A network without the states that its zeros make impossible; a variable with one remaining state is a constant.

    kept  for each variable the kept states, None if all states of all variables are kept.
    """

    network: Network
    kept: list[Array] | None

    def nodes(self, marginals: list[Array]) -> list[Array]:
        """Expand marginals of variables to all their states."""
        if self.kept is None:
            return marginals
        made = [np.zeros(len(stays)) for stays in self.kept]
        for whole, stays, p in zip(made, self.kept, marginals, strict=True):
            whole[stays] = p
        return made

    def factors(self, marginals: list[Factor]) -> list[Factor]:
        """Expand marginals of factors to all states."""
        if self.kept is None:
            return marginals
        made = []
        for scope, p in marginals:
            whole = np.zeros([len(self.kept[i]) for i in scope])
            whole[np.ix_(*(self.kept[i] for i in scope))] = p
            made.append((scope, whole))
        return made


def remove_impossible_states(network: Network) -> TrimmedNetwork:
    """Return the network restricted to the states that `find_possible_states` keeps.  Raises NegativeResult if a variable has none."""
    if network.table.all():
        return TrimmedNetwork(network, None)
    kept = find_possible_states(network)
    if all(stays.all() for stays in kept):
        return TrimmedNetwork(network, None)
    factors = [(scope, table[np.ix_(*(kept[i] for i in scope))] if scope else table) for scope, table in network.factors()]
    flat = build_network([int(stays.sum()) for stays in kept], factors)
    made = ConditionedNetwork(
        flat.cardinality, flat.scope, flat.scope_offset, flat.table, flat.table_offset,
        names=network.names, cardinality_before=_cardinality_without_evidence(network, flat.cardinality),
    )  # fmt: skip
    return TrimmedNetwork(made, kept)


def _cardinality_without_evidence(network: Network, now: Array) -> Array:
    """Return the number of kept states of each variable without the evidence, which only removes states."""
    if not isinstance(network, ConditionedNetwork):
        return now
    if network.before is None:
        return network.cardinality_before
    try:
        return np.array([int(stays.sum()) for stays in find_possible_states(network.before)], dtype=np.int64)
    except NegativeResult:  # a variable has no state even without the evidence
        return network.cardinality_before
