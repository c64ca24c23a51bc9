"""Does a stream drift?  Learners whose evidence fades beside the winner of the race, over the first examples.

Each example is judged before it is learned.  Where the best of a few learners that forget made significantly fewer mistakes in the second
half of the first examples than the one that forgets nothing, the stream drifts, and further half-lives are tried.
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
from herdcli.online.model import Forgetting, Settings
from herdcli.records import dataclass
from herdcli.schema import Array

FIRST = (256.0, 1024.0)  # half-lives that are tried of every stream
FURTHER = (64.0, 128.0, 512.0, 2048.0)  # and of one that drifts
STRONGER = (1.0, 16.0)  # times C of the winner: what is forgotten can be learned faster
FEWEST = 500  # examples from which on drift is looked for
MOST_WEIGHTS = 10_000  # features times scores up to which it is
SURE = 3.0  # standard errors of the paired difference
WINDOWS = 20  # of the examples whose errors are kept


@dataclass(frozen=True)
class DriftResult:
    """The settings of the best learner that forgets, what is kept of the comparison, and its error of the second half (errors (n/2,))."""

    settings: Settings
    kept: Forgetting
    errors: Array


def compare_half_lives(settings: Settings, batches: Sequence[LabelledBatch], classes: int) -> DriftResult | None:
    """The best learner that forgets, where it is significantly better than that of `settings`; None where it is not, or not tried."""
    if "half_life" not in TABLE[settings.algorithm].reads:
        return None
    if hyperparameter_race.features(settings, batches) * (1 if classes == 2 else classes) > MOST_WEIGHTS:
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
    kept = Forgetting(
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
    """(n,) whether each example was wrong before it was learned; of numbers the squared error."""
    full = settings.task == "classification" and whole.width <= hyperparameter_race.FULL and classes <= hyperparameter_race.FULL_CLASSES
    racer = hyperparameter_race.RacingLearner.started(settings, whole, classes, settings.covariance if full else "diagonal")
    racer.learn_more(whole)
    found = racer.losses if settings.task == "regression" else racer.errors
    return np.nan_to_num(found, nan=float(np.finfo(np.float32).max), posinf=float(np.finfo(np.float32).max))
