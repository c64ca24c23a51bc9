"""Drift detection: learners with fading evidence are compared with the winner of the race over the first examples.

Each example is evaluated before it is learned.  The mistakes of a few forgetting learners are compared with those of the learner that
forgets nothing, in the second half of the first examples.  If the best made significantly fewer, the stream drifts, and further
half-lives are tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from herdcli.online.example_blocks import ExampleBlock
from herdcli.online.learner_state import LabelledBatch
from herdcli.online.learners import hyperparameter_race
from herdcli.online.learners.algorithm_table import TABLE
from herdcli.online.model import ForgettingComparison, Settings
from herdcli.records import dataclass
from herdcli.schema import Array

FIRST = (256.0, 1024.0)  # half-lives tried for every stream
FURTHER = (64.0, 128.0, 512.0, 2048.0)  # further ones for a stream that drifts
STRONGER = (1.0, 16.0)  # factors of the winner's C: forgotten evidence can be learned again faster
FEWEST = 500  # drift is tested if there are at least this many examples
MOST_WEIGHTS = 10_000  # drift is tested if the number of features times the number of scores is at most this
SURE = 3.0  # standard errors of the paired difference
WINDOWS = 20  # number of windows of examples whose errors are kept


@dataclass(frozen=True)
class DriftResult:
    """The settings of the best forgetting learner, the record of the comparison, and its errors in the second half, (n/2,)."""

    settings: Settings
    kept: ForgettingComparison
    errors: Array


def compare_half_lives(settings: Settings, batches: Sequence[LabelledBatch], classes: int) -> DriftResult | None:
    """Return the best forgetting learner if it is significantly better than that of `settings`; None if not, or if not tested."""
    if "half_life" not in TABLE[settings.algorithm].reads:
        return None
    if hyperparameter_race.count_features(settings, batches) * (1 if classes == 2 else classes) > MOST_WEIGHTS:
        return None
    whole = hyperparameter_race.first_examples(settings, batches, classes)
    if whole.rows < FEWEST:
        return None
    still = _progressive_mistakes(settings, whole, classes)
    tried = {entry: _progressive_mistakes(entry, whole, classes) for entry in _forgetting_settings(settings, FIRST)}
    half = whole.rows // 2

    def late(entry: Settings) -> float:
        return float(tried[entry][half:].mean())

    best = min(tried, key=late)
    apart = still[half:] - tried[best][half:]
    if not apart.mean() > SURE * apart.std() / len(apart) ** 0.5:
        return None
    tried |= {entry: _progressive_mistakes(entry, whole, classes) for entry in _forgetting_settings(settings, FURTHER)}
    best = min(tried, key=late)
    bounds = np.linspace(0, whole.rows, WINDOWS + 1).astype(int)
    kept = ForgettingComparison(
        half_life=np.array([entry.half_life for entry in tried]),
        C=np.array([entry.C for entry in tried]),
        error=np.array([late(entry) for entry in tried]),
        examples=bounds[1:],
        fading=np.array([tried[best][low:high].mean() for low, high in itertools.pairwise(bounds)]),
        still=np.array([still[low:high].mean() for low, high in itertools.pairwise(bounds)]),
    )
    return DriftResult(best, kept, tried[best][half:])


def _forgetting_settings(settings: Settings, half_lives: Sequence[float]) -> list[Settings]:
    plain = replace(settings, covariance="diagonal")
    return [replace(plain, half_life=N, C=times * settings.C) for N in half_lives for times in STRONGER]


def _progressive_mistakes(settings: Settings, whole: ExampleBlock, classes: int) -> Array:
    """Return whether each example was wrong before it was learned (n,); for regression the squared error."""
    full = settings.task == "classification" and whole.width <= hyperparameter_race.FULL and classes <= hyperparameter_race.FULL_CLASSES
    racer = hyperparameter_race.RacingLearner.from_settings(settings, whole, classes, settings.covariance if full else "diagonal")
    racer.learn_more(whole)
    found = racer.losses if settings.task == "regression" else racer.errors
    return np.nan_to_num(found, nan=float(np.finfo(np.float32).max), posinf=float(np.finfo(np.float32).max))
