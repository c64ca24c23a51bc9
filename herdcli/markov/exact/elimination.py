"""Elimination orders: the best of several randomised runs of min-fill, min-weight and two kinds of weighted min-fill, and along a line.

Eliminating a variable joins its neighbours; the cells of the tables that this makes are what exact inference costs.
Source: Kjærulff (1990); Teh (2003), sec. 2.2.2; Fishelson & Geiger (2004) for fill-ins that weigh as much as their tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.random import Generator

from herdcli import fast
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

KINDS = ("fill", "weight", "cells", "logs")  # what is least, in turn: see `fast.greedy_elimination`
Graph = list[set[int]]


@dataclass(frozen=True)
class FlatGraph:
    """A graph as arrays.  offset (N + 1,), near  of each variable its neighbours, ascending."""

    offset: Array
    near: Array


def flatten_graph(graph: Graph) -> FlatGraph:
    """A graph as arrays."""
    offset = np.zeros(len(graph) + 1, dtype=np.int64)
    np.cumsum([len(near) for near in graph], out=offset[1:])
    return FlatGraph(offset, np.array([j for near in graph for j in sorted(near)], dtype=np.int64))


@dataclass
class OrderSearch:
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
        return elimination_cost(self.cells, self.messages)


def elimination_cost(cells: float, messages: float) -> float:
    """The numbers that propagation makes, which is its time, and those that it keeps: twice as many at least as it has at once."""
    return cells + messages


def empty_search(network: Network) -> OrderSearch:
    """Nothing found yet."""
    return OrderSearch(np.empty(0, dtype=np.int64), 0.0, 0, False, 0)


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


def search_step(network: Network, graph: Graph, seed: int, state: OrderSearch) -> OrderSearch:
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
    luck = _random_ties(seed, state.step, spread, states)
    near = flatten_graph(graph)
    for made in _greedy_and_linear_runs(near, states, kind, luck, state.cost if state.complete else HOPELESS):
        _keep_better(state, made)
    if before != states:
        luck = _random_ties(seed, state.step, spread, before)
        for whole in _greedy_and_linear_runs(
            flatten_graph(moral_graph(network, states_before(network))), before, kind, luck, state.whole or HOPELESS
        ):
            _keep_unconditioned_order(state, near, states, whole)
    if state.step % 2:
        _improve_endings(network, near, kinds, seed, state)
    state.step += 1
    return state


def _improve_endings(network: Network, near: FlatGraph, kinds: Sequence[str], seed: int, state: OrderSearch) -> None:
    """Eliminate what leaves last again, of the best order and, under evidence, of the best one without it, where trees are large."""
    states, before, large = network.cardinality.tolist(), states_before(network).tolist(), WORTH_IT * network.count * PER_VARIABLE
    if state.complete and state.cost > large:
        random = generator(seed, Stream.ELIMINATION, unit=1, step=state.step)
        _keep_better(state, _improve_late_part(near, states, state.order.tolist(), kinds, random, state.cost))
    if before != states and state.unheld is not None and state.whole > large:
        random = generator(seed, Stream.ELIMINATION, unit=1, step=state.step)
        unheld = flatten_graph(moral_graph(network, states_before(network)))
        whole = _improve_late_part(unheld, before, state.unheld.tolist(), kinds, random, state.whole)
        _keep_unconditioned_order(state, near, states, whole)


def _improve_late_part(
    near: FlatGraph, states: list[int], order: list[int], kinds: Sequence[str], random: Generator, best: float
) -> EliminationRun:
    """The best of greedy runs with noise over the end of an order, as many as take the time of one over all; no order if none is better.

    The largest cliques are made last, of few variables: there a run is cheap, and the beginning of a good order is kept.
    """
    share = LATE[int(random.integers(len(LATE)))]
    free = [i for i in order if states[i] > 1]
    first, last = order[: len(order) - round(share * len(free))], order[len(order) - round(share * len(free)) :]
    done, left = _eliminate_partially(near, states, first)
    small, few = _subgraph(left, last), [states[i] for i in last]
    found = EliminationRun(None, done.cells, done.largest, done.width, done.messages)
    for _ in range(round(1 / share)):
        kind, spread = kinds[int(random.integers(len(kinds)))], NOISE_LATE[int(random.integers(len(NOISE_LATE)))]
        ties, noise = random.random(len(last)).tolist(), np.exp(spread * random.standard_normal(len(last))).tolist()
        made = _greedy_run(small, few, kind, ties, best - done.cost, noise=noise)
        if made.order is not None and done.cost + made.cost < best:
            best = done.cost + made.cost
            cells, largest, width = done.cells + made.cells, max(done.largest, made.largest), max(done.width, made.width)
            found = EliminationRun([*first, *(last[k] for k in made.order)], cells, largest, width, done.messages + made.messages)
    return found


def _keep_unconditioned_order(state: OrderSearch, near: FlatGraph, states: list[int], whole: EliminationRun) -> None:
    """Take an order of the network without evidence that is better than the best, for the network under evidence too."""
    if whole.order is not None and not 0 < state.whole <= whole.cost:
        state.whole, state.unheld = whole.cost, np.array(whole.order, dtype=np.int64)
        _keep_better(state, _eliminate_in_order(near, states, whole.order))


def _random_ties(seed: int, step: int, spread: float, states: list[int]) -> tuple[list[float], list[float]]:
    """Ties, and noise on prices, of each variable: those of one state change nothing for the others."""
    free = np.array(states) > 1
    random, ties, noise = generator(seed, Stream.ELIMINATION, step=step), np.zeros(len(states)), np.ones(len(states))
    ties[free] = random.random(int(free.sum()))
    noise[free] = np.exp(spread * random.standard_normal(int(free.sum())))
    return ties.tolist(), noise.tolist()


def _greedy_and_linear_runs(
    near: FlatGraph, states: list[int], kind: str, luck: tuple[list[float], list[float]], limit: float
) -> Iterator[EliminationRun]:
    """A greedy run, and an arrangement along a line where that may cost no more than the best that is known."""
    ties, noise = luck
    greedy = _greedy_run(near, states, kind, ties, limit, noise=noise)
    yield greedy
    if greedy.width <= 1 or len(states) > LONGEST:
        return
    least = min(limit, greedy.cost) if greedy.order is not None else limit
    line = linear_arrangement(near, states, ties, 16 * least)
    if line is not None:
        yield _eliminate_in_order(near, states, line)


def has_enough_orders(network: Network, state: OrderSearch, orders: int) -> bool:
    """Whether the orders that were asked for are tried, and others would cost more than half of what the best one will.

    Counted, not timed.  Under evidence no fewer are tried than without it.
    """
    least = state.cost if state.whole > BEYOND else max(state.cost, state.whole)
    return state.step >= orders and (least > BEYOND or state.step * network.count * PER_VARIABLE > least)


def fill_order(network: Network, seed: int) -> list[int]:
    """All variables in the order of one run of min-fill, however wide its cliques are."""
    ties = generator(seed, Stream.ELIMINATION).random(network.count).tolist()
    found = _greedy_run(flatten_graph(moral_graph(network)), network.cardinality.tolist(), "fill", ties, math.inf, network.count)
    assert found.order is not None
    return found.order


@dataclass(frozen=True)
class EliminationRun:
    """One elimination; no order where it was given up."""

    order: list[int] | None
    cells: float
    largest: float
    width: int
    messages: float

    @property
    def cost(self) -> float:
        """What orders are compared by."""
        return elimination_cost(self.cells, self.messages)


def _keep_better(state: OrderSearch, run: EliminationRun) -> None:
    """Take an order that is better than the best."""
    if run.order is None:
        if not state.complete:
            state.cells, state.width = max(state.cells, run.cells), max(state.width, run.width)
    elif not state.complete or run.cost < state.cost:
        state.order, state.complete = np.array(run.order, dtype=np.int64), True
        state.cells, state.largest, state.width, state.messages = run.cells, run.largest, run.width, run.messages


def _eliminate_in_order(near: FlatGraph, states: list[int], order: list[int]) -> EliminationRun:
    """The elimination of a graph in a given order."""
    return _eliminate_partially(near, states, order)[0]


def _eliminate_partially(near: FlatGraph, states: list[int], order: list[int]) -> tuple[EliminationRun, FlatGraph]:
    """The elimination of a graph in an order of some variables, and the graph of the others."""
    told = fast.elimination_along(near.offset, near.near, np.array(states, dtype=np.float64), np.array(order, dtype=np.int64))
    cells, largest, width, messages, offset, left = told
    return EliminationRun(order, cells, largest, width, messages), FlatGraph(offset, left)


def linear_arrangement(near: FlatGraph, states: list[int], ties: list[float], limit: float) -> list[int] | None:
    """All variables in the order in which they leave a line; None where the frontiers have more cells than `limit`.

    They enter one after the other, and each leaves once all its neighbours have entered.  The variables between are the frontier; the
    tree of cliques is nearly a chain, of whose messages few need be kept (`messages`).  An arrangement of small frontiers is looked for
    from several ends of the graph.  Source: Kinnersley (1992), pathwidth is vertex separation; Díaz, Petit & Serna (2002) for heuristics.
    """
    order = np.empty(len(states), dtype=np.int64)
    complete = fast.elimination_line(near.offset, near.near, _log_weights(states), np.argsort(ties, kind="stable"), limit, order)
    return order.tolist() if complete else None


def _log_weights(states: list[int]) -> Array:
    return np.array([math.log2(count) for count in states], dtype=np.float64)


def _greedy_run(
    near: FlatGraph,
    states: list[int],
    kind: str,
    ties: list[float],
    limit: float,
    widest: int = MOST_AXES,
    noise: Sequence[float] | None = None,
) -> EliminationRun:
    """One greedy elimination, given up where it costs more than `limit`, is as wide as `widest`, or is long and far on the way to HOPELESS.

    kind  one of KINDS.  noise  of each variable, what its price is multiplied by (raised by half an edge, as many cost nothing).
    """
    looked = 0.0 if limit == HOPELESS else -math.inf  # with a better order to compare with, the end is near
    limits = np.array([limit, widest, looked, MUCH, FAR], dtype=np.float64)
    order, luck = np.empty(len(states), dtype=np.int64), np.ones(len(states)) if noise is None else np.array(noise, dtype=np.float64)
    numbers, tie = np.array(states, dtype=np.float64), np.array(ties, dtype=np.float64)
    left, cells, largest, width, messages = fast.greedy_elimination(
        near.offset, near.near, numbers, _log_weights(states), kind, tie, luck, limits, order
    )
    return EliminationRun(order.tolist() if left == len(states) else None, cells, largest, width, messages)


def _subgraph(near: FlatGraph, some: list[int]) -> FlatGraph:
    """The graph of some variables alone, numbered anew as they come, whose neighbours are all among them."""
    place = {i: k for k, i in enumerate(some)}
    bounds, each = near.offset.tolist(), near.near.tolist()
    return flatten_graph([{place[j] for j in each[bounds[i] : bounds[i + 1]]} for i in some])
