"""Exact marginals and log Z with only messages in memory: clique tables are computed slab by slab, and freed once they have been summed.

Of the junction tree's numbers only the messages are stored, one for each separator, which has one variable less than its clique.
Towards the root a clique multiplies its factors and its children's messages, and sums its first variable out.  On the way back its
product is computed again, times the message from its parent.  It gives the marginals of its first variable, of its factors and of its
children's separators.  The latter, divided by the children's messages, are the messages to the children (Hugin propagation; Jensen,
Lauritzen & Olesen 1990).  No clique is ever completely in memory, and several threads may compute the slabs of one: slabs and sums are
the same for any number of threads.
Numbers are probabilities scaled to maximum 1, which is many times faster than logarithms.  A product that underflows raises
FloatingPointError, and the propagation is repeated in logarithms.  So nonzero values are never lost, and keep their relative precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import NegativeResult
from herdcli.markov.exact import sparse_cliques
from herdcli.markov.exact.clique_products import CliqueProducts
from herdcli.markov.exact.junction_tree import JunctionTreeLayout
from herdcli.markov.exact.message_storage import MemoryMessageStore, MessageSchedule, MessageStore, waiting_cliques_by_stretch
from herdcli.markov.exact.separator_states import PossibleColumns
from herdcli.markov.exact.table_arithmetic import SMALL, Arithmetic, LinearArithmetic, LogArithmetic, slab_indices, slab_product
from herdcli.markov.model.network import Factor, Network
from herdcli.markov.model.possible_states import IMPOSSIBLE
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class PropagationResult:
    """Marginals of variables and of factors (if requested), and log Z."""

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
    with_factor_marginals: bool = True,
    messages: MessageStore | None = None,
    map: Map = map,
    possible_columns: Sequence[PossibleColumns | None] | None = None,
) -> PropagationResult:
    """Collect towards the root, then distribute.  Raises NegativeResult if no state has a probability.

    with_factor_marginals    also compute the marginals of factors.
    map      like the built-in `map`, perhaps over workers.
    possible_columns  for each message its possible states, if it contains only these.
    """
    some = [None] * len(tree.scopes) if possible_columns is None else possible_columns
    try:
        return PropagationRun(
            network, tree, plan, with_factor_marginals, messages or MemoryMessageStore(), map, some, LinearArithmetic()
        ).run_propagation()
    except FloatingPointError:
        pass  # the references that the first run holds are released with the error
    return PropagationRun(
        network, tree, plan, with_factor_marginals, messages or MemoryMessageStore(), map, some, LogArithmetic()
    ).run_propagation()


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
        self.waiting = waiting_cliques_by_stretch(tree, plan.sequence, plan.cuts)
        self.wanted: list[list[tuple[int, list[int]]]] = [[(a, self.scopes[a]) for a in own] if whole else [] for own in self.homes]
        self.nodes: list[Array] = [np.empty(0)] * network.count
        self.marginals: dict[int, Array] = {}

    def run_propagation(self) -> PropagationResult:
        """Run both passes and return the result."""
        with self.by.error_handling():
            self._collect_all()
            log_z = math.fsum([*self.scales, *self.constants])
            if log_z == -math.inf:
                raise NegativeResult(IMPOSSIBLE)
            self._distribute_all()
            return PropagationResult(self.nodes, self._factor_marginals(), log_z)

    def _collect_all(self) -> None:
        """Collect all messages towards the root."""
        for t, stretch in enumerate(self._clique_stretches()):
            self._collect_stretch(stretch)
            if t < len(self.waiting) - 1:
                left = set(self.waiting[t])
                for k in stretch:
                    if k not in left:
                        self.messages.drop(k)

    def _clique_stretches(self) -> list[list[int]]:
        return [self.plan.sequence[low:high] for low, high in pairwise(self.plan.cuts)]

    def _distribute_all(self) -> None:
        """Distribute from the root; all stretches except the last are collected once more."""
        stretches = self._clique_stretches()
        for t in range(len(stretches) - 1, -1, -1):
            if t < len(stretches) - 1:
                # Messages of this stretch were dropped, so it is collected again: twice the work, but few messages wait at a time.
                told = set(self.waiting[t])  # parents after the stretch replaced these messages; the stretch does not need the old ones
                self._collect_stretch([k for k in stretches[t] if k not in told])
            for k in reversed(stretches[t]):
                self._distribute_from_clique(k)
                self.messages.drop(k)

    def _collect_stretch(self, stretch: list[int]) -> None:
        """Compute the messages of some cliques to their parents."""
        for k in stretch:
            # 2.21: the product of a clique's factors and of its children's messages, summed over the variables that the parent does not
            # have.
            self.messages.put(k, self._scale_upward_message(k, self.fold_clique_product(k, self.fold_by_sum)[0]))

    def _scale_upward_message(self, k: int, unscaled_message: Array) -> Array:
        """Scale the message of clique k to maximum 1."""
        message, self.scales[k] = self.by.scale_to_maximum(unscaled_message)
        if self.scales[k] == -math.inf:
            raise NegativeResult(IMPOSSIBLE)
        return message

    def _scale_downward_message(self, message: Array) -> Array:
        """Scale a message to a child to maximum 1."""
        return self.by.scale_to_maximum(message)[0]

    def _normalise_marginal(self, table: Array) -> Array:
        """Normalise a marginal."""
        return self.by.normalise(table)

    def _distribute_from_clique(self, k: int) -> None:
        """Compute the marginals of a clique, and the messages to its children."""
        own = self.wanted[k]
        wanted = [self._axes_in_clique(k, self.tree.scopes[c][1:]) for c in self.children[k]]
        wanted += [self._axes_in_clique(k, scope) for _, scope in own] + [(0,)]
        made = self._clique_marginals(k, wanted) if self.columns[k] is None else self._marginals_by_columns(k, wanted)
        for c, above in zip(self.children[k], made, strict=False):
            # Hugin (2.24): the separator marginal divided by the child's message is the message from all others; 0/0 is 0.
            self.messages.put(c, self._scale_downward_message(self.by.divide(above, self.messages.get(c))))
        for (a, _), table in zip(own, made[len(self.children[k]) :], strict=False):
            self.marginals[a] = self._normalise_marginal(table)
        self.nodes[self.tree.scopes[k][0]] = self.by.normalise(made[-1])

    def _clique_marginals(self, k: int, axes_of_marginals: list[tuple[int, ...]]) -> list[Array]:
        """Compute marginals over given axes, small ones from larger ones that contain them; those of children by their columns."""
        shape = self._clique_shape(k)
        # The message from the parent has the axes of the separator: all except the first.
        parts = [*self._clique_tables(k), self.messages.get(k)[None]]
        if math.prod(shape) <= SMALL:
            table = slab_product(parts, shape, (), self.by)
            sums = [self.by.sum_axes(table, tuple(axis for axis in range(len(shape)) if axis not in axes)) for axes in axes_of_marginals]
            return self._restrict_child_marginals(k, sums)
        # The clique's marginal is the product of its factors and of the messages from all sides (2.23), summed slab by slab.
        plan = plan_marginal_targets(shape, axes_of_marginals)
        first = [t for t, target in enumerate(plan) if target.source < 0]
        made = {t: np.full([shape[axis] for axis in plan[t].axes], self.by.none) for t in first}

        def summed(prefix: tuple[int, ...]) -> list[Array]:
            with self.by.error_handling():
                table = slab_product(parts, shape, prefix, self.by)
                gone = range(1, 1 + len(prefix))
                inside = [axis for axis in range(len(shape)) if axis not in gone]
                return [self.by.sum_axes(table, tuple(at for at, axis in enumerate(inside) if axis not in plan[t].axes)) for t in first]

        for prefix, pieces in self._map_in_order(slab_indices(shape), summed):
            for t, piece in zip(first, pieces, strict=True):
                whole = made[t]
                at = tuple(prefix[axis - 1] if 1 <= axis <= len(prefix) else slice(None) for axis in plan[t].axes)
                whole[at] = self.by.plus(whole[at], piece)
        for t in sorted(range(len(plan)), key=lambda t: (-math.prod(shape[axis] for axis in plan[t].axes), t)):
            target = plan[t]
            if target.source >= 0:
                axes = plan[target.source].axes
                made[t] = self.by.sum_axes(made[target.source], tuple(at for at, axis in enumerate(axes) if axis not in target.axes))
        return self._restrict_child_marginals(k, [made[t] for t in range(len(plan))])

    def _restrict_child_marginals(self, k: int, marginals: list[Array]) -> list[Array]:
        """Restrict the marginals of children with possible columns to these."""
        for t, c in enumerate(self.children[k]):
            if (columns := self.columns[c]) is not None:
                marginals[t] = marginals[t].reshape(-1)[columns.all()]
        return marginals

    def _marginals_by_columns(self, k: int, axes_of_marginals: list[tuple[int, ...]]) -> list[Array]:
        """Compute the same marginals if clique k has only possible columns."""
        shape, columns = self._clique_shape(k), self._possible_clique_columns(k)
        parts, told = self._factor_lookups(k), self.messages.get(k)
        inside = [self.columns[c] for c in self.children[k]] + [None] * (len(axes_of_marginals) - len(self.children[k]))
        goals = [
            sparse_cliques.empty_marginal_accumulator(shape, axes, among, self.by)
            for axes, among in zip(axes_of_marginals, inside, strict=True)
        ]

        def run_propagation(piece: tuple[int, Array]) -> tuple[Array, list[Array]]:
            low, column = piece
            with self.by.error_handling():
                table = sparse_cliques.sparse_product(parts, shape[0], column, self.by)
                self.by.multiply(table, told[low : low + len(column)], out=table)
                return table, [goal.cells(column, shape[0]) for goal in goals]

        for _, (table, cells) in self._map_in_order(columns.column_chunks(), run_propagation):
            for goal, cell in zip(goals, cells, strict=True):
                goal.add(cell, table, self.by)
        return [goal.accumulated_marginal() for goal in goals]

    def _factor_marginals(self) -> list[Factor]:
        """Return the marginals in the order of the factors, with their own axes."""
        made: list[Factor] = []
        for a, free in enumerate(self.scopes) if self.whole else ():
            if len(scope := self.network.factor_scope(a)):
                order = sorted(free, key=self.tree.position.__getitem__)
                table = self.marginals[a] if free else np.ones(())
                made.append((scope, table.transpose([order.index(i) for i in free]).reshape([self.states[i] for i in scope])))
        return made


def plan_marginal_targets(shape: tuple[int, ...], marginal_axes: list[tuple[int, ...]]) -> list[MarginalTarget]:
    """Return, for each marginal, the smallest larger one that it can be summed from; of equal ones the first is summed from the slabs."""
    sizes = [math.prod(shape[axis] for axis in axes) for axes in marginal_axes]
    order = sorted(range(len(marginal_axes)), key=lambda t: (sizes[t], -t))
    rank = {t: at for at, t in enumerate(order)}
    found = []
    for t, axes in enumerate(marginal_axes):
        inside = set(axes)
        larger = (u for u in order[rank[t] + 1 :] if inside <= set(marginal_axes[u]))
        found.append(MarginalTarget(axes, next(larger, -1)))
    return found
