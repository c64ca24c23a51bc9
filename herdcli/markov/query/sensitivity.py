"""Sensitivity of a probability to each parameter: the derivative of P(X = s | evidence) with respect to every cell of every factor.

Z is linear in a cell θ_c.  With M(c) = ∂Z/∂θ_c and M_s(c) the same with X fixed at s, P = Z_s/Z has

    ∂P/∂θ_c = (M_s(c) − P M(c))/Z.

Source: Darwiche (2003), "A differential approach to inference in Bayesian networks"; Chan & Darwiche (2004).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from herdcli.errors import DataError, NegativeResult
from herdcli.markov.exact import junction_tree
from herdcli.markov.exact.elimination import moral_graph
from herdcli.markov.exact.junction_tree import CalibratedTree, log_sum_exp
from herdcli.markov.model.network import Network, build_network
from herdcli.markov.query.constrained_orders import STAYS, find_greedy_order
from herdcli.markov.query.exact_queries import compute_joint_marginal
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class ParameterSensitivity:
    """P(X = s), and for all cells of all factors, concatenated: the factor, the cell, its value and ∂P/∂θ."""

    probability: float
    factor: Array
    cell: Array
    value: Array
    derivative: Array


def compute_parameter_sensitivity(network: Network, order: Sequence[int], variable: int, state: int) -> ParameterSensitivity:
    """Compute the sensitivities in a network under evidence, where a factor's table contains only the cells that agree with the evidence.

    Raises DataError for a network without factors, NegativeResult if Z is 0.
    """
    if not network.factor_count:
        raise DataError("the network has no factors, so there are no table entries to analyse")
    found = _calibrate_network(network, order)
    slope, log_z = _log_derivatives(network, found), found.log_z
    del found  # free its tables before those of the next are computed
    indicator = (np.arange(int(network.cardinality[variable])) == state).astype(np.float64)
    held = build_network(network.cardinality, [*network.factors(), ((variable,), indicator)])
    try:
        found = _calibrate_network(held, order)
        p, inner = float(np.exp(found.log_z - log_z)), _log_derivatives(held, found)
    except NegativeResult:
        p, inner = 0.0, [_log_product_of_others(held, a) for a in range(network.factor_count)]
    change = [(np.exp(inner[a] - log_z) - p * np.exp(slope[a] - log_z)).ravel() for a in range(network.factor_count)]
    return _cell_sensitivity(network, p, np.concatenate(change))


def extend_to_all_cells(sensitivity: ParameterSensitivity, before: Network, evidence: Mapping[int, int]) -> ParameterSensitivity:
    """Extend the sensitivities to all cells of the network before evidence; excluded cells are in no sum, so their derivative is 0."""
    inside = []
    for scope, table in before.factors():
        mask = np.zeros(table.shape, dtype=bool)
        mask[tuple(evidence.get(i, slice(None)) for i in scope)] = True
        inside.append(mask.ravel())
    slopes = np.zeros(len(before.table))
    slopes[np.concatenate(inside)] = sensitivity.derivative  # slices keep the order of cells
    return _cell_sensitivity(before, sensitivity.probability, slopes)


def _cell_sensitivity(network: Network, p: float, derivative: Array) -> ParameterSensitivity:
    """Combine the derivatives of all cells with their positions and values."""
    sizes = np.diff(network.table_offset)
    cell = np.arange(len(network.table)) - np.repeat(network.table_offset[:-1], sizes)
    return ParameterSensitivity(p, np.repeat(np.arange(network.factor_count), sizes), cell, network.table, derivative)


def _calibrate_network(network: Network, order: Sequence[int]) -> CalibratedTree:
    return junction_tree.calibrate(network, junction_tree.build_clique_tree(network, np.asarray(order)))


def _log_derivatives(network: Network, tree: CalibratedTree) -> list[Array]:
    """Return log ∂Z/∂θ_c in the shape of each factor.

    It is the clique's marginal over the factor's cells divided by θ_c, and where θ_c = 0 the sum without the factor.
    """
    made = []
    for a, (scope, table) in enumerate(network.factors()):
        if (table == 0).any():
            made.append(_log_product_of_others(network, a))
            continue
        clique = tree.tree.scopes[tree.tree.home[a]]
        free = [i for i in scope if network.cardinality[i] > 1]
        logs = log_sum_exp(tree.tables[tree.tree.home[a]], tuple(axis for axis, i in enumerate(clique) if i not in free))
        kept = [i for i in clique if i in free]
        made.append(logs.transpose([kept.index(i) for i in free]).reshape(table.shape) - np.log(table))
    return made


def _log_product_of_others(network: Network, a: int) -> Array:
    """Return, for each cell of factor a, the log of the sum of the other factors' product over all other variables."""
    factors = list(network.factors())
    scope, table = factors.pop(a)
    free = [i for i in scope if network.cardinality[i] > 1]
    left = build_network(network.cardinality, factors)
    stage = tuple(STAYS if i in free else 0 for i in range(network.count))
    graph = moral_graph(left)
    order = find_greedy_order(graph, network.cardinality.tolist(), stage, list(range(network.count)), True, np.inf).order
    try:
        p, log_z = compute_joint_marginal(left, order.tolist(), free)
    except NegativeResult:
        return np.full(table.shape, -np.inf)
    with np.errstate(divide="ignore"):
        made: Array = (np.log(p) + log_z).reshape(table.shape)
    return made
