"""Messages on pairwise Markov networks, one directed edge after the other: the twin of _markov.pyx.

A network is a tuple of arrays (`pairwise.PairwiseNetwork.arrays`):

    tail, head (2E) int32          directed edge d runs from tail[d] to head[d]; d ^ 1 is its reverse
    cardinality (N) int32, node_offset (N+1) int64, potential (Σ card) float64
    table_offset (E+1) int64, table (…) float64      ψ of edge d >> 1, rows the tail of the even direction
    message_offset (2E+1) int64    a message is over the states of its head
    in_offset (N+1) int64, in_edge (2E) int32        directed edges that enter a node

An update is, with ψ_i the potential of i = tail[d] and j = head[d],

    M_ij(x_j) ∝ Σ_{x_i} ψ_ij(x_i, x_j) w(x_i),    w = ψ_i Π_{k ≠ j} M_ki,    or, if i is fixed,  w = target_i / M_ji

(Teh 2003, 5.25 and 5.26), messages scaled to maximum 1.  Products carry an exponent, so no order of factors
underflows.  Changes are measured relatively, as max |new − old| / max(new, old).
"""

from __future__ import annotations

import math
from typing import Any

from herdcli.schema import Array

SMALL, LARGE, SHIFT = 2.0**-500, 2.0**500, 500
Lists = tuple[list[Any], ...]


def update_messages(
    order: Array, source: Array, out: Array, network: tuple[Array, ...], fixed: Array, target: Array,
    damping: float, geometric: bool, scratch: Array,
) -> tuple[float, int]:  # fmt: skip
    """Update the directed edges of `order` (T,) int32, reading `source` and writing `out` (one array: sequentially).

    damping  fraction of the old message that is kept, arithmetic or `geometric`.  scratch (4 largest cardinality).
    Returns the largest change, and the first edge whose new message is zero everywhere, or −1.
    """
    net = tuple(part.tolist() for part in network)
    old = source.tolist()
    new = old if out is source else out.tolist()
    largest, bad = _update_in_order(order.tolist(), old, new, net, fixed.tolist(), target.tolist(), damping, geometric)
    out[:] = new
    return largest, bad


def settle(
    order: Array, segments: Array, messages: Array, network: tuple[Array, ...], fixed: Array, target: Array,
    tolerance: float, most: int, sweeps: Array, scratch: Array,
) -> tuple[float, int]:  # fmt: skip
    """Repeat each segment order[segments[s]:segments[s+1]] until its largest change is ≤ tolerance, at most `most` times.

    sweeps (S,) int64 receives the number of repetitions.  Returns the largest change in any segment's last sweep, and a bad edge or −1.
    """
    net = tuple(part.tolist() for part in network)
    now, held, aim, edges = messages.tolist(), fixed.tolist(), target.tolist(), order.tolist()
    worst = 0.0
    for s in range(len(segments) - 1):
        part = edges[segments[s] : segments[s + 1]]
        largest, count = math.inf, 0
        while count < most and not largest <= tolerance:
            largest, bad = _update_in_order(part, now, now, net, held, aim, 0.0, False)
            count += 1
            if bad >= 0:
                messages[:] = now
                return largest, bad
        sweeps[s] = count
        worst = max(worst, largest)
    messages[:] = now
    return worst, -1


def residual_updates(
    count: int, messages: Array, pending: Array, tree: Array, network: tuple[Array, ...], fixed: Array, target: Array,
    scratch: Array,
) -> tuple[float, int]:  # fmt: skip
    """Make `count` updates, each of the edge whose update would change it most.

    pending  like messages: each edge's next message.  tree (2P,) float64 with P a power of two ≥ 2E: leaf P + d holds the change pending
    for edge d, an inner node the larger of its two children.  Returns the largest remaining change, and a bad edge or −1.
    """
    net = tuple(part.tolist() for part in network)
    heads, offset, in_offset, in_edge = net[1], net[7], net[8], net[9]
    tails = net[0]
    now, following, values, held, aim = messages.tolist(), pending.tolist(), tree.tolist(), fixed.tolist(), target.tolist()
    leaves = len(values) // 2
    out_edges: list[list[int]] = [[] for _ in range(len(in_offset) - 1)]
    for i in range(len(out_edges)):
        out_edges[i] = [d ^ 1 for d in in_edge[in_offset[i] : in_offset[i + 1]]]
    for _ in range(count):
        # The leaf with the largest change, by descending the tournament tree.
        at = 1
        if not values[1] > 0:
            break
        while at < leaves:
            at = 2 * at if values[2 * at] >= values[2 * at + 1] else 2 * at + 1
        d = at - leaves
        now[offset[d] : offset[d + 1]] = following[offset[d] : offset[d + 1]]
        _set_tree_leaf(values, at, 0.0)
        j = heads[d]
        # A message out of j depends on all messages into j except the reverse one (5.25), so j's message to i does not
        # change.  At a node with a given marginal each depends on its reverse alone (5.26), so only j's message to i changes.
        for e in out_edges[j]:
            if (e ^ 1) == d and not held[tails[e]]:
                continue
            change, bad = _update_in_order([e], now, following, net, held, aim, 0.0, False)
            if bad >= 0:
                return change, bad
            _set_tree_leaf(values, leaves + e, change)
    messages[:], pending[:], tree[:] = now, following, values
    return values[1], -1


