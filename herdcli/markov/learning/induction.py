"""Induction of pairs: pairs are added to a structure one at a time, the one with the largest gain in likelihood first.

The gain of joining i and j, with other factors fixed, is KL(P̂_ij ‖ P_ij) of the fitted model P.  After each addition the model is
fitted again.  Source: Teh (2003), sec. 2.5.1; Della Pietra, Della Pietra & Lafferty (1997).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from herdcli import fast, iterate
from herdcli.algorithm import FixedLengthAlgorithm, RunProgress
from herdcli.markov.exact.cliques import walk_depth_first
from herdcli.markov.learning import ipf
from herdcli.markov.learning.ipf import IterativeScaling
from herdcli.markov.learning.learners import LearningSettings
from herdcli.markov.model import constraints
from herdcli.markov.model.constraints import LearningProblem, PairTables
from herdcli.records import dataclass
from herdcli.schema import Array, array

TOLERANCE = 1e-7
SWEEPS = 300


@dataclass
class InductionState:
    """The pairs so far, with their gains; `ended` is True if no other pair has a gain, or none fits."""

    step: int
    ended: bool
    pairs: Array = array("m 2", "variables that were joined", kind="i")
    gains: Array = array("m", "gain of each pair, nats per row", kind="f")


@dataclass(frozen=True)
class Induction(FixedLengthAlgorithm[InductionState]):
    """The algorithm that adds `count` pairs, one per step; pairs whose junction tree would need more than `limit` bytes are skipped.

    Its result is the problem with the pairs, and the pairs (i, j, gain).
    """

    problem: LearningProblem
    empirical: PairTables
    count: int
    settings: LearningSettings
    smoothing: float
    limit: float
    state = InductionState  # the type of its states

    @property
    def steps(self) -> int:
        """The number of steps, one per pair."""
        return self.count

    @cached_property
    def _fit_settings(self) -> LearningSettings:
        return replace(self.settings, algorithm="ups-jt", tolerance=TOLERANCE, iterations=SWEEPS)

    def init(self) -> InductionState:
        """Return the state without pairs."""
        return InductionState(0, False, np.empty((0, 2), dtype=np.int64), np.empty(0))

    def step(self, state: InductionState) -> InductionState:
        """Fit the model and add the pair with the largest gain."""
        problem = self._add_pairs(state.pairs)
        fitted = IterativeScaling(problem, self._fit_settings)
        # The gain of a pair is the divergence of its empirical marginal from the model's: the likelihood that scaling it alone would add.
        gain = pair_divergences(
            self.empirical, all_pair_marginals(fitted, iterate.run_steps(fitted.step, fitted.init(), until=fitted.done))
        )
        for cluster in problem.clusters:
            # Pairs inside a cluster have the right marginal already; what is left of their divergence is the tolerance of the fit.
            gain[np.ix_(cluster.scope, cluster.scope)] = 0.0
        found = self._best_pair_that_fits(state.pairs, gain)
        state.step += 1
        if found is None:
            state.ended = True
        else:
            state.pairs, state.gains = np.vstack([state.pairs, found]), np.append(state.gains, gain[found])
        return state

    def _best_pair_that_fits(self, pairs: Array, gain: Array) -> tuple[int, int] | None:
        """Return the pair of largest gain whose junction tree fits."""
        for flat in np.argsort(-np.triu(gain).ravel(), kind="stable").tolist():
            i, j = divmod(flat, len(gain))
            if not gain[i, j] > 0 or j <= i:
                return None
            if IterativeScaling(self._add_pairs(np.vstack([pairs, (i, j)])), self._fit_settings).bytes_needed()[0] <= self.limit:
                return i, j
        return None

    def _add_pairs(self, pairs: Array) -> LearningProblem:
        """Return the problem with additional pairs (m, 2)."""
        if not len(pairs):
            return self.problem
        assert self.problem.rows is not None
        features = [cluster for cluster in self.problem.clusters if cluster.features is not None]
        scopes = [cluster.scope for cluster in self.problem.clusters if cluster.features is None]
        scopes += [(i, j) for i, j in pairs.tolist()]
        made = constraints.make_clusters(self.problem.rows, self.problem.cardinality, scopes, self.smoothing)
        return replace(self.problem, clusters=[*made, *features])

    def done(self, state: InductionState) -> bool:
        """Return True if all pairs are added, or no more can be."""
        return state.ended or super().done(state)

    def memory(self) -> int:
        """Return the bytes of the junction tree, before a pair is added."""
        return IterativeScaling(self.problem, self._fit_settings).bytes_needed()[0]

    def progress(self, state: InductionState) -> RunProgress:
        """The number of pairs, and the gain of the last one."""
        return RunProgress(state.step, self.count, f"gain {state.gains[-1]:.3g}" if len(state.gains) else "")

    def result(self, state: InductionState) -> tuple[LearningProblem, list[tuple[int, int, float]]]:
        """Return the problem with its pairs, and the pairs."""
        added = [(i, j, gain) for (i, j), gain in zip(state.pairs.tolist(), state.gains.tolist(), strict=True)]
        return self._add_pairs(state.pairs), added


def pair_divergences(empirical: PairTables, model: Array) -> Array:
    """Compute KL(P̂_ij ‖ P_ij) in nats (N, N); `model` has the layout of the empirical table."""
    p = empirical.table
    with np.errstate(divide="ignore", invalid="ignore"):
        # P f/Z' with any f(x_i, x_j) has E_P̂ log f − log Z' nats per row more than P.  The maximum is at f = P̂_ij/P_ij: then Z' = Σ P_ij
        # f = 1 and the gain is KL(P̂_ij ‖ P_ij).
        terms = np.where(p > 0, p * np.log(p / model), 0.0)
    return empirical.sum_over_pair_blocks(terms)


def all_pair_marginals(model: IterativeScaling, state: ipf.IterativeScalingState) -> Array:
    """Return the model's marginals of all pairs (Σ card, Σ card), from consistent clique tables.

    For each state of each variable the tables are conditioned on it in the variable's clique, and the change is propagated.
    """
    made, states = model.layout, model.problem.cardinality.tolist()
    offset = np.concatenate(([0], np.cumsum(states)))
    graph = model.graph
    assert graph is not None
    home = graph.smallest_containing_cliques([(i,) for i in range(len(states))])
    places = []
    for i, c in enumerate(home):
        axis = graph.cliques[c].index(i)
        shape = [states[j] for j in graph.cliques[c]]
        cell = np.broadcast_to(np.arange(states[i]).reshape([-1 if k == axis else 1 for k in range(len(shape))]), shape).ravel()
        places.append((made.clique_cells(c), cell))
    routes = {
        c: np.array([made.message_program_row(e) for _, e, first in walk_depth_first(graph, c) if first and e >= 0], dtype=np.int32)
        for c in set(home)
    }
    table = np.zeros((int(offset[-1]), int(offset[-1])))
    for i, (at, cell) in enumerate(places):
        alone = np.bincount(cell, state.tables[at], states[i])
        for x in range(states[i]):
            if not alone[x] > 0:
                continue
            tables, values = state.tables.copy(), state.values.copy()
            # P(x_k, x_i = x) = P(x_k | x_i = x) P(x_i = x): evidence in the clique of i, propagated outwards (6.12), conditions every
            # clique on it.
            tables[at] *= (cell == x) / alone[x]
            fast.clique_updates(routes[home[i]].reshape(-1, 2), tables, values, made.target, made.links, 1.0, made.scratch)
            given = [np.bincount(other, tables[where], states[j]) for j, (where, other) in enumerate(places)]
            table[offset[i] + x] = np.concatenate(given) * alone[x]
    return table
