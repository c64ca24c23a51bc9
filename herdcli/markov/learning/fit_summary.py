"""Summaries of a learned network: the record of its fit, and log-likelihoods and marginals by its junction tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from herdcli.errors import DataError
from herdcli.markov.exact import junction_tree
from herdcli.markov.exact.cliques import search_elimination_orders
from herdcli.markov.learning.learners import LearnedFactors
from herdcli.markov.model.constraints import LearningProblem, StateRows
from herdcli.markov.model.fit import FitRecord
from herdcli.markov.model.network import Network, build_network
from herdcli.markov.model.row_counts import Counts
from herdcli.schema import Array


def make_fit_record(problem: LearningProblem, learned: LearnedFactors, algorithm: str, **more: object) -> FitRecord:
    """Return the record of a fit."""
    given = [cluster for cluster in problem.clusters if cluster.features is None]
    flat = build_network(problem.cardinality, [(cluster.scope, cluster.target) for cluster in given])
    fit = FitRecord(
        flat.scope,
        flat.scope_offset,
        flat.table,
        flat.table_offset,
        learned.residual,
        algorithm=algorithm,
        converged=learned.converged,
        iterations=learned.iterations,
        residual=float(learned.residual[-1]) if len(learned.residual) else 0.0,
        scaling_updates=learned.counts[0],
        propagation_updates=learned.counts[1],
        rows=0 if problem.rows is None else problem.rows.count,
    )
    return replace(fit, **more)  # type: ignore[arg-type]


def row_log_potentials(network: Network, x: Array) -> Array:
    """Compute Σ log f_a(x_a) for rows x (n, N); −∞ if a factor is 0."""
    if x.shape[1] != network.count:
        raise DataError(f"the data have {x.shape[1]} columns, but the network has {network.count} variables")
    if (high := x.max(axis=0) >= network.cardinality).any():
        i = int(np.argmax(high))
        raise DataError(
            f"column {i} has the state {x[:, i].max()}, but variable {network.name(i)} has only the states 0 to "
            f"{network.cardinality[i] - 1}"
        )
    total = np.zeros(len(x))
    with np.errstate(divide="ignore"):
        for scope, table in network.factors():
            total += np.log(table)[tuple(x[:, i] for i in scope)]
    return total


def calibrate_network(
    network: Network, limit: float, scopes: Sequence[tuple[int, ...]] = (), seed: int = 0
) -> junction_tree.CalibratedTree | None:
    """Return the junction tree of a network, with a clique for each of `scopes`; None if it would need more than `limit` bytes."""
    whole = network
    if scopes:
        extra = [(scope, np.ones([int(network.cardinality[i]) for i in scope])) for scope in scopes]
        whole = build_network(network.cardinality, [*network.factors(), *extra])
    found = search_elimination_orders(whole, seed, 4)
    if not found.complete:
        return None
    tree = junction_tree.build_clique_tree(whole, found.order)
    return junction_tree.calibrate(whole, tree) if tree.bytes_needed(whole) <= limit else None


def scope_marginals(network: Network, calibrated_tree: junction_tree.CalibratedTree, scopes: Sequence[tuple[int, ...]]) -> list[Array]:
    """Return the marginals over scopes that were given to `calibrate_network`."""
    made = build_network(network.cardinality, [(scope, np.ones([int(network.cardinality[i]) for i in scope])) for scope in scopes])
    home = [min((calibrated_tree.tree.position[i] for i in scope if network.cardinality[i] > 1), default=0) for scope in scopes]
    tree = junction_tree.JunctionTreeLayout(calibrated_tree.tree.scopes, calibrated_tree.tree.parent, home, calibrated_tree.tree.position)
    return [p for _, p in junction_tree.factor_marginals(made, replace(calibrated_tree, tree=tree))]


def mean_log_likelihood(network: Network, rows: StateRows | Counts, limit: float) -> float:
    """Return the weighted mean of log P(x) over rows, in nats; NaN if log Z would need more than `limit` bytes."""
    found = calibrate_network(network, limit)
    if found is None:
        return float("nan")
    if isinstance(rows, Counts):
        return rows.mean_log_potential(network) - found.log_z
    logs, weight = row_log_potentials(network, rows.x), rows.weight
    return float(weight[weight > 0] @ logs[weight > 0]) - found.log_z
