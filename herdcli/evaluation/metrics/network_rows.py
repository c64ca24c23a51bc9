"""The log-likelihood of rows, possibly with missing values, under a network and under independent columns."""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import run_algorithm
from herdcli.markov.exact import junction_tree
from herdcli.markov.exact.evidence_batch import EvidenceBatch
from herdcli.markov.exact.junction_tree import CalibratedTree
from herdcli.markov.learning import fit_summary
from herdcli.markov.model.network import Network, with_observed_marginals
from herdcli.schema import Array

LIMIT = 4e9  # bytes of the tables for a block of rows


def mean_log_likelihoods(network: Network, tree: CalibratedTree | None, rows: Array) -> dict[str, float | None]:
    """Return the mean log P of rows (n, N) of states, −1 if missing, in nats, and that of independent columns.

    tree  the junction tree, None if it is too large; a Bayesian network needs none for complete rows.
    """
    logs = _row_log_likelihoods(network, tree, rows)
    return {
        "log_likelihood": None if logs is None else float(np.mean(logs)),
        "independent": _independent_log_likelihood(network, tree, rows),
    }


def _row_log_likelihoods(network: Network, tree: CalibratedTree | None, rows: Array) -> Array | None:
    """Return (n,) log P of the known values of each row; None if it needs too much memory."""
    if tree is None and not network.directed:
        return None
    log_z = 0.0 if tree is None else tree.log_z
    whole = (rows >= 0).all(axis=1)
    logs = np.empty(len(rows))
    if whole.any():
        logs[whole] = fit_summary.row_log_potentials(network, rows[whole]) - log_z
    if not whole.all():
        batch = EvidenceBatch(with_observed_marginals(network, {}), list(range(network.count)), rows[~whole], orders=4, seed=0)
        if batch.memory() > LIMIT:
            return None
        logs[~whole] = np.concatenate([part.log_z for part in run_algorithm(batch)]) - log_z
    return logs


def _independent_log_likelihood(network: Network, tree: CalibratedTree | None, rows: Array) -> float | None:
    """Return the log-likelihood under independent columns with the marginals that the network was fitted to, else with its own."""
    single: dict[int, Array] = {}
    for scope, table in network.fit.targets(network.cardinality) if network.fit is not None else ():
        for axis, variable in enumerate(scope):
            single.setdefault(variable, table.sum(axis=tuple(other for other in range(len(scope)) if other != axis)))
    if len(single) < network.count:
        if tree is None:
            return None
        single = dict(enumerate(junction_tree.node_marginals(network, tree)))
    total = np.zeros(len(rows))
    for i, p in single.items():
        known = rows[:, i] >= 0
        total[known] += np.log(np.maximum(p / p.sum(), 1e-12))[rows[known, i]]
    return float(np.mean(total))
