"""Training rows with missing entries: the fit maximises the likelihood of the known entries.

Let v_O be the known entries of a row and v_M the missing ones.  Then ∂ log p(v_O) = E[∂(−E(v, h)) | v_O] − E[∂(−E(v, h))].  The first phase
is a mean over v_M and h given v_O; the second is the same as for complete rows.  Gibbs sweeps that hold v_O fixed sample v_M; with few
hidden states the mean is a sum.  The gradient is correct if entries are missing independently of their values (missing at random).
Sources: Little & Rubin (2002), sec. 6.2; Salakhutdinov, Mnih & Hinton (2007), for harmoniums that observe few of their units.
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import DataError
from herdcli.numerics import exact_arithmetic
from herdcli.rbm.likelihood.enumeration import iterate_hidden_states, log2_state_count
from herdcli.rbm.model import Harmonium
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.rbm.sampling.imputation import STATES, hidden_state_posterior
from herdcli.rng import Stream, generator
from herdcli.schema import Array

SWEEPS = 10  # Gibbs sweeps of an update, starting from values sampled from the columns


def fill_missing_at_random(X: Array, seed: int) -> Array:
    """Replace each NaN in rows (n, D) by a random known value of its column, so that columns keep their means and deviations.

    Raises DataError for a column without any known value.
    """
    found = np.array(X, dtype=np.float64)
    draws = generator(seed, Stream.MISSING)
    for j in np.flatnonzero(np.isnan(found).any(axis=0)):
        known = np.flatnonzero(~np.isnan(found[:, j]))
        if not len(known):
            raise DataError(f"all values of column {j} of /X are missing", hint="leave the column out with --drop")
        gaps = np.flatnonzero(np.isnan(found[:, j]))
        found[gaps, j] = found[known[draws.integers(0, len(known), len(gaps))], j]
    return found


def sample_missing_entries(sweeper: GibbsSweeper, rows: Array, is_known: Array) -> Array:
    """Sample the missing entries of rows (n, D) float32 given those in `is_known` (n, D), starting from their current values."""
    v = np.ascontiguousarray(rows, dtype=np.float32)
    if is_known.all():
        return v
    v = v.copy() if v is rows else v
    hidden = np.empty((len(v), len(sweeper.c)), dtype=np.float32)
    inputs, means, visible, gaps = np.empty_like(hidden), np.empty_like(v), np.empty_like(v), ~is_known
    for _ in range(SWEEPS):
        sweeper.update_hidden(v, inputs, hidden)
        sweeper.update_visible(hidden, means, visible)
        v[gaps] = visible[gaps]
    return v


def can_enumerate_hidden(h: Harmonium) -> bool:
    """Whether the hidden states are few enough to sum over them for each row."""
    return log2_state_count(h.hidden, h.W.shape[1]) <= STATES


def moments_given_known_entries(h: Harmonium, rows: Array, is_known: Array) -> tuple[Array, Array, Array]:
    """Compute means over rows (n, D) of E[v h' | v_O] (D, K), E[v | v_O] (D,) and E[h | v_O] (K,), by a sum over all hidden states."""
    blocks = list(iterate_hidden_states(h))
    states, natural = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("hidden", "natural"))
    means, fixed = h.visible.mean(natural), exact_arithmetic.matrix_product(states, h.c) + h.hidden.log_base_measure(states)
    pairs, visible, hidden = np.zeros(h.W.shape), np.zeros(len(h.b)), np.zeros(len(h.c))
    for row, given in zip(rows, is_known, strict=True):
        p = hidden_state_posterior(h, row, given, natural, fixed)
        # Units of a layer are independent given the other: E[v_j h' | v_O] = Σ_h p(h | v_O) E[v_j | h] h', with v_j itself if it is known.
        values = np.where(given, row, means)
        pairs += exact_arithmetic.matrix_product((values * p[:, None]).T, states)
        visible += exact_arithmetic.matrix_product(p, values)
        hidden += exact_arithmetic.matrix_product(p, states)
    return pairs / len(rows), visible / len(rows), hidden / len(rows)
