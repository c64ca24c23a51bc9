"""Speed of the Kalman filter and smoother beside pykalman, simdkalman and dynamax, the particle filter's errors beside their number, and
EM alone beside EM with quasi-Newton steps on real series.

    python scripts bench/tables/lds speed [--steps 100000] [--states 8] [--outputs 16]
    python scripts bench/tables/lds particles [--repetitions 200]
    python scripts bench/tables/lds climbing [--iterations 500]

Peers that are not installed are left out; pykalman is timed on fewer steps and its time scaled, since its steps cost the same.
Ratios are of the best of three runs in one process.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "support"))
from linear_dynamics import draw, system
from shared.real_data import path

from herdcli import artifacts
from herdcli.em.driver import EM, EMFit, EMSettings, run_em
from herdcli.em.sequence.kalman import filter_sequences, smooth_sequences
from herdcli.em.sequence.lds import LDS, variance_floor_and_scale
from herdcli.em.sequence.lds_initialization import window_moments
from herdcli.em.sequence.particle_filter import LinearGaussianModel, bootstrap_filter, smooth_particles
from herdcli.em.sequence.sequences import SequenceBlocks, group_rows_into_sequences

PYKALMAN_STEPS = 2000


def best(run: Callable[[], object], times: int = 3) -> float:
    """Least seconds of a few runs."""
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        run()
        found.append(time.perf_counter() - begun)
    return min(found)


def speed(steps: int, states: int, outputs: int) -> None:
    """Filter and smoother of one sequence, covariances of every step included."""
    p = system(states, outputs) | {"drift": np.zeros(states), "mean": np.zeros(outputs)}
    Y, offsets = draw(p, steps, np.random.default_rng(0)), np.array([0, steps])

    def ours(rows: np.ndarray = Y) -> tuple[np.ndarray, np.ndarray]:
        after = smooth_sequences(p, filter_sequences(p, rows, offsets), offsets)
        return after.mean, after.covariance

    mean, covariance = ours()
    base = best(ours)
    print(f"{states} states, {outputs} outputs, {steps} steps: filter and smoother {base:.3f} s")
    gone = np.where(np.random.default_rng(1).random(Y.shape) < 0.05, np.nan, Y)
    print(f"  with 5 % of the values missing at random: {best(lambda: ours(gone), 2):.3f} s")
    for name, peer in (("pykalman", pykalman), ("simdkalman", simdkalman), ("dynamax", dynamax)):
        try:
            seconds, theirs, spread = peer(p, Y)
        except ImportError:
            print(f"  {name}: not installed")
            continue
        gap = np.abs(theirs[: len(theirs) // 2] - mean[: len(theirs) // 2]).max()
        wide = np.abs(spread[: len(spread) // 2] - covariance[: len(spread) // 2]).max()
        print(f"  {name}: {seconds:.3f} s, {seconds / base:.1f} × ours; means differ by {gap:.1e}, covariances by {wide:.1e}")


def pykalman(p: dict, Y: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Timed on its first steps alone."""
    from pykalman import KalmanFilter

    few = Y[: min(PYKALMAN_STEPS, len(Y))]
    model = KalmanFilter(p["transition"], p["loading"], p["process"], p["noise"], initial_state_mean=p["start_mean"])
    model.initial_state_covariance = p["start_covariance"]
    mean, covariance = model.smooth(few)
    return best(lambda: model.smooth(few), 1) * len(Y) / len(few), np.asarray(mean), np.asarray(covariance)


