"""Reduction of a network to nodes and edges, on which messages are passed.

Factors over one variable become potentials, factors over the same pair are multiplied, and a factor over more becomes an
auxiliary node whose states are the factor's non-zero cells, joined to each of its variables by a table of zeros and ones.
Source: Weiss & Freeman (2001), sec. 2; the Bethe free energy of the reduction equals that of the factor graph.
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import Diverged, NegativeResult
from herdcli.markov.model import possible_states
from herdcli.markov.model.network import Network
from herdcli.records import dataclass
from herdcli.schema import Array

SMALLEST = -708.0  # approximate log of the smallest normal float64


@dataclass(frozen=True)
class PairwiseNetwork:
    """A network of N nodes and E edges; the first `variables` nodes are those of the original network.

    See numpy_markov for the arrays in `arrays`.

    log_scale  log of the constant that was divided out of potentials and tables.
    auxiliary  node -> (scope, cells) of a larger factor.
    """

    tail: Array
    head: Array
    cardinality: Array
    node_offset: Array
    potential: Array
    table_offset: Array
    table: Array
    message_offset: Array
    in_offset: Array
    in_edge: Array
    variables: int
    log_scale: float
    auxiliary: dict[int, tuple[tuple[int, ...], Array]]

    @property
    def nodes(self) -> int:
        """Number of nodes, auxiliary ones included."""
        return len(self.cardinality)

    @property
    def edges(self) -> int:
        """Number of (undirected) edges."""
        return len(self.tail) // 2

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arguments of the loops in `fast`."""
        return (
            self.tail, self.head, self.cardinality, self.node_offset, self.potential, self.table_offset, self.table,
            self.message_offset, self.in_offset, self.in_edge,
        )  # fmt: skip

    def degree(self) -> Array:
        """(N,) the number of neighbours."""
        return np.diff(self.in_offset)

    def neighbours(self, i: int) -> Array:
        """Return the nodes joined to i, in the order of the edges that enter it."""
        found: Array = self.tail[self.in_edge[self.in_offset[i] : self.in_offset[i + 1]]]
        return found

    def incoming_edges(self, i: int) -> Array:
        """Return the directed edges that enter i."""
        found: Array = self.in_edge[self.in_offset[i] : self.in_offset[i + 1]]
        return found

    def scratch(self) -> Array:
        """Allocate work space for the loops in `fast`."""
        return np.empty(4 * int(self.cardinality.max()))

    def edge_table(self, e: int) -> Array:
        """Return ψ of undirected edge e; its rows belong to the tail of directed edge 2e."""
        rows, columns = self.cardinality[self.tail[2 * e]], self.cardinality[self.head[2 * e]]
        found: Array = self.table[self.table_offset[e] : self.table_offset[e + 1]].reshape(rows, columns)
        return found

    def uniform_messages(self) -> Array:
        """Return uniform messages."""
        return np.ones(int(self.message_offset[-1]))

    def flatten_fixed_marginals(self, marginals: dict[int, Array]) -> tuple[Array, Array]:
        """Return which nodes have a given marginal, (N,) uint8, and those marginals over all states, flat."""
        fixed, target = np.zeros(self.nodes, dtype=np.uint8), np.zeros(int(self.node_offset[-1]))
        for i, p in marginals.items():
            fixed[i] = 1
            target[self.node_offset[i] : self.node_offset[i + 1]] = p
        return fixed, target


