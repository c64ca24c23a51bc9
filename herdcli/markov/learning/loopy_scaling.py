"""Loopy iterative scaling on a junction graph: the maximum of the Bethe entropy Σ H(P_c) − Σ H(P_s) under given marginals.

Cliques may form loops, so that they can be smaller than those of a junction tree.  Without damping, the separators' propagations are run
to convergence before each scaling, cluster by cluster.  With damping the order is reversed: all clusters are scaled, undamped,
until the cliques have their marginals, and then every separator is propagated once, geometrically damped.  The fixed points are the same
and the products of the scalings are the learned factors; they are exact if the graph is a junction tree.

The reason for the order: propagation at fixed factors is belief propagation.  At the solution its fixed point with the given marginals
may be unstable, if an eigenvalue of its Jacobian J is real and above 1.  Damping changes J to (1 − a) + a J and leaves that eigenvalue
above 1 for every a > 0.  Propagation to convergence before each scaling then moves away from the solution, even if both are slow.
Clusters that are fixed at their marginals remove such directions from the separators, nearly always all of them; there is no guarantee.
Source: Teh (2003), sec. 6.5.2 and 6.6, with propagation to convergence and both damped.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from herdcli import fast
from herdcli.markov.exact import cliques
from herdcli.markov.exact.cliques import ScalingLayout
from herdcli.markov.learning.cvm import ClusterVariation
from herdcli.markov.learning.ipf import assemble_scaled_factors, impossible_cluster_error
from herdcli.markov.learning.junction_graphs import choose_cliques, multiply_base_into_cliques
from herdcli.markov.learning.learners import LearnedFactors, LearningSettings, SizedLearner, empty_residual
from herdcli.markov.method import ToTolerance
from herdcli.markov.model.constraints import LearningProblem
from herdcli.records import dataclass
from herdcli.schema import Array

INNER_SHARE = 1e-2  # tolerance of propagation, relative to the last residual
INNER_SWEEPS = 50
SCALING_SWEEPS = 10  # largest number of sweeps over the clusters between two damped propagations


@dataclass
class LoopyScalingState:
    """Clique tables, values, changes to be sent (see numpy_junction), one residual per sweep, and counts of updates."""

    tables: Array
    values: Array
    pending: Array
    residual: Array
    counts: Array
    step: int


class LoopyScaling(SizedLearner, ToTolerance[LoopyScalingState, LearningSettings]):
    """The algorithm `loopy-is`; each step is a sweep over all clusters."""

    state = LoopyScalingState

    def __init__(self, problem: LearningProblem, settings: LearningSettings) -> None:
        self.problem, self.settings, self.steps = problem, settings, settings.iterations
        self.scopes = [cluster.scope for cluster in problem.clusters]
        self.graph = cliques.build_junction_graph(
            choose_cliques(problem, settings.regions, settings.max_clique, settings.seed, settings.orders)
        )
        largest = max(len(clique) for clique in self.graph.cliques)
        kind = "a junction tree: the result is exact" if self.graph.is_tree else "a junction graph with loops"
        self.note = f"{len(self.graph.cliques)} cliques of at most {largest} variables, {len(self.graph.separators)} separators: {kind}"

    def bytes_needed(self) -> tuple[int, str]:
        """Return the bytes of the cliques' tables, and their purpose in words."""
        return self.graph.bytes_needed(self.problem.cardinality, self.scopes), "the junction graph"

    @cached_property
    def layout(self) -> ScalingLayout:
        """Clusters and separators in flat arrays."""
        return cliques.build_scaling_layout(
            self.graph.cliques, self.graph.inner(), self.problem.cardinality, self.scopes, [c.target for c in self.problem.clusters]
        )

    @cached_property
    def propagation_sends(self) -> tuple[Array, Array, Array]:
        """All propagations, and those that leave each clique."""
        made = self.layout
        rows = np.array([made.message_program_row(e) for e in range(2 * len(self.graph.separators))], dtype=np.int32).reshape(-1, 2)
        leaving: list[list[int]] = [[e for _, e in near] for near in self.graph.neighbours()]
        offset = np.concatenate(([0], np.cumsum([len(part) for part in leaving]))).astype(np.int64)
        return rows, offset, np.array([e for part in leaving for e in part], dtype=np.int32)

    @cached_property
    def order(self) -> Array:
        """The clusters, sorted by clique."""
        return np.array(sorted(range(len(self.scopes)), key=lambda a: (self.layout.home[a], a)), dtype=np.int32)

    def init(self) -> LoopyScalingState:
        """Return uniform cliques; with a base, its factors, which the first propagations spread."""
        made = self.layout
        tables, values = made.uniform_tables(), made.uniform_values()
        pending = np.zeros(len(self.propagation_sends[0]))
        if self.problem.base_factors:
            # Only the cliques contain the base, so messages begin as 1 and not as marginals: Hugin's ratio P(x_s)/1 (6.24) then propagates
            # it.
            values[made.scope_cells(made.clusters).start if self.graph.separators else len(values) :] = 1.0
            pending[:] = 1.0
            multiply_base_into_cliques(made, tables, self.problem)
        return LoopyScalingState(tables, values, pending, empty_residual(), np.zeros(2, dtype=np.int64), 0)

    def step(self, state: LoopyScalingState) -> LoopyScalingState:
        """Propagate to convergence and scale, cluster by cluster; with damping, scale all clusters and propagate once."""
        damped = self.settings.damping and not self.graph.is_tree  # on trees propagation ends, at the right marginals
        furthest = self._scale_all_then_propagate(state) if damped else self._scale_after_propagation(state)
        return LoopyScalingState(
            state.tables, state.values, state.pending, np.append(state.residual, furthest), state.counts, state.step + 1
        )

    def _scale_after_propagation(self, state: LoopyScalingState) -> float:
        """Scale every cluster, each after propagation, and return the largest error of a marginal before its scaling."""
        last = float(state.residual[-1]) if len(state.residual) else 1.0
        inner = max(0.01 * self.settings.tolerance, min(1e-4, INNER_SHARE * last))
        return self._scale_clusters(state, self.order, 1.0, inner, INNER_SWEEPS)

    def _scale_all_then_propagate(self, state: LoopyScalingState) -> float:
        """Scale all clusters, propagate once with damping, and return the largest error of a cluster or change of a separator.

        Damped propagations make only a share of each change; the result is the change that undamped ones would make.
        """
        keep = 1.0 - self.settings.damping
        first = furthest = self._scale_clusters(state, self.order, 1.0, np.inf, 0)
        for _ in range(SCALING_SWEEPS - 1):
            if furthest <= max(0.01 * self.settings.tolerance, INNER_SHARE * first):
                break
            furthest = self._scale_clusters(state, self.order, 1.0, np.inf, 0)
        state.pending[:] = 1.0  # all are sent, once
        self._scale_clusters(state, np.array([-1], dtype=np.int32), keep, 0.0, 1)
        clique_offset, scope_offset = self.layout.links[0], self.layout.links[5]
        _normalise_segments(state.tables, clique_offset)
        _normalise_segments(state.values, scope_offset[self.layout.clusters :])
        return max(first, float(state.pending.max(initial=0.0))) / keep

    def _scale_clusters(self, state: LoopyScalingState, scalings: Array, exponent: float, tolerance: float, max_sweeps: int) -> float:
        """Scale each of these clusters, and return the largest error of a marginal before its scaling.

        Before each scaling, at most `max_sweeps` sweeps of propagations are made, with their ratios raised to the power `exponent`.
        """
        made = self.layout
        furthest, bad = fast.settle_and_scale(
            scalings, *self.propagation_sends, state.tables, state.values, made.target, made.links, (1.0, exponent),
            tolerance, max_sweeps, state.pending, state.counts, made.scratch,
        )  # fmt: skip
        if bad >= 0:
            raise impossible_cluster_error(self.problem, int(self.order[bad]))
        return furthest

    def result(self, state: LoopyScalingState) -> LearnedFactors:
        """Return the factors."""
        return assemble_scaled_factors(self.problem, self.layout, state, self.meets_criterion(state))


def _normalise_segments(values: Array, offset: Array) -> None:
    """Divide each table from offset[k] to offset[k + 1] by its sum; powers of ratios, unlike ratios, change it in every iteration."""
    if len(offset) > 1:
        values[offset[0] :] /= np.repeat(np.add.reduceat(values, offset[:-1]), np.diff(offset))


def make_loopy_scaling_learner(problem: LearningProblem, settings: LearningSettings) -> ClusterVariation | LoopyScaling:
    """Return the learner for `loopy-is`, by fixed-point equations or the double loop."""
    return ClusterVariation(problem, settings) if settings.double_loop else LoopyScaling(problem, settings)
