"""Chains of hidden states: filtering, smoothing, most probable paths and sampled paths, for any emissions.

    filter     α_t(j) = p(j | y_≤t) ∝ b_t(j) Σ_i α_{t−1}(i) A_ij,   b_t(j) = p(y_t | j),   log p(y) = Σ_t log of the normalisers
    smoother   γ_t(i) = p(i | y),   ξ_t(i, j) = p(i at t − 1, j at t | y) = α_{t−1}(i) A_ij b_t(j) β_t(j) / scale_t

A_ij = p(next = j | now = i): rows sum to 1 (the source's matrix is the transpose).  The likelihoods of a row are divided by their largest,
and α by its sum.  A number that underflows to 0 matters only if all other paths turn out to be as unlikely: its posterior is its value
times β.  Where β is large enough for that, or no path is left, the chain is computed again in logarithms.
Source: Makin, sec. 2.2.1 (eq. 2.37 to 2.41); Rabiner (1989).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from herdcli import fast
from herdcli.errors import DataError
from herdcli.numerics.row_selection import iterate_row_slices
from herdcli.records import dataclass
from herdcli.schema import Array

EIGHT = 8  # states are padded to a multiple of this
LEAST = 1e-100  # a transition below it counts as zero, for numbers that underflow at 1e-290
HARMLESS = 1e250  # lost numbers are harmless up to this β: their posterior probabilities are below 1e-290 times the largest β
LOWEST = -690.0  # least log-likelihood relative to the largest of a row; a true 0 stays 0


@dataclass(frozen=True)
class ScaledLikelihoods:
    """Likelihoods of rows: p(y_t | j) = b_tj exp(shift_t).

    b     (m, width) at most 1, 0 beyond the last state.      shift  (m,).
    logs  a function from row indices to log p(y | j) (r, K), for chains that are computed again.
    """

    b: Array
    shift: Array
    logs: Callable[[Array], Array]


@dataclass(frozen=True)
class SmoothedChain:
    """The results of the forward and backward passes.

    filtered, smoothed  (m, width), 0 beyond the last state.      pairs  (K, K) Σ of weighted ξ over time and chains.
    log_likelihood      (S,) of the chains, without their weights.
    """

    filtered: Array
    smoothed: Array
    pairs: Array
    log_likelihood: Array


@dataclass(frozen=True)
class HiddenChain:
    """A Markov chain: initial probabilities (K,) and transitions (K, K) with rows of probabilities."""

    initial: Array
    transition: Array

    @property
    def states(self) -> int:
        """The number of states, K."""
        return len(self.initial)

    @property
    def width(self) -> int:
        """The padded number of states, a multiple of eight."""
        return padded_width(self.states)

    @cached_property
    def first(self) -> Array:
        """The initial probabilities, padded (width,)."""
        return pad_rows(self.initial[None], self.width).ravel()

    @cached_property
    def row_transitions(self) -> Array:
        """The transitions, padded along rows (K, width)."""
        return pad_rows(self.transition, self.width)

    @cached_property
    def column_transitions(self) -> Array:
        """The transposed transitions, padded (K, width)."""
        return pad_rows(self.transition.T, self.width)

    @cached_property
    def has_tiny_transitions(self) -> bool:
        """Whether some transitions are so small that a number that underflowed may matter."""
        return bool(min(self.transition.min(), self.initial.min()) < LEAST)

    @property
    def logs(self) -> tuple[Array, Array]:
        """The logarithms of initial probabilities and transitions."""
        with np.errstate(divide="ignore"):
            return np.log(self.initial), np.log(self.transition)


def padded_width(states: int) -> int:
    """Return the number of states rounded up to a multiple of eight."""
    return -(-states // EIGHT) * EIGHT


def pad_rows(rows: Array, columns: int) -> Array:
    """Return rows (r, K) padded with zeros to this number of columns."""
    found = np.zeros((len(rows), columns))
    found[:, : rows.shape[1]] = rows
    return found


def scale_likelihoods(logs: Array) -> ScaledLikelihoods:
    """Return scaled likelihoods from log-likelihoods (m, K)."""
    top = logs.max(axis=1)
    top[np.isneginf(top)] = 0.0
    b = np.zeros((len(logs), padded_width(logs.shape[1])))
    for rows in iterate_row_slices(b):  # signals are handled between them
        own, inner = logs[rows], b[rows, : logs.shape[1]]
        np.subtract(own, top[rows, None], out=inner)
        np.maximum(inner, LOWEST, out=inner)
        np.exp(inner, out=inner)
        inner[np.isneginf(own)] = 0.0
    return ScaledLikelihoods(b, top, lambda rows: logs[rows])


def filter_states(chain: HiddenChain, rows: ScaledLikelihoods, offsets: Array) -> tuple[Array, Array]:
    """Return p(state at t | rows up to t) (m, width) and log-likelihoods (S,), −inf for a chain with an impossible row."""
    alpha, _, found, lost = _forward_pass(chain, rows, offsets)
    for s in np.flatnonzero(np.isneginf(found) | (lost & chain.has_tiny_transitions)):
        part = np.arange(offsets[s], offsets[s + 1])
        log_alpha, found[s] = forward_log_pass(chain, rows.logs(part))
        alpha[part, : chain.states] = _normalise_logs(log_alpha)
    return alpha, found


def _forward_pass(chain: HiddenChain, rows: ScaledLikelihoods, offsets: Array) -> tuple[Array, Array, Array, Array]:
    """Return filtered states, scales, log-likelihoods (S,), and whether each chain has a number that underflowed (S,)."""
    m, S = len(rows.b), len(offsets) - 1
    alpha, scale, lost = np.empty((m, chain.width)), np.empty(m), np.empty(S, dtype=np.uint8)
    fast.chain_forward(rows.b, offsets, chain.states, chain.first, chain.row_transitions, alpha, scale, lost)
    with np.errstate(divide="ignore"):
        found = np.add.reduceat(np.log(scale) + rows.shift, offsets[:-1])
    return alpha, scale, found, lost.astype(bool)


def row_log_likelihoods(chain: HiddenChain, rows: ScaledLikelihoods, offsets: Array) -> Array:
    """Return log p(row | earlier rows of its chain) (m,), −inf from an impossible row onwards."""
    _, scale, found, lost = _forward_pass(chain, rows, offsets)
    with np.errstate(divide="ignore"):
        each = np.log(scale) + rows.shift
    for s in np.flatnonzero(np.isneginf(found) | (lost & chain.has_tiny_transitions)):
        part = np.arange(offsets[s], offsets[s + 1])
        each[part] = row_log_likelihoods_in_logs(chain, rows.logs(part))
    return np.asarray(each)


def smooth_states(chain: HiddenChain, rows: ScaledLikelihoods, offsets: Array, weight: Array | None = None) -> SmoothedChain:
    """Run the forward and backward passes over chains; `rows.b` is overwritten.

    weight  (S,) of the chains in `pairs`.      Raises DataError if a row is impossible.
    """
    w = np.ones(len(offsets) - 1) if weight is None else np.ascontiguousarray(weight, dtype=np.float64)
    alpha, scale, found, lost = _forward_pass(chain, rows, offsets)
    broken = np.isneginf(found)
    gamma, pairs, high = rows.b, np.zeros((chain.states, chain.width)), np.empty(len(w))
    kept = _copy_rows(gamma) if lost.any() else gamma
    fast.chain_backward(gamma, offsets, chain.states, chain.column_transitions, alpha, scale, np.where(broken, 0.0, w), pairs, high)
    again = broken | (lost & ~(high < HARMLESS))
    if (again & ~broken).any():  # rare: the pairs of these chains must not be counted
        gamma[...], pairs[...] = kept, 0.0
        fast.chain_backward(gamma, offsets, chain.states, chain.column_transitions, alpha, scale, np.where(again, 0.0, w), pairs, high)
    # Σ_t ξ_t(i, j) = A_ij Σ_t α_{t−1}(i) b_t(j) β_t(j)/scale_t: the factor A does not depend on t and is applied at the end.
    total = pairs[:, : chain.states] * chain.transition
    for s in np.flatnonzero(again):
        part = np.arange(offsets[s], offsets[s + 1])
        own = smooth_states_in_logs(chain, rows.logs(part), int(offsets[s]))
        alpha[part, : chain.states], gamma[part, : chain.states], found[s] = own.filtered, own.smoothed, own.log_likelihood[0]
        total += w[s] * own.pairs
    return SmoothedChain(alpha, gamma, total, found)


def _copy_rows(rows: Array) -> Array:
    """Return a copy of rows (m, width), made in blocks, so that a signal can end it."""
    found = np.empty_like(rows)
    for part in iterate_row_slices(rows):
        found[part] = rows[part]
    return found


def forward_log_pass(chain: HiddenChain, logs: Array) -> tuple[Array, float]:
    """Return log α (T, K), normalised at each step, and the log-likelihood of one chain; −inf from an impossible row onwards."""
    alpha, scales = _scaled_forward_log_pass(chain, logs)
    return alpha, float(np.cumsum(scales)[-1])  # summed in sequence


def row_log_likelihoods_in_logs(chain: HiddenChain, logs: Array) -> Array:
    """Return log p(row | earlier rows) (T,) of one chain."""
    return _scaled_forward_log_pass(chain, logs)[1]


def _scaled_forward_log_pass(chain: HiddenChain, logs: Array) -> tuple[Array, Array]:
    """Return log α (T, K) and the logarithms of the scales (T,), −inf from an impossible row onwards."""
    first, transition = chain.logs
    alpha, scales = np.full(logs.shape, -np.inf), np.full(len(logs), -np.inf)
    for t, own in enumerate(logs):
        # α_t(j) ∝ b_t(j) Σ_i α_{t−1}(i) A_ij (Makin, eq. 2.37 and 2.38); its sum is p(y_t | y_<t), and their logarithms add up to log p(y)
        # (eq. 2.41).
        row = own + (first if t == 0 else log_sum_exp(alpha[t - 1][:, None] + transition, axis=0))
        scale = float(log_sum_exp(row, axis=0))
        if np.isneginf(scale):
            break
        alpha[t], scales[t] = row - scale, scale
    return alpha, scales


def smooth_states_in_logs(chain: HiddenChain, logs: Array, first_row: int = 0) -> SmoothedChain:
    """Run both passes over one chain of log-likelihoods (T, K) in logarithms, which is slower and never underflows.

    first_row  index of its first row, for the message.
    """
    log_alpha, found = forward_log_pass(chain, logs)
    if np.isneginf(found):
        step = int(np.isneginf(log_alpha).all(axis=1).argmax())
        raise ImpossibleRow(first_row + step)
    _, transition = chain.logs
    beta, pairs = np.zeros(logs.shape[1]), np.zeros_like(transition)
    gamma = np.empty_like(logs)
    for t in range(len(logs) - 1, -1, -1):
        gamma[t] = _normalise_logs((log_alpha[t] + beta)[None])[0]
        if t > 0:
            # β_{t−1}(i) = Σ_j A_ij b_t(j) β_t(j), and ξ_t(i, j) ∝ α_{t−1}(i) A_ij b_t(j) β_t(j) (Rabiner 1989, eq. 25 and 37).  γ and ξ are
            # normalised anyway, so β may be scaled freely.  The source's form divides by α_t instead, which is 0/0 where a state is
            # impossible.
            ahead = transition + (logs[t] + beta)
            joint = log_alpha[t - 1][:, None] + ahead
            pairs += np.exp(joint - log_sum_exp(joint.ravel(), axis=0))
            beta = log_sum_exp(ahead, axis=1)
            beta -= beta.max()
    return SmoothedChain(_normalise_logs(log_alpha), gamma, pairs, np.array([found]))


class ImpossibleRow(DataError):
    """The error for a row that no reachable state can emit.  row  its index among the given rows."""

    def __init__(self, row: int) -> None:
        super().__init__(f"row {row} is impossible in every state that can be reached there")
        self.row = row


def log_sum_exp(a: Array, axis: int) -> Array:
    """Return log Σ exp along an axis; −inf where all entries are −inf."""
    top = a.max(axis=axis, keepdims=True)
    top = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        found: Array = np.log(np.exp(a - top).sum(axis=axis)) + top.squeeze(axis=axis)
    return found


def _normalise_logs(logs: Array) -> Array:
    """Return rows of probabilities from their logarithms (m, K) up to a constant; zeros where all are −inf."""
    top = logs.max(axis=1, keepdims=True)
    p = np.exp(logs - np.where(np.isneginf(top), 0.0, top))
    total = p.sum(axis=1, keepdims=True)
    found: Array = np.divide(p, total, out=np.zeros_like(p), where=total > 0)
    return found


def predict_states(chain: HiddenChain, alpha: Array, offsets: Array) -> Array:
    """Return p(state at t | rows before t) (m, K) from filtered states (m, width).

    The first row of a chain has the initial probabilities.
    """
    K = chain.states
    found = np.empty((len(alpha), K))
    found[1:] = alpha[:-1, :K] @ chain.transition
    found[offsets[:-1]] = chain.initial
    return found


def viterbi_paths(chain: HiddenChain, logs: Array, offsets: Array) -> tuple[Array, Array]:
    """Return the most probable paths (m,) of chains with log-likelihoods (m, K), and their joint log probabilities with the rows (S,)."""
    K, columns = chain.states, chain.width
    first, transition = chain.logs
    rows = np.full((len(logs), columns), -np.inf)
    rows[:, :K] = logs
    steps, start = np.full((K, columns), -np.inf), np.full(columns, -np.inf)
    steps[:, :K], start[:K] = transition, first
    path, value = np.empty(len(logs), dtype=np.int64), np.empty(len(offsets) - 1)
    fast.chain_viterbi(rows, offsets, K, start, steps, path, value)
    if np.isneginf(value).any():
        smooth_states_in_logs(chain, logs[offsets[s := int(np.isneginf(value).argmax())] : offsets[s + 1]], int(offsets[s]))
    return path, value


def sample_paths(chain: HiddenChain, alpha: Array, offsets: Array, uniform: Array) -> Array:
    """Sample a path of each chain from its posterior, (m,), given filtered states (m, width) and uniform numbers (m,)."""
    found = np.empty(len(alpha), dtype=np.int64)
    fast.chain_paths(alpha, offsets, chain.states, chain.column_transitions, uniform, found)
    return found
