"""What `herd eval` says about an `rbm`: likelihoods of the test rows, reconstruction, classification.

With one model per class, each test row counts under its own class's model, and figures are means over all test
rows; so `log_likelihood` is that of the rows given their labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np

from herdcli import iterate
from herdcli.errors import DataError
from herdcli.evaluation.classes import errors
from herdcli.evaluation.settings import EvaluationSettings
from herdcli.rbm import annealing
from herdcli.rbm.likelihood import Map, enumerable, log_likelihood, log_partition_exact, pseudo_likelihood, reconstruction_error
from herdcli.rbm.model import RBM, Harmonium, Rows
from herdcli.rbm.proper import require_proper
from herdcli.rbm.transform import energies
from herdcli.rbm.units import family
from herdcli.schema import Array
from herdcli.splits import TEST, VALID

COLUMNS = (
    "log_likelihood",
    "log_likelihood_se",
    "pseudo_likelihood",
    "reconstruction",
    "free_energy_gap",
    "error",
    "error_1nn",
    "error_majority",
)
Progress = Callable[[int, int], None]


def metrics(value: RBM, settings: EvaluationSettings, *, map: Map = map, progress: Progress | None = None) -> dict[str, float | None]:
    """Every column of `COLUMNS`; None where the artifact lacks the rows or scores for it, or the units have no such figure.

    log_likelihood_se  standard error of the mean that comes from estimating log Z: 0 when it is exact.  The
                       spread of the test rows is not in it.
    log_likelihood_reverse  with its standard error: the same from annealing back, if asked for.
    free_energy_gap    mean free energy of test rows minus that of training rows: what training rows are better explained by.
    progress           called with (steps done, steps in all) while chains are annealed.
    """
    result: dict[str, float | None] = dict.fromkeys(COLUMNS)
    groups = _test_rows(value)
    if groups:
        result |= _likelihoods(value, groups, settings, map, progress)
    if value.scores is not None:
        result |= errors(value.scores, settings)
    return result


def _test_rows(value: RBM) -> dict[int, Array]:
    """Test rows (n_m, D) under each model m that has any."""
    if value.holdout is None:
        return {}
    return _by_model(value.holdout, value.holdout.split == TEST, value.count)


def _by_model(rows: Rows, chosen: Array, count: int) -> dict[int, Array]:
    if count == 1:
        groups = {0: rows.X[chosen]}
    elif rows.y is None:
        raise DataError("dataset 'holdout/y' is missing: there are several models and no labels")
    else:
        groups = {m: rows.X[chosen & (rows.y == m)] for m in range(count)}
    return {m: part for m, part in groups.items() if len(part)}


def _likelihoods(
    value: RBM, groups: dict[int, Array], settings: EvaluationSettings, map: Map, progress: Progress | None
) -> dict[str, float | None]:
    models = {m: value.harmonium(m) for m in groups}
    ways = log_partitions(models, _validation(value), settings, map, progress)
    total = sum(len(rows) for rows in groups.values())
    sums = dict.fromkeys(["log_likelihood", "reconstruction"], 0.0)
    finite = family(value.visible_units).support is not None
    if finite:
        sums["pseudo_likelihood"] = 0.0
    if value.training_energy is not None:
        sums["free_energy_gap"] = 0.0
    for m, rows in groups.items():
        values = models[m].visible.discrete(rows)
        sums["log_likelihood"] += log_likelihood(models[m], values, ways[""][m].log_partition, map=map).sum()
        sums["reconstruction"] += reconstruction_error(models[m], rows, map=map).sum()
        if finite:
            sums["pseudo_likelihood"] += pseudo_likelihood(models[m], values, map=map).sum()
        if value.training_energy is not None:
            sums["free_energy_gap"] += (energies([models[m]], rows, map) - value.training_energy[m]).sum()
    if value.column_scale is not None:  # the density of rows as they were before they were standardised
        sums["log_likelihood"] -= total * float(np.log(value.column_scale, dtype=np.float64).sum())
    result: dict[str, float | None] = {name: float(figure / total) for name, figure in sums.items()}
    for suffix, found in ways.items():
        shift = sum(len(rows) * (ways[""][m].log_partition - found[m].log_partition) for m, rows in groups.items()) / total
        error = np.sqrt(sum((len(rows) * found[m].standard_error) ** 2 for m, rows in groups.items())) / total
        result[f"log_likelihood{suffix}"] = float((result["log_likelihood"] or 0.0) + shift)
        result[f"log_likelihood{suffix}_se"] = float(error)
    return result


def _validation(value: RBM) -> dict[int, Array]:
    """Validation rows of each model, which annealing starts at the means of."""
    return _by_model(value.holdout, value.holdout.split == VALID, value.count) if value.holdout is not None else {}


def log_partitions(
    models: dict[int, Harmonium], known: dict[int, Array], settings: EvaluationSettings, map: Map, progress: Progress | None
) -> dict[str, dict[int, annealing.Estimate]]:
    """log Z of each model, under "", and with --reverse also from annealing back, under "_reverse".

    known  rows whose means annealing starts from; any start is unbiased, a good one has less variance.
    Raises DataError for a model that has no finite Z.
    """
    for h in models.values():
        require_proper(h)
    exact = settings.likelihood == "exact" or (settings.likelihood == "auto" and all(enumerable(h) for h in models.values()))
    if exact:
        return {"": {m: annealing.Estimate(log_partition_exact(h, map=map), 0.0) for m, h in models.items()}}
    bases = tuple(h.visible.base_rate(known[m]) if m in known else h.b for m, h in models.items())
    problem = annealing.Problem(tuple(models.values()), bases, settings.chains, settings.temperatures, settings.seed)
    steps = annealing.total_steps(problem)
    state = iterate.run(partial(annealing.step, problem, map=map), annealing.init(problem), steps=steps, progress=progress)
    found = {"": dict(zip(models, annealing.estimates(problem, state), strict=True))}
    if settings.reverse:
        back, begun = annealing.reversed_from(problem, state)
        ended = iterate.run(partial(annealing.step, back, map=map), begun, steps=steps, progress=progress)
        found["_reverse"] = dict(zip(models, annealing.estimates(back, ended), strict=True))
    return found


def ranked_apart(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each pair of models that pseudo-likelihood ranks otherwise than the log-likelihood does."""
    known = [row for row in rows if row.get("pseudo_likelihood") is not None and row.get("log_likelihood") is not None]
    return [
        f"pseudo-likelihood ranks {a['file']} above {b['file']}, the log-likelihood below"
        for a, b in permutations(known, 2)
        if a["pseudo_likelihood"] > b["pseudo_likelihood"] and a["log_likelihood"] < b["log_likelihood"]
    ]
