"""The modes of a harmonium, found as mean-field solutions, and the mixture of independent units made of them.

For independent q(v) q(h) with means v̄ and h̄ the variational bound is

    log Z ≥ L = b·v̄ + c·h̄ + v̄'W h̄ + H(q_v) + H(q_h),

and setting either layer's natural parameters to their conditional ones, b + W h̄ and c + W'v̄, never lowers it.  At a fixed point
q(v) is a layer of independent units with biases b + W h̄: one component of an initial distribution for annealing that covers the mode.
Source: Wainwright & Jordan (2008), sec. 5.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli.numerics import exact_arithmetic
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units.base import UnitFamily
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

SWEEPS = 100  # largest number of mean-field iterations; most starts need far fewer
SHARES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7)  # shares of the units that are on in a random start
STARTS = 100  # number of random starts for each of SHARES and each layer
WORK = 4e8  # fewer starts are used if the number of weights times the number of starts exceeds this
MOST = 32  # largest number of components
DEPTH = 15.0  # a solution becomes a component if its bound is within this many nats of the best one
STEEPEST = 12.0  # largest natural parameter of a component, times the range of a unit; with this limit no unit is certain
OWN_SHARE = 0.5  # weight of the component with the units' own base rates in the first mixture
FLOOR = 0.1  # this share of the weight of later mixtures is spread evenly over the components


@dataclass(frozen=True)
class BaseMixture:
    """A mixture of M layers of independent visible units: biases (M, D), log of their shares (M,), and their log-partitions (M,).

    bound  the best variational lower bound of log Z that was found; −inf if none was computed.
    """

    biases: Array
    log_shares: Array
    log_partitions: Array
    bound: float = -np.inf

    @classmethod
    def from_biases(cls, h: Harmonium, biases: Array, bound: float = -np.inf) -> BaseMixture:
        """Make a mixture with biases (M, D): the first component has the share OWN_SHARE, the others have equal parts of the rest."""
        others = len(biases) - 1
        shares = np.full(len(biases), (1.0 - OWN_SHARE) / max(others, 1))
        shares[0] = OWN_SHARE if others else 1.0
        return cls(biases, exact_arithmetic.log(shares), np.asarray(h.visible.log_partition(biases).sum(axis=-1)), bound)

    def with_updated_shares(self, v: Array, log_weights: Array) -> BaseMixture:
        """Return the same components with the shares of weighted rows (n, D) in them; FLOOR of the total is spread evenly.

        A component's share of the initial distribution is then close to its region's share of the model, and weights are nearly equal.
        """
        terms = self.component_log_densities(v)
        parts = exact_arithmetic.exp(terms - exact_arithmetic.log_sum_exp(terms, axis=1, keepdims=True))
        weights = exact_arithmetic.exp(log_weights - exact_arithmetic.log_sum_exp(log_weights))
        shares = (1.0 - FLOOR) * exact_arithmetic.matrix_product(weights, parts) + FLOOR / len(self.biases)
        return replace(self, log_shares=exact_arithmetic.log(shares))

    def component_log_densities(self, v: Array) -> Array:
        """Compute log q_m(v) = a_m·v − Σ A(a_m), (n, M), of rows v (n, D) float64.

        The base measure of v, which all components share, is left out.
        """
        terms: Array = exact_arithmetic.matrix_product(v, self.biases.T) - self.log_partitions
        return terms


def make_mode_mixture(h: Harmonium, base_rates: Array, rows: Array, seed: int, unit: int = 0) -> BaseMixture:
    """Make the mixture of the base rates `base_rates` (D,) and the mean-field solutions from random hidden states and rows (n, D).

    Models whose layers are not both bounded use their base rates alone.
    """
    if h.visible.range is None or h.hidden.range is None:
        return BaseMixture.from_biases(h, base_rates[None])
    means = np.concatenate([_random_hidden_means(h, seed, unit), h.hidden_means(rows)])
    bounds, means = solve_mean_field(h, means)
    order = np.argsort(-bounds, kind="stable")
    order = order[bounds[order] > bounds[order[0]] - DEPTH]
    low, high = h.hidden.range
    # Solutions that agree to a quarter of a unit's range belong to the same mode; the first in `order` has the best bound.
    _, first = np.unique(np.rint(4.0 * (means[order] - low) / (high - low)), axis=0, return_index=True)
    chosen = order[np.sort(first)[:MOST]]
    reach = STEEPEST / (h.visible.range[1] - h.visible.range[0]) * h.visible.scale
    biases = np.clip(h.b + exact_arithmetic.matrix_product(means[chosen], h.W.T), -reach, reach)
    return BaseMixture.from_biases(h, np.concatenate([base_rates[None], biases]), float(bounds[order[0]]))


def _random_hidden_means(h: Harmonium, seed: int, unit: int) -> Array:
    """Return random hidden states, and hidden means of random visible states, of several densities: (n, K).

    Modes that training never visited are found from visible states that resemble no row.
    """
    draws, count = generator(seed, Stream.MODES, unit=unit), max(2, min(STARTS, int(WORK / (len(SHARES) * h.W.size))))

    def states(units: UnitFamily, columns: int) -> Array:
        assert units.range is not None
        on = np.concatenate([draws.random((count, columns)) < share for share in SHARES])
        values: Array = units.range[0] + (units.range[1] - units.range[0]) * on
        return values

    return np.concatenate([states(h.hidden, len(h.c)), h.hidden_means(states(h.visible, len(h.b)))])


def solve_mean_field(h: Harmonium, means: Array) -> tuple[Array, Array]:
    """Compute mean-field solutions from hidden means (n, K): their variational bounds (n,) in nats, and their hidden means."""
    for _ in range(SWEEPS):
        before = means
        # Each layer given the other's means is the best factor of q: this is coordinate ascent of the bound, which never decreases.
        means = h.hidden.mean(
            exact_arithmetic.matrix_product(h.visible.mean(exact_arithmetic.matrix_product(means, h.W.T) + h.b), h.W) + h.c
        )
        if np.abs(means - before).max(initial=0.0) < 1e-6:
            break
    natural = exact_arithmetic.matrix_product(means, h.W.T) + h.b
    visible = h.visible.mean(natural)
    inputs = exact_arithmetic.matrix_product(visible, h.W) + h.c
    # H(q) = Σ A(a) − a·mean up to the mean of the log base measure, which cancels in L with log h.
    entropy = h.visible.log_partition(natural).sum(axis=-1) - (natural * visible).sum(axis=-1)
    # log Z ≥ E_q[b·v + c·h + v'Wh] + H(q_v) + H(q_h).  At the best q_h given q_v the terms with h are Σ_k A(c_k + W_k·E v), its
    # log-partition.
    bound = entropy + exact_arithmetic.matrix_product(visible, h.b) + h.hidden.log_partition(inputs).sum(axis=-1)
    return np.asarray(bound), means


def sample_base_mixture(h: Harmonium, base: BaseMixture, count: int, generator: np.random.Generator) -> tuple[Array, Array]:
    """Sample labels (n,) and rows (n, D) float32 of the mixture, with labels in fixed proportions."""
    shares = np.cumsum(exact_arithmetic.exp(base.log_shares))
    labels = np.searchsorted(shares / shares[-1], (np.arange(count) + generator.random()) / count)
    natural = np.ascontiguousarray(base.biases[labels], dtype=np.float32)
    values = np.empty_like(natural)
    h.visible.layer().sample(natural, np.zeros(natural.shape[1], dtype=np.float32), values, generator)
    return labels, values
