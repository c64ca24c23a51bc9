"""The metrics of `herd eval` for a recurrent temporal RBM: likelihoods and one-step predictions, compared with simple baselines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli.algorithm import Map, ProgressCallback, run_algorithm
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.table import Value
from herdcli.evaluation.verdicts import NO_ROWS, OK, loss_finding
from herdcli.rbm.likelihood import annealed_importance
from herdcli.rbm.model import Harmonium
from herdcli.rbm.recurrent.artifacts import RecurrentRBM, StoredHeldoutSequences
from herdcli.rbm.recurrent.exact_sums import enumeration_cost, is_enumerable, log_z_per_step
from herdcli.rbm.recurrent.likelihood import EvaluationSequences, expected_next_rows, select_evenly_spaced, select_steps
from herdcli.rbm.recurrent.model import RecurrentModel, StepHarmoniums
from herdcli.records import dataclass
from herdcli.schema import Array

COLUMNS = (
    "hidden", "rows", "log_likelihood", "log_likelihood_se", "log_z_method", "log_likelihood_unlinked", "independent", "prediction_error",
    "mean_error", "persistence", "sequences_train", "best_epoch", "verdict",
)  # fmt: skip
MOST_OPERATIONS = 2.5e9  # largest number of operations for log Z by enumeration
MOST_STEPS = 100  # steps at which log Z is annealed, or enumerated at any cost
MOST_PREDICTED = 5000  # rows to predict
QUICK_STEPS = 100
LEAST = 1e-300


def metrics(
    value: RecurrentRBM, settings: EvaluationSettings, *, map: Map = map, progress: ProgressCallback | None = None
) -> dict[str, Value]:
    """Return every column of `COLUMNS`; None if the artifact has no rows for it.

    log_likelihood     nats per row of split 2, each given the rows before it; for `rows` evenly spaced rows if log Z of all
                       would take too long.  If both layers are too large for enumeration, log Z is annealed, and log_likelihood_se
                       is the error of the annealing only.
    log_z_method       `exact` or `annealed`.
    log_likelihood_unlinked
                       the same rows under a single RBM, with the links' mean biases over held-out rows that have an earlier row: the
                       difference is the information in earlier rows.  For a fitted model without links use --links none.
    independent        the same rows under independent columns with the training rows' means.
    prediction_error   root mean square error of the prediction from earlier rows, in standard deviations of the column in training
                       rows; mean_error that of the column's mean; persistence that of the previous value.  Over rows with an earlier row.
    """
    result: dict[str, Value] = dict.fromkeys(COLUMNS)
    result |= {"hidden": value.hidden, "sequences_train": value.sequences, "best_epoch": value.best_epoch or None}
    held = value.heldout_sequences()
    if held is None:
        return result | {"verdict": NO_ROWS}
    model, driven = value.model, held.step_harmoniums(value.model)
    found = estimate_likelihood(model, held, driven, settings, map, progress)
    shift = value.log_scale
    base = independent_log_likelihood(value, held, found.chosen)
    result |= {
        "rows": len(found.chosen),
        "log_likelihood": found.mean - shift,
        "log_likelihood_se": found.error,
        "log_z_method": "exact" if found.exact else "annealed",
        "log_likelihood_unlinked": log_likelihood_without_links(model, held, driven, found, settings, map) - shift,
        "independent": base - shift,
        "verdict": loss_finding(found.mean, base, worse="worse than independent", error=found.error) or OK,
    }
    errors = prediction_errors(value, held, driven, settings.seed, map)
    result |= errors
    if errors and result["verdict"] == OK and errors["prediction_error"] > min(errors["persistence"], errors["mean_error"]):
        result["verdict"] = "worse than persistence" if errors["persistence"] < errors["mean_error"] else "worse than the mean"
    return result


QUICK = EvaluationSettings(chains=20, temperatures=200)


def quick_metrics(value: RecurrentRBM, *, map: Map = map) -> dict[str, Value]:
    """Return the same metrics for at most QUICK_STEPS rows, for the verdict at the end of training."""
    held = value.holdout
    if held is None or len(held.X) <= QUICK_STEPS:
        return metrics(value, QUICK, map=map)
    end = max(1, int(np.searchsorted(held.offsets, QUICK_STEPS, side="right")) - 1)  # whole sequences, or the beginning of a long first one
    rows = min(int(held.offsets[end]), QUICK_STEPS)
    fewer = StoredHeldoutSequences(held.X[:rows], np.minimum(held.offsets[: end + 1], rows), held.state[:end], held.begins[:end])
    return metrics(replace(value, holdout=fewer), QUICK, map=map)


@dataclass(frozen=True)
class LikelihoodEstimate:
    """The mean log-likelihood of some rows (k,) in nats, its standard error by annealing, and whether log Z was enumerated."""

    mean: float
    error: float
    chosen: Array
    exact: bool


def estimate_likelihood(
    model: RecurrentModel,
    heldout: EvaluationSequences,
    driven: StepHarmoniums,
    settings: EvaluationSettings,
    map: Map,
    progress: ProgressCallback | None = None,
) -> LikelihoodEstimate:
    """Return the estimate for the held-out rows, or for some of them if log Z must be annealed."""
    settings.require_likelihood()
    annealed = settings.likelihood == "ais" or (settings.likelihood == "auto" and not is_enumerable(model))
    most = MOST_STEPS if annealed else max(MOST_STEPS, int(MOST_OPERATIONS / enumeration_cost(model, 1)))
    chosen = np.arange(len(heldout.v)) if settings.likelihood == "exact" else select_evenly_spaced(np.arange(len(heldout.v)), most)
    own = select_steps(driven, chosen)
    log_z, errors = step_log_partitions(model, own, annealed, settings, map, progress)
    mean = float((model.unnormalised_log_probability(heldout.v[chosen], own) - log_z).mean())
    return LikelihoodEstimate(mean, float(np.sqrt(np.square(errors).sum()) / len(chosen)), chosen, not annealed)


def step_log_partitions(
    model: RecurrentModel,
    driven_steps: StepHarmoniums,
    annealed: bool,
    settings: EvaluationSettings,
    map: Map,
    progress: ProgressCallback | None = None,
) -> tuple[Array, Array]:
    """Return log Z of steps (k,) and their standard errors (k,), 0 for enumerated ones."""
    if not annealed:
        return log_z_per_step(model, driven_steps, map=map), np.zeros(len(driven_steps.b))
    steps = tuple(Harmonium(model.p.W, b, c, model.visible, model.hidden) for b, c in zip(driven_steps.b, driven_steps.c, strict=True))
    problem = annealed_importance.AnnealingProblem(
        steps, tuple(driven_steps.b), settings.chains, settings.temperatures or 1000, settings.seed
    )
    found = run_algorithm(annealed_importance.AnnealedImportanceSampling(problem, map), watch=progress)
    return np.array([one.log_partition for one in found]), np.array([one.standard_error for one in found])


def log_likelihood_without_links(
    model: RecurrentModel,
    heldout: EvaluationSequences,
    driven: StepHarmoniums,
    estimate: LikelihoodEstimate,
    settings: EvaluationSettings,
    map: Map,
) -> float:
    """Return nats per row for the same rows if the links give their mean biases at every step.  First rows keep their own biases."""
    linked = heldout.previous_row >= 0
    if not linked.any():
        return estimate.mean
    b, c = (np.where(linked[:, None], each[linked].mean(axis=0), each) for each in (driven.b, driven.c))
    still, own = StepHarmoniums(driven.r, b, c), linked[estimate.chosen]
    one = estimate.chosen[own][:1]  # all of them have the same harmonium
    log_z, _ = step_log_partitions(
        model, select_steps(still, np.concatenate([estimate.chosen[~own], one])), not estimate.exact, settings, map
    )
    own_z = np.empty(len(own))
    own_z[~own], own_z[own] = log_z[: np.count_nonzero(~own)], log_z[-1]
    return float((model.unnormalised_log_probability(heldout.v[estimate.chosen], select_steps(still, estimate.chosen)) - own_z).mean())


def independent_log_likelihood(value: RecurrentRBM, heldout: EvaluationSequences, chosen: Array) -> float:
    """Return nats per row, for the chosen rows (k,), under independent columns."""
    units, rows = value.model.visible, np.asarray(heldout.v[chosen], dtype=np.float64)
    each = rows @ value.base_rates - units.log_partition(value.base_rates).sum() + units.row_log_base_measure(rows)
    return float(np.mean(each))


def prediction_errors(value: RecurrentRBM, heldout: EvaluationSequences, driven: StepHarmoniums, seed: int, map: Map) -> dict[str, float]:
    """Return the errors of the expected rows, of the mean and of the previous row; empty if no row has an earlier row."""
    previous = heldout.previous_row
    chosen = select_evenly_spaced(np.flatnonzero(previous >= 0), MOST_PREDICTED)
    if not len(chosen):
        return {}
    rows, variance = np.asarray(heldout.v[chosen], dtype=np.float64), value.base_variance
    scale = np.sqrt(np.where(variance > 0, variance, max(float(variance.mean()), LEAST)))
    expected = {
        "prediction_error": expected_next_rows(value.model, heldout, driven, chosen, seed, map=map),
        "mean_error": value.base_mean,
        "persistence": np.asarray(heldout.v[previous[chosen]], dtype=np.float64),
    }
    return {name: float(np.sqrt(np.square((rows - each) / scale).mean())) for name, each in expected.items()}
