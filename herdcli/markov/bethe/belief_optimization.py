"""Belief optimization: the Bethe free energy of a Boltzmann machine as a function of its means, minimised unit by unit.

Given the means, pair beliefs have a closed form (binary_edges.py).  As a function of one mean, with the others fixed, the free
energy is convex, because the free part is a star; its minimum is found by Newton's method within brackets.  Units of one colour
are updated together, so that no sweep increases the free energy.  Source: Welling & Teh (2001), who follow the gradient instead.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from herdcli.markov.bethe import binary_edges, starts
from herdcli.markov.bethe import free_energy as bethe
from herdcli.markov.bethe.loopy_propagation import bethe_result_bytes, make_bethe_result
from herdcli.markov.method import InferenceResult, InferenceSettings, ToTolerance
from herdcli.markov.model.boltzmann import colour_units, to_boltzmann_machine
from herdcli.markov.model.network import Network
from herdcli.markov.model.pairwise import reduce_to_pairwise
from herdcli.records import dataclass
from herdcli.schema import Array

WIDEST = 700.0  # largest |logit| of a mean: e^−WIDEST is nearly the smallest normal float64
AT_END = 1e-6  # a mean is practically 0 or 1 if its |logit| is at least WIDEST − AT_END
MOST = 200  # largest number of Newton and bisection steps per unit
FINEST = 4.0  # final width of a bracket, in units in the last place of a logit
SHARE = 1e-4  # accuracy to which each unit is minimised, relative to the last residual


@dataclass
class BeliefOptimizationState:
    """Logits (N,) of the means, 0 for variables fixed by evidence; one residual and free energy per sweep.

    The residual is the largest slope of the free energy in a unit's mean, each before the unit was updated.  With strong couplings the
    step of a logit can be tiny far from any minimum; the slope cannot.
    """

    logit: Array
    residual: Array
    free_energy: Array
    updates: Array  # (2,) scalings of pairs, and propagation updates, which are 0
    step: int


class BeliefOptimization(ToTolerance[BeliefOptimizationState, InferenceSettings]):
    """The algorithm `belief-optimization`."""

    state = BeliefOptimizationState

    def __init__(self, network: Network, settings: InferenceSettings) -> None:
        self.network, self.settings, self.steps, self.note = network, settings, settings.iterations, ""
        machine = to_boltzmann_machine(network, "belief-optimization")
        self.graph = reduce_to_pairwise(network)
        tables = binary_edges.edge_log_tables(self.graph)
        assert tables is not None
        self.tables = tables
        self.parts = [part[~machine.held[part]] for part in colour_units(machine.W)]
        self.held = machine.held
        first, last = binary_edges.first_and_last_state_values(self.graph, self.graph.potential)
        self.bias = np.log(last) - np.log(first)

    def init(self) -> BeliefOptimizationState:
        """Return means of one half, or random ones."""
        first, last = binary_edges.first_and_last_state_values(
            self.graph, starts.make_initial_marginals(self.settings, self.graph.cardinality)
        )
        return BeliefOptimizationState(
            np.where(self.held, 0.0, np.log(last) - np.log(first)), np.empty(0), np.empty(0), np.zeros(2, dtype=np.int64), 0
        )

    def step(self, state: BeliefOptimizationState) -> BeliefOptimizationState:
        """Do one sweep, colour by colour."""
        last = float(state.residual[-1]) if len(state.residual) else 1.0
        residual = 0.0
        for part in self.parts:
            scalings, slope = self._minimise_colour(state.logit, part, max(0.01 * self.settings.tolerance, SHARE * last))
            state.updates[0] += scalings
            residual = max(residual, slope)
        energy = bethe.bethe_free_energy(self.graph, self.beliefs(state))
        return BeliefOptimizationState(
            state.logit, np.append(state.residual, residual), np.append(state.free_energy, energy), state.updates, state.step + 1
        )

    def _minimise_colour(self, logit: Array, part: Array, tolerance: float) -> tuple[int, float]:
        """Move the units of a colour to the zero of dF/dq = logit q − b − Σ log M, which increases with q.

        Returns the number of scalings, and the largest slope before.
        """
        low, high = np.full(len(part), -WIDEST), np.full(len(part), WIDEST)
        degree = self.graph.degree()[part]
        count, first, moves = 0, 0.0, high - low
        for step in range(MOST):
            t = logit[part]
            slope, bend = self._free_energy_derivatives(logit, part, degree)
            count += 2 * self.graph.edges
            low, high = np.where(slope < 0, t, low), np.where(slope > 0, t, high)
            outwards = np.where((np.abs(t) >= WIDEST - AT_END) & (slope * t < 0), 0.0, np.abs(slope))
            if step == 0:
                first = float(np.nan_to_num(outwards, nan=np.inf).max(initial=0.0))
            # The derivative of the slope in t is at least 1, so that the slope bounds the distance of t from the root.  Far from the root
            # the slope of a strong pair behaves like a logarithm: a step can be tiny while the root is far away.  So a small step is no
            # criterion of convergence; a small slope and a narrow bracket are.
            narrow = high - low <= FINEST * np.spacing(np.maximum(np.abs(t), 1.0))
            if np.all((outwards <= max(1e-14, tolerance)) | narrow):
                break
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                newton = t - slope / bend
            shorter = np.abs(newton - t) <= 0.5 * moves  # at most half the previous step, otherwise the bracket is halved
            moved = np.where((newton > low) & (newton < high) & shorter, newton, 0.5 * (low + high))
            moves = np.abs(moved - t)
            logit[part] = np.where((slope == 0) | narrow, t, moved)
        return count, first

    def _free_energy_derivatives(self, logit: Array, part: Array, degree: Array) -> tuple[Array, Array]:
        """Return dF/dq of the units of a colour, and its derivative in t = logit q."""
        t = logit[part]
        ratio, pair = binary_edges.messages_from_marginals(self.graph, self.tables, self._node_marginals(logit))
        # ∂F/∂q_i = Σ_j ∂G_ij/∂q_i + (1 − n) logit q_i − b_i, and by 5.24 the slope of G_ij is logit q_i − log M_ji(1)/M_ji(0): n logits
        # cancel.
        slope = t - self.bias[part] - np.bincount(self.graph.head, ratio, len(logit))[part]
        of_tail, of_head, _ = binary_edges.edge_second_derivatives(pair)
        bend = np.bincount(self.graph.tail[::2], of_tail, len(logit)) + np.bincount(self.graph.head[::2], of_head, len(logit))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # In t = logit q, dq/dt = q (1 − q) and q (1 − q) ∂²G_ij/∂q² = 1/(1 − ρ²), ρ the pair's correlation, so d slope/dt
            # = 1 + Σ_j ρ²/(1 − ρ²): at least 1, and F convex in q_i.  It varies with t, so steps are kept inside a bracket.
            return slope, bend[part] * expit(t) * expit(-t) + 1 - degree

    def _node_marginals(self, logit: Array) -> Array:
        node = np.ones(int(self.graph.node_offset[-1]))
        free = np.flatnonzero(~self.held)
        node[self.graph.node_offset[free]] = expit(-logit[free])
        node[self.graph.node_offset[free] + 1] = expit(logit[free])
        return node

    def beliefs(self, state: BeliefOptimizationState) -> bethe.PairBeliefs:
        """Return the means, and the pair beliefs with these means that are closest to the couplings."""
        node = self._node_marginals(state.logit)
        return bethe.PairBeliefs(node, binary_edges.messages_from_marginals(self.graph, self.tables, node)[1].ravel())

    def bytes_needed(self, state: BeliefOptimizationState) -> tuple[int, str]:
        """Return the bytes of the beliefs, or of the dense inverse, and their purpose in words."""
        return bethe_result_bytes(self.graph, self.settings.linear_response)

    def result(self, state: BeliefOptimizationState) -> InferenceResult:
        """Return beliefs and the Bethe log Z."""
        response = np.zeros(self.graph.nodes, dtype=np.uint8) if self.settings.linear_response else None
        return make_bethe_result(self.network, self.graph, self.beliefs(state), state, self.meets_criterion(state), response)
