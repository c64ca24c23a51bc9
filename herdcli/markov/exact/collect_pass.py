"""Sums and maxima over all variables except some, by one pass towards the root of a junction tree.

The inputs of a message are freed once it is sent, so that few messages wait at any time.  For a maximised variable the best
state is kept: one byte for each state of the other variables of its clique, or only for the possible ones if these are few
(`sparse_cliques`).  Numbers are probabilities scaled to maximum 1.  If a product underflows or overflows float64, the pass
is repeated in logarithms.

    log-sum       log Σ_x Π f_a(x)                          maximum      max_x Π f_a(x), and its arguments
    sums, maxima  max_m Σ_s Π f_a(m, s): sums come first    rest         Σ over all but x_A of Π f_a(x), a table

Source: Dechter (1999), bucket elimination; Sethi & Ullman (1970) for the order of the pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import NegativeResult
from herdcli.markov.exact import cost_forecast, junction_tree, message_storage, sparse_cliques
from herdcli.markov.exact.clique_products import CliqueProducts
from herdcli.markov.exact.message_storage import MemoryMessageStore, MessageStore
from herdcli.markov.exact.table_arithmetic import SLABS, Arithmetic, LinearArithmetic, LogArithmetic, max_and_argmax
from herdcli.markov.model import possible_states
from herdcli.markov.model.network import Network
from herdcli.markov.model.possible_states import IMPOSSIBLE, TrimmedNetwork
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class EliminationPassResult:
    """The result of a pass.

    value   log Σ or log max over the eliminated variables, including the logarithm of the constant that the table was divided by.
    rest    scaled table of the remaining variables, with axes in the order of `kept`.
    states  best state of each maximised variable.
    """

    value: float
    rest: Array
    states: dict[int, int]


class EliminationPassPlan:
    """The cliques of an elimination order, and the memory that a pass over them needs.

    order    the variables to eliminate, summed ones before maximised ones.
    kept     the variables that remain.
    trimmed  the network without the states that its zeros make impossible.
    limit    memory in bytes that may be used to find the entries that zeros exclude.
    """

    def __init__(
        self,
        trimmed: TrimmedNetwork,
        order: Sequence[int],
        maximised: Sequence[int] = (),
        kept: Sequence[int] = (),
        limit: float = math.inf,
    ) -> None:
        self.trimmed, self.network = trimmed, trimmed.network
        self.maximised, self.kept = frozenset(maximised), tuple(kept)
        left = [i for i in order if i not in set(kept)]
        self.leaving = len(left)
        self.tree = junction_tree.build_clique_tree(self.network, np.array([*left, *kept], dtype=np.int64))
        states = self.network.cardinality.tolist()
        sizes = [math.prod(states[i] for i in scope) for scope in self.tree.scopes[: self.leaving]]
        self.cells, self.largest = sum(sizes), max(sizes, default=0)
        self.columns = sparse_cliques.possible_columns_if_worthwhile(self.network, self.tree, self.cells, limit)
        self.sequence, self.most, self.together = message_storage.plan_collect_pass(self.tree, self.network, self.columns)
        self.messages: MessageStore | None = None
        self.choices: MessageStore | None = None

    @property
    def has_sparse_messages(self) -> bool:
        """True if some messages contain only possible states."""
        return any(columns is not None for columns in self.columns)

    def _choice_bytes(self) -> int:
        states: list[int] = self.network.cardinality.tolist()
        found = 0
        for scope, columns in zip(self.tree.scopes, self.columns, strict=True):
            if scope[0] in self.maximised:
                cells = math.prod(states[i] for i in scope[1:]) if columns is None else columns.count
                found += np.min_scalar_type(max(1, states[scope[0]] - 1)).itemsize * cells
        return found

    def _working_array_size(self) -> int:
        """Return how many numbers the slabs and the table of remaining variables need."""
        states: list[int] = self.network.cardinality.tolist()
        return min(3 * self.largest, SLABS) + 3 * math.prod(states[i] for i in self.kept)

    def bytes_needed(self) -> int:
        """Return the bytes of memory, if nothing is stored in a file."""
        return self.storage_plans()[0][0]

    def storage_plans(self) -> list[tuple[int, int]]:
        """Return (bytes of memory, bytes of a file) for three choices.

        The file contains nothing, the best states, or the best states and the messages.
        """
        best, working = self._choice_bytes(), self._working_array_size()
        return [
            (8 * (self.most + working) + best, 0),
            (8 * (self.most + working) + min(best, 8 * self.largest), best),
            (8 * (self.together + working) + min(best, 8 * self.largest), best + 8 * self.most),
        ]

    def with_message_stores(self, choices: MessageStore | None, messages: MessageStore | None) -> EliminationPassPlan:
        """Return the same plan with these stores for best states and messages."""
        made = copy(self)
        made.choices, made.messages = choices, messages
        return made

    def estimate_cost(self) -> tuple[float, int]:
        """Estimate the seconds and bytes that the pass needs."""
        told = cost_forecast.estimate_propagation_seconds(self.tree, self.network, self.columns, with_marginals=False)
        rest = 3 * math.prod(self.network.cardinality[list(self.kept)].tolist())
        size = 8 * (self.most + rest + cost_forecast.working_array_size(self.largest)) + self._choice_bytes()
        return told, size + cost_forecast.estimate_object_bytes(self.tree, self.network)

    def run_elimination(self, map: Map = map) -> EliminationPassResult:
        """Return sums, maxima and the remaining table.  Raises NegativeResult if no state is possible."""
        return self._run_pass(map).backtrack_result()

    def value(self, map: Map = map) -> float:
        """Return the logarithm of the result of all sums and maxima, in any order; use it if the states are not needed."""
        return self._run_pass(map).value()

    def _run_pass(self, map: Map) -> _PassRun:
        try:
            return _PassRun(self, LinearArithmetic(), map).run_collection()
        except FloatingPointError:
            pass  # the references that the first pass holds are released with the error
        return _PassRun(self, LogArithmetic(), map).run_collection()


def plan_elimination_pass(
    network: Network, order: Sequence[int], maximised: Sequence[int] = (), remaining_variables: Sequence[int] = ()
) -> EliminationPassPlan:
    """Plan a pass over an untrimmed network.  Raises NegativeResult if its zeros leave a variable no state."""
    return EliminationPassPlan(possible_states.remove_impossible_states(network), order, maximised, remaining_variables)


class _PassRun(CliqueProducts):
    """One run of the pass."""

    def __init__(self, plan: EliminationPassPlan, arithmetic: Arithmetic, map: Map) -> None:
        super().__init__(plan.network, plan.tree, plan.messages or MemoryMessageStore(), map, plan.columns, arithmetic)
        self.given = plan
        self.choices = plan.choices or MemoryMessageStore()
        self.rest, self.scale = np.empty(0), 0.0

    def run_collection(self) -> _PassRun:
        """Run the pass and return self."""
        with self.by.error_handling():
            for k in self.given.sequence:
                if k < self.given.leaving:
                    self._send_message(k)
            self.rest, self.scale = self.by.scale_to_maximum(self._remaining_table())
        return self

    def value(self) -> float:
        """Return the logarithm of the product of all constants that were divided out.  Raises NegativeResult if no state is possible."""
        value = math.fsum([*self.scales, *self.constants, self.scale])
        if value == -math.inf:
            raise NegativeResult(IMPOSSIBLE)
        return value

    def backtrack_result(self) -> EliminationPassResult:
        """Return the remaining table, and the best states by backtracking."""
        return EliminationPassResult(self.value(), self._expand_remaining_table(self.rest), self._backtrack_states())

    def _send_message(self, k: int) -> None:
        """Compute the message of a clique, and free those of its children."""
        if self.tree.scopes[k][0] in self.given.maximised:
            sent, best = self.fold_clique_product(k, max_and_argmax)
            self.choices.put(k, best)
        else:
            (sent,) = self.fold_clique_product(k, self.fold_by_sum)
        message, self.scales[k] = self.by.scale_to_maximum(sent)
        if self.scales[k] == -math.inf:
            raise NegativeResult(IMPOSSIBLE)
        for c in self.children[k]:
            self.messages.drop(c)
        if self.tree.parent[k] >= 0:
            self.messages.put(k, message)

    def _remaining_table(self) -> Array:
        """Return the product of the remaining tables over the remaining variables, with one axis for each, in order."""
        kept = [scope[0] for scope in self.tree.scopes[self.given.leaving :]]
        made = np.full([self.states[i] for i in kept], self.by.one)
        for k in range(self.given.leaving, len(self.tree.scopes)):
            inside = set(self.tree.scopes[k])
            for part in (
                *self.factors[k],
                *(self._reshape_to_clique(self._expand_message(c), self.tree.scopes[c][1:], k) for c in self._finished_children(k)),
            ):
                sizes = dict(zip(self.tree.scopes[k], part.shape, strict=True))
                self.by.multiply(made, part.reshape([sizes[i] if i in inside else 1 for i in kept]), out=made)
        return made

    def _finished_children(self, k: int) -> list[int]:
        return [c for c in self.children[k] if c < self.given.leaving]

    def _expand_remaining_table(self, rest: Array) -> Array:
        """Return the table of the remaining variables over all their states, with 0 for removed states; the largest value is 1."""
        numbers = np.exp(rest) if isinstance(self.by, LogArithmetic) else rest
        stays = self.given.trimmed.kept
        if stays is None:
            return numbers
        whole = np.zeros([len(stays[i]) for i in self.given.kept])
        whole[np.ix_(*(stays[i] for i in self.given.kept))] = numbers
        return whole

    def _backtrack_states(self) -> dict[int, int]:
        """Return the best state of each maximised variable, looked up after those of the later variables (Dechter 1999)."""
        x: dict[int, int] = {}
        stays = self.given.trimmed.kept
        for k in range(self.given.leaving - 1, -1, -1):
            i, *others = self.tree.scopes[k]
            if i not in self.given.maximised:
                continue
            best, columns = self.choices.get(k), self.columns[k]
            if columns is None:
                x[i] = int(best[tuple(x[j] for j in others)])
            else:
                column = np.ravel_multi_index([x[j] for j in others], [self.states[j] for j in others])
                x[i] = int(best[int(columns.rank_columns(np.array([column]))[0][0])])
        return x if stays is None else {i: int(np.flatnonzero(stays[i])[state]) for i, state in x.items()}
