"""log Z of counts of words at every length, by populations of hidden states that are carried along the lengths.

Hidden states of rows of N words have  p_N(h) ∝ h(h) e^{c·h + N G(h)},  G(h) = log Σ_j e^{b_j + (W h)_j}.  Of no words they are
independent, log Z_0 = Σ A(c); and from there the number of words itself is what chains are annealed along:

    Z_{N+s} / Z_N = E_{p_N}[e^{s G(h)}],

so that one way gives log Z of all lengths that it passes, with nothing interpolated.  After each step a Gibbs sweep at the new length
follows: N words given h, and h given these.  Populations, weights that are drawn anew and errors are those of `populations`.
Source: Neal (2001); Del Moral, Doucet & Jasra (2006), sec. 3; the model: Salakhutdinov & Hinton (2009).
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np

from herdcli.numerics import real
from herdcli.rbm.annealing import Estimate
from herdcli.rbm.gibbs import Drawings, Sweeper, layer
from herdcli.rbm.likelihood import Map
from herdcli.rbm.model import Harmonium
from herdcli.rbm.populations import POPULATIONS, STUDENT, WIDER
from herdcli.rbm.repeated import AGREED, LEAST_EFFECTIVE, NARROW
from herdcli.rbm.walk import CONDITIONAL, FEWEST, PILOT_ROWS, drawn_anew, effective
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

LEVELS = 6  # runs at most, each of twice the sweeps of the last
STRIDE = 8  # a step is at most an eighth of the words so far: hidden states that only long rows have are met on the way or not at all


@dataclass(frozen=True)
class Lengthened:
    """log Z (L,) of the lengths, and an estimate of its mean over rows: error, chains in effect, sweeps, whether runs agree."""

    log_z: Array
    mean: Estimate


@dataclass
class Walk:
    """Hidden states (n, K) float32, G (n,) float64 of each, and the shares of words given it (n, D) float32, to a factor."""

    sweeper: Sweeper
    hidden: Array
    growth: Array
    shares: Array

    @classmethod
    def begun(cls, h: Harmonium, rows: int, draws: np.random.Generator) -> Walk:
        """Rows of no words: hidden states drawn at their biases."""
        W, b, c = (np.ascontiguousarray(part, dtype=np.float32) for part in (h.W, h.b, h.c))
        sweeper = Sweeper(W, b, c, Drawings(1), layer(h.hidden), draws)
        hidden = np.empty((rows, len(c)), dtype=np.float32)
        sweeper.hidden.sample(np.zeros_like(hidden), c, hidden, draws)
        walk = cls(sweeper, hidden, np.empty(rows), np.empty((rows, len(b)), dtype=np.float32))
        walk._look()
        return walk

    def sweep(self, length: int) -> None:
        """Words given hidden states, and these given the words."""
        words = Drawings(length).drawn(self.shares, self.sweeper.draws)
        self.sweeper.up(words, np.empty_like(self.hidden), self.hidden)
        self._look()

    def _look(self) -> None:
        natural = self.shares
        real.product(self.hidden, self.sweeper.W.T, out=natural)
        natural += self.sweeper.b
        top = natural.max(axis=1)
        natural -= top[:, None]
        real.exp(natural, out=natural)
        self.growth = top + real.log(natural.sum(axis=1, dtype=np.float64))

    def select(self, places: Array) -> None:
        """Row i becomes what row places[i] is, places (n,)."""
        self.hidden, self.growth, self.shares = (np.ascontiguousarray(part[places]) for part in (self.hidden, self.growth, self.shares))


def pilot(h: Harmonium, longest: int, seed: int, unit: int) -> Array:
    """Lengths (T + 1,) from 0 to the longest, each as far from the last as the conditional effective sample size allows."""
    draws = generator(seed, Stream.PILOT, unit=unit)
    walk, log_weights, places = Walk.begun(h, PILOT_ROWS, draws), np.zeros(PILOT_ROWS), [0]
    while places[-1] < longest:
        step = _furthest(walk.growth, log_weights, min(longest - places[-1], max(1, places[-1] // STRIDE)))
        log_weights += step * walk.growth
        if effective(log_weights) < 0.5 * PILOT_ROWS:
            walk.select(drawn_anew(log_weights, draws))
            log_weights.fill(0.0)
        places.append(places[-1] + step)
        walk.sweep(places[-1])
    return np.array(places)


def _furthest(growth: Array, log_weights: Array, most: int) -> int:
    """The most words, at least 1, that keep the conditional effective sample size, by bisection."""
    share = real.exp(log_weights - real.log_sum_exp(log_weights))

    def kept(step: int) -> bool:
        g = real.exp(step * (growth - growth.max()))
        return bool(real.power(real.product(share, g), 2) >= CONDITIONAL * real.product(share, np.square(g)))

    low, high = 1, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if kept(middle) else (low, middle)
    return low


def refined(places: Array, level: int) -> tuple[Array, int]:
    """2^level times as many places as those of the pilot, as far as there are whole numbers, and the sweeps at each for the rest."""
    wanted = max(len(places) - 1, FEWEST) << level
    at = np.linspace(0, len(places) - 1, wanted + 1)
    finer = np.unique(np.rint(np.interp(at, np.arange(len(places)), places)).astype(np.int64))
    return finer, max(1, round(wanted / (len(finer) - 1)))


def annealed(
    h: Harmonium, lengths: Array, counts: Array, *, chains: int, most: int, seed: int, unit: int = 0, once: bool = False, map: Map = map
) -> Lengthened:
    """log Z_N of sorted lengths N (L,), of which there are `counts` (L,) rows.

    Runs end once two agree, or the next would take more sweeps than `most`.  once  one run alone.
    """
    places = pilot(h, int(lengths[-1]), seed, unit)
    found: list[Lengthened] = []
    for level in range(LEVELS):
        path, sweeps = refined(places, level)
        if found and (len(path) - 1) * sweeps > most:
            break
        one = partial(_carried, h, path, sweeps, lengths, max(2, -(-chains // POPULATIONS)), seed, unit, level)
        found.append(_pooled(list(map(one, range(POPULATIONS))), counts, (len(path) - 1) * sweeps))
        if once or (_sound(found) and found[-1].mean.standard_error <= NARROW):
            break
    last = found[-1]
    sound = _sound(found) if not once else (last.mean.effective or 0.0) >= LEAST_EFFECTIVE
    error = last.mean.standard_error
    if not sound and len(found) > 1:
        error = max(error, abs(last.mean.log_partition - found[-2].mean.log_partition) / STUDENT)
    return Lengthened(last.log_z, Estimate(last.mean.log_partition, error, last.mean.effective, last.mean.temperatures, sound))


def _carried(
    h: Harmonium, path: Array, sweeps: int, lengths: Array, rows: int, seed: int, unit: int, level: int, p: int
) -> tuple[Array, Array]:
    """Of one population: log of its estimates of Z (L,), and the squared share of each first row's descendants, summed, (L,)."""
    draws = generator(seed, Stream.POPULATIONS, unit=(unit * POPULATIONS + p) * 64 + level)
    walk, log_weights, ancestors = Walk.begun(h, rows, draws), np.zeros(rows), np.arange(rows)
    log_mean = float(h.hidden.summed_log_partition(np.array(h.c, dtype=np.float64)))
    log_z, squares = np.empty(len(lengths)), np.empty(len(lengths))
    for before, after in pairwise(path.tolist()):
        for i in np.flatnonzero((lengths > before) & (lengths <= after)):
            reached = log_weights + (lengths[i] - before) * walk.growth
            log_z[i] = log_mean + real.log_sum_exp(reached) - real.log(rows)
            families = np.bincount(ancestors, real.exp(reached - real.log_sum_exp(reached)))
            squares[i] = np.square(families).sum()
        log_weights += (after - before) * walk.growth
        if effective(log_weights) < 0.5 * rows:
            places = drawn_anew(log_weights, draws)
            log_mean += float(real.log_sum_exp(log_weights) - real.log(rows))
            log_weights.fill(0.0)
            walk.select(places)
            ancestors = ancestors[places]
        for _ in range(sweeps):
            walk.sweep(after)
    return log_z, squares