def simdkalman(p: dict, Y: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """One series in its array of series."""
    import simdkalman as module

    model = module.KalmanFilter(p["transition"], p["process"], p["loading"], p["noise"])

    def run() -> object:
        return model.smooth(Y[None], initial_value=p["start_mean"], initial_covariance=p["start_covariance"])

    found = run()
    return best(run, 1), found.states.mean[0], found.states.cov[0]


def dynamax(p: dict, Y: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Compiled before it is timed, in double precision."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM, lgssm_smoother

    model = LinearGaussianSSM(len(p["drift"]), len(p["mean"]))
    given, _ = model.initialize(
        initial_mean=jnp.array(p["start_mean"]), initial_covariance=jnp.array(p["start_covariance"]),
        dynamics_weights=jnp.array(p["transition"]), dynamics_covariance=jnp.array(p["process"]),
        emission_weights=jnp.array(p["loading"]), emission_covariance=jnp.array(p["noise"]),
    )  # fmt: skip
    run = jax.jit(lambda rows: lgssm_smoother(given, rows))
    found = jax.block_until_ready(run(jnp.array(Y)))
    seconds = best(lambda: jax.block_until_ready(run(jnp.array(Y))))
    return seconds, np.asarray(found.smoothed_means), np.asarray(found.smoothed_covariances)


def errors(counts: tuple[int, ...], repetitions: int, steps: int = 15) -> np.ndarray:
    """(2, counts) root mean squares of a particle filter's means less the Kalman filter's, and of its smoother's less RTS's."""
    p = system(1, 1, seed=3)
    Y, offsets = draw(p, steps, np.random.default_rng(0)), np.array([0, steps])
    exact = filter_sequences(p, Y, offsets)
    after, model = smooth_sequences(p, exact, offsets), LinearGaussianModel(p, Y)
    squares = np.zeros((2, len(counts)))
    for place, count in enumerate(counts):
        for repetition in range(repetitions):
            cloud = bootstrap_filter(model, count, seed=1, unit=repetition)
            squares[0, place] += np.square(cloud.mean - exact.mean).mean()
            squares[1, place] += np.square(smooth_particles(model, cloud).mean - after.mean).mean()
    return np.sqrt(squares / repetitions)


def particles(repetitions: int) -> None:
    """Errors and their slope in the number of particles."""
    counts = (50, 100, 200, 400, 800)
    found = errors(counts, repetitions)
    for name, row in zip(("filter to Kalman", "smoother to RTS"), found, strict=True):
        slope = np.polyfit(np.log(counts), np.log(row), 1)[0]
        listed = ", ".join(f"{count}: {error:.4f}" for count, error in zip(counts, row, strict=True))
        print(f"{name}, {repetitions} repetitions: {listed}; slope {slope:.3f}")


def series(name: str, sequences: int | None, steps: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Rows of a set as sequences of `steps` rows each, pixels row by row; None: the first `steps` rows as one."""
    X = artifacts.load(str(path(name))).value.X
    if sequences is None:
        return np.asarray(X[:steps], dtype=float), None
    return np.asarray(X[:sequences], dtype=float).reshape(sequences * steps, -1), np.repeat(np.arange(sequences), steps)


def climbing(iterations: int) -> None:
    """Passes, seconds and log-likelihoods of EM, and of EM with quasi-Newton steps, from the same starts."""
    for name, sequences, steps, states in (
        ("usps_all.h5", 1000, 16, 6),
        ("speech_segments.h5", 500, 100, 6),
        ("music16_long.h5", None, 5000, 8),
    ):
        Y, key = series(name, sequences, steps)
        source = SequenceBlocks(group_rows_into_sequences(Y, key))
        found = window_moments(source, states, None)
        model = LDS(states, False, *variance_floor_and_scale(found.variance, None), found, None, 0, key is not None)
        print(f"{name}: {len(Y)} rows of {Y.shape[1]} columns, {states} states")
        fits = [timed(EM(model, source, EMSettings(iterations, 1e-6, 3, 1, accelerate))) for accelerate in (False, True)]
        for title, (fit, took) in zip(("EM alone", "quasi-Newton"), fits, strict=True):
            climbed, end = fit.ledger.log_likelihood[::2], "converged" if fit.converged[0] else "not converged"
            print(
                f"  {title}: {fit.iterations[0]} steps, {end}, {took:.1f} s, rise {fit.ledger.largest_rise:.0e}; log-likelihood a row "
                f"after steps"
            )
            print("    " + ", ".join(f"{k}: {climbed[min(k, len(climbed) - 1)]:.5f}" for k in (0, 20, 50, 100, 200, len(climbed) - 1)))
        higher = fits[1][0].ledger.log_likelihood[::2] >= fits[0][0].log_likelihood
        print(f"    as high as EM ended after {int(np.argmax(higher))} steps" if higher.any() else "    never as high as EM ended")


def timed(algorithm: EM) -> tuple[EMFit, float]:
    """What a run found, and its seconds."""
    begun = time.perf_counter()
    return run_em(algorithm), time.perf_counter() - begun


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "particles", "climbing"))
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--states", type=int, default=8)
    parser.add_argument("--outputs", type=int, default=16)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--iterations", type=int, default=500)
    given = parser.parse_args()
    if given.what == "speed":
        speed(given.steps, given.states, given.outputs)
    elif given.what == "climbing":
        climbing(given.iterations)
    else:
        particles(given.repetitions)


if __name__ == "__main__":
    main()
