"""Parallel tempering as the second phase of learning: chains at R temperatures that exchange their states.

Replica r of a chain follows  p_r(v, h) ∝ exp(β_r (b·v + c·h + v'W h) + (1 − β_r) a·v)  times the base measures, from the model (β = 1)
to independent columns with natural parameters a, those of the rows (β = 0), which any state is left and reached from at once.  The
visible marginal is f_β(v) = exp((β b + (1 − β) a)·v + Σ_k A(β x_k)), x = c + W'v; neighbours exchange their visible states with probability

    min(1, f_r(v_s) f_s(v_r) / (f_r(v_r) f_s(v_s))),

even pairs in one sweep and odd ones in the next, so that states travel instead of diffusing; hidden states are drawn anew given them.
Temperatures move to where all neighbours refuse alike.
Sources: Desjardins, Courville, Bengio, Vincent & Delalleau (2010); Syed, Bouchard-Côté, Deligiannidis & Doucet (2022), sec. 3 and 5.
"""

from __future__ import annotations

import numpy as np

from herdcli.numerics import exact_arithmetic
from herdcli.rbm.learning.phases import PhaseBlock, PhaseScratch, data_phase
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.rbm.units.base import UnitFamily
from herdcli.records import dataclass
from herdcli.schema import Array

MOVED, SHARE = 0.02, 0.05  # of temperatures an update, and of an update in the running rejections
LEAST = 1e-3  # share of refusals that every gap counts for, so that none grows without end


@dataclass(frozen=True)
class TemperatureLadder:
    """Inverse temperatures (R,) from 1 to 0, natural parameters (D,) of the columns at 0, and the hidden family."""

    betas: Array
    base: Array
    hidden: UnitFamily

    def natural(self, sweeper: GibbsSweeper, h: Array) -> Array:
        """Natural parameters (C, R, D) of visible units given hidden states h (C, R, K)."""
        C, R, K = h.shape
        found = exact_arithmetic.product(h.reshape(C * R, K), sweeper.W.T).reshape(C, R, -1)
        found += sweeper.b
        beta = self.betas.astype(np.float32)[:, None]
        found *= beta
        found += (np.float32(1.0) - beta) * self.base
        return found

    def log_marginal(self, sweeper: GibbsSweeper, v: Array, x: Array, betas: Array) -> Array:
        """log f_β(v) less a·v, (C, n) for v (C, n, D) and x (C, n, K), each at its own of the inverse temperatures (n,)."""
        beta = betas.astype(np.float32)[:, None]
        linear = exact_arithmetic.product(v, sweeper.b - self.base)
        found: Array = betas * linear + self.hidden.summed_log_partition(np.ascontiguousarray(x * beta))
        return found

    def exchange(self, sweeper: GibbsSweeper, v: Array, x: Array, parity: int) -> Array:
        """Exchange states of neighbours r, r + 1, r of one parity, in v (C, R, D) and x (C, R, K), in place; (R − 1,) shares refused."""
        refused = np.full(len(self.betas) - 1, np.nan)
        low = np.arange(parity, len(self.betas) - 1, 2)
        if not len(low):
            return refused
        high = low + 1
        near, far = self.betas[low], self.betas[high]
        own = self.log_marginal(sweeper, v[:, low], x[:, low], near) + self.log_marginal(sweeper, v[:, high], x[:, high], far)
        other = self.log_marginal(sweeper, v[:, low], x[:, low], far) + self.log_marginal(sweeper, v[:, high], x[:, high], near)
        accepted = exact_arithmetic.exp(np.minimum(other - own, 0.0))
        refused[low] = 1.0 - accepted.mean(axis=0)
        chain, pair = np.nonzero(sweeper.draws.random(accepted.shape) < accepted)
        for part in (v, x):
            part[chain, low[pair]], part[chain, high[pair]] = part[chain, high[pair]], part[chain, low[pair]]
        return refused

    def sweep(self, sweeper: GibbsSweeper, h: Array, parity: int) -> tuple[Array, Array, Array]:
        """One sweep of hidden states h (C, R, K), in place; visible states (C, R, D), hidden inputs (C, R, K) and shares refused."""
        C, R, K = h.shape
        natural = self.natural(sweeper, h).reshape(C * R, -1)
        drawn = np.empty_like(natural)
        sweeper.visible.sample(natural, np.zeros_like(sweeper.b), drawn, sweeper.draws)
        x = exact_arithmetic.product(drawn, sweeper.W).reshape(C, R, K)
        x += sweeper.c
        v = drawn.reshape(C, R, -1)
        refused = self.exchange(sweeper, v, x, parity)
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
) -> PhaseBlock:
    """The phases of rows (n, D) and of chains (C · R, K), hidden states of all replicas that are moved on in place.

    sweeps  how many, and how many were before them, which tells whose turn exchanges are.  counts, reconstruct  as of `persistent`.
    """
    n, R = len(rows), len(ladder.betas)
    C = len(chain) // R
    error, sparse = data_phase(sweeper, rows, counts[0], reconstruct, scratch)
    h, refused = chain.reshape(C, R, -1), np.full((sweeps[0], R - 1), np.nan)
    for sweep in range(sweeps[0]):
        v, x, refused[sweep] = ladder.sweep(sweeper, h, (sweeps[1] + sweep) % 2)
    # What the model's own replica shows enters with its hidden means, which have less variance than states.
    scratch.v[n : n + C] = v[:, 0]
    scratch.h[n : n + C] = x[:, 0] - sweeper.c
    sweeper.hidden.means(scratch.h[n : n + C], sweeper.c, scale=-1.0 / counts[1])
    known = ~np.isnan(refused)
    shares = np.where(known.any(axis=0), np.where(known, refused, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1), np.nan)
    return PhaseBlock(scratch.v[: n + C], scratch.h[: n + C], n, sparse, None, error, persistent=True, rejected=shares)


def adapt_temperatures(betas: Array, rejected: Array, seen: Array) -> None:
    """Move inverse temperatures (R,) and running shares of refused exchanges (R − 1,) on, in place, by those that an update has seen.

    seen  (R − 1,), NaN where no exchange was tried.
    """
    tried = ~np.isnan(seen)
    rejected[tried] += SHARE * (seen[tried] - rejected[tried])
    # Λ(β), the sum of refusals from 1 down to β, is a property of the model and the base: where its values at the temperatures are
    # spaced evenly every pair refuses alike, which is what makes round trips most frequent (Syed et al. 2022, sec. 5.1).
    barrier = np.concatenate([[0.0], np.cumsum(rejected + LEAST)])
    even = np.interp(np.linspace(0.0, barrier[-1], len(betas)), barrier, betas)
    betas += MOVED * (even - betas)
    betas[0], betas[-1] = 1.0, 0.0
