"""Reliable estimates of log Z: annealing from mixtures that cover the modes, by longer and longer runs until they agree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from herdcli.algorithm import Map, ProgressCallback, run_algorithm
from herdcli.numerics.row_selection import as_dense
from herdcli.rbm.likelihood import annealed_importance, annealing_path, mean_field_modes, population_annealing
from herdcli.rbm.likelihood.annealed_importance import AnnealedImportanceSampling
from herdcli.rbm.likelihood.log_z_estimates import LogZEstimate, has_converged, is_last_run_reliable, runs_agree, widen_if_unreliable
from herdcli.rbm.likelihood.sequential_monte_carlo import refine_positions
from herdcli.rbm.model import Harmonium
from herdcli.schema import Array, Matrix

FIRST_LEVELS = 3  # least number of runs: the first finds the shares that the second starts with
KNOWN_ROWS = 200  # rows of the data from which mean-field solutions are computed
AIS_TEMPERATURES, MOST_TEMPERATURES = 1000, 5000


def estimate_log_partitions(
    models: Sequence[Harmonium],
    base_rates: Sequence[Array],
    rows: Sequence[Array],
    chains: int,
    max_temperatures: int,
    seed: int,
    map: Map,
    progress: ProgressCallback | None,
) -> list[LogZEstimate]:
    """Estimate log Z by populations from mixtures that cover the modes, each run with twice the temperatures of the last.

    Runs end once each model's last two agree with each other and with chains that are annealed back from the data, or when a run would
    have more than `max_temperatures` temperatures.  All forward runs agree even on a mode that all of them miss; rows of the data may
    reveal it.
    """
    places = range(len(models))
    bases = tuple(
        map(
            lambda m: mean_field_modes.make_mode_mixture(models[m], base_rates[m], _select_starting_rows(models[m], rows[m]), seed, m),
            places,
        )
    )
    pilots = list(map(lambda m: annealing_path.choose_temperatures(models[m], bases[m], seed, m), places))
    runs: list[list[LogZEstimate]] = []
    while True:
        betas = tuple(refine_positions(pilot, len(runs)) for pilot in pilots)
        over = max(len(part) - 1 for part in betas) > max_temperatures
        if len(runs) >= FIRST_LEVELS and (over or all(has_converged([run[m] for run in runs], bases[m].bound) for m in places)):
            temperatures = min(max_temperatures, max(AIS_TEMPERATURES, *(one.temperatures or 0 for one in runs[-1])))
            seen = _estimate_from_data(models, base_rates, rows, chains, temperatures, seed, map, progress)
            if over or not any(_has_missed_mass(runs[-1][m], seen[m]) for m in places):
                return [_combine_runs(bases[m], [run[m] for run in runs], seen[m]) for m in places]
        problem = population_annealing.PopulationProblem(tuple(models), bases, betas, chains, seed, len(runs))
        found = run_algorithm(population_annealing.PopulationAnnealing(problem, map), watch=progress)
        runs.append(found.estimates)
        bases = found.bases


def _estimate_from_data(
    models: Sequence[Harmonium],
    base_rates: Sequence[Array],
    rows: Sequence[Array],
    chains: int,
    temperatures: int,
    seed: int,
    map: Map,
    progress: ProgressCallback | None,
) -> list[LogZEstimate | None]:
    """Estimate log Z of each model by chains that start at its rows, walk at the model itself, and are annealed back; None without rows."""
    known = [m for m, part in enumerate(rows) if part.shape[0]]
    found: list[LogZEstimate | None] = [None] * len(models)
    if known:
        starts = tuple(select_reverse_starts(rows[m], chains) for m in known)
        given = tuple(models[m] for m in known), tuple(base_rates[m] for m in known)
        problem = annealed_importance.AnnealingProblem(*given, chains, temperatures, seed, known=starts)
        for m, estimate in zip(known, run_algorithm(AnnealedImportanceSampling(problem, map), watch=progress), strict=True):
            found[m] = estimate
    return found


def _has_missed_mass(run: LogZEstimate, estimate: LogZEstimate | None) -> bool:
    """Whether chains that start at the data give a Z larger than that of a run by more than both errors: the run then missed mass.

    If these chains cover a share s of the model's mass, and a share r of the forward paths ends in it, they estimate
    log Z + log s − log r.  A lower value than the run's is no evidence against it: s is small if the model is not like the data.
    """
    return estimate is not None and estimate.log_partition > run.log_partition and not runs_agree(run, estimate)


def _select_starting_rows(h: Harmonium, rows: Matrix) -> Array:
    """Return at most KNOWN_ROWS evenly spread rows, in values that units can take."""
    if not rows.shape[0]:
        return np.empty((0, h.W.shape[0]))
    return h.visible.round_to_states(np.asarray(as_dense(rows[:: -(-rows.shape[0] // KNOWN_ROWS)]), dtype=np.float64))


def _combine_runs(base: mean_field_modes.BaseMixture, runs: Sequence[LogZEstimate], estimate: LogZEstimate | None = None) -> LogZEstimate:
    """Return the last run's estimate; if runs disagree, or the data give a larger log Z, its interval includes the others."""
    last, others = runs[-1], [runs[-2]]
    missed = _has_missed_mass(last, estimate)
    if estimate is not None and missed:
        others.append(estimate)
    return widen_if_unreliable(last, others, is_last_run_reliable(runs, base.bound) and not missed)


def select_reverse_starts(rows: Matrix, count: int) -> Array:
    """Return `count` evenly spread rows of (n, D) as an array, where annealing back starts; an empty array if there are none."""
    return as_dense(rows[np.linspace(0, rows.shape[0] - 1, count).astype(int)] if rows.shape[0] else rows)
