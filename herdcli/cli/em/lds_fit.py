"""The run of `herd em --model lds`: it reads sequences, fits a linear dynamical system and prints warnings about it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.em import floored_variances, sequence_models
from herdcli.cli.em.request import SIZES, WORSE
from herdcli.cli.frame.history.request import settings_from_request
from herdcli.cli.frame.rows import sequences
from herdcli.cli.frame.run import block_placement
from herdcli.errors import DataError

if TYPE_CHECKING:
    from herdcli.artifacts import Dataset
    from herdcli.cli.em.request import Request
    from herdcli.cli.frame.rows.sequences import SequenceTable
    from herdcli.cli.frame.run.session import Session
    from herdcli.em.lds_artifacts import LinearDynamics
    from herdcli.em.mixture.component_search import SearchResult
    from herdcli.em.sequence.lds_fitting import DynamicsOptions, DynamicsSequences, PreparedDynamicsFit
    from herdcli.schema import Array

MEMORY = "the moments of the states"


def fit_lds(session: Session, request: Request) -> None:
    """Fit a linear dynamical system and save it as an artifact of kind `lds`."""
    sequence_models.fit_sequences(
        session, request, partial(_prepare_fit, session, request=request), partial(_warn_of_result, session, request=request), MEMORY
    )


def _prepare_fit(session: Session, series: SequenceTable, *, request: Request) -> PreparedDynamicsFit:
    from herdcli.em.driver import EMSettings
    from herdcli.em.sequence.lds_fitting import prepare_dynamics_fit

    rows = _training_sequences(series, request.controls)
    return prepare_dynamics_fit(
        rows,
        _lds_options(session, rows, request),
        settings_from_request(EMSettings, request),
        session.map,
        partial(block_placement.place_blocks_on_workers, session),
    )


def _training_sequences(series: SequenceTable, names: tuple[str, ...] | None) -> DynamicsSequences:
    from herdcli.em.sequence.lds_fitting import DynamicsSequences

    data, controls = split_controls(series.data, names)
    whole = {name: replace(part, X=data.X) for name, part in ({-1: series.sequences} | series.parts).items()}
    return DynamicsSequences(
        whole=whole[-1],
        training=whole[0],
        valid=whole.get(1),
        test=whole.get(2),
        controls=controls,
        feature_names=data.feature_names,
        control_names=None if names is None else list(names),
    )


def split_controls(data: Dataset, names: tuple[str, ...] | None) -> tuple[Dataset, Array | None]:
    """Return the data set without its control columns, and the controls (n, m).

    Raises DataError for columns that do not exist or are not numeric.
    """
    found = []
    for name in names or ():
        column, data = sequences.split_off_column(data, name)
        if column is None:
            raise DataError(f"has no column '{name}', which --controls names")
        if column.dtype.kind not in "fiub":
            raise DataError(f"column '{name}' holds no numbers, which --controls needs")
        found.append(np.asarray(column, dtype=np.float64))
    if names and not data.X.shape[1]:
        raise DataError("has no columns other than its controls")
    return data, np.column_stack(found) if found else None


def _lds_options(session: Session, rows: DynamicsSequences, request: Request) -> DynamicsOptions:
    from herdcli.em.sequence.lds_fitting import DynamicsOptions

    given = _load_initial_model(session, rows, request.initial_file, request.model)
    default = (SIZES[0], min(SIZES[1], max(1, rows.training.rows // 4))) if given is None else (given.states, given.states)
    first, last = request.components or default
    return DynamicsOptions(
        sizes=tuple(range(first, last + 1)),
        diagonal=request.diagonal,
        criterion=request.criterion,
        floor=request.floor,
        init=request.init_method,
        patience=WORSE if request.components is None else None,
        seed=request.seed,
        given=None if given is None else given.parameters,
    )


def _load_initial_model(session: Session, rows: DynamicsSequences, initial_file: str | None, model: str) -> LinearDynamics | None:
    found = sequence_models.load_initial_model(session, initial_file, model, rows.training.columns)
    if found is None:
        return None
    value: LinearDynamics = found.value
    if value.controls != (0 if rows.controls is None else rows.controls.shape[1]):
        raise DataError(
            f"has {value.controls} controls, but --controls names a different number of columns",
            where=found.name,
            hint="name as many columns with --controls as the model has",
        )
    return value


def _warn_of_result(
    session: Session, value: LinearDynamics, prepared: PreparedDynamicsFit, search: SearchResult, *, request: Request
) -> None:
    """Warn about variances at their floors, an end before convergence, unstable dynamics, and parameters that are not determined."""
    from herdcli.em.sequence.lds import variance_floor_and_scale
    from herdcli.em.variance_floors import columns_at_floor

    console = session.console
    floors, known = int(value.ledger.floors[-2:].max(initial=0)), value.known
    if floors:
        many = "1 variance of the noise was" if floors == 1 else f"{floors} variances of the noise were"
        columns: list[int] = []
        if known is not None:
            floor, scale = variance_floor_and_scale(known.base_variance, request.floor)
            columns = columns_at_floor(value.noise, known.base_variance, scale, floor)
        which = floored_variances.list_columns(columns, prepared.rows.feature_names) if columns else "columns"
        why = f"{which} hardly differ{'s' * (len(columns) == 1)} from the prediction, or a state moves without noise"
        console.warn(f"{many} raised to the floor: {why}")
    sequence_models.warn_of_nonconvergence(session, value, request.iterations)
    if known is not None and known.sequences == 1:
        console.warn("there is only one sequence, so the mean μ and covariance P of the first state come from this sequence alone")
    if known is not None and known.rows == known.sequences:
        console.warn("no sequence has a second row, so the dynamics cannot be learned")
    if value.spectral_radius > 1.0:
        console.warn(
            f"the system is unstable: the largest eigenvalue of A is {value.spectral_radius:.4g}, and forecasts grow without bound"
        )
