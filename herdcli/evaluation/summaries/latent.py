"""Tables about mixtures, centres, factors, and sequence models: parameters with the names of the columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.evaluation.summaries.summary_table import MOST_COLUMNS, Levels, SummaryTable, column_names, limit_rows
from herdcli.evaluation.table import Row
from herdcli.schema import Array

if TYPE_CHECKING:
    from herdcli.em.artifacts import Clusters, FactorModel, FitFacts, Mixture
    from herdcli.em.hmm_artifacts import HiddenMarkovModel
    from herdcli.em.lds_artifacts import LinearDynamics


def mixture_tables(value: Mixture, levels: Levels) -> list[SummaryTable]:
    """Return weights, means and standard deviations of the components."""
    names = _column_names(value.known, value.mean.shape[1])
    labels = _component_labels(value.known, len(value.weight))
    spread = np.sqrt(np.diagonal(value.covariance, axis1=1, axis2=2))
    means = _component_table(f"components ({value.family} covariances): weights and means", labels, value.weight, value.mean, names)
    return [means, _component_table("standard deviations", labels, None, spread, names)]


def centre_tables(value: Clusters, levels: Levels) -> list[SummaryTable]:
    """Return the centres."""
    names = _column_names(value.known, value.centre.shape[1])
    return [_component_table("centres", _component_labels(value.known, len(value.centre)), None, value.centre, names)]


def factor_tables(value: FactorModel, levels: Levels) -> list[SummaryTable]:
    """Return loadings, mean and noise of every column."""
    names = _column_names(value.known, len(value.mean))
    rows: list[Row] = [
        Row(column=name, mean=float(value.mean[j]))
        | {f"factor_{k + 1}": float(value.loading[j, k]) for k in range(min(value.loading.shape[1], MOST_COLUMNS))}
        | {"noise": float(value.noise[j])}
        for j, name in enumerate(names)
    ]
    return [limit_rows(f"{value.model}: loadings, and variances of the noise", rows, 60)]


def chain_tables(value: HiddenMarkovModel, levels: Levels) -> list[SummaryTable]:
    """Return initial probabilities, transitions, and the parameters of the emissions."""
    states = [str(k + 1) for k in range(len(value.initial))]
    rows: list[Row] = [
        Row(state=name, first=float(value.initial[k])) | {f"to_{to}": float(value.transition[k, j]) for j, to in enumerate(states)}
        for k, name in enumerate(states)
    ]
    tables = [limit_rows("states: probabilities of the first, and of the next", rows)]
    names = value.known.feature_names if value.known is not None else None
    for name, stored in value.emissions.parameters.items():
        item = stored[:, 0] if stored.ndim == 3 and stored.shape[1] == 1 and name == "mean" else stored
        if (name != "mixing" or item.shape[1] > 1) and item.ndim == 2 and item.shape[0] == len(states):
            titles = column_names(names if names is not None and len(names) == item.shape[1] else None, item.shape[1])
            tables.append(_component_table(f"{value.emission} emissions: {name}", states, None, item, titles))
    return tables


def dynamics_tables(value: LinearDynamics, levels: Levels) -> list[SummaryTable]:
    """Return the transitions of the states, and the composition of each column."""
    states = [f"state_{k + 1}" for k in range(value.states)]
    names = column_names(value.known.feature_names if value.known is not None else None, len(value.mean))
    steps: list[Row] = [
        Row(next=name) | {f"from_{j + 1}": float(value.transition[k, j]) for j in range(len(states))} | {"drift": float(value.drift[k])}
        for k, name in enumerate(states)
    ]
    rows: list[Row] = [
        Row(column=name, mean=float(value.mean[j]))
        | {state: float(value.loading[j, k]) for k, state in enumerate(states)}
        | {"noise": float(value.noise[j, j])}
        for j, name in enumerate(names)
    ]
    return [limit_rows("transition", steps), limit_rows("columns: mean, loadings, variance of the noise", rows, 60)]


def _column_names(facts: FitFacts | None, count: int) -> list[str]:
    return column_names(None if facts is None else facts.feature_names, count)


def _component_labels(facts: FitFacts | None, count: int) -> list[str]:
    """Return the names of components: the classes, if each component belongs to one."""
    if facts is None or not facts.supervised or facts.class_names is None:
        return [str(k + 1) for k in range(count)]
    return [facts.class_names[k // facts.per_class] + (f" {k % facts.per_class + 1}" if facts.per_class > 1 else "") for k in range(count)]


def _component_table(title: str, labels: list[str], weight: Array | None, values: Array, names: list[str]) -> SummaryTable:
    """Return a table with a line per component, or a line per column if there are many columns and few components."""
    if len(names) > MOST_COLUMNS and len(labels) <= MOST_COLUMNS:
        rows: list[Row] = [] if weight is None else [Row(column="(weight)") | {label: float(weight[k]) for k, label in enumerate(labels)}]
        rows += [Row(column=name) | {label: float(values[k, j]) for k, label in enumerate(labels)} for j, name in enumerate(names)]
        return limit_rows(title, rows, 66)
    shown = names[:MOST_COLUMNS]
    lines: list[Row] = [
        Row(component=label)
        | ({} if weight is None else {"weight": float(weight[k])})
        | {name: float(values[k, j]) for j, name in enumerate(shown)}
        for k, label in enumerate(labels)
    ]
    return limit_rows(title, lines)
