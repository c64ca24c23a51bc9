"""Exact marginals and log Z by a junction tree, in the log domain, so that couplings of any size and zeros are exact.

The cliques are those of an elimination order.  Clique k contains variable k and its neighbours when it is eliminated, and sends its
message to the clique of the first of them to be eliminated next.  A clique's axes are in elimination order, so that messages
only need new axes of length 1, and summing a variable out is summing over the first axis.
Source: Jensen, Lauritzen & Olesen (1990) (Hugin propagation, divides messages out); Teh (2003), sec. 2.2.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from herdcli.errors import NegativeResult
from herdcli.markov.model.network import Factor, Network
from herdcli.markov.model.possible_states import IMPOSSIBLE
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass
class JunctionTreeLayout:
    """Cliques by elimination position.

    scopes  variables in elimination order (the first is the one eliminated).
    parent  parent clique, or −1.
    """

    scopes: list[list[int]]
    parent: list[int]
    home: list[int]  # the clique of each factor
    position: list[int]  # the position of each variable in the order

    def bytes_needed(self, network: Network) -> int:
        """Return the memory of calibration: all tables and messages, and two more of the largest."""
        sizes = [int(np.prod([int(network.cardinality[i]) for i in scope], dtype=object)) for scope in self.scopes]
        return 8 * (2 * sum(sizes) + 3 * max(sizes, default=0))


def build_clique_tree(network: Network, order: Array, keep_single_states: bool = False) -> JunctionTreeLayout:
    """Return the cliques of an elimination order (a permutation of the variables).

    A variable of one state, for example by evidence, is a constant.  It has its own clique and joins no neighbours, unless the
    cliques must contain `keep_single_states` scopes.
    """
    position = np.empty(network.count, dtype=np.int64)
    position[order] = np.arange(network.count)
    at: list[int] = position.tolist()
    members: list[set[int]] = [{i} for i in order.tolist()]
    home = []
    free = np.ones(network.count, dtype=bool) if keep_single_states else network.cardinality > 1
    for variables in restrict_scopes(network, free):
        home.append(min((at[i] for i in variables), default=0))
        members[home[-1]].update(variables)
    parent, scopes = [], []
    for k, clique in enumerate(members):
        ordered = sorted(clique, key=at.__getitem__)
        scopes.append(ordered)
        parent.append(at[ordered[1]] if len(ordered) > 1 else -1)
        if len(ordered) > 1:
            members[parent[k]].update(ordered[1:])
    return JunctionTreeLayout(scopes, parent, home, at)


def restrict_scopes(network: Network, free: Array) -> Iterator[list[int]]:
    """Yield the scope of each factor without the variables that are not free."""
    scope, kept = network.scope.tolist(), free[network.scope].tolist()
    for low, high in pairwise(network.scope_offset.tolist()):
        yield [i for i, is_free in zip(scope[low:high], kept[low:high], strict=True) if is_free]


@dataclass(frozen=True)
class CalibratedTree:
    """The log of each clique's unnormalised marginal, and log Z."""

    tree: JunctionTreeLayout
    tables: list[Array]
    log_z: float


def calibrate(network: Network, tree: JunctionTreeLayout) -> CalibratedTree:
    """Collect messages from the leaves, then distribute.  Raises NegativeResult if no state has a probability."""
    return calibrate_tables(tree, initial_log_tables(network, tree), network.cardinality.tolist())


def calibrate_tables(tree: JunctionTreeLayout, tables: list[Array], states: list[int]) -> CalibratedTree:
    """Calibrate a tree, given the log table of each clique; the tables are replaced by marginals, in place."""
    messages: list[Array] = []
    log_z = 0.0
    for k, table in enumerate(tables):
        # Collect: a clique's own variable is summed out; a root's total is the log Z of its component.
        up = log_sum_exp(table, (0,))
        messages.append(up)
        if tree.parent[k] < 0:
            log_z += float(up)
        else:
            parent = tables[tree.parent[k]]
            parent += _align_axes(up, tree.scopes[k][1:], tree.scopes[tree.parent[k]], states)
    if log_z == -np.inf:
        raise NegativeResult(IMPOSSIBLE)
    for k in range(len(tables) - 1, -1, -1):
        # Distribute, parents before children: every table becomes the log of its marginal times Z.
        p = tree.parent[k]
        if p < 0:
            tables[k] += log_z - messages[k]
            continue
        separator = set(tree.scopes[k][1:])
        outside = tuple(axis for axis, i in enumerate(tree.scopes[p]) if i not in separator)
        # Hugin (2.24): the parent's marginal over the separator includes the child's message.  Dividing by it leaves the message from all
        # others, so that the child's table becomes its marginal.  Collecting needs no division, because separators begin at 1.
        down = log_sum_exp(tables[p], outside)
        impossible = messages[k] == -np.inf  # 0/0 in Hugin propagation is 0
        down -= np.where(impossible, 0.0, messages[k])
        tables[k] += down
    return CalibratedTree(tree, tables, log_z)


