"""Sums and maxima over all variables but some, by one pass towards the root of a junction tree.

What a message is made of is gone once it is sent, so that few messages wait at any time; of a variable that is maximised its best
state stays, a byte for each state of its clique's other variables, of the possible ones alone where few are (`sparse_cliques`).  Numbers
are
probabilities scaled to maximum 1; the first product that a float64 does not hold begins the pass again in logarithms.

    log-sum       log Σ_x Π f_a(x)                      maximum      max_x Π f_a(x), and where it is
    sums, maxima  max_m Σ_s Π f_a(m, s): sums leave first             rest         Σ over all but x_A of Π f_a(x), a table

Source: Dechter (1999), bucket elimination; Sethi & Ullman (1970) for the order of the pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy

import numpy as np

from herdcli.errors import NegativeResult
from herdcli.markov.exact import cost_forecast, junction_tree, message_storage, sparse_cliques
from herdcli.markov.exact.clique_products import CliqueProducts
from herdcli.markov.exact.message_storage import MemoryMessageStore, MessageStore
from herdcli.markov.exact.table_arithmetic import SLABS, Arithmetic, LinearArithmetic, LogArithmetic, maximum_and_position
from herdcli.markov.method import Map
from herdcli.markov.model import possible_states
from herdcli.markov.model.network import Network
from herdcli.markov.model.possible_states import IMPOSSIBLE, TrimmedNetwork
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class PassResult:
    """log Σ or log max over what left, the table of what stays (its axes as `kept` names them), scaled, and best states by variable.

    value  includes the logarithm of what the table was divided by.
    """

    value: float
    rest: Array
    states: dict[int, int]


class PassPlan:
    """The cliques of an order, and what of them has to be kept.

    order  of what leaves, sums before maxima.  kept  what stays.  The network is one without states that its zeros make impossible.
    limit  bytes that may be taken to find what zeros leave empty.
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
        self.tree = junction_tree.plan_tree(self.network, np.array([*left, *kept], dtype=np.int64))
        states = self.network.cardinality.tolist()
        sizes = [math.prod(states[i] for i in scope) for scope in self.tree.scopes[: self.leaving]]
        self.cells, self.largest = sum(sizes), max(sizes, default=0)
        self.columns = sparse_cliques.possible_if_worthwhile(self.network, self.tree, self.cells, limit)
        self.sequence, self.most, self.together = message_storage.collect_order(self.tree, self.network, self.columns)
        self.messages: MessageStore | None = None
        self.choices: MessageStore | None = None

    @property
    def sparse(self) -> bool:
        """Do some messages hold possible states alone?"""
        return any(columns is not None for columns in self.columns)

    def _choice_bytes(self) -> int:
        states: list[int] = self.network.cardinality.tolist()
        found = 0
        for scope, columns in zip(self.tree.scopes, self.columns, strict=True):
            if scope[0] in self.maximised:
                cells = math.prod(states[i] for i in scope[1:]) if columns is None else columns.count
                found += np.min_scalar_type(max(1, states[scope[0]] - 1)).itemsize * cells
        return found

    def _working_numbers(self) -> int:
        """Numbers of slabs, and of the table of what stays."""
        states: list[int] = self.network.cardinality.tolist()
        return min(3 * self.largest, SLABS) + 3 * math.prod(states[i] for i in self.kept)

    def bytes_needed(self) -> int:
        """In memory, where nothing goes to a file."""
        return self.storage_plans()[0][0]

    def storage_plans(self) -> list[tuple[int, int]]:
        """(bytes of memory, bytes of a file): nothing in the file, best states there, these and messages there."""
        best, working = self._choice_bytes(), self._working_numbers()
        return [
            (8 * (self.most + working) + best, 0),
            (8 * (self.most + working) + min(best, 8 * self.largest), best),
            (8 * (self.together + working) + min(best, 8 * self.largest), best + 8 * self.most),
        ]

    def placed(self, choices: MessageStore | None, messages: MessageStore | None) -> PassPlan:
        """The same with best states, and messages, kept in these places."""
        made = copy(self)
        made.choices, made.messages = choices, messages
        return made

    def remaining(self) -> tuple[float, int]:
        """Seconds and bytes."""
        told = cost_forecast.propagation_seconds(self.tree, self.network, self.columns, back=False)
        rest = 3 * math.prod(self.network.cardinality[list(self.kept)].tolist())
        size = 8 * (self.most + rest + cost_forecast.working_numbers(self.largest)) + self._choice_bytes()
        return told, size + cost_forecast.object_bytes(self.tree, self.network)

    def answer(self, map: Map = map) -> PassResult:
        """Sums, maxima and what is left.  Raises NegativeResult where nothing is possible."""
        return self._passed(map).answered()

    def value(self, map: Map = map) -> float:
        """The logarithm of what is left of all sums and maxima, in whatever order they come: where states need not exist."""
        return self._passed(map).value()

    def _passed(self, map: Map) -> _PassRun:
        try:
            return _PassRun(self, LinearArithmetic(), map).collected()
        except FloatingPointError:
            pass  # what the first pass holds goes with the error
        return _PassRun(self, LogArithmetic(), map).collected()