def _pooled(parts: list[tuple[Array, Array]], counts: Array, sweeps: int) -> Lengthened:
    """The populations' estimates together: of each length, and of the mean over rows with its standard error."""
    each, squares = (np.stack(side) for side in zip(*parts, strict=True))
    top = each.max(axis=0)
    shares = real.exp(each - top)
    log_z = top + real.log(shares.mean(axis=0))
    weight = counts / counts.sum()
    # By the delta method the mean of log Z over rows moves by the mean of each population's relative excess.
    excess = real.product(shares / shares.mean(axis=0), weight)
    error = WIDER * float(excess.std(ddof=1) / np.sqrt(len(excess)))
    effective = real.product(np.square(shares.sum(axis=0)) / (np.square(shares) * squares).sum(axis=0), weight)
    return Lengthened(log_z, Estimate(float(real.product(log_z, weight)), error, float(effective), sweeps))


def _sound(found: list[Lengthened]) -> bool:
    """Enough chains count, and the last two runs agree."""
    if len(found) < 2 or (found[-1].mean.effective or 0.0) < LEAST_EFFECTIVE:
        return False
    one, other = found[-2].mean, found[-1].mean
    allowed = AGREED + STUDENT * float(real.hypot(one.standard_error, other.standard_error))
    return abs(one.log_partition - other.log_partition) <= allowed
