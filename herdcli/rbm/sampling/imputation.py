"""Imputation of missing entries by a harmonium: their expectations given the known entries.

Given the known entries v_O of a row, the hidden states have

    log p(h | v_O) = c·h + log h_H(h) + Σ_{j in O} v_j (W h)_j + Σ_{j not in O} A_j(b_j + (W h)_j) + const,

and E[v_j | v_O] = Σ_h p(h | v_O) A'_j(b_j + (W h)_j): the joint e^{−E} summed over the missing entries,
whose units are independent given h.  If there are too many states for the sum, Gibbs chains hold the known entries
fixed, and the same means are averaged over them.
Sources: Welling, Rosen-Zvi & Hinton (2005), sec. 2; Rao–Blackwellised means: Gelfand & Smith (1990), sec. 2.3.
"""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import DataError
from herdcli.numerics import exact_arithmetic
from herdcli.rbm.likelihood.enumeration import iterate_hidden_states, log2_state_count
from herdcli.rbm.model import Harmonium
from herdcli.rbm.normalizability import require_normalisable
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.rng import Stream, generator
from herdcli.schema import Array

STATES = 12  # log2 of the number of hidden states that are summed over for each row
CHAINS, BURN_IN, SWEEPS = 10, 100, 200  # numbers of chains, and of their sweeps, for each row with more hidden states
PART = 64  # rows whose chains are moved together


def impute_rows(h: Harmonium, rows: Array, is_known: Array, *, seed: int = 0, first_row: int = 0, map: Map = map) -> Array:
    """Replace the entries of rows (n, D) that are not in `is_known` (n, D) by their expectations given the others.

    Rows are in unit values; the result is float64.

    first_row  number of rows before these, a multiple of PART.

    The result is exact if the hidden layer has at most 2^12 states, otherwise by Gibbs sampling.  Raises DataError for a model without
    finite Z, and if only some columns of one softmax unit are known.
    """
    require_normalisable(h)
    require_complete_units(h, is_known)
    result = np.array(rows, dtype=np.float64)
    if log2_state_count(h.hidden, h.W.shape[1]) <= STATES:
        blocks = list(iterate_hidden_states(h))
        states, natural = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("hidden", "natural"))
        means, fixed = h.visible.mean(natural), exact_arithmetic.matrix_product(states, h.c) + h.hidden.log_base_measure(states)

        def fill(index: int) -> None:
            given = is_known[index]
            if not given.all():
                result[index, ~given] = exact_arithmetic.matrix_product(
                    hidden_state_posterior(h, result[index], given, natural, fixed), means[:, ~given]
                )

        list(map(fill, range(len(rows))))
        return result

    def sampled(start: int) -> None:
        part = slice(start, start + PART)
        if not is_known[part].all():
            result[part] = _impute_by_gibbs(h, result[part], is_known[part], generator(seed, Stream.CONDITIONAL, unit=first_row + start))

    list(map(sampled, range(0, len(rows), PART)))
    return result


def hidden_state_posterior(h: Harmonium, row: Array, is_given: Array, natural: Array, fixed: Array) -> Array:
    """Compute p(h | v_O) (S,) of all hidden states, whose visible units have natural parameters (S, D)."""
    free = h.visible.log_partition(natural)[:, ~is_given[h.visible.first_columns(len(is_given))]].sum(axis=1)
    # p(h, v_O) ∝ e^{c·h} (base of h) Π_{j ∈ O} e^{a_j v_j} Π_{j ∉ O} e^{A_j(a_j)} with a = b + Wh: known units enter with their values, the
    # others are summed out.
    weight = fixed + exact_arithmetic.matrix_product(natural[:, is_given], row[is_given]) + free
    weight = exact_arithmetic.exp(weight - weight.max())
    shares: Array = weight / weight.sum()
    return shares


def _impute_by_gibbs(h: Harmonium, rows: Array, is_known: Array, draws: np.random.Generator) -> Array:
    """Return rows (n, D) with missing entries replaced by means over clamped chains."""
    W, b, c = (np.ascontiguousarray(part, dtype=np.float32) for part in (h.W, h.b, h.c))
    sweeper = GibbsSweeper(W, b, c, h.visible.layer(), h.hidden.layer(), draws)
    held, values = np.repeat(is_known, CHAINS, axis=0), np.repeat(rows, CHAINS, axis=0).astype(np.float32)
    hidden = sweeper.hidden.sample_unbiased_states((len(values), len(c)), draws)
    means, visible, natural = np.empty_like(values), np.empty_like(values), np.empty_like(hidden)
    total = np.zeros(values.shape)
    for sweep in range(BURN_IN + SWEEPS):
        sweeper.update_visible(hidden, means, visible)
        if sweep >= BURN_IN:
            total += means
        visible[held] = values[held]
        sweeper.update_hidden(visible, natural, hidden)
    found = total.reshape(len(rows), CHAINS, -1).mean(axis=1) / SWEEPS
    return np.where(is_known, rows, found)


def require_complete_units(h: Harmonium, is_known: Array) -> None:
    """Raise DataError if only some columns of a unit are true in `is_known` (n, D)."""
    starts = np.flatnonzero(h.visible.first_columns(is_known.shape[1]))
    torn = np.logical_or.reduceat(is_known, starts, axis=1) & ~np.logical_and.reduceat(is_known, starts, axis=1)
    if torn.any():
        row, unit = np.argwhere(torn)[0]
        columns = h.visible.unit_columns(int(unit))
        raise DataError(
            f"row {row} has values in only some of the columns {columns.start} to {columns.stop - 1}, which are one unit and must be "
            "missing together"
        )
