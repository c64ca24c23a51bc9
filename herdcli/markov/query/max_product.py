"""Convergent max-product propagation: most probable states for networks too large for elimination, and an upper bound.

The messages of each factor to its variables are updated together,

    λ_ai(x_i) = (1/|a|) max_{x_a \\ i} [log f_a + Σ_{j ∈ a} b_j^{−a}] − b_i^{−a},     b_i^{−a} = log f_i + Σ_{c ≠ a} λ_ci,

which is coordinate descent on the dual of the linear relaxation, so that the bound Σ_i max b_i + Σ_a max(log f_a − Σ_i λ_ai) never
increases.  States are decoded from b, and improved by exact elimination of parts of the network with the rest fixed.
Source: Globerson & Jaakkola (2007), "Fixing max-product"; Sontag, Globerson & Jaakkola (2011), sec. 1.6.
"""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import RunProgress
from herdcli.errors import NegativeResult
from herdcli.markov.exact.elimination import moral_graph
from herdcli.markov.method import InferenceSettings, Stepwise
from herdcli.markov.model.network import Network
from herdcli.markov.model.restricted_states import restrict_to_possible_states
from herdcli.markov.model.stacked_tables import FactorGroup, colour_factors, group_factors_by_shape, state_offsets
from herdcli.markov.query import mini_bucket
from herdcli.markov.query.constrained_orders import find_greedy_order
from herdcli.markov.query.exact_queries import MostProbableStates
from herdcli.markov.query.log_tables import LogTable, elimination_positions, factor_log_tables
from herdcli.markov.query.neighbourhood_search import NeighbourhoodSearch, improve_states, soft_log_score
from herdcli.records import dataclass
from herdcli.schema import Array

FORBIDDEN = -1e4  # replaces log 0: raising it leaves a bound valid
GAIN = 1e-6  # propagation ends when a sweep decreases the bound by less than this share
PATIENCE = 5  # number of sweeps with so little decrease
READ = 10  # number of sweeps between two decodings of states


@dataclass
class MaxProductState:
    """Messages, concatenated; the best states and their log value; the bound after each sweep.

    idle  number of sweeps with little decrease, then of search steps without improvement.
    """

    message: Array
    states: Array
    value: float
    bound: Array
    idle: int
    step: int


