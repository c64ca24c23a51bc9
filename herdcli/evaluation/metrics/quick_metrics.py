"""Quick metrics of RBMs and DBNs for the verdict at the end of training, whose errors favour the model.

`herd eval` has the whole table; these are the columns that `verdicts` needs, computed from at most ROWS held-out rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from herdcli.algorithm import Map, run_algorithm
from herdcli.evaluation.baselines.energy_classification import classification_errors
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures import dbn
from herdcli.evaluation.figures.rbm import compare_with_independent, gaussian_baseline_columns, rows_by_model, word_count_columns
from herdcli.rbm.feature_transform import free_energies_by_model
from herdcli.rbm.layers import DBN
from herdcli.rbm.likelihood import annealed_importance
from herdcli.rbm.likelihood.enumeration import exact_log_partition, log2_state_count
from herdcli.rbm.likelihood.row_likelihood import row_log_likelihood
from herdcli.rbm.model import RBM, Harmonium
from herdcli.rbm.units import unit_family
from herdcli.schema import Matrix
from herdcli.splits import TEST, VALID

Row = dict[str, Any]
STATES = 14  # log Z is enumerated if the smaller layer has at most this many bits
BY_QUADRATICS = 20  # the same for a layer next to gaussian units, whose sum costs a few operations per state
CHAINS, TEMPERATURES, ROWS = 20, 200, 1000
FIXED = EvaluationSettings(calibrate="auto", mlr_penalty=0.01)  # no search for the penalty
AIS = EvaluationSettings(likelihood="ais", chains=CHAINS, temperatures=TEMPERATURES)
SURE = 3.0  # standard errors added to a likelihood, so that a bad verdict is certain


def quick_rbm_metrics(value: RBM, *, map: Map = map) -> Row:
    """Return the likelihood of held-out rows, that of independent columns, the free energy gap, and classification errors.

    An annealed log Z is biased downwards, and so the likelihood upwards; it is raised by another SURE standard errors.  A bad model may
    pass, but a good one gets no bad verdict.
    """
    row: Row = {}
    held = value.holdout
    if value.joint == "discriminative":  # such a model has no distribution of rows
        return row
    if held is not None and value.base_rates is not None and len(held.split):
        part = TEST if (held.split == TEST).any() else VALID
        groups = rows_by_model(held, held.split == part, value.count, ROWS)
        if groups:
            row |= (
                _word_count_columns(value, groups, map)
                if unit_family(value.visible_units).multinomial
                else _likelihood_columns(value, groups, map)
            )
    if value.scores is not None and (value.scores.split == VALID).any():
        row |= classification_errors(value.scores, FIXED)
    return row


def _likelihood_columns(value: RBM, groups: dict[int, Matrix], map: Map) -> Row:
    count, own, gap, each = sum(part.shape[0] for part in groups.values()), 0.0, 0.0, dict[int, Any]()
    for m, part in groups.items():
        h = value.harmonium(m)
        log_z = _quick_log_z(value, h, m, map)
        each[m] = row_log_likelihood(h, h.visible.round_rows_to_states(part), log_z, map=map)
        own += float(each[m].sum())
        if value.training_energy is not None:
            gap += float((free_energies_by_model([h], part, map) - value.training_energy[m]).sum())
    scale = 0.0 if value.column_scale is None else float(np.log(value.column_scale, dtype=np.float64).sum())
    base, error = compare_with_independent(value, groups, each)
    exact = all(_is_log_z_summable(value.harmonium(m)) for m in groups)
    row: Row = {"log_likelihood": own / count - scale, "log_z_method": "exact" if exact else "annealed"}
    row |= {"independent": base, "gain_se": error} | gaussian_baseline_columns(value, groups, each)
    return row if value.training_energy is None else row | {"free_energy_gap": gap / count}


def _word_count_columns(value: RBM, groups: dict[int, Matrix], map: Map) -> Row:
    found: Row = dict(word_count_columns(value, groups, AIS, map))
    raised = found["log_likelihood"] + SURE * found["log_likelihood_se"]
    return {"log_likelihood": raised, "log_z_method": "annealed"} | {name: found[name] for name in ("independent", "gain_se", "perplexity")}


def _is_log_z_summable(h: Harmonium) -> bool:
    """Return whether log Z is summed over all states of a layer."""
    return min(log2_state_count(h.visible, h.W.shape[0]), log2_state_count(h.hidden, h.W.shape[1])) <= STATES


def _quick_log_z(value: RBM, h: Harmonium, m: int, map: Map) -> float:
    """Return log Z by enumeration, or the lower end of the interval from one short run of annealing."""
    layers = (h.visible, h.hidden, h.W.shape[0]), (h.hidden, h.visible, h.W.shape[1])
    if any(log2_state_count(own, units) <= (BY_QUADRATICS if other.standard_normal else STATES) for own, other, units in layers):
        return exact_log_partition(h, map=map)
    assert value.base_rates is not None
    problem = annealed_importance.AnnealingProblem((h,), (value.base_rates[m],), CHAINS, TEMPERATURES, value.seed)
    (found,) = run_algorithm(annealed_importance.AnnealedImportanceSampling(problem))
    return found.log_partition - SURE * found.standard_error


def quick_dbn_metrics(value: DBN, *, map: Map = map) -> Row:
    """Return the bound and the first layer's likelihood for at most ROWS test rows, raised by SURE errors of the short annealing runs."""
    first = value.layers[0]
    if first.holdout is None or not (first.holdout.split == TEST).any():
        return {}
    chosen = np.sort(np.concatenate([np.flatnonzero(first.holdout.split == part)[:ROWS] for part in (VALID, TEST)]))
    fewer = replace(first.holdout, X=first.holdout.X[chosen], split=first.holdout.split[chosen], y=None)
    row: Row = dict(dbn.metrics(DBN([replace(first, holdout=fewer, scores=None), *value.layers[1:]]), AIS, map=map))
    for name in ("log_likelihood_bound", "log_likelihood_first"):
        row[name] = row[name] + SURE * row[f"{name}_se"]
    return row | {"log_z_method": "annealed"}
