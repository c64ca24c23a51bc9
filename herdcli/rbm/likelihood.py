"""How well a harmonium explains rows: exact log-likelihood, pseudo-likelihood, reconstruction.

Everything works block by block, each block a few hundred thousand numbers, so memory is bounded
whatever the number of rows; `map` may run the blocks on threads: their boundaries depend on shapes
alone, so the result does not depend on who runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from herdcli.errors import BadUsage
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units import Family
from herdcli.schema import Array

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

ENUMERABLE = 20  # largest layer whose 2^K states are summed one by one
BLOCK = 1 << 17  # numbers in one block's work array: 1 MB, which stays in cache


def enumerable(h: Harmonium) -> bool:
    """Whether log Z can be had exactly: the smaller layer has at most 20 units."""
    return bool(min(h.W.shape) <= ENUMERABLE)


def summed_log_partition(units: Family, natural: Array) -> Array:
    """Σ over the last axis of A(a), for a layer of two-state units; natural parameters in floating point, overwritten.

    With states l and l+g:  A(a) = l·a + log(1 + e^{ga}) = (l + g/2)·a + g/2·|a| + log(1 + e^{−g|a|}).
    """
    low, high = units.values
    gap = high - low
    linear = (low + gap / 2) * natural.sum(axis=-1) if low + gap / 2 else 0.0
    np.abs(natural, out=natural)
    linear = linear + gap / 2 * natural.sum(axis=-1)
    np.multiply(natural, -gap, out=natural)
    np.exp(natural, out=natural)
    np.add(natural, 1.0, out=natural)
    np.log(natural, out=natural)
    total: Array = linear + natural.sum(axis=-1)
    return total


def log_partition_exact(h: Harmonium, *, map: Map = map) -> float:
    """log Z = log Σ_h e^{c·h + Σ_j A_j(b_j + (W h)_j)} over all states of the smaller layer, in nats.

    Raises BadUsage if both layers have more than 20 units.
    """
    if not enumerable(h):
        raise BadUsage(
            f"exact likelihood enumerates the smaller layer, at most {ENUMERABLE} units; this model is {h.W.shape[0]} × {h.W.shape[1]}",
            hint="use annealed importance sampling",
        )
    if h.W.shape[0] < h.W.shape[1]:
        h = h.transposed()
    units = h.W.shape[1]
    # The states of the first `near` units are one block's rows; a block fixes all the others.
    near = min(units, max(0, (BLOCK // h.W.shape[0]).bit_length() - 1))
    rows = _states(h.hidden, near)
    natural = rows @ h.W.T[:near] + h.b
    weight = rows @ h.c[:near]
    blocks = map(partial(_log_block, h, near, natural, weight), range(1 << (units - near)))
    return float(np.logaddexp.reduce(np.fromiter(blocks, dtype=np.float64)))


def _states(units: Family, count: int) -> Array:
    """All states of `count` units, (2^count, count) float64."""
    bits = np.arange(1 << count)[:, None] >> np.arange(count) & 1
    states: Array = np.asarray(units.values, dtype=np.float64)[bits]
    return states


def _log_block(h: Harmonium, near: int, natural: Array, weight: Array, block: int) -> float:
    """log of the sum over the near units, the far ones in the state numbered `block`."""
    far = h.W.shape[1] - near
    state = np.asarray(h.hidden.values, dtype=np.float64)[block >> np.arange(far) & 1]
    terms = weight + state @ h.c[near:] + summed_log_partition(h.visible, natural + h.W[:, near:] @ state)
    top = terms.max()
    return float(top + np.log(np.exp(terms - top).sum()))


def row_blocks(rows: int, width: int) -> Iterator[slice]:
    """Slices of `rows` rows, each with about BLOCK numbers of `width` per row."""
    size = max(1, BLOCK // max(1, width))
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def _by_rows(function: Callable[[Array], Array], v: Array, width: int, map: Map) -> Array:
    """`function` of blocks of rows of v, joined: (n,) float64."""
    parts = list(map(lambda block: function(np.asarray(v[block], dtype=np.float64)), row_blocks(len(v), width)))
    return np.concatenate(parts) if parts else np.empty(0)


def log_likelihood(h: Harmonium, v: Array, log_partition: float, *, map: Map = map) -> Array:
    """log p(v) = −F(v) − log Z of rows v (n, D) in unit values; (n,) float64, nats."""

    def block(rows: Array) -> Array:
        result: Array = rows @ h.b + summed_log_partition(h.hidden, rows @ h.W + h.c) - log_partition
        return result

    return _by_rows(block, v, sum(h.W.shape), map)


def pseudo_likelihood(h: Harmonium, v: Array, *, map: Map = map) -> Array:
    """Σ_j log p(v_j | all other units of v), every unit j in its turn; rows v (n, D), returns (n,) float64, nats.

    p(v_j | v_−j) = σ(F(v with j flipped) − F(v)).  Exact, n·D·K operations; nothing is sampled.
    Source: Besag (1975); for RBMs usually estimated from one random unit, which is too noisy to compare models.
    """
    return _by_rows(partial(_pseudo_block, h), v, sum(h.W.shape), map)


def _pseudo_block(h: Harmonium, v: Array) -> Array:
    x = v @ h.W + h.c
    here = summed_log_partition(h.hidden, x.copy())
    flip = float(sum(h.visible.values)) - 2.0 * v  # Δ_j = l + (l + g) − 2 v_j, to be added to v_j
    total = np.zeros(len(v))
    work = np.empty_like(x)
    for j in range(h.W.shape[0]):
        np.multiply.outer(flip[:, j], h.W[j], out=work)
        np.add(work, x, out=work)
        rise = here - summed_log_partition(h.hidden, work) - flip[:, j] * h.b[j]  # F(v flipped at j) − F(v)
        total -= np.logaddexp(0.0, -rise)
    return total


def reconstruction_error(h: Harmonium, v: Array, *, map: Map = map) -> Array:
    """Mean over units of (v − E[v | E[h | v]])², units scaled to 0..1: the mean-field step there and back.

    Rows v (n, D); returns (n,) float64.
    """
    gap = h.visible.values[1] - h.visible.values[0]

    def block(rows: Array) -> Array:
        error: Array = np.square((rows - h.visible_means(h.hidden_means(rows))) / gap).mean(axis=1)
        return error

    return _by_rows(block, v, sum(h.W.shape), map)
