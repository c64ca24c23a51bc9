"""`herd apply` and `herd sample` with a linear dynamical system: states, forecasts, missing values filled in, and new sequences."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.dataset import Dataset
from herdcli.cli.em.lds_fit import split_controls
from herdcli.cli.frame.rows import sequence_rows
from herdcli.errors import DataError, HerdError
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.apply.request import Request
    from herdcli.cli.frame.rows.sequence_rows import SequenceRows
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.small.sample import Request as SampleRequest
    from herdcli.em.lds_artifacts import LinearDynamics
    from herdcli.schema import Array

WANTS = ("smoothed", "filtered", "predicted", "completed")
SPREAD = "_sd"  # suffix of the names of columns of standard deviations


@dataclass(frozen=True)
class LDSRows:
    """New rows with their values Y (n, D) and controls U (n, M) in the order of the sequences."""

    rows: SequenceRows
    Y: Array
    U: Array | None


def load_rows(session: Session, model: LinearDynamics, request: Request) -> LDSRows:
    """Read the new rows of a request, with the controls that the model needs."""
    known = model.known
    names = tuple(known.control_names) if known is not None and known.control_names else None
    data, key = sequence_rows.load_sequences(session, request, names or ())
    try:
        rest, U = split_controls(data.value, names)
    except HerdError as error:
        error.where = error.where or data.name
        raise
    if U is not None and not np.isfinite(U).all():
        raise DataError("controls have missing values", where=data.name, hint="fill them in: a control must be known in every row")
    columns = None if known is None else known.feature_names
    given = sequence_rows.arrange_sequences(session, replace(data, value=rest), key, columns, model.columns, request.sequence)
    return LDSRows(given, given.found.as_one_block().X, None if U is None else U[given.found.chosen])


def apply_lds(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """Return states with their standard deviations, forecasts, or completed rows, and a short description for the summary."""
    model: LinearDynamics = fitted.value
    want, steps = sequence_rows.parse_want_option(request.want or WANTS[0], "lds", WANTS, "forecast", 12)
    given = load_rows(session, model, request)
    if request.particles is not None:
        return _filter_with_particles(session, model, given, want, request.particles, request.seed)
    offsets = given.rows.found.offsets
    if steps:
        return _forecast_rows(model, given, steps)
    if want == "completed":
        X = model.impute_missing_values(given.Y, offsets, given.U)
        return given.rows.results_in_row_order(X, given.rows.data.feature_names), f"{len(X)} rows × {X.shape[1]} columns completed"
    mean, deviation = model.infer_states(given.Y, offsets, given.U, want)
    X = np.concatenate([mean, deviation], axis=1)
    return given.rows.results_in_row_order(
        X, _state_names(model)
    ), f"{len(X)} rows × {model.states} {want} states with their standard deviations"


def _state_names(model: LinearDynamics) -> list[str]:
    states = [f"state{k + 1}" for k in range(model.states)]
    return states + [name + SPREAD for name in states]


def _forecast_rows(model: LinearDynamics, rows: LDSRows, steps: int) -> tuple[Dataset, str]:
    found, key = rows.rows.found, rows.rows.key
    mean, deviation = model.forecast(rows.Y, found.offsets, rows.U, steps)
    names = rows.rows.data.feature_names or [f"x{d + 1}" for d in range(model.columns)]
    columns = None if key is None else {rows.rows.column: np.repeat(key[found.chosen[found.offsets[:-1]]], steps)}
    X = np.concatenate([mean, deviation], axis=1)
    made = Dataset(X, feature_names=[*names, *(name + SPREAD for name in names)], columns=columns)
    of = f" of {found.count} sequences" if found.count > 1 else ""
    return made, f"{len(X)} forecast rows{of} × {model.columns} columns with their standard deviations"


def _filter_with_particles(session: Session, model: LinearDynamics, rows: LDSRows, want: str, count: int, seed: int) -> tuple[Dataset, str]:
    """Return the states that a particle filter estimates, with standard deviations and the effective sample size at every row."""
    from herdcli.em.sequence.particle_filter import particle_filter_lds

    sequence_rows.check_particles(session, rows.rows, want, model.states, count)
    told = particle_filter_lds(model.parameters, rows.Y, rows.rows.found.offsets, rows.U, count, seed, want == "smoothed", session.map)
    X = np.concatenate([told.mean, told.deviation, told.effective[:, None]], axis=1)
    made = rows.rows.results_in_row_order(X, [*_state_names(model), sequence_rows.EFFECTIVE])
    least = f"effective sample size from {told.effective.min():.3g}"
    likelihood = f"log-likelihood {told.log_likelihood / len(X):.6g} nats per row"
    return made, f"{len(X)} rows × {model.states} {want} states by {count} particles, {least}, {likelihood}"


def sample_lds(session: Session, fitted: Artifact, request: SampleRequest) -> tuple[Dataset, str]:
    """Return new sequences and a short description for the summary."""
    model: LinearDynamics = fitted.value
    steps = sequence_rows.sequence_length(session, request, "lds", model.columns)
    if model.controls:
        session.console.note("future controls are not known, so their means are used")
    names = None if model.known is None else model.known.feature_names
    return sequence_rows.dataset_of_sequences(model.sample_sequences(request.count, steps, request.seed), names, request, steps)
