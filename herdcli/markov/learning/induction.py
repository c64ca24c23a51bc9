"""Pairs added to a structure one at a time, the one with the largest gain in likelihood first.

The gain of joining i and j, other factors held, is KL(P̂_ij ‖ P_ij) of the fitted model P; after each addition the model is
fitted anew.  Source: Teh (2003), sec. 2.5.1; Della Pietra, Della Pietra & Lafferty (1997).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from herdcli import fast, iterate
from herdcli.markov.exact.cliques import depth_first
from herdcli.markov.learning.ipf import IterativeScaling, State
from herdcli.markov.learning.learners import Settings
from herdcli.markov.model import constraints
from herdcli.markov.model.constraints import Pairs, Problem
from herdcli.schema import Array

TOLERANCE = 1e-7
SWEEPS = 300


def induced(
    problem: Problem, empirical: Pairs, count: int, settings: Settings, smoothing: float, limit: float,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Problem, list[tuple[int, int, float]]]:  # fmt: skip
    """The problem with `count` more pairs, and those pairs with their gains in nats a row.

    A pair whose junction tree would take more than `limit` bytes is passed over.
    """
    assert problem.rows is not None
    chosen = replace(settings, algorithm="ups-jt", tolerance=TOLERANCE, iterations=SWEEPS)
    added: list[tuple[int, int, float]] = []
    while len(added) < count:
        model = IterativeScaling(problem, chosen)
        state = iterate.run(model.step, model.init(), until=model.done)
        gain = gains(empirical, pair_marginals(model, state))
        for cluster in problem.clusters:
            gain[np.ix_(cluster.scope, cluster.scope)] = 0.0
        order = np.argsort(-np.triu(gain).ravel(), kind="stable")
        for flat in order.tolist():
            i, j = divmod(flat, len(gain))
            if not gain[i, j] > 0 or j <= i:
                return problem, added
            wider = _with_pair(problem, i, j, smoothing)
            if IterativeScaling(wider, chosen).bytes_needed()[0] <= limit:
                break
        else:
            return problem, added
        problem = wider
        added.append((i, j, float(gain[i, j])))
        if progress:
            progress(len(added), count)
    return problem, added


def _with_pair(problem: Problem, i: int, j: int, smoothing: float) -> Problem:
    assert problem.rows is not None
    features = [cluster for cluster in problem.clusters if cluster.features is not None]
    scopes = [cluster.scope for cluster in problem.clusters if cluster.features is None]
    made = constraints.from_scopes(problem.rows, problem.cardinality, [*scopes, (i, j)], smoothing)
    return replace(problem, clusters=[*made, *features])


def gains(empirical: Pairs, model: Array) -> Array:
    """(N, N) KL(P̂_ij ‖ P_ij) in nats; model laid out as the empirical table."""
    p = empirical.table
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0, p * np.log(p / model), 0.0)
    return empirical.sums(terms)


def pair_marginals(model: IterativeScaling, state: State) -> Array:
    """(Σ card, Σ card) the model's marginals of all pairs, from clique tables that agree with each other.

    For each state of each variable the tables are conditioned on it where the variable lives, and the change goes out.
    """
    made, states = model.layout, model.problem.cardinality.tolist()
    offset = np.concatenate(([0], np.cumsum(states)))
    graph = model.graph
    assert graph is not None
    home = graph.homes([(i,) for i in range(len(states))])
    places = []
    for i, c in enumerate(home):
        axis = graph.cliques[c].index(i)
        shape = [states[j] for j in graph.cliques[c]]
        cell = np.broadcast_to(np.arange(states[i]).reshape([-1 if k == axis else 1 for k in range(len(shape))]), shape).ravel()
        places.append((made.table_of(c), cell))
    routes = {c: np.array([made.send(e) for _, e, first in depth_first(graph, c) if first and e >= 0], dtype=np.int32) for c in set(home)}
    table = np.zeros((int(offset[-1]), int(offset[-1])))
    for i, (at, cell) in enumerate(places):
        alone = np.bincount(cell, state.tables[at], states[i])
        for x in range(states[i]):
            if not alone[x] > 0:
                continue
            tables, values = state.tables.copy(), state.values.copy()
            tables[at] *= (cell == x) / alone[x]
            fast.clique_updates(routes[home[i]].reshape(-1, 2), tables, values, made.target, made.links, 1.0, made.scratch)
            given = [np.bincount(other, tables[where], states[j]) for j, (where, other) in enumerate(places)]
            table[offset[i] + x] = np.concatenate(given) * alone[x]
    return table
