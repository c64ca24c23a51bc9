"""log Z of harmoniums for `herd eval`: summed where it can be, else annealed until successive runs agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from herdcli.algorithm import Watch, solve
from herdcli.evaluation.settings import EvaluationSettings
from herdcli.numerics import real
from herdcli.numerics.rows import dense
from herdcli.rbm import annealing, modes, populations, walk
from herdcli.rbm.annealing import Annealing, Estimate
from herdcli.rbm.enumeration import enumerable, log_partition_exact
from herdcli.rbm.likelihood import Map
from herdcli.rbm.model import Harmonium
from herdcli.rbm.proper import require_proper
from herdcli.schema import Array

Ways = dict[str, dict[int, Estimate]]

LEAST_EFFECTIVE = 20.0  # chains without which an estimate is not relied on
AGREED = 0.1  # nats that successive runs may differ by beyond their errors
NARROW = 0.15  # nats: standard error below which runs are not made longer
FIRST_LEVELS = 3  # runs that are made in any case: the first sets the shares that the second starts with
KNOWN_ROWS = 200  # rows of the data that mean-field solutions are sought from
AIS_TEMPERATURES, MOST_TEMPERATURES = 1000, 5000


def log_partitions(
    models: dict[int, Harmonium],
    bases: dict[int, Array],
    known: dict[int, Array],
    settings: EvaluationSettings,
    map: Map,
    progress: Watch | None,
) -> Ways:
    """log Z of each model, under "", and with --reverse also from annealing back, under "_reverse".

    bases  the natural parameters (D,) that annealing starts from; any start is unbiased, a good one has less variance.
    known  rows of the data (n, D) of each model, from which modes are sought and annealing back begins; none are needed.
    Raises DataError for a model that has no finite Z.
    """
    for h in models.values():
        require_proper(h)
    if settings.likelihood == "exact" or (settings.likelihood == "auto" and all(enumerable(h) for h in models.values())):
        return {"": {m: Estimate(log_partition_exact(h, map=map), 0.0) for m, h in models.items()}}
    own, each, rows = tuple(bases[m] for m in models), tuple(models.values()), [known.get(m, np.empty((0, 0))) for m in models]
    temperatures = settings.temperatures or AIS_TEMPERATURES
    problem = annealing.Problem(each, own, settings.chains, temperatures, settings.seed)
    found = {}
    if settings.likelihood == "ais":
        found[""] = [trusted(one) for one in solve(Annealing(problem, map), watch=progress)]
    else:
        most = settings.temperatures or MOST_TEMPERATURES
        found[""] = annealed(each, own, rows, settings.chains, most, settings.seed, map, progress)
    if settings.reverse:
        starts = tuple(_spread(part, settings.chains) for part in rows)
        found["_reverse"] = solve(Annealing(replace(problem, known=starts), map), watch=progress)
    return {way: dict(zip(models, estimates, strict=True)) for way, estimates in found.items()}


def _spread(rows: Any, count: int) -> Array:
    """So many rows that annealing back begins at, evenly spread, as an array; rows where there are none."""
    return dense(rows[np.linspace(0, rows.shape[0] - 1, count).astype(int)] if rows.shape[0] else rows)


def trusted(found: Estimate) -> Estimate:
    """The estimate of a single run, reliable if enough chains count."""
    return replace(found, reliable=(found.effective or 0.0) >= LEAST_EFFECTIVE)


def annealed(
    models: Sequence[Harmonium],
    own: Sequence[Array],
    rows: Sequence[Array],
    chains: int,
    most: int,
    seed: int,
    map: Map,
    progress: Watch | None,
) -> list[Estimate]:
    """log Z by populations from mixtures that know the modes, each run with twice the temperatures of the last.

    Runs end once each model's last two agree, or when a run would have more than `most` temperatures.
    """
    places = range(len(models))
    bases = tuple(map(lambda m: modes.base_of(models[m], own[m], _some(models[m], rows[m]), seed, m), places))
    pilots = list(map(lambda m: walk.pilot(models[m], bases[m], seed, m), places))
    runs: list[list[Estimate]] = []
    while len(runs) < FIRST_LEVELS or not all(_settled(bases[m], [run[m] for run in runs]) for m in places):
        betas = tuple(walk.refined(pilot, len(runs)) for pilot in pilots)
        if len(runs) >= FIRST_LEVELS and max(len(part) - 1 for part in betas) > most:
            break
        problem = populations.Problem(tuple(models), bases, betas, chains, seed, len(runs))
        found = solve(populations.Populations(problem, map), watch=progress)
        runs.append(found.estimates)
        bases = found.bases
    return [_judged(bases[m], [run[m] for run in runs]) for m in places]


def _some(h: Harmonium, rows: Any) -> Array:
    """At most KNOWN_ROWS rows, evenly spread, in the values that units can take."""
    if not rows.shape[0]:
        return np.empty((0, h.W.shape[0]))
    return h.visible.discrete(np.asarray(dense(rows[:: -(-rows.shape[0] // KNOWN_ROWS)]), dtype=np.float64))


def _agree(one: Estimate, other: Estimate) -> bool:
    """Whether two runs differ by no more than their 95 % intervals and AGREED."""
    allowed = AGREED + populations.STUDENT * float(real.hypot(one.standard_error, other.standard_error))
    return abs(one.log_partition - other.log_partition) <= allowed


def _sound(base: modes.Base, runs: Sequence[Estimate]) -> bool:
    """Enough chains count, the last two runs agree, and log Z is not below a bound that is known."""
    last = runs[-1]
    above = last.log_partition + populations.STUDENT * last.standard_error + AGREED >= base.bound
    return (last.effective or 0.0) >= LEAST_EFFECTIVE and above and all(_agree(*pair) for pair in pairwise(runs[-2:]))


def _settled(base: modes.Base, runs: Sequence[Estimate]) -> bool:
    return _sound(base, runs) and runs[-1].standard_error <= NARROW


def _judged(base: modes.Base, runs: Sequence[Estimate]) -> Estimate:
    """The last run's estimate; where runs disagree its interval reaches to what the one before it said."""
    last, before = runs[-1], runs[-2]
    sound = _sound(base, runs)
    # An interval of STUDENT times this reaches as far as the run before.
    drift = 0.0 if sound else abs(last.log_partition - before.log_partition) / populations.STUDENT
    return replace(last, standard_error=max(last.standard_error, drift), reliable=sound)
