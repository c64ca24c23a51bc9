"""Fits of linear dynamical systems from sequences and options to an artifact: numbers of states, and facts about the fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli.algorithm import Map
from herdcli.em.artifacts import restart_outcomes
from herdcli.em.driver import EM, EMFit, EMSettings, Parameters
from herdcli.em.lds_artifacts import DynamicsFitFacts, LinearDynamics
from herdcli.em.mixture.component_search import ComponentSearch, SearchResult
from herdcli.em.mixture.gmm import information_criteria
from herdcli.em.sequence.kalman import filter_sequences
from herdcli.em.sequence.lds import LDS, variance_floor_and_scale
from herdcli.em.sequence.lds_initialization import WindowMoments, window_moments
from herdcli.em.sequence.sequences import SequenceBlocks, Sequences, step_variance
from herdcli.errors import BadUsage, DataError
from herdcli.numerics.block_statistics import BlockSource, Spreading, Sums, keep_blocks_local, sum_statistics
from herdcli.records import dataclass
from herdcli.schema import Array

CRITERIA = ("bic", "aic", "valid")
CHOOSING = 0.1  # tolerance of the search for a number of states, in nats over all rows
REGAINING = 7  # added to the patience of a continued fit, whose first steps gain little


@dataclass(frozen=True, kw_only=True)
class DynamicsSequences:
    """The training, validation and test sequences of a fit, the whole sequences they are parts of, and controls (n, m)."""

    whole: Sequences
    training: Sequences
    valid: Sequences | None = None
    test: Sequences | None = None
    controls: Array | None = None
    feature_names: list[str] | None = None
    control_names: list[str] | None = None


@dataclass(frozen=True, kw_only=True)
class DynamicsOptions:
    """The options of a fit."""

    sizes: tuple[int, ...]
    diagonal: bool = False
    criterion: str = "bic"
    floor: float | None = None
    init: str | None = None
    patience: int | None = None
    seed: int = 0
    given: Parameters | None = None


@dataclass(frozen=True)
class PreparedDynamicsFit:
    """A fit that is ready to run: run `search`, then call `artifact_from_search` on its result."""

    asked: DynamicsOptions
    rows: DynamicsSequences
    found: WindowMoments
    floor: float
    shift: Array  # (m,) subtracted from the controls
    scale: Array  # (m,) divisor of the controls
    search: ComponentSearch

    def artifact_from_search(self, search: SearchResult, map: Map = map) -> LinearDynamics:
        """Return the artifact of the result of a search."""
        value, rows, several = self.artifact_from_fit(search.fit), self.rows, len(self.search.sizes) > 1
        U, test = rows.controls, rows.test
        known = DynamicsFitFacts(
            rows=self.found.rows,
            sequences=len(self.found.lengths),
            base_mean=self.found.centre,
            base_variance=self.found.variance,
            base_full=self.found.covariance,
            base_step=step_variance(rows.training, self.found.variance),
            valid=None if rows.valid is None else self.log_likelihood_per_row(value, rows.valid, map),
            missing=self.found.missing,
            feature_names=rows.feature_names,
            control_names=rows.control_names,
            control_mean=None if U is None else U[rows.training.chosen].mean(axis=0),
            holdout_controls=None if U is None or test is None else U[test.chosen],
            sizes=np.array(self.search.sizes[: len(search.scores)]) if several else None,
            scores=np.array(search.scores) if several else None,
            criterion=self.asked.criterion if several else None,
        )
        if test is not None:
            starts = self.initial_state_distributions(value, test)
            if starts is not None:
                known = replace(known, holdout_start_mean=starts[0], holdout_start_covariance=starts[1])
            value = replace(value, holdout=test.as_one_block().X, holdout_offsets=test.offsets.astype(np.int64))
        return replace(value, known=known)

    def artifact_from_fit(self, fit: EMFit) -> LinearDynamics:
        """Return the artifact of one fit in the controls' own units, without further facts about the rows."""
        p, U = fit.parameters, self.rows.controls
        control = p["control"] / self.scale
        names = ("transition", "process", "loading", "mean", "noise", "start_mean", "start_covariance")
        return LinearDynamics(
            **{name: p[name] for name in names},
            drift=p["drift"] - control @ self.shift,
            control=None if U is None else control,
            diagonal=self.asked.diagonal,
            floor=self.floor,
            ledger=fit.ledger,
            restarts=restart_outcomes(fit),
            mass=fit.mass,
            seed=self.asked.seed,
            known=None,
        )

    def initial_state_distributions(self, value: LinearDynamics, part: Sequences) -> tuple[Array, Array] | None:
        """Return the distribution of the first state of each sequence of a part, given the rows before it.

        None if all sequences of the part are whole.
        """
        return first_state_distributions(value, self.rows.whole, part, self.rows.controls)

    def log_likelihood_per_row(self, value: LinearDynamics, part: Sequences, map: Map = map) -> float:
        """Return the log-likelihood per row of a part; its pieces are conditioned on the rows before them."""
        U, starts = self.rows.controls, self.initial_state_distributions(value, part)
        if starts is not None:
            likelihood = 0.0
            for s in range(part.count):
                block = part.take(s, s + 1)
                p = value.parameters | {"start_mean": starts[0][s], "start_covariance": starts[1][s]}
                own = filter_sequences(p, block.X, block.offsets, None if U is None else U[block.chosen]).log_likelihood.sum()
                likelihood += float(block.weights[0] * own)
            return likelihood / part.mass

        def statistics(block: object) -> Sums:
            found = filter_sequences(value.parameters, block.X, block.offsets, None if U is None else U[block.chosen])  # type: ignore[attr-defined]
            w = np.repeat(block.weights, block.lengths)  # type: ignore[attr-defined]
            return {"sum": np.array([w @ found.log_likelihood])}

        return float(sum_statistics(SequenceBlocks(part), statistics, map)["sum"][0]) / part.mass


