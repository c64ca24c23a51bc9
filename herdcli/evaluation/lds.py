"""What `herd eval` says of a linear dynamical system: likelihoods beside a baseline, one-step predictions beside persistence, stability."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from herdcli.em.densities import LOG_TAU
from herdcli.em.kalman import kalman
from herdcli.em.lds_artifacts import LinearDynamics, ahead
from herdcli.em.lds_fitting import information
from herdcli.evaluation.settings import EvaluationSettings
from herdcli.evaluation.verdicts import NO_ROWS, OK, of_loss
from herdcli.schema import Array

COLUMNS = (
    "states", "log_likelihood", "log_likelihood_baseline", "log_likelihood_valid", "log_likelihood_train", "prediction_error",
    "persistence", "spectral_radius", "bic", "aic", "iterations", "rise", "floors", "verdict",
)  # fmt: skip
LEAST = 1e-300


def metrics(
    value: LinearDynamics,
    settings: EvaluationSettings,
    *,
    map: Callable[..., Any] = map,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, float | str | None]:
    """The columns of the kind; None where there are no rows for one.

    log_likelihood     nats a row of split 2, pieces of a sequence cut in time given the rows before them; of one Gaussian for each column
                       beside it; of split 1 and 0.
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
    result |= information(value) | {"verdict": NO_ROWS}
    known = value.known
    if known is None:
        return result
    result["log_likelihood_valid"] = known.valid
    if value.holdout is not None and len(value.holdout):
        result |= held_out(value, known.base_mean, known.base_variance)
    if value.radius > 1.0:
        result["verdict"] = "unstable" if result["verdict"] in (None, OK, NO_ROWS) else f"{result['verdict']}; unstable"
    return result


def held_out(value: LinearDynamics, mean: Array, variance: Array) -> dict[str, float | str | None]:
    """Figures of the held-out sequences, beside a Gaussian for each column and beside the value before."""
    own = base = 0.0
    errors: list[Array] = []
    lasting: list[Array] = []
    spread = np.where(variance > 0, variance, max(float(variance.mean()), LEAST))
    for p, Y, U in value.held_out():
        found = kalman(p, Y, np.array([0, len(Y)]), U)
        own += float(found.log_likelihood.sum())
        base += float(np.nansum(-0.5 * (np.square(Y - mean) / spread + np.log(spread) + LOG_TAU)))
        before = last_seen(Y)
        both = ~np.isnan(Y) & ~np.isnan(before)
        scale = np.broadcast_to(np.sqrt(spread), Y.shape)[both]
        errors.append((Y - ahead(p, found))[both] / scale)
        lasting.append((Y - before)[both] / scale)
    count = len(np.asarray(value.holdout))
    mine, theirs = np.concatenate(errors), np.concatenate(lasting)
    found_: dict[str, float | str | None] = {
        "log_likelihood": own / count,
        "log_likelihood_baseline": base / count,
        "verdict": of_loss(own / count, base / count, worse="worse than baseline", scale=1.0) or OK,
    }
    if len(mine):
        found_ |= {"prediction_error": float(np.sqrt(np.square(mine).mean())), "persistence": float(np.sqrt(np.square(theirs).mean()))}
        if found_["verdict"] == OK and float(found_["prediction_error"] or 0.0) > float(found_["persistence"] or 0.0):
            found_["verdict"] = "worse than persistence"
    return found_


def last_seen(Y: Array) -> Array:
    """(T, D) the last value seen before each row in every column, NaN where there is none."""
    found = np.full_like(Y, np.nan)
    for t in range(1, len(Y)):
        found[t] = np.where(np.isnan(Y[t - 1]), found[t - 1], Y[t - 1])
    return found
