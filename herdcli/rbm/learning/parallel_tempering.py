"""Parallel tempering as the second phase of learning: chains at R temperatures that exchange their states.

Replica r of a chain follows  p_r(v, h) ∝ exp(β_r (b·v + c·h + v'W h) + (1 − β_r) a·v)  times the base measures, from the model (β = 1)
to independent columns with natural parameters a, those of the rows (β = 0), where one sweep leaves or reaches any state.  The
visible marginal is f_β(v) = exp((β b + (1 − β) a)·v + Σ_k A(β x_k)), x = c + W'v; neighbours exchange their visible states with probability

    min(1, f_r(v_s) f_s(v_r) / (f_r(v_r) f_s(v_s))),

for even pairs in one sweep and odd ones in the next, so that states travel instead of diffusing; hidden states are then sampled again.
Temperatures move until all neighbours have the same rate of refusals.
Sources: Desjardins, Courville, Bengio, Vincent & Delalleau (2010); Syed, Bouchard-Côté, Deligiannidis & Doucet (2022), sec. 3 and 5.
"""

from __future__ import annotations

import numpy as np

from herdcli.numerics import exact_arithmetic
from herdcli.rbm.learning.phases import BlockPhases, PhaseScratch, write_data_phase
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.rbm.units.base import UnitFamily
from herdcli.records import dataclass
from herdcli.schema import Array

MOVED, SHARE = 0.02, 0.05  # step of the temperatures in an update, and weight of an update in the running rejections
LEAST = 1e-3  # least share of refusals counted for every gap, so that none grows without bound


@dataclass(frozen=True)
class TemperatureLadder:
    """A ladder of inverse temperatures (R,) from 1 to 0, with natural parameters (D,) of the columns at 0, and the hidden family."""

    betas: Array
    base: Array
    hidden: UnitFamily

    def natural_parameters(self, sweeper: GibbsSweeper, h: Array) -> Array:
        """Return the natural parameters (C, R, D) of visible units given hidden states h (C, R, K)."""
        C, R, K = h.shape
        found = exact_arithmetic.matrix_product(h.reshape(C * R, K), sweeper.W.T).reshape(C, R, -1)
        found += sweeper.b
        beta = self.betas.astype(np.float32)[:, None]
        # β (b + W h) + (1 − β) a: linear in β, so one product serves all temperatures.
        found *= beta
        found += (np.float32(1.0) - beta) * self.base
        return found

    def log_marginal(self, sweeper: GibbsSweeper, v: Array, x: Array, betas: Array) -> Array:
        """Compute log f_β(v) − a·v, (C, n), for v (C, n, D) and x (C, n, K), each at its own inverse temperature (n,)."""
        beta = betas.astype(np.float32)[:, None]
        linear = exact_arithmetic.matrix_product(v, sweeper.b - self.base)
        found: Array = betas * linear + self.hidden.summed_log_partition(np.ascontiguousarray(x * beta))
        return found

    def exchange_neighbours(self, sweeper: GibbsSweeper, v: Array, x: Array, parity: int) -> Array:
        """Exchange states of neighbours r, r + 1, for r of one parity, in v (C, R, D) and x (C, R, K), in place.

        Returns the shares refused (R − 1,).
        """
        refused = np.full(len(self.betas) - 1, np.nan)
        low = np.arange(parity, len(self.betas) - 1, 2)
        if not len(low):
            return refused
        high = low + 1
        near, far = self.betas[low], self.betas[high]
        # Metropolis ratio of the head, in logarithms: hidden units are summed out, which raises the rate of acceptance.
        own = self.log_marginal(sweeper, v[:, low], x[:, low], near) + self.log_marginal(sweeper, v[:, high], x[:, high], far)
        other = self.log_marginal(sweeper, v[:, low], x[:, low], far) + self.log_marginal(sweeper, v[:, high], x[:, high], near)
        accepted = exact_arithmetic.exp(np.minimum(other - own, 0.0))
        refused[low] = 1.0 - accepted.mean(axis=0)
        chain, pair = np.nonzero(sweeper.draws.random(accepted.shape) < accepted)
        for part in (v, x):
            part[chain, low[pair]], part[chain, high[pair]] = part[chain, high[pair]], part[chain, low[pair]]
        return refused

    def sweep(self, sweeper: GibbsSweeper, h: Array, parity: int) -> tuple[Array, Array, Array]:
        """Run one sweep of hidden states h (C, R, K), in place.

        Returns visible states (C, R, D), hidden inputs (C, R, K) and the shares of refused exchanges.
        """
        C, R, K = h.shape
        natural = self.natural_parameters(sweeper, h).reshape(C * R, -1)
        drawn = np.empty_like(natural)
        sweeper.visible.sample(natural, np.zeros_like(sweeper.b), drawn, sweeper.draws)
        x = exact_arithmetic.matrix_product(drawn, sweeper.W).reshape(C, R, K)
        x += sweeper.c
        v = drawn.reshape(C, R, -1)
        refused = self.exchange_neighbours(sweeper, v, x, parity)
        inputs = (x * self.betas.astype(np.float32)[:, None]).reshape(C * R, K)
        sweeper.hidden.sample(inputs, np.zeros_like(sweeper.c), h.reshape(C * R, K), sweeper.draws)
        return v, x, refused