def calibrate_without_division(network: Network, tree: JunctionTreeLayout) -> CalibratedTree:
    """Calibrate by Shafer–Shenoy propagation: a message is the product of all other incoming ones, without division.

    It needs more products if a clique has many neighbours, but has no 0/0.  Source: Shafer & Shenoy (1990); Teh (2003), 6.21.
    """
    tables = initial_log_tables(network, tree)
    states = network.cardinality.tolist()
    children: list[list[int]] = [[] for _ in tables]
    arriving: list[Array] = []  # the message of each clique to its parent, with the parent's axes
    log_z = 0.0
    for k, table in enumerate(tables):
        up = log_sum_exp(sum((arriving[j] for j in children[k]), start=table), (0,))
        p = tree.parent[k]
        if p < 0:
            log_z += float(up)
            arriving.append(up)
        else:
            children[p].append(k)
            arriving.append(_align_axes(up, tree.scopes[k][1:], tree.scopes[p], states))
    if log_z == -np.inf:
        raise NegativeResult(IMPOSSIBLE)
    for p in range(len(tables) - 1, -1, -1):
        here = tables[p] + (log_z - float(arriving[p]) if tree.parent[p] < 0 else 0.0)
        for k in children[p]:
            # 2.22: `here` is the product of the parent's own factors and the message from above; without the child's own message no
            # division is needed.
            others = sum((arriving[j] for j in children[p] if j != k), start=here)
            separator = set(tree.scopes[k][1:])
            tables[k] = tables[k] + log_sum_exp(others, tuple(axis for axis, i in enumerate(tree.scopes[p]) if i not in separator))
        tables[p] = sum((arriving[j] for j in children[p]), start=here)
    return CalibratedTree(tree, tables, log_z)


def initial_log_tables(network: Network, tree: JunctionTreeLayout) -> list[Array]:
    """Return the sum of the log factors of each clique."""
    states = network.cardinality.tolist()
    tables = [np.zeros([states[i] for i in scope]) for scope in tree.scopes]
    with np.errstate(divide="ignore"):
        logs = np.log(network.table)
    cells = network.table_offset.tolist()
    for a, scope in enumerate(restrict_scopes(network, network.cardinality > 1)):
        add_to_clique_table(tables, tree, tree.home[a], scope, logs[cells[a] : cells[a + 1]].reshape([states[i] for i in scope]), states)
    return tables


def add_to_clique_table(
    tables: list[Array], tree: JunctionTreeLayout, k: int, scope: Sequence[int], logs: Array, states: list[int]
) -> None:
    """Add a log table over some variables to that of clique k, which contains them."""
    axes = sorted(range(len(scope)), key=lambda axis: tree.position[scope[axis]])
    tables[k] += _align_axes(logs.transpose(axes), [scope[axis] for axis in axes], tree.scopes[k], states)


def log_marginal_in_clique(tree: CalibratedTree, k: int, scope: Sequence[int]) -> Array:
    """Return the log of the unnormalised marginal over some variables of clique k, with axes in their order."""
    clique = tree.tree.scopes[k]
    kept = [i for i in clique if i in scope]
    logs = log_sum_exp(tree.tables[k], tuple(axis for axis, i in enumerate(clique) if i not in scope))
    return logs.transpose([kept.index(i) for i in scope])


def _align_axes(table: Array, scope: list[int], clique: list[int], states: list[int]) -> Array:
    """Reshape a table to the axes of a clique; both scopes are in elimination order."""
    inside = set(scope)
    return table.reshape([states[i] if i in inside else 1 for i in clique])


def log_sum_exp(table: Array, axes: tuple[int, ...]) -> Array:
    """Compute log Σ exp over some axes; −∞ if every entry is −∞."""
    if not axes:
        return table.copy()
    # The largest entry is taken out first, so exp cannot overflow and one term is 1; slices of −∞ are not shifted, as −∞ − (−∞) is NaN.
    top = np.max(table, axis=axes, keepdims=True)
    shift = np.where(top == -np.inf, 0.0, top)
    with np.errstate(divide="ignore"):
        result: Array = np.log(np.sum(np.exp(table - shift), axis=axes, keepdims=True)) + shift
    return np.squeeze(result, axis=axes)


def node_marginals(network: Network, tree: CalibratedTree) -> list[Array]:
    """Return the marginal of each variable, from the clique that eliminates it."""
    marginals: list[Array] = [np.empty(0)] * network.count
    for scope, table in zip(tree.tree.scopes, tree.tables, strict=True):
        p = np.exp(table - tree.log_z).reshape(table.shape[0], -1).sum(axis=1)
        marginals[scope[0]] = p / p.sum()
    return marginals


def factor_marginals(network: Network, tree: CalibratedTree) -> list[Factor]:
    """Return the marginal over each factor's variables."""
    made: list[Factor] = []
    for a, k in enumerate(tree.tree.home):
        scope = network.factor_scope(a)
        if not scope:
            continue
        free = [i for i in scope if network.cardinality[i] > 1]
        clique = tree.tree.scopes[k]
        outside = tuple(axis for axis, i in enumerate(clique) if i not in free)
        p = np.exp(log_sum_exp(tree.tables[k], outside) - tree.log_z)
        kept = [i for i in clique if i in free]
        shape = [int(network.cardinality[i]) for i in scope]
        made.append((scope, (p / p.sum()).transpose([kept.index(i) for i in free]).reshape(shape)))
    return made
