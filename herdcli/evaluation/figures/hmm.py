"""The metrics of `herd eval` for hidden Markov models: likelihoods with baselines, criteria, code lengths, and labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from herdcli.algorithm import Map
from herdcli.em.hmm_artifacts import HeldoutSequences, HiddenMarkovModel
from herdcli.em.sequence import forward_backward
from herdcli.em.sequence.hmm_fitting import chain_information_criteria
from herdcli.em.variance_floors import floor_scale
from herdcli.evaluation.baselines.series_baselines import SeriesMoments, baseline_log_densities
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures.em import compare_with_labels
from herdcli.evaluation.metrics import standard_errors
from herdcli.evaluation.verdicts import NO_ROWS, join_findings, loss_finding
from herdcli.records import dataclass

FIGURES = tuple(
    "log_likelihood" + part
    for part in ("", "_mixture", "_baseline", "_one_state", "_gaussian", "_independent", "_persistence", "_valid", "_train")
)
GAIN = ("gain", "gain_se")
LEDGER = ("iterations", "rise", "floors")
LABELLED = ("adjusted_rand", "mutual_information", "error")


def metrics(
    value: HiddenMarkovModel,
    settings: EvaluationSettings,
    *,
    map: Map = map,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, float | str | None]:
    """Return the columns of the kind; None for those without rows or labels.

    log_likelihood       nats per row of the sequences of split 2; of split 1 (_valid) and 0 (_train).
    _mixture             that of split 2 under the same states without their order (a mixture weighted by their occupancy).
    _one_state           under one state; for real rows also under one full Gaussian (_gaussian), one per column (_independent), and a
                         Gaussian step from the last observed value (_persistence).
    _baseline            the best of these except persistence, with which the verdict compares.
    gain, gain_se        the gain of rows over the baseline, and its standard error over sequences, or over pieces of a few long ones.
    bic, aic             criteria of the training rows; smaller is better.
    rise                 largest rise of the free energy in one half-step of the run, nats per row.
    floors               number of variances, probabilities or rates that the last M step raised to their floor.
    adjusted_rand, mutual_information   states of the most probable paths compared with the labels of split 2.
    error                the error of the states of --per-class.
    verdict              `ok`, or all of `worse than baseline` or `learned nothing`, `worse than persistence`, and `variance at floor`
                         (constant columns are not counted).
    """
    ledger = value.ledger
    result: dict[str, float | str | None] = dict.fromkeys(("states", *FIGURES, *GAIN, "bic", "aic", *LEDGER, *LABELLED, "verdict"))
    result |= {
        "states": value.states,
        "log_likelihood_train": float(ledger.log_likelihood[-1]),
        "iterations": int(value.restarts.iterations[value.restarts.best]),
        "rise": ledger.largest_rise,
        "floors": int(ledger.floors[-2:].max(initial=0)),
        **chain_information_criteria(value),
    }
    floored = "variance at floor" if value.has_floored_variances else None
    result["verdict"] = floored or NO_ROWS
    if value.known is not None:
        result["log_likelihood_valid"] = value.known.valid
    if value.held is None:
        return result
    result["log_likelihood"] = value.log_likelihood(value.held.sequences, map)
    if value.known is not None:
        beside = _compare_with_baselines(value, value.held)
        result |= beside.figures
        result["verdict"] = join_findings([*beside.findings, floored])
    return result | _compare_with_labels(value, value.held, map)


@dataclass(frozen=True)
class _BaselineComparison:
    """The columns of the baselines, and the findings of comparisons with them."""

    figures: dict[str, float | str | None]
    findings: list[str | None]


def _compare_with_baselines(value: HiddenMarkovModel, heldout: HeldoutSequences) -> _BaselineComparison:
    """Compare the held-out rows with simpler models, row by row."""
    known, sequences = value.known, heldout.sequences
    assert known is not None
    block = sequences.as_one_block()
    logs = value.prepare_emission().log_likelihoods(block.X)
    own = forward_backward.row_log_likelihoods(
        value.chain_for_sequences(sequences), forward_backward.scale_likelihoods(logs), block.offsets
    )
    with np.errstate(divide="ignore"):
        base = {
            "mixture": forward_backward.log_sum_exp(logs + np.log(known.occupancy), axis=1),
            "one_state": value.single_state_densities(block.X),
        }
    lasting = None
    if known.base_mean is not None and known.base_full is not None and known.base_step is not None:
        variance = np.diagonal(known.base_full)
        scale = np.ones(len(variance)) if value.family == "spherical" else floor_scale(variance, known.base_mean, value.floor)
        moments = SeriesMoments(known.rows, known.base_mean, known.base_full, known.base_step, value.floor, scale)
        base |= baseline_log_densities(moments, block.X, block.offsets)
        lasting = base.pop("persistence")
    means = {name: float(each.mean()) for name, each in base.items()}
    best = max(means, key=lambda name: means[name])
    gain = own - base[best]
    spread = standard_errors.autocorrelated_standard_error(gain, block.offsets) if np.isfinite(gain).all() else None
    figures: dict[str, float | str | None] = {f"log_likelihood_{name}": mean for name, mean in means.items()}
    figures |= {"log_likelihood_baseline": means[best], "gain": float(gain.mean()), "gain_se": spread}
    findings = [loss_finding(float(own.mean()), means[best], worse="worse than baseline", scale=1.0, spread=spread)]
    if lasting is not None:
        figures["log_likelihood_persistence"] = float(lasting.mean())
        error = standard_errors.autocorrelated_standard_error(own - lasting, block.offsets)
        lost = loss_finding(float(own.mean()), float(lasting.mean()), worse="worse than persistence", scale=1.0, spread=error or 0.0)
        findings.append(None if lost == "learned nothing" else lost)
    return _BaselineComparison(figures, findings)


def _compare_with_labels(value: HiddenMarkovModel, heldout: HeldoutSequences, map: Map) -> dict[str, float | str | None]:
    """Compare the most probable paths with known labels."""
    if heldout.y is None or not (heldout.y >= 0).any():
        return {}
    there = heldout.y >= 0
    found, labels = value.infer_states(heldout.sequences, "viterbi", map)[there], heldout.y[there]
    return compare_with_labels(found, labels, supervised=value.known is not None and value.known.supervised)
