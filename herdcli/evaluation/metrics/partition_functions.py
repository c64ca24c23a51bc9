"""log Z of harmoniums for `herd eval`: summed if possible, else annealed, by default until successive runs agree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli.algorithm import Map, ProgressCallback, run_algorithm
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.rbm.likelihood import annealed_importance
from herdcli.rbm.likelihood.annealed_importance import AnnealedImportanceSampling
from herdcli.rbm.likelihood.enumeration import exact_log_partition, is_enumerable
from herdcli.rbm.likelihood.log_z_estimates import LogZEstimate, single_run_estimate
from herdcli.rbm.likelihood.repeated_annealing import AIS_TEMPERATURES, MOST_TEMPERATURES, estimate_log_partitions, select_reverse_starts
from herdcli.rbm.model import Harmonium
from herdcli.rbm.normalizability import require_normalisable
from herdcli.schema import Array

LogZByMethod = dict[str, dict[int, LogZEstimate]]


def log_partitions(
    models: dict[int, Harmonium],
    bases: dict[int, Array],
    data_rows: dict[int, Array],
    settings: EvaluationSettings,
    map: Map,
    progress: ProgressCallback | None,
) -> LogZByMethod:
    """Return log Z of each model under "", and with --reverse also from reverse annealing, under "_reverse".

    bases  the natural parameters (D,) where annealing starts; any start is unbiased, a good one has less variance.
    data_rows  optional data rows (n, D) of each model, from which modes are searched and reverse annealing starts.
    Raises DataError for a model that has no finite Z.
    """
    settings.require_likelihood()
    for h in models.values():
        require_normalisable(h)
    if settings.likelihood == "exact" or (settings.likelihood == "auto" and all(is_enumerable(h) for h in models.values())):
        return {"": {m: LogZEstimate(exact_log_partition(h, map=map), 0.0) for m, h in models.items()}}
    own, each, rows = tuple(bases[m] for m in models), tuple(models.values()), [data_rows.get(m, np.empty((0, 0))) for m in models]
    temperatures = settings.temperatures or AIS_TEMPERATURES
    problem = annealed_importance.AnnealingProblem(each, own, settings.chains, temperatures, settings.seed)
    found = {}
    if settings.likelihood == "ais":
        found[""] = [single_run_estimate(one) for one in run_algorithm(AnnealedImportanceSampling(problem, map), watch=progress)]
    else:
        most = settings.temperatures or MOST_TEMPERATURES
        found[""] = estimate_log_partitions(each, own, rows, settings.chains, most, settings.seed, map, progress)
    if settings.reverse:
        starts = tuple(select_reverse_starts(part, settings.chains) for part in rows)
        found["_reverse"] = run_algorithm(AnnealedImportanceSampling(replace(problem, known=starts), map), watch=progress)
    return {way: dict(zip(models, estimates, strict=True)) for way, estimates in found.items()}
