"""Iterative scaling with marginals by loopy belief propagation: IS+BP, one node at a time, and GIS+BP, all nodes together.

The potential of an observed node includes its multiplier, ψ_i ← ψ_i (ô_i / Q_i)^s, with Q by propagation run to
convergence: s = 1 (5.16) or 1/|V| (5.17).  Source: Teh (2003), algorithm 5.2 and sec. 5.4.1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli import fast
from herdcli.algorithm import HasStateShapes
from herdcli.markov.bethe import free_energy as bethe
from herdcli.markov.bethe import loopy_propagation
from herdcli.markov.method import InferenceResult, InferenceSettings, ToTolerance
from herdcli.markov.model.network import Network
from herdcli.markov.model.pairwise import PairwiseNetwork, reduce_to_pairwise
from herdcli.records import dataclass
from herdcli.schema import Array

INNER_ITERATIONS = 1000


@dataclass
class ScalingByPropagationState(loopy_propagation.PropagationState):
    """Messages, potentials that include the multipliers, and the largest marginal error and free energy of each scaling."""

    potential: Array | None = None


class ScalingByPropagation(ToTolerance[ScalingByPropagationState, InferenceSettings], HasStateShapes[ScalingByPropagationState]):
    """The algorithms `is-bp` and `gis-bp` on the pairwise reduction of a network."""

    state = ScalingByPropagationState

    def __init__(self, network: Network, settings: InferenceSettings) -> None:
        self.network, self.settings, self.steps = network, settings, settings.iterations
        self.graph = reduce_to_pairwise(network)
        self.observed = network.stored_marginals()
        self.turns = sorted(self.observed)
        self.free, self.nothing = self.graph.flatten_fixed_marginals({})
        self.order, self.scratch = loopy_propagation.forward_backward_order(self.graph), self.graph.scratch()
        self.whole = np.array([0, len(self.order)], dtype=np.int64)
        self.note = loopy_propagation.reduction_note(self.graph)

    def state_template(self) -> ScalingByPropagationState:
        """Return uniform messages."""
        state = ScalingByPropagationState(self.graph.uniform_messages(), np.empty(0), np.empty(0), np.zeros(2, dtype=np.int64), 0)
        state.potential = self.graph.potential.copy()
        return state

    def init(self) -> ScalingByPropagationState:
        """Return converged messages of the unscaled network."""
        state = self.state_template()
        self._propagate_to_convergence(state)
        return state

    def _scaled_network(self, state: ScalingByPropagationState) -> PairwiseNetwork:
        assert state.potential is not None
        assert state.potential is not None
        return replace(self.graph, potential=state.potential)

    def _propagate_to_convergence(self, state: ScalingByPropagationState) -> bool:
        """Run belief propagation to convergence; return True if it converged."""
        sweeps, inner = np.zeros(1, dtype=np.int64), 0.1 * self.settings.tolerance
        arrays = self._scaled_network(state).arrays
        change, bad = fast.settle(
            self.order, self.whole, state.messages, arrays, self.free, self.nothing, inner, INNER_ITERATIONS, sweeps, self.scratch
        )
        loopy_propagation.raise_zero_message(self.network, self.graph, bad)
        state.updates = state.updates + np.array([0, int(sweeps[0]) * len(self.order)])
        return bool(change <= inner)

    def step(self, state: ScalingByPropagationState) -> ScalingByPropagationState:
        """Scale the next observed node (GIS: all of them), and propagate again."""
        assert state.potential is not None
        node = self.beliefs(state).node
        together = self.settings.algorithm == "gis-bp"
        chosen = self.turns if together else self.turns[state.step % max(1, len(self.turns)) :][:1]
        power = 1 / max(1, len(self.turns)) if together else 1.0
        for i in chosen:
            own = slice(self.graph.node_offset[i], self.graph.node_offset[i + 1])
            # With the other potentials fixed, b_i(x) is proportional to f_i(x), so that f_i ← f_i p_i / b_i makes b_i = p_i in one step.
            # If all nodes are scaled together (GIS), this would overshoot; each ratio p_i / b_i is raised to the power 1/nodes instead.
            ratio = np.divide(self.observed[i], node[own], out=np.zeros(own.stop - own.start), where=node[own] > 0)
            scaled = state.potential[own] * ratio**power
            state.potential[own] = scaled / scaled.max()
        # Algorithm 5.2, lines 2 and 3: propagation 5.23 to convergence, so that the next scaling has the marginals of these potentials.
        settled = self._propagate_to_convergence(state)
        found = self.beliefs(state)
        # The scaled node's marginal is correct by construction, but only for beliefs of converged messages.
        residual = self._marginal_error(found.node) if settled else np.inf
        made = replace(state, step=state.step + 1, updates=state.updates + np.array([len(chosen), 0]))
        made.residual = np.append(state.residual, residual)
        made.free_energy = np.append(state.free_energy, bethe.bethe_free_energy(self.graph, found))
        return made

    def _marginal_error(self, node: Array) -> float:
        offset = self.graph.node_offset
        return max((float(np.abs(node[offset[i] : offset[i + 1]] - p).max()) for i, p in self.observed.items()), default=0.0)

    def beliefs(self, state: ScalingByPropagationState) -> bethe.PairBeliefs:
        """Compute the beliefs of the present messages and potentials."""
        return bethe.compute_beliefs(self._scaled_network(state), state.messages, self.free, self.nothing)

    def bytes_needed(self, state: ScalingByPropagationState) -> tuple[int, str]:
        """Return the bytes of the beliefs, and their purpose in words."""
        return loopy_propagation.bethe_result_bytes(self.graph, False)

    def result(self, state: ScalingByPropagationState) -> InferenceResult:
        """Return beliefs, and the Bethe free energy of the unscaled potentials."""
        return loopy_propagation.make_bethe_result(self.network, self.graph, self.beliefs(state), state, self.meets_criterion(state))
