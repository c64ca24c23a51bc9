"""Unified propagation and scaling: the Bethe free energy goes down in every iteration, on every network.

Each iteration clamps some nodes at their present marginals, so that what is free are trees, and minimises the Bethe free
energy over those exactly (UPS-T).  The next iteration clamps others.  Source: Teh (2003), algorithm 5.4 and thm 5.6.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli import fast
from herdcli.errors import BadUsage
from herdcli.markov import bethe, clamp
from herdcli.markov.network import Network
from herdcli.markov.pairwise import reduce
from herdcli.markov.propagation import State, bethe_result, forward_and_back, reduction_note, refuse_zero_message

if TYPE_CHECKING:
    from herdcli.markov.algorithms import Result, Settings

INNER_SWEEPS = 10_000
FIRST = 200  # sweeps of propagation to start from where factors have zeros
INNER_SHARE = 1e-3  # of the last residual, which the trees are minimised to


class UPS:
    """`ups` on the pairwise reduction of a network."""

    def __init__(self, network: Network, settings: Settings) -> None:
        self.network, self.settings, self.steps = network, settings, settings.iterations
        self.graph = reduce(network)
        self.fixed, self.target = self.graph.fixed_marginals(network.observations())
        self.plans = clamp.plans(self.graph, set(np.flatnonzero(self.fixed).tolist()), settings.clamp, network.shape, settings.seed)
        self.order, self.scratch = forward_and_back(self.graph), self.graph.scratch()
        self.note = reduction_note(self.graph)
        if settings.algorithm == "ups-t" and any(len(plan.clamped) for plan in self.plans):
            raise BadUsage("ups-t is for networks whose loops are all broken by observed variables", hint="--algorithm ups")

    def init(self) -> State:
        """Uniform messages; where factors have zeros, those of a few sweeps of propagation.

        Marginals that the zeros forbid together cannot be clamped together, and propagation makes them agree.
        """
        state = State(self.graph.uniform_messages(), np.empty(0), np.empty(0), np.zeros(2, dtype=np.int64), 0)
        if not self.graph.table.all():
            sweeps, whole, arrays = np.zeros(1, dtype=np.int64), np.array([0, len(self.order)], dtype=np.int64), self.graph.arrays
            inner = 0.1 * self.settings.tolerance
            _, bad = fast.settle(self.order, whole, state.messages, arrays, self.fixed, self.target, inner, FIRST, sweeps, self.scratch)
            refuse_zero_message(self.network, self.graph, bad)
            state.updates[1] = int(sweeps[0]) * len(self.order)
        return state

    def step(self, state: State) -> State:
        """Clamp the next set at its present marginals, minimise over the trees, and measure the fixed-point equations."""
        plan = self.plans[state.step % len(self.plans)]
        fixed, target = self.fixed.copy(), self.target
        if len(plan.clamped):
            present = bethe.beliefs(self.graph, state.messages, *self._held(state.step - 1, state)).node
            fixed[plan.clamped] = 1
            owner = np.repeat(np.arange(self.graph.nodes), self.graph.cardinality)
            target = np.where(self.fixed[owner] == 1, self.target, np.where(fixed[owner] == 1, present, 0.0))
        sweeps = np.zeros(len(plan.segments) - 1, dtype=np.int64)
        last = state.residual[-1] if len(state.residual) else 1.0
        inner = max(0.1 * self.settings.tolerance, min(1e-5, INNER_SHARE * float(last)))
        graph = self.graph
        _, bad = fast.settle(
            plan.order, plan.segments, state.messages, graph.arrays, fixed, target, inner, INNER_SWEEPS, sweeps, self.scratch
        )
        refuse_zero_message(self.network, graph, bad)
        residual = self._residual(state)
        scalings = int(sweeps @ plan.scalings)
        updates = int(sweeps @ np.diff(plan.segments))
        energy = bethe.free_energy(graph, bethe.beliefs(graph, state.messages, fixed, target))
        return State(
            state.messages,
            np.append(state.residual, residual),
            np.append(state.free_energy, energy),
            state.updates + np.array([scalings, updates - scalings]),
            state.step + 1,
            target,
        )

    def _held(self, step: int, state: State) -> tuple[np.ndarray, np.ndarray]:
        """Which nodes were fixed in a step, and at what; `pending` of the state keeps the marginals."""
        fixed = self.fixed.copy()
        if step < 0 or not len(state.pending):
            return fixed, self.target
        fixed[self.plans[step % len(self.plans)].clamped] = 1
        return fixed, state.pending

    def _residual(self, state: State) -> float:
        """The largest change that one update of every message would make, with only observed nodes fixed."""
        change, bad = fast.update_messages(
            self.order, state.messages, np.empty_like(state.messages), self.graph.arrays, self.fixed, self.target, 0.0, False, self.scratch
        )
        refuse_zero_message(self.network, self.graph, bad)
        return change

    def done(self, state: State) -> bool:
        """Is the residual at the tolerance?  (NaN is not.)"""
        return self.graph.edges == 0 or (bool(len(state.residual)) and bool(state.residual[-1] <= self.settings.tolerance))

    def bytes_needed(self, state: State) -> tuple[int, str]:
        """Of the beliefs."""
        return 16 * (len(self.graph.table) + len(state.messages)), "the beliefs"

    def result(self, state: State) -> Result:
        """Beliefs and the Bethe log Z."""
        found = bethe.beliefs(self.graph, state.messages, *self._held(state.step - 1, state))
        return bethe_result(self.network, self.graph, found, state, self.done(state))