def tempered_phases(
    sweeper: GibbsSweeper,
    ladder: TemperatureLadder,
    rows: Array,
    chain: Array,
    sweeps: tuple[int, int],
    counts: tuple[int, int],
    reconstruct: bool,
    scratch: PhaseScratch,
) -> BlockPhases:
    """Compute the phases of rows (n, D) and of chains (C · R, K), hidden states of all replicas that are updated in place.

    sweeps               the number of sweeps, and the number of earlier ones, which decides which neighbours exchange states first.
    counts, reconstruct  as in `persistent_contrastive_phases`.
    """
    n, R = len(rows), len(ladder.betas)
    C = len(chain) // R
    error, sparse = write_data_phase(sweeper, rows, counts[0], reconstruct, scratch)
    h, refused = chain.reshape(C, R, -1), np.full((sweeps[0], R - 1), np.nan)
    for sweep in range(sweeps[0]):
        v, x, refused[sweep] = ladder.sweep(sweeper, h, (sweeps[1] + sweep) % 2)
    # The statistics of the replica at β = 1 use its hidden means, which have less variance than states.
    scratch.v[n : n + C] = v[:, 0]
    scratch.h[n : n + C] = x[:, 0] - sweeper.c
    sweeper.hidden.means(scratch.h[n : n + C], sweeper.c, scale=-1.0 / counts[1])
    known = ~np.isnan(refused)
    shares = np.where(known.any(axis=0), np.where(known, refused, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1), np.nan)
    return BlockPhases(scratch.v[: n + C], scratch.h[: n + C], n, sparse, None, error, persistent=True, rejected=shares)


def adapt_temperatures(betas: Array, rejection_rates: Array, latest_rejections: Array) -> None:
    """Update inverse temperatures (R,) and running shares of refused exchanges (R − 1,), in place, by the refusals of one update.

    latest_rejections  (R − 1,), NaN where no exchange was tried.
    """
    tried = ~np.isnan(latest_rejections)
    rejection_rates[tried] += SHARE * (latest_rejections[tried] - rejection_rates[tried])
    # Λ(β), the sum of refusals from 1 down to β, is a property of the model and the base.  If its values at the temperatures are evenly
    # spaced, all pairs have the same rate of refusals, which maximises the rate of round trips (Syed et al. 2022, sec. 5.1).
    barrier = np.concatenate([[0.0], np.cumsum(rejection_rates + LEAST)])
    even = np.interp(np.linspace(0.0, barrier[-1], len(betas)), barrier, betas)
    betas += MOVED * (even - betas)
    betas[0], betas[-1] = 1.0, 0.0
