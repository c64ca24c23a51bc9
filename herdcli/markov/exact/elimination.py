"""Elimination orders: the best of several randomised runs of min-fill, min-weight and two kinds of weighted min-fill, and of linear orders.

Eliminating a variable joins its neighbours; the cost of exact inference is the number of cells of the resulting tables.
Source: Kjærulff (1990); Teh (2003), sec. 2.2.2; Fishelson & Geiger (2004) for fill-ins weighted by their tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.random import Generator

from herdcli import fast
from herdcli.markov.model.network import MOST_AXES, Network, cardinality_without_evidence
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

HOPELESS = 1 << 48  # a run is abandoned at this many cells if there is no better order to compare with

NOISE = (0.0, 0.1, 0.3)  # standard deviations of the log of the factors that multiply prices, in turn
NOISE_LATE = (0.0, 0.1, 0.3, 0.5)  # the same for runs over the end of an order
LATE = (0.7, 0.5, 0.3, 0.2, 0.1)  # shares of the order that count as its end
WORTH_IT = 8  # ends of orders are eliminated again if propagation costs this many runs
MORE = 8  # with large tables, at most this many times the requested number of orders is tried
PER_VARIABLE = 12_000  # this many table cells take as long as one variable of a run
BEYOND = float(1 << 36)  # above this number of cells, an improvement by a few bits would not make a tree feasible
LONGEST = 1 << 15  # linear orders are tried for up to this many variables; for more, one hopeless run is enough
FAR = float(1 << 30)  # a run that has examined MUCH neighbours is abandoned at this many cells
MUCH = 8_000_000  # number of examined neighbours of variables whose prices changed

KINDS = ("fill", "weight", "cells", "logs")  # the minimised quantities, in turn: see `fast.greedy_elimination`
Graph = list[set[int]]


@dataclass(frozen=True)
class FlatGraph:
    """A graph as arrays.

    offset  (N + 1,) offsets of each variable in `near`.
    near    the neighbours of each variable, ascending.
    """

    offset: Array
    near: Array


def flatten_graph(graph: Graph) -> FlatGraph:
    """Convert a graph to arrays."""
    offset = np.zeros(len(graph) + 1, dtype=np.int64)
    np.cumsum([len(near) for near in graph], out=offset[1:])
    return FlatGraph(offset, np.array([j for near in graph for j in sorted(near)], dtype=np.int64))


@dataclass
class OrderSearch:
    """The best order so far.

    cells     number of table cells over all cliques, 0 before the first run; `largest` is the largest clique's number.
    messages  number of entries of all messages: the cells of each clique without its first variable.
    width     number of variables of the largest clique minus one.
    complete  False if every run was abandoned.
    whole     under evidence, the least cost of an order of the network without the evidence; 0 if no such order was found.
    unheld    the order with this cost.
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
        """The cost by which orders are compared."""
        return elimination_cost(self.cells, self.messages)


def elimination_cost(cells: float, messages: float) -> float:
    """Return the cost of an order: the table cells plus the entries of all messages.

    The cells are the numbers that propagation computes, and determine its time.  The messages are the numbers that it stores, at
    least twice as many as at any one time.
    """
    return cells + messages


def initial_order_search(network: Network) -> OrderSearch:
    """Return the state before the first run."""
    return OrderSearch(np.empty(0, dtype=np.int64), 0.0, 0, False, 0)


def moral_graph(network: Network, cardinality: Array | None = None) -> Graph:
    """Return the neighbours of each variable.

    Variables of one state, according to the network or to `cardinality`, have no neighbours, because they cost nothing.
    """
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


