"""What Teh (2003) says in words of contrastive divergence, ch. 2 and 3, as numbers.

    python scripts claims/learning FOLDER [--quick] [--only CLAIM …]           (makes claims-learning.csv)

likelihood    sec. 2.5.2: exact log-likelihoods of rows held out after CD-1, CD-10 and the exact gradient (Boltzmann learning), same rates.
third-term    the three terms of 2.61 on machines of 6 visible and 4 hidden units, their transitions summed over all states: how large the
              third is beside the first two, and the angle that leaving it out makes, before, during and after learning.
visible       sec. 3.4: means in place of states of the visible units in the reconstruction: squared errors of faces held out, seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from claims.claim_rows import SETS, bits, told, write
from scipy.special import expit, logsumexp
from shared.figure_pipeline import Row, herd, timed
from shared.real_data import path

from herdcli import artifacts
from herdcli.algorithm import run_algorithm
from herdcli.faces.rank_errors import count_wrong_before_match
from herdcli.rbm.learning import parallel_fits
from herdcli.rbm.likelihood.enumeration import exact_log_partition
from herdcli.rbm.likelihood.row_likelihood import row_log_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.pair_similarity import compute_hidden_input_totals, pair_similarity
from herdcli.rbm.settings import Settings
from herdcli.schema import Array

LEARNERS = {"CD-1": ("cd", 1), "CD-10": ("cd", 10), "exact": ("exact", 1)}


def learned(rows: Array, settings: Settings) -> tuple[Harmonium, float]:
    """A machine and the seconds of processor time that it took."""
    began = time.process_time()
    problem = parallel_fits.LearningProblem([np.ascontiguousarray(rows)], settings)
    state = run_algorithm(parallel_fits.RBMLearning(problem))
    taken = time.process_time() - began
    W, b, c = (np.asarray(part[0], dtype=np.float64) for part in (state.W, state.b, state.c))
    return Harmonium(W, b, c, problem.visible, problem.hidden), taken


def likelihood(quick: bool) -> Iterator[Row]:
    """64 pixels, 10 hidden units, 750 rows to learn from and 250 to judge by; nats a row."""
    for name in SETS[: 1 if quick else None]:
        title = name.partition(".")[0].partition("_")[0]
        scores: dict[str, list[float]] = {learner: [] for learner in LEARNERS}
        seconds: dict[str, list[float]] = {learner: [] for learner in LEARNERS}
        columns = []
        for seed in range(2 if quick else 5):
            rows = ((bits(name, 64, 1000, seed) + 1) // 2).astype(np.int8)
            train, held = rows[:750], rows[750:]
            p = (train.sum(axis=0) + 1) / (len(train) + 2)
            columns.append(float((held @ np.log(p) + (1 - held) @ np.log1p(-p)).mean()))
            for learner, (algorithm, steps) in LEARNERS.items():
                settings = Settings(10, algorithm, steps=steps, epochs=10 if quick else 60, seed=seed)
                h, taken = learned(train, settings)
                scores[learner].append(float(row_log_likelihood(h, held, exact_log_partition(h)).mean()))
                seconds[learner].append(taken)
        yield told("likelihood", title, "independent columns", columns)
        for learner, values in scores.items():
            yield told("likelihood", title, f"nats a row: {learner}", values)
        best = np.array(scores["exact"])
        yield told("likelihood", title, "exact less CD-1", best - scores["CD-1"])
        yield told("likelihood", title, "exact less CD-10", best - scores["CD-10"])
        yield told("likelihood", title, "share of the gain: CD-1", (np.array(scores["CD-1"]) - columns) / (best - columns))
        yield told("likelihood", title, "seconds, exact over CD-1", np.array(seconds["exact"]) / seconds["CD-1"])


VISIBLE, UNITS = 6, 4


def unpacked(theta: Array) -> tuple[Array, Array, Array]:
    """W (VISIBLE, UNITS), b and c of a flat vector."""
    cut = VISIBLE * UNITS
    return theta[:cut].reshape(VISIBLE, UNITS), theta[cut : cut + VISIBLE], theta[cut + VISIBLE :]


ALL = (np.arange(1 << VISIBLE)[:, None] >> np.arange(VISIBLE) & 1).astype(np.float64)
ALL_HIDDEN = (np.arange(1 << UNITS)[:, None] >> np.arange(UNITS) & 1).astype(np.float64)


def laws(theta: Array, q0: Array) -> tuple[Array, Array]:
    """log p (2^VISIBLE,) of the model, and Q¹ of one sweep from Q⁰."""
    W, b, c = unpacked(theta)
    field = ALL @ W + c
    score = ALL @ b + np.logaddexp(0, field).sum(axis=1)
    on = expit(field)
    hidden = np.exp(ALL_HIDDEN @ np.log(on).T + (1 - ALL_HIDDEN) @ np.log1p(-on).T)  # P(h | v), (hidden states, visible states)
    back = expit(ALL_HIDDEN @ W.T + b)
    visible = np.exp(ALL @ np.log(back).T + (1 - ALL) @ np.log1p(-back).T)  # P(v | h)
    return score - logsumexp(score), visible @ (hidden @ q0)


def divergence(theta: Array, q0: Array) -> float:
    """CD = KL(Q⁰ ‖ P) − KL(Q¹ ‖ P), 2.60."""
    log_p, q1 = laws(theta, q0)
    held = q0 > 0
    return float(q0[held] @ (np.log(q0[held]) - log_p[held]) - q1 @ (np.log(q1) - log_p))


def two_terms(theta: Array, q0: Array) -> Array:
    """The first two terms of 2.61: −E_Q⁰ + E_Q¹ of the slope of log p's numerator."""
    W, _, c = unpacked(theta)
    difference = laws(theta, q0)[1] - q0
    on = expit(ALL @ W + c)
    return np.concatenate([((ALL * difference[:, None]).T @ on).ravel(), difference @ ALL, difference @ on])


