"""The rows that drive each run of herding, and the artifact of finished runs.

There is one run for all training rows, or one per class.  In the second case every run also averages the energies of all
held-out rows; these energies classify the rows (Welling 2009, sec. 10).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import DataError
from herdcli.herding import MODELS, dynamics, visible_herding
from herdcli.herding.binary_features import find_varying_units, pack_bits, pack_rows, to_unit_values, varying_unit_mask
from herdcli.herding.categorical_variables import CategoricalVariables
from herdcli.herding.driving_rates import compute_driving_sums, largest_moment_gaps
from herdcli.herding.model import DrivingRates, Herding, MomentGaps, MomentSums
from herdcli.numerics.nearest_neighbours import nearest_rows_parallel
from herdcli.numerics.scores import Scores
from herdcli.records import dataclass
from herdcli.schema import Array, join_records
from herdcli.shards import Shard
from herdcli.splits import TEST, TRAIN, VALID


@dataclass(frozen=True)
class RowLabels:
    """The labels of n rows: class y (n,), split (n,).

    units  (D,) indices of the units that are kept, among `all_units`.  scored  indices of the rows whose energies are averaged.
    """

    y: Array
    split: Array
    names: list[str]
    units: Array
    all_units: int
    scored: Array


@dataclass(frozen=True)
class ClassGroups:
    """The rows `on` (n, D) as truth values without the constant units, and their labels.

    A problem makes its own packed copy of the rows.  Once the problem and `nearest_training_classes` are computed, only the labels are
    needed.
    """

    on: Array
    labels: RowLabels

    def training_rows(self, label: int) -> Array:
        """Return the truth values of the training rows of one class."""
        rows: Array = self.on[(self.labels.split == TRAIN) & (self.labels.y == label)]
        return rows

    def scored_rows(self) -> Array:
        """Return the truth values of the rows to score."""
        rows: Array = self.on[self.labels.scored]
        return rows


def prepare_class_groups(
    truth: Array, y: Array, split: Array, names: list[str], *, per_class: bool, score_training: bool = False
) -> ClassGroups:
    """Prune units that are constant over the training rows, and choose the rows to score.

    truth (n, D) truth values.  score_training  average the energies of training rows too.
    Raises DataError for a single class, a class without or with only one distinct training row.
    """
    if per_class and len(names) < 2:
        raise DataError("all rows have the same label, but --per-class needs at least two")
    training = split == TRAIN
    for label, name in enumerate(names):
        own = np.flatnonzero(training & (y == label))
        owner = f"class '{name}'" if per_class else "the split"
        if not len(own):
            raise DataError(f"{owner} has no training rows", hint="put more rows into the training part: --split .8,.1,.1")
        if not varying_unit_mask(truth, own).any():
            raise DataError(f"{owner} has fewer than two distinct training rows, and herding needs two")
    units = find_varying_units(truth, np.flatnonzero(training))
    parts = [TRAIN, VALID, TEST] if score_training else [VALID, TEST]
    scored = np.flatnonzero(np.isin(split, parts)) if per_class else np.empty(0, dtype=np.int64)
    on = truth if len(units) == truth.shape[1] else np.ascontiguousarray(truth[:, units])
    return ClassGroups(on, RowLabels(y, split, names, units, truth.shape[1], scored))


def make_hidden_problem(
    groups: ClassGroups, settings: dynamics.HiddenHerdingSettings, variables: CategoricalVariables | None = None
) -> dynamics.HiddenHerdingProblem:
    """Make the problem of herding with hidden variables, with one run per class of the groups.

    variables  the units of which one is high in every state.
    """
    runs = tuple(pack_rows(groups.training_rows(label), settings.representation) for label in range(len(groups.labels.names)))
    scored = pack_bits(groups.scored_rows()) if len(groups.labels.scored) else None
    return dynamics.HiddenHerdingProblem(runs, settings, scored, variables=variables)


def make_visible_problem(
    groups: ClassGroups, settings: visible_herding.VisibleHerdingSettings, variables: CategoricalVariables | None = None
) -> visible_herding.VisibleHerdingProblem:
    """Make the problem of fully visible herding, with one run per class of the groups.

    variables  the units of which one is high in every state.
    """
    rows = [to_unit_values(groups.training_rows(label), settings.representation) for label in range(len(groups.labels.names))]
    queries = to_unit_values(groups.scored_rows(), settings.representation) if len(groups.labels.scored) else None
    return visible_herding.VisibleHerdingProblem(
        tuple(visible_herding.source_from_rows(part, settings.features) for part in rows), settings, queries, variables
    )


@dataclass(frozen=True, kw_only=True)
class HerdingShard(Shard):
    """A shard of some runs of herding, each an artifact of its own."""

    parts: list[Herding]


def split_into_artifacts(problem: Any, state: Any, assemble: Callable[[Any, Any], Herding]) -> list[Herding]:
    """Split a finished state into one artifact per run; `schema.join_records` along C joins them again."""
    return [assemble(problem.part([u]), replace(state, runs=[run])) for u, run in enumerate(state.runs)]


def nearest_training_classes(groups: ClassGroups, runs: Sequence[int], map: Map = map) -> Array:
    """Return the class of the training row nearest to each row to score, as a baseline; −1 for rows in the share of other runs."""
    training, rows = np.flatnonzero(groups.labels.split == TRAIN), groups.labels.scored
    found = np.full(len(rows), -1, dtype=np.int64)
    for share in (np.array_split(np.arange(len(rows)), len(groups.labels.names))[run] for run in runs):
        found[share] = groups.labels.y[training[nearest_rows_parallel(groups.on[rows[share]], groups.on[training], map)]]
    return found


def combine_run_artifacts(runs: Sequence[Herding]) -> Herding:
    """Combine runs into one artifact; each run has computed its share of the baseline."""
    whole: Herding = join_records(runs, "C")
    if whole.scores is None:
        return whole
    nearest = np.max([run.scores.nearest for run in runs if run.scores is not None], axis=0)
    return replace(whole, scores=replace(whole.scores, nearest=nearest))


def assemble_class_scores(
    labels: RowLabels, nearest: Array, state: dynamics.HiddenHerdingState | visible_herding.VisibleHerdingState
) -> Scores:
    """Return the averaged energies with the labels and the baseline of `nearest_training_classes`."""
    training = labels.y[labels.split == TRAIN]
    return Scores(
        energy=np.stack([run.energy / max(1, run.averaged) for run in state.runs], axis=1),
        y=labels.y[labels.scored],
        split=labels.split[labels.scored],
        nearest=nearest,
        majority=int(np.bincount(training, minlength=len(labels.names)).argmax()),
    )


def assemble_hidden_herding(problem: dynamics.HiddenHerdingProblem, state: dynamics.HiddenHerdingState) -> Herding:
    """Make the artifact of runs with hidden variables, without scores, classes and units."""
    settings, T = problem.settings, state.iteration
    driving = [compute_driving_sums(problem, run, u, T) for u, run in enumerate(state.runs)]
    gaps = np.array([largest_moment_gaps(part, run, T) for part, run in zip(driving, state.runs, strict=True)])
    runs = state.runs
    return Herding(
        n=np.array([part.scale // T for part in driving], dtype=np.int64),
        M=_narrow_integers(np.stack([run.M for run in runs])),
        b=np.stack([run.b for run in runs]),
        c=np.stack([run.c for run in runs]),
        x=np.stack([run.x for run in runs]),
        z=np.stack([run.z for run in runs]),
        weight_norm=np.stack([run.weight_norm for run in runs], axis=1),
        visible_norm=np.stack([run.visible_norm for run in runs], axis=1),
        states=np.stack([run.states for run in runs]),
        moments=MomentSums(
            visible=np.stack([run.visible_sum for run in runs]),
            pair=np.stack([run.pair_sum for run in runs]),
            hidden=np.stack([run.hidden_sum for run in runs]),
        ),
        rates=DrivingRates(
            visible=np.stack([part.visible for part in driving]),
            scale=np.array([part.scale for part in driving], dtype=np.int64),
            pair=_narrow_integers(np.stack([part.pair for part in driving])),
            hidden=np.stack([part.hidden for part in driving]),
        ),
        gap=MomentGaps(largest_visible=gaps[:, 1], largest_pair=gaps[:, 0], largest_hidden=gaps[:, 2]),
        model=MODELS[0],
        features="xz",
        representation=settings.representation,
        variant=settings.variant,
        flip=settings.can_flip_spins,
        hidden_bias=settings.hidden_bias,
        sweeps=settings.sweeps,
        iterations=T,
        burn_in=settings.burn_in,
        energy_every=settings.energy_every,
        seed=settings.seed,
        step_sizes=list(settings.step_sizes),
        wide_from=np.array([run.wide_from for run in runs], dtype=np.int64),
        ascent_sweeps=np.array([run.sweeps / T for run in runs]),
        decoupled=isinstance(problem.units[0], dynamics.DrivingTerms),
    )


def assemble_visible_herding(problem: visible_herding.VisibleHerdingProblem, state: visible_herding.VisibleHerdingState) -> Herding:
    """Make the artifact of fully visible runs, without scores, classes and units."""
    settings, T, D = problem.settings, state.iteration, problem.sources[0].units
    rows = settings.features == "rows"
    weights = [
        visible_herding.current_weights(source, run, T, settings.features) for source, run in zip(problem.sources, state.runs, strict=True)
    ]
    sums = [run.counts @ source.candidates if rows else run.counts for source, run in zip(problem.sources, state.runs, strict=True)]
    w, sampled = np.stack(weights), np.stack(sums)
    moment = np.stack([T * source.moment for source in problem.sources])
    n = np.array([max(source.n, 1) for source in problem.sources])
    gap = np.abs(sampled / T - moment / (T * n)[:, None])
    paired = settings.features == "x,xx"
    last = [source.candidates[run.chosen] if rows else run.x for source, run in zip(problem.sources, state.runs, strict=True)]
    return Herding(
        n=n,
        b=w[:, :D],
        J=w[:, D:] if paired else None,
        x=np.stack(last),
        weight_norm=np.stack([run.weight_norm for run in state.runs], axis=1),
        states=np.stack([run.states for run in state.runs]),
        moments=MomentSums(visible=sampled[:, :D], visible_pair=sampled[:, D:] if paired else None),
        rates=DrivingRates(visible=moment[:, :D], scale=T * n, visible_pair=moment[:, D:] if paired else None),
        gap=MomentGaps(largest_visible=gap[:, :D].max(axis=1), largest_pair=gap[:, D:].max(axis=1) if paired and D > 1 else None),
        model="rows" if rows else MODELS[1],
        features=settings.features,
        representation="real" if rows else settings.representation,
        variant=settings.maximiser,
        flip=False,
        hidden_bias="none",
        sweeps=0,
        iterations=T,
        burn_in=settings.burn_in,
        energy_every=settings.energy_every,
        seed=settings.seed,
    )


def _narrow_integers(numbers: Array) -> Array:
    """Convert integers to 32 bits where they fit."""
    fits = numbers.size == 0 or (numbers.min() >= -(1 << 31) and numbers.max() < 1 << 31)
    return numbers.astype(np.int32) if fits else numbers
