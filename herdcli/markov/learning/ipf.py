"""Exact iterative scaling: on the joint table (IPF), and on a junction tree (effective IPF and UPS-JT).

Each scaling multiplies a cluster's factor, and its clique, by target/marginal.  Effective IPF then propagates the
change over all |S| separators, so that every clique is correct before the next scaling.  UPS-JT walks around the tree and only
passes the change on to the next clique of the walk: 2|S| propagations for a sweep over all clusters.  Both start from P0
and find the distribution closest to it.  Source: Teh (2003), 6.11, 6.12 and algorithm 6.1; Jiroušek & Přeučil (1995).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Protocol

import numpy as np

from herdcli import fast
from herdcli.algorithm import HasStateShapes
from herdcli.errors import DataError, NegativeResult
from herdcli.markov.exact import cliques, enumeration, junction_tree
from herdcli.markov.exact.cliques import CliqueGraph, Row, ScalingLayout, walk_depth_first
from herdcli.markov.learning.feature_tilting import fit_feature_tilt
from herdcli.markov.learning.learners import LearnedFactors, LearningSettings, SizedLearner, empty_residual
from herdcli.markov.method import ToTolerance
from herdcli.markov.model.constraints import LearningProblem
from herdcli.markov.model.network import MOST_AXES
from herdcli.records import dataclass
from herdcli.schema import Array

MOST_STATES = 1 << 26


@dataclass
class IterativeScalingState:
    """Clique tables, values of clusters and separators (see numpy_junction), one residual per sweep, and counts of updates."""

    tables: Array
    values: Array
    residual: Array
    counts: Array
    step: int


class IterativeScaling(SizedLearner, ToTolerance[IterativeScalingState, LearningSettings], HasStateShapes[IterativeScalingState]):
    """The algorithms `ipf`, `effective-ipf` and `ups-jt`; each step is a sweep over all clusters."""

    state = IterativeScalingState

    def __init__(self, problem: LearningProblem, settings: LearningSettings) -> None:
        self.problem, self.settings, self.steps = problem, settings, settings.iterations
        self.scopes = [cluster.scope for cluster in problem.clusters]
        if settings.algorithm == "ipf":
            self.graph: CliqueGraph | None = _single_clique_graph(problem)
            return
        found = cliques.search_elimination_orders(problem.structure_network(), settings.seed, settings.orders)
        self.width, self.graph = found.width, None
        if found.complete:
            self.plan = junction_tree.build_clique_tree(problem.structure_network(), found.order, keep_single_states=True)
            self.graph, self.kept = cliques.junction_tree_from_order(self.plan)

    def bytes_needed(self) -> tuple[int, str]:
        """Return the bytes of the cliques' tables, and their purpose in words."""
        if self.graph is None:
            return 1 << 60, f"the junction tree, treewidth at least {self.width},"
        size = self.graph.bytes_needed(self.problem.cardinality, self.scopes)
        return size, "the joint table" if self.settings.algorithm == "ipf" else f"the junction tree, treewidth {self.width},"

    @cached_property
    def layout(self) -> ScalingLayout:
        """Clusters and separators in flat arrays."""
        assert self.graph is not None
        targets = [np.zeros(self.problem.scope_shape(c.scope)) if c.features is not None else c.target for c in self.problem.clusters]
        return cliques.build_scaling_layout(self.graph.cliques, self.graph.inner(), self.problem.cardinality, self.scopes, targets)

    @cached_property
    def sweep_program(self) -> list[Array | int]:
        """A sweep: rows for `clique_updates`, interrupted by the numbers of clusters with features."""
        assert self.graph is not None
        rows = (_effective_ipf_schedule if self.settings.algorithm == "effective-ipf" else cliques.build_scaling_schedule)(
            self.graph, self.layout
        )
        parts: list[Array | int] = []
        run: list[Row] = []
        for k, other in rows:
            if other < 0 and self.problem.clusters[k].features is not None:
                parts += [np.array(run, dtype=np.int32).reshape(-1, 2), k]
                run = []
            else:
                run.append((k, other))
        return [*parts, np.array(run, dtype=np.int32).reshape(-1, 2)]

    def state_template(self) -> IterativeScalingState:
        """Return uniform cliques."""
        return IterativeScalingState(
            self.layout.uniform_tables(), self.layout.uniform_values(), empty_residual(), np.zeros(2, dtype=np.int64), 0
        )

    def init(self) -> IterativeScalingState:
        """Return P0, as the marginals of the cliques."""
        if self.settings.algorithm == "ipf":
            values = self.layout.uniform_values()
            base = self.problem.base
            tables = enumeration.initial_joint(base).joint.ravel() if base is not None else self.layout.uniform_tables()
        else:
            tables, values = cliques.initial_scaling_tables(self.problem.base, self.plan, self.kept, self.layout)
        return IterativeScalingState(tables, values, empty_residual(), np.zeros(2, dtype=np.int64), 0)

    def step(self, state: IterativeScalingState) -> IterativeScalingState:
        """Do one sweep."""
        furthest = 0.0
        made = self.layout
        for part in self.sweep_program:
            if isinstance(part, int):
                furthest = max(furthest, self._tilt_cluster(part, state))
                state.counts[0] += 1
                continue
            # Rows (α, −1) are scalings (6.11), others are propagations over a separator (6.12); the clique is exact at each scaling.
            far, _, bad = fast.clique_updates(part, state.tables, state.values, made.target, made.links, 1.0, made.scratch)
            if bad >= 0:
                raise impossible_cluster_error(self.problem, int(part[bad, 0]))
            furthest = max(furthest, far)
            scalings = int(np.count_nonzero(part[:, 1] < 0))
            state.counts += np.array([scalings, len(part) - scalings])
        return IterativeScalingState(state.tables, state.values, np.append(state.residual, furthest), state.counts, state.step + 1)

    def _tilt_cluster(self, a: int, state: IterativeScalingState) -> float:
        """Give cluster a the expectations of its features; return the largest error before."""
        cluster, made = self.problem.clusters[a], self.layout
        assert cluster.features is not None
        cell = made.links[4][made.links[3][a] : made.links[3][a + 1]]
        at, table = made.scope_cells(a), made.clique_cells(made.home[a])
        # P(x_α), the clique's marginal over the cluster.
        p = np.bincount(cell, state.tables[table], at.stop - at.start)
        p = p / p.sum()
        flat = cluster.features.reshape(len(cluster.features), -1)
        ratio = fit_feature_tilt(p, flat, cluster.target)
        if ratio is None:
            raise impossible_cluster_error(self.problem, a)
        # 6.11 with exp(δ·f)/Z' in place of target/P: the closest of all distributions with these expectations differs from P by a function
        # of the features only (6.30), so that the rest of the clique is scaled along.
        state.values[at] *= ratio
        state.tables[table] *= ratio[cell]
        return float(np.abs(flat @ p - cluster.target).max())

    def result(self, state: IterativeScalingState) -> LearnedFactors:
        """Return the factors."""
        return assemble_scaled_factors(self.problem, self.layout, state, self.meets_criterion(state))


