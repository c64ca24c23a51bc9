"""What `herd eval` says about an `rbm`: likelihoods of the test rows, reconstruction, classification.

With one model per class, each test row counts under its own class's model, and figures are means over all test
rows; so `log_likelihood` is that of the rows given their labels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from herdcli import iterate
from herdcli.errors import DataError
from herdcli.evaluation.classes import errors
from herdcli.evaluation.settings import EvaluationSettings
from herdcli.rbm import annealing
from herdcli.rbm.likelihood import Map, enumerable, log_likelihood, log_partition_exact, pseudo_likelihood, reconstruction_error
from herdcli.rbm.model import RBM, Harmonium, Rows
from herdcli.rbm.proper import require_proper
from herdcli.rbm.units import family
from herdcli.schema import Array

TRAIN, VALID, TEST = 0, 1, 2
COLUMNS = ("log_likelihood", "log_likelihood_se", "pseudo_likelihood", "reconstruction", "error", "error_1nn", "error_majority")
Progress = Callable[[int, int], None]


def metrics(value: RBM, settings: EvaluationSettings, *, map: Map = map, progress: Progress | None = None) -> dict[str, float | None]:
    """Every column of `COLUMNS`; None where the artifact lacks the rows or scores for it.

    log_likelihood_se  standard error of the mean that comes from estimating log Z: 0 when it is exact.  The
                       spread of the test rows is not in it.
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
    log_partitions = _log_partitions(value, models, settings, map, progress)
    total = sum(len(rows) for rows in groups.values())
    sums = {"log_likelihood": 0.0, "reconstruction": 0.0}
    finite = family(value.visible_units).support is not None
    if finite:
        sums["pseudo_likelihood"] = 0.0
    variance = 0.0
    for m, rows in groups.items():
        log_z, error = log_partitions[m]
        values = models[m].visible.discrete(rows)
        sums["log_likelihood"] += log_likelihood(models[m], values, log_z, map=map).sum()
        if finite:
            sums["pseudo_likelihood"] += pseudo_likelihood(models[m], values, map=map).sum()
        sums["reconstruction"] += reconstruction_error(models[m], rows, map=map).sum()
        variance += (len(rows) * error) ** 2
    result: dict[str, float | None] = {name: float(figure / total) for name, figure in sums.items()}
    result["log_likelihood_se"] = float(np.sqrt(variance) / total)
    return result


def _log_partitions(
    value: RBM, models: dict[int, Harmonium], settings: EvaluationSettings, map: Map, progress: Progress | None
) -> dict[int, tuple[float, float]]:
    """(log Z, its standard error) of each model.  Raises DataError for a model that has no finite Z."""
    for h in models.values():
        require_proper(h)
    exact = settings.likelihood == "exact" or (settings.likelihood == "auto" and all(enumerable(h) for h in models.values()))
    if exact:
        return {m: (log_partition_exact(h, map=map), 0.0) for m, h in models.items()}
    # Annealing starts from the pixel means of validation rows; any start is unbiased, a good one has less variance.
    known = _by_model(value.holdout, value.holdout.split == VALID, value.count) if value.holdout is not None else {}
    bases = tuple(h.visible.base_rate(known[m]) if m in known else h.b for m, h in models.items())
    problem = annealing.Problem(tuple(models.values()), bases, settings.chains, settings.temperatures, settings.seed)
    advance = partial(annealing.step, problem, map=map)
    state = iterate.run(advance, annealing.init(problem), steps=annealing.total_steps(problem), progress=progress)
    return {m: (found.log_partition, found.standard_error) for m, found in zip(models, annealing.estimates(problem, state), strict=True)}
