"""What `herd eval` says of a linear dynamical system: likelihoods beside a baseline, one-step predictions beside persistence, stability."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from herdcli.em.lds_artifacts import KnownDynamics, LinearDynamics, one_step_predictions
from herdcli.em.sequence.kalman import filter_sequences
from herdcli.em.sequence.lds import floor_and_scale
from herdcli.em.sequence.lds_fitting import lds_information_criteria
from herdcli.em.variance_floors import FLOOR
from herdcli.evaluation.baselines.series_baselines import SeriesMoments, baseline_densities
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
    map: Callable[..., Any] = map,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, float | str | None]:
    """The columns of the kind; None where there are no rows for one.

    log_likelihood     nats a row of split 2, pieces of a sequence cut in time given the rows before them; of split 1 and 0.
    _gaussian, _independent, _persistence, _baseline  of split 2 by one full Gaussian, one for each column, the last value seen with the
                       spread of a step, and the better of the first two, which the verdict is held against.
    gain, gain_se      what rows have more than by the baseline, and its standard error: of sequences, or of pieces of a few long ones.
    prediction_error   root mean square of a value less what the rows before it say, in standard deviations of its column, split 2.
    persistence        the same of a value less the last one seen in its column; both over values that have one before them.
    spectral_radius    largest modulus of the eigenvalues of A; above 1 the system is unstable, and the verdict says so.
    bic, aic           of the rows learned from; the smaller, the better.
    rise               largest rise of the free energy in one half-step of the run, nats a row.      floors  variances raised last.
    """
    ledger = value.ledger
    result: dict[str, float | str | None] = dict.fromkeys(COLUMNS)
    result |= {
        "states": value.states,
        "log_likelihood_train": float(ledger.log_likelihood[-1]),
        "spectral_radius": value.radius,
        "iterations": int(value.restarts.iterations[value.restarts.best]),
        "rise": ledger.rise,
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
    if value.radius > 1.0:
        result["verdict"] = join_findings([*findings, "unstable"])
    return result


def heldout_columns(value: LinearDynamics, known: KnownDynamics) -> tuple[dict[str, float | str | None], list[str | None]]:
    """Figures of the held-out sequences, beside Gaussians and beside the value before, and what is wrong by them."""
    moments = _training_moments(value, known)
    spread, rows = np.maximum(known.base_variance, moments.floor * np.square(moments.scale)), np.asarray(value.holdout)
    offsets = np.asarray(value.holdout_offsets)
    own, mine, theirs = np.empty(len(rows)), np.zeros(len(rows)), np.zeros(len(rows))
    values = 0
    for (p, Y, U), begin in zip(value.held_out(), offsets[:-1].tolist(), strict=True):
        found, part = filter_sequences(p, Y, np.array([0, len(Y)]), U), slice(begin, begin + len(Y))
        own[part] = found.log_likelihood
        before = last_observed(Y)
        both = ~np.isnan(Y) & ~np.isnan(before)
        mine[part] = (np.square(np.where(both, Y - one_step_predictions(p, found), 0.0)) / spread).sum(axis=1)
        theirs[part] = (np.square(np.where(both, Y - before, 0.0)) / spread).sum(axis=1)
        values += int(both.sum())
    base = baseline_densities(moments, rows, offsets)
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
    more = (mine - theirs).mean()  # squared error a row that the last value seen would not make
    worse = more > ERRORS * (standard_errors.autocorrelated_standard_error(mine - theirs, offsets) or 0.0) and mine.sum() > theirs.sum()
    return figures, [loss, "worse than persistence" if worse else None]


def _training_moments(value: LinearDynamics, known: KnownDynamics) -> SeriesMoments:
    """Those of the training rows, floored as the model's noise is; of models without a covariance or steps those of independent columns."""
    variance = known.base_variance
    floor, scale = floor_and_scale(variance, None if value.floor == FLOOR else value.floor)
    full = np.diag(variance) if known.base_full is None else known.base_full
    return SeriesMoments(known.rows, known.base_mean, full, variance if known.base_step is None else known.base_step, floor, scale)


def last_observed(Y: Array) -> Array:
    """(T, D) the last value seen before each row in every column, NaN where there is none."""
    found = np.full_like(Y, np.nan)
    for t in range(1, len(Y)):
        found[t] = np.where(np.isnan(Y[t - 1]), found[t - 1], Y[t - 1])
    return found
