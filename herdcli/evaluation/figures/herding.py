"""The metrics of `herd eval` for a `herding` artifact: moments, variety of the pseudo-samples, classification.

Test rows are never used for fitting: class energies are calibrated on validation rows only, as in Welling (2009), sec. 10.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from herdcli.algorithm import Map, ProgressCallback
from herdcli.evaluation.baselines.energy_classification import class_probabilities, classification_errors
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.herding import sample_entropy
from herdcli.herding.model import Herding
from herdcli.numerics.scores import Scores
from herdcli.splits import TRAIN

COLUMNS = (
    "moment_gap",
    "moment_gap_random",
    "moment_gap_times_t",
    "weight_norm",
    "weight_growth",
    "hidden_entropy",
    "effective_states",
    "max_entropy_distance",
    "error",
    "error_train",
    "error_1nn",
    "error_majority",
    "error_gain_se",
)


def metrics(
    value: Herding, settings: EvaluationSettings, *, map: Map = map, progress: ProgressCallback | None = None
) -> dict[str, float | None]:
    """Return every column of `COLUMNS`; None for those that do not apply.  They are means over runs unless stated otherwise.

    moment_gap            largest |⟨g(s_t)⟩ − ⟨ḡ_t⟩| over features and runs (Prop. 1); times T it is largest |w_T − w_0|,
                          which stays bounded if herding works: the gap falls as 1/T.
    moment_gap_random     approximate largest gap of T independent draws; herding should be below it.
    weight_growth         ‖w‖ at T divided by ‖w‖ at T/2, the largest over runs; 1 if bounded.
    hidden_entropy        mean bits of a hidden unit over the pseudo-samples, 1 if it is on half the time.
    effective_states      exp entropy of the kept pseudo-samples.
    max_entropy_distance  Euclidean distance of their frequencies from the distribution of maximum entropy with the same
                          moments, if the states can be enumerated.
    """
    gaps = [part.max() for part in (value.gap.largest_visible, value.gap.largest_pair) if part is not None]
    if value.gap.largest_hidden is not None and value.hidden_bias == "full":
        gaps.append(value.gap.largest_hidden.max())
    result: dict[str, float | None] = dict.fromkeys(COLUMNS)
    result |= {
        "moment_gap": float(max(gaps)),
        "moment_gap_random": expected_random_gap(value),
        "moment_gap_times_t": float(max(gaps)) * value.iterations,
        "weight_norm": float(value.weight_norm[-1].mean()),
        "weight_growth": value.growth,
    }
    if value.moments.hidden is not None:
        result["hidden_entropy"] = float(
            sample_entropy.unit_entropy_bits(value.moments.hidden / value.iterations, value.representation).mean()
        )
    if value.states.shape[1]:
        result["effective_states"] = float(np.mean(list(map(sample_entropy.effective_state_count, value.states))))
        result["max_entropy_distance"] = _max_entropy_distance(value)
    if value.scores is not None:
        result |= _classification_errors(value.scores, settings)
    return result


def expected_random_gap(value: Herding) -> float | None:
    """Return the approximate largest gap of T random draws: σ √(2 ln F / T) for F features.

    σ² is the variance of the visible unit that varies most; the largest of F normal errors is about √(2 ln F) times one of them.
    Returns None for features of real rows, and for runs that are driven by rates only.
    """
    if value.representation == "real" or value.decoupled:
        return None
    mean = value.rates.visible / value.rates.scale[:, np.newaxis]
    variance = 1.0 - np.square(mean) if value.representation == "spin" else mean * (1.0 - mean)
    sizes = [part[0].size for part in (value.rates.visible, value.rates.pair, value.rates.visible_pair) if part is not None]
    return float(math.sqrt(max(0.0, float(variance.max())) * 2.0 * math.log(max(2, sum(sizes))) / value.iterations))


def _max_entropy_distance(value: Herding) -> float | None:
    """Return the mean over runs; None for other models, too many units, or moments that no positive distribution has."""
    D = value.b.shape[1]
    if value.model != "mrf" or sample_entropy.MOST_STATES[value.features] < D:
        return None
    distances = []
    for run in range(value.count):
        rates = value.rates
        sums = rates.visible[run] if rates.visible_pair is None else np.concatenate([rates.visible[run], rates.visible_pair[run]])
        fitted = sample_entropy.fit_max_entropy(sums / rates.scale[run], D, value.features, value.representation)
        if fitted is None:
            return None
        distances.append(float(np.linalg.norm(sample_entropy.state_frequencies(value.kept_samples(run)[0]) - fitted)))
    return float(np.mean(distances))


def _classification_errors(scores: Scores, settings: EvaluationSettings) -> dict[str, float | None]:
    """Return the errors on test rows, and on training rows if they have scores; training rows do not calibrate anything."""
    fitted, train = replace(settings, calibrate="valid"), scores.split == TRAIN
    result = classification_errors(scores, fitted)
    if result and train.any():
        predicted = class_probabilities(scores, scores.energy[train], fitted).argmax(axis=1)
        result["error_train"] = float(np.mean(predicted != scores.y[train]))
    return result
