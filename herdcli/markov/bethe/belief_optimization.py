"""Belief optimization: the Bethe free energy of a Boltzmann machine as a function of its means, minimised unit by unit.

Given the means, pair beliefs are known in closed form (two_state.py).  As a function of one mean, the others held, the free
energy is convex, as what is free is a star; its minimum is found by Newton's method within brackets.  Units of one colour
are moved at once, so no sweep raises the free energy.  Source: Welling & Teh (2001), who follow the gradient instead.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from herdcli.markov.bethe import free_energy as bethe
from herdcli.markov.bethe import starts, two_state
from herdcli.markov.bethe.propagation import bethe_result, memory_of_result
from herdcli.markov.method import Result, Settings, ToTolerance
from herdcli.markov.model.boltzmann import boltzmann, colours
from herdcli.markov.model.network import Network
from herdcli.markov.model.pairwise import reduce
from herdcli.records import dataclass
from herdcli.schema import Array

WIDEST = 750.0  # logits: exp of more is no float64
MOST = 200  # Newton and bisection steps on a unit
SHARE = 1e-4  # of the last residual, to which units are minimised


@dataclass
class State:
    """logit  (N,) of the means, 0 for what evidence holds; a residual (change of logits) and a free energy a sweep."""

    logit: Array
    residual: Array
    free_energy: Array
    updates: Array  # (2,) scalings of pairs, and no propagation
    step: int


class BeliefOptimization(ToTolerance[State, Settings]):
    """`belief-optimization`."""

    state = State

    def __init__(self, network: Network, settings: Settings) -> None:
        self.network, self.settings, self.steps, self.note = network, settings, settings.iterations, ""
        machine = boltzmann(network, "belief-optimization")
        self.graph = reduce(network)
        tables = two_state.logs(self.graph)
        assert tables is not None
        self.tables = tables
        self.parts = [part[~machine.held[part]] for part in colours(machine.W)]
        self.held = machine.held
        first, last = two_state.both(self.graph, self.graph.potential)
        self.bias = np.log(last) - np.log(first)

    def init(self) -> State:
        """Means of one half, or random ones."""
        first, last = two_state.both(self.graph, starts.marginals(self.settings, self.graph.cardinality))
        return State(np.where(self.held, 0.0, np.log(last) - np.log(first)), np.empty(0), np.empty(0), np.zeros(2, dtype=np.int64), 0)

    def step(self, state: State) -> State:
        """One sweep, colour by colour."""
        before = state.logit.copy()
        last = float(state.residual[-1]) if len(state.residual) else 1.0
        for part in self.parts:
            state.updates[0] += self._minimise(state.logit, part, max(0.01 * self.settings.tolerance, SHARE * last))
        residual = float(np.abs(state.logit - before).max(initial=0.0))
        energy = bethe.free_energy(self.graph, self.beliefs(state))
        return State(state.logit, np.append(state.residual, residual), np.append(state.free_energy, energy), state.updates, state.step + 1)

    def _minimise(self, logit: Array, part: Array, enough: float) -> int:
        """Move the units of a colour to where dF/dq = logit q − b − Σ log M vanishes, which rises with q; scalings done."""
        low, high = np.full(len(part), -WIDEST), np.full(len(part), WIDEST)
        degree = self.graph.degree()[part]
        count = 0
        for _ in range(MOST):
            t = logit[part]
            ratio, pair = two_state.nearest(self.graph, self.tables, self._node(logit))
            count += len(ratio)
            # ∂F/∂q_i = Σ_j ∂G_ij/∂q_i + (1 − n) logit q_i − b_i, and by 5.24 the
            # slope of G_ij is logit q_i − log M_ji(1)/M_ji(0): n logits cancel.
            slope = t - self.bias[part] - np.bincount(self.graph.head, ratio, len(logit))[part]
            low, high = np.where(slope < 0, t, low), np.where(slope > 0, t, high)
            of_tail, of_head, _ = two_state.second_derivatives(pair)
            bend = np.bincount(self.graph.tail[::2], of_tail, len(logit)) + np.bincount(self.graph.head[::2], of_head, len(logit))
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                # In t = logit q, dq/dt = q (1 − q) and q (1 − q) ∂²G_ij/∂q² = 1/(1 − ρ²), ρ the pair's correlation, so d slope/dt
                # = 1 + Σ_j ρ²/(1 − ρ²): at least 1, and F convex in q_i.  It varies with t, so steps are kept inside a bracket.
                newton = t - slope / (bend[part] * expit(t) * expit(-t) + 1 - degree)
            moved = np.where((newton > low) & (newton < high), newton, 0.5 * (low + high))
            logit[part] = np.where(slope == 0, t, moved)
            if np.abs(logit[part] - t).max(initial=0.0) <= max(1e-14, enough):
                break
        return count

    def _node(self, logit: Array) -> Array:
        node = np.ones(int(self.graph.node_offset[-1]))
        free = np.flatnonzero(~self.held)
        node[self.graph.node_offset[free]] = expit(-logit[free])
        node[self.graph.node_offset[free] + 1] = expit(logit[free])
        return node

    def beliefs(self, state: State) -> bethe.PairBeliefs:
        """Means, and the pairs nearest to the couplings."""
        node = self._node(state.logit)
        return bethe.PairBeliefs(node, two_state.nearest(self.graph, self.tables, node)[1].ravel())

    def bytes_needed(self, state: State) -> tuple[int, str]:
        """Of the beliefs, or of the dense inverse."""
        return memory_of_result(self.graph, self.settings.linear_response)

    def result(self, state: State) -> Result:
        """Beliefs and the Bethe log Z."""
        response = np.zeros(self.graph.nodes, dtype=np.uint8) if self.settings.linear_response else None
        return bethe_result(self.network, self.graph, self.beliefs(state), state, self.met(state), response)