def plan_pass(network: Network, order: Sequence[int], maximised: Sequence[int] = (), kept: Sequence[int] = ()) -> PassPlan:
    """Of a network as it is.  Raises NegativeResult where its zeros leave a variable no state."""
    return PassPlan(possible_states.trim_network(network), order, maximised, kept)


class _PassRun(CliqueProducts):
    """One run."""

    def __init__(self, plan: PassPlan, arithmetic: Arithmetic, map: Map) -> None:
        super().__init__(plan.network, plan.tree, plan.messages or MemoryMessageStore(), map, plan.columns, arithmetic)
        self.given = plan
        self.choices = plan.choices or MemoryMessageStore()
        self.rest, self.scale = np.empty(0), 0.0

    def collected(self) -> _PassRun:
        """Itself, after the pass."""
        with self.by.held():
            for k in self.given.sequence:
                if k < self.given.leaving:
                    self._send_message(k)
            self.rest, self.scale = self.by.scaled(self._rest())
        return self

    def value(self) -> float:
        """The logarithm of everything that was divided out.  Raises NegativeResult where nothing is possible."""
        value = math.fsum([*self.scales, *self.constants, self.scale])
        if value == -math.inf:
            raise NegativeResult(IMPOSSIBLE)
        return value

    def answered(self) -> PassResult:
        """What is left, and the way back over best states."""
        return PassResult(self.value(), self._whole_rest(self.rest), self._states())

    def _send_message(self, k: int) -> None:
        """The message of a clique, whose children's are gone after it."""
        if self.tree.scopes[k][0] in self.given.maximised:
            sent, best = self.up(k, maximum_and_position)
            self.choices.put(k, best)
        else:
            (sent,) = self.up(k, self.sum_fold)
        message, self.scales[k] = self.by.scaled(sent)
        if self.scales[k] == -math.inf:
            raise NegativeResult(IMPOSSIBLE)
        for c in self.children[k]:
            self.messages.drop(c)
        if self.tree.parent[k] >= 0:
            self.messages.put(k, message)

    def _rest(self) -> Array:
        """The product of what is over the variables that stay, an axis for each in order."""
        kept = [scope[0] for scope in self.tree.scopes[self.given.leaving :]]
        made = np.full([self.states[i] for i in kept], self.by.one)
        for k in range(self.given.leaving, len(self.tree.scopes)):
            inside = set(self.tree.scopes[k])
            for part in (*self.factors[k], *(self._placed(self._whole(c), self.tree.scopes[c][1:], k) for c in self._receive(k))):
                sizes = dict(zip(self.tree.scopes[k], part.shape, strict=True))
                self.by.times(made, part.reshape([sizes[i] if i in inside else 1 for i in kept]), out=made)
        return made

    def _receive(self, k: int) -> list[int]:
        return [c for c in self.children[k] if c < self.given.leaving]

    def _whole_rest(self, rest: Array) -> Array:
        """Probabilities of what stays over all its states, zeros for those that were taken away; the largest is 1."""
        numbers = np.exp(rest) if isinstance(self.by, LogArithmetic) else rest
        stays = self.given.trimmed.kept
        if stays is None:
            return numbers
        whole = np.zeros([len(stays[i]) for i in self.given.kept])
        whole[np.ix_(*(stays[i] for i in self.given.kept))] = numbers
        return whole

    def _states(self) -> dict[int, int]:
        """The best state of each maximised variable: those that leave later are known when it is looked up (Dechter 1999)."""
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
                x[i] = int(best[int(columns.rank(np.array([column]))[0][0])])
        return x if stays is None else {i: int(np.flatnonzero(stays[i])[state]) for i, state in x.items()}
