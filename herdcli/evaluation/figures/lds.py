"""The metrics of `herd eval` for a linear dynamical system: likelihoods with a baseline, one-step predictions, stability."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from herdcli.algorithm import Map
from herdcli.em.lds_artifacts import DynamicsFitFacts, LinearDynamics, one_step_predictions
from herdcli.em.sequence.kalman import filter_sequences
from herdcli.em.sequence.lds import variance_floor_and_scale
from herdcli.em.sequence.lds_fitting import lds_information_criteria
from herdcli.em.variance_floors import FLOOR
from herdcli.evaluation.baselines.series_baselines import SeriesMoments, baseline_log_densities
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.metrics import standard_errors
from herdcli.evaluation.verdicts import ERRORS, NO_ROWS, join_findings, loss_finding
from herdcli.schema import Array

COLUMNS = (
    "states", "log_likelihood", "log_likelihood_baseline", "log_likelihood_gaussian", "log_likelihood_independent",
    "log_likelihood_persistence", "gain", "gain_se", "log_likelihood_valid", "log_likelihood_train", "prediction_error", "persistence",
    "spectral_radius", "bic", "aic", "iterations", "rise", "floors", "verdict",
)  # fmt: skip


def metrics(
    value: LinearDynamics,
    settings: EvaluationSettings,
    *,
    map: Map = map,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, float | str | None]:
    """Return the columns of the kind; None for those without rows.

    log_likelihood     nats per row of split 2, given the rows before it if a sequence was cut in time; of split 1 and 0.
    _gaussian, _independent, _persistence, _baseline  those of split 2 under one full Gaussian, one per column, a Gaussian step from the
                       last observed value, and the better of the first two, with which the verdict compares.
    gain, gain_se      the gain of rows over the baseline, and its standard error over sequences, or over pieces of a few long ones.
    prediction_error   root mean square error of one-step predictions, in standard deviations of each column, split 2.
    persistence        the same for the last observed value as prediction; both over values with an earlier one in their column.
    spectral_radius    largest modulus of the eigenvalues of A; above 1 the system is unstable, which is a finding of the verdict.
    bic, aic           criteria of the training rows; smaller is better.
    rise               largest rise of the free energy in one half-step of the run, nats per row.
    floors             number of variances that the last M step raised to their floor.
    """
    ledger = value.ledger
    result: dict[str, float | str | None] = dict.fromkeys(COLUMNS)
    result |= {
        "states": value.states,
        "log_likelihood_train": float(ledger.log_likelihood[-1]),
        "spectral_radius": value.spectral_radius,
        "iterations": int(value.restarts.iterations[value.restarts.best]),
        "rise": ledger.largest_rise,
        "floors": int(ledger.floors[-2:].max(initial=0)),
    }
    result |= lds_information_criteria(value) | {"verdict": NO_ROWS}
    known = value.known
    if known is None:
        return result
    result["log_likelihood_valid"] = known.valid
    findings: list[str | None] = []
    if value.holdout is not None and len(value.holdout):
        figures, findings = heldout_columns(value, known)
        result |= figures | {"verdict": join_findings(findings)}
    if value.spectral_radius > 1.0:
        result["verdict"] = join_findings([*findings, "unstable"])
    return result


def heldout_columns(value: LinearDynamics, facts: DynamicsFitFacts) -> tuple[dict[str, float | str | None], list[str | None]]:
    """Return the columns of the held-out sequences, compared with Gaussians and persistence, and the findings from them."""
    moments = _training_moments(value, facts)
    spread, rows = np.maximum(facts.base_variance, moments.floor * np.square(moments.scale)), np.asarray(value.holdout)
    offsets = np.asarray(value.holdout_offsets)
    own, mine, theirs = np.empty(len(rows)), np.zeros(len(rows)), np.zeros(len(rows))
    values = 0
    for (p, Y, U), begin in zip(value.heldout_sequences(), offsets[:-1].tolist(), strict=True):
        found, part = filter_sequences(p, Y, np.array([0, len(Y)]), U), slice(begin, begin + len(Y))
        own[part] = found.log_likelihood
        before = last_observed_values(Y)
        both = ~np.isnan(Y) & ~np.isnan(before)
        mine[part] = (np.square(np.where(both, Y - one_step_predictions(p, found), 0.0)) / spread).sum(axis=1)
        theirs[part] = (np.square(np.where(both, Y - before, 0.0)) / spread).sum(axis=1)
        values += int(both.sum())
    base = baseline_log_densities(moments, rows, offsets)
    lasting = base.pop("persistence")
    means = {name: float(each.mean()) for name, each in base.items()}
    best = max(means, key=lambda name: means[name])
    gain = own - base[best]
    error = standard_errors.autocorrelated_standard_error(gain, offsets)
    figures: dict[str, float | str | None] = {f"log_likelihood_{name}": mean for name, mean in means.items()}
    figures |= {"log_likelihood": float(own.mean()), "log_likelihood_baseline": means[best], "gain": float(gain.mean()), "gain_se": error}
    figures["log_likelihood_persistence"] = float(lasting.mean())
    loss = loss_finding(float(own.mean()), means[best], worse="worse than baseline", scale=1.0, spread=error)
    if not values:
        return figures, [loss]
    figures |= {"prediction_error": math.sqrt(mine.sum() / values), "persistence": math.sqrt(theirs.sum() / values)}
    more = (mine - theirs).mean()  # squared error per row beyond that of persistence
    worse = more > ERRORS * (standard_errors.autocorrelated_standard_error(mine - theirs, offsets) or 0.0) and mine.sum() > theirs.sum()
    return figures, [loss, "worse than persistence" if worse else None]


def _training_moments(value: LinearDynamics, facts: DynamicsFitFacts) -> SeriesMoments:
    """Return the moments of the training rows, with the model's noise floors.

    If covariance or steps are missing, those of independent columns are used.
    """
    variance = facts.base_variance
    floor, scale = variance_floor_and_scale(variance, None if value.floor == FLOOR else value.floor)
    full = np.diag(variance) if facts.base_full is None else facts.base_full
    return SeriesMoments(facts.rows, facts.base_mean, full, variance if facts.base_step is None else facts.base_step, floor, scale)


def last_observed_values(Y: Array) -> Array:
    """Return (T, D) the last observed value before each row in every column, NaN if there is none."""
    found = np.full_like(Y, np.nan)
    for t in range(1, len(Y)):
        found[t] = np.where(np.isnan(Y[t - 1]), found[t - 1], Y[t - 1])
    return found
