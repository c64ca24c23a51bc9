"""Region graphs by the cluster variation method: outer regions, their intersections, and how often each one is counted.

The Kikuchi free energy is Σ_r c_r Σ b_r log b_r minus the average log potential, over outer regions with c = 1 and inner ones
with c_r = 1 − Σ_{s ⊋ r} c_s, so that every variable and every factor is counted once.  With factors for outer regions it is
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

MOST_CELLS = 1 << 22  # of the table of one region
LARGEST_JOINED = 1 << 12  # cells of a region that is made of several factors
INTERSECTIONS = 20  # times the regions, beyond which they overlap too much
Scope = tuple[int, ...]


@dataclass(frozen=True)
class RegionGraph:
    """outer, inner  scopes, increasing.  count  of the inner ones.  parents  of each inner one, numbers of outer ones."""

    outer: list[Scope]
    inner: list[Scope]
    count: list[int]
    parents: list[list[int]]

    def work(self, cardinality: Array) -> float:
        """Table cells that an iteration visits: those of the outer region of each pair."""
        cells = [_table_cells(cardinality, scope) for scope in self.outer]
        return sum(cells[a] for around in self.parents for a in around)

    def is_balanced(self) -> bool:
        """Do all counts add up to one for each connected part, so that no loop is left out or counted twice?

        Uniform beliefs then have the entropy of the uniform distribution over the parts' trees (Yedidia, Freeman & Weiss 2005, sec. VI).
        Plaquettes of a lattice do: faces − inner edges + inner corners is 1.  Of sparse random graphs they miss loops, of dense ones they
        overlap.
        """
        parent: dict[int, int] = {i: i for scope in self.outer for i in scope}
        for scope in self.outer:
            for i in scope[1:]:
                parent[find_root(parent, i)] = find_root(parent, scope[0])
        parts = sum(parent[i] == i for i in parent)
        return len(self.outer) + sum(self.count) == parts


def find_regions(network: Network, kind: str) -> RegionGraph:
    """Regions over the variables with more than one state: `edges` (the factors) or `plaquettes` (loops of 3 and 4 besides)."""
    scopes = factor_scopes(network)
    if kind == "plaquettes":
        scopes |= short_loops(scopes)
    return intersection_closure(network, scopes)


def regions_from_scopes(network: Network, scopes: Iterable[Sequence[int]]) -> RegionGraph:
    """Regions that a user names, without the variables of one state, and the factors where no region holds them."""
    wide = network.cardinality > 1
    told = {tuple(sorted(i for i in scope if wide[i])) for scope in scopes} - {()}
    return intersection_closure(network, factor_scopes(network) | told)


def factor_scopes(network: Network) -> set[Scope]:
    """The scopes of all factors without variables of one state, and each variable alone."""
    wide = network.cardinality > 1
    scopes = {tuple(sorted(i for i in scope if wide[i])) for scope, _ in network.factors()}
    scopes |= {(int(i),) for i in np.flatnonzero(wide)}
    return scopes - {()}


def mini_bucket_regions(network: Network, order: Sequence[int], most: int) -> RegionGraph:
    """Regions of at most `most` variables along an elimination order, by mini-buckets.

    All scopes over a variable are joined when it is eliminated, where elimination would join all of them only as far as `most`
    variables (and LARGEST_JOINED cells) allow: so the regions follow the cliques of a junction tree, and are those where `most` is
    enough.  Raises DataError where the regions have too many intersections.  Source: Dechter & Rish (2003), mini-buckets;
    Mateescu, Kask, Gogate & Dechter (2010), sec. 4, whose join graphs they make.
    """
    position = {i: k for k, i in enumerate(order)}
    scopes = factor_scopes(network)
    buckets: dict[int, set[frozenset[int]]] = defaultdict(set)
    for scope in scopes:
        buckets[min(scope, key=position.__getitem__)].add(frozenset(scope))
    for i in order:
        for joined in _join_scopes(buckets.pop(i, set()), network.cardinality, most):
            scopes.add(tuple(sorted(joined)))
            if rest := joined - {i}:
                buckets[min(rest, key=position.__getitem__)].add(rest)
    return intersection_closure(network, scopes, INTERSECTIONS * len(scopes))


def _join_scopes(bucket: set[frozenset[int]], cardinality: Array, most: int) -> list[frozenset[int]]:
    """The scopes of a bucket in parts, larger scopes first, each to the part that shares most with it and has room."""
    parts: list[frozenset[int]] = []
    for scope in sorted(bucket, key=lambda scope: (-len(scope), sorted(scope))):
        room = [
            k for k, part in enumerate(parts) if len(part | scope) <= most and _table_cells(cardinality, part | scope) <= LARGEST_JOINED
        ]
        if room:
            best = max(room, key=lambda k: (len(parts[k] & scope), -k))
            parts[best] |= scope
        else:
            parts.append(scope)
    return parts


def _table_cells(cardinality: Array, scope: Iterable[int]) -> float:
    return float(np.prod(cardinality[list(scope)], dtype=np.float64))


def short_loops(scopes: Iterable[Scope]) -> set[Scope]:
    """Triangles, and squares without a diagonal, of the graph in which the variables of a scope are joined."""
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


def intersection_closure(network: Network, scopes: Iterable[Scope], most: int | None = None) -> RegionGraph:
    """The maximal ones of these scopes as outer regions, with all intersections of them.

    Raises DataError for a region whose table would be too large, and for more than `most` regions.
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
            raise DataError(f"a region of {len(scope)} variables has {cells:.3g} states, at most {MOST_CELLS} can be handled")
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
        if most is not None and len(every) > most:
            raise DataError(f"the regions have more than {most} intersections", hint="use fewer or smaller regions: --regions cliques:3")
    inner = sorted(every - set(outer), key=lambda scope: (-len(scope), scope))
    number = {scope: k for k, scope in enumerate(outer)}
    count: dict[Scope, int] = dict.fromkeys(outer, 1)
    parents: list[list[int]] = []
    for scope in inner:
        above = [other for other in members[scope[0]] if len(other) > len(scope) and set(scope) < set(other)]
        # 6.25, from the largest: what the regions above count too often is taken off, so that Σ c = 1 over all regions that hold this one.
        count[scope] = 1 - sum(count[other] for other in above)
        parents.append(sorted(number[other] for other in above if other in number))
    return RegionGraph(outer, inner, [count[scope] for scope in inner], parents)


def region_log_tables(network: Network, regions: RegionGraph) -> tuple[list[Array], float]:
    """log ψ of each outer region, axes in the order of its scope: every factor in the first region that holds it; a constant."""
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
