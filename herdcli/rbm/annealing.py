"""log Z of harmoniums too large to enumerate: annealed importance sampling.

Chains walk from independent visible units with biases a (log Z known) to the model through
    f_β(v) = exp( ((1−β) a + β b)·v + Σ_k A(β x_k) ),   x = c + v'W,   0 = β_0 < … < β_T = 1,
collecting  log w = Σ_t log f_{β_t}(v_t) − log f_{β_{t−1}}(v_t); v_{t+1} is one Gibbs step under β_t from v_t.
The mean of w is an unbiased estimate of Z_1/Z_0.
Source: Neal (2001); Salakhutdinov & Murray (2008), sec. 4.1, without the base model's own hidden units, whose
contribution is a constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from herdcli.errors import BadUsage
from herdcli.rbm.likelihood import Map, summed_log_partition
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units import Family
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array

TEMPERATURES_PER_STEP = 10
LIMIT = 700.0  # natural parameters beyond ±700 decide a unit for certain; e^700 is still a float64


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

    values: Array = array("M chains D", "visible units of each chain", kind="f")
    log_weights: Array = array("M chains", "log importance weight so far", kind="f")
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
    values = np.empty((len(problem.models), problem.chains, problem.models[0].W.shape[0]))
    for m, (h, a) in enumerate(zip(problem.models, problem.bases, strict=True)):
        uniform = generator(problem.seed, Stream.ANNEALING, unit=m).random(values[m].shape)
        _draw(h.visible, np.broadcast_to(a, values[m].shape).copy(), uniform, values[m])
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
    uniform_hidden, uniform_visible = np.empty((len(v), h.W.shape[1])), np.empty(v.shape)
    hidden = np.empty(uniform_hidden.shape)
    for before, beta in pairwise(betas.tolist()):
        x = v @ h.W + h.c
        log_weights += (beta - before) * (v @ (h.b - a))
        log_weights += summed_log_partition(h.hidden, beta * x) - summed_log_partition(h.hidden, before * x)
        _draw(h.hidden, beta * x, random.random(out=uniform_hidden), hidden)
        natural = hidden @ h.W.T + h.b
        natural *= beta
        natural += (1.0 - beta) * a
        _draw(h.visible, natural, random.random(out=uniform_visible), v)


def _draw(units: Family, natural: Array, uniform: Array, out: Array) -> None:
    """Sample units into `out`: on where u·(1 + e^{−g·a}) < 1.  `natural` is overwritten."""
    low, high = units.values
    np.multiply(natural, low - high, out=natural)
    np.clip(natural, -LIMIT, LIMIT, out=natural)
    np.exp(natural, out=natural)
    np.add(natural, 1.0, out=natural)
    np.multiply(natural, uniform, out=natural)
    out[...] = np.where(natural < 1.0, float(high), float(low))


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
