"""Loopy belief propagation (sum-product), its schedules and damping; with observed marginals, loopy iterative scaling.

If no node is fixed, an iteration applies (5.23), belief propagation.  If marginals are observed, it applies (5.24) at
those nodes, which is loopy IS (algorithm 5.1).  On trees both are exact.  Source: Teh (2003), sec. 5.3.1 and 5.6.1;
residual schedule: Elidan, McGraw & Koller (2006).
"""

from __future__ import annotations

from dataclasses import field
from typing import Protocol

import numpy as np

from herdcli import fast
from herdcli.algorithm import HasStateShapes
from herdcli.errors import Diverged
from herdcli.markov.bethe import free_energy as bethe
from herdcli.markov.bethe import starts
from herdcli.markov.method import InferenceResult, InferenceSettings, ToTolerance
from herdcli.markov.model.beliefs import make_convergence_attributes
from herdcli.markov.model.network import Network
from herdcli.markov.model.pairwise import PairwiseNetwork, reduce_to_pairwise
from herdcli.records import dataclass
from herdcli.schema import Array

MESSAGES_WITH_ENERGY = 200_000  # with more messages, the free energy is computed every tenth iteration only
SWEPT = 200_000  # with more messages than this, sweeps come before the residual schedule
SMALLEST_MESSAGE = 1e-300  # smallest reliable value of a message whose largest value is 1
PATIENCE = 20  # number of sweeps; the last half of them must have halved the residual


@dataclass
class PropagationState:
    """Messages (flat), and one residual and free energy per iteration.

    pending, tree  next messages and a tournament tree of their changes, for the residual schedule.
    """

    messages: Array
    residual: Array
    free_energy: Array
    updates: Array  # (2,) scaling and propagation updates
    step: int
    pending: Array = field(default_factory=lambda: np.empty(0))
    tree: Array = field(default_factory=lambda: np.empty(0))


class MessagePassingTrace(Protocol):
    """A run on messages with the data for its convergence attributes."""

    residual: Array
    free_energy: Array
    updates: Array
    step: int