def first_state_distributions(
    value: LinearDynamics, whole: Sequences, part: Sequences, controls: Array | None
) -> tuple[Array, Array] | None:
    """Return means (S, K) and covariances of the first state of each sequence of `part`, given the earlier rows of the same sequence.

    whole     the sequences with all rows.
    controls  (n, m) the controls of all rows.

    Returns None if every sequence of the part begins with the first row of the whole sequence.
    """
    means, covariances, later = [], [], False
    for begin in part.offsets[:-1]:
        before = _row_indices_up_to(whole, int(part.chosen[begin]))
        if len(before) < 2:
            means.append(value.start_mean)
            covariances.append(value.start_covariance)
            continue
        Y = np.array(whole.X[before], dtype=np.float64)
        found = filter_sequences(value.parameters, Y, np.array([0, len(Y)]), None if controls is None else controls[before])
        means.append(found.predicted[-1])
        covariances.append(found.predicted_covariance[-1])
        later = True
    return (np.array(means), np.array(covariances)) if later else None


def _row_indices_up_to(whole: Sequences, row_index: int) -> Array:
    """Return the table indices of a sequence's rows up to and including one."""
    at = int(np.flatnonzero(whole.chosen == row_index)[0])
    begin = whole.offsets[np.searchsorted(whole.offsets, at, side="right") - 1]
    return whole.chosen[begin : at + 1]


