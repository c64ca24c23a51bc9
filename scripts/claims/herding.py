"""What Welling (2009) says in words of herding itself, as numbers: sec. 3 to 6 and 8, on models small enough for exact maximisers.

    python scripts claims/herding FOLDER [--quick] [--only CLAIM …]           (makes claims-herding.csv)

tipi          P1 to P3 of ℓ₀ along random lines in weight space, fully visible and with hidden units.
recurrence    proposition 2: does every update from far outside make the norm smaller, and do runs stay within a ball?
equivalence   proposition 4: the same states from other step sizes, scales and offsets.
start         are the laws of the states of runs from other starts as alike as those of two halves of one run?
sequences     how many different sequences of n states there are in a run, and how that grows with n.
mixing        integrated autocorrelation and errors of moments beside a Gibbs sampler of the likeliest model, sweep for sweep.

Models: 8 pixels with the features x and xx, and machines of 8 pixels and 4 hidden units with x, xz (and z).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from claims.claim_rows import SETS, bits, told, write
from shared.figure_pipeline import Row

from herdcli.algorithm import run_algorithm
from herdcli.herding import maximisers, visible_herding
from herdcli.herding.binary_features import feature_sums
from herdcli.schema import Array

PIXELS, HIDDEN = 8, 4
FEATURES = "x,xx"


@dataclass(frozen=True)
class Tipi:
    """ℓ₀ of eq. 7 with the features x and x z' (and z) of ±1 units; K = 0 leaves x and the pairs x x'.

    The weights w lie in one vector: of x, then of the pairs, then of z.
    """

    rows: Array  # (N, D)
    hidden: int
    bias: bool = False

    @property
    def states(self) -> Array:
        """(2^D, D) all visible states."""
        return np.asarray(maximisers.enumerate_states(self.rows.shape[1], "spin"), dtype=np.float64)

    @property
    def size(self) -> int:
        D = self.rows.shape[1]
        return D + D * self.hidden + self.hidden * self.bias if self.hidden else D * (D + 1) // 2

    def scored(self, w: Array, x: Array) -> tuple[Array, Array]:
        """(n,) the highest score of each row over z, and (n, F) the features at which it is reached."""
        D, K = x.shape[1], self.hidden
        if not K:
            pairs = np.triu_indices(D, 1)
            g = np.hstack([x, x[:, pairs[0]] * x[:, pairs[1]]])
            return g @ w, g
        field = x @ w[D : D + D * K].reshape(D, K) + (w[D + D * K :] if self.bias else 0.0)
        z = np.where(field >= 0, 1.0, -1.0)
        g = np.hstack([x, (x[:, :, None] * z[:, None, :]).reshape(len(x), -1), *([z] if self.bias else [])])
        return g @ w, g

    def value(self, w: Array) -> float:
        """ℓ₀(w)."""
        return float(self.scored(w, self.rows)[0].mean() - self.scored(w, self.states)[0].max())

    def gradient(self, w: Array) -> Array:
        """∇ℓ₀ (F,), eq. 8; of equal states the first."""
        score, g = self.scored(w, self.states)
        return np.asarray(self.scored(w, self.rows)[1].mean(axis=0) - g[score.argmax()])


def models(name: str) -> dict[str, Tipi]:
    """The three models of one set."""
    small = np.asarray(bits(name, 8, 300), dtype=np.float64)
    wide = np.asarray(bits(name, 6, 300), dtype=np.float64)
    title = name.partition(".")[0].partition("_")[0]
    return {
        f"{title}, visible": Tipi(wide, 0),
        f"{title}, hidden": Tipi(small, HIDDEN),
        f"{title}, hidden with bias": Tipi(small, HIDDEN, bias=True),
    }


def tipi(quick: bool) -> Iterator[Row]:
    """Continuity, linearity between kinks and kinks along lines; β; ℓ₀ ≤ 0; the middle of two weights against the mean of their ℓ₀."""
    lines, points = (3, 200) if quick else (10, 1000)
    for name in SETS[: 1 if quick else None]:
        for title, model in models(name).items():
            random = np.random.default_rng(1)
            bound = 2 * np.sqrt(model.size)  # of |∇ℓ₀|, as all features are ±1
            smooth, steep, kinks, scale, top, bent = [], [], [], [], [], []
            for _ in range(lines):
                start, along = random.standard_normal((2, model.size))
                along /= np.linalg.norm(along)
                places = np.linspace(-4, 4, points)
                values = np.array([model.value(start + place * along) for place in places])
                slopes = np.array([model.gradient(start + place * along) @ along for place in places])
                change, width = np.diff(values), places[1] - places[0]
                same = np.abs(np.diff(slopes)) < 1e-9  # most such intervals hold no kink
                smooth.append(np.mean(np.abs(change[same] - width * slopes[:-1][same]) < 1e-9))
                steep.append(np.abs(change).max() / (width * bound))
                kinks.append(np.sum(~same))
                scale += [abs(model.value(beta * start) / (beta * model.value(start)) - 1) for beta in (1e-6, 1e-3, 1e3, 1e6)]
                top.append(values.max())
                first, second = random.standard_normal((2, 50, model.size))
                gaps = [model.value((a + b) / 2) - (model.value(a) + model.value(b)) / 2 for a, b in zip(first, second, strict=True)]
                bent.append(np.mean(np.array(gaps) < -1e-9))
            yield told("P1", title, "linear between kinks", smooth)
            yield told("P1", title, "largest slope over its bound", max(steep))
            yield told("P1", title, "kinks on a line", kinks)
            yield told("P2", title, "largest value", max(top))
            yield told("P2", title, "pairs whose middle lies below", bent)
            yield told("P3", title, "largest relative error of scaling", max(scale))
    # Two pixels, one hidden unit, each of the four rows once: ℓ₀(w) = mean(|w₁ + w₂|, |w₁ − w₂|) − |w₁| − |w₂| = −min(|w₁|, |w₂|), which
    # is 0 on both axes and −½ half way between (1, 0) and (0, 1).
    model = Tipi(np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]), 1)
    ends, middle = np.array([[0.0, 0, 1, 0], [0.0, 0, 0, 1]]), np.array([0.0, 0, 0.5, 0.5])
    yield told("P2", "two pixels", "middle less mean of the ends", model.value(middle) - np.mean([model.value(w) for w in ends]))


def recurrence(quick: bool) -> Iterator[Row]:
    """Updates from far outside, in random directions and along one pair's weight; the norms of runs from there and from near."""
    starts, steps = (5, 200) if quick else (20, 5000)
    for name in SETS[: 1 if quick else None]:
        for title, model in models(name).items():
            random = np.random.default_rng(2)
            falls, home, largest, flat = [], [], [], []
            for run in range(starts):
                w = random.standard_normal(model.size)
                w *= 1000 / np.linalg.norm(w)
                after = w + model.gradient(w)
                falls.append(np.linalg.norm(after) < np.linalg.norm(w))
                if run < 3:
                    norms = trace(model, w * 0.1, steps)
                    home.append(norms[-1] / norms[0])
                    norms = trace(model, w * 1e-3, steps)
                    largest.append(norms[len(norms) // 2 :].max() / norms[: len(norms) // 2].max())
                # One weight alone: every row has the same score |w_jk|, so that ℓ₀ = 0 however large it is (the premise of sec. 6 fails).
                axis = np.zeros(model.size)
                axis[-1] = 1.0
                near = random.standard_normal(model.size) * 0.1
                flat.append([model.value(beta * axis) == 0 for beta in (1, 1e3, 1e6)])
                grown = [np.linalg.norm(w0 + model.gradient(w0)) > np.linalg.norm(w0) for w0 in (beta * axis + near for beta in (1e2, 1e4))]
                flat[-1] += grown
            yield told("proposition 2", title, "updates from 1000 that shorten", np.mean(falls))
            yield told("proposition 2", title, "norm after a run from 100 over before", max(home))
            yield told("proposition 2", title, "largest norm, second half over first", max(largest))
            yield told("proposition 2", title, "flat along one weight", np.mean(np.array(flat)[:, :3]))
            yield told("proposition 2", title, "updates near that weight that lengthen", np.mean(np.array(flat)[:, 3:]))


def trace(model: Tipi, w: Array, steps: int) -> Array:
    """Norms of the weights along a run."""
    norms = [np.linalg.norm(w)]
    for _ in range(steps):
        w = w + model.gradient(w)
        norms.append(np.linalg.norm(w))
    return np.array(norms)


def equivalence(quick: bool) -> Iterator[Row]:
    """Eq. 16 to 18 beside the standard equations from w/η + a/η; numbers that binary fractions hold, so that sums are exact."""
    steps = 300 if quick else 1000
    for name in SETS[: 1 if quick else None]:
        for title, model in models(name).items():
            exact = Tipi(model.rows[:256], model.hidden, model.bias)  # means of 256 rows are binary fractions
            random = np.random.default_rng(3)
            start = np.round(random.standard_normal(exact.size) * 64) / 64
            offset = np.round(random.standard_normal(exact.size) * 64) / 8
            same, other = [], []
            for eta, gamma, shift in product((0.25, 1.0, 8.0), (0.5, 4.0), (0.0, 1.0)):
                same.append(agree(exact, start, np.full(exact.size, eta), gamma, shift * offset, steps))
            unequal = np.where(np.arange(exact.size) < exact.rows.shape[1], 4.0, 1.0)
            other.append(agree(exact, start, unequal, 1.0, 0 * offset, steps))
            yield told("proposition 4", title, "equal states", min(same))
            yield told("proposition 4", title, "equal states with unequal step sizes", min(other))


def agree(model: Tipi, start: Array, eta: Array, gamma: float, offset: Array, steps: int) -> float:
    """The share of steps at which both runs have the same gradient, that is the same states."""
    v, w, equal = start.copy(), eta * start - offset, 0
    for _ in range(steps):
        first, second = model.gradient(v), model.gradient(gamma * (w + offset))
        equal += bool(np.array_equal(first, second))
        v, w = v + first, w + eta * second
    return equal / steps


def herded(source: visible_herding.MomentSource, steps: int, starts: Array | None = None) -> Array:
    """(runs, steps) numbers of the states that herding with an exact maximiser visits, from w = 0 or from each of some starts."""
    sources = (
        [source]
        if starts is None
        else [visible_herding.MomentSource(source.units, source.n, source.moment, source.candidates, w) for w in starts]
    )
    settings = visible_herding.VisibleHerdingSettings(FEATURES, "enumerate", steps, burn_in=0)
    runs = run_algorithm(visible_herding.VisibleHerding(visible_herding.VisibleHerdingProblem(tuple(sources), settings))).runs
    shape = (len(runs), steps, -1)
    found = np.unpackbits(np.stack([run.states for run in runs]), axis=2, bitorder="little", count=source.units)
    return np.asarray(found.reshape(shape) @ (1 << np.arange(source.units)))


def start(quick: bool) -> Iterator[Row]:
    """Total variation between the laws of states of runs from other starts, and between the halves of each run."""
    starts, steps = (3, 4000) if quick else (5, 10000)
    for name in SETS[: 1 if quick else None]:
        rows = bits(name, PIXELS)
        title = name.partition(".")[0].partition("_")[0]
        sources = {
            "1,000 rows": visible_herding.source_from_rows(rows, FEATURES),
            "six rows": visible_herding.source_from_rows(rows[:6], FEATURES),
        }
        for kind, source in (sources | {"irrational": irrational(rows)}).items():
            scale = max(source.n, 1)
            drawn = np.random.default_rng(4).standard_normal((starts, len(source.moment))) * np.geomspace(0.1, 30, starts)[:, None]
            w = np.rint(drawn * scale).astype(source.moment.dtype) if source.n else drawn
            states = herded(source, steps, w)
            late = states[:, steps // 5 :]
            half = late.shape[1] // 2
            laws = [np.array([law(run[:half]), law(run[half : 2 * half])]) for run in late]
            within = [distance(*pair) for pair in laws]
            between = [distance(laws[i][0], laws[j][1]) for i in range(starts) for j in range(starts) if i != j]
            others = [np.mean([distance(laws[i][0], laws[j][1]) for j in range(starts) if j != i]) - within[i] for i in range(starts)]
            yield told("start", f"{title}, {kind}", "halves of one run differ", within)
            yield told("start", f"{title}, {kind}", "other starts less halves of one run", others)
            yield told("start", f"{title}, {kind}", "runs from other starts differ", between)
            moments = [np.abs(feature_means(run) - source.moment / scale).max() for run in late]
            yield told("start", f"{title}, {kind}", "largest error of a moment", max(moments))


def irrational(rows: Array) -> visible_herding.MomentSource:
    """The moments of rows times 1 − 1/√200, those of a mixture with all states: of n rows n·w is a vector of integers that stays within a
    ball, so that every orbit comes back to where it was; of these moments it does not."""
    mean = feature_sums(rows.astype(np.int8), FEATURES) / len(rows) * (1 - 200**-0.5)
    return visible_herding.source_from_moments(mean, rows.shape[1], FEATURES, "spin")


def period(run: Array) -> int:
    """Steps after which the last half of a run repeats itself; 0: it does not."""
    late = run[len(run) // 2 :]
    for lag in np.flatnonzero(late[1:] == late[0]) + 1:
        if 2 * lag < len(late) and np.array_equal(late[lag:], late[:-lag]):
            return int(lag)
    return 0


def law(states: Array) -> Array:
    """Shares (2^PIXELS,) of the states."""
    return np.bincount(states, minlength=1 << PIXELS) / len(states)


def distance(p: Array, q: Array) -> float:
    """Total variation."""
    return float(np.abs(p - q).sum() / 2)


def feature_means(states: Array) -> Array:
    """Means (F,) of the features over numbered states."""
    x = np.asarray(maximisers.enumerate_states(PIXELS, "spin"), dtype=np.int64)[states]
    return np.asarray(feature_sums(x.astype(np.int8), FEATURES) / len(states))


LENGTHS = (2, 4, 8, 16, 32)


def sequences(quick: bool) -> Iterator[Row]:
    """Different sequences of n states, n up to 32; the exponent of n; independent draws of the same law beside them."""
    steps = 20_000 if quick else 60_000
    for name in SETS[: 1 if quick else None]:
        title = name.partition(".")[0].partition("_")[0]
        for units in (3, 4):
            rows = bits(name, units)
            (run,) = herded(visible_herding.source_from_rows(rows, FEATURES), steps)
            yield told("sequences", f"{title}, {units} pixels", "period of the rows' moments", period(run))
            (run,) = herded(irrational(rows), steps)
            yield told("sequences", f"{title}, {units} pixels", "period", period(run))
            drawn = np.random.default_rng(5).permutation(run)
            counts, random = words(run), words(drawn)
            place = f"{title}, {units} pixels"
            for length, count in zip(LENGTHS, counts, strict=True):
                yield told("sequences", place, f"different of length {length}", count)
            yield told("sequences", place, "in random order, of length 16", random[3])
            yield told("sequences", place, "exponent, lengths 8 to 16", np.log2(counts[3] / counts[2]))
            yield told("sequences", place, "exponent, lengths 16 to 32", np.log2(counts[4] / counts[3]))


def words(run: Array) -> list[int]:
    """How many different sequences of each length there are in a run of states."""
    found = []
    label = np.unique(run, return_inverse=True)[1].astype(np.int64)
    length = 1
    for wanted in LENGTHS:
        while length < wanted:  # a sequence of twice the length is a pair of sequences
            pair = label[: len(label) - length] * (int(label.max()) + 1) + label[length:]
            label, length = np.unique(pair, return_inverse=True)[1].astype(np.int64), 2 * length
        found.append(int(label.max()) + 1)
    return found


def mixing(quick: bool) -> Iterator[Row]:
    """A local ascent from the last state against one sweep of Gibbs sampling of the likeliest model."""
    runs, sweeps = (2, 2000) if quick else (5, 10000)
    for name in SETS[: 1 if quick else None]:
        rows = bits(name, PIXELS)
        title = name.partition(".")[0].partition("_")[0]
        wanted = feature_sums(rows.astype(np.int8), FEATURES) / len(rows)
        theta = likeliest(wanted)
        gap = np.abs(expected(theta) - wanted).max()
        yield told("mixing", title, "largest error of the likeliest model's moments", gap)
        slow, quick_, error, other = [], [], [], []
        for seed in range(runs):
            chain = gibbs(theta, sweeps, seed)
            states, ends = ascents(rows, sweeps, seed)
            slow.append(autocorrelation(chain))
            quick_.append(autocorrelation(states))
            error.append(np.abs(feature_means(chain) - wanted).mean())
            other.append(np.abs(feature_means(states[ends]) - wanted).mean())
        yield told("mixing", title, "autocorrelation time of Gibbs, sweeps", slow)
        yield told("mixing", title, "autocorrelation time of herding, sweeps", quick_)
        yield told("mixing", title, "autocorrelation times, Gibbs over herding", np.array(slow) / np.array(quick_))
        yield told("mixing", title, "mean error of moments, Gibbs over herding", np.array(error) / np.array(other))


def likeliest(wanted: Array) -> Array:
    """Weights (F,) of the Boltzmann machine with these moments, by Newton's steps on the enumerated likelihood."""
    g, theta = features(), np.zeros(len(wanted))
    for _ in range(100):
        p = density(theta)
        mean = p @ g
        curvature = (g * p[:, None]).T @ g - np.outer(mean, mean) + 1e-10 * np.eye(len(mean))
        step = np.linalg.solve(curvature, wanted - mean)
        theta = theta + step * min(1.0, 2.0 / np.abs(step).max())
    return theta


def features() -> Array:
    """(2^PIXELS, F) of all states."""
    x = np.asarray(maximisers.enumerate_states(PIXELS, "spin"), dtype=np.float64)
    first, second = np.triu_indices(PIXELS, 1)
    return np.hstack([x, x[:, first] * x[:, second]])


def density(theta: Array) -> Array:
    """(2^PIXELS,) the law of a Boltzmann machine."""
    score = features() @ theta
    p = np.exp(score - score.max())
    return np.asarray(p / p.sum())


def expected(theta: Array) -> Array:
    return np.asarray(density(theta) @ features())


def fields(theta: Array) -> tuple[Array, Array]:
    """Biases and the symmetric couplings."""
    J = np.zeros((PIXELS, PIXELS))
    J[np.triu_indices(PIXELS, 1)] = theta[PIXELS:]
    return theta[:PIXELS], J + J.T


def gibbs(theta: Array, sweeps: int, seed: int) -> Array:
    """(sweeps,) states after each sweep over the units in their order, the first tenth left out."""
    b, J = fields(theta)
    draws = np.random.default_rng(seed)
    x, found = draws.choice([-1.0, 1.0], PIXELS), []
    powers = 1 << np.arange(PIXELS)
    for uniform in draws.random((sweeps + sweeps // 10, PIXELS)):
        for i in range(PIXELS):
            x[i] = 1.0 if uniform[i] < 1 / (1 + np.exp(-2 * (b[i] + J[i] @ x))) else -1.0
        found.append(int((x > 0) @ powers))
    return np.array(found[sweeps // 10 :])


def ascents(rows: Array, sweeps: int, seed: int) -> tuple[Array, Array]:
    """(sweeps,) the state after each sweep of herding by coordinate ascent from the last state, and whether it ended a step.

    A sweep without a change does; its states are the pseudo-samples.
    """
    n = len(rows)
    moment = feature_sums(rows.astype(np.int8), FEATURES).astype(np.int64)
    w = np.random.default_rng(seed).integers(-n, n + 1, len(moment))
    x, found, ends = np.ones(PIXELS), [], []
    first, second = np.triu_indices(PIXELS, 1)
    powers = 1 << np.arange(PIXELS)
    b, J = fields(w.astype(float))
    while len(found) < sweeps + sweeps // 10:
        before = x.copy()
        for i in range(PIXELS):
            x[i] = 1.0 if b[i] + J[i] @ x >= 0 else -1.0
        found.append(int((x > 0) @ powers))
        ends.append(np.array_equal(before, x))
        if ends[-1]:
            g = np.concatenate([x, x[first] * x[second]]).astype(np.int64)
            w = w + moment - n * g
            b, J = fields(w.astype(float))
    kept = slice(sweeps // 10, sweeps + sweeps // 10)
    return np.array(found[kept]), np.array(ends[kept])


def autocorrelation(states: Array) -> float:
    """Integrated autocorrelation time (1 for independent draws) of the number of units that are on; lags to five times itself (Sokal)."""
    x = np.array([bin(int(s)).count("1") for s in states], dtype=np.float64)
    x -= x.mean()
    size = 1 << (2 * len(x) - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(x, size)) ** 2
    rho = np.fft.irfft(spectrum)[: len(x)]
    rho /= rho[0]
    times = 2 * np.cumsum(rho) - 1
    window = int(np.argmax(np.arange(len(x)) >= 5 * times))
    return float(max(times[window], 1 / len(x)))


CLAIMS = {
    "tipi": tipi,
    "recurrence": recurrence,
    "equivalence": equivalence,
    "start": start,
    "sequences": sequences,
    "mixing": mixing,
}

if __name__ == "__main__":
    write("claims-herding", CLAIMS)
