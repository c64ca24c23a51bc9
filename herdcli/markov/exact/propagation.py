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
from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import numpy as np

from herdcli.errors import NegativeResult
from herdcli.markov.exact.junction_tree import Tree, free_scopes, log_sum
from herdcli.markov.exact.messages import Kept, Messages, Schedule, waiting_at
from herdcli.markov.method import Map
from herdcli.markov.model.network import Factor, Network
from herdcli.records import dataclass
from herdcli.schema import Array

SLAB = 1 << 18  # table cells
CHUNK = 16  # slabs given to the workers at a time
SMALL = 1 << 12  # table cells of factors that are multiplied together beforehand
IMPOSSIBLE = "no state has a probability: the evidence, or the zeros of the factors, contradict each other"


@dataclass(frozen=True)
class Linear:
    """Arithmetic on numbers of at least 0; those that a float64 does not hold end it."""

    one: float = 1.0
    none: float = 0.0

    def held(self) -> np.errstate:
        """How NumPy takes what it cannot hold, in the thread that asks."""
        return np.errstate(under="raise", over="raise")

    def times(self, left: Array, right: Array, out: Array | None = None) -> Array:
        """The product."""
        made: Array = np.multiply(left, right, out=out)
        return made

    def total(self, table: Array, axes: tuple[int, ...]) -> Array:
        """The sum over some axes."""
        return sum_out(table, axes)

    def plus(self, left: Array, right: Array) -> Array:
        """The sum."""
        made: Array = left + right
        return made

    def over(self, above: Array, below: Array) -> Array:
        """The quotient, 0/0 = 0."""
        return np.divide(above, below, out=np.zeros_like(above), where=below > 0)

    def scaled(self, table: Array) -> tuple[Array, float]:
        """The table with maximum 1, and the logarithm of what it was divided by."""
        top = float(table.max())
        return (table, -math.inf) if top == 0 else (table / top, math.log(top))

    def normalised(self, table: Array) -> Array:
        """Probabilities."""
        made: Array = table / table.sum()
        return made

    def of(self, table: Array) -> Array:
        """The values of a factor."""
        return table


@dataclass(frozen=True)
class Logarithmic:
    """The same on logarithms."""

    one: float = 0.0
    none: float = -math.inf

    def held(self) -> np.errstate:
        """What is too small beside the largest is 0."""
        return np.errstate(under="ignore", divide="ignore")

    def times(self, left: Array, right: Array, out: Array | None = None) -> Array:
        """The logarithm of the product."""
        made: Array = np.add(left, right, out=out)
        return made

    def total(self, table: Array, axes: tuple[int, ...]) -> Array:
        """log Σ exp over some axes."""
        return log_sum(table, axes)

    def plus(self, left: Array, right: Array) -> Array:
        """log of the sum of two."""
        made: Array = np.logaddexp(left, right)
        return made

    def over(self, above: Array, below: Array) -> Array:
        """The logarithm of the quotient, 0/0 = 0."""
        return above - np.where(below == -np.inf, 0.0, below)

    def scaled(self, table: Array) -> tuple[Array, float]:
        """The table with maximum 0, and what was taken away."""
        top = float(table.max())
        return (table, top) if top == -math.inf else (table - top, top)

    def normalised(self, table: Array) -> Array:
        """Probabilities."""
        p = np.exp(table - table.max())
        made: Array = p / p.sum()
        return made

    def of(self, table: Array) -> Array:
        """The logarithms of a factor."""
        with np.errstate(divide="ignore"):
            return np.log(table)


Arithmetic = Linear | Logarithmic


def sum_out(table: Array, axes: tuple[int, ...]) -> Array:
    """Sum over some axes, neighbours together; short last axes are added slice by slice, which NumPy's own loops are slow at."""
    shape, gone = table.shape, set(axes)
    kept = tuple(size for axis, size in enumerate(shape) if axis not in gone)
    left, axis = 1, 0
    while axis < len(shape):
        if axis not in gone:
            left *= shape[axis]
            axis += 1
            continue
        size = 1
        while axis < len(shape) and axis in gone:
            size *= shape[axis]
            axis += 1
        right = math.prod(shape[axis:])
        table = table.reshape(left, size, right)
        if right < 16 and size < 16:
            made = table[:, 0].copy()
            for k in range(1, size):
                made += table[:, k]
            table = made
        else:
            table = table.sum(axis=1)
    return table.reshape(kept)


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
    network: Network, tree: Tree, plan: Schedule, *, whole: bool = True, messages: Messages | None = None, map: Map = map
) -> Found:
    """Collect towards the root, then distribute.  Raises NegativeResult if no state has a probability.

    whole  with marginals of factors too.  map  has the workers.
    """
    kept = Kept() if messages is None else messages
    try:
        return Run(network, tree, plan, whole, kept, map, Linear()).found()
    except FloatingPointError:
        return Run(network, tree, plan, whole, kept, map, Logarithmic()).found()


