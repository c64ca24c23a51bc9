"""Directed graphs of Bayesian networks, stored as the parents of each variable: cycles, ancestors, Markov blankets, d-separation.

Source: Koller & Friedman (2009), algorithm 3.1, for d-separation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from herdcli.markov.model.network import Network

Parents = tuple[tuple[int, ...], ...]  # one tuple per variable
K = TypeVar("K", str, int)


def find_cycle(parents: Mapping[K, Sequence[K]]) -> list[K]:
    """Return the variables of a directed cycle, empty if there is none.

    Each variable has the next one as a parent, and the last is the first again.
    """
    left = {child: set(above) for child, above in parents.items()}
    children: dict[K, list[K]] = {}
    for child, above in left.items():
        for parent in above:
            children.setdefault(parent, []).append(child)
    done = [child for child, above in left.items() if not above]
    for parent in done:  # the list grows during the loop (Kahn 1962)
        del left[parent]
        for child in children.get(parent, ()):
            left[child].discard(parent)
            if not left[child]:
                done.append(child)
    walk = list(left)[:1]
    while walk and walk[-1] not in walk[:-1]:
        walk.append(min(left[walk[-1]], key=str))
    return walk[walk.index(walk[-1]) :] if walk else []


def network_parents(network: Network) -> Parents | None:
    """Return the parents of each variable in a network of conditional tables; None if the network is not of this form."""
    found: dict[int, tuple[int, ...]] = {}
    for a in range(network.factor_count):
        scope = network.factor_scope(a)
        if not scope or scope[-1] in found:
            return None
        found[scope[-1]] = scope[:-1]
    if len(found) != network.count or find_cycle(found):
        return None
    return tuple(found[i] for i in range(network.count))


def contract_last_variables(parents: Parents, count: int) -> Parents:
    """Return the parents of the first `count` variables; the parents of the last variables take the place of these."""
    if len(parents) == count:
        return parents

    def expanded(above: Sequence[int]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(i for j in above for i in ((j,) if j < count else expanded(parents[j]))))

    return tuple(expanded(parents[i]) for i in range(count))


def invert_parents(parents: Parents) -> list[list[int]]:
    """Return the children of each variable."""
    found: list[list[int]] = [[] for _ in parents]
    for child, above in enumerate(parents):
        for parent in above:
            found[parent].append(child)
    return found


def find_reachable(neighbours: Sequence[Collection[int]], start: Collection[int]) -> set[int]:
    """Return all variables that can be reached from some variables, including these: ancestors via parents, descendants via children."""
    found, waiting = set(start), list(start)
    while waiting:
        for j in neighbours[waiting.pop()]:
            if j not in found:
                found.add(j)
                waiting.append(j)
    return found


def markov_blanket(parents: Parents, children: Sequence[Sequence[int]], i: int) -> set[int]:
    """Return the Markov blanket of variable i: its parents, its children and their other parents."""
    return {*parents[i], *children[i], *(j for child in children[i] for j in parents[child])} - {i}


def find_active_trails(parents: Parents, start: int, observed: Collection[int]) -> dict[int, list[int]]:
    """Return the variables that are not d-separated from `start`, each with the variables of a shortest active trail."""
    children, known = invert_parents(parents), set(observed)
    above = find_reachable(parents, known)  # a collider is open if it or one of its descendants is given
    before: dict[tuple[int, bool], tuple[int, bool] | None] = {(start, True): None}
    waiting = deque(before)
    found: dict[int, list[int]] = {}
    while waiting:
        i, upwards = place = waiting.popleft()  # upwards: reached from a child
        if i not in known and i != start and i not in found:
            trail, at = [i], before[place]
            while at is not None:
                trail.append(at[0])
                at = before[at]
            found[i] = trail[::-1]
        ahead: list[tuple[int, bool]] = []
        if upwards and i not in known:
            ahead = [*((j, True) for j in parents[i]), *((j, False) for j in children[i])]
        elif not upwards:
            ahead = [(j, False) for j in children[i]] if i not in known else []
            ahead += [(j, True) for j in parents[i]] if i in above else []
        for each in ahead:
            if each not in before:
                before[each] = place
                waiting.append(each)
    return found


def find_unblocked_paths(neighbours: Sequence[Collection[int]], start: int, observed: Collection[int]) -> dict[int, list[int]]:
    """Return the variables that an undirected graph connects to `start` without passing the given ones, each with a shortest path."""
    before, waiting, known = {start: start}, deque([start]), set(observed)
    found: dict[int, list[int]] = {}
    while waiting:
        i = waiting.popleft()
        for j in sorted(neighbours[i]):
            if j not in before and j not in known:
                before[j] = i
                found[j] = [*found.get(i, [start]), j]
                waiting.append(j)
    return found
