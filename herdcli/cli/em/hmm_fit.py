"""The run of `herd em --model hmm`: it reads sequences, fits a hidden Markov model and prints warnings about it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.em import floored_variances, sequence_models
from herdcli.cli.em.request import SIZES, STRUCTURES, WORSE
from herdcli.cli.frame.history.request import settings_from_request
from herdcli.cli.frame.run import block_placement
from herdcli.errors import DataError

if TYPE_CHECKING:
    from herdcli.cli.em.request import Request
    from herdcli.cli.frame.rows.sequences import SequenceTable
    from herdcli.cli.frame.run.session import Session
    from herdcli.em.hmm_artifacts import HiddenMarkovModel
    from herdcli.em.mixture.component_search import SearchResult
    from herdcli.em.sequence.hmm_fitting import ChainOptions, ChainSequences, PreparedChainFit
    from herdcli.schema import Array

MEMORY = "states of a block of sequences"


def fit_hmm(session: Session, request: Request) -> None:
    """Fit a hidden Markov model and save it as an artifact of kind `hmm`."""
    sequence_models.fit_sequences(
        session, request, partial(_prepare_fit, session, request=request), partial(_warn_of_result, session, request=request), MEMORY
    )


def _prepare_fit(session: Session, series: SequenceTable, *, request: Request) -> PreparedChainFit:
    from herdcli.em.driver import EMSettings
    from herdcli.em.sequence.hmm_fitting import prepare_chain_fit

    rows = _training_sequences(series, request.per_class)
    if request.emission == "bernoulli":
        _require_two_states(series)
    return prepare_chain_fit(
        rows,
        _hmm_options(session, rows, request),
        settings_from_request(EMSettings, request),
        session.map,
        partial(block_placement.place_blocks_on_workers, session),
    )


def _require_two_states(series: SequenceTable) -> None:
    """Raise DataError for a text column with more than two levels, because --emission bernoulli needs two states."""
    for name, levels in series.history.recoding.levels.items():
        if len(levels) > 2:
            raise DataError(f"column '{name}' has {len(levels)} states, but --emission bits needs two", hint="use --emission categorical")


def _training_sequences(series: SequenceTable, per_class: bool) -> ChainSequences:
    from herdcli.cli.em.inputs import requested_labels
    from herdcli.em.sequence.hmm_fitting import ChainSequences

    y, names = requested_labels(series.data, per_class)
    return ChainSequences(
        training=series.parts[0],
        valid=series.parts.get(1),
        test=series.parts.get(2),
        y=y,
        feature_names=series.data.feature_names,
        class_names=names,
    )


def _hmm_options(session: Session, rows: ChainSequences, request: Request) -> ChainOptions:
    from herdcli.em.sequence.hmm_fitting import ChainOptions

    start = sequence_models.load_initial_model(session, request.initial_file, request.model, rows.training.columns)
    given: HiddenMarkovModel | None = None if start is None else start.value
    mask = None if request.transitions.partition(":")[0] in STRUCTURES else _transition_mask(session, request.transitions)
    first, last = request.components or _state_count_range(rows, request.per_class, given, mask)
    return ChainOptions(
        sizes=tuple(range(first, last + 1)),
        emission=request.emission,
        covariance=request.covariance,
        mixtures=request.mixtures,
        transitions="full" if mask is not None else request.transitions,
        mask=mask,
        criterion=request.criterion,
        floor=request.floor,
        init=request.init_method,
        patience=WORSE if request.components is None else None,
        seed=request.seed,
        given=given,
        supervised=request.per_class,
    )


def _state_count_range(rows: ChainSequences, per_class: bool, start: HiddenMarkovModel | None, mask: Array | None) -> tuple[int, int]:
    if start is not None:
        return start.states, start.states
    if per_class:
        return len(rows.class_names or ()), len(rows.class_names or ())
    if mask is not None:
        return len(mask), len(mask)
    return SIZES[0], min(SIZES[1], rows.training.rows)


def _transition_mask(session: Session, path: str) -> Array:
    """Read a square matrix from a file; entries other than 0 allow a transition."""
    found = session.load(path, "transitions", kinds={"dataset"})
    X = found.value.X
    matrix = np.asarray(X.toarray() if hasattr(X, "indptr") else X, dtype=np.float64)
    if matrix.shape[0] != matrix.shape[1]:
        hint = "rows are the current states, columns the next states; 0 forbids a transition"
        raise DataError(
            f"the transition matrix is {matrix.shape[0]} × {matrix.shape[1]}, but it must be square", where=found.name, hint=hint
        )
    return matrix


def _warn_of_result(
    session: Session, value: HiddenMarkovModel, prepared: PreparedChainFit, search: SearchResult, *, request: Request
) -> None:
    """Warn about variances at their floors, an end before convergence, and parameters that the sequences do not determine."""
    from herdcli.em.variance_floors import columns_at_floor, floor_scale

    floors = int(value.ledger.floors[-2:].max(initial=0))
    if value.family is not None and value.emissions.mean is not None:
        flat = floored_variances.warn_of_constant_columns(
            session.console, prepared.found.variance, prepared.rows.feature_names, value.floor
        )
        components = int(np.prod(value.emissions.mean.shape[:2]))
        floors = max(0, floors - flat * {"spherical": 0, "tied": 1}.get(value.family, components))
    if floors:
        what = {"gaussian": "variance", "gmm": "variance", "poisson": "rate"}.get(value.emission, "probability")
        if what == "variance":
            own = request.floor is None and value.family != "spherical"
            part = "state" if search.size > 1 else ""
            found, names = prepared.found, prepared.rows.feature_names
            covariance = value.emissions.covariance
            scale = floor_scale(found.variance, found.mean, value.floor)
            columns = [] if covariance is None else columns_at_floor(covariance, found.variance, scale, value.floor)
            why = floored_variances.explain_variance_floors(session.recoding, names, columns, part, "try fewer --components")
            floored_variances.warn_of_variance_floors(session.console, floors, what, None if own else value.floor, why)
        else:
            many = f"1 {what} was" if floors == 1 else f"{floors} {'probabilities' if what == 'probability' else what + 's'} were"
            session.console.note(f"{many} raised to the floor of {value.floor:.3g}")
    sequence_models.warn_of_nonconvergence(session, value, request.iterations)
    if search.size > 1 and prepared.rows.training.count == 1 and value.first.sum() > 1:
        session.console.warn("there is only one sequence, so the initial state probabilities are estimated from a single row")
    if search.size > 1 and prepared.rows.training.rows == prepared.rows.training.count:
        session.console.warn("no sequence has a second row, so the transitions cannot be learned")
