"""How likely test digits are under small RBMs of herd and of scikit-learn, and how near annealing comes to enumeration.

    python scripts bench/rbm/likelihood          (needs the extra `bench` for scikit-learn's rows)

The 8×8 digits that ship with herd, on from 0.4 of the range upwards, 16 hidden binary units, herd's own training and test rows.

herd          `fit-rbm --hidden 16 --epochs 300`, CD-1 with momentum and the other defaults, seeds 0 to 4.
scikit-learn  `BernoulliRBM`, 300 epochs of batches of 20 at the best of four learning rates and at its default one, seeds 0 to 4.

Every figure is the exact mean log-likelihood of the 357 test rows, in nats: 2^16 hidden states are summed.  Annealing (100
chains, 1000 temperatures) estimates the same log Z of every one of herd's models, there and back.

Seen: herd −18.29 (−18.44 to −18.16), scikit-learn −19.28 at its best rate, 0.02, and −23.93 at its default, 0.1; annealing within
0.03 nats.  About half a minute.

Bars: herd's mean at least −18.7 nats; annealing within 0.1 nats of the sum, both ways, for each model.  Exit code 1 if one is missed.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.resources import files

import numpy as np

from herdcli import artifacts
from herdcli.algorithm import run_algorithm
from herdcli.rbm.learning import parallel_fits
from herdcli.rbm.likelihood import annealed_importance
from herdcli.rbm.likelihood.enumeration import exact_log_partition
from herdcli.rbm.likelihood.log_z_estimates import LogZEstimate
from herdcli.rbm.likelihood.row_likelihood import row_log_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units import unit_family

HIDDEN, EPOCHS, SEEDS = 16, 300, range(5)
RATES = (0.005, 0.01, 0.02, 0.05)
LIKELIHOOD_BAR, ANNEALING_BAR = -18.7, 0.1


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Binary training, validation and test rows, uint8."""
    data = artifacts.load(str(files("herdcli.data") / "digits.h5")).value
    on = (data.X >= 0.4 * 16).astype(np.uint8)
    return on[data.split == 0], on[data.split == 1], on[data.split == 2]


def binary(W: np.ndarray, b: np.ndarray, c: np.ndarray) -> Harmonium:
    return Harmonium(*(np.asarray(part, dtype=np.float64) for part in (W, b, c)), unit_family("binary"), unit_family("binary"))


def herd(train: np.ndarray, seed: int) -> Harmonium:
    """A model of herd's with the default settings."""
    problem = parallel_fits.LearningProblem([train], parallel_fits.Settings(HIDDEN, epochs=EPOCHS, seed=seed))
    state = run_algorithm(parallel_fits.RBMLearning(problem))
    return binary(state.W[0], state.b[0], state.c[0])


def sklearn(train: np.ndarray, seed: int, rate: float) -> Harmonium:
    """A model of scikit-learn's."""
    from sklearn.neural_network import BernoulliRBM

    fitted = BernoulliRBM(HIDDEN, learning_rate=rate, batch_size=20, n_iter=EPOCHS, random_state=seed).fit(train.astype(np.float64))
    return binary(fitted.components_.T, fitted.intercept_visible_, fitted.intercept_hidden_)


def annealed(h: Harmonium, valid: np.ndarray, seed: int) -> tuple[LogZEstimate, LogZEstimate]:
    """log Z by annealing there and back."""
    problem = annealed_importance.AnnealingProblem((h,), (h.visible.base_rate_parameters(valid),), chains=100, temperatures=1000, seed=seed)
    back = replace(problem, known=(valid,))
    return run_algorithm(annealed_importance.AnnealedImportanceSampling(problem))[0], run_algorithm(
        annealed_importance.AnnealedImportanceSampling(back)
    )[0]


def exact(h: Harmonium, rows: np.ndarray) -> float:
    return float(row_log_likelihood(h, rows, exact_log_partition(h)).mean())


def main() -> int:
    train, valid, test = digits()
    models = [herd(train, seed) for seed in SEEDS]
    figures = {"herd, defaults": [exact(h, test) for h in models]}
    try:
        for rate in (*RATES, 0.1):
            figures[f"scikit-learn, rate {rate:g}"] = [exact(sklearn(train, seed, rate), test) for seed in SEEDS]
    except ImportError:
        print("scikit-learn is not installed: herd alone")
    print(f"{'exact test log-likelihood, nats':<34}{'mean':>8}{'worst':>9}{'best':>9}")
    for name, found in figures.items():
        print(f"{name:<34}{np.mean(found):8.2f}{min(found):9.2f}{max(found):9.2f}")
    worst = 0.0
    for seed, h in zip(SEEDS, models, strict=True):
        log_z, (there, back) = exact_log_partition(h), annealed(h, valid, seed)
        gaps = [there.log_partition - log_z, back.log_partition - log_z]
        worst = max(worst, *map(abs, gaps))
        said = [f"{gap:+.4f} ± {way.standard_error:.4f}" for gap, way in zip(gaps, (there, back), strict=True)]
        print(f"log Z of seed {seed}: {log_z:.4f}; annealed {said[0]}, back {said[1]}")
    fine = True
    for what, reached, met in (
        (
            f"herd's mean, at least {LIKELIHOOD_BAR}",
            np.mean(figures["herd, defaults"]),
            np.mean(figures["herd, defaults"]) >= LIKELIHOOD_BAR,
        ),
        (f"annealing, within {ANNEALING_BAR}", worst, worst <= ANNEALING_BAR),
    ):
        print(f"{what:<34}{reached:8.3f}  {'met' if met else 'MISSED'}")
        fine &= bool(met)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
