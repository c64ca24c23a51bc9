"""Unified propagation and scaling: the Bethe free energy decreases in every iteration, on every network.

Each iteration clamps some nodes at their present marginals, so that the free nodes form trees, and minimises the Bethe free
energy over those exactly (UPS-T).  The next iteration clamps others.  Source: Teh (2003), algorithm 5.4 and thm 5.6.2.

Such coordinate descent is slow if couplings are strong.  So with automatic clamp sets the marginals that are
clamped next are first moved by a damped Newton step (newton_step.py).  If the free energy then does not decrease, the iteration is
repeated from the present ones.  If all variables are binary, every node is clamped: the trees are pairs, in closed
form (binary_edges.py), and no scaling is left.
"""

from __future__ import annotations

from dataclasses import field, replace

import numpy as np

from herdcli import fast
from herdcli.algorithm import HasStateShapes
from herdcli.errors import BadUsage
from herdcli.markov.bethe import binary_edges, clamping, feasible_marginals, newton_step, starts
from herdcli.markov.bethe import free_energy as bethe
from herdcli.markov.bethe.loopy_propagation import (
    PropagationState,
    bethe_result_bytes,
    forward_backward_order,
    make_bethe_result,
    raise_zero_message,
    reduction_note,
    underflow_warning,
)
from herdcli.markov.method import InferenceResult, InferenceSettings, ToTolerance
from herdcli.markov.model.network import Network
from herdcli.markov.model.pairwise import reduce_to_pairwise
from herdcli.records import dataclass
from herdcli.schema import Array

INNER_SWEEPS = 1000  # trees whose zeros make messages vanish never converge
FIRST = 200  # initial sweeps of propagation if factors have zeros
AGREED = 1e-3  # marginals can be clamped together if the last change of the messages was at most this
LOOSEST = 1e-5  # largest tolerance of propagation on the trees
INNER_SHARE = 0.1  # the tolerance on the trees is (INNER_SHARE · residual)², if this is less than LOOSEST
PLAIN = 3  # iterations before the first Newton step
LEAST_REACH, MOST_REACH = 1.0, 50.0  # largest change of log b; it doubles after a good step
TRIES = 3  # number of dampings that are tried for a Newton step, each ten times the one before; after them the trees are used
TILT = 0.01  # how far initial marginals are moved from uniform ones, if these are stationary
POLISH = 1e-4  # Newton's method on messages is tried when the residual is below this


@dataclass
class UPSState(PropagationState):
    """Messages and the clamped nodes.

    pending       marginals at the `clamped` nodes.
    shift, reach  bounds of the next Newton step.
    """

    shift: float = 1.0
    reach: float = 1.0
    clamped: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))