class BeliefPropagation(ToTolerance[PropagationState, InferenceSettings], HasStateShapes[PropagationState]):
    """The algorithms `bp` and `loopy-is` on the pairwise reduction of a network."""

    state = PropagationState

    def __init__(self, network: Network, settings: InferenceSettings) -> None:
        self.network, self.settings, self.steps = network, settings, settings.iterations
        self.graph = reduce_to_pairwise(network)
        self.damping = settings.damping_schedule or (settings.damping,)
        self.residual_schedule = settings.schedule in ("auto", "residual") and self.damping == (0.0,)
        # The residual schedule accesses memory randomly; if the messages do not fit into the cache, it takes six times as long as sweeps.
        self.sweeping = self.residual_schedule and settings.schedule == "auto" and 2 * self.graph.edges > SWEPT
        self.fixed, self.target = self.graph.flatten_fixed_marginals(network.stored_marginals())
        self.order = forward_backward_order(self.graph)
        self.scratch = self.graph.scratch()
        self.layout: bethe.BeliefLayout | None = None
        self.note = reduction_note(self.graph)

    def state_template(self) -> PropagationState:
        """Return the initial messages; the arrays of the residual schedule are not filled yet."""
        first = starts.make_initial_messages(self.settings, self.graph)
        state = PropagationState(first, np.empty(0), np.empty(0), np.zeros(2, dtype=np.int64), 0)
        if self.residual_schedule and not self.sweeping:
            self._allocate_residual_arrays(state)
        return state

    def _allocate_residual_arrays(self, state: PropagationState) -> None:
        """Allocate the arrays of the residual schedule."""
        state.pending = state.messages.copy()
        state.tree = np.zeros(2 << max(1, (2 * self.graph.edges - 1).bit_length()))

    def init(self) -> PropagationState:
        """Return uniform messages, or random ones."""
        state = self.state_template()
        if len(state.tree):
            self._compute_next_messages(state)
        return state

    def _compute_next_messages(self, state: PropagationState) -> None:
        """Compute the next value of every message, and how much each would change."""
        every = np.arange(2 * self.graph.edges, dtype=np.int32)
        self._require_possible_message(self._update_messages(every, state.messages, state.pending, 0.0)[1])
        level = largest_relative_changes(state.messages, state.pending, self.graph.message_offset)
        leaves = len(state.tree) // 2
        state.tree[leaves : leaves + len(level)] = level
        while leaves > 1:
            state.tree[leaves // 2 : leaves] = state.tree[leaves : 2 * leaves].reshape(-1, 2).max(axis=1)
            leaves //= 2

    def step(self, state: PropagationState) -> PropagationState:
        """Update every message once (residual schedule: do as many updates as there are messages)."""
        if self.sweeping and not len(state.tree) and has_stalled(state.residual):
            # Sweeps that no longer contract are continued with the residual schedule, which converges more often.
            self._allocate_residual_arrays(state)
            self._compute_next_messages(state)
        if len(state.tree):
            # Residual schedule: the update with the largest pending change is made first; the tree holds the maximum of all changes.
            residual, bad = fast.residual_updates(
                len(self.order), state.messages, state.pending, state.tree, self.graph.arrays, self.fixed, self.target, self.scratch
            )
        else:
            # Algorithm 5.1: fixed-point updates 5.23, at observed nodes 5.24; in series with the newest messages, else with the old ones.
            parallel = self.settings.schedule == "parallel"
            out = state.messages.copy() if parallel else state.messages
            damping = self.damping[min(state.step * len(self.damping) // self.steps, len(self.damping) - 1)]
            residual, bad = self._update_messages(self.order, state.messages, out, damping)
            # If an undamped update changes a message by δ, a damped one changes it by (1 − damping) δ (5.28, with α = 1 − damping; in
            # logarithms 5.29): heavy damping would look like convergence.
            residual /= 1 - damping  # the change of an undamped update, to first order
            state.messages = out
        self._require_possible_message(bad)
        scaling = int(self.fixed[self.graph.tail[self.order]].sum())
        # F from the beliefs 5.5 and 5.6.  It is stationary at fixed points, but may rise on the way: only UPS and the double loop lower it.
        energy = np.nan
        if self.graph.edges * 2 <= MESSAGES_WITH_ENERGY or state.step % 10 == 9:
            energy = bethe.bethe_free_energy(self.graph, self.beliefs(state))
        return PropagationState(
            state.messages,
            np.append(state.residual, residual),
            np.append(state.free_energy, energy),
            state.updates + np.array([scaling, len(self.order) - scaling]),
            state.step + 1,
            state.pending,
            state.tree,
        )

    def _update_messages(self, order: Array, source: Array, out: Array, damping: float) -> tuple[float, int]:
        geometric = self.settings.damping_kind == "geometric"
        return fast.update_messages(order, source, out, self.graph.arrays, self.fixed, self.target, damping, geometric, self.scratch)

    def _require_possible_message(self, edge: int) -> None:
        raise_zero_message(self.network, self.graph, edge)

    def meets_criterion(self, state: PropagationState) -> bool:
        """Return True if the residual is at most the tolerance.  A residual of NaN is not."""
        return self.graph.edges == 0 or super().meets_criterion(state)

    def beliefs(self, state: PropagationState) -> bethe.PairBeliefs:
        """Compute the beliefs of the present messages."""
        if self.layout is None and 2 * self.graph.edges <= MESSAGES_WITH_ENERGY:
            self.layout = bethe.make_belief_layout(self.graph)
        return bethe.compute_beliefs(self.graph, state.messages, self.fixed, self.target, self.layout)

    def bytes_needed(self, state: PropagationState) -> tuple[int, str]:
        """Return the bytes of the beliefs, or of the dense inverse, and their purpose in words."""
        return bethe_result_bytes(self.graph, self.settings.linear_response)

    def result(self, state: PropagationState) -> InferenceResult:
        """Return beliefs and the Bethe log Z."""
        response = self.fixed if self.settings.linear_response else None
        warning = underflow_warning(self.network, self.graph, state.messages, self.fixed)
        return make_bethe_result(self.network, self.graph, self.beliefs(state), state, self.meets_criterion(state), response, warning)


def underflow_warning(network: Network, graph: PairwiseNetwork, messages: Array, fixed: Array) -> str:
    """Return a warning if a message underflows at a state that the zeros of the factors allow, "" otherwise.

    With given marginals, which may have zeros of their own, there is no warning.
    """
    small = messages < SMALLEST_MESSAGE
    if not small.any() or fixed.any():
        return ""
    place = bethe.message_state_positions(graph)
    lost = np.flatnonzero(small & (graph.potential[place] > 0))
    if not len(lost):
        return ""
    edge = int(np.searchsorted(graph.message_offset, lost[0], side="right")) - 1
    head = int(graph.head[edge])
    name = network.name(head) if head < graph.variables else "a larger factor"
    return (
        f"the messages to {name} differ by more than float64 can hold, so its least probable states are lost; use --algorithm "
        "junction-tree or gbp"
    )


def has_stalled(residual: Array) -> bool:
    """Return True if recent sweeps of all messages came no closer to a fixed point."""
    return len(residual) >= PATIENCE and not residual[-1] < 0.5 * residual[-1 - PATIENCE // 2]


def largest_relative_changes(before: Array, after: Array, offset: Array) -> Array:
    """Return the largest relative change of each message (E,), as in `fast.update_messages`.

    The change of an entry is relative to the larger of its two values.
    before, after  (M,) positive or 0.
    offset         (E + 1,) the start of each message.
    """
    larger = np.maximum(before, after)
    change = np.divide(np.abs(after - before), larger, out=np.zeros_like(larger), where=larger > 0)
    return np.maximum.reduceat(change, offset[:-1]) if len(offset) > 1 else np.zeros(0)


def bethe_result_bytes(graph: PairwiseNetwork, linear_response: bool) -> tuple[int, str]:
    """Return the bytes of the beliefs, or of linear response, with a description."""
    if linear_response:
        return 24 * int(graph.cardinality[: graph.variables].sum()) ** 2, "the linear response"
    return 16 * (len(graph.table) + int(graph.message_offset[-1])), "the beliefs"


def make_bethe_result(
    network: Network,
    graph: PairwiseNetwork,
    beliefs: bethe.PairBeliefs,
    state: MessagePassingTrace,
    converged: bool,
    response: Array | None = None,
    warning: str = "",
) -> InferenceResult:
    """Return beliefs, −F as log Z, and the convergence attributes of a run on messages.

    response  (N,) uint8 the nodes with an observed marginal, if covariances by linear response are requested.
    """
    energy = bethe.bethe_free_energy(graph, beliefs)
    nodes, cliques = bethe.beliefs_as_marginals(graph, beliefs, network.cardinality)
    covariance = None
    if response is not None:
        from herdcli.markov.bethe import bethe_hessian  # with SciPy's sparse matrices, which take as long to import as small runs do

        covariance = bethe_hessian.linear_response_covariance(graph, beliefs, response, network.count)
    attributes = make_convergence_attributes(
        energy, converged, state.step, state.residual, state.free_energy,
        scaling_updates=int(state.updates[0]),
        propagation_updates=int(state.updates[1]),
        covariance=covariance,
    )  # fmt: skip
    return InferenceResult(nodes, cliques, attributes, warning)


def forward_backward_order(graph: PairwiseNetwork) -> Array:
    """Order directed edges: those to higher nodes by increasing tail, then those to lower nodes by decreasing tail.

    One pass is exact if nodes are numbered along a chain.
    """
    every = np.arange(2 * graph.edges)
    up = graph.head > graph.tail
    forward, back = every[up], every[~up]
    forward = forward[np.argsort(graph.tail[forward], kind="stable")]
    back = back[np.argsort(-graph.tail[back], kind="stable")]
    return np.concatenate([forward, back]).astype(np.int32)


def reduction_note(graph: PairwiseNetwork) -> str:
    """Return the note for the user about factors that became auxiliary nodes."""
    if not graph.auxiliary:
        return ""
    count = len(graph.auxiliary)
    what, made = ("one factor", "an auxiliary node") if count == 1 else (f"{count} factors", "auxiliary nodes")
    return f"{what} over three variables or more became {made} (Weiss & Freeman 2001)"


def raise_zero_message(network: Network, graph: PairwiseNetwork, edge: int) -> None:
    """Raise Diverged if an update left no state possible.

    Zeros alone never cause this (possible_states.py), but values outside the range of float64 can, and given marginals that contradict
    zeros.
    """
    if edge < 0:
        return
    i, j = int(graph.tail[edge]), int(graph.head[edge])
    names = [network.name(k) if k < graph.variables else "a larger factor" for k in (i, j)]
    hint = "use --algorithm junction-tree, double-loop or gibbs, which handle zeros and very small values of factors"
    if network.stored_marginals():
        hint = "the observed marginals contradict each other, or zeros of the factors: --ignore-observed ignores the stored ones"
    raise Diverged(f"belief propagation failed: the message from {names[0]} to {names[1]} is zero for all states", hint=hint)