def try_more_orders(network: Network, graph: Graph, seed: int, state: OrderSearch) -> OrderSearch:
    """Do one more greedy run, with the KINDS in turn, and try one linear order; abandon each once it costs more than the best order.

    After all KINDS, prices are multiplied by noise, because the best choice now need not be the best in the end (Fishelson & Geiger 2004,
    who choose randomly among the best few).  If trees are large, every second run is followed by others over the end of the best order.

    Under evidence the same run on the network without it gives a second order.  Evidence removes variables from the graph, and
    no clique of an order becomes larger, so that conditioning never increases the cost.
    """
    several = len(set(cardinality_without_evidence(network).tolist()) - {1}) > 1
    kinds = KINDS if several else KINDS[:2]  # the last two equal min-fill if all variables have the same number of states
    states, before = network.cardinality.tolist(), cardinality_without_evidence(network).tolist()
    kind = kinds[(state.step + (network.count > LONGEST)) % len(kinds)]  # min-fill takes five times as long to be hopeless
    spread = NOISE[state.step // len(kinds) % len(NOISE)]
    luck = _draw_tie_breakers(seed, state.step, spread, states)
    near = flatten_graph(graph)
    for made in _greedy_and_linear_runs(near, states, kind, luck, state.cost if state.complete else HOPELESS):
        _replace_if_better(state, made)
    if before != states:
        luck = _draw_tie_breakers(seed, state.step, spread, before)
        for whole in _greedy_and_linear_runs(
            flatten_graph(moral_graph(network, cardinality_without_evidence(network))), before, kind, luck, state.whole or HOPELESS
        ):
            _try_unconditioned_order(state, near, states, whole)
    if state.step % 2:
        _improve_order_ends(network, near, kinds, seed, state)
    state.step += 1
    return state


def _improve_order_ends(network: Network, graph: FlatGraph, kinds: Sequence[str], seed: int, state: OrderSearch) -> None:
    """Eliminate the end of the best order again if trees are large; do the same for the best order of the network without evidence."""
    states, before, large = (
        network.cardinality.tolist(),
        cardinality_without_evidence(network).tolist(),
        WORTH_IT * network.count * PER_VARIABLE,
    )
    if state.complete and state.cost > large:
        random = generator(seed, Stream.ELIMINATION, unit=1, step=state.step)
        _replace_if_better(state, _improve_order_end(graph, states, state.order.tolist(), kinds, random, state.cost))
    if before != states and state.unheld is not None and state.whole > large:
        random = generator(seed, Stream.ELIMINATION, unit=1, step=state.step)
        unheld = flatten_graph(moral_graph(network, cardinality_without_evidence(network)))
        whole = _improve_order_end(unheld, before, state.unheld.tolist(), kinds, random, state.whole)
        _try_unconditioned_order(state, graph, states, whole)


def _improve_order_end(
    graph: FlatGraph, states: list[int], order: list[int], kinds: Sequence[str], random: Generator, best: float
) -> EliminationRun:
    """Return the best of several noisy greedy runs over the end of an order; no order if none is better.

    The number of runs is such that they take the time of one full run.  The largest cliques are formed last, from few variables:
    there a run is cheap, and the beginning of a good order is kept.
    """
    share = LATE[int(random.integers(len(LATE)))]
    free = [i for i in order if states[i] > 1]
    first, last = order[: len(order) - round(share * len(free))], order[len(order) - round(share * len(free)) :]
    done, left = _eliminate_partially(graph, states, first)
    small, few = _induced_subgraph(left, last), [states[i] for i in last]
    found = EliminationRun(None, done.cells, done.largest, done.width, done.messages)
    for _ in range(round(1 / share)):
        kind, spread = kinds[int(random.integers(len(kinds)))], NOISE_LATE[int(random.integers(len(NOISE_LATE)))]
        ties, noise = random.random(len(last)).tolist(), np.exp(spread * random.standard_normal(len(last))).tolist()
        made = _eliminate_greedily(small, few, kind, ties, best - done.cost, noise=noise)
        if made.order is not None and done.cost + made.cost < best:
            best = done.cost + made.cost
            cells, largest, width = done.cells + made.cells, max(done.largest, made.largest), max(done.width, made.width)
            found = EliminationRun([*first, *(last[k] for k in made.order)], cells, largest, width, done.messages + made.messages)
    return found


def _try_unconditioned_order(state: OrderSearch, graph: FlatGraph, states: list[int], unconditioned_run: EliminationRun) -> None:
    """Keep an order of the network without evidence that is better than the best, and try it on the network with evidence too."""
    if unconditioned_run.order is not None and not 0 < state.whole <= unconditioned_run.cost:
        state.whole, state.unheld = unconditioned_run.cost, np.array(unconditioned_run.order, dtype=np.int64)
        _replace_if_better(state, _eliminate_in_order(graph, states, unconditioned_run.order))


def _draw_tie_breakers(seed: int, step: int, spread: float, states: list[int]) -> tuple[list[float], list[float]]:
    """Draw random numbers for ties, and noise on prices, for each variable; variables of one state do not affect those of others."""
    free = np.array(states) > 1
    random, ties, noise = generator(seed, Stream.ELIMINATION, step=step), np.zeros(len(states)), np.ones(len(states))
    ties[free] = random.random(int(free.sum()))
    noise[free] = np.exp(spread * random.standard_normal(int(free.sum())))
    return ties.tolist(), noise.tolist()


def _greedy_and_linear_runs(
    graph: FlatGraph, states: list[int], kind: str, tie_breakers: tuple[list[float], list[float]], limit: float
) -> Iterator[EliminationRun]:
    """Yield a greedy run, and a linear order if it may cost no more than the best known order."""
    ties, noise = tie_breakers
    greedy = _eliminate_greedily(graph, states, kind, ties, limit, noise=noise)
    yield greedy
    if greedy.width <= 1 or len(states) > LONGEST:
        return
    least = min(limit, greedy.cost) if greedy.order is not None else limit
    line = linear_arrangement_order(graph, states, ties, 16 * least)
    if line is not None:
        yield _eliminate_in_order(graph, states, line)


def has_enough_orders(network: Network, state: OrderSearch, orders: int) -> bool:
    """Return True if the requested number of orders was tried, and more would cost more than half of what propagation will.

    The costs are counted, not timed.  Under evidence at least as many orders are tried as without it.
    """
    least = state.cost if state.whole > BEYOND else max(state.cost, state.whole)
    return state.step >= orders and (least > BEYOND or state.step * network.count * PER_VARIABLE > least)


def min_fill_order(network: Network, seed: int) -> list[int]:
    """Return all variables in the order of one run of min-fill, for cliques of any size."""
    ties = generator(seed, Stream.ELIMINATION).random(network.count).tolist()
    found = _eliminate_greedily(flatten_graph(moral_graph(network)), network.cardinality.tolist(), "fill", ties, math.inf, network.count)
    assert found.order is not None
    return found.order


@dataclass(frozen=True)
class EliminationRun:
    """The result of one elimination; its order is None if it was abandoned."""

    order: list[int] | None
    cells: float
    largest: float
    width: int
    messages: float

    @property
    def cost(self) -> float:
        """The cost by which orders are compared."""
        return elimination_cost(self.cells, self.messages)


def _replace_if_better(state: OrderSearch, run: EliminationRun) -> None:
    """Keep an order that is better than the best."""
    if run.order is None:
        if not state.complete:
            state.cells, state.width = max(state.cells, run.cells), max(state.width, run.width)
    elif not state.complete or run.cost < state.cost:
        state.order, state.complete = np.array(run.order, dtype=np.int64), True
        state.cells, state.largest, state.width, state.messages = run.cells, run.largest, run.width, run.messages


def _eliminate_in_order(graph: FlatGraph, states: list[int], order: list[int]) -> EliminationRun:
    """Eliminate a graph in a given order."""
    return _eliminate_partially(graph, states, order)[0]


def _eliminate_partially(graph: FlatGraph, states: list[int], order: list[int]) -> tuple[EliminationRun, FlatGraph]:
    """Eliminate some variables of a graph in a given order; return the result and the graph of the other variables."""
    told = fast.elimination_along(graph.offset, graph.near, np.array(states, dtype=np.float64), np.array(order, dtype=np.int64))
    cells, largest, width, messages, offset, left = told
    return EliminationRun(order, cells, largest, width, messages), FlatGraph(offset, left)


def linear_arrangement_order(graph: FlatGraph, states: list[int], ties: list[float], limit: float) -> list[int] | None:
    """Return all variables in the order in which they leave a linear arrangement; None if the frontiers have more cells than `limit`.

    Variables enter one after the other, and each leaves once all its neighbours have entered.  The entered variables that have not left
    are the frontier.  The tree of cliques is nearly a chain, of which few messages need be kept (`messages`).  The search for an
    arrangement with small frontiers begins at several ends of the graph.  Source: Kinnersley (1992), pathwidth is vertex separation;
    Díaz, Petit & Serna (2002) for heuristics.
    """
    order = np.empty(len(states), dtype=np.int64)
    complete = fast.elimination_line(graph.offset, graph.near, _log2_state_counts(states), np.argsort(ties, kind="stable"), limit, order)
    return order.tolist() if complete else None


def _log2_state_counts(states: list[int]) -> Array:
    return np.array([math.log2(count) for count in states], dtype=np.float64)


def _eliminate_greedily(
    graph: FlatGraph,
    states: list[int],
    kind: str,
    ties: list[float],
    limit: float,
    widest: int = MOST_AXES,
    noise: Sequence[float] | None = None,
) -> EliminationRun:
    """Do one greedy elimination.

    It is abandoned if it costs more than `limit`, is as wide as `widest`, or is long and close to HOPELESS.

    kind   one of KINDS.
    noise  for each variable the factor that multiplies its price (which is increased by half an edge, because many prices are zero).
    """
    looked = 0.0 if limit == HOPELESS else -math.inf  # with a better order to compare with, a run ends soon
    limits = np.array([limit, widest, looked, MUCH, FAR], dtype=np.float64)
    order, luck = np.empty(len(states), dtype=np.int64), np.ones(len(states)) if noise is None else np.array(noise, dtype=np.float64)
    numbers, tie = np.array(states, dtype=np.float64), np.array(ties, dtype=np.float64)
    left, cells, largest, width, messages = fast.greedy_elimination(
        graph.offset, graph.near, numbers, _log2_state_counts(states), kind, tie, luck, limits, order
    )
    return EliminationRun(order.tolist() if left == len(states) else None, cells, largest, width, messages)


def _induced_subgraph(graph: FlatGraph, variables: list[int]) -> FlatGraph:
    """Return the induced graph of some variables, renumbered in the given order; all their neighbours must be among them."""
    place = {i: k for k, i in enumerate(variables)}
    bounds, each = graph.offset.tolist(), graph.near.tolist()
    return flatten_graph([{place[j] for j in each[bounds[i] : bounds[i + 1]]} for i in variables])
