"""The classification RBM, a harmonium of rows with their labels: the label's distribution and its discriminative gradient.

The label is one more visible unit, softmax of C columns with weights U (C, K) and biases d (C,).  Given a row v it is distributed as

    p(y | v) ∝ exp(d_y + Σ_k A(c_k + U_yk + (W'v)_k)),

The sum over hidden states has a closed form, so that log p(y | v) and its derivatives are exact and nothing is sampled.
Source: Larochelle & Bengio (2008), eq. 2 to 5; Larochelle, Mandel, Pascanu & Bengio (2012), sec. 5, for hybrid learning.
"""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Map
from herdcli.numerics import exact_arithmetic
from herdcli.rbm.learning.gradients import GradientStatistics
from herdcli.rbm.likelihood.row_likelihood import row_blocks
from herdcli.rbm.model import Harmonium
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.rbm.units.base import UnitFamily
from herdcli.schema import Array


def append_one_hot_labels(X: Array, y: Array, classes: int) -> Array:
    """Return rows (n, D + C): the rows X (n, D) with their labels y (n,) as one-hot columns."""
    shown = np.zeros((len(y), classes), dtype=X.dtype)
    shown[np.arange(len(y)), y] = 1
    return np.concatenate([X, shown], axis=1)


def _hidden_inputs_by_label(h: Harmonium, v: Array, classes: int) -> Array:
    """Compute the hidden inputs (C, n, K) of rows v (n, D) with each label in turn."""
    found: Array = (exact_arithmetic.matrix_product(v, h.W[:-classes]) + h.c)[None] + h.W[-classes:, None]
    return found


def _joint_log_weights(h: Harmonium, inputs: Array) -> Array:
    """Compute log p(v, y) (C, n) up to a term that does not depend on y."""
    C = len(inputs)
    return h.b[-C:, None] + h.hidden.summed_log_partition(inputs.copy())


def label_count(h: Harmonium) -> int:
    """Return the number C of labels of a model of rows with labels."""
    assert h.visible.labels is not None
    return h.visible.labels.group


def label_log_posterior(h: Harmonium, v: Array, *, map: Map = map) -> Array:
    """Compute log p(y | v) (n, C) of rows v (n, D) without labels."""
    C = label_count(h)

    def block(part: slice) -> Array:
        joint = _joint_log_weights(h, _hidden_inputs_by_label(h, np.asarray(v[part], dtype=np.float64), C))
        result: Array = (joint - exact_arithmetic.log_sum_exp(joint, axis=0)).T
        return result

    parts = list(map(block, row_blocks(len(v), h.W.shape[1] * C)))
    return np.concatenate([np.empty((0, C)), *parts])


def label_marginalised_features(h: Harmonium, v: Array, *, map: Map = map) -> Array:
    """Compute E[h | v] (n, K) of rows v (n, D) without labels: the means given each label, weighted by its probability."""
    C = label_count(h)

    def block(part: slice) -> Array:
        inputs = _hidden_inputs_by_label(h, np.asarray(v[part], dtype=np.float64), C)
        joint = _joint_log_weights(h, inputs)
        p = exact_arithmetic.exp(joint - exact_arithmetic.log_sum_exp(joint, axis=0))
        result: Array = (p[:, :, None] * h.hidden.mean(inputs)).sum(axis=0)
        return result

    parts = list(map(block, row_blocks(len(v), h.W.shape[1] * C)))
    return np.concatenate([np.empty((0, h.W.shape[1])), *parts])


def discriminative_gradient(sweeper: GibbsSweeper, visible: UnitFamily, hidden: UnitFamily, rows: Array) -> GradientStatistics:
    """Compute the gradient of the mean log p(y | v) of rows with labels (n, D + C)."""
    W, b, c = (part.astype(np.float64) for part in (sweeper.W, sweeper.b, sweeper.c))
    h, joined = Harmonium(W, b, c, visible, hidden), rows.astype(np.float64)
    C, n = label_count(h), len(rows)
    v, shown = joined[:, :-C], joined[:, -C:]
    inputs = _hidden_inputs_by_label(h, v, C)
    joint = _joint_log_weights(h, inputs)
    p, means = exact_arithmetic.exp(joint - exact_arithmetic.log_sum_exp(joint, axis=0)), hidden.mean(inputs)
    # ∂ log p(y | v) = ∂ log p(v, y) − Σ_s p(s | v) ∂ log p(v, s).  Along c, ∂ log p(v, s) is E[h | v, s]; along W it is v times that, along
    # U_s that itself, along d_s 1.  Visible biases of the columns cancel between the two terms.
    excess = shown.T[:, :, None] * means - p[:, :, None] * means
    summed = excess.sum(axis=0)
    slope_W = np.concatenate([exact_arithmetic.matrix_product(v.T, summed), excess.sum(axis=1)]) / n
    slope_b = np.concatenate([np.zeros(v.shape[1]), (shown - p.T).mean(axis=0)])
    own = (shown.T[:, :, None] * means).sum(axis=0)
    parts = (slope_W, slope_b, summed.mean(axis=0), own.mean(axis=0))
    W32, b32, c32, mean = (np.ascontiguousarray(part, dtype=np.float32) for part in parts)
    return GradientStatistics(W32, b32, c32, float(np.square(shown - p.T).sum()), mean)