def prepare_dynamics_fit(
    rows: DynamicsSequences, options: DynamicsOptions, settings: EMSettings, map: Map = map, spread: Spreading = keep_blocks_local
) -> PreparedDynamicsFit:
    """Return a fit that is ready to run.  Raises BadUsage and DataError if the model cannot be fitted.

    spread  distributes blocks to the processes that compute their passes.
    """
    if options.criterion not in CRITERIA:
        raise BadUsage(f"--criterion {options.criterion} is for mixtures", hint="use --criterion bic, aic or valid")
    if options.init == "kmeans++":
        raise BadUsage("--init kmeans++ works only with clusters", hint="use --init pca or random")
    U, shift, scale = _scale_controls(rows)
    found = window_moments(SequenceBlocks(rows.training), max(options.sizes), U, map)
    if max(options.sizes) > (most := max(1, found.rows * rows.training.columns // 2)):
        raise DataError(f"{found.rows} rows are too few for {max(options.sizes)} states", hint=f"use --components {most} or fewer")
    least, relative = variance_floor_and_scale(found.variance, options.floor)
    given = None if options.given is None else _parameters_for_scaled_controls(options.given, shift, scale)
    several = rows.training.count > 1
    random = options.init == "random"
    models = [LDS(size, options.diagonal, least, relative, found, U, options.seed, several, given, random, True) for size in options.sizes]
    source = spread(SequenceBlocks(rows.training, U))
    search = _state_count_search(options.sizes, models, source, settings, map, rows.training.mass)
    made = PreparedDynamicsFit(options, rows, found, least, shift, scale, search)
    return _add_size_criterion(made, map)


def _state_count_search(
    sizes: tuple[int, ...], models: list[LDS], source: BlockSource, settings: EMSettings, map: Map, mass: float
) -> ComponentSearch:
    """Return the search for a number of states; its runs end once a step gains less than CHOOSING nats over all rows."""
    runs = tuple(EM(model, source, settings, map) for model in models)
    coarse = replace(settings, tolerance=CHOOSING / mass)
    if len(sizes) == 1 or coarse.tolerance <= settings.tolerance:
        return ComponentSearch(sizes, runs)
    # The continued run has no curvature information, and its first steps gain little.
    finer = replace(settings, patience=settings.patience + REGAINING)
    return ComponentSearch(
        sizes, tuple(EM(model, source, coarse, map) for model in models), finer=tuple(EM(model, source, finer, map) for model in models)
    )


def _scale_controls(rows: DynamicsSequences) -> tuple[Array | None, Array, Array]:
    """Return standardised controls, with the means and standard deviations of the training rows."""
    U = rows.controls
    if U is None:
        return None, np.zeros(0), np.ones(0)
    if not np.isfinite(U).all():
        raise DataError("controls have missing values", hint="fill them in, or leave the control out: a control must be known in every row")
    own = U[rows.training.chosen]
    shift, scale = own.mean(axis=0), own.std(axis=0)
    scale = np.where(scale > 1e-12 * np.maximum(1.0, np.abs(shift)), scale, 1.0)
    return (U - shift) / scale, shift, scale


def _parameters_for_scaled_controls(p: Parameters, shift: Array, scale: Array) -> Parameters:
    """Return the parameters for the scaled controls."""
    return p | {"control": p["control"] * scale, "drift": p["drift"] + p["control"] @ shift}


def _add_size_criterion(prepared: PreparedDynamicsFit, map: Map) -> PreparedDynamicsFit:
    """Return the fit with a criterion added if there are several sizes."""
    if len(prepared.search.sizes) == 1:
        return prepared
    valid = prepared.rows.valid
    if prepared.asked.criterion == "valid" and valid is None:
        raise DataError("has no validation rows, which --criterion valid needs", hint="use --split .6,.2,.2, or --criterion bic")

    def score(size: int, fit: EMFit) -> float:
        value = prepared.artifact_from_fit(fit)
        if prepared.asked.criterion == "valid" and valid is not None:
            return -prepared.log_likelihood_per_row(value, valid, map)
        value = replace(
            value, known=DynamicsFitFacts(rows=0, sequences=len(prepared.found.lengths), base_mean=value.mean, base_variance=value.mean)
        )
        return lds_information_criteria(value)[prepared.asked.criterion]

    return replace(prepared, search=replace(prepared.search, score=score, patience=prepared.asked.patience))


def lds_information_criteria(value: LinearDynamics) -> dict[str, float]:
    """Return AIC and BIC of the training rows."""
    return information_criteria(float(value.ledger.log_likelihood[-1]) * value.mass, value.mass, value.free_parameters)