def reduce_to_pairwise(network: Network) -> PairwiseNetwork:
    """Return the nodes and edges of a network, without the states and cells that zeros exclude.

    Raises NegativeResult if the factors leave a variable no state.
    """
    kept = None if network.table.all() else possible_states.find_possible_states(network)
    units: list[Array] = [np.zeros(count) for count in network.cardinality.tolist()]
    for unit, stays in zip(units, kept or (), strict=kept is not None):
        unit[~stays] = -np.inf
    pairs: dict[tuple[int, int], Array] = {}
    auxiliary: dict[int, tuple[tuple[int, ...], Array]] = {}
    log_scale = 0.0
    states = network.cardinality.tolist()
    for scope, table in network.factors():
        wide = [i for i in scope if states[i] > 1]
        with np.errstate(divide="ignore"):
            logs = np.log(table.reshape([states[i] for i in wide]))
        if kept is not None:
            logs = np.where(possible_states.restrict_to_possible_cells(np.isfinite(logs), [kept[i] for i in wide]), logs, -np.inf)
        if not wide:
            log_scale += float(logs)
        elif len(wide) == 1:
            units[wide[0]] = units[wide[0]] + logs
        elif len(wide) == 2:
            key = (min(wide), max(wide))
            oriented = logs if key == tuple(wide) else logs.T
            pairs[key] = pairs[key] + oriented if key in pairs else oriented
        else:
            node, cells = len(units), np.flatnonzero(np.isfinite(logs.ravel()))
            auxiliary[node] = (tuple(wide), cells)
            units.append(logs.ravel()[cells])
            for i, at in zip(wide, np.unravel_index(cells, logs.shape), strict=True):
                # A cell determines each x_i, so edge (i, node) has the entropy of the node, and its n edges together n times that entropy.
                # With the node's (1 − n_a) H(b_a), one H(b_a) remains for the factor, as in the Bethe free energy of the factor graph.
                pairs[i, node] = np.where(np.arange(states[i])[:, None] == at[None], 0.0, -np.inf)
    return _assemble_pairwise(network, units, pairs, auxiliary, log_scale)


def _assemble_pairwise(
    network: Network,
    units: list[Array],
    pairs: dict[tuple[int, int], Array],
    auxiliary: dict[int, tuple[tuple[int, ...], Array]],
    log_scale: float,
) -> PairwiseNetwork:
    # Every table is divided by its maximum, and the sum of their logarithms is put back into log Z.
    tops = [float(unit.max()) for unit in units] + [float(table.max()) for table in pairs.values()]
    if -np.inf in tops:
        at = tops.index(-np.inf)
        place = network.name(at) if at < len(units) else " and ".join(map(network.name, list(pairs)[at - len(units)]))
        raise NegativeResult(f"every joint state has probability 0: the factors exclude all states of {place}")
    _require_float64_range(network, [*units, *pairs.values()], tops, [*((i,) for i in range(len(units))), *pairs], auxiliary)
    n, m = len(units), len(pairs)
    edges = np.array(list(pairs), dtype=np.int32).reshape(-1, 2)
    tail, head = edges.ravel(), edges[:, ::-1].ravel()
    cardinality = np.array([len(unit) for unit in units], dtype=np.int32)
    into = np.argsort(head, kind="stable").astype(np.int32)
    parts = [np.exp(logs - top) for logs, top in zip([*units, *pairs.values()], tops, strict=True)]
    return PairwiseNetwork(
        tail=np.ascontiguousarray(tail),
        head=np.ascontiguousarray(head),
        cardinality=cardinality,
        node_offset=_cumulative_offsets(cardinality),
        potential=np.concatenate(parts[:n]),
        table_offset=_cumulative_offsets(np.array([part.size for part in parts[n:]], dtype=np.int64)),
        table=np.concatenate([part.ravel() for part in parts[n:]]) if m else np.empty(0),
        message_offset=_cumulative_offsets(cardinality[head]),
        in_offset=_cumulative_offsets(np.bincount(head, minlength=n)),
        in_edge=into,
        variables=network.count,
        log_scale=log_scale + float(np.sum(tops)),
        auxiliary=auxiliary,
    )


def _require_float64_range(
    network: Network,
    tables: list[Array],
    tops: list[float],
    nodes: list[tuple[int, ...]],
    auxiliary: dict[int, tuple[tuple[int, ...], Array]],
) -> None:
    """Raise Diverged if a log table spans more than float64 can represent: its smallest values would become zeros."""
    for logs, top, scope in zip(tables, tops, nodes, strict=True):
        span = top - float(logs.min(initial=top, where=np.isfinite(logs)))
        if span > -SMALLEST:
            variables = sorted({i for node in scope for i in (auxiliary[node][0] if node in auxiliary else (node,))})
            names = ", ".join(map(network.name, variables[:-1])) + (" and " if len(variables) > 1 else "") + network.name(variables[-1])
            raise Diverged(
                f"the values of the factors over {names} differ by a factor of 10^{span / np.log(10):.0f}, too much for float64",
                hint="use --algorithm junction-tree, gbp, tree-ep or mean-field, which compute with logarithms",
            )


def _cumulative_offsets(lengths: Array) -> Array:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
