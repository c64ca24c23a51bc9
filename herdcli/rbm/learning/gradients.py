"""Gradients whose second phase is computed instead of sampled: pseudo-likelihood and likelihood; and corrections of any gradient.

Pseudo-likelihood (ICM):  Σ_j log p(v_j | v_−j), each term −F(v) − log Σ_s e^{−F(v with unit j at s)}, so that its gradient is
of −F at v minus the mean of those at the S alternatives.  Likelihood: the gradient of −F at v minus its mean under p(v),
computed by enumerating the smaller layer, or in closed form if both layers are Gaussian.
Source: Teh (2003), eq. 2.61 to 2.64; Welling, Rosen-Zvi & Hinton (2005), eq. 6.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from herdcli.errors import BadUsage
from herdcli.numerics import exact_arithmetic, symmetric_matrices
from herdcli.rbm.learning import missing_values
from herdcli.rbm.likelihood.enumeration import ENUMERABLE, has_gaussian_layers, iterate_hidden_states, joint_precision, log2_state_count
from herdcli.rbm.likelihood.row_likelihood import enumerate_unit_values
from herdcli.rbm.model import Harmonium
from herdcli.rbm.normalizability import require_normalisable
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.rbm.units.base import UnitFamily
from herdcli.records import dataclass
from herdcli.schema import Array

OUTER = 1 << 17  # entries of W that fit into the cache


@dataclass
class GradientStatistics:
    """Statistics of the rows minus those of the second phase: pairs W (D, K), visible b (D,), hidden c (K,) float32."""

    W: Array
    b: Array
    c: Array
    error: float  # summed squared reconstruction error of the rows
    hidden: Array  # (K,) mean of E[h | v] over the rows


@dataclass(frozen=True)
class ModelMoments:
    """The moments E[v h'] (D, K), E[v] (D,) and E[h] (K,) of a model, float64."""

    pairs: Array
    visible: Array
    hidden: Array


def model_moments(h: Harmonium) -> ModelMoments:
    """Compute the moments of a harmonium whose smaller layer can be enumerated or whose layers are Gaussian.

    Raises BadUsage if both layers have more than 2^20 states, DataError if the model has no finite Z.
    """
    require_normalisable(h)
    if has_gaussian_layers(h):
        D = len(h.b)
        covariance = symmetric_matrices.invert_positive_definite(joint_precision(h))
        # −½ v'v − ½ h'h + v'Wh + b·v + c·h is a Gaussian with the precision Λ of `joint_precision`, covariance Λ⁻¹ and mean Λ⁻¹(b, c).
        means = exact_arithmetic.matrix_product(covariance, np.concatenate([h.b, h.c]))
        return ModelMoments(covariance[:D, D:] + np.outer(means[:D], means[D:]), means[:D], means[D:])
    if min(log2_state_count(h.visible, h.W.shape[0]), log2_state_count(h.hidden, h.W.shape[1])) > ENUMERABLE:
        shape = f"this model has {h.W.shape[0]} visible and {h.W.shape[1]} hidden units"
        raise BadUsage(
            f"--algorithm exact needs a layer with at most 2^{ENUMERABLE} states, but {shape}",
            hint="use --algorithm pcd, which samples instead",
        )
    if log2_state_count(h.visible, h.W.shape[0]) < log2_state_count(h.hidden, h.W.shape[1]):
        turned = model_moments(h.transpose())
        return ModelMoments(turned.pairs.T, turned.hidden, turned.visible)
    pairs, visible, hidden, log_sum = np.zeros(h.W.shape), np.zeros(h.W.shape[0]), np.zeros(h.W.shape[1]), -np.inf
    for block in iterate_hidden_states(h):
        weight, states, means = block.log_weight, block.hidden, h.visible.mean(block.natural)
        before, log_sum = log_sum, float(exact_arithmetic.log_add_exp(log_sum, exact_arithmetic.log_sum_exp(weight)))
        # Σ_h e^{−E} over visible states is the weight of a hidden state.  With running shares of the sum so far, the means of all blocks
        # are obtained as averages, and no e^{weight} is computed.
        kept, p = (
            exact_arithmetic.exp(before - log_sum),
            exact_arithmetic.exp(weight - log_sum),
        )  # shares of all earlier states, and of each state in this block
        pairs = kept * pairs + exact_arithmetic.matrix_product((means * p[:, None]).T, states)
        visible, hidden = (
            kept * visible + exact_arithmetic.matrix_product(p, means),
            kept * hidden + exact_arithmetic.matrix_product(p, states),
        )
    return ModelMoments(pairs, visible, hidden)


def _data_moments(h: Harmonium, rows: Array) -> tuple[ModelMoments, float]:
    """Compute the moments of rows (n, D) with E[h | v], and their squared distance from E[v | E[h | v]] summed over rows."""
    hidden = h.hidden_means(rows)
    error = float(np.square(rows - h.visible_means(hidden)).sum())
    return ModelMoments(exact_arithmetic.matrix_product(rows.T, hidden) / len(rows), rows.mean(axis=0), hidden.mean(axis=0)), error


def _subtract_model_moments(data_moments: ModelMoments, model_moments: ModelMoments, error: float) -> GradientStatistics:
    # log P(v) = b·v + Σ_k A(c_k + W_k·v) + log h(v) − log Z.  A' is the mean of h_k, and the derivatives of log Z are the model's moments:
    # ∂/∂W = E_data[v E[h|v]'] − E_model[v h'], and likewise for b and c.  With one sweep from the data in place of the model this is
    # contrastive divergence: Teh (2003), eq. 3.4, where the third term of eq. 2.61 is left out.
    W, b, c = (
        data_moments.pairs - model_moments.pairs,
        data_moments.visible - model_moments.visible,
        data_moments.hidden - model_moments.hidden,
    )
    return _make_gradient_statistics(W, b, c, error, data_moments.hidden)


def _make_gradient_statistics(W: Array, b: Array, c: Array, error: float, hidden: Array) -> GradientStatistics:
    W, b, c, hidden = (np.ascontiguousarray(part, dtype=np.float32) for part in (W, b, c, hidden))
    return GradientStatistics(W, b, c, error, hidden)


def exact_likelihood_gradient(
    sweeper: GibbsSweeper, visible: UnitFamily, hidden: UnitFamily, rows: Array, is_known: Array | None = None
) -> GradientStatistics:
    """Compute the gradient of the mean log-likelihood of rows (n, D), or of their known entries (n, D) if some are missing."""
    h = _as_harmonium(sweeper, visible, hidden)
    if is_known is not None and not is_known.all() and missing_values.can_enumerate_hidden(h):
        first = ModelMoments(*missing_values.moments_given_known_entries(h, rows.astype(np.float64), is_known))
        return _subtract_model_moments(first, model_moments(h), _data_moments(h, rows.astype(np.float64))[1])
    first, error = _data_moments(h, rows.astype(np.float64))
    return _subtract_model_moments(first, model_moments(h), error)


def pseudo_likelihood_gradient(sweeper: GibbsSweeper, visible: UnitFamily, hidden: UnitFamily, rows: Array) -> GradientStatistics:
    """Compute the gradient of the mean log pseudo-likelihood of rows (n, D)."""
    h, v = _as_harmonium(sweeper, visible, hidden), visible.round_to_states(rows.astype(np.float64))
    first, error = _data_moments(h, v)
    n, units = len(v), visible.count_units(h.W.shape[0])
    W, b, hidden_sum = units * first.pairs, np.zeros(len(h.b)), np.zeros((n, len(h.c)))
    for unit, others in enumerate(enumerate_unit_values(h, v)):
        columns, support = visible.unit_columns(unit), visible.unit_values(unit)
        # ∂/∂θ log p(v_j | v_−j) = ∂(−F(v)) − E_{s ~ p(· | v_−j)} ∂(−F(v with unit j at s)) (Teh 2003, eq. 2.64): the
        # number of units times the derivative at the rows, minus its mean over rows with one unit replaced.
        p = exact_arithmetic.exp(others.log_weight - exact_arithmetic.log_sum_exp(others.log_weight, axis=0))
        weighted = p[:, :, None] * h.hidden.mean(others.inputs)
        hidden_sum += weighted.sum(axis=0)
        # In the unit's own columns v is replaced by the alternatives; all other columns keep it, and are added below in one product.
        W[columns] += (
            exact_arithmetic.matrix_product(v[:, columns].T, weighted.sum(axis=0)) / n - np.einsum("sg,snk->gk", support, weighted) / n
        )
        b[columns] = (v[:, columns] - exact_arithmetic.matrix_product(p.T, support)).mean(axis=0)
    W -= exact_arithmetic.matrix_product(v.T, hidden_sum) / n
    c = units * first.hidden - hidden_sum.mean(axis=0)
    return _make_gradient_statistics(W, b, c, error, first.hidden)


def _as_harmonium(sweeper: GibbsSweeper, visible: UnitFamily, hidden: UnitFamily) -> Harmonium:
    W, b, c = (part.astype(np.float64) for part in (sweeper.W, sweeper.b, sweeper.c))
    return Harmonium(W, b, c, visible, hidden)


EXACT_PHASES: dict[str, Callable[[GibbsSweeper, UnitFamily, UnitFamily, Array], GradientStatistics]] = {
    "exact": exact_likelihood_gradient,
    "pseudo-likelihood": pseudo_likelihood_gradient,
}


def subtract_matrix_product(W: Array, left: Array, right: Array) -> None:
    """Subtract left right (D, K) from W for left (D, r) and right (r, K), in place, in blocks of rows that stay in the cache."""
    step = max(1, OUTER // W.shape[1])
    for start in range(0, len(W), step):
        rows = W[start : start + step]
        rows -= exact_arithmetic.matrix_product(left[start : start + step], right)


def uncentre_gradient(W: Array, b: Array, c: Array, visible_mean: Array, hidden_mean: Array, *, visible_share: float = 1.0) -> Array:
    """Convert the gradient of the centred model, with units v − μ and h − λ, to that of this model: for some visible units, in place.

    G_W ← G_W − G_b λ' − μ G_c',  G_b ← G_b − s G_W λ,  G_c ← G_c − t G_W' μ, so that biases compensate for the change of W at the means.
    W, b, visible_mean  (d, K), (d,) of those units.  c, hidden_mean  (K,); c is unchanged: its correction, to be scaled by t, is returned,
    G_W' μ (K,).
    visible_share  s, the ratio of the weights' rate to that of the visible biases.
    Source: Montavon & Mueller (2012); Melchior, Fischer & Wiskott (2016), sec. 3.
    """
    # With v − μ and h − λ in the energy the weights' slope is E[(v − μ)(h − λ)'] = G_W − G_b λ' − μ G_c' (μλ' is in both phases and
    # cancels). The biases of the usual form are b − Wλ and c − W'μ, and follow a change of W.
    subtract_matrix_product(W, np.column_stack((b, visible_mean)), np.stack((hidden_mean, c)))
    b -= np.float32(visible_share) * exact_arithmetic.matrix_product(W, hidden_mean)
    return exact_arithmetic.matrix_product(visible_mean, W)
