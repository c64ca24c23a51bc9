"""Pairs of binary variables in closed form: the closest belief of an edge with given marginals, and its messages.

For b_ij with marginals q_i, q_j and odds ratio e^w, w = log ψ00 ψ11 / ψ01 ψ10, the smaller cell off the diagonal solves a
quadratic equation.  Every cell is computed without cancellation if q and 1 − q are both given.
Source: Welling & Teh (2001), sec. 3 (their ξ); messages of marginals: Teh (2003), 5.24.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix, identity
from scipy.sparse.linalg import splu

from herdcli.markov.model.pairwise import PairwiseNetwork
from herdcli.schema import Array


def edge_log_tables(graph: PairwiseNetwork) -> Array | None:
    """Return log ψ of all edges (E, 4); None unless all nodes have at most two states and nothing is zero."""
    if graph.cardinality.max() > 2 or not graph.table.all() or not graph.potential.all():
        return None
    result: Array = np.log(graph.table).reshape(-1, 4)
    return result


def first_and_last_state_values(graph: PairwiseNetwork, flat: Array) -> tuple[Array, Array]:
    """Return the values of each node's first and of its last state (N,), given values over all states."""
    return flat[graph.node_offset[:-1]], flat[graph.node_offset[1:] - 1]


def messages_from_marginals(graph: PairwiseNetwork, tables: Array, node: Array) -> tuple[Array, Array]:
    """Compute the messages, as (2E,) log M(1)/M(0), that bounce at these marginals from both ends of every edge, and pair beliefs (E, 4).

    They are not finite if a cell underflows.
    """
    i, j = graph.tail[::2], graph.head[::2]
    w = tables[:, 0] + tables[:, 3] - tables[:, 1] - tables[:, 2]
    turned = w < 0  # exchange the states of j, so that the coupling is positive
    p, q = first_and_last_state_values(graph, node)
    pi, qi = p[i], q[i]
    pj, qj = np.where(turned, q[j], p[j]), np.where(turned, p[j], q[j])
    less = qi < qj
    apart, on, off = np.abs(np.where(qi < 0.5, qi - qj, pj - pi)), np.where(less, qi, qj), np.where(less, pj, pi)
    odds = np.exp(-np.abs(w))
    # s (s + apart) = odds (on − s)(off − s), where s is the smaller cell off the diagonal
    linear, both_held = apart + odds * (on + off), on * off
    # (1 − odds) s² + linear s − constant = 0 with constant = odds·on·off.  Its root with the other sign of the square root divides by
    # 1 − odds = −expm1(−|w|), 0 without coupling, and subtracts nearly equal numbers; 2·constant divided by a sum of positive terms has
    # neither problem.  The square root is that of exp(−|w|/2), and s is a logarithm: odds underflow from |w| = 745, and couplings of
    # tables reach 1416.
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.hypot(linear, 2 * np.sqrt(-np.expm1(-np.abs(w)) * both_held) * np.exp(-0.5 * np.abs(w)))
        log_s = np.log(2 * both_held) - np.abs(w) - np.log(linear + root)
        s = np.exp(log_s)
        log_larger = np.log(s + apart)
        log_larger = np.where(apart > 0, log_larger, log_s)
        log_cells = np.log(off - s), np.where(less, log_larger, log_s), np.where(less, log_s, log_larger), np.log(on - s)
    larger = s + apart
    as_is = np.stack([off - s, np.where(less, larger, s), np.where(less, s, larger), on - s], axis=1)
    logs_as_is = np.stack(log_cells, axis=1)
    exchanged = [1, 0, 3, 2]
    pair = np.where(turned[:, None], as_is[:, exchanged], as_is)
    log_pair = np.where(turned[:, None], logs_as_is[:, exchanged], logs_as_is)
    with np.errstate(divide="ignore", invalid="ignore"):
        weight, logit = log_pair - tables, np.log(q) - np.log(p)
    ratio = np.empty(2 * len(w))
    with np.errstate(invalid="ignore"):
        # b_ij = ψ_ij w_i w_j with w_j = b_j/M_ij (5.24).  Along x_i = 0 w_i is constant, so log w_j(1)/w_j(0) is log b_ij/ψ_ij at (0, 1)
        # minus that at (0, 0); the message is logit b_j minus this difference.
        ratio[0::2] = logit[j] - (weight[:, 1] - weight[:, 0])
        ratio[1::2] = logit[i] - (weight[:, 2] - weight[:, 0])
    return ratio, pair


