"""Hybrid Monte Carlo over an energy of whitened rows, and adaptation of the step size to a target acceptance.

Source: Teh (2003), algorithm 4.2 and eq. 4.39, 4.41; Neal (1993), sec. 5.
"""

from __future__ import annotations

import numpy as np

from herdcli.ica.energy import RowEnergy
from herdcli.schema import Array

SMALLEST_STEP = 1e-4


def run_hmc_proposal(
    energy: RowEnergy, z: Array, energies: Array, momentum: Array, uniform: Array, epsilon: float, steps: int
) -> tuple[Array, Array, Array]:
    """Make one proposal for every chain, accepted with probability min(1, e^{−ΔH}), H = E + |k|²/2.

    z, momentum  (n, D), the momentum drawn from N(0, I).      energies  (n,) energies of z.      uniform  (n,) in [0, 1).

    Returns the next states of the chains (n, D), the energies of these states (n,), and which chains moved (n,).  A proposal with
    energy NaN is rejected.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        proposed, last = energy.leapfrog_trajectory(z, momentum, epsilon, steps)
        after = energy.energy(proposed)
        rise = after - energies + 0.5 * (_squared_norms(last) - _squared_norms(momentum))
        # 1 − U is in (0, 1], so that its logarithm is finite, and log(1 − U) < −ΔH has probability min(1, e^{−ΔH}) (eq. 4.39).  A NaN
        # compares as false and is rejected.
        accepted = np.log1p(-uniform) < -rise
    return np.where(accepted[:, np.newaxis], proposed, z), np.where(accepted, after, energies), accepted


def run_hmc_chains(
    energy: RowEnergy, z: Array, random: np.random.Generator, epsilon: float, steps: int, proposals: int = 1
) -> tuple[Array, float]:
    """Return chains (n, D) after `proposals` proposals from `random`, and the share that was accepted."""
    moved, now = 0, energy.energy(z)
    for _ in range(proposals):
        momentum = random.standard_normal(z.shape, dtype=z.dtype.type)
        z, now, accepted = run_hmc_proposal(energy, z, now, momentum, random.random(len(z)), epsilon, steps)
        moved += int(accepted.sum())
    return z, moved / (proposals * len(z))


def adapt_step_size(epsilon: float, acceptance: float, target_acceptance: float, gain: float) -> float:
    """Return the next step size ε ← max(ε_min, ε − η (wanted − acceptance)); within an update all chains have one step size.

    Source: Teh (2003), eq. 4.41.
    """
    return max(SMALLEST_STEP, epsilon - gain * (target_acceptance - acceptance))


def _squared_norms(momentum: Array) -> Array:
    result: Array = np.square(momentum).sum(axis=1, dtype=np.float64)
    return result
