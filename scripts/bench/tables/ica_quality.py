"""How well `herd ica` separates sources that nobody tuned it for, beside picard, FastICA and MNE's infomax.

    OPENBLAS_NUM_THREADS=1 python scripts bench/tables/ica_quality [--seeds N]        (extra `ica`; MNE where it is installed)

Teh's Amari distance (2N), 0 where every source has an output of its own, a mean over seeds, each with its sources and random mixing; all
programs begin with the same rows, whitened by ZCA.  `ml` and `infomax` choose a density for each output, as they do without options;
picard is extended, not orthogonal; FastICA has the contrast log cosh; MNE's infomax is extended.

The three mixtures of tests/support/source_mixtures.py; eight-channel EEG as it is simulated: rhythms that wax and wane, mains hum, blinks,
pulses, 1/f background, and drifts; spoken digits ($HERD_DATA/speech_segments.h5), eight speakers' columns; the 16 recordings of
music16_long.h5, the same with four waves of constant size among them.

Exit code 1 where ml or infomax is worse than 1.1 times picard's distance on one of the three mixtures.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import h5py
import numpy as np
from shared.real_data import FOLDER

from herdcli.algorithm import run_algorithm
from herdcli.ica import defaults, external_libraries, maximum_likelihood, stochastic_learning, whitening
from herdcli.ica.filters.amari_distance import amari_distance
from herdcli.rows import mixing_matrices

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "support"))
import source_mixtures

BAR = 1.1
SAMPLES = 20_000


def eeg(seed: int) -> np.ndarray:
    """80 s at 250 Hz of eight sources that resemble what electrodes see."""
    random, t = np.random.default_rng(seed), np.arange(SAMPLES) / 250.0

    def coloured(power: float) -> np.ndarray:
        spectrum = np.fft.rfft(random.standard_normal(SAMPLES))
        spectrum[1:] /= np.arange(1, len(spectrum)) ** (0.5 * power)
        return np.fft.irfft(spectrum, SAMPLES)

    def envelope(width: float) -> np.ndarray:
        slow = np.fft.rfft(random.standard_normal(SAMPLES))
        slow *= np.exp(-0.5 * (np.arange(len(slow)) / (width * SAMPLES / 250.0)) ** 2)
        return np.exp(1.5 * np.fft.irfft(slow, SAMPLES) / np.fft.irfft(slow, SAMPLES).std())

    phase = random.uniform(0, 2 * np.pi, 8)
    blinks = np.convolve(random.random(SAMPLES) < 0.3 / 250, np.hanning(75), "same")
    pulse = np.convolve((np.arange(SAMPLES) % 210) == 0, np.hanning(15) * np.linspace(1, -0.5, 15), "same")
    S = [
        envelope(0.5) * np.sin(2 * np.pi * 10.3 * t + phase[0]),
        envelope(0.8) * np.sin(2 * np.pi * 21.7 * t + phase[1]),
        np.sin(2 * np.pi * 50 * t + phase[2]),
        blinks + 0.02 * random.standard_normal(SAMPLES),
        pulse + 0.05 * random.standard_normal(SAMPLES),
        envelope(0.3) * coloured(1.0),
        random.standard_t(4, SAMPLES) * envelope(0.2),
        2 * ((0.37 * t + phase[3]) % 1) - 1,
    ]
    return np.stack(S, axis=1)


def recordings(name: str, columns: int) -> np.ndarray:
    """Columns of a data set; rows of segments are laid end to end, a share of them for each column."""
    with h5py.File(FOLDER / name) as file:
        X: np.ndarray = file["X"][:].astype(np.float64)
    if X.shape[1] == columns:
        return X
    signal = X.ravel()
    return signal[: len(signal) // columns * columns].reshape(columns, -1).T


def with_waves(S: np.ndarray) -> np.ndarray:
    t = np.arange(len(S))
    waves = [np.sin(0.031 * t), np.sign(np.sin(0.0173 * t)), 2 * ((0.00731 * t) % 1) - 1, np.abs(2 * ((0.00291 * t) % 1) - 1)]
    return np.column_stack([S, *waves])


def cases(seed: int) -> dict[str, np.ndarray]:
    found = {name: source_mixtures.sources(name, seed) for name in source_mixtures.NAMES} | {"EEG, simulated": eeg(seed)}
    if (FOLDER / "speech_segments.h5").exists():
        found["speech, 8 columns"] = recordings("speech_segments.h5", 8)
    if (FOLDER / "music16_long.h5").exists():
        music = recordings("music16_long.h5", 16)
        found |= {"music, 16": music, "music and 4 waves": with_waves(music)}
    return {name: (S - S.mean(axis=0)) / S.std(axis=0) for name, S in found.items()}


def likeliest(Z: np.ndarray, seed: int) -> np.ndarray:
    return run_algorithm(maximum_likelihood.MaximumLikelihood(maximum_likelihood.MaximumLikelihoodProblem(Z))).J


def stochastic(Z: np.ndarray, seed: int) -> np.ndarray:
    given = dict.fromkeys(("expert", "density", "rates", "batch_size", "average"))
    settings = stochastic_learning.LearningSettings(
        algorithm="infomax", seed=seed, **defaults.default_learning_options("infomax", Z.shape[1], True, given)
    )
    problem = stochastic_learning.LearningProblem(Z, settings)
    return run_algorithm(stochastic_learning.StochasticGradient(problem)).J


def mne_infomax(Z: np.ndarray, seed: int) -> np.ndarray:
    from mne.preprocessing import infomax

    return np.asarray(infomax(Z, extended=True, random_state=seed, verbose="error"))


def programs() -> dict[str, object]:
    found = {"ml": likeliest, "infomax": stochastic}
    if external_libraries.is_library_installed("picard"):
        found["picard"] = lambda Z, seed: external_libraries.run_picard(Z, np.eye(Z.shape[1]), tolerance=1e-7, iterations=500)[0]
    if external_libraries.is_library_installed("fastica"):
        found["FastICA"] = lambda Z, seed: run_algorithm(external_libraries.LibraryRun("fastica", Z, 1e-4, 500, seed)).J
    if importlib.util.find_spec("mne"):
        found["MNE infomax"] = mne_infomax
    return found


def main() -> int:
    """Print the table; 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--without", default="", help="a program to leave out")
    arguments = parser.parse_args()
    run = {name: function for name, function in programs().items() if name != arguments.without}
    print(f"{'':36}" + "".join(f"{name:>13}" for name in run))
    missed, distances = 0, {}
    for seed in range(arguments.seeds):
        for name, S in cases(seed).items():
            A = mixing_matrices.random_mixing_matrix(S.shape[1], seed=seed)
            fitted = whitening.fit_whitening(mixing_matrices.mix_sources(S, A), method="zca")
            Z = fitted.apply(mixing_matrices.mix_sources(S, A))
            for program, function in run.items():
                J = function(Z, seed)
                distances.setdefault(name, {}).setdefault(program, []).append(amari_distance(J @ fitted.forward @ A))
    for name, of in distances.items():
        means = {program: float(np.mean(values)) for program, values in of.items()}
        worse = name in source_mixtures.NAMES and "picard" in means and max(means["ml"], means["infomax"]) > BAR * means["picard"]
        missed += worse
        print(f"{name:36}" + "".join(f"{value:13.3f}" for value in means.values()) + ("  MISSED" if worse else ""), flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
