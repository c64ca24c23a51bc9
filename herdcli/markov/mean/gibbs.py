"""Gibbs sampling of Boltzmann machines: parallel chains, all units of one colour together.

Marginals are means of the conditional probabilities of the units (Rao–Blackwell), over the sweeps after
burn-in.  With annealing the inverse temperature rises to 1 over the first sweeps of burn-in.  R̂ compares the halves of all
chains with each other, unit by unit, and for the product of the factors; standard errors are those of `chain_convergence`.
Source: Teh (2003), sec. 2.3.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from herdcli.errors import BadUsage
from herdcli.markov.method import InferenceResult, InferenceSettings, Stepwise
from herdcli.markov.model import chain_convergence
from herdcli.markov.model.boltzmann import colour_units, to_boltzmann_machine
from herdcli.markov.model.chain_convergence import EnergySums, empty_energy_sums
from herdcli.markov.model.network import Factor, Network
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array


@dataclass
class BinaryGibbsState:
    """x (N, chains) float64 of 0 and 1; sums over kept sweeps for each half of the run, (2, N, chains)."""

    x: Array
    probability: Array
    on: Array
    pair: Array  # (pairs,) how often both units were on
    height: EnergySums
    step: int


class BinaryGibbs(Stepwise[BinaryGibbsState]):
    """The algorithm `gibbs` for Boltzmann machines; each step is a sweep."""

    state = BinaryGibbsState

    def __init__(self, network: Network, settings: InferenceSettings) -> None:
        self.network, self.settings, self.steps = network, settings, settings.burn_in + 2 * ((settings.sweeps + 1) // 2)
        if settings.annealing > settings.burn_in:
            hint = f"raise --burn-in to {settings.annealing} or more"
            raise BadUsage(f"--annealing {settings.annealing} is more than the {settings.burn_in} sweeps of --burn-in", hint=hint)
        self.machine = to_boltzmann_machine(network, "gibbs")
        self.parts = [part[~self.machine.held[part]] for part in colour_units(self.machine.W)]
        self.rows = [(part, self.machine.W[part]) for part in self.parts]
        held = self.machine.held
        pairs = {tuple(sorted(i for i in scope if not held[i])) for scope, _ in network.factors()}
        self.pairs = np.array(sorted(pair for pair in pairs if len(pair) == 2), dtype=np.int64).reshape(-1, 2)

    def work_per_step(self) -> int:
        """The number of units and couplings that a sweep of all chains visits."""
        return self.settings.chains * (self.network.count + int(self.machine.W.nnz))

    def init(self) -> BinaryGibbsState:
        """Return random states with probability one half for each value."""
        shape = (self.network.count, self.settings.chains)
        x = (generator(self.settings.seed, Stream.CHAINS, unit=1).random(shape) < 0.5).astype(np.float64)
        x[self.machine.held] = 0
        return BinaryGibbsState(
            x, np.zeros((2, *shape)), np.zeros((2, *shape)), np.zeros(len(self.pairs)), empty_energy_sums(self.settings.chains), 0
        )

    def step(self, state: BinaryGibbsState) -> BinaryGibbsState:
        """Do one sweep of every chain."""
        random = generator(self.settings.seed, Stream.CHAINS, step=state.step)
        kept = state.step - self.settings.burn_in
        half = int(kept >= (self.steps - self.settings.burn_in) // 2)
        cold = min(1.0, (state.step + 1) / (self.settings.annealing + 1))  # the inverse temperature
        # Units of one colour have no couplings, so drawing them together is drawing them one after the other.
        for part, W in self.rows:
            # P(x_i = 1 | the others) = σ(Σ_j W_ij x_j + b_i): all terms of 2.35 without x_i cancel.  At inverse temperature β the others
            # are multiplied by β.
            p = expit(cold * (W @ state.x + self.machine.b[part, None]))
            state.x[part] = random.random(p.shape) < p
            if kept >= 0:
                # Rao–Blackwell: the mean of the conditional probabilities has less variance than that of the states drawn from them.
                state.probability[half, part] += p
        if kept >= 0:
            state.on[half] += state.x
            state.height.add((state.x * (0.5 * (self.machine.W @ state.x) + self.machine.b[:, None])).sum(axis=0), kept, half)
            state.pair += np.einsum("pc,pc->p", state.x[self.pairs[:, 0]], state.x[self.pairs[:, 1]])
        state.step += 1
        return state

    def bytes_needed(self, state: BinaryGibbsState) -> tuple[int, str]:
        """Return the bytes of the means of both halves of every chain, and their purpose in words."""
        return 16 * self.network.count * self.settings.chains, "the means of the chains"

    def result(self, state: BinaryGibbsState) -> InferenceResult:
        """Return the means with their standard errors.

        The run has converged if every R̂ is below 1.05; the residual is the largest R̂ minus one.
        """
        n, held = (self.steps - self.settings.burn_in) // 2, self.machine.held
        means = state.probability / n
        m = means.mean(axis=(0, 2))
        halves = np.concatenate(list(state.on), axis=1) / n
        worst = max(float(chain_convergence.split_rhat(halves, n).max(initial=1.0)), state.height.rhat(n))
        error = chain_convergence.widen_for_unseen_states(
            chain_convergence.batch_means_errors(means), chain_convergence.effective_draws(worst, halves.shape[1], n)
        )
        nodes = [np.ones(1) if held[i] else np.array([1 - m[i], m[i]]) for i in range(len(m))]
        errors = [np.zeros(1) if held[i] else np.array([error[i], error[i]]) for i in range(len(m))]
        draws = 2 * n * self.settings.chains
        on = state.on.sum(axis=(0, 2)) / draws
        cliques: list[Factor] = []
        for (i, j), both in zip(self.pairs.tolist(), state.pair / draws, strict=True):
            cliques.append(((i, j), np.array([[1 - on[i] - on[j] + both, on[j] - both], [on[i] - both, both]])))
        attributes = {
            "log_z": np.nan,
            "free_energy": np.nan,
            "iterations": state.step,
            "converged": worst < chain_convergence.RHAT,
            "residual": worst - 1,
            "standard_error": errors,
        }
        return InferenceResult(nodes, cliques, attributes)