class MaxProduct(Stepwise[MaxProductState]):
    """Max-product; each step is a sweep over all factors, and the last steps search around the best states.

    Factors that share no variable are updated together.
    """

    state = MaxProductState

    def __init__(self, network: Network, settings: InferenceSettings, effort: int, patience: int | None = None) -> None:
        """Prepare the network.

        effort    number of steps of the search around the best states.
        patience  number of these steps without improvement after which it ends.
        """
        self.network, self.settings, self.patience = network, settings, patience
        self.inner = restrict_to_possible_states(network)
        small = self.inner.network
        self.first = state_offsets(small)
        self.groups: list[FactorGroup] = [group for part in colour_factors(small) for group in group_factors_by_shape(small, part)]
        self.logs = [np.maximum(group.logs, FORBIDDEN) for group in self.groups]
        self.search = NeighbourhoodSearch(small, settings.seed)
        self.sweeps, self.effort = settings.iterations, effort
        self.steps = self.sweeps + effort
        self.order = find_greedy_order(
            moral_graph(small), small.cardinality.tolist(), (0,) * small.count, list(range(small.count)), True, np.inf
        ).order  # an order with tables of any size, since mini-buckets bound its cost

    def init(self) -> MaxProductState:
        """Return zero messages, with the states and the bound of mini-buckets."""
        small = self.inner.network
        size = sum(group.first.shape[0] * sum(group.logs.shape[1:]) for group in self.groups)
        bound, states = np.inf, np.zeros(small.count, dtype=np.int64)
        if len(self.order) == small.count:
            told = mini_bucket.compute_mini_bucket_bound(small, self.order.tolist(), frozenset(range(small.count)))
            bound = told.bound
            states = np.array([told.states[i] for i in range(small.count)])
        return MaxProductState(np.zeros(size), states, soft_log_score(self.search, states), np.array([bound]), 0, 0)

    def done(self, state: MaxProductState) -> bool:
        """Return True if all steps are done, or the states reach the bound."""
        if self.patience is not None and state.step > self.sweeps and state.idle >= self.patience:
            return True
        return state.step >= self.steps or state.value >= state.bound.min() - 1e-9 * (1 + abs(state.value))

    def progress(self, state: MaxProductState) -> RunProgress:
        """The number of steps done, and the gap between the states and the bound."""
        return RunProgress(state.step, self.steps, f"gap {state.bound.min() - state.value:.4g}" if state.step else "")

    def step(self, state: MaxProductState) -> MaxProductState:
        """Do a sweep of messages, or after these a search step around the best states."""
        if state.step < self.sweeps:
            self._sweep_messages(state)
        else:
            found, before = improve_states(self.search, state.states, state.step), state.value
            state.states, state.value = found, soft_log_score(self.search, found)
            state.idle = 0 if state.value > before or state.step == self.sweeps else state.idle + 1
        state.step += 1
        return state

    def _sweep_messages(self, state: MaxProductState) -> None:
        belief = np.zeros(int(self.first[-1]))
        views = self._message_views(state.message)
        for group, rows in zip(self.groups, views, strict=True):
            for axis, row in enumerate(rows):
                np.add.at(belief, group.state_positions(axis), row)
        for group, logs, rows in zip(self.groups, self.logs, views, strict=True):
            before = []
            total = logs
            for axis, row in enumerate(rows):
                before.append(belief[group.state_positions(axis)] - row)
                total = total + group.broadcast_along_axis(before[-1], axis)
            for axis, row in enumerate(rows):
                # Each variable of the factor gets an equal part of the maximum.  Then no message of this factor can lower the bound further
                # with all others fixed (Globerson & Jaakkola 2007, prop. 1), and b_i = (1/|a|) max is its share.
                now = total.max(axis=group.other_axes(axis)) / group.width
                belief[group.state_positions(axis)] = now
                row[...] = now - before[axis]
        state.bound = np.append(state.bound, self._dual_bound(belief, views))
        little = state.bound[-2] - state.bound[-1] < GAIN * (1 + abs(state.bound[-1])) if state.step else False
        state.idle = state.idle + 1 if little else 0
        over = state.idle >= PATIENCE or state.step + 1 == self.sweeps
        if over or state.step % READ == READ - 1:
            self._decode_states(state, belief)
        if over:
            state.step = self.sweeps - 1

    def _message_views(self, message: Array) -> list[list[Array]]:
        made, at = [], 0
        for group in self.groups:
            rows = []
            for axis in range(group.width):
                shape = len(group.number), group.logs.shape[axis + 1]
                rows.append(message[at : at + shape[0] * shape[1]].reshape(shape))
                at += shape[0] * shape[1]
            made.append(rows)
        return made

    def _dual_bound(self, belief: Array, views: list[list[Array]]) -> float:
        """Return the dual: Σ_i max b_i + Σ_a max(log f_a − Σ λ_ai)."""
        total = float(np.maximum.reduceat(belief, self.first[:-1]).sum())
        for group, logs, rows in zip(self.groups, self.logs, views, strict=True):
            left = logs
            for axis, row in enumerate(rows):
                left = left - group.broadcast_along_axis(row, axis)
            total += float(left.reshape(len(left), -1).max(axis=1).sum())
        return total

    def _decode_states(self, state: MaxProductState, belief: Array) -> None:
        """Decode the states that b prefers, and improve them factor by factor."""
        chosen = np.array([int(part.argmax()) for part in np.split(belief, self.first[1:-1])])
        found = self.search.decode_greedily(chosen, belief, self.first)
        value = soft_log_score(self.search, found)
        if value > state.value:
            state.states, state.value = found, value

    def possibly_better_states(self, state: MaxProductState) -> list[Array]:
        """Return, for each variable, the states that an assignment better than the best so far may have, and the state that the best has.

        Σ_i max b_i + Σ_a max (log f_a − Σ_i λ_ai) is a bound on all assignments.  For those with a given x_i the bound is lower by the
        amount by which b_i(x_i) and the terms of the factors over i are below their maxima.  If this lower bound is below the value of the
        best states, no better assignment contains x_i (reduced-cost fixing, as for linear programs: Cooper et al. 2010, sec. 3).
        """
        belief, views = np.zeros(int(self.first[-1])), self._message_views(state.message)
        for group, rows in zip(self.groups, views, strict=True):
            for axis, row in enumerate(rows):
                np.add.at(belief, group.state_positions(axis), row)
        tops = np.maximum.reduceat(belief, self.first[:-1])
        lost, bound = np.repeat(tops, np.diff(self.first)) - belief, float(tops.sum())
        for group, logs, rows in zip(self.groups, self.logs, views, strict=True):
            left = logs
            for axis, row in enumerate(rows):
                left = left - group.broadcast_along_axis(row, axis)
            peak = left.reshape(len(left), -1).max(axis=1)
            bound += float(peak.sum())
            for axis in range(group.width):
                np.add.at(lost, group.state_positions(axis), peak[:, None] - left.max(axis=group.other_axes(axis)))
        stays = bound - lost >= state.value - 1e-9 * (1 + abs(bound))
        stays[self.first[:-1] + state.states] = True
        return [np.flatnonzero(part) for part in np.split(stays, self.first[1:-1])]

    def reparametrised_tables(self, state: MaxProductState) -> list[LogTable]:
        """Return log tables with the same sum as the factors', log f_a − Σ_i λ_ai and Σ_a λ_ai, by position in the elimination order."""
        small, place = self.inner.network, elimination_positions(self.inner.network, self.order.tolist())
        belief, made = np.zeros(int(self.first[-1])), []
        factors = factor_log_tables(small, place)
        for group, rows in zip(self.groups, self._message_views(state.message), strict=True):
            for axis, row in enumerate(rows):
                np.add.at(belief, group.state_positions(axis), row)
            for k, a in enumerate(group.number.tolist()):
                logs, scope = factors[a].logs, factors[a].scope
                for i, row in zip(small.factor_scope(a), rows, strict=True):
                    logs = logs - row[k].reshape([-1 if j == i else 1 for j in scope])
                made.append(LogTable(scope, logs))
        return made + [LogTable((i,), belief[self.first[i] : self.first[i + 1]]) for i in range(small.count) if small.cardinality[i] > 1]

    def bytes_needed(self, state: MaxProductState) -> tuple[int, str]:
        """Return the bytes of the stacked tables, and their purpose in words."""
        return 24 * len(self.inner.network.table), "max-product propagation"

    def result(self, state: MaxProductState) -> MostProbableStates:
        """Return the best states found.  Raises NegativeResult if none of them had a nonzero probability."""
        constant = self.inner.constant
        if state.value <= FORBIDDEN / 2 and self.search.value(state.states) == -np.inf:
            hint = "raise --max-memory, for an exact answer, or --effort, to search longer"
            raise NegativeResult("max-product found no states with a probability above 0, though some may exist", hint=hint)
        value = self.search.value(state.states) + constant
        bound = max(value, float(state.bound.min()) + constant)
        states = self.inner.original_states(dict(enumerate(state.states.tolist())))
        return MostProbableStates(states, value, bound, bound - value <= 1e-9 * (1 + abs(value)), "max-product", state.step)
