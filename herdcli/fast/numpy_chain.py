"""Forward and backward passes along Markov chains of states, in NumPy: the twin of `_chain.pyx`, with the same bits.

The states are padded to a multiple of eight: rows of `width` numbers, which are 0 from `states` on.  The chains are concatenated; chain s
has the rows offsets[s] to offsets[s + 1] − 1, and none is empty.  Matrices are (states, width): the rows of `transition` are
p(next | state), and `column_transitions` is its transpose.  Sums over states run in order; chains are independent and computed together.
Numbers below 1e-290 become 0, so that none is subnormal; a chain in which a positive number became 0 is marked.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from herdcli.schema import Array

TINY = 1e-290


def _active_chains_by_step(offsets: Array, *, reverse: bool = False) -> Iterator[tuple[int, Array]]:
    """Yield (t, chains that have a step t) for all t; the longest chains come first."""
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    longest = int(lengths.max(initial=0))
    for t in reversed(range(longest)) if reverse else range(longest):
        yield t, order[: np.searchsorted(-lengths[order], -t, side="left")]


def _propagate_states(row: Array, matrix: Array) -> Array:
    """Return Σ_i row_i matrix_ij for rows (S, width)."""
    found = np.zeros((len(row), matrix.shape[1]))
    for i, line in enumerate(matrix):
        found += row[:, i : i + 1] * line
    return found


def _multiply_and_mask_underflow(before: Array, b: Array) -> tuple[Array, Array]:
    """Return the products, with those below TINY set to 0, and a mask of the rows in which a positive product became 0."""
    with np.errstate(invalid="ignore", over="ignore"):
        product = before * b
    large = product >= TINY
    gone: Array = np.any((before > 0) & (b > 0) & ~large, axis=1)
    return np.where(large, product, 0.0), gone


def _sum_states(rows: Array, states: int) -> Array:
    found = np.zeros(len(rows))
    for j in range(states):
        found += rows[:, j]
    return found


def _inverse_or_zero(scale: Array) -> Array:
    return np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)


def chain_forward(
    b: Array, offsets: Array, states: int, initial: Array, transition: Array, alpha: Array, scale: Array, lost: Array
) -> None:
    """Compute the filtered states alpha_t(j) ∝ b_t(j) Σ_i alpha_{t−1}(i) p(j | i) and their normalising sums.

    b            (m, width) p(row | state) up to a factor for each row.      initial  (width,).
    alpha        (m, width), output.      scale  (m,), output: the sums, 0 from the first impossible row on.
    lost         (S,) uint8, output: whether a positive number became 0.
    Source: Makin, eq. 2.37 and 2.38; Rabiner (1989), sec. V.A.
    """
    lost[...] = 0
    for t, chains in _active_chains_by_step(offsets):
        at = offsets[chains] + t
        before = np.broadcast_to(initial, (len(at), len(initial))) if t == 0 else _propagate_states(alpha[at - 1], transition)
        # Makin, 2.37 and 2.38: p(state | rows before) p(row | state), divided by its sum, p(row | rows before): log p(rows) = Σ log scale.
        row, gone = _multiply_and_mask_underflow(before, b[at])
        lost[chains] |= gone
        scale[at] = _sum_states(row, states)
        alpha[at] = row * _inverse_or_zero(scale[at])[:, None]


def chain_backward(
    b: Array, offsets: Array, states: int, backwards: Array, alpha: Array, scale: Array, weight: Array, pairs: Array, high: Array
) -> None:
    """Replace b by the smoothed states, and sum pairs of consecutive states over time, without the factor of the transition.

    With w_t(j) = b_t(j) beta_t(j) / scale_t:  beta_{t−1}(i) = Σ_j p(j | i) w_t(j),  p(i at t | all) = alpha_t(i) beta_t(i),  and
    p(i at t − 1, j at t | all) = alpha_{t−1}(i) p(j | i) w_t(j), of which alpha_{t−1}(i) w_t(j) is summed.

    weight  (S,) of the chains.      pairs  (states, width), to which weight times the sum of each chain is added in order.
    high    (S,) output: the largest beta, at least 1.  Numbers lost by the forward pass had posterior probabilities below 1e-290 · high.
    Source: Makin, eq. 2.39 and 2.40 (in the form with a backward pass); Rabiner (1989), eq. 92 to 95.
    """
    width, high[...] = b.shape[1], 1.0
    own = np.zeros((len(weight), states, width))
    beta = np.zeros((len(weight), width))
    beta[:, :states] = 1.0
    for t, chains in _active_chains_by_step(offsets, reverse=True):
        at = offsets[chains] + t
        here = beta[chains]
        if t > 0:
            with np.errstate(over="ignore", invalid="ignore"):
                # beta_t is p(rows after t | state) / p(rows after t | rows up to t), so alpha_t beta_t is the normalised
                # posterior.  Dividing by scale_t at each step keeps it normalised.
                w, _ = _multiply_and_mask_underflow(here * _inverse_or_zero(scale[at])[:, None], b[at])
                own[chains] += alpha[at - 1][:, :states, None] * w[:, None, :]
                beta[chains] = _propagate_states(w, backwards)
            high[chains] = np.fmax(high[chains], np.fmax.reduce(beta[chains], axis=1))
        with np.errstate(over="ignore", invalid="ignore"):
            b[at] = alpha[at] * here
    for one, factor in zip(own, weight, strict=True):
        if factor > 0:  # a chain of weight 0 may have overflowed
            pairs += factor * one


def chain_viterbi(logs: Array, offsets: Array, states: int, initial: Array, transition: Array, out: Array, value: Array) -> None:
    """Find the most probable path of every chain; among equal paths, the one with the lowest states, compared from the end.

    logs     (m, width) log p(row | state), −inf beyond the last state.      initial, transition  logarithms.
    out      (m,) int64, output.      value  (S,) output: the log of the joint probability of path and rows.
    Source: Viterbi (1967); Rabiner (1989), eq. 32 to 35.
    """
    now = np.full((len(offsets) - 1, logs.shape[1]), -np.inf)
    back = np.zeros(logs.shape, dtype=np.int32)
    for t, chains in _active_chains_by_step(offsets):
        at = offsets[chains] + t
        if t == 0:
            now[chains] = initial + logs[at]
            continue
        best = now[chains, :1] + transition[0]
        for i in range(1, states):
            through = now[chains, i : i + 1] + transition[i]
            better = through > best
            best[better] = through[better]
            back[at] = np.where(better, i, back[at])
        now[chains] = best + logs[at]
    state = now[:, :states].argmax(axis=1)
    value[...] = now[np.arange(len(state)), state]
    for t, chains in _active_chains_by_step(offsets, reverse=True):
        at = offsets[chains] + t
        out[at] = state[chains]
        if t > 0:
            state[chains] = back[at, state[chains]]


def chain_paths(alpha: Array, offsets: Array, states: int, backwards: Array, uniform: Array, out: Array) -> None:
    """Sample a path of every chain from its posterior: the last state by alpha, each earlier one by alpha_t(i) p(next | i).

    uniform  (m,) numbers in [0, 1), one for each row.      out  (m,) int64, output.
    Source: Makin, sec. 2.2 (the whole-sequence posterior); Chib (1996).
    """
    lengths = np.diff(offsets)
    for t, chains in _active_chains_by_step(offsets, reverse=True):
        at = offsets[chains] + t
        row = alpha[at].copy()
        inner = np.flatnonzero(lengths[chains] - 1 > t)
        row[inner] *= backwards[out[at[inner] + 1]]
        wanted = uniform[at] * _sum_states(row, states)
        running, found, going = np.zeros(len(at)), np.zeros(len(at), dtype=np.int64), np.ones(len(at), dtype=bool)
        for j in range(states):
            running += row[:, j]
            some = going & (row[:, j] > 0)
            found[some] = j
            going &= ~(some & (running > wanted))
        out[at] = found
