"""Parallel tempering of word counts as the second phase of learning: the lengths of a minibatch's rows act as temperatures.

Hidden states of rows of N words have  p_N(h) ∝ h(h) e^{c·h + N G(h)},  G(h) = log Σ_j e^{b_j + (W h)_j},  so that the number of words is
an inverse temperature.  With many words hidden states are almost determined: a chain of long rows stays where it started, and
contrastive divergence never learns how much mass the model has elsewhere.  Here every row of the minibatch has a chain of its length, and
some more chains are shorter, down to a single word, where hidden states are nearly free.  Neighbours r, s exchange hidden
states with probability

    min(1, e^{(N_s − N_r) (G(h_r) − G(h_s))}),

for even and odd pairs alternately; then each chain draws its words, and hidden states given these.
Sources: Desjardins, Courville, Bengio, Vincent & Delalleau (2010), whose temperatures are replaced by lengths; for the model:
Salakhutdinov & Hinton (2009).
"""

from __future__ import annotations

import numpy as np

from herdcli.numerics import exact_arithmetic
from herdcli.rbm.learning.phases import BlockPhases, PhaseScratch, write_data_phase
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.rbm.units.words import MultinomialLayer, softmax_weights_in_place
from herdcli.schema import Array

EXCHANGES = 10  # rounds of exchanges in a sweep, alternately of even and odd pairs


def length_tempered_phases(
    sweeper: GibbsSweeper, rows: Array, chain: Array, sweeps: int, count: int, reconstruct: bool, scratch: PhaseScratch
) -> BlockPhases:
    """Compute the phases of rows (n, D) in a minibatch of `count`, and of chains (m, K), hidden states that are updated in place."""
    n, m = len(rows), len(chain)
    error, sparse = write_data_phase(sweeper, rows, count, reconstruct, scratch)
    lengths, kept = choose_chain_lengths(scratch.v[:n].sum(axis=1).round().astype(np.int64), m)
    words, counted = MultinomialLayer(lengths), slice(m - kept, m)
    shares = np.full(kept, -n / max(kept, 1) / count, dtype=np.float32)
    for _ in range(sweeps):
        natural = exact_arithmetic.matrix_product(chain, sweeper.W.T)
        natural += sweeper.b
        places = draw_exchanged_indices(softmax_weights_in_place(natural), lengths, sweeper.draws)
        shown = words.draw_word_counts(natural[places], sweeper.draws)
        inputs = exact_arithmetic.matrix_product(shown, sweeper.W)
        sweeper.hidden.sample(inputs, sweeper.c, chain, sweeper.draws)
    scratch.v[n + kept : n + m], scratch.h[n + kept : n + m] = 0.0, 0.0  # products use the whole block, so the unused rows are set to 0
    scratch.v[n : n + kept] = shown[counted]
    np.multiply(inputs[counted], shares[:, None], out=scratch.h[n : n + kept])
    return BlockPhases(scratch.v[: n + kept], scratch.h[: n + kept], n, sparse, None, error, persistent=True, shares=shares)


def choose_chain_lengths(lengths: Array, chains: int) -> tuple[Array, int]:
    """Return ascending lengths (m,) of the chains for rows of given lengths (n,), and how many of them, the last, represent rows.

    With more chains than rows, the first chains are shorter than all rows, down to one word, evenly spaced in the logarithm.  With fewer,
    the chains are evenly spread over the rows.
    """
    n, own = len(lengths), np.sort(lengths)
    if chains < n:
        return own[(2 * np.arange(chains) + 1) * n // (2 * chains)], chains
    shorter = np.rint(
        exact_arithmetic.exp(np.linspace(0.0, exact_arithmetic.log(float(own[0])) if n else 0.0, chains - n + 1)[:-1])
    ).astype(np.int64)
    return np.concatenate([shorter, own]), n


def draw_exchanged_indices(log_partition_growth: Array, lengths: Array, draws: np.random.Generator) -> Array:
    """Return the indices (m,) of the chains whose states each chain has after exchanges, from G (m,) of the states and lengths (m,)."""
    places = np.arange(len(lengths))
    for turn in range(EXCHANGES):
        low = np.arange(turn % 2, len(lengths) - 1, 2)
        gain = (lengths[low + 1] - lengths[low]) * (log_partition_growth[places[low]] - log_partition_growth[places[low + 1]])
        low = low[draws.random(len(low)) < exact_arithmetic.exp(np.minimum(gain, 0.0))]
        places[low], places[low + 1] = places[low + 1], places[low]
    return places
