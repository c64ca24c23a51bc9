"""Samples of a network by blocks of variables, each conditional on all others; exact if one block contains all variables.

A block is eliminated variable by variable given the variables outside, and sampled in reverse order.  A block contains the variables that
a greedy elimination reaches while tables stay below a number of cells; the others form the next blocks.  Chains are a batch of rows.
Source: Jensen, Kjærulff & Kong (1995), blocking Gibbs sampling; Hamze & de Freitas (2004); Bidyuk & Dechter (2007), w-cutsets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from herdcli import fast
from herdcli.errors import NegativeResult
from herdcli.markov.exact.elimination import FlatGraph, Graph, flatten_graph, moral_graph
from herdcli.markov.exact.junction_tree import log_sum_exp
from herdcli.markov.model.network import Network
from herdcli.records import dataclass
from herdcli.schema import Array

CELLS = 1 << 10  # largest number of cells of a block's tables, for one chain, if samples are dependent
BOUNDARY = -1e4  # replaces log 0 during the search for an initial state


@dataclass(frozen=True)
class BlockFactor:
    """A factor as used in a block: a log table with the axes of variables outside the block first.

    held  variables outside the block.
    free  variables inside the block, in elimination order.
    """

    logs: Array
    held: tuple[int, ...]
    free: tuple[int, ...]

    def condition_log_table(self, x: Array) -> Array:
        """Return the log table (chains or 1, states of the free variables …) with the other variables as in x (N, chains)."""
        return self.logs[tuple(x[i] for i in self.held)] if self.held else self.logs[None]


@dataclass(frozen=True)
class VariableBlock:
    """Variables in elimination order, and for each the factors that are eliminated with it."""

    order: tuple[int, ...]
    parts: tuple[tuple[BlockFactor, ...], ...]
    cells: int  # the number of cells of all tables, for one chain


def partition_into_blocks(network: Network, cells: int) -> list[VariableBlock]:
    """Partition the variables into blocks whose tables have at most `cells` cells."""
    states = network.cardinality.tolist()
    missing = {i for i, count in enumerate(states) if count > 1}
    near, made = flatten_graph(moral_graph(network)), []
    while missing:
        order = find_eliminable_variables(near, states, cells, missing)
        made.append(_make_block(network, order))
        missing.difference_update(order)
    return made


def partition_into_bands(network: Network, cells: int, random: np.random.Generator) -> list[VariableBlock]:
    """Partition the variables into broad bands between layers; a layer consists of all variables at one distance from a root.

    The root is a variable as far as possible from a random one.  The layers outside the second block lie between those outside the first.
    Variables in neither block, or whose tables would exceed `cells`, form further blocks.
    """
    graph, states = moral_graph(network), network.cardinality.tolist()
    free = {i for i, count in enumerate(states) if count > 1}
    near = flatten_graph(graph)
    if len(whole := find_eliminable_variables(near, states, cells, free)) == len(free):
        return [_make_block(network, whole)] if free else []
    level = _breadth_first_levels(graph, random)
    period, shift = _widest_band(near, states, level, cells), int(random.integers(1 << 30))
    missing, made = set(free), []
    for part in range(2):
        held = {i for i in free if (level[i] + shift + part * (period // 2)) % period == 0}
        made.append(_make_block(network, find_eliminable_variables(near, states, cells, missing - held, fixed=held)))
        missing.difference_update(made[-1].order)
    while missing:
        made.append(_make_block(network, find_eliminable_variables(near, states, cells, missing)))
        missing.difference_update(made[-1].order)
    return [block for block in made if block.order]


def _breadth_first_levels(graph: Graph, random: np.random.Generator) -> list[int]:
    """Return the distance of each variable from a root that is far from a random variable."""
    return _breadth_first_distances(graph, _breadth_first_distances(graph, int(random.integers(len(graph))))[1])[0]


def _breadth_first_distances(graph: Graph, root: int) -> tuple[list[int], int]:
    """Return the distances from a variable, or from the first variable in other components; and the last of the variables farthest away."""
    level, far = [-1] * len(graph), root
    for first in (root, *range(len(graph))):
        if level[first] >= 0:
            continue
        level[first], layer = 0, [first]
        while layer:
            far = layer[-1] if first == root else far
            ahead = []
            for i in layer:
                for j in sorted(graph[i]):
                    if level[j] < 0:
                        level[j] = level[i] + 1
                        ahead.append(j)
            layer = ahead
    return level, far


def _widest_band(graph: FlatGraph, states: Sequence[int], level: Sequence[int], cells: int) -> int:
    """Return the widest bands that a greedy elimination can eliminate completely."""
    best = 2
    for period in range(3, max(level) + 3):
        held = {i for i in range(len(states)) if level[i] % period == 0}
        free = {i for i, count in enumerate(states) if count > 1} - held
        if len(find_eliminable_variables(graph, states, cells, free, fixed=held)) < len(free):
            break
        best = period
    return best


def find_eliminable_variables(
    graph: FlatGraph, states: Sequence[int], cells: int, candidates: Iterable[int], *, fixed: Iterable[int] = ()
) -> list[int]:
    """Return the variables that a greedy elimination reaches.

    If a table is too large, its widest variable is left out; `candidates` variables are left out last.  Variables in `fixed` are never
    reached.
    """
    flags = np.zeros((2, len(states)), dtype=np.uint8)
    for row, some in zip(flags, (candidates, fixed), strict=True):
        row[list(some)] = 1
    order = np.empty(len(states), dtype=np.int64)
    count = fast.elimination_reached(graph.offset, graph.near, np.array(states, dtype=np.float64), float(cells), flags[0], flags[1], order)
    found: list[int] = order[:count].tolist()
    return found


def _make_block(network: Network, order: Sequence[int]) -> VariableBlock:
    place = {i: k for k, i in enumerate(order)}
    parts: list[list[BlockFactor]] = [[] for _ in order]
    with np.errstate(divide="ignore"):
        for scope, table in network.factors():
            free = sorted((i for i in scope if i in place), key=place.__getitem__)
            if not free:
                continue
            held = [i for i in scope if i not in place]
            axes = [scope.index(i) for i in (*held, *free)]
            parts[place[free[0]]].append(BlockFactor(np.log(table).transpose(axes), tuple(held), tuple(free)))
    return VariableBlock(tuple(order), tuple(map(tuple, parts)), _block_cells(network, order, parts))


def _block_cells(network: Network, order: Sequence[int], parts: list[list[BlockFactor]]) -> int:
    states = network.cardinality.tolist()
    scopes: list[set[int]] = [{i} for i in order]
    place = {i: k for k, i in enumerate(order)}
    total = 0
    for k, scope in enumerate(scopes):
        scope.update(i for part in parts[k] for i in part.free)
        total += math.prod(states[i] for i in scope)
        rest = scope - {order[k]}
        if rest:
            scopes[min(place[i] for i in rest)].update(rest)
    return total


def draw_block(
    block: VariableBlock,
    x: Array,
    states: Sequence[int],
    uniform: Array,
    *,
    power: float = 1.0,
    floor: float = -np.inf,
    shares: tuple[Array, Array] | None = None,
) -> None:
    """Sample a block of x (N, chains) given all other variables, in place, with logarithms.

    uniform  (n, chains) in [0, 1), in elimination order.
    power    exponent of the factors.
    floor    replaces log 0.
    shares   (Σ card, chains) and the start of each variable's states; receives the conditional probability of each state.

    Raises NegativeResult if a chain is in an impossible state.
    """
    chains = x.shape[1]
    place = {i: k for k, i in enumerate(block.order)}
    waiting: list[list[tuple[tuple[int, ...], Array]]] = [[] for _ in block.order]
    kept: list[tuple[tuple[int, ...], Array]] = []
    for k, i in enumerate(block.order):
        # Forward filtering: variable k is summed out of the product of its tables, for all chains at once.
        here = [(part.free, power * np.maximum(part.condition_log_table(x), floor)) for part in block.parts[k]]
        here += waiting[k]
        scope = tuple(sorted({i, *(j for free, _ in here for j in free)}, key=place.__getitem__))
        total = np.zeros((1, *(states[j] for j in scope)))
        for free, logs in here:
            inside = set(free)
            total = total + logs.reshape(len(logs), *(states[j] if j in inside else 1 for j in scope))
        kept.append((scope[1:], total))
        message = log_sum_exp(total, (1,))
        if len(scope) > 1:
            waiting[place[scope[1]]].append((scope[1:], message))
        elif (message == -np.inf).any():
            raise NegativeResult("gibbs failed: a chain is in a state with probability 0")
    row = np.arange(chains)
    for k in range(len(block.order) - 1, -1, -1):
        # P(x_i | later variables and those outside) is proportional to the product of the tables at the elimination of x_i, which include
        # the sums over earlier variables.
        (rest, total), i = kept[k], block.order[k]
        first = row if len(total) > 1 else np.zeros(chains, dtype=np.int64)
        logs = np.moveaxis(total, 1, -1)[(first, *(x[j] for j in rest))]
        p = np.exp(logs - logs.max(axis=1, keepdims=True)).cumsum(axis=1)
        x[i] = (p[:, :-1] < uniform[k, :, None] * p[:, -1:]).sum(axis=1)
        if shares is not None:
            shares[0][shares[1][i] : shares[1][i + 1]] = (np.diff(p, axis=1, prepend=0.0) / p[:, -1:]).T


def draw_uniforms(block: VariableBlock, chains: int, random: np.random.Generator) -> Array:
    """Draw numbers (n, chains) in [0, 1) for one sample of a block.

    The variable that is eliminated last, and therefore sampled first, gets the first numbers.
    """
    drawn: Array = random.random((len(block.order), chains))[::-1]
    return drawn


def possible_chain_mask(network: Network, x: Array) -> Array:
    """Return which chains (chains,) are in a state with nonzero probability."""
    found = np.ones(x.shape[1], dtype=bool)
    for scope, table in network.factors():
        if (table == 0).any():
            found &= table[tuple(x[i] for i in scope)] > 0
    return found
