"""log Z and likelihoods of harmoniums of word counts, with one partition function for each length of a row.

Rows of N words have  Z_N = Σ_h e^{c·h} h(h) (Σ_j e^{b_j + (W h)_j})^N:  the sum over words has a closed form given the hidden states.  The
logarithm of the inner sum is the same for all lengths, so that one pass over the states gives all of them.  If there are too many states,
hidden states are annealed along the lengths (`length_annealing`).
Source: Salakhutdinov & Hinton (2009), eq. 6; the hidden biases N c are part of W.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import BadUsage
from herdcli.numerics import exact_arithmetic
from herdcli.rbm.likelihood.enumeration import ENUMERABLE, iterate_hidden_states, log2_state_count
from herdcli.rbm.likelihood.row_likelihood import row_log_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units.words import WordCountUnits
from herdcli.schema import Array, Matrix


def can_enumerate_hidden(h: Harmonium) -> bool:
    """Whether the hidden states are few enough to sum over all of them."""
    return log2_state_count(h.hidden, h.W.shape[1]) <= ENUMERABLE


def condition_on_length(h: Harmonium, length: int) -> Harmonium:
    """Return the model of rows of one length."""
    return replace(h, visible=WordCountUnits(length))


def exact_log_partitions(h: Harmonium, lengths: Array) -> Array:
    """Compute log Z_N (L,) in nats of lengths N (L,) by a sum over all hidden states.  Raises BadUsage if there are too many."""
    if not can_enumerate_hidden(h):
        raise BadUsage(
            f"the exact likelihood of word counts needs at most 2^{ENUMERABLE} hidden states, but this model has {h.W.shape[1]} "
            "hidden units",
            hint="use annealed importance sampling",
        )
    found = np.full(len(lengths), -np.inf)
    for block in iterate_hidden_states(condition_on_length(h, 1)):
        one = exact_arithmetic.log_sum_exp(block.natural, axis=1)
        fixed = exact_arithmetic.matrix_product(block.hidden, h.c) + h.hidden.log_base_measure(block.hidden)
        found = exact_arithmetic.log_add_exp(found, exact_arithmetic.log_sum_exp(fixed + lengths[:, None] * one, axis=1))
    return found


def row_log_likelihoods(h: Harmonium, rows: Matrix, sorted_lengths: Array, log_z: Array, *, map: Map = map) -> Array:
    """Compute log p(v | N) (n,) of rows (n, D), dense or CSR, with log Z (L,) of the sorted known lengths (L,)."""
    lengths = count_words_per_row(rows)
    total: Array = row_log_likelihood(condition_on_length(h, 1), rows, 0.0, map=map) - log_z[np.searchsorted(sorted_lengths, lengths)]
    return total


def count_words_per_row(rows: Matrix) -> Array:
    """Count the words in each of the rows (n, D): (n,) int64."""
    return np.asarray(rows.sum(axis=1)).ravel().round().astype(np.int64)
