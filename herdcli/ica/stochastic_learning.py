"""Stochastic gradients on minibatches of whitened rows: InfoMax, energy-based models by contrastive divergence, EQUIL.

All of them ascend −E over the rows and differ in the expectation that they subtract, G = E_other[∂E/∂θ] − E_rows[∂E/∂θ]:

| algorithm            | E_other[∂E/∂J]                                         |
|----------------------|--------------------------------------------------------|
| infomax, M = D       | J^{−T}, exactly                                        |
| infomax, M > D       | nothing: E is −½ log det F'F of eq. 4.27               |
| ebm                  | over the rows after n proposals of hybrid Monte Carlo  |
| equil                | over as many samples of the square model               |

    Δ ← μ Δ + ε_t (G − λ J),   J ← J + Δ,   and likewise γ, without λ.

The natural gradient is G J'J.  With the density "auto" of square infomax and equil, outputs with
`experts.choose_density_signs` −1 have the bimodal density and the others have the Laplacian (equil: the logistic one).
Source: Teh (2003), sec. 4.5 and 4.6; Amari, Cichocki & Yang (1996).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from herdcli import fast
from herdcli.algorithm import FixedLengthAlgorithm, Map, RunProgress
from herdcli.errors import Diverged
from herdcli.ica.energy import LinearExperts, RowEnergy, make_energy, raise_weights_to_normalisable
from herdcli.ica.energy_gradients import contrastive_divergence_gradients, exact_model_gradients
from herdcli.ica.experts import AUTO, choose_density_signs
from herdcli.ica.filters.amari_distance import amari_distance
from herdcli.ica.model import ICATrace
from herdcli.ica.pair_rotations import find_mixed_pairs, rotate_pairs
from herdcli.ica.problem import LearningProblem, LearningSettings, LearningState, pooling_weights
from herdcli.ica.results import ICAFit
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

WATCHED = 1000  # rows over which the log-likelihood of a trace is averaged
COLLAPSED = 0.05  # an acceptance below it for PATIENCE updates is a collapse
PATIENCE = 100
RETREATS = 8  # largest number of times that the rates are halved, for algorithms without chains
CHOSEN_EVERY = 20  # interval of updates
CHOSEN_BY = 2048  # evenly spaced rows


class ChainsCollapsed(Diverged):
    """The error of an acceptance that collapsed twice; `state` has the parameters before it."""

    def __init__(self, state: LearningState) -> None:
        super().__init__(
            f"acceptance collapsed again at update {state.step}, after the leapfrog step had been reset",
            hint="use lower rates in --rate-schedule, or shorter trajectories (--leapfrog)",
        )
        self.state = state


def make_current_energy(problem: LearningProblem, state: LearningState) -> RowEnergy:
    """Return the energy of the settings at these parameters."""
    settings, J = problem.settings, state.J
    P = None if settings.grid is None else pooling_weights(settings.grid, settings.neighbourhood).astype(J.dtype)
    return make_energy(J, state.gamma, problem.experts(state), topography=P, density=settings.density)


def _initial_state(problem: LearningProblem) -> LearningState:
    """Return filters from N(0, scale²), or of length 1 in random directions, and γ from the settings."""
    settings, D = problem.settings, problem.Z.shape[1]
    drawn = generator(settings.seed, Stream.INITIAL).standard_normal((problem.filters, D))
    lengths = np.sqrt((drawn**2).sum(axis=1, keepdims=True))
    J = (drawn * settings.initial_scale if settings.initial_scale else drawn / lengths).astype(problem.Z.dtype)
    gamma = np.full(len(J), settings.gamma, dtype=J.dtype)
    if settings.algorithm == "ebm" and settings.learns_gamma:
        gamma, _ = raise_weights_to_normalisable(gamma, D)
    empty = np.full(-(-settings.updates // problem.updates_per_trace_entry), np.nan)
    zero, none = np.zeros_like(J), np.zeros_like(gamma)
    traces: dict[str, Any] = {name: empty.copy() for name in ("objective", "acceptance", "step_sizes", "amari")}
    good: dict[str, Any] = {"good_J": J.copy(), "good_gamma": gamma.copy()}
    sums: dict[str, Any] = {"J_sum": np.zeros(J.shape), "gamma_sum": np.zeros(gamma.shape)}
    state = LearningState(
        step=0, epsilon=settings.step_size, J=J, gamma=gamma, J_velocity=zero, gamma_velocity=none, **good, **sums, **traces
    )
    if settings.density_name == AUTO:
        state.signs = np.ones(len(J), dtype=np.int64)
    return state


def _update_once(problem: LearningProblem, state: LearningState, map: Map) -> LearningState:
    """Return the state after one update."""
    settings, rows = problem.settings, problem.batch(state.step)
    if state.signs is not None and state.step % CHOSEN_EVERY == 0 and state.step < settings.updates - settings.average:
        state.signs = choose_density_signs(state.J @ problem.Z[:: -(-len(problem.Z) // CHOSEN_BY)].T)
    if state.signs is not None and len(settings.rates) > 1 and state.step == settings.updates - settings.rates[-1][1]:
        _rotate_pairs(problem, state)
    energy = make_current_energy(problem, state)
    if settings.algorithm == "ebm":
        by_J, by_gamma, acceptance = contrastive_divergence_gradients(problem, energy, rows, state, map)
        state.accepted += acceptance
        largest = _apply_momentum_steps(settings, state, by_J, by_gamma)
        state.step += 1
        _restore_after_collapse(problem, state, acceptance if np.isfinite(largest) else 0.0)
    else:
        _update_without_chains(problem, energy, rows, state)
    if state.step > settings.updates - settings.average:
        state.J_sum += state.J
        state.gamma_sum += state.gamma
    if state.step % problem.updates_per_trace_entry == 0 or state.step == settings.updates:
        _record_trace(problem, state)
    return state


def _rotate_pairs(problem: LearningProblem, state: LearningState) -> None:
    """Rotate outputs by 45° that each mix two sources equally, and choose densities again, before the last rate."""
    rows = problem.Z[:: -(-len(problem.Z) // CHOSEN_BY)].T
    u = state.J @ rows
    pairs = find_mixed_pairs(u)
    if pairs:
        rotate_pairs(state.J, pairs, u.std(axis=1))
        state.J_velocity[...] = 0
        state.signs = choose_density_signs(state.J @ rows)


def _apply_momentum_steps(
    settings: LearningSettings, state: LearningState, J_gradient: Array, gamma_gradient: Array, rate_factor: float = 1.0
) -> float:
    """Take momentum steps along the gradients and return max |J|."""
    rate = settings.rate(state.step) * rate_factor
    largest = _momentum_step(state.J, state.J_velocity, J_gradient, rate, settings.momentum, settings.weight_decay)
    if settings.gamma_rate:
        _momentum_step(state.gamma, state.gamma_velocity, gamma_gradient, rate * settings.gamma_rate, settings.momentum, 0.0)
        if settings.learns_gamma:
            state.gamma, raised = raise_weights_to_normalisable(state.gamma, state.J.shape[1])
            state.raised += raised
    return largest


def _update_without_chains(problem: LearningProblem, energy: RowEnergy, rows: Array, state: LearningState) -> None:
    """Make an update without chains.  If the filters diverge, restore the last good ones and halve all rates."""
    settings = problem.settings
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            by_J, by_gamma = exact_model_gradients(problem, energy, rows, state.step)
            if settings.algorithm == "infomax" and settings.natural:
                # Steepest ascent in the norm |dJ J⁻¹|, which is invariant to the mixing of the rows, is G J'J (Amari et al. 1996):
                # J^{−T} becomes J, and in the outputs the step is (I − E ψ(u) u') J.
                by_J = by_J @ (state.J.T @ state.J)
            trouble = (
                "" if np.isfinite(_apply_momentum_steps(settings, state, by_J, by_gamma, 0.5**state.resets)) else ("left the finite range")
            )
            if state.step % PATIENCE == PATIENCE - 1 and not trouble:
                trouble = _save_or_describe_decline(problem, state)
        except np.linalg.LinAlgError:
            trouble = "became linearly dependent"
    state.step += 1
    if not trouble:
        return
    if state.resets == RETREATS:
        raise Diverged(
            f"filters {trouble} at update {state.step}, at 1/{2**RETREATS} of the rate",
            hint="use lower rates in --rate-schedule, or a larger --batch-size",
        )
    state.J[...], state.gamma[...] = state.good_J, state.good_gamma
    state.J_velocity[...], state.gamma_velocity[...] = 0, 0
    state.resets += 1


def _save_or_describe_decline(problem: LearningProblem, state: LearningState) -> str:
    """Save the filters if the objective is the best so far; return a description if it fell by more than a nat per dimension."""
    now = compute_objective(problem, make_current_energy(problem, state), state)
    if not now >= state.good_objective - state.J.shape[1]:
        return "lost what they had learned"
    if now > state.good_objective:
        state.good_J[...], state.good_gamma[...], state.good_objective = state.J, state.gamma, now
    return ""


def final_filters(problem: LearningProblem, state: LearningState) -> tuple[Array, Array]:
    """Return J and γ of the fit, float64: the last ones, or their mean over the last updates."""
    count = problem.settings.average
    if not count or state.step < problem.settings.updates:
        return state.J.astype(np.float64), state.gamma.astype(np.float64)
    return state.J_sum / count, state.gamma_sum / count


def _momentum_step(values: Array, velocity: Array, gradient: Array, rate: float, momentum: float, decay: float) -> float:
    """Update Δ ← μ Δ + ε (G − λ θ), θ ← θ + Δ in place and return max |θ|."""
    if values.dtype == np.float32:
        return fast.momentum_step(values, velocity, np.ascontiguousarray(gradient, dtype=np.float32), rate, momentum, decay)
    velocity *= momentum
    velocity += rate * (gradient - decay * values)
    values += velocity
    return float(np.abs(values).max())


def _restore_after_collapse(problem: LearningProblem, state: LearningState, acceptance: float) -> None:
    """Save the parameters of good updates; after a collapse restore them once, with a small step."""
    state.low = state.low + 1 if acceptance < COLLAPSED else 0
    if state.low >= PATIENCE or not np.isfinite(state.J).all():
        state.J[...], state.gamma[...] = state.good_J, state.good_gamma
        state.J_velocity[...], state.gamma_velocity[...] = 0, 0
        if state.resets:
            raise ChainsCollapsed(state)
        state.epsilon, state.low, state.resets = 0.1 * problem.settings.step_size, 0, 1
    elif state.step % PATIENCE == 0 and acceptance >= 0.5:
        state.good_J[...], state.good_gamma[...] = state.J, state.gamma


def _record_trace(problem: LearningProblem, state: LearningState) -> None:
    entry, every = (
        (state.step - 1) // problem.updates_per_trace_entry,
        state.step - (state.step - 1) // problem.updates_per_trace_entry * problem.updates_per_trace_entry,
    )
    state.objective[entry] = compute_objective(problem, make_current_energy(problem, state), state)
    if problem.settings.algorithm == "ebm":
        state.acceptance[entry], state.accepted = state.accepted / every, 0.0
        state.step_sizes[entry] = state.epsilon
    if problem.product is not None and len(state.J) == problem.product.shape[1]:
        state.amari[entry] = amari_distance(state.J @ problem.product)


def objective_name(problem: LearningProblem) -> str:
    """Return the name of the trace's objective: log_likelihood (square models), entropy (overcomplete InfoMax), else energy."""
    square = problem.filters == problem.Z.shape[1]
    if problem.settings.algorithm == "infomax" or problem.settings.expert == "infomax":
        return "log_likelihood" if square else "entropy"
    return "log_likelihood" if square and problem.settings.grid is None else "energy"


