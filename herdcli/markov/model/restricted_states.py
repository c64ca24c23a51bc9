"""Restriction of a network to the states that its zeros allow, so that messages and samplers have fewer of them."""

from __future__ import annotations

import numpy as np

from herdcli.markov.model import possible_states
from herdcli.markov.model.network import Factor, Network, build_network, drop_single_state_variables
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class RestrictedNetwork:
    """A network restricted to the possible states; states[i] are their original numbers.

    constant  sum of the logs of factors over no free variable.
    """

    network: Network
    states: list[Array]
    constant: float

    def original_states(self, x: dict[int, int]) -> dict[int, int]:
        """Convert states of the restricted network to those of the whole one."""
        return {i: int(self.states[i][value]) for i, value in x.items()}

    def expand_marginals(self, marginals: list[Array], cardinality: Array) -> list[Array]:
        """Expand marginals to all states, with 0 for those that are not possible."""
        made = []
        for p, kept, count in zip(marginals, self.states, cardinality.tolist(), strict=True):
            whole = np.zeros(count)
            whole[kept] = p
            made.append(whole)
        return made

    def expand_table(self, scope: tuple[int, ...], p: Array, cardinality: Array) -> Array:
        """Expand a table to all states of its variables, with 0 for those that are not possible."""
        made = np.zeros([int(cardinality[i]) for i in scope])
        made[np.ix_(*(self.states[i] for i in scope))] = p
        return made


def restrict_to_possible_states(network: Network) -> RestrictedNetwork:
    """Restrict a network by generalised arc consistency.  Raises NegativeResult if a variable has no state left."""
    return restrict_to_states(network, [np.flatnonzero(stays) for stays in possible_states.find_possible_states(network)])


def restrict_to_states(network: Network, allowed: list[Array]) -> RestrictedNetwork:
    """Restrict a network to some states of each variable, at least one; factors of one cell become constants."""
    small = build_network(
        [len(states) for states in allowed], [(scope, table[np.ix_(*(allowed[i] for i in scope))]) for scope, table in network.factors()]
    )
    constant = 0.0
    factors: list[Factor] = []
    for factor in small.factors():
        scope, table = drop_single_state_variables(small, factor)
        if scope:
            factors.append((scope, table))
        else:
            constant += float(np.log(table))
    return RestrictedNetwork(build_network(small.cardinality, factors), allowed, constant)
