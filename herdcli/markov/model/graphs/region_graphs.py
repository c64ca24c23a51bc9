"""Region graphs by the cluster variation method: outer regions, their intersections, and the counting number of each.

The Kikuchi free energy is Σ_r c_r Σ b_r log b_r minus the average log potential, over outer regions with c = 1 and inner ones
with c_r = 1 − Σ_{s ⊋ r} c_s, so that every variable and every factor is counted once.  If the factors are the outer regions, it is
the Bethe free energy.  Source: Kikuchi (1951); Yedidia, Freeman & Weiss (2002); Teh (2003), sec. 2.4.3 and 6.5.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from herdcli.errors import DataError
from herdcli.markov.model.graphs.union_find import find_root
from herdcli.markov.model.network import Network
from herdcli.records import dataclass
from herdcli.schema import Array

MOST_CELLS = 1 << 22  # largest number of cells in the table of one region
LARGEST_JOINED = 1 << 12  # largest number of cells of a region that joins several factors
INTERSECTIONS = 20  # largest number of intersections per region; with more, the regions overlap too much
Scope = tuple[int, ...]


@dataclass(frozen=True)
class RegionGraph:
    """Outer and inner regions.

    outer, inner  scopes, in increasing order.
    count         counting number of each inner region.
    parents       for each inner region, the indices of its outer regions.
    """

    outer: list[Scope]
    inner: list[Scope]
    count: list[int]
    parents: list[list[int]]

    def work_per_iteration(self, cardinality: Array) -> float:
        """The number of table cells that an iteration visits: those of the outer region of each pair."""
        cells = [_table_cells(cardinality, scope) for scope in self.outer]
        return sum(cells[a] for around in self.parents for a in around)

    def is_balanced(self) -> bool:
        """Return True if the counting numbers of each connected part sum to one, so that no loop is left out or counted twice.

        Uniform beliefs then have the entropy of the uniform distribution over the parts' trees (Yedidia, Freeman & Weiss 2005, sec. VI).
        Plaquettes of a lattice are balanced: faces − inner edges + inner corners is 1.  In sparse random graphs the plaquettes miss loops,
        in dense ones they overlap.
        """
        parent: dict[int, int] = {i: i for scope in self.outer for i in scope}
        for scope in self.outer:
            for i in scope[1:]:
                parent[find_root(parent, i)] = find_root(parent, scope[0])
        parts = sum(parent[i] == i for i in parent)
        return len(self.outer) + sum(self.count) == parts


def make_region_graph(network: Network, kind: str) -> RegionGraph:
    """Return regions over the variables with more than one state.

    kind  `edges` (the factors), or `plaquettes` (also loops of 3 and 4 variables).
    """
    scopes = multistate_scopes(network)
    if kind == "plaquettes":
        scopes |= find_short_loops(scopes)
    return close_under_intersection(network, scopes)


def regions_from_scopes(network: Network, scopes: Iterable[Sequence[int]]) -> RegionGraph:
    """Return the regions that a user gives, without variables of one state, and the factors that no region contains."""
    wide = network.cardinality > 1
    told = {tuple(sorted(i for i in scope if wide[i])) for scope in scopes} - {()}
    return close_under_intersection(network, multistate_scopes(network) | told)


def multistate_scopes(network: Network) -> set[Scope]:
    """Return the scopes of all factors without variables of one state, and each variable alone."""
    wide = network.cardinality > 1
    scopes = {tuple(sorted(i for i in scope if wide[i])) for scope, _ in network.factors()}
    scopes |= {(int(i),) for i in np.flatnonzero(wide)}
    return scopes - {()}


def mini_bucket_regions(network: Network, order: Sequence[int], max_variables: int) -> RegionGraph:
    """Return regions of at most `max_variables` variables along an elimination order, by mini-buckets.

    Elimination of a variable would join all scopes over it.  Here they are joined only as far as `max_variables` variables (and
    LARGEST_JOINED cells) allow.  The regions thus approximate the cliques of a junction tree, and equal them if `max_variables` is large
    enough.  Raises DataError if the regions have too many intersections.  Source: Dechter & Rish (2003), mini-buckets;
    Mateescu, Kask, Gogate & Dechter (2010), sec. 4, join graphs.
    """
    position = {i: k for k, i in enumerate(order)}
    scopes = multistate_scopes(network)
    buckets: dict[int, set[frozenset[int]]] = defaultdict(set)
    for scope in scopes:
        buckets[min(scope, key=position.__getitem__)].add(frozenset(scope))
    for i in order:
        for joined in _join_scopes(buckets.pop(i, set()), network.cardinality, max_variables):
            scopes.add(tuple(sorted(joined)))
            if rest := joined - {i}:
                buckets[min(rest, key=position.__getitem__)].add(rest)
    return close_under_intersection(network, scopes, INTERSECTIONS * len(scopes))


def _join_scopes(bucket: set[frozenset[int]], cardinality: Array, max_variables: int) -> list[frozenset[int]]:
    """Partition the scopes of a bucket, larger scopes first; each joins the part that shares most variables with it and has room."""
    parts: list[frozenset[int]] = []
    for scope in sorted(bucket, key=lambda scope: (-len(scope), sorted(scope))):
        room = [
            k
            for k, part in enumerate(parts)
            if len(part | scope) <= max_variables and _table_cells(cardinality, part | scope) <= LARGEST_JOINED
        ]
        if room:
            best = max(room, key=lambda k: (len(parts[k] & scope), -k))
            parts[best] |= scope
        else:
            parts.append(scope)
    return parts


def _table_cells(cardinality: Array, scope: Iterable[int]) -> float:
    return float(np.prod(cardinality[list(scope)], dtype=np.float64))


def find_short_loops(scopes: Iterable[Scope]) -> set[Scope]:
    """Return the triangles, and the squares without a diagonal, of the graph that joins all variables of a scope."""
    near: dict[int, set[int]] = defaultdict(set)
    for scope in scopes:
        for i in scope:
            near[i] |= set(scope) - {i}
    found: set[Scope] = set()
    for i in near:
        above = sorted(j for j in near[i] if j > i)
        for at, j in enumerate(above):
            for k in above[at + 1 :]:
                if k in near[j]:
                    found.add((i, j, k))
                    continue
                opposite = (m for m in near[j] & near[k] if m > i and m not in near[i])
                found |= {tuple(sorted((i, j, k, m))) for m in opposite}
    return found


def close_under_intersection(network: Network, scopes: Iterable[Scope], max_regions: int | None = None) -> RegionGraph:
    """Return a region graph with the maximal scopes as outer regions, and all their intersections as inner ones.

    Raises DataError for a region whose table would be too large, and for more than `max_regions` regions.
    """
    holders: dict[int, list[Scope]] = defaultdict(list)
    outer: list[Scope] = []
    for scope in sorted(set(scopes), key=lambda scope: (-len(scope), scope)):
        if not any(set(scope) <= set(other) for other in holders[scope[0]]):
            outer.append(scope)
            for i in scope:
                holders[i].append(scope)
    outer.sort()
    for scope in outer:
        cells = _table_cells(network.cardinality, scope)
        if cells > MOST_CELLS:
            raise DataError(f"a region of {len(scope)} variables has {cells:.3g} joint states, but herd handles at most {MOST_CELLS}")
    every: set[Scope] = set(outer)
    fresh = set(outer)
    members: dict[int, set[Scope]] = defaultdict(set)
    while fresh:
        for scope in fresh:
            for i in scope:
                members[i].add(scope)
        made = {tuple(sorted(set(a) & set(b))) for a in fresh for i in a for b in members[i] if a != b}
        fresh = made - every
        every |= fresh
        if max_regions is not None and len(every) > max_regions:
            raise DataError(
                f"the regions have more than {max_regions} intersections, which is too many",
                hint="use fewer or smaller regions: --regions cliques:3",
            )
    inner = sorted(every - set(outer), key=lambda scope: (-len(scope), scope))
    number = {scope: k for k, scope in enumerate(outer)}
    count: dict[Scope, int] = dict.fromkeys(outer, 1)
    parents: list[list[int]] = []
    for scope in inner:
        above = [other for other in members[scope[0]] if len(other) > len(scope) and set(scope) < set(other)]
        # 6.25, from the largest region on: counting numbers correct for the regions above, so that Σ c = 1 over all regions that contain
        # this one.
        count[scope] = 1 - sum(count[other] for other in above)
        parents.append(sorted(number[other] for other in above if other in number))
    return RegionGraph(outer, inner, [count[scope] for scope in inner], parents)


def assign_region_tables(network: Network, regions: RegionGraph) -> tuple[list[Array], float]:
    """Return log ψ of each outer region, with axes in the order of its scope, and a constant.

    Every factor belongs to the first region that contains it.
    """
    states = network.cardinality.tolist()
    made = [np.zeros([states[i] for i in scope]) for scope in regions.outer]
    holders: dict[int, list[int]] = defaultdict(list)
    for k, scope in enumerate(regions.outer):
        for i in scope:
            holders[i].append(k)
    constant = 0.0
    for scope, table in network.factors():
        wide = [i for i in scope if states[i] > 1]
        with np.errstate(divide="ignore"):
            logs = np.log(table.reshape([states[i] for i in wide]))
        if not wide:
            constant += float(logs)
            continue
        k = next(k for k in holders[wide[0]] if set(wide) <= set(regions.outer[k]))
        order = sorted(range(len(wide)), key=lambda axis: wide[axis])
        made[k] = made[k] + logs.transpose(order).reshape([states[i] if i in wide else 1 for i in regions.outer[k]])
    return made, constant
