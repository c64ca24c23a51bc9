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
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from herdcli.errors import NegativeResult
from herdcli.markov.exact import sparse_cliques
from herdcli.markov.exact.clique_products import CliqueProducts
from herdcli.markov.exact.junction_tree import JunctionTreeLayout
from herdcli.markov.exact.message_storage import MemoryMessageStore, MessageSchedule, MessageStore, waiting_cliques
from herdcli.markov.exact.separator_states import PossibleColumns
from herdcli.markov.exact.table_arithmetic import SMALL, Arithmetic, LinearArithmetic, LogArithmetic, slab_indices, slab_product
from herdcli.markov.method import Map
from herdcli.markov.model.network import Factor, Network
from herdcli.markov.model.possible_states import IMPOSSIBLE
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class PropagationResult:
    """Marginals of variables and of factors (where they were asked for), and log Z."""

    nodes: list[Array]
    factors: list[Factor]
    log_z: float


@dataclass(frozen=True)
class MarginalTarget:
    """A marginal over some axes of a clique, summed from its slabs (source −1) or from an earlier target."""

    axes: tuple[int, ...]
    source: int


def propagate(
    network: Network,
    tree: JunctionTreeLayout,
    plan: MessageSchedule,
    *,
    whole: bool = True,
    messages: MessageStore | None = None,
    map: Map = map,
    columns: Sequence[PossibleColumns | None] | None = None,
) -> PropagationResult:
    """Collect towards the root, then distribute.  Raises NegativeResult if no state has a probability.

    whole  with marginals of factors too.  map  has the workers.  columns  of the messages that hold possible states alone.
    """
    some = [None] * len(tree.scopes) if columns is None else columns
    try:
        return PropagationRun(network, tree, plan, whole, messages or MemoryMessageStore(), map, some, LinearArithmetic()).found()
    except FloatingPointError:
        pass  # what the first run holds goes with the error
    return PropagationRun(network, tree, plan, whole, messages or MemoryMessageStore(), map, some, LogArithmetic()).found()


