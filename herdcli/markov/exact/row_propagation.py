"""One propagation for many sets of evidence: rows are the last axis of every table, and rows do not influence each other.

Each row is scaled separately, so that rows may differ in probability by any factor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import NegativeResult
from herdcli.markov.exact import junction_tree, message_storage
from herdcli.markov.exact.junction_tree import JunctionTreeLayout
from herdcli.markov.exact.message_storage import MemoryMessageStore
from herdcli.markov.exact.streamed_propagation import PropagationRun
from herdcli.markov.exact.table_arithmetic import Arithmetic, LinearArithmetic, LogArithmetic
from herdcli.markov.model.network import Factor, Network, build_network, drop_single_state_variables
from herdcli.records import dataclass
from herdcli.schema import Array


class ImpossibleEvidence(NegativeResult):
    """The evidence of a row has probability 0."""

    def __init__(self, row: int) -> None:
        super().__init__(f"the evidence of row {row} has probability 0")
        self.row = row


@dataclass(frozen=True)
class RowResults:
    """The results of a propagation for each row.

    marginals  (…, rows) of each requested variable or factor, with its axes in their own order; NaN for impossible rows.
    log_z      log Z of each row; −∞ for impossible rows.  Impossible rows are only included on request.
    """

    marginals: list[Array]
    log_z: Array


def propagate_rows(
    network: Network,
    order: Array,
    allowed: Sequence[Array],
    factors_instead: bool = False,
    map: Map = map,
    *,
    allow_impossible: bool = False,
) -> RowResults:
    """Compute marginals of all variables, or of all `factors_instead` (the factors), given the allowed states (states, rows) of each
    variable.

    allow_impossible  accept rows of probability 0; otherwise they raise ImpossibleEvidence.
    """
    last, rows = network.count, allowed[0].shape[1]
    evidence: list[Factor] = [((i, last), possible.astype(np.float64)) for i, possible in enumerate(allowed)]
    # Whole scopes, including variables of one state: every clique contains the row variable, because every variable has a factor with it.
    whole = build_network(
        [*network.cardinality.tolist(), rows], [*evidence, *(drop_single_state_variables(network, factor) for factor in network.factors())]
    )
    tree = junction_tree.build_clique_tree(whole, np.append(order, last), keep_single_states=True)
    asked = [[i, last] for i in range(last)]
    if factors_instead:
        asked = [[*(i for i in scope if network.cardinality[i] > 1), last] for scope, _ in network.factors()]
    homes = [tree.home[a + (last if factors_instead else 0)] for a in range(len(asked))]
    try:
        return _RowPropagation(whole, tree, asked, homes, map, LinearArithmetic(), allow_impossible).run_rows()
    except FloatingPointError:
        pass  # the references that the first run holds are released with the error
    return _RowPropagation(whole, tree, asked, homes, map, LogArithmetic(), allow_impossible).run_rows()


class _RowPropagation(PropagationRun):
    """One propagation.  Impossible rows continue as if they had no evidence, and are marked."""

    def __init__(
        self,
        network: Network,
        tree: JunctionTreeLayout,
        asked: list[list[int]],
        homes: list[int],
        map: Map,
        arithmetic: Arithmetic,
        impossible: bool,
    ) -> None:
        plan = message_storage.single_stretch_schedule(tree, network)
        super().__init__(network, tree, plan, False, MemoryMessageStore(), map, [None] * len(tree.scopes), arithmetic)
        self.asked = asked
        self.scaling: list[Array] = []
        self.lets_in, self.dead = impossible, np.zeros(int(network.cardinality[-1]), dtype=bool)
        for a, (k, scope) in enumerate(zip(homes, asked, strict=True)):
            self.wanted[k].append((a, scope))

    def run_rows(self) -> RowResults:
        """Run both passes."""
        with self.by.error_handling():
            self._collect_all()
            self._distribute_all()
        log_z = np.full(int(self.network.cardinality[-1]), math.fsum(self.constants))
        for scale in self.scaling:
            log_z = log_z + scale
        made = []
        for a, scope in enumerate(self.asked):
            order = sorted(scope, key=self.tree.position.__getitem__)
            made.append(self.marginals[a].transpose([order.index(i) for i in scope]))
        if self.dead.any():
            log_z[self.dead] = -math.inf
            for marginal in made:
                marginal[..., self.dead] = np.nan
        return RowResults(made, log_z)

    def _row_maxima(self, table: Array) -> Array:
        """Return the largest value of each row."""
        top: Array = table.max(axis=tuple(range(table.ndim - 1)))
        return top

    def _scale_upward_message(self, k: int, unscaled_message: Array) -> Array:
        if unscaled_message.ndim == 0:  # the rows themselves were summed
            return np.asarray(self.by.one)
        top = self._row_maxima(unscaled_message)
        if (none := top == self.by.none).any():
            if not self.lets_in:
                raise ImpossibleEvidence(int(np.argmax(none)))
            self.dead |= none
            top = self._row_maxima(self._neutralise_impossible(unscaled_message))
        linear = isinstance(self.by, LinearArithmetic)
        self.scaling.append(np.log(top) if linear else top)
        return unscaled_message / top if linear else unscaled_message - top

    def _neutralise_impossible(self, table: Array) -> Array:
        """Set impossible rows of the table to one, in place."""
        if self.dead.any():
            table[..., self.dead] = self.by.one
        return table

    def _scale_downward_message(self, message: Array) -> Array:
        top = self._row_maxima(self._neutralise_impossible(message))
        return message / top if isinstance(self.by, LinearArithmetic) else message - top

    def _normalise_marginal(self, table: Array) -> Array:
        if table.ndim:
            self._neutralise_impossible(table)
        if table.ndim == 0 or isinstance(self.by, LinearArithmetic):
            made: Array = table / table.sum(axis=tuple(range(table.ndim - 1)))
            return made
        p = np.exp(table - self._row_maxima(table))
        found: Array = p / p.sum(axis=tuple(range(table.ndim - 1)))
        return found