def edge_second_derivatives(pair: Array) -> tuple[Array, Array, Array]:
    """Return the second derivatives of min Σ b log b/ψ in the marginals q_i and q_j (the inverse covariance): q_i q_i, q_j q_j, q_i q_j.

    The determinant is a sum of products, and therefore exact for strong couplings.
    """
    a, b, c, d = pair.T
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        # var x_i = (c + d)(a + b), var x_j = (b + d)(a + c), cov = a d − b c.  Since a + b + c + d = 1, var x_i var x_j − cov² is the sum
        # of the four products of three cells.  Nothing cancels in this sum; in the difference digits cancel if the correlation is near ±1.
        determinant = a * b * c + a * b * d + a * c * d + b * c * d
        return (b + d) * (a + c) / determinant, (c + d) * (a + b) / determinant, (b * c - a * d) / determinant


def ratios_to_messages(ratio: Array) -> Array:
    """Return the messages with maximum 1, given log M(1)/M(0)."""
    top = np.maximum(ratio, 0.0)
    result: Array = np.exp(np.stack([-top, ratio - top], axis=1)).ravel()
    return result


def newton_step_messages(graph: PairwiseNetwork, messages: Array, fixed: Array, target: Array) -> Array | None:
    """Return messages after a Newton step on the equations of propagation, M = update(M); None if these are singular.

    It still improves messages when marginals of strongly coupled neighbours agree to all their digits.
    """
    directed = 2 * graph.edges
    ratio = np.log(messages[1::2]) - np.log(messages[0::2])
    first, last = first_and_last_state_values(graph, graph.potential)
    potential = np.log(last) - np.log(first)
    every = np.arange(directed)
    total = potential + np.bincount(graph.head, ratio, graph.nodes)
    back = ratio[every ^ 1]
    cavity = total[graph.tail] - back
    held = fixed[graph.tail] == 1
    with np.errstate(divide="ignore", invalid="ignore"):
        first, last = first_and_last_state_values(graph, target)
        wanted = np.log(last) - np.log(first)
    cavity = np.where(held, wanted[graph.tail] - back, cavity)
    table = np.log(graph.table).reshape(-1, 2, 2)
    of = np.empty((directed, 2, 2))  # rows belong to the tail
    of[0::2], of[1::2] = table, table.transpose(0, 2, 1)
    sums = np.logaddexp(of[:, 0], cavity[:, None] + of[:, 1])
    given = np.exp(cavity[:, None] + of[:, 1] - sums)  # P(tail = 1 | head)
    # The new log ratio f = log Σ_x ψ(x, 1) e^{cx} − log Σ_x ψ(x, 0) e^{cx} has ∂f/∂c = P(x = 1 | 1) − P(x = 1 | 0).  c is the sum of the
    # potential and the other messages to the tail (5.25), so its derivative in each of these messages is +1.  If the tail is fixed, c is
    # logit target minus the reverse message (5.26), so its derivative in that message is −1.
    slope = given[:, 1] - given[:, 0]
    owner = graph.in_edge[_concatenate_node_ranges(graph.in_offset, graph.tail)]
    row = np.repeat(every, np.diff(graph.in_offset)[graph.tail])
    kept = (owner != row ^ 1) & ~held[row]
    rows = np.concatenate([row[kept], every[held]])
    columns = np.concatenate([owner[kept], every[held] ^ 1])
    values = np.concatenate([slope[row[kept]], -slope[held]])
    matrix = identity(directed, format="csc") - coo_matrix((values, (rows, columns)), shape=(directed, directed)).tocsc()
    try:
        # r = f(r): the Newton step solves (1 − ∂f) Δ = f(r) − r.
        step = splu(matrix).solve(sums[:, 1] - sums[:, 0] - ratio)
    except RuntimeError:
        return None
    return ratios_to_messages(ratio + step) if np.isfinite(step).all() else None


def _concatenate_node_ranges(offset: Array, nodes: Array) -> Array:
    """Return the ranges offset[i] … offset[i+1] of these nodes, concatenated."""
    lengths = np.diff(offset)[nodes]
    starts = np.cumsum(lengths) - lengths
    result: Array = np.arange(int(lengths.sum())) - np.repeat(starts - offset[nodes], lengths)
    return result