def compute_objective(problem: LearningProblem, energy: RowEnergy, state: LearningState) -> float:
    """Return the mean over the first WATCHED rows: log p(z) of a square model, else −E(z), which for InfoMax is H(y) − H(z)."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = -float(energy.energy(problem.Z[:WATCHED]).mean())
    if isinstance(energy, LinearExperts) and problem.filters == problem.Z.shape[1]:
        log_z = energy.expert.log_z(state.gamma.astype(np.float64)).sum()
        # log p(z) = log |det J| + Σ_i (−γ_i E_i(u_i) − log z(γ_i)): eq. 4.5 with p_i = e^{−γE}/z.
        value += float(np.linalg.slogdet(state.J.astype(np.float64))[1]) - float(log_z)
    return value


@dataclass(frozen=True)
class StochasticGradient(FixedLengthAlgorithm[LearningState]):
    """Learning by infomax, ebm or equil as an algorithm.  map: a map over the chains of an update, which may use threads."""

    problem: LearningProblem
    map: Map = map

    @property
    def state(self) -> type[LearningState]:
        return LearningState

    def init(self) -> LearningState:
        """Return filters from N(0, scale²), or of length 1 in random directions, and γ from the settings."""
        return _initial_state(self.problem)

    def step(self, state: LearningState) -> LearningState:
        """Make one update.

        Raises ChainsCollapsed if proposals are no longer accepted, Diverged if filters diverge at every rate.
        """
        return _update_once(self.problem, state, self.map)

    @property
    def steps(self) -> int:
        """The number of updates of the schedule."""
        return self.problem.settings.updates

    def memory(self) -> int:
        """Return the bytes of four arrays of the filters' size and their sum, and of an update's rows, momenta and outputs."""
        settings, (n, D), M = self.problem.settings, tuple(int(side) for side in self.problem.Z.shape), self.problem.filters
        rows = min(settings.batch_size, n) * (settings.proposals * D + 3 * D + 3 * M)
        return int(self.problem.Z.itemsize) * (4 * M * D + rows) + 8 * (M * D + n)

    def progress(self, state: LearningState) -> RunProgress:
        """Return the last entry of the trace: the objective, and for ebm the share of accepted proposals."""
        entries = state.step // self.problem.updates_per_trace_entry
        figure = f"{objective_name(self.problem).replace('_', ' ')} {state.objective[entries - 1]:.4f}" if entries else ""
        if entries and self.problem.settings.algorithm == "ebm":
            figure += f", acceptance {state.acceptance[entries - 1]:.2f}"
        return RunProgress(state.step, self.problem.settings.updates, figure)

    def result(self, state: LearningState) -> ICAFit:
        """Return the filters, with notes about the course of the fit."""
        problem = self.problem
        J, gamma = final_filters(problem, state)
        more: dict[str, Any] = {"experts": problem.experts(state)}
        if more["experts"][0] == "infomax":
            more["density"] = problem.settings.density
        if problem.settings.grid is not None:
            more["topography"] = pooling_weights(problem.settings.grid, problem.settings.neighbourhood)
            more["grid"] = np.array(problem.settings.grid)
        trace, notes = (
            _filled_trace(problem, state),
            tuple(_progress_notes(problem.settings.density_name, problem.settings.algorithm, state)),
        )
        return ICAFit(J, gamma, trace, state.step, objective_name(problem), more, notes, state.signs is not None)


def _progress_notes(density_name: str, algorithm: str, state: LearningState) -> Iterator[str]:
    if state.resets and algorithm != "ebm":
        yield f"rates were halved {state.resets}×: each time filters had broken down, and the last good ones were taken"
    elif state.resets:
        yield "the acceptance collapsed once: the last good filters and a small leapfrog step were taken instead"
    if density_name == "gaussian-cdf":
        yield "a Gaussian density decorrelates and no more: which rotation is found means nothing"
    if state.raised:
        yield f"γ left the normalisable region {state.raised} times and was set back to its border"


def _filled_trace(problem: LearningProblem, state: LearningState) -> ICATrace:
    """Return the entries of the trace that were reached."""
    entries = -(-state.step // problem.updates_per_trace_entry)
    iteration = np.minimum((np.arange(entries) + 1) * problem.updates_per_trace_entry, state.step)
    known = {"acceptance": state.acceptance, "step_size": state.step_sizes, "amari": state.amari}
    told = {name: None if np.isnan(values[:entries]).all() else values[:entries] for name, values in known.items()}
    return ICATrace(iteration, state.objective[:entries], **told)
