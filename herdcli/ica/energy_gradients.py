"""Gradients of the log-likelihood: the rows' gradient minus that of the model, by chains, by samples of the model, or exactly."""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import BadUsage
from herdcli.ica import hmc
from herdcli.ica.energy import NARROW, LinearExperts, RowEnergy
from herdcli.ica.problem import LearningProblem, LearningState
from herdcli.rng import Stream, generator
from herdcli.schema import Array

CHAINS = 50  # chains that one worker moves at a time, in wide models


def contrastive_divergence_gradients(
    problem: LearningProblem, energy: RowEnergy, rows: Array, state: LearningState, map: Map
) -> tuple[Array, Array, float]:
    """Return the mean gradients of contrastive divergence in J and in γ, and the acceptance; adapts the step size."""
    settings = problem.settings
    random = generator(settings.seed, Stream.MOMENTA, step=state.step)
    shape = (settings.proposals, *rows.shape)
    momenta = random.standard_normal(shape, dtype=rows.dtype.type)
    uniforms = random.random(shape[:2])
    wide = energy.J.size > NARROW or not isinstance(energy, LinearExperts)
    size = CHAINS if wide else len(rows)
    epsilon, learned = state.epsilon, bool(settings.gamma_rate)

    def part(start: int) -> tuple[Array, Array, int]:
        chosen = slice(start, start + size)
        z, moved = rows[chosen], 0
        # The gradient of the likelihood is E_model[∂E/∂θ] − E_rows[∂E/∂θ] (Teh 2003, eq. 4.30).  Contrastive divergence uses the rows
        # after a few moves of a chain as samples of the model (eq. 4.32, 4.33).  Each chain begins at one of the rows of E_rows, so that
        # the contributions of chains that do not move cancel.
        before, now = energy.parameters(z, learned), energy.energy(z)
        for momentum, uniform in zip(momenta[:, chosen], uniforms[:, chosen], strict=True):
            z, now, accepted = hmc.run_hmc_proposal(energy, z, now, momentum, uniform, epsilon, settings.leapfrog)
            moved += int(np.count_nonzero(accepted))
        after = energy.parameters(z, learned)
        return after[0] - before[0], after[1] - before[1], moved

    parts = list(map(part, range(0, len(rows), size)))
    by_J, by_gamma = (sum(part[which] for part in parts) / rows.dtype.type(len(rows)) for which in (0, 1))
    acceptance = sum(part[2] for part in parts) / (settings.proposals * len(rows))
    state.epsilon = hmc.adapt_step_size(epsilon, acceptance, settings.acceptance, settings.step_gain)
    return by_J, by_gamma, acceptance


def exact_model_gradients(problem: LearningProblem, energy: RowEnergy, rows: Array, update: int) -> tuple[Array, Array]:
    """Return the mean gradients in J and in γ if the model's own expectation is known, or can be sampled from the model."""
    by_J, by_gamma = energy.parameters(rows)
    n = len(rows)
    if isinstance(energy, LinearExperts) and problem.settings.algorithm == "infomax":
        # log p(z) = log |det J| − Σ E_i(J_i z) (eq. 4.5), and d log |det J| = tr J⁻¹ dJ, with gradient +J^{−T}; eq. 4.6 as printed
        # has this term's sign wrong.  The gradient in γ does not contain the term of log z(γ), because only ebm and equil learn γ.
        return np.linalg.inv(energy.J).T - by_J / n, -by_gamma / n
    if problem.settings.algorithm == "infomax":
        return -by_J / n, -by_gamma / n
    samples = sample_square_model(energy, generator(problem.settings.seed, Stream.EQUILIBRIUM, step=update), n)
    other_J, other_gamma = energy.parameters(samples)
    return (other_J - by_J) / n, (other_gamma - by_gamma) / n


def sample_square_model(energy: RowEnergy, random: np.random.Generator, n: int) -> Array:
    """Sample n rows z = J⁻¹ s of a square model of independent sources, (n, D).      Source: Teh (2003), sec. 4.6."""
    if not isinstance(energy, LinearExperts):
        raise BadUsage("exact samples need as many filters as dimensions and independent experts")
    sources = energy.expert.sample(random, n, energy.gamma)
    found: Array = np.linalg.solve(energy.J.astype(np.float64), sources.T).T.astype(energy.J.dtype)
    return found