class PropagationRun(CliqueProducts):
    """One propagation."""

    def __init__(
        self,
        network: Network,
        tree: JunctionTreeLayout,
        plan: MessageSchedule,
        whole: bool,
        messages: MessageStore,
        map: Map,
        columns: Sequence[PossibleColumns | None],
        arithmetic: Arithmetic,
    ) -> None:
        super().__init__(network, tree, messages, map, columns, arithmetic)
        self.plan, self.whole = plan, whole
        self.waiting = waiting_cliques(tree, plan.sequence, plan.cuts)
        self.wanted: list[list[tuple[int, list[int]]]] = [[(a, self.scopes[a]) for a in own] if whole else [] for own in self.homes]
        self.nodes: list[Array] = [np.empty(0)] * network.count
        self.marginals: dict[int, Array] = {}

    def found(self) -> PropagationResult:
        """Both passes."""
        with self.by.held():
            self._collect_all()
            log_z = math.fsum([*self.scales, *self.constants])
            if log_z == -math.inf:
                raise NegativeResult(IMPOSSIBLE)
            self._distribute_all()
            return PropagationResult(self.nodes, self._factor_marginals(), log_z)

    def _collect_all(self) -> None:
        """Towards the root."""
        for t, stretch in enumerate(self._stretches()):
            self._collect(stretch)
            if t < len(self.waiting) - 1:
                left = set(self.waiting[t])
                for k in stretch:
                    if k not in left:
                        self.messages.drop(k)

    def _stretches(self) -> list[list[int]]:
        return [self.plan.sequence[low:high] for low, high in pairwise(self.plan.cuts)]

    def _distribute_all(self) -> None:
        """From the root; all but the last stretch are collected once more."""
        stretches = self._stretches()
        for t in range(len(stretches) - 1, -1, -1):
            if t < len(stretches) - 1:
                told = set(self.waiting[t])  # by their parents, which come after the stretch: nothing in it needs what they sent
                self._collect([k for k in stretches[t] if k not in told])
            for k in reversed(stretches[t]):
                self._distribute(k)
                self.messages.drop(k)

    def _collect(self, stretch: list[int]) -> None:
        """The messages of some cliques to their parents."""
        for k in stretch:
            # 2.21: the product of a clique's factors and of what its children
            # sent, summed over what the parent does not have.
            self.messages.put(k, self._scaled(k, self.up(k, self.sum_fold)[0]))

    def _scaled(self, k: int, sent: Array) -> Array:
        """What clique k sends, with maximum 1."""
        message, self.scales[k] = self.by.scaled(sent)
        if self.scales[k] == -math.inf:
            raise NegativeResult(IMPOSSIBLE)
        return message

    def _told(self, above: Array) -> Array:
        """What a child is told, with maximum 1."""
        return self.by.scaled(above)[0]

    def _normalised(self, table: Array) -> Array:
        """A marginal."""
        return self.by.normalised(table)

    def _distribute(self, k: int) -> None:
        """Marginals of a clique, and what its children are told."""
        own = self.wanted[k]
        wanted = [self._axes_in_clique(k, self.tree.scopes[c][1:]) for c in self.children[k]]
        wanted += [self._axes_in_clique(k, scope) for _, scope in own] + [(0,)]
        made = self._marginals(k, wanted) if self.columns[k] is None else self._marginals_by_columns(k, wanted)
        for c, above in zip(self.children[k], made, strict=False):
            # Hugin (2.24): divided by what the child sent, what is left is
            # what all others say; 0/0 is 0.
            self.messages.put(c, self._told(self.by.over(above, self.messages.get(c))))
        for (a, _), table in zip(own, made[len(self.children[k]) :], strict=False):
            self.marginals[a] = self._normalised(table)
        self.nodes[self.tree.scopes[k][0]] = self.by.normalised(made[-1])

    def _marginals(self, k: int, wanted: list[tuple[int, ...]]) -> list[Array]:
        """Marginals over some axes each, small ones from larger ones that hold them; of children by their columns."""
        shape = self._shape(k)
        # What the others say has the axes of the separator: all but the first.
        parts = [*self._parts(k), self.messages.get(k)[None]]
        if math.prod(shape) <= SMALL:
            table = slab_product(parts, shape, (), self.by)
            sums = [self.by.total(table, tuple(axis for axis in range(len(shape)) if axis not in axes)) for axes in wanted]
            return self._column_marginals(k, sums)
        plan = marginal_targets(shape, wanted)
        first = [t for t, target in enumerate(plan) if target.source < 0]
        made = {t: np.full([shape[axis] for axis in plan[t].axes], self.by.none) for t in first}

        def summed(prefix: tuple[int, ...]) -> list[Array]:
            with self.by.held():
                table = slab_product(parts, shape, prefix, self.by)
                gone = range(1, 1 + len(prefix))
                inside = [axis for axis in range(len(shape)) if axis not in gone]
                return [self.by.total(table, tuple(at for at, axis in enumerate(inside) if axis not in plan[t].axes)) for t in first]

        for prefix, pieces in self._map_places(slab_indices(shape), summed):
            for t, piece in zip(first, pieces, strict=True):
                whole = made[t]
                at = tuple(prefix[axis - 1] if 1 <= axis <= len(prefix) else slice(None) for axis in plan[t].axes)
                whole[at] = self.by.plus(whole[at], piece)
        for t in sorted(range(len(plan)), key=lambda t: (-math.prod(shape[axis] for axis in plan[t].axes), t)):
            target = plan[t]
            if target.source >= 0:
                axes = plan[target.source].axes
                made[t] = self.by.total(made[target.source], tuple(at for at, axis in enumerate(axes) if axis not in target.axes))
        return self._column_marginals(k, [made[t] for t in range(len(plan))])

    def _column_marginals(self, k: int, made: list[Array]) -> list[Array]:
        """The marginals of a clique, those of children with possible columns over these alone."""
        for t, c in enumerate(self.children[k]):
            if (columns := self.columns[c]) is not None:
                made[t] = made[t].reshape(-1)[columns.all()]
        return made

    def _marginals_by_columns(self, k: int, wanted: list[tuple[int, ...]]) -> list[Array]:
        """The same where clique k has possible columns alone."""
        shape, columns = self._shape(k), self._columns(k)
        parts, told = self._factor_lookups(k), self.messages.get(k)
        inside = [self.columns[c] for c in self.children[k]] + [None] * (len(wanted) - len(self.children[k]))
        goals = [sparse_cliques.empty_goal(shape, axes, among, self.by) for axes, among in zip(wanted, inside, strict=True)]

        def found(piece: tuple[int, Array]) -> tuple[Array, list[Array]]:
            low, column = piece
            with self.by.held():
                table = sparse_cliques.sparse_product(parts, shape[0], column, self.by)
                self.by.times(table, told[low : low + len(column)], out=table)
                return table, [goal.cells(column, shape[0]) for goal in goals]

        for _, (table, cells) in self._map_places(columns.pieces(), found):
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


def marginal_targets(shape: tuple[int, ...], wanted: list[tuple[int, ...]]) -> list[MarginalTarget]:
    """For each marginal the smallest larger one that it can be summed from; of equals the first is summed from the slabs."""
    sizes = [math.prod(shape[axis] for axis in axes) for axes in wanted]
    order = sorted(range(len(wanted)), key=lambda t: (sizes[t], -t))
    rank = {t: at for at, t in enumerate(order)}
    found = []
    for t, axes in enumerate(wanted):
        inside = set(axes)
        larger = (u for u in order[rank[t] + 1 :] if inside <= set(wanted[u]))
        found.append(MarginalTarget(axes, next(larger, -1)))
    return found
