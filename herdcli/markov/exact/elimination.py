"""Elimination orders: the best of several randomised runs of min-fill, min-weight and two kinds of weighted min-fill, and along a line.

Eliminating a variable joins its neighbours; the cells of the tables that this makes are what exact inference costs.
Source: Kjærulff (1990); Teh (2003), sec. 2.2.2; Fishelson & Geiger (2004) for fill-ins that weigh as much as their tables.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise

import numpy as np
from numpy.random import Generator

from herdcli.markov.exact import arrangement
from herdcli.markov.model.network import MOST_AXES, Network, states_before
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

HOPELESS = 1 << 48  # cells at which a run is given up, if there is nothing better to compare with

NOISE = (0.0, 0.1, 0.3)  # standard deviation of the logarithm of what prices are multiplied by, in turn
NOISE_LATE = (0.0, 0.1, 0.3, 0.5)  # of runs over the end of an order
LATE = (0.7, 0.5, 0.3, 0.2, 0.1)  # shares of the order that is its end
WORTH_IT = 8  # times as much as a run that propagation takes where ends of orders are eliminated again
MORE = 8  # times as many orders as are asked for, at most, where tables are large
PER_VARIABLE = 12_000  # numbers of tables that take as long as a variable of a run
BEYOND = float(1 << 36)  # cells past which a few bits less would not bring a tree within reach
LONGEST = 1 << 15  # variables that are arranged along a line; of more, one hopeless run is enough
FAR = float(1 << 30)  # cells at which a run that has looked at MUCH is given up
MUCH = 8_000_000  # neighbours of variables whose prices changed

KINDS = ("fill", "weight", "cells", "logs")  # what is least, in turn: see `_price`
Graph = list[set[int]]


@dataclass
class Search:
    """The best order so far.  cells is the number of table cells over all cliques, 0 before the first run; largest of one.
    messages  numbers in all messages: the cells of a clique, less its first variable.

    width  the number of variables of the largest clique less one.  complete  False if every run was given up.
    whole  under evidence the least cost of an order of the network without it, 0 for none; unheld  that order.
    """

    order: Array
    cells: float
    width: int
    complete: bool
    step: int
    largest: float = 0.0
    whole: float = 0.0
    messages: float = 0.0
    unheld: Array | None = None

    @property
    def cost(self) -> float:
        """What orders are compared by."""
        return cost(self.cells, self.messages)


def cost(cells: float, messages: float) -> float:
    """The numbers that propagation makes, which is its time, and those that it keeps: twice as many at least as it has at once."""
    return cells + messages


def begin(network: Network) -> Search:
    """Nothing found yet."""
    return Search(np.empty(0, dtype=np.int64), 0.0, 0, False, 0)


def moral_graph(network: Network, cardinality: Array | None = None) -> Graph:
    """Neighbours of each variable; variables of one state, as the network has them or as told, have none: they cost nothing."""
    graph: Graph = [set() for _ in range(network.count)]
    single = set(np.flatnonzero((network.cardinality if cardinality is None else cardinality) == 1).tolist())
    scope, starts = network.scope.tolist(), network.scope_offset.tolist()
    for low, high in pairwise(starts):
        variables = [i for i in scope[low:high] if i not in single]
        for i in variables:
            graph[i].update(variables)
    for i, near in enumerate(graph):
        near.discard(i)
    return graph


def step(network: Network, graph: Graph, seed: int, state: Search) -> Search:
    """One more run, of the KINDS in turn, and one along a line; given up once they cost more than the best.

    After all KINDS come runs whose prices have noise, as what is best now need not be in the end (Fishelson & Geiger 2004, who
    draw from the best few).  Where trees are large, every second run is followed by others over the end of the best order.

    Under evidence the same run on the network without it gives a second order.  What evidence takes out of a graph makes no
    clique of an order larger, so that conditioning never raises the cost.
    """
    several = len(set(states_before(network).tolist()) - {1}) > 1
    kinds = KINDS if several else KINDS[:2]  # the last two are min-fill again where all variables have as many states
    states, before = network.cardinality.tolist(), states_before(network).tolist()
    kind = kinds[(state.step + (network.count > LONGEST)) % len(kinds)]  # min-fill takes five times as long to be hopeless
    spread = NOISE[state.step // len(kinds) % len(NOISE)]
    luck = _luck(seed, state.step, spread, states)
    for made in _both(graph, states, kind, luck, state.cost if state.complete else HOPELESS):
        _keep(state, made)
    if before != states:
        luck = _luck(seed, state.step, spread, before)
        for whole in _both(moral_graph(network, states_before(network)), before, kind, luck, state.whole or HOPELESS):
            _keep_whole(state, graph, states, whole)
    if state.step % 2:
        _ends_again(network, graph, kinds, seed, state)
    state.step += 1
    return state


def _ends_again(network: Network, graph: Graph, kinds: Sequence[str], seed: int, state: Search) -> None:
    """Eliminate what leaves last again, of the best order and, under evidence, of the best one without it, where trees are large."""
    states, before, large = network.cardinality.tolist(), states_before(network).tolist(), WORTH_IT * network.count * PER_VARIABLE
    if state.complete and state.cost > large:
        random = generator(seed, Stream.ELIMINATION, unit=1, step=state.step)
        _keep(state, _late(graph, states, state.order.tolist(), kinds, random, state.cost))
    if before != states and state.unheld is not None and state.whole > large:
        random = generator(seed, Stream.ELIMINATION, unit=1, step=state.step)
        whole = _late(moral_graph(network, states_before(network)), before, state.unheld.tolist(), kinds, random, state.whole)
        _keep_whole(state, graph, states, whole)


def _late(graph: Graph, states: list[int], order: list[int], kinds: Sequence[str], random: Generator, best: float) -> Run:
    """The best of greedy runs with noise over the end of an order, as many as take the time of one over all; no order if none is better.

    The largest cliques are made last, of few variables: there a run is cheap, and the beginning of a good order is kept.
    """
    share = LATE[int(random.integers(len(LATE)))]
    free = [i for i in order if states[i] > 1]
    first, last = order[: len(order) - round(share * len(free))], order[len(order) - round(share * len(free)) :]
    left = [set(near) for near in graph]
    done = _along(left, states, first)
    place = {i: k for k, i in enumerate(last)}
    small, few = [{place[j] for j in left[i]} for i in last], [states[i] for i in last]
    found = Run(None, done.cells, done.largest, done.width, done.messages)
    for _ in range(round(1 / share)):
        kind, spread = kinds[int(random.integers(len(kinds)))], NOISE_LATE[int(random.integers(len(NOISE_LATE)))]
        ties, noise = random.random(len(last)).tolist(), np.exp(spread * random.standard_normal(len(last))).tolist()
        made = _run([set(near) for near in small], few, kind, ties, best - done.cost, noise=noise)
        if made.order is not None and done.cost + made.cost < best:
            best = done.cost + made.cost
            cells, largest, width = done.cells + made.cells, max(done.largest, made.largest), max(done.width, made.width)
            found = Run([*first, *(last[k] for k in made.order)], cells, largest, width, done.messages + made.messages)
    return found


def _keep_whole(state: Search, graph: Graph, states: list[int], whole: Run) -> None:
    """Take an order of the network without evidence that is better than the best, for the network under evidence too."""
    if whole.order is not None and not 0 < state.whole <= whole.cost:
        state.whole, state.unheld = whole.cost, np.array(whole.order, dtype=np.int64)
        _keep(state, _along([set(near) for near in graph], states, whole.order))


def _luck(seed: int, step: int, spread: float, states: list[int]) -> tuple[list[float], list[float]]:
    """Ties, and noise on prices, of each variable: those of one state change nothing for the others."""
    free = np.array(states) > 1
    random, ties, noise = generator(seed, Stream.ELIMINATION, step=step), np.zeros(len(states)), np.ones(len(states))
    ties[free] = random.random(int(free.sum()))
    noise[free] = np.exp(spread * random.standard_normal(int(free.sum())))
    return ties.tolist(), noise.tolist()


def _both(graph: Graph, states: list[int], kind: str, luck: tuple[list[float], list[float]], limit: float) -> Iterator[Run]:
    """A greedy run, and an arrangement along a line where that may cost no more than the best that is known."""
    ties, noise = luck
    greedy = _run([set(near) for near in graph], states, kind, ties, limit, noise=noise)
    yield greedy
    if greedy.width <= 1 or len(graph) > LONGEST:
        return
    least = min(limit, greedy.cost) if greedy.order is not None else limit
    line = arrangement.order(graph, [math.log2(count) for count in states], ties, 16 * least)
    if line is not None:
        yield _along([set(near) for near in graph], states, line)


def enough(network: Network, state: Search, orders: int) -> bool:
    """Whether the orders that were asked for are tried, and others would cost more than half of what the best one will.

    Counted, not timed.  Under evidence no fewer are tried than without it.
    """
    least = state.cost if state.whole > BEYOND else max(state.cost, state.whole)
    return state.step >= orders and (least > BEYOND or state.step * network.count * PER_VARIABLE > least)


def fill_order(network: Network, seed: int) -> list[int]:
    """All variables in the order of one run of min-fill, however wide its cliques are."""
    ties = generator(seed, Stream.ELIMINATION).random(network.count).tolist()
    found = _run(moral_graph(network), network.cardinality.tolist(), "fill", ties, math.inf, network.count)
    assert found.order is not None
    return found.order


@dataclass(frozen=True)
class Run:
    """One elimination; no order where it was given up."""

    order: list[int] | None
    cells: float
    largest: float
    width: int
    messages: float

    @property
    def cost(self) -> float:
        """What orders are compared by."""
        return cost(self.cells, self.messages)


def _keep(state: Search, made: Run) -> None:
    """Take an order that is better than the best."""
    if made.order is None:
        if not state.complete:
            state.cells, state.width = max(state.cells, made.cells), max(state.width, made.width)
    elif not state.complete or made.cost < state.cost:
        state.order, state.complete = np.array(made.order, dtype=np.int64), True
        state.cells, state.largest, state.width, state.messages = made.cells, made.largest, made.width, made.messages


def _along(graph: Graph, states: list[int], order: list[int]) -> Run:
    """The elimination of a graph in a given order; the graph is used up."""
    cells, largest, width, messages = 0.0, 0.0, 0, 0.0
    for i in order:
        size = float(math.prod([states[i], *(states[j] for j in graph[i])]))
        cells, largest, width, messages = cells + size, max(largest, size), max(width, len(graph[i])), messages + size / states[i]
        _eliminate(graph, i, False)
    return Run(order, cells, largest, width, messages)


def _price(graph: Graph, states: list[int], kind: str) -> Callable[[int], float]:
    """What eliminating a variable costs: `weight` its neighbours' states, `fill` the edges that it adds between them, each of which
    counts 1, as many `cells` as the pair has states, or the product of the `logs` of both."""
    weight = [math.log2(count) for count in states]
    each: Sequence[float] = states if kind == "cells" else weight

    def by_weight(i: int) -> float:
        return sum(weight[j] for j in graph[i])

    def by_fill(i: int) -> float:
        near = graph[i]
        # A neighbour j lacks an edge to all other neighbours that are not its own; each missing edge is counted from both of its ends.
        return sum(len(near) - 1 - len(near & graph[j]) for j in near) / 2

    def by_weighted_fill(i: int) -> float:
        near = graph[i]
        return sum(each[j] * (sum(each[k] for k in near - graph[j]) - each[j]) for j in sorted(near)) / 2

    if kind == "weight":
        return by_weight
    return by_fill if kind == "fill" else by_weighted_fill


def _run(
    graph: Graph,
    states: list[int],
    kind: str,
    ties: list[float],
    limit: float,
    widest: int = MOST_AXES,
    noise: Sequence[float] | None = None,
) -> Run:
    """One greedy elimination, given up where it costs more than `limit`, is as wide as `widest`, or is long and far on the way to HOPELESS.

    The graph is used up.

    noise  of each variable, what its price is multiplied by (raised by half an edge, as many cost nothing).
    """
    weight = [math.log2(count) for count in states]
    plain, by_fill = _price(graph, states, kind), kind != "weight"

    def price(i: int) -> float:
        return plain(i) if noise is None or noise[i] == 1.0 else (plain(i) + 0.5) * noise[i]

    now = [price(i) for i in range(len(graph))]
    heap = [(now[i], ties[i], i) for i in range(len(graph))]
    heapq.heapify(heap)
    gone = [False] * len(graph)
    order, cells, largest, width, messages = [], 0.0, 0.0, 0, 0.0
    looked = 0 if limit == HOPELESS else -math.inf  # with a better order to compare with, the end is near
    while heap:
        value, _, i = heapq.heappop(heap)
        if gone[i] or value != now[i]:
            continue
        near = graph[i]
        size = 2.0 ** min(sum(weight[j] for j in near) + weight[i], 1000.0)
        cells, largest, width, messages = cells + size, max(largest, size), max(width, len(near)), messages + size / states[i]
        if cost(cells, messages) > limit or width >= widest or (looked > MUCH and cells > FAR):
            return Run(None, cells, largest, width, messages)
        order.append(i)
        gone[i] = True
        for j in _eliminate(graph, i, by_fill):
            changed = price(j)
            looked += len(graph[j])
            if changed != now[j]:
                now[j] = changed
                heapq.heappush(heap, (changed, ties[j], j))
    return Run(order, cells, largest, width, messages)


def _eliminate(graph: Graph, i: int, by_fill: bool) -> set[int]:
    """Join the neighbours of i and take it away; returns the variables whose cost may have changed."""
    near = graph[i]
    touched = set(near)
    for j in near:
        graph[j].discard(i)
    for j, k in combinations(near, 2):
        if k not in graph[j]:
            if by_fill:
                # A new edge (j, k) saves one fill to whatever has both as neighbours;
                # the fill of j's and k's own changes with their neighbourhoods.
                touched |= graph[j] & graph[k]
            graph[j].add(k)
            graph[k].add(j)
    graph[i] = set()
    return touched