class UPS(ToTolerance[UPSState, InferenceSettings], HasStateShapes[UPSState]):
    """The algorithm `ups` on the pairwise reduction of a network."""

    state = UPSState

    def __init__(self, network: Network, settings: InferenceSettings) -> None:
        self.network, self.settings, self.steps = network, settings, settings.iterations
        self.graph = reduce_to_pairwise(network)
        self.fixed, self.target = self.graph.flatten_fixed_marginals(network.stored_marginals())
        how = settings.clamp if settings.clamp_sets is None else [set(nodes) for nodes in settings.clamp_sets]
        self.plans = clamping.make_clamp_plans(self.graph, set(np.flatnonzero(self.fixed).tolist()), how, network.shape, settings.seed)
        self.order, self.scratch = forward_backward_order(self.graph), self.graph.scratch()
        self.owner = np.repeat(np.arange(self.graph.nodes), self.graph.cardinality)
        self.accelerated = how == "auto" and settings.algorithm == "ups"
        loops = any(len(plan.clamped) for plan in self.plans)
        inside = (self.target[self.fixed[self.owner] == 1] > 0).all()
        self.tables = binary_edges.edge_log_tables(self.graph) if self.accelerated and loops and inside else None
        self.hidden = np.flatnonzero(self.fixed == 0)
        self.note = reduction_note(self.graph)
        if settings.algorithm == "ups-t" and any(len(plan.clamped) for plan in self.plans):
            raise BadUsage("--algorithm ups-t needs observed marginals on enough variables to break every loop", hint="use --algorithm ups")

    def state_template(self) -> UPSState:
        """Return the initial messages."""
        first = starts.make_initial_messages(self.settings, self.graph)
        return UPSState(first, np.empty(0), np.empty(0), np.zeros(2, dtype=np.int64), 0)

    def init(self) -> UPSState:
        """Return uniform messages, or random ones; if factors have zeros, those after a few sweeps of propagation.

        Marginals that the zeros forbid together cannot be clamped together, and propagation makes them agree; if it does
        not converge, the initial marginals come from a convex problem.
        """
        state = self.state_template()
        if not self.graph.table.all():
            # Algorithm 5.4, line 1: initial beliefs that agree with the zeros, so that clamping them is possible.
            sweeps, whole, arrays = np.zeros(1, dtype=np.int64), np.array([0, len(self.order)], dtype=np.int64), self.graph.arrays
            inner = 0.1 * self.settings.tolerance
            far, bad = fast.settle(self.order, whole, state.messages, arrays, self.fixed, self.target, inner, FIRST, sweeps, self.scratch)
            state.updates[1] = int(sweeps[0]) * len(self.order)
            if (bad >= 0 or not far <= AGREED) and not self.fixed.any():
                held = feasible_marginals.find_feasible_marginals(self.network, self.graph, self.settings)
                return replace(state, messages=self.graph.uniform_messages(), pending=held, clamped=self.hidden)
            raise_zero_message(self.network, self.graph, bad)
        return state

    def step(self, state: UPSState) -> UPSState:
        """Do one iteration, and compute the residual of the fixed-point equations after it."""
        if self.tables is not None and (made := self._iterate_all_clamped(state, self.tables)) is not None:
            return made
        # Algorithm 5.4, line 4: clamp C at the marginals of the last iteration, b_i^(t−1), and minimise over the rest with UPS-T.
        found = self.beliefs(state)
        inner = self._inner_tolerance(state)
        wasted, shift = np.zeros(2, dtype=np.int64), state.shift
        if self.accelerated and state.step >= PLAIN and len(state.clamped):
            last = float(state.residual[-1])
            # A Newton step changes those marginals first; it is kept only if F decreases, up to the error of the inner tolerance.
            proposed = newton_step.propose_newton_step(
                self.graph, found, state.messages, self.fixed, state.clamped, shift, last, LEAST_REACH
            )
            if proposed is not None:
                made, bad = self._minimise_with_clamps(state, proposed[0], inner)
                if bad < 0 and _has_improved(state, made, 10 * inner):
                    return replace(made, shift=0.1 * proposed[1])
                shift, wasted = max(10 * proposed[1], newton_step.LEAST_SHIFT), made.updates - state.updates
        made, bad = self._minimise_with_clamps(state, found.node, inner)
        raise_zero_message(self.network, self.graph, bad)
        return replace(made, shift=shift, updates=made.updates + wasted)

    def _inner_tolerance(self, state: UPSState) -> float:
        last = float(state.residual[-1]) if len(state.residual) else 1.0
        return max(0.1 * self.settings.tolerance, min(LOOSEST, (INNER_SHARE * last) ** 2))

    def _iterate_all_clamped(self, state: UPSState, tables: Array) -> UPSState | None:
        """Do an iteration with every node clamped, where the trees are pairs in closed form and only the Newton step moves marginals.

        It begins at uniform marginals, or random ones.  Returns None if no damping decreases the free energy.
        """
        if state.step == 0:
            for tilt in (0.0, TILT):  # stationary uniform marginals may be a saddle point
                start = starts.make_initial_marginals(self.settings, self.graph.cardinality, tilt)
                made, bad = self._clamp_all_nodes(state, tables, np.where(self.fixed[self.owner] == 1, self.target, start), 1.0)
                if bad >= 0 or made.residual[-1] > POLISH:
                    break
            return made if bad < 0 else None
        last, shift = float(state.residual[-1]), state.shift
        if (
            last < POLISH
            and (messages := binary_edges.newton_step_messages(self.graph, state.messages, self.fixed, self.target)) is not None
        ):
            made, bad = self._finish_iteration(state, messages, self.fixed, self.target, np.array([0, len(self.order)]))
            if bad < 0 and _has_improved(state, made, last):
                return made
        found, reach = self.beliefs(state), state.reach
        for tries in range(TRIES):
            proposed = newton_step.propose_newton_step(self.graph, found, state.messages, self.fixed, self.hidden, shift, last, reach)
            if proposed is None:
                return None
            made, bad = self._clamp_all_nodes(state, tables, proposed[0], 0.1 * proposed[1])
            if bad < 0 and _has_improved(state, made, 1e-11 * abs(state.free_energy[-1])):
                wasted = tries * np.array([len(self.order), 0])
                return replace(made, reach=min(2 * reach, MOST_REACH), updates=made.updates + wasted)
            shift, reach = max(10 * proposed[1], newton_step.LEAST_SHIFT), LEAST_REACH
        return None

    def _clamp_all_nodes(self, state: UPSState, tables: Array, node: Array, shift: float) -> tuple[UPSState, int]:
        """Return the state with all nodes clamped at these marginals, and an edge whose belief underflows, or −1."""
        ratio, pair = binary_edges.messages_from_marginals(self.graph, tables, node)
        if (strange := np.flatnonzero(~np.isfinite(ratio))).size:
            return state, int(strange[0])
        messages, found = binary_edges.ratios_to_messages(ratio), bethe.PairBeliefs(node, pair.ravel())
        fixed = np.ones(self.graph.nodes, dtype=np.uint8)
        made, bad = self._finish_iteration(state, messages, fixed, node, np.array([len(self.order), 0]), found)
        return replace(made, clamped=self.hidden, shift=shift), bad

    def _minimise_with_clamps(self, state: UPSState, node: Array, inner: float) -> tuple[UPSState, int]:
        """Return the state after an iteration that clamps the next set at these marginals, and a bad edge or −1."""
        # Line 3: the clamp sets take turns, and every hidden node is free in at least one of them, as theorem 5.6.2 requires.
        plan, graph = self.plans[state.step % len(self.plans)], self.graph
        fixed, target = self.fixed.copy(), self.target
        if len(plan.clamped):
            # With b_i fixed at clamped nodes F is Σ over trees of KL(Q_T‖P_T) plus a constant (theorem 5.6.1, P_T unnormalised).  Each is
            # convex and at its minimum once 5.23 and 5.24 have converged on the tree.  The marginals before are feasible, so F cannot
            # increase.
            fixed[plan.clamped] = 1
            target = np.where(self.fixed[self.owner] == 1, self.target, np.where(fixed[self.owner] == 1, node, 0.0))
        # UPS-T (algorithm 5.3) on each tree: propagation 5.23 at free nodes, bounces 5.24 at observed and clamped ones, depth first.
        messages, sweeps = state.messages.copy(), np.zeros(len(plan.segments) - 1, dtype=np.int64)
        _, bad = fast.settle(plan.order, plan.segments, messages, graph.arrays, fixed, target, inner, INNER_SWEEPS, sweeps, self.scratch)
        scalings, updates = int(sweeps @ plan.scalings), int(sweeps @ np.diff(plan.segments))
        counted = np.array([scalings, updates - scalings])
        if bad >= 0:
            return replace(state, updates=state.updates + counted), bad
        made, bad = self._finish_iteration(state, messages, fixed, target, counted)
        return replace(made, clamped=plan.clamped), bad

    def _finish_iteration(
        self, state: UPSState, messages: Array, fixed: Array, target: Array, new_updates: Array, beliefs: bethe.PairBeliefs | None = None
    ) -> tuple[UPSState, int]:
        """Return the state after an iteration that ended with these messages, and an edge whose next message is zero everywhere, or −1."""
        # Residual: how far one update by 5.23 and 5.24, with no node clamped, would move the messages.  At 0 they are a fixed point on the
        # whole graph, so by theorem 5.5.1 F is stationary under the MN and Obs constraints.
        made, graph = np.empty_like(messages), self.graph
        residual, bad = fast.update_messages(self.order, messages, made, graph.arrays, self.fixed, self.target, 0.0, False, self.scratch)
        if beliefs is not None:  # messages without information agree with any marginals
            free = bethe.compute_beliefs(graph, messages, self.fixed, self.target)
            residual = max(residual, float(np.abs(free.node - beliefs.node).max()))
        energy = bethe.bethe_free_energy(graph, beliefs or bethe.compute_beliefs(graph, messages, fixed, target))
        residuals, energies = np.append(state.residual, residual), np.append(state.free_energy, energy)
        after = UPSState(
            messages, residuals, energies, state.updates + new_updates, state.step + 1, target, shift=state.shift, reach=state.reach
        )
        return after, bad

    def beliefs(self, state: UPSState) -> bethe.PairBeliefs:
        """Compute the beliefs of the last iteration; clamped nodes have the marginals in `pending`."""
        fixed = self.fixed.copy()
        fixed[state.clamped] = 1
        return bethe.compute_beliefs(self.graph, state.messages, fixed, state.pending if len(state.pending) else self.target)

    def meets_criterion(self, state: UPSState) -> bool:
        """Return True if the residual is at most the tolerance.  A residual of NaN is not."""
        return self.graph.edges == 0 or super().meets_criterion(state)

    def bytes_needed(self, state: UPSState) -> tuple[int, str]:
        """Return the bytes of the beliefs, or of the dense inverse, and their purpose in words."""
        return bethe_result_bytes(self.graph, self.settings.linear_response)

    def result(self, state: UPSState) -> InferenceResult:
        """Return beliefs and the Bethe log Z."""
        response = self.fixed if self.settings.linear_response else None
        warning = underflow_warning(self.network, self.graph, state.messages, self.fixed)
        return make_bethe_result(self.network, self.graph, self.beliefs(state), state, self.meets_criterion(state), response, warning)


def _has_improved(before: UPSState, after: UPSState, noise: float) -> bool:
    """Return True if the free energy decreased; within the error of the inner tolerance, half the residual is sufficient."""
    was, now = before.free_energy[-1], after.free_energy[-1]
    return bool(now <= was + 1e-12 * abs(was) or (now <= was + noise and after.residual[-1] <= 0.5 * before.residual[-1]))
