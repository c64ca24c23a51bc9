"""The free energy of Thouless, Anderson and Palmer (TAP): an expansion of log Z of a harmonium in its weights, without sampling.

The means m of all units minimise the free energy at fixed means.  To third order in W, with the units' variances κ
and third cumulants κ₃ as functions of their means (natural exponential families: κ(m) = α + β m + γ m²),

    log Z ≈ S(m_v) + S(m_h) + b·m_v + c·m_h + m_v'W m_h + ½ κ_v'W² κ_h + ⅙ κ₃_v'W³ κ₃_h,    S(m) = A(a) − a m,  A'(a) = m,

with elementwise powers of W.  At a fixed point m the derivatives along W are those of the last three terms alone.
Sources: Plefka (1982); Gabrié, Tramel & Krzakala (2015), eq. 8 to 14, for binary units; Tramel et al. (2018), for others.
"""

from __future__ import annotations

import numpy as np

from herdcli.numerics import exact_arithmetic
from herdcli.rbm.learning.gradients import GradientStatistics
from herdcli.rbm.model import Harmonium
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.rbm.units.base import UnitFamily
from herdcli.records import dataclass
from herdcli.schema import Array

DAMPING = 0.5  # share of the old means in each iteration
CONVERGED, MOST = 1e-12, 5000  # a fixed point has converged if all means change by less; largest number of iterations


@dataclass(frozen=True)
class LayerCumulants:
    """The means m (n, u) of one layer, with variances and third cumulants, and the derivatives of these along m."""

    m: Array
    variance: Array
    variance_slope: Array
    third: Array
    third_slope: Array

    @classmethod
    def from_means(cls, units: UnitFamily, m: Array) -> LayerCumulants:
        """Compute the functions of means m for a family of one-column units."""
        alpha, beta, gamma = (m.dtype.type(part) for part in units.variance_function)
        two = m.dtype.type(2)
        variance, slope = alpha + (beta + gamma * m) * m, beta + two * gamma * m
        # κ₃, the third derivative of A, is dκ/da = κ'(m) dm/da = κ' κ; its own derivative along m is κ'' κ + κ'² with κ'' = 2γ.
        return cls(m, variance, slope, slope * variance, two * gamma * variance + np.square(slope))


@dataclass(frozen=True)
class WeightPowers:
    """The elementwise powers W, W² and W³ (D, K)."""

    one: Array
    two: Array
    three: Array

    @classmethod
    def from_weights(cls, W: Array) -> WeightPowers:
        """Compute the powers of weights (D, K)."""
        square = np.square(W)
        return cls(W, square, square * W)

    def transpose(self) -> WeightPowers:
        """Return the powers of the transposed weights."""
        return WeightPowers(self.one.T, self.two.T, self.three.T)


def layer_natural_parameters(bias: Array, powers: WeightPowers, own_layer: LayerCumulants | None, other_layer: LayerCumulants) -> Array:
    """Compute the natural parameters (n, u) of a layer given the other layer's means (n, w).

    own_layer  the layer's own means; None: without their reaction term.
    """
    found = exact_arithmetic.matrix_product(other_layer.m, powers.one.T) + bias
    if own_layer is None:
        return found
    half, sixth = own_layer.m.dtype.type(0.5), own_layer.m.dtype.type(1 / 6)
    # At the fixed point ∂/∂m of log Z at fixed m of the other layer is 0: a = b + W m + ½ κ'(m) W² κ + ⅙ κ₃'(m) W³ κ₃.
    found += half * own_layer.variance_slope * exact_arithmetic.matrix_product(other_layer.variance, powers.two.T)
    found += sixth * own_layer.third_slope * exact_arithmetic.matrix_product(other_layer.third, powers.three.T)
    return found


@dataclass
class TAPFixedPoints:
    """The two layers' means during the iterations, n solutions in parallel, and the largest change of the last iteration."""

    visible: LayerCumulants
    hidden: LayerCumulants
    change: float = float("inf")


