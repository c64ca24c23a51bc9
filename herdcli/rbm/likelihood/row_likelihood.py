"""Measures of how well a harmonium explains rows: log-likelihood given log Z, pseudo-likelihood, reconstruction error.

Everything is computed in blocks of a few hundred thousand numbers each, so memory is bounded for any number of rows.  `map` may run the
blocks on threads: their boundaries depend on shapes alone, so the result does not depend on the threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import BadUsage
from herdcli.numerics import exact_arithmetic
from herdcli.numerics.row_selection import as_dense
from herdcli.rbm.model import Harmonium
from herdcli.records import dataclass
from herdcli.schema import Array, Matrix, is_sparse

BLOCK = 1 << 17  # numbers in one block's work array: 1 MB, which stays in cache
FEWEST, WIDEST = 32, 1 << 22  # least number of rows of a block, if they have at most WIDEST numbers


def rows_per_block(width: int) -> int:
    """Return the number of rows with about BLOCK numbers of `width` each.

    Wide rows have FEWEST to a block, because the weights are read once per block.
    """
    return max(BLOCK // max(1, width), min(FEWEST, WIDEST // max(1, width)), 1)


def row_blocks(rows: int, width: int) -> Iterator[slice]:
    """Yield slices of `rows` rows, each of `rows_per_block`."""
    size = rows_per_block(width)
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def _map_row_blocks(function: Callable[[Array], Array], v: Matrix, width: int, map: Map) -> Array:
    """Apply `function` to blocks of rows of v and join the results: (n,) float64."""
    parts = list(map(lambda block: function(np.asarray(as_dense(v[block]), dtype=np.float64)), row_blocks(v.shape[0], width)))
    return np.concatenate(parts) if parts else np.empty(0)


def row_log_likelihood(h: Harmonium, v: Matrix, log_partition: float, *, map: Map = map) -> Array:
    """Compute log p(v) = −F(v) − log Z of rows v (n, D) in unit values, dense or CSR; (n,) float64, nats."""
    if is_sparse(v):
        parts = map(lambda rows: -h.free_energy(v[rows]) - log_partition, row_blocks(v.shape[0], h.W.shape[1]))
        return np.concatenate([np.empty(0), *parts])

    def block(rows: Array) -> Array:
        result: Array = (
            exact_arithmetic.matrix_product(rows, h.b)
            + h.hidden.summed_log_partition(exact_arithmetic.matrix_product(rows, h.W) + h.c)
            - log_partition
        )
        return result if h.visible.two_state else result + h.visible.log_base_measure(rows)

    return _map_row_blocks(block, v, sum(h.W.shape), map)


def log_pseudo_likelihood(h: Harmonium, v: Matrix, *, map: Map = map) -> Array:
    """Compute Σ_j log p(v_j | all other units of v) over all units j; rows v (n, D), returns (n,) float64, nats.

    The value is exact and takes S·n·D·K operations for units of S values.  Raises BadUsage for units of infinitely many values.
    Source: Besag (1975); for RBMs usually estimated from one random unit, which is too noisy to compare models.
    """
    if not h.visible.has_finite_values:
        raise BadUsage(f"pseudo-likelihood needs visible units with finitely many values, but these are {h.visible.name}")
    return _map_row_blocks(
        partial(_log_pseudo_likelihood_block if h.visible.two_state else _multistate_log_pseudo_likelihood, h), v, sum(h.W.shape), map
    )


def _log_pseudo_likelihood_block(h: Harmonium, v: Array) -> Array:
    """Compute the pseudo-likelihood of a block by p(v_j | v_−j) = σ(F(v with j flipped) − F(v))."""
    assert h.visible.states is not None
    x = exact_arithmetic.matrix_product(v, h.W) + h.c
    here = h.hidden.summed_log_partition(x.copy())
    flip = float(sum(h.visible.states)) - 2.0 * v  # Δ_j = l + (l + g) − 2 v_j, to be added to v_j
    total = np.zeros(len(v))
    work = np.empty_like(x)
    for j in range(h.W.shape[0]):
        np.multiply.outer(flip[:, j], h.W[j], out=work)
        np.add(work, x, out=work)
        # F(v) = −b·v − Σ A(x): x moves by Δ_j W_j.  log p(v_j | v_−j) = −log(1 + e^{F(v) − F(flipped)}) = −log(1 + e^{−rise}).
        rise = here - h.hidden.summed_log_partition(work) - flip[:, j] * h.b[j]  # F(v flipped at j) − F(v)
        total -= exact_arithmetic.log_add_exp(0.0, -rise)
    return total


def _multistate_log_pseudo_likelihood(h: Harmonium, v: Array) -> Array:
    """Compute the pseudo-likelihood of a block by log p(v_j | v_−j) = −F(v) − log Σ_s e^{−F(v with j at s)}."""
    total = np.zeros(len(v))
    for unit, others in enumerate(enumerate_unit_values(h, v)):
        columns = h.visible.unit_columns(unit)
        here = exact_arithmetic.matrix_product(v[:, columns], h.b[columns]) + h.visible.log_base_measure(v[:, columns])
        here = here + h.hidden.summed_log_partition(exact_arithmetic.matrix_product(v, h.W) + h.c)
        total += here - exact_arithmetic.log_sum_exp(others.log_weight, axis=0)
    return total


@dataclass(frozen=True)
class UnitAlternatives:
    """Rows with one unit at each of its S values: (S, n) log weights up to a term of the other units, (S, n, K) hidden inputs."""

    log_weight: Array
    inputs: Array


def enumerate_unit_values(h: Harmonium, v: Array) -> Iterator[UnitAlternatives]:
    """Yield for each visible unit the rows v (n, D) with that unit at each of its values and all others unchanged."""
    x = exact_arithmetic.matrix_product(v, h.W) + h.c
    for unit in range(h.visible.count_units(h.W.shape[0])):
        columns, support = h.visible.unit_columns(unit), h.visible.unit_values(unit)
        fixed = exact_arithmetic.matrix_product(support, h.b[columns]) + h.visible.log_base_measure(support)
        # The hidden inputs without unit j, plus each of its values.
        inputs = (x - exact_arithmetic.matrix_product(v[:, columns], h.W[columns])) + exact_arithmetic.matrix_product(
            support, h.W[columns]
        )[:, None]
        yield UnitAlternatives(fixed[:, None] + h.hidden.summed_log_partition(inputs.copy()), inputs)


def reconstruction_error(h: Harmonium, v: Matrix, *, map: Map = map) -> Array:
    """Compute the mean over columns of (v − E[v | E[h | v]])²: the error of a mean-field reconstruction.

    Units with a range are scaled to 0..1.  Rows v (n, D); returns (n,) float64.
    """
    gap = 1.0 if h.visible.range is None else h.visible.range[1] - h.visible.range[0]

    def block(rows: Array) -> Array:
        error: Array = np.square((rows - h.visible_means(h.hidden_means(rows))) / gap).mean(axis=1)
        return error

    return _map_row_blocks(block, v, sum(h.W.shape), map)