def slope(theta: Array, q0: Array) -> Array:
    """The whole gradient of CD, by central differences."""
    step, basis = 1e-5, np.eye(len(theta))
    return np.array([(divergence(theta + step * e, q0) - divergence(theta - step * e, q0)) / (2 * step) for e in basis])


def third_term(quick: bool) -> Iterator[Row]:
    """Learning goes along the first two terms, as contrastive divergence does, with the mean over Q¹ in place of samples."""
    stages = {"before learning": 0, "after 30 updates": 30, "after 300 updates": 300, "after 3,000 updates": 3000}
    for name in SETS[: 1 if quick else None]:
        title = name.partition(".")[0].partition("_")[0]
        states = (bits(name, VISIBLE) > 0) @ (1 << np.arange(VISIBLE))
        q0 = np.bincount(states, minlength=1 << VISIBLE) / len(states)
        found: dict[str, list[tuple[float, float, float]]] = {stage: [] for stage in stages}
        for seed in range(3 if quick else 10):
            theta, done = np.random.default_rng(seed).standard_normal(VISIBLE * UNITS + VISIBLE + UNITS) * 0.5, 0
            for stage, updates in stages.items():
                for _ in range(updates - done):
                    theta = theta - 0.2 * two_terms(theta, q0)
                done = updates
                whole, kept = slope(theta, q0), two_terms(theta, q0)
                left = whole - kept
                cosine = whole @ kept / (np.linalg.norm(whole) * np.linalg.norm(kept))
                share = float(np.mean(np.sign(whole) == np.sign(kept)))
                found[stage].append((float(np.linalg.norm(left) / np.linalg.norm(kept)), float(cosine), share))
        for stage, numbers in found.items():
            for quantity, values in zip(
                ("third term over the first two", "cosine", "share of equal signs"), np.array(numbers).T, strict=True
            ):
                yield told("third term", title, f"{quantity}, {stage}", values)


def visible(quick: bool) -> Iterator[Row]:
    """Pairs of ORL faces (28×23) by the thesis' rule with means and with states of the visible units; five images of each person train."""
    errors: dict[str, list[float]] = {"visible": [], "none": []}
    seconds: dict[str, list[float]] = {"visible": [], "none": []}
    for seed in range(1 if quick else 20):
        with TemporaryDirectory() as folder:
            data, target = path("orl.h5"), Path(folder) / "faces.h5"
            herd(
                "convert", data, "--subsample", 4, "--mask", "ellipse", "--equalize", "--split", "5,0,5", "--seed", seed, "-q", "-o", target
            )
            faces = artifacts.load(str(target)).value
            for kind in errors:
                model = Path(folder) / f"{kind}.h5"
                more = ("--epochs", 20) if quick else ()
                taken = timed("fit-rbm", "--pairs", target, "--mean-field", kind, "--seed", seed, *more, "-q", "-o", model)
                seconds[kind].append(taken)
                value = artifacts.load(str(model)).value
                units = faces.X / np.float32(faces.value_range[1]) * 10
                train, probes = (np.flatnonzero(value.split == part) for part in (0, 2))
                alike = pair_similarity(
                    value, compute_hidden_input_totals(value, units[probes]), compute_hidden_input_totals(value, units[train])
                )
                errors[kind].append(float(np.mean(count_wrong_before_match(alike, faces.y[probes], faces.y[train]) > 0)))
    for kind, values in errors.items():
        yield told("visible means", "ORL, 5 and 5 images", f"rank-1 error: {kind}", values)
    yield told("visible means", "ORL, 5 and 5 images", "error, means less states", np.array(errors["visible"]) - errors["none"])
    yield told("visible means", "ORL, 5 and 5 images", "seconds, states over means", np.array(seconds["none"]) / seconds["visible"])


CLAIMS = {"likelihood": likelihood, "third-term": third_term, "visible": visible}

if __name__ == "__main__":
    write("claims-learning", CLAIMS)