def _set_tree_leaf(values: list[float], at: int, value: float) -> None:
    values[at] = value
    at //= 2
    while at:
        values[at] = max(values[2 * at], values[2 * at + 1])
        at //= 2


def _update_in_order(
    order: list[int], old: list[float], new: list[float], net: Lists, fixed: list[int], target: list[float],
    damping: float, geometric: bool,
) -> tuple[float, int]:  # fmt: skip
    tail, head, cardinality, node_offset, potential, table_offset, table, offset, in_offset, in_edge = net
    largest = 0.0
    for d in order:
        i, j = tail[d], head[d]
        rows, columns = cardinality[i], cardinality[j]
        weight = _tail_weights(d, i, rows, old, offset, node_offset, potential, in_offset, in_edge, fixed, target)
        start, made = table_offset[d >> 1], []
        for y in range(columns):
            # Σ_{x_i} ψ_ij(x_i, x_j) w(x_i) of 5.25; ψ is stored once, and the reverse direction reads it by columns.
            total = 0.0
            for x in range(rows):
                total += weight[x] * table[start + (y * rows + x if d & 1 else x * columns + y)]
            made.append(total)
        top = max(made)
        if not 0 < top < math.inf:
            return largest, d
        made = [value / top for value in made]
        at = offset[d]
        if damping > 0:
            made = _damped_message(made, old[at : at + columns], damping, geometric)
        for y in range(columns):
            before, value = old[at + y], made[y]
            bigger = value if value > before else before
            if bigger > 0:
                change = abs(value - before) / bigger
                if change > largest:
                    largest = change
            new[at + y] = value
    return largest, -1


def _tail_weights(
    d: int, i: int, rows: int, old: list[float], offset: list[int], node_offset: list[int], potential: list[float],
    in_offset: list[int], in_edge: list[int], fixed: list[int], target: list[float],
) -> list[float]:  # fmt: skip
    """Return w of an update, up to a common factor."""
    first = node_offset[i]
    # A node with a given marginal bounces the message (5.26): target_i/M_ji, 0 where the target is 0, and refused where only M_ji is 0.
    if fixed[i]:
        back = offset[d ^ 1]
        return [
            0.0 if target[first + x] == 0 else target[first + x] / old[back + x] if old[back + x] > 0 else math.inf for x in range(rows)
        ]
    weight = potential[first : first + rows]
    power = [0] * rows
    # w = ψ_i Π_{k ≠ j} M_ki is computed by multiplication, not by dividing the whole product by M_ji, because messages may have zeros.
    # A state whose product becomes too small is multiplied by 2^500; in the end only differences of these factors are undone.
    for k in in_edge[in_offset[i] : in_offset[i + 1]]:
        if k == d ^ 1:
            continue
        at = offset[k]
        for x in range(rows):
            weight[x] *= old[at + x]
            if 0 < weight[x] < SMALL:
                weight[x] *= LARGE
                power[x] -= SHIFT
    top = max((power[x] for x in range(rows) if weight[x] > 0), default=0)
    return [math.ldexp(weight[x], power[x] - top) if power[x] != top else weight[x] for x in range(rows)]


def _damped_message(made: list[float], before: list[float], damping: float, geometric: bool) -> list[float]:
    if geometric:
        mixed = [math.pow(value, 1 - damping) * math.pow(was, damping) for value, was in zip(made, before, strict=True)]
    else:
        mixed = [(1 - damping) * value + damping * was for value, was in zip(made, before, strict=True)]
    top = max(mixed)
    return [value / top for value in mixed] if top > 0 else made
