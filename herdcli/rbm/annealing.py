"""log Z of harmoniums too large to enumerate: annealed importance sampling.

Chains walk from independent visible units with biases a (log Z known) to the model through
    f_β(v) = exp( ((1−β) a + β b)·v + Σ_k A(β x_k) ),   x = c + v'W,   0 = β_0 < … < β_T = 1,
collecting  log w = Σ_t log f_{β_t}(v_t) − log f_{β_{t−1}}(v_t); v_{t+1} is one Gibbs step under β_t from v_t.
The mean of w is an unbiased estimate of Z_1/Z_0.  Units are sampled and x is formed in float32, weights in float64.
Source: Neal (2001); Salakhutdinov & Murray (2008), sec. 4.1, without the base model's own hidden units, whose
contribution is a constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from herdcli import fast
from herdcli.errors import BadUsage
from herdcli.rbm.gibbs import uniform_words
from herdcli.rbm.likelihood import Map, summed_log_partition
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units import Family
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array

TEMPERATURES_PER_STEP = 10


@dataclass(frozen=True)
class Problem:
    """M models to anneal side by side, each from its own base-rate biases (D,)."""

    models: tuple[Harmonium, ...]
    bases: tuple[Array, ...]
    chains: int = 100
    temperatures: int = 1000
    seed: int = 0


@dataclass
class State:
    """Where the chains are: `values` in unit values, `log_weights` in nats."""

    values: Array = array("M chains D", "visible units of each chain, float32", kind="f")
    log_weights: Array = array("M chains", "log importance weight so far, float64", kind="f")
    step: int = 0


@dataclass(frozen=True)
class Estimate:
    """log Z in nats and its standard error."""

    log_partition: float
    standard_error: float


def base_rate(rows: Array, units: Family) -> Array:
    """Visible biases (D,) of independent units with the means of `rows` (n, D), one row in either state added.

    Source: Salakhutdinov & Murray (2008), sec. 4.1; the added rows keep constant units finite.
    """
    low, high = units.values
    on = (np.sum((rows - low) / (high - low), axis=0, dtype=np.float64) + 1.0) / (len(rows) + 2.0)
    biases: Array = np.log(on / (1.0 - on)) / (high - low)
    return biases


def init(problem: Problem) -> State:
    """Every chain drawn from its base-rate model.  Raises BadUsage unless chains ≥ 2 and temperatures ≥ 1."""
    if problem.chains < 2:
        raise BadUsage(f"annealed importance sampling needs at least 2 chains for its standard error, not {problem.chains}")
    if problem.temperatures < 1:
        raise BadUsage(f"annealed importance sampling needs at least 1 temperature, not {problem.temperatures}")
    values = np.empty((len(problem.models), problem.chains, problem.models[0].W.shape[0]), dtype=np.float32)
    for m, (h, a) in enumerate(zip(problem.models, problem.bases, strict=True)):
        first = generator(problem.seed, Stream.ANNEALING, unit=m)
        _draw(h.visible, np.zeros_like(values[m]), a.astype(np.float32), 1.0, first, values[m])
    return State(values, np.zeros(values.shape[:2]))


def total_steps(problem: Problem) -> int:
    """Steps of a whole run; one step is ten temperatures of every model."""
    return -(-problem.temperatures // TEMPERATURES_PER_STEP)


def step(problem: Problem, state: State, *, map: Map = map) -> State:
    """Ten temperatures further; `map` runs over models."""
    first = state.step * TEMPERATURES_PER_STEP
    betas = np.arange(first, min(first + TEMPERATURES_PER_STEP, problem.temperatures) + 1) / problem.temperatures
    for _ in map(lambda m: _anneal(problem, state, betas, m), range(len(problem.models))):
        pass
    state.step += 1
    return state


def _anneal(problem: Problem, state: State, betas: Array, m: int) -> None:
    """Take model m's chains through the temperatures `betas`, weights and values updated in place."""
    h, a, v, log_weights = problem.models[m], problem.bases[m], state.values[m], state.log_weights[m]
    random = generator(problem.seed, Stream.ANNEALING, unit=m, step=state.step + 1)
    W, c = h.W.astype(np.float32), h.c.astype(np.float32)
    x, natural, hidden = np.empty((len(v), len(c)), np.float32), np.empty_like(v), np.empty((len(v), len(c)), np.float32)
    for before, beta in pairwise(betas.tolist()):
        np.matmul(v, W, out=x)
        log_weights += (beta - before) * (v @ (h.b - a)) + _gain(h.hidden, x + h.c, before, beta)
        _draw(h.hidden, x, c, beta, random, hidden)
        np.matmul(hidden, W.T, out=natural)
        _draw(h.visible, natural, (h.b + (1.0 - beta) / beta * a).astype(np.float32), beta, random, v)


def _gain(units: Family, x: Array, before: float, beta: float) -> Array:
    """Σ_k A(β x_k) − A(β' x_k) with β' = `before`, for x (n, K) float64; see `summed_log_partition` for A."""
    low, high = units.values
    gap = high - low
    linear = (low + gap / 2) * x.sum(axis=1)
    np.abs(x, out=x)
    linear += gap / 2 * x.sum(axis=1)
    ratio = np.exp(-gap * beta * x)
    ratio += 1.0
    x *= -gap * before
    np.exp(x, out=x)
    x += 1.0
    ratio /= x
    np.log(ratio, out=ratio)
    result: Array = (beta - before) * linear + ratio.sum(axis=1)
    return result


def _draw(units: Family, natural: Array, bias: Array, beta: float, random: np.random.Generator, out: Array) -> None:
    """Sample units with natural parameters β (natural + bias) into `out`; all float32, `natural` is overwritten."""
    low, high = units.values
    words = uniform_words(random, len(natural), natural.shape[1] + 1)
    fast.two_state_sample(natural, bias, beta * (high - low), low, high - low, words, low, high, out)


def estimates(problem: Problem, state: State) -> list[Estimate]:
    """log Z of each model once all steps are done, with the standard error of log(mean weight) by the delta method.

    The error measures the spread of the weights; with too few temperatures the weights miss whole modes and it is too small.
    """
    found = []
    for h, a, log_weights in zip(problem.models, problem.bases, state.log_weights, strict=True):
        start = summed_log_partition(h.visible, a.copy()) + float(summed_log_partition(h.hidden, np.zeros(h.W.shape[1])))
        top = log_weights.max()
        weights = np.exp(log_weights - top)
        mean = weights.mean()
        error = weights.std(ddof=1) / (mean * np.sqrt(len(weights)))
        found.append(Estimate(float(start + top + np.log(mean)), float(error)))
    return found