class _ScaledState(Protocol):
    """The fields that all states of iterative scaling have."""

    values: Array
    residual: Array
    counts: Array
    step: int


def assemble_scaled_factors(problem: LearningProblem, layout: ScalingLayout, state: _ScaledState, converged: bool) -> LearnedFactors:
    """Return the products of the scalings, which precede those of inner regions in `values`."""
    factors = [state.values[layout.scope_cells(a)].reshape(problem.scope_shape(c.scope)) for a, c in enumerate(problem.clusters)]
    return LearnedFactors(factors, converged, state.step, state.residual, (int(state.counts[0]), int(state.counts[1])))


def _single_clique_graph(problem: LearningProblem) -> CliqueGraph:
    """Return the graph with one clique of all variables."""
    count, states = len(problem.cardinality), math.prod(problem.cardinality.tolist())
    if states > MOST_STATES or count > MOST_AXES:
        hint = "use --algorithm ups-jt, which finds the same distribution on a junction tree"
        size = float(np.log2(problem.cardinality.astype(np.float64)).sum())
        raise DataError(f"--algorithm ipf handles at most 2^26 joint states, but {count} variables have 2^{size:.1f}", hint=hint)
    return CliqueGraph([tuple(range(count))], [], True)


def _effective_ipf_schedule(graph: CliqueGraph, layout: ScalingLayout) -> list[Row]:
    """Return the schedule of effective IPF: after each scaling the change is propagated to every clique of the tree."""
    rows: list[Row] = []
    for a, c in enumerate(layout.home):
        rows.append((a, -1))
        # `walk_depth_first` visits neighbouring cliques in turn: each clique takes the new marginal from the clique before it on the walk
        # (6.12).
        rows += [layout.message_program_row(e) for _, e, first in walk_depth_first(graph, c) if first and e >= 0]
    return rows


def impossible_cluster_error(problem: LearningProblem, a: int) -> NegativeResult:
    """Return the error for a cluster that needs probability where the others, or P0, have zero."""
    scope = ", ".join(problem.names[i] if problem.names else f"x{i}" for i in problem.clusters[a].scope)
    message = (
        f"no distribution has these marginals: cluster {a} ({scope}) gives probability to states that other clusters, or the base, forbid"
    )
    return NegativeResult(message, hint="use --smoothing 1 against zero marginals, or --double-loop if loopy-is diverges")
