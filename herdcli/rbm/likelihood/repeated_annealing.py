"""log Z that can be relied on: annealed from mixtures that know the modes, by longer and longer runs until they agree with each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from herdcli.algorithm import Watch, run_algorithm
from herdcli.numerics.row_selection import as_dense
from herdcli.rbm.likelihood import annealed_importance, annealing_path, mean_field_modes, population_annealing
from herdcli.rbm.likelihood.annealed_importance import Annealing
from herdcli.rbm.likelihood.log_z_estimates import LogZEstimate, is_settled, is_sound, runs_agree, widened_estimate
from herdcli.rbm.likelihood.row_likelihood import Map
from herdcli.rbm.likelihood.sequential_monte_carlo import refine_places
from herdcli.rbm.model import Harmonium
from herdcli.schema import Array

FIRST_LEVELS = 3  # runs that are made in any case: the first sets the shares that the second starts with
KNOWN_ROWS = 200  # rows of the data that mean-field solutions are sought from
AIS_TEMPERATURES, MOST_TEMPERATURES = 1000, 5000


def repeated_annealing(
    models: Sequence[Harmonium],
    own: Sequence[Array],
    rows: Sequence[Array],
    chains: int,
    most: int,
    seed: int,
    map: Map,
    progress: Watch | None,
) -> list[LogZEstimate]:
    """log Z by populations from mixtures that know the modes, each run with twice the temperatures of the last.

    Runs end once each model's last two agree with each other and with chains that are annealed back from the data, or when a run would
    have more than `most` temperatures.  What the way there misses in every run, all runs agree without: rows of the data may know of it.
    """
    places = range(len(models))
    bases = tuple(map(lambda m: mean_field_modes.mode_mixture(models[m], own[m], _sample_starts(models[m], rows[m]), seed, m), places))
    pilots = list(map(lambda m: annealing_path.pilot_temperatures(models[m], bases[m], seed, m), places))
    runs: list[list[LogZEstimate]] = []
    while True:
        betas = tuple(refine_places(pilot, len(runs)) for pilot in pilots)
        over = max(len(part) - 1 for part in betas) > most
        if len(runs) >= FIRST_LEVELS and (over or all(is_settled([run[m] for run in runs], bases[m].bound) for m in places)):
            temperatures = min(most, max(AIS_TEMPERATURES, *(one.temperatures or 0 for one in runs[-1])))
            seen = _estimates_from_data(models, own, rows, chains, temperatures, seed, map, progress)
            if over or not any(_misses_mass(runs[-1][m], seen[m]) for m in places):
                return [_final_estimate(bases[m], [run[m] for run in runs], seen[m]) for m in places]
        problem = population_annealing.PopulationProblem(tuple(models), bases, betas, chains, seed, len(runs))
        found = run_algorithm(population_annealing.PopulationAnnealing(problem, map), watch=progress)
        runs.append(found.estimates)
        bases = found.bases


def _estimates_from_data(
    models: Sequence[Harmonium],
    own: Sequence[Array],
    rows: Sequence[Array],
    chains: int,
    temperatures: int,
    seed: int,
    map: Map,
    progress: Watch | None,
) -> list[LogZEstimate | None]:
    """log Z of each model by chains that begin at its rows, walk at the model itself, and are annealed back; None without rows."""
    known = [m for m, part in enumerate(rows) if part.shape[0]]
    found: list[LogZEstimate | None] = [None] * len(models)
    if known:
        starts = tuple(annealing_starts(rows[m], chains) for m in known)
        given = tuple(models[m] for m in known), tuple(own[m] for m in known)
        problem = annealed_importance.AnnealingProblem(*given, chains, temperatures, seed, known=starts)
        for m, estimate in zip(known, run_algorithm(Annealing(problem, map), watch=progress), strict=True):
            found[m] = estimate
    return found


def _misses_mass(run: LogZEstimate, estimate: LogZEstimate | None) -> bool:
    """Whether chains that began at the data say of a larger Z than a run and both errors allow for: the run did not meet all mass there is.

    With a share s of the model's mass where these chains are, and a share r of the paths of the way there that end in it, they say
    log Z + log s − log r.  Less than the run says is no evidence against it: s is small where the model is not like the data.
    """
    return estimate is not None and estimate.log_partition > run.log_partition and not runs_agree(run, estimate)


def _sample_starts(h: Harmonium, rows: Any) -> Array:
    """At most KNOWN_ROWS rows, starts_of spread, in the values that units can take."""
    if not rows.shape[0]:
        return np.empty((0, h.W.shape[0]))
    return h.visible.discrete(np.asarray(as_dense(rows[:: -(-rows.shape[0] // KNOWN_ROWS)]), dtype=np.float64))


def _final_estimate(base: mean_field_modes.BaseMixture, runs: Sequence[LogZEstimate], estimate: LogZEstimate | None = None) -> LogZEstimate:
    """The last run's estimate; where runs disagree, or the data know of more, its interval reaches to what is said there."""
    last, others = runs[-1], [runs[-2]]
    missed = _misses_mass(last, estimate)
    if estimate is not None and missed:
        others.append(estimate)
    return widened_estimate(last, others, is_sound(runs, base.bound) and not missed)


def annealing_starts(rows: Any, count: int) -> Array:
    """So many of rows (n, D) that annealing back begins at, evenly spread, as an array; where there are none, none."""
    return as_dense(rows[np.linspace(0, rows.shape[0] - 1, count).astype(int)] if rows.shape[0] else rows)
