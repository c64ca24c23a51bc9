"""Exact marginals and log Z by messages alone: clique tables are made a slab at a time, and gone once they have been summed.

Of the junction tree's numbers only the messages stay, one for each separator, which has one variable less than its clique.  Towards
the root a clique multiplies its factors and what its children sent, and sums its first variable out.  On the way back it is made once
more, with what all others say, and gives the marginals of its first variable, of its factors and of its children's separators, which
divided by what the children sent are what they are told (Hugin propagation; Jensen, Lauritzen & Olesen 1990).  No clique is ever
whole in memory, and the slabs of one may be made by several threads: they are the same whatever the threads, as are all sums.

Numbers are probabilities scaled to maximum 1, many times faster than logarithms.  A product too small for a float64 raises
FloatingPointError, and all begins again in logarithms: what is not zero is never lost, and keeps its relative precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import TypeVar

import numpy as np

from herdcli.errors import NegativeResult
from herdcli.markov.exact import sparse
from herdcli.markov.exact.arithmetic import SMALL, Arithmetic, Linear, Logarithmic, combined, slab, slabs
from herdcli.markov.exact.columns import Columns, lookup
from herdcli.markov.exact.junction_tree import Tree, free_scopes
from herdcli.markov.exact.messages import Kept, Messages, Schedule, waiting_at
from herdcli.markov.method import Map
from herdcli.markov.model.network import Factor, Network
from herdcli.records import dataclass
from herdcli.schema import Array

CHUNK = 16  # slabs given to the workers at a time
T = TypeVar("T")
R = TypeVar("R")
IMPOSSIBLE = "no state has a probability: the evidence, or the zeros of the factors, contradict each other"


@dataclass(frozen=True)
class Found:
    """Marginals of variables and of factors (where they were asked for), and log Z."""

    nodes: list[Array]
    factors: list[Factor]
    log_z: float


@dataclass(frozen=True)
class Target:
    """A marginal over some axes of a clique, summed from its slabs (source −1) or from an earlier target."""

    axes: tuple[int, ...]
    source: int


def propagate(
    network: Network,
    tree: Tree,
    plan: Schedule,
    *,
    whole: bool = True,
    messages: Messages | None = None,
    map: Map = map,
    columns: Sequence[Columns | None] | None = None,
) -> Found:
    """Collect towards the root, then distribute.  Raises NegativeResult if no state has a probability.

    whole  with marginals of factors too.  map  has the workers.  columns  of the messages that hold possible states alone.
    """
    kept = Kept() if messages is None else messages
    some = [None] * len(tree.scopes) if columns is None else columns
    try:
        return Run(network, tree, plan, whole, kept, map, some, Linear()).found()
    except FloatingPointError:
        return Run(network, tree, plan, whole, kept, map, some, Logarithmic()).found()


class Run:
    """One propagation."""

    def __init__(
        self,
        network: Network,
        tree: Tree,
        plan: Schedule,
        whole: bool,
        messages: Messages,
        map: Map,
        columns: Sequence[Columns | None],
        arithmetic: Arithmetic,
    ) -> None:
        self.network, self.tree, self.plan, self.whole = network, tree, plan, whole
        self.messages, self.map, self.columns, self.by = messages, map, columns, arithmetic
        self.states: list[int] = network.cardinality.tolist()
        self.scales: list[float] = [0.0] * len(tree.scopes)
        self.constants: list[float] = []
        self.scopes = list(free_scopes(network, network.cardinality > 1))
        self.homes: list[list[int]] = [[] for _ in tree.scopes]
        for a, k in enumerate(tree.home):
            self.homes[k].append(a)
        self.children: list[list[int]] = [[] for _ in tree.scopes]
        for k, p in enumerate(tree.parent):
            if p >= 0:
                self.children[p].append(k)
        with self.by.held():
            self.factors = [self._factors_of(k) for k in range(len(tree.scopes))]
        self.nodes: list[Array] = [np.empty(0)] * network.count
        self.marginals: dict[int, Array] = {}

    def _factors_of(self, k: int) -> list[Array]:
        """The factors that live in a clique, scaled, small ones multiplied together."""
        parts = []
        for a in self.homes[k]:
            low, high = int(self.network.table_offset[a]), int(self.network.table_offset[a + 1])
            scope = self.scopes[a]
            table, scale = self.by.scaled(self.by.of(self.network.table[low:high]))
            self.constants.append(scale)
            axes = sorted(range(len(scope)), key=lambda axis: self.tree.position[scope[axis]])
            shaped = table.reshape([self.states[i] for i in scope]).transpose(axes)
            parts.append(self._placed(np.ascontiguousarray(shaped), [scope[axis] for axis in axes], k))
        return combined(parts, self.by)

    def _placed(self, table: Array, scope: list[int], k: int) -> Array:
        """A table seen with the axes of clique k; both scopes are in elimination order."""
        inside = set(scope)
        return table.reshape([self.states[i] if i in inside else 1 for i in self.tree.scopes[k]])

    def found(self) -> Found:
        """Both passes."""
        with self.by.held():
            return self._found()

    def _found(self) -> Found:
        sequence, cuts = self.plan.sequence, self.plan.cuts
        stretches = [sequence[low:high] for low, high in pairwise(cuts)]
        waiting = waiting_at(self.tree, sequence, cuts)
        for t, stretch in enumerate(stretches):
            self._collect(stretch)
            if t < len(stretches) - 1:
                left = set(waiting[t])
                for k in stretch:
                    if k not in left:
                        self.messages.drop(k)
        log_z = math.fsum([*self.scales, *self.constants])
        if log_z == -math.inf:
            raise NegativeResult(IMPOSSIBLE)
        for t in range(len(stretches) - 1, -1, -1):
            if t < len(stretches) - 1:
                told = set(waiting[t])  # by their parents, which come after the stretch: nothing in it needs what they sent
                self._collect([k for k in stretches[t] if k not in told])
            for k in reversed(stretches[t]):
                self._distribute(k)
                self.messages.drop(k)
        return Found(self.nodes, self._factor_marginals(), log_z)

    def _collect(self, stretch: list[int]) -> None:
        """The messages of some cliques to their parents."""
        for k in stretch:
            # 2.21: the product of a clique's factors and of what its children
            # sent, summed over what the parent does not have.
            up = self._up(k) if self.columns[k] is None else self._up_by_columns(k)
            message, self.scales[k] = self.by.scaled(up)
            if self.scales[k] == -math.inf:
                raise NegativeResult(IMPOSSIBLE)
            self.messages.put(k, message)

    def _up(self, k: int) -> Array:
        parts, shape = self._parts(k), self._shape(k)
        if math.prod(shape) <= SMALL:
            return self.by.total(slab(parts, shape, (), self.by), (0,))
        up = np.empty(shape[1:])

        def summed(prefix: tuple[int, ...]) -> Array:
            with self.by.held():
                return self.by.total(slab(parts, shape, prefix, self.by), (0,))

        for prefix, piece in self._over(slabs(shape), summed):
            up[prefix] = piece
        return up

    def _up_by_columns(self, k: int) -> Array:
        parts, states, columns = self._looked_up(k), self._shape(k)[0], self._columns(k)
        up = np.empty(columns.count)

        def summed(piece: tuple[int, Array]) -> Array:
            with self.by.held():
                return self.by.total(sparse.product(parts, states, piece[1], self.by), (0,))

        for (low, column), sums in self._over(columns.pieces(), summed):
            up[low : low + len(column)] = sums
        return up

    def _columns(self, k: int) -> Columns:
        found = self.columns[k]
        assert found is not None
        return found

    def _shape(self, k: int) -> tuple[int, ...]:
        return tuple(self.states[i] for i in self.tree.scopes[k])

    def _axes(self, k: int, variables: Iterable[int]) -> tuple[int, ...]:
        """Where some variables are among those of clique k."""
        place = {i: axis for axis, i in enumerate(self.tree.scopes[k])}
        return tuple(sorted(place[i] for i in variables))

    def _parts(self, k: int) -> list[Array]:
        """What clique k multiplies, as tables with its axes."""
        arrived = [self._placed(self._whole(c), self.tree.scopes[c][1:], k) for c in self.children[k]]
        return [*self.factors[k], *arrived]

    def _whole(self, c: int) -> Array:
        """The message of clique c with its impossible states."""
        message, columns = self.messages.get(c), self.columns[c]
        if columns is None:
            return message
        made = np.full(columns.size, self.by.none)
        made[columns.all()] = message
        return made

    def _looked_up(self, k: int) -> list[sparse.Part]:
        """What clique k multiplies, as tables that its columns look their factors up in."""
        shape = self._shape(k)
        parts = [
            sparse.Part(lookup(shape, [axis for axis, size in enumerate(table.shape) if size > 1]), table.reshape(-1), None)
            for table in self.factors[k]
        ]
        for c in self.children[k]:
            message = self.messages.get(c).reshape(-1)
            parts.append(sparse.Part(lookup(shape, self._axes(k, self.tree.scopes[c][1:])), message, self.columns[c]))
        return parts

    def _over(self, where: Iterable[T], make: Callable[[T], R]) -> Iterator[tuple[T, R]]:
        """(a place, what is made of it) for all, in order; the workers make some at a time."""
        places = iter(where)
        while some := list(islice(places, CHUNK)):
            yield from zip(some, self.map(make, some) if len(some) > 1 else [make(some[0])], strict=True)

    def _distribute(self, k: int) -> None:
        """Marginals of a clique, and what its children are told."""
        own = self.homes[k] if self.whole else []
        wanted = [self._axes(k, self.tree.scopes[c][1:]) for c in self.children[k]]
        wanted += [self._axes(k, self.scopes[a]) for a in own] + [(0,)]
        made = self._marginals(k, wanted) if self.columns[k] is None else self._marginals_by_columns(k, wanted)
        for c, above in zip(self.children[k], made, strict=False):
            # Hugin (2.24): divided by what the child sent, what is left is
            # what all others say; 0/0 is 0.
            self.messages.put(c, self.by.scaled(self.by.over(above, self.messages.get(c)))[0])
        for a, table in zip(own, made[len(self.children[k]) :], strict=False):
            self.marginals[a] = self.by.normalised(table)
        self.nodes[self.tree.scopes[k][0]] = self.by.normalised(made[-1])

    def _marginals(self, k: int, wanted: list[tuple[int, ...]]) -> list[Array]:
        """Marginals over some axes each, small ones from larger ones that hold them; of children by their columns."""
        shape = self._shape(k)
        # What the others say has the axes of the separator: all but the first.
        parts = [*self._parts(k), self.messages.get(k)[None]]
        if math.prod(shape) <= SMALL:
            table = slab(parts, shape, (), self.by)
            sums = [self.by.total(table, tuple(axis for axis in range(len(shape)) if axis not in axes)) for axes in wanted]
            return self._of_columns(k, sums)
        plan = targets(shape, wanted)
        first = [t for t, target in enumerate(plan) if target.source < 0]
        made = {t: np.full([shape[axis] for axis in plan[t].axes], self.by.none) for t in first}

        def summed(prefix: tuple[int, ...]) -> list[Array]:
            with self.by.held():
                table = slab(parts, shape, prefix, self.by)
                gone = range(1, 1 + len(prefix))
                inside = [axis for axis in range(len(shape)) if axis not in gone]
                return [self.by.total(table, tuple(at for at, axis in enumerate(inside) if axis not in plan[t].axes)) for t in first]

        for prefix, pieces in self._over(slabs(shape), summed):
            for t, piece in zip(first, pieces, strict=True):
                whole = made[t]
                at = tuple(prefix[axis - 1] if 1 <= axis <= len(prefix) else slice(None) for axis in plan[t].axes)
                whole[at] = self.by.plus(whole[at], piece)
        for t in sorted(range(len(plan)), key=lambda t: (-math.prod(shape[axis] for axis in plan[t].axes), t)):
            target = plan[t]
            if target.source >= 0:
                axes = plan[target.source].axes
                made[t] = self.by.total(made[target.source], tuple(at for at, axis in enumerate(axes) if axis not in target.axes))
        return self._of_columns(k, [made[t] for t in range(len(plan))])

    def _of_columns(self, k: int, made: list[Array]) -> list[Array]:
        """The marginals of a clique, those of children with possible columns over these alone."""
        for t, c in enumerate(self.children[k]):
            if (columns := self.columns[c]) is not None:
                made[t] = made[t].reshape(-1)[columns.all()]
        return made

    def _marginals_by_columns(self, k: int, wanted: list[tuple[int, ...]]) -> list[Array]:
        """The same where clique k has possible columns alone."""
        shape, columns = self._shape(k), self._columns(k)
        parts, told = self._looked_up(k), self.messages.get(k)
        inside = [self.columns[c] for c in self.children[k]] + [None] * (len(wanted) - len(self.children[k]))
        goals = [sparse.goal(shape, axes, among, self.by) for axes, among in zip(wanted, inside, strict=True)]

        def found(piece: tuple[int, Array]) -> tuple[Array, list[Array]]:
            low, column = piece
            with self.by.held():
                table = sparse.product(parts, shape[0], column, self.by)
                self.by.times(table, told[low : low + len(column)], out=table)
                return table, [goal.cells(column, shape[0]) for goal in goals]

        for _, (table, cells) in self._over(columns.pieces(), found):
            for goal, cell in zip(goals, cells, strict=True):
                goal.add(cell, table, self.by)
        return [goal.made() for goal in goals]

    def _factor_marginals(self) -> list[Factor]:
        """In the order of the factors, with the axes that they have."""
        made: list[Factor] = []
        for a, free in enumerate(self.scopes) if self.whole else ():
            if len(scope := self.network.scope_of(a)):
                order = sorted(free, key=self.tree.position.__getitem__)
                table = self.marginals[a] if free else np.ones(())
                made.append((scope, table.transpose([order.index(i) for i in free]).reshape([self.states[i] for i in scope])))
        return made


def targets(shape: tuple[int, ...], wanted: list[tuple[int, ...]]) -> list[Target]:
    """For each marginal the smallest larger one that it can be summed from; of equals the first is summed from the slabs."""
    sizes = [math.prod(shape[axis] for axis in axes) for axes in wanted]
    order = sorted(range(len(wanted)), key=lambda t: (sizes[t], -t))
    rank = {t: at for at, t in enumerate(order)}
    found = []
    for t, axes in enumerate(wanted):
        inside = set(axes)
        larger = (u for u in order[rank[t] + 1 :] if inside <= set(wanted[u]))
        found.append(Target(axes, next(larger, -1)))
    return found
