"""States drawn from a network, whole blocks of variables at a time, each given all others: exactly where one block holds all.

A block is eliminated variable by variable with what is outside held, and drawn on the way back.  Blocks are what a greedy elimination
reaches while no table has more than a number of cells; what it must leave out begins the next one.  Chains are rows of one batch.
Source: Jensen, Kjærulff & Kong (1995), blocking Gibbs sampling; Hamze & de Freitas (2004); Bidyuk & Dechter (2007), w-cutsets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from herdcli import fast
from herdcli.errors import NegativeResult
from herdcli.markov.exact.elimination import FlatGraph, Graph, flatten_graph, moral_graph
from herdcli.markov.exact.junction_tree import log_sum
from herdcli.markov.model.network import Network
from herdcli.records import dataclass
from herdcli.schema import Array

CELLS = 1 << 10  # of a block's tables, of one chain, where chains go on
BOUNDARY = -1e4  # stands for log 0 while a start is sought


@dataclass(frozen=True)
class BlockFactor:
    """A factor as a block sees it: log table with the held axes first; `held` outside the block, `free` inside, in elimination order."""

    logs: Array
    held: tuple[int, ...]
    free: tuple[int, ...]

    def given(self, x: Array) -> Array:
        """(chains or 1, states of the free variables …) with the others as in x (N, chains)."""
        return self.logs[tuple(x[i] for i in self.held)] if self.held else self.logs[None]


@dataclass(frozen=True)
class VariableBlock:
    """Variables in elimination order, and of each the factors that leave with it."""

    order: tuple[int, ...]
    parts: tuple[tuple[BlockFactor, ...], ...]
    cells: int  # of all tables, of one chain


def variable_blocks(network: Network, cells: int) -> list[VariableBlock]:
    """Blocks whose tables have at most `cells`; every variable is in one."""
    states = network.cardinality.tolist()
    missing = {i for i, count in enumerate(states) if count > 1}
    near, made = flatten_graph(moral_graph(network)), []
    while missing:
        order = eliminable_variables(near, states, cells, missing)
        made.append(_make_block(network, order))
        missing.difference_update(order)
    return made


def band_blocks(network: Network, cells: int, random: np.random.Generator) -> list[VariableBlock]:
    """Blocks that are broad stretches of the network: what lies between held layers, each of which is all variables of one distance.

    Distances are from a variable as far as can be from one drawn by chance.  The layers of the second block lie between those of the
    first; what both hold, or what makes tables of more than `cells`, begins further blocks.
    """
    graph, states = moral_graph(network), network.cardinality.tolist()
    free = {i for i, count in enumerate(states) if count > 1}
    near = flatten_graph(graph)
    if len(whole := eliminable_variables(near, states, cells, free)) == len(free):
        return [_make_block(network, whole)] if free else []
    level = _breadth_first_levels(graph, random)
    period, shift = _widest_band(near, states, level, cells), int(random.integers(1 << 30))
    missing, made = set(free), []
    for part in range(2):
        held = {i for i in free if (level[i] + shift + part * (period // 2)) % period == 0}
        made.append(_make_block(network, eliminable_variables(near, states, cells, missing - held, held=held)))
        missing.difference_update(made[-1].order)
    while missing:
        made.append(_make_block(network, eliminable_variables(near, states, cells, missing)))
        missing.difference_update(made[-1].order)
    return [block for block in made if block.order]


def _breadth_first_levels(graph: Graph, random: np.random.Generator) -> list[int]:
    """How far each variable is from one that is far away from one drawn by chance."""
    return _distances(graph, _distances(graph, int(random.integers(len(graph))))[1])[0]


def _distances(graph: Graph, root: int) -> tuple[list[int], int]:
    """Steps from a variable, in parts without a way to it from their first one; and the last of those that are farthest from it."""
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


def _widest_band(near: FlatGraph, states: Sequence[int], level: Sequence[int], cells: int) -> int:
    """The widest stretches of which a greedy elimination holds nothing back."""
    best = 2
    for period in range(3, max(level) + 3):
        held = {i for i in range(len(states)) if level[i] % period == 0}
        free = {i for i, count in enumerate(states) if count > 1} - held
        if len(eliminable_variables(near, states, cells, free, held=held)) < len(free):
            break
        best = period
    return best


def eliminable_variables(
    near: FlatGraph, states: Sequence[int], cells: int, wanted: Iterable[int], *, held: Iterable[int] = ()
) -> list[int]:
    """What a greedy elimination reaches; of a table too large a variable is held, the widest, those that are wanted last.

    held  are never reached.
    """
    flags = np.zeros((2, len(states)), dtype=np.uint8)
    for row, some in zip(flags, (wanted, held), strict=True):
        row[list(some)] = 1
    order = np.empty(len(states), dtype=np.int64)
    count = fast.elimination_reached(near.offset, near.near, np.array(states, dtype=np.float64), float(cells), flags[0], flags[1], order)
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
    """Draw a block of x (N, chains) given all else, in place, in logarithms.  power  of the factors; floor  stands for log 0.

    uniform  (n, chains) in [0, 1), by elimination order.  shares  (Σ card, chains) and where each variable's states begin: the chances
    that each state was drawn with go there.
    Raises NegativeResult where a chain stands at a state that is not possible.
    """
    chains = x.shape[1]
    place = {i: k for k, i in enumerate(block.order)}
    waiting: list[list[tuple[tuple[int, ...], Array]]] = [[] for _ in block.order]
    kept: list[tuple[tuple[int, ...], Array]] = []
    for k, i in enumerate(block.order):
        here = [(part.free, power * np.maximum(part.given(x), floor)) for part in block.parts[k]]
        here += waiting[k]
        scope = tuple(sorted({i, *(j for free, _ in here for j in free)}, key=place.__getitem__))
        total = np.zeros((1, *(states[j] for j in scope)))
        for free, logs in here:
            inside = set(free)
            total = total + logs.reshape(len(logs), *(states[j] if j in inside else 1 for j in scope))
        kept.append((scope[1:], total))
        message = log_sum(total, (1,))
        if len(scope) > 1:
            waiting[place[scope[1]]].append((scope[1:], message))
        elif (message == -np.inf).any():
            raise NegativeResult("a chain is in a state with probability 0")
    row = np.arange(chains)
    for k in range(len(block.order) - 1, -1, -1):
        # P(x_i | what leaves later, and all that is held) is the product at the
        # time i left, as a function of x_i: the forward sums are in it.
        (rest, total), i = kept[k], block.order[k]
        first = row if len(total) > 1 else np.zeros(chains, dtype=np.int64)
        logs = np.moveaxis(total, 1, -1)[(first, *(x[j] for j in rest))]
        p = np.exp(logs - logs.max(axis=1, keepdims=True)).cumsum(axis=1)
        x[i] = (p[:, :-1] < uniform[k, :, None] * p[:, -1:]).sum(axis=1)
        if shares is not None:
            shares[0][shares[1][i] : shares[1][i + 1]] = (np.diff(p, axis=1, prepend=0.0) / p[:, -1:]).T


def uniform_numbers(block: VariableBlock, chains: int, random: np.random.Generator) -> Array:
    """(n, chains) in [0, 1) for one draw of a block; what is drawn first, which left last, has the first ones."""
    drawn: Array = random.random((len(block.order), chains))[::-1]
    return drawn


def are_possible(network: Network, x: Array) -> Array:
    """(chains,) bool, has the state of each chain a probability?"""
    found = np.ones(x.shape[1], dtype=bool)
    for scope, table in network.factors():
        if (table == 0).any():
            found &= table[tuple(x[i] for i in scope)] > 0
    return found
