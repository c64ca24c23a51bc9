"""Gradients whose second phase is computed, not sampled: pseudo-likelihood and likelihood; and what is added to any gradient.

Pseudo-likelihood (ICM):  Σ_j log p(v_j | v_−j), each term −F(v) − log Σ_s e^{−F(v with unit j at s)}, so that its gradient is
that of −F at v minus the mean of those at the S alternatives.  Likelihood: the gradient of −F at v minus its mean under p(v),
by enumerating the smaller layer, or in closed form where both layers are Gaussian.
Source: Teh (2003), eq. 2.61 to 2.64; Welling, Rosen-Zvi & Hinton (2005), eq. 6.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from herdcli.errors import BadUsage
from herdcli.numerics import linear, real
from herdcli.rbm import gaps
from herdcli.rbm.enumeration import ENUMERABLE, enumerate_hidden, is_gaussian, precision, states_of
from herdcli.rbm.gibbs import Sweeper
from herdcli.rbm.likelihood import alternatives
from herdcli.rbm.model import Harmonium
from herdcli.rbm.proper import require_proper
from herdcli.rbm.units.base import Family
from herdcli.records import dataclass
from herdcli.schema import Array

OUTER = 1 << 17  # numbers


@dataclass
class Sums:
    """Statistics of the rows minus those of the second phase: pairs (D, K), visible (D,), hidden (K,) float32."""

    W: Array
    b: Array
    c: Array
    error: float  # summed squared reconstruction error of the rows
    hidden: Array  # (K,) mean of E[h | v] over the rows


@dataclass(frozen=True)
class Moments:
    """E[v h'] (D, K), E[v] (D,) and E[h] (K,) of a model, float64."""

    pairs: Array
    visible: Array
    hidden: Array


def model_moments(h: Harmonium) -> Moments:
    """The moments of a harmonium whose smaller layer can be enumerated or whose layers are Gaussian.

    Raises BadUsage if both layers have more than 2^20 states, DataError if the model has no finite Z.
    """
    require_proper(h)
    if is_gaussian(h):
        D = len(h.b)
        covariance = linear.inverse(precision(h))
        # −½ v'v − ½ h'h + v'Wh + b·v + c·h is a Gaussian with the precision Λ of `precision`, covariance Λ⁻¹ and mean Λ⁻¹(b, c).
        means = real.product(covariance, np.concatenate([h.b, h.c]))
        return Moments(covariance[:D, D:] + np.outer(means[:D], means[D:]), means[:D], means[D:])
    if min(states_of(h.visible, h.W.shape[0]), states_of(h.hidden, h.W.shape[1])) > ENUMERABLE:
        shape = f"this model is {h.W.shape[0]} × {h.W.shape[1]}"
        raise BadUsage(
            f"the exact gradient enumerates a layer of at most 2^{ENUMERABLE} states; {shape}", hint="--algorithm pcd samples it"
        )
    if states_of(h.visible, h.W.shape[0]) < states_of(h.hidden, h.W.shape[1]):
        turned = model_moments(h.transposed())
        return Moments(turned.pairs.T, turned.hidden, turned.visible)
    pairs, visible, hidden, log_sum = np.zeros(h.W.shape), np.zeros(h.W.shape[0]), np.zeros(h.W.shape[1]), -np.inf
    for block in enumerate_hidden(h):
        weight, states, means = block.log_weight, block.hidden, h.visible.mean(block.natural)
        before, log_sum = log_sum, float(real.log_add_exp(log_sum, real.log_sum_exp(weight)))
        # Σ_h e^{−E} over visible states is the weight of a hidden state; with running shares of the sum so far the means of all blocks come
        # out as averages, and no e^{weight} is ever formed.
        kept, p = real.exp(before - log_sum), real.exp(weight - log_sum)  # shares of the states so far, and of each state here
        pairs = kept * pairs + real.product((means * p[:, None]).T, states)
        visible, hidden = kept * visible + real.product(p, means), kept * hidden + real.product(p, states)
    return Moments(pairs, visible, hidden)


def _first_phase(h: Harmonium, rows: Array) -> tuple[Moments, float]:
    """Moments of rows (n, D) with E[h | v], and their squared distance from E[v | E[h | v]] summed over rows."""
    hidden = h.hidden_means(rows)
    error = float(np.square(rows - h.visible_means(hidden)).sum())
    return Moments(real.product(rows.T, hidden) / len(rows), rows.mean(axis=0), hidden.mean(axis=0)), error


def _difference(first: Moments, second: Moments, error: float) -> Sums:
    # log P(v) = b·v + Σ_k A(c_k + W_k·v) + log h(v) − log Z.  A' is the mean of h_k, and the derivatives of log Z are the model's moments:
    # ∂/∂W = E_data[v E[h|v]'] − E_model[v h'], and likewise b and c.  One sweep from the data in the place of the model is contrastive
    # divergence: Teh (2003), eq. 3.4, where the third term of eq. 2.61 is left out.
    W, b, c = first.pairs - second.pairs, first.visible - second.visible, first.hidden - second.hidden
    return _sums(W, b, c, error, first.hidden)


def _sums(W: Array, b: Array, c: Array, error: float, hidden: Array) -> Sums:
    W, b, c, hidden = (np.ascontiguousarray(part, dtype=np.float32) for part in (W, b, c, hidden))
    return Sums(W, b, c, error, hidden)


def exact(sweeper: Sweeper, visible: Family, hidden: Family, rows: Array, known: Array | None = None) -> Sums:
    """The gradient of the mean log-likelihood of rows (n, D); of the entries that are known (n, D), where some are not."""
    h = _harmonium(sweeper, visible, hidden)
    if known is not None and not known.all() and gaps.is_summed(h):
        first = Moments(*gaps.moments(h, rows.astype(np.float64), known))
        return _difference(first, model_moments(h), _first_phase(h, rows.astype(np.float64))[1])
    first, error = _first_phase(h, rows.astype(np.float64))
    return _difference(first, model_moments(h), error)


def pseudo(sweeper: Sweeper, visible: Family, hidden: Family, rows: Array) -> Sums:
    """The gradient of the mean log pseudo-likelihood of rows (n, D)."""
    h, v = _harmonium(sweeper, visible, hidden), visible.discrete(rows.astype(np.float64))
    first, error = _first_phase(h, v)
    n, units = len(v), h.W.shape[0] // visible.group
    assert visible.support is not None
    W, b, hidden_sum = units * first.pairs, np.zeros(len(h.b)), np.zeros((n, len(h.c)))
    for unit, others in enumerate(alternatives(h, v)):
        columns = slice(unit * visible.group, (unit + 1) * visible.group)
        # ∂/∂θ log p(v_j | v_−j) = ∂(−F(v)) − E_{s ~ p(· | v_−j)} ∂(−F(v with unit j at s)) (Teh 2003, eq. 2.64): J times the slope at the
        # rows, less that at rows with one unit drawn anew.
        p = real.exp(others.log_weight - real.log_sum_exp(others.log_weight, axis=0))
        weighted = p[:, :, None] * h.hidden.mean(others.inputs)
        hidden_sum += weighted.sum(axis=0)
        # In the rows' own columns v is replaced by the alternatives; all other columns keep it, and follow below at once.
        W[columns] += real.product(v[:, columns].T, weighted.sum(axis=0)) / n - np.einsum("sg,snk->gk", visible.support, weighted) / n
        b[columns] = (v[:, columns] - real.product(p.T, visible.support)).mean(axis=0)
    W -= real.product(v.T, hidden_sum) / n
    c = units * first.hidden - hidden_sum.mean(axis=0)
    return _sums(W, b, c, error, first.hidden)


def _harmonium(sweeper: Sweeper, visible: Family, hidden: Family) -> Harmonium:
    W, b, c = (part.astype(np.float64) for part in (sweeper.W, sweeper.b, sweeper.c))
    return Harmonium(W, b, c, visible, hidden)


EXACT_PHASES: dict[str, Callable[[Sweeper, Family, Family, Array], Sums]] = {"exact": exact, "pseudo-likelihood": pseudo}


def subtract_outer(W: Array, left: Array, right: Array) -> None:
    """W ← W − left right (D, K) for left (D, r) and right (r, K), in place, as many rows at one time as stay in the cache."""
    step = max(1, OUTER // W.shape[1])
    for start in range(0, len(W), step):
        rows = W[start : start + step]
        rows -= real.product(left[start : start + step], right)


def centre_pairs(W: Array, b: Array, c: Array, visible_mean: Array, hidden_mean: Array, *, visible_share: float = 1.0) -> Array:
    """The gradient of a model whose units enter as v − μ and h − λ, carried back to this one: of some visible units, in place.

    G_W ← G_W − G_b λ' − μ G_c',  G_b ← G_b − s G_W λ,  G_c ← G_c − t G_W' μ, so that biases take back what a change of W adds at the means.
    W, b, visible_mean  (d, K), (d,) of those units.  c, hidden_mean  (K,); c stays: what follows by t is returned, G_W' μ (K,).
    visible_share  s, the weights' rate over that of the visible biases.
    Source: Montavon & Mueller (2012); Melchior, Fischer & Wiskott (2016), sec. 3.
    """
    # With v − μ and h − λ in the energy the weights' slope is E[(v − μ)(h − λ)'] = G_W − G_b λ' − μ G_c' (μλ' is in both phases and
    # cancels). The biases of the usual form are b − Wλ and c − W'μ, and follow a change of W.
    subtract_outer(W, np.column_stack((b, visible_mean)), np.stack((hidden_mean, c)))
    b -= np.float32(visible_share) * real.product(W, hidden_mean)
    return real.product(visible_mean, W)
