"""log Z and likelihoods of harmoniums of word counts, with one partition function for each length of a row.

Rows of N words have  Z_N = Σ_h e^{c·h} h(h) (Σ_j e^{b_j + (W h)_j})^N:  the sum over words has a closed form given the hidden states.  The
logarithm of the inner sum is the same for all lengths, so that one pass over the states gives all of them.  If there are too many states,
hidden states are annealed along the lengths (`length_annealing`).
Source: Salakhutdinov & Hinton (2009), eq. 6; the hidden biases N c are part of W.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from herdcli.errors import BadUsage
from herdcli.numerics import exact_arithmetic
from herdcli.rbm.likelihood.enumeration import ENUMERABLE, enumerate_hidden, log2_states
from herdcli.rbm.likelihood.row_likelihood import Map, log_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units.words import WordCountUnits
from herdcli.schema import Array


def can_enumerate(h: Harmonium) -> bool:
    """Whether the hidden states are few enough to sum over all of them."""
    return log2_states(h.hidden, h.W.shape[1]) <= ENUMERABLE


def model_of_length(h: Harmonium, length: int) -> Harmonium:
    """Return the model of rows of one length."""
    return replace(h, visible=WordCountUnits(length))


def log_partitions_by_length(h: Harmonium, lengths: Array) -> Array:
    """Compute log Z_N (L,) in nats of lengths N (L,) by a sum over all hidden states.  Raises BadUsage if there are too many."""
    if not can_enumerate(h):
        raise BadUsage(
            f"exact likelihood of words enumerates at most 2^{ENUMERABLE} states of hidden units; this model has {h.W.shape[1]} of them",
            hint="use annealed importance sampling",
        )
    found = np.full(len(lengths), -np.inf)
    for block in enumerate_hidden(model_of_length(h, 1)):
        one = exact_arithmetic.log_sum_exp(block.natural, axis=1)
        fixed = exact_arithmetic.product(block.hidden, h.c) + h.hidden.log_base(block.hidden)
        found = exact_arithmetic.log_add_exp(found, exact_arithmetic.log_sum_exp(fixed + lengths[:, None] * one, axis=1))
    return found


def row_log_likelihoods(h: Harmonium, rows: Any, known: Array, log_z: Array, *, map: Map = map) -> Array:
    """Compute log p(v | N) (n,) of rows (n, D), dense or CSR, with log Z (L,) of the sorted known lengths (L,)."""
    lengths = row_lengths(rows)
    total: Array = log_likelihood(model_of_length(h, 1), rows, 0.0, map=map) - log_z[np.searchsorted(known, lengths)]
    return total


def row_lengths(rows: Any) -> Array:
    """Count the words in each of the rows (n, D): (n,) int64."""
    return np.asarray(rows.sum(axis=1)).ravel().round().astype(np.int64)