class Run:
    """One propagation."""

    def __init__(
        self, network: Network, tree: Tree, plan: Schedule, whole: bool, messages: Messages, map: Map, arithmetic: Arithmetic
    ) -> None:
        self.network, self.tree, self.plan, self.whole = network, tree, plan, whole
        self.messages, self.map, self.by = messages, map, arithmetic
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
            parts = self._parts(k)
            shape = self._shape(k)
            up = np.empty(shape[1:])
            # 2.21: the product of a clique's factors and of what its children
            # sent, summed over what the parent does not have.
            for prefix, piece in self._over_slabs(shape, lambda prefix, parts=parts, shape=shape: self._summed(parts, shape, prefix)):
                up[prefix] = piece
            message, self.scales[k] = self.by.scaled(up)
            if self.scales[k] == -math.inf:
                raise NegativeResult(IMPOSSIBLE)
            self.messages.put(k, message)

    def _shape(self, k: int) -> tuple[int, ...]:
        return tuple(self.states[i] for i in self.tree.scopes[k])

    def _parts(self, k: int) -> list[Array]:
        arrived = [self._placed(self.messages.get(c), self.tree.scopes[c][1:], k) for c in self.children[k]]
        return [*self.factors[k], *arrived]

    def _over_slabs(self, shape: tuple[int, ...], make: Map) -> Iterator[tuple[tuple[int, ...], Array]]:
        """(where a slab is, what is made of it) for all slabs, in order; the workers make some at a time."""
        where = list(slabs(shape))
        for low in range(0, len(where), CHUNK):
            some = where[low : low + CHUNK]
            yield from zip(some, self.map(make, some) if len(some) > 1 else [make(some[0])], strict=True)

    def _slab(self, parts: list[Array], shape: tuple[int, ...], prefix: tuple[int, ...]) -> Array:
        """The product of tables over the first axis and those after the prefix."""
        made = np.empty((shape[0], *shape[1 + len(prefix) :]))
        seen = []
        for part in parts:
            at: tuple[Any, ...] = tuple(i if size > 1 else 0 for i, size in zip(prefix, part.shape[1:], strict=False))
            seen.append(part[(slice(None), *at)])
        if not seen:
            made[...] = self.by.one
        elif len(seen) == 1:
            made[...] = seen[0]
        else:
            self.by.times(seen[0], seen[1], out=made)
            for part in seen[2:]:
                self.by.times(made, part, out=made)
        return made

    def _summed(self, parts: list[Array], shape: tuple[int, ...], prefix: tuple[int, ...]) -> Array:
        with self.by.held():
            return self.by.total(self._slab(parts, shape, prefix), (0,))

    def _distribute(self, k: int) -> None:
        """Marginals of a clique, and what its children are told."""
        shape, scope = self._shape(k), self.tree.scopes[k]
        # What the others say has the axes of the separator: all but the first.
        parts = [*self._parts(k), self.messages.get(k)[None]]
        place = {i: axis for axis, i in enumerate(scope)}
        wanted = [tuple(place[i] for i in self.tree.scopes[c][1:]) for c in self.children[k]]
        own = self.homes[k] if self.whole else []
        wanted += [tuple(sorted(place[i] for i in self.scopes[a])) for a in own] + [(0,)]
        made = self._marginals(parts, shape, wanted)
        del parts
        for c, above in zip(self.children[k], made, strict=False):
            # Hugin (2.24): divided by what the child sent, what is left is
            # what all others say; 0/0 is 0.
            self.messages.put(c, self.by.scaled(self.by.over(above, self.messages.get(c)))[0])
        for a, table in zip(own, made[len(self.children[k]) :], strict=False):
            self.marginals[a] = self.by.normalised(table)
        self.nodes[scope[0]] = self.by.normalised(made[-1])

    def _marginals(self, parts: list[Array], shape: tuple[int, ...], wanted: list[tuple[int, ...]]) -> list[Array]:
        """Marginals over some axes each of a product of tables, small ones from larger ones that hold them."""
        plan = targets(shape, wanted)
        first = [t for t, target in enumerate(plan) if target.source < 0]
        made = {t: np.full([shape[axis] for axis in plan[t].axes], self.by.none) for t in first}

        def summed(prefix: tuple[int, ...]) -> list[Array]:
            with self.by.held():
                slab = self._slab(parts, shape, prefix)
                gone = range(1, 1 + len(prefix))
                inside = [axis for axis in range(len(shape)) if axis not in gone]
                return [self.by.total(slab, tuple(at for at, axis in enumerate(inside) if axis not in plan[t].axes)) for t in first]

        for prefix, pieces in self._over_slabs(shape, summed):
            for t, piece in zip(first, pieces, strict=True):
                whole = made[t]
                at = tuple(prefix[axis - 1] if 1 <= axis <= len(prefix) else slice(None) for axis in plan[t].axes)
                whole[at] = self.by.plus(whole[at], piece)
        for t in sorted(range(len(plan)), key=lambda t: (-math.prod(shape[axis] for axis in plan[t].axes), t)):
            target = plan[t]
            if target.source >= 0:
                axes = plan[target.source].axes
                made[t] = self.by.total(made[target.source], tuple(at for at, axis in enumerate(axes) if axis not in target.axes))
        return [made[t] for t in range(len(plan))]

    def _factor_marginals(self) -> list[Factor]:
        """In the order of the factors, with the axes that they have."""
        made: list[Factor] = []
        for a, free in enumerate(self.scopes) if self.whole else ():
            if len(scope := self.network.scope_of(a)):
                order = sorted(free, key=self.tree.position.__getitem__)
                table = self.marginals[a] if free else np.ones(())
                made.append((scope, table.transpose([order.index(i) for i in free]).reshape([self.states[i] for i in scope])))
        return made


def slabs(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The first indices, after the first axis, of parts of a table of at most SLAB cells each (or of one step of its last axis)."""
    cells, axes = math.prod(shape), 1
    while cells > SLAB and axes < len(shape):
        cells //= shape[axes]
        axes += 1
    yield from product(*(range(size) for size in shape[1:axes]))


def combined(parts: list[Array], by: Arithmetic) -> list[Array]:
    """Tables multiplied together as long as that makes none larger than a few thousand cells."""
    made: list[Array] = []
    for part in sorted(parts, key=lambda part: part.size):
        if made and np.broadcast(made[-1], part).size <= SMALL:
            made[-1] = by.times(made[-1], part)
        else:
            made.append(part)
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