def iterate_once_damped(
    b: Array, c: Array, powers: WeightPowers, layers: tuple[UnitFamily, UnitFamily], previous: TAPFixedPoints | None, hidden: Array
) -> TAPFixedPoints:
    """Run one damped iteration from `previous`, or from hidden means (n, K) if `previous` is None."""
    kind = hidden.dtype
    if previous is None:
        start = LayerCumulants.from_means(layers[1], hidden)
        previous = TAPFixedPoints(
            LayerCumulants.from_means(layers[0], layers[0].mean(layer_natural_parameters(b, powers, None, start)).astype(kind)), start
        )
    keep, new = kind.type(DAMPING), kind.type(1 - DAMPING)
    v = keep * previous.visible.m + new * layers[0].mean(layer_natural_parameters(b, powers, previous.visible, previous.hidden)).astype(
        kind
    )
    visible = LayerCumulants.from_means(layers[0], v)
    h = keep * previous.hidden.m + new * layers[1].mean(layer_natural_parameters(c, powers.transpose(), previous.hidden, visible)).astype(
        kind
    )
    change = max(float(np.abs(v - previous.visible.m).max()), float(np.abs(h - previous.hidden.m).max()))
    return TAPFixedPoints(visible, LayerCumulants.from_means(layers[1], h), change)


def find_fixed_point(h: Harmonium, hidden: Array, max_iterations: int = MOST) -> TAPFixedPoints:
    """Iterate from hidden means (n, K) to a fixed point and return its means."""
    powers, layers = WeightPowers.from_weights(h.W), (h.visible, h.hidden)
    at = iterate_once_damped(h.b, h.c, powers, layers, None, hidden)
    for _ in range(max_iterations):
        if at.change < CONVERGED:
            break
        at = iterate_once_damped(h.b, h.c, powers, layers, at, hidden)
    return at


def tap_log_partition(h: Harmonium, solutions: TAPFixedPoints) -> Array:
    """Compute log Z (n,) in nats by the expansion at n fixed points."""
    powers, v, k = WeightPowers.from_weights(h.W), solutions.visible, solutions.hidden
    inputs = layer_natural_parameters(h.b, powers, v, k), layer_natural_parameters(h.c, powers.transpose(), k, v)
    entropies = [(units.log_partition(a) - a * units.mean(a)).sum(axis=1) for units, a in zip((h.visible, h.hidden), inputs, strict=True)]
    pairs = [
        (exact_arithmetic.matrix_product(left, W) * right).sum(axis=1)
        for left, W, right in ((v.m, powers.one, k.m), (v.variance, powers.two, k.variance), (v.third, powers.three, k.third))
    ]
    found: Array = (
        sum(entropies)
        + exact_arithmetic.matrix_product(v.m, h.b)
        + exact_arithmetic.matrix_product(k.m, h.c)
        + pairs[0]
        + 0.5 * pairs[1]
        + pairs[2] / 6.0
    )
    return found


def tap_log_z_gradient(W: Array, solutions: TAPFixedPoints) -> Array:
    """Compute ∂ log Z/∂W (D, K), the mean over n fixed points: m m' + W ∘ κ κ' + ½ W² ∘ κ₃ κ₃'."""
    v, k = solutions.visible, solutions.hidden
    found: Array = exact_arithmetic.matrix_product(v.m.T, k.m)
    found += W * exact_arithmetic.matrix_product(v.variance.T, k.variance)
    found += W.dtype.type(0.5) * np.square(W) * exact_arithmetic.matrix_product(v.third.T, k.third)
    found /= W.dtype.type(len(v.m))
    return found


def tap_learning_gradient(
    sweeper: GibbsSweeper, layers: tuple[UnitFamily, UnitFamily], rows: Array, chain: Array, steps: int
) -> GradientStatistics:
    """Compute the gradient for rows (n, D) float32, with the second phase at means that continue from `chain` (C, K), in place.

    The means take `steps` iterations per update: between updates the model changes little, and so do the means.
    """
    W, powers = sweeper.W, WeightPowers.from_weights(sweeper.W)
    at = iterate_once_damped(sweeper.b, sweeper.c, powers, layers, None, chain)
    for _ in range(steps - 1):
        at = iterate_once_damped(sweeper.b, sweeper.c, powers, layers, at, chain)
    chain[...] = at.hidden.m
    inputs, means = np.empty((len(rows), len(sweeper.c)), dtype=np.float32), np.empty_like(rows)
    sweeper.update_hidden(rows, inputs)
    sweeper.update_visible(inputs, means)
    pairs = exact_arithmetic.matrix_product(rows.T, inputs) / np.float32(len(rows)) - tap_log_z_gradient(W, at)
    below, above = rows.mean(axis=0) - at.visible.m.mean(axis=0), inputs.mean(axis=0) - at.hidden.m.mean(axis=0)
    return GradientStatistics(pairs, below, above, float(np.square(rows - means).sum()), inputs.mean(axis=0))
