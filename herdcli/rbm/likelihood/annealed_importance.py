"""Annealed importance sampling of log Z, for harmoniums too large to enumerate.

Chains walk from independent visible units with biases a (log Z known) to the model through
    f_β(v) = exp( ((1−β) a + β b)·v + Σ_k A(β x_k) ),   x = c + v'W,   0 = β_0 < … < β_T = 1,
and accumulate  log w = Σ_t log f_{β_t}(v_t) − log f_{β_{t−1}}(v_t); v_{t+1} is one Gibbs step under β_t from v_t.
The mean of w is an unbiased estimate of Z_1/Z_0.  Units are sampled and x is computed in float32, weights in float64.
In the reverse direction, chains walk from samples of the model to the base with falling β; the mean of w then estimates Z_0/Z_1.  By
Jensen's inequality, the forward estimate of log Z errs downwards, and the reverse one upwards if its initial states cover all modes.
Source: Neal (2001); Salakhutdinov & Murray (2008), sec. 4.1, without the base model's own hidden units, whose
contribution is a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from herdcli.algorithm import FixedLengthAlgorithm, Map, RunProgress
from herdcli.errors import BadUsage
from herdcli.numerics import exact_arithmetic
from herdcli.numerics.row_selection import as_dense, select_rows
from herdcli.rbm.likelihood.log_z_estimates import LogZEstimate
from herdcli.rbm.likelihood.row_likelihood import row_log_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.rbm.units.base import UnitFamily
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, Matrix, array

TEMPERATURES_PER_STEP = 10
BACK_ROWS, BACK_TEMPERATURES = 100, 2000  # rows that are annealed back from the data, and the temperatures on the way
LONG = 1000  # sweeps at the model before chains are annealed back


@dataclass(frozen=True)
class AnnealingProblem:
    """M models to anneal in parallel, each from its own base-rate biases (D,), or, if `known` is given, back to them.

    known  rows (n, D) of each model's data, where the reverse chains start.  They do not start where forward chains ended, because they
           would miss the same modes.  A model without rows starts at hidden units that are on by chance.
    """

    models: tuple[Harmonium, ...]
    bases: tuple[Array, ...]
    chains: int = 100
    temperatures: int = 1000
    seed: int = 0
    known: tuple[Array, ...] | None = None

    @property
    def reverse(self) -> bool:
        """Whether chains walk from the models to the bases."""
        return self.known is not None

    @property
    def stream(self) -> Stream:
        """The stream of the random numbers."""
        return Stream.REVERSE_ANNEALING if self.reverse else Stream.ANNEALING


@dataclass
class AnnealingState:
    """The state of the chains: `values` in unit values, `log_weights` in nats."""

    values: Array = array("M chains D", "visible units of each chain, float32", kind="f")
    log_weights: Array = array("M chains", "log importance weight so far, float64", kind="f")
    step: int = 0


@dataclass(frozen=True)
class AnnealedImportanceSampling(FixedLengthAlgorithm[AnnealingState]):
    """Annealing as an algorithm; its result is the estimate of each model's log Z.  map: runs over the models."""

    problem: AnnealingProblem
    map: Map = map
    state = AnnealingState  # the type of its states

    @property
    def steps(self) -> int:
        """The number of steps of a whole run; one step is ten temperatures of every model."""
        return -(-self.problem.temperatures // TEMPERATURES_PER_STEP)

    def memory(self) -> int:
        """The size in bytes of the chains, and of their hidden units and natural parameters while a model is annealed."""
        D, K = self.problem.models[0].W.shape
        return int(self.problem.chains * (len(self.problem.models) * (4 * D + 8) + 4 * D + 16 * K))

    def init(self) -> AnnealingState:
        """Return the initial state of every chain.  Raises BadUsage unless chains ≥ 2 and temperatures ≥ 1."""
        problem = self.problem
        if problem.chains < 2:
            raise BadUsage(f"annealed importance sampling needs at least 2 chains for its standard error, not {problem.chains}")
        if problem.temperatures < 1:
            raise BadUsage(f"annealed importance sampling needs at least 1 temperature, not {problem.temperatures}")
        return _start_from_base_rates(problem) if problem.known is None else _start_from_rows(problem, problem.known)

    def step(self, state: AnnealingState) -> AnnealingState:
        """Anneal every model by ten temperatures."""
        betas = self._step_temperatures(state.step)
        list(self.map(partial(_anneal_chains, self.problem, state, betas), range(len(self.problem.models))))
        state.step += 1
        return state

    def _step_temperatures(self, step: int) -> Array:
        """Return the temperatures of a step, including the last one of the step before."""
        first, last = step * TEMPERATURES_PER_STEP, self.problem.temperatures
        betas = np.arange(first, min(first + TEMPERATURES_PER_STEP, last) + 1) / last
        return 1.0 - betas if self.problem.reverse else betas

    def progress(self, state: AnnealingState) -> RunProgress:
        """Return the progress with the inverse temperature β of the chains."""
        last = self.problem.temperatures
        beta = min(state.step * TEMPERATURES_PER_STEP, last) / last  # the last step may be shorter
        return RunProgress(state.step, self.steps, f"β {1.0 - beta if self.problem.reverse else beta:.2f}")

    def result(self, state: AnnealingState) -> list[LogZEstimate]:
        """Return the estimate of log Z of each model."""
        return _log_z_estimates(self.problem, state)


def likelihood_lower_bounds(
    h: Harmonium, rows: Array, base: Array, temperatures: int, seed: int, unit: int = 0, *, map: Map = map
) -> Array:
    """Compute lower bounds, in expectation, on log p(v) (n,) of rows (n, D) under the annealed chain itself, which ends near the model.

    Each row is the start of a reverse annealing run.  Unlike an estimate of log Z this does not err upwards: a mode that the chains miss
    lowers the bound of the rows in it.  Source: Burda, Grosse & Salakhutdinov (2015), sec. 4, RAISE, eq. 9.
    """
    run = AnnealedImportanceSampling(AnnealingProblem((h,), (base,), len(rows), temperatures, seed + unit, known=(rows,)), map)
    state = AnnealingState(rows[None].astype(np.float32), np.zeros((1, len(rows))))
    while not run.done(state):
        state = run.step(state)
    # With x_{k−1} sampled from the reversal of the move at β_k, the chain's own density of a path divided by that of the reverse path is
    # f_K(v)/Z_0 · Π f_{k−1}(x_{k−1})/f_k(x_{k−1}).  By Jensen's inequality its mean logarithm is at most log p(v).  f_K(v) is e^{−F(v)}.
    found: Array = state.log_weights[0] - h.free_energy(rows) - _base_log_z(h, base)
    return found


def conservative_likelihood_correction(
    h: Harmonium, rows: Matrix, log_partition: float, base: Array, temperatures: int, seed: int, unit: int = 0, *, map: Map = map
) -> float:
    """Return the correction, at most 0, that makes a mean log-likelihood of rows (n, D) by an estimate of log Z err downwards.

    At most BACK_ROWS evenly spread rows are annealed back.  The same rows are compared under both, so the choice of rows matters little.
    The bound is on the chains' own distribution; if the chains miss a mode of the model and the estimate does not, the estimate is lower.
    """
    some = h.visible.round_to_states(
        np.asarray(as_dense(select_rows(rows, slice(None, None, -(-int(rows.shape[0]) // BACK_ROWS)))), dtype=np.float64)
    )
    own = row_log_likelihood(h, some, log_partition, map=map)
    return min(0.0, float((likelihood_lower_bounds(h, some, base, temperatures, seed, unit, map=map) - own).mean()))


def _base_log_z(h: Harmonium, base: Array) -> float:
    """Compute log Z at β = 0: Σ A(a) of the visible units plus Σ A(0) of the hidden ones."""
    hidden = h.hidden.summed_log_partition(np.zeros(h.W.shape[1]))
    return float(h.visible.summed_log_partition(np.array(base, dtype=np.float64)) + float(hidden))


def _start_from_base_rates(problem: AnnealingProblem) -> AnnealingState:
    """Sample every chain from its base-rate model."""
    values = np.empty((len(problem.models), problem.chains, problem.models[0].W.shape[0]), dtype=np.float32)
    for m, (h, a) in enumerate(zip(problem.models, problem.bases, strict=True)):
        first = generator(problem.seed, problem.stream, unit=m)
        h.visible.layer().sample(np.zeros_like(values[m]), a.astype(np.float32), values[m], first)
    return AnnealingState(values, np.zeros(values.shape[:2]))


def _start_from_rows(problem: AnnealingProblem, rows: Sequence[Array]) -> AnnealingState:
    """Start the reverse chains at rows (n, D) of each model's data, followed by LONG sweeps at the model itself."""
    values = np.empty((len(problem.models), problem.chains, problem.models[0].W.shape[0]), dtype=np.float32)
    for m, (h, known) in enumerate(zip(problem.models, rows, strict=True)):
        draws = generator(problem.seed, Stream.LONG, unit=m)
        W, b, c = (np.ascontiguousarray(part, dtype=np.float32) for part in (h.W, h.b, h.c))
        sweeper = GibbsSweeper(W, b, c, h.visible.layer(), h.hidden.layer(), draws)
        hidden = sweeper.hidden.sample_unbiased_states((problem.chains, len(c)), draws)
        visible, means = np.empty_like(values[m]), np.empty_like(hidden)
        natural = np.empty_like(visible)
        if len(known):
            visible[...] = h.visible.round_to_states(known[np.linspace(0, len(known) - 1, problem.chains).astype(int)])
            sweeper.update_hidden(visible, means, hidden)
        for _ in range(LONG):
            sweeper.update_visible(hidden, natural, visible)
            sweeper.update_hidden(visible, means, hidden)
        values[m] = visible
    return AnnealingState(values, np.zeros(values.shape[:2]))


def _anneal_chains(problem: AnnealingProblem, state: AnnealingState, betas: Array, m: int) -> None:
    """Anneal model m's chains through the temperatures `betas`, with weights and values updated in place."""
    h, a, v, log_weights = problem.models[m], problem.bases[m], state.values[m], state.log_weights[m]
    random = generator(problem.seed, problem.stream, unit=m, step=state.step + 1)
    W, c = h.W.astype(np.float32), h.c.astype(np.float32)
    visible_layer, hidden_layer = h.visible.layer(), h.hidden.layer()
    x, natural, hidden = np.empty((len(v), len(c)), np.float32), np.empty_like(v), np.empty((len(v), len(c)), np.float32)
    # f_β(v) = h(v) exp((1 − β) a·v + β b·v + Σ_k A(β x_k)), x = W'v + c, goes from the base model (β = 0) to the harmonium (β = 1).
    # A chain at v gains log f_β(v) − log f_β'(v) before it moves at β, so that E[e^gains] = Z_1/Z_0 even if it mixes badly (Neal 2001).
    # In a sweep at β, h given v has the natural parameters β x, and v given h has β (Wh + b) + (1 − β) a.
    for before, beta in pairwise(betas.tolist()):
        exact_arithmetic.matrix_product(v, W, out=x)
        log_weights += (beta - before) * exact_arithmetic.matrix_product(v, h.b - a) + hidden_log_partition_change(
            h.hidden, x + h.c, before, beta
        )
        if beta == 0.0:
            return
        hidden_layer.sample(x, c, hidden, random, beta=beta)
        exact_arithmetic.matrix_product(hidden, W.T, out=natural)
        visible_layer.sample(natural, (h.b + (1.0 - beta) / beta * a).astype(np.float32), v, random, beta=beta)


def hidden_log_partition_change(units: UnitFamily, x: Array, previous_beta: float, beta: float) -> Array:
    """Compute the growth of the hidden log-partition between two temperatures.

    It is Σ_k A(β x_k) − A(β' x_k) with β' = `previous_beta`, x (n, K) float64.
    """
    if not units.two_state or units.states is None:
        return np.asarray(units.summed_log_partition(beta * x) - units.summed_log_partition(previous_beta * x))
    low, high = units.states
    gap = high - low
    linear = (low + gap / 2) * x.sum(axis=1)
    np.abs(x, out=x)
    linear += gap / 2 * x.sum(axis=1)
    # A(a) = (l + g/2) a + g/2 |a| + log(1 + e^{−g|a|}): the difference of the last term at βx and β'x is the log of one quotient.
    ratio = exact_arithmetic.exp(-gap * beta * x)
    ratio += 1.0
    x *= -gap * previous_beta
    exact_arithmetic.exp(x, out=x)
    x += 1.0
    ratio /= x
    exact_arithmetic.log(ratio, out=ratio)
    result: Array = (beta - previous_beta) * linear + ratio.sum(axis=1)
    return result


def _log_z_estimates(problem: AnnealingProblem, state: AnnealingState) -> list[LogZEstimate]:
    """Return log Z of each model after all steps, with the standard error of log(mean weight) by the delta method.

    The error measures the spread of the weights; with too few temperatures the weights miss whole modes and the error is too small.
    """
    found = []
    for h, a, log_weights in zip(problem.models, problem.bases, state.log_weights, strict=True):
        start = h.visible.summed_log_partition(a.copy()) + float(h.hidden.summed_log_partition(np.zeros(h.W.shape[1])))
        top = log_weights.max()
        weights = exact_arithmetic.exp(log_weights - top)
        mean = weights.mean()
        error = weights.std(ddof=1) / (mean * np.sqrt(len(weights)))
        # Weights average Z_1/Z_0 in the forward direction and Z_0/Z_1 in reverse; `start` is log Z_0 = Σ A(a) of the visible units plus Σ
        # A(0) of the hidden ones.
        log_z = start - top - exact_arithmetic.log(mean) if problem.reverse else start + top + exact_arithmetic.log(mean)
        effective = float(exact_arithmetic.integer_power(weights.sum(), 2) / np.square(weights).sum())
        found.append(LogZEstimate(float(log_z), float(error), effective, problem.temperatures))
    return found
