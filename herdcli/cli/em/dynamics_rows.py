"""`herd apply` and `herd sample` with a linear dynamical system: its states, forecasts, gaps filled in, and new sequences."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from herdcli.artifacts.dataset import Dataset
from herdcli.cli.em import sequences
from herdcli.cli.em.dynamics import with_controls
from herdcli.cli.frame.columns import by_name
from herdcli.errors import BadUsage, DataError, HerdError

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.apply.request import Request
    from herdcli.cli.frame.session import Session
    from herdcli.cli.small.sample import Request as Sampled
    from herdcli.em.lds_artifacts import LinearDynamics
    from herdcli.em.sequences import Sequences
    from herdcli.schema import Array

WANTS = ("smoothed", "filtered", "predicted", "completed")
STEPS = 100  # of a sequence drawn, where no number is given
SPREAD = "_sd"  # what a column of standard deviations ends in


class Rows(NamedTuple):
    """New rows in the model's columns: as sequences (Y, offsets, U) in their order, and what groups them."""

    data: Dataset
    found: Sequences
    key: Array | None
    Y: Array
    U: Array | None


def rows(session: Session, model: LinearDynamics, request: Request) -> Rows:
    """The rows of a request."""
    from herdcli.em.sequences import grouped

    known = model.known
    names = tuple(known.control_names) if known is not None and known.control_names else None
    data, key = sequences.load(
        session, request.source, input_format=request.input_format, label=request.label, column=request.sequence, keep=names or ()
    )
    try:
        rest, U = with_controls(data.value, names)
    except HerdError as error:
        error.where = error.where or data.name
        raise
    if U is not None and not np.isfinite(U).all():
        raise DataError("controls have missing values", where=data.name, hint="a control has to be known at every row")
    data = by_name(session, replace(data, value=rest), known.feature_names if known is not None else None, model.columns)
    value: Dataset = data.value
    if value.X.shape[1] != model.columns:
        raise DataError(f"/X has {value.X.shape[1]} columns, the model has {model.columns}", where=data.name)
    found = grouped(value.X, key)
    sequences.told(session, found, request.sequence or sequences.COLUMN, grouped=key is not None, cut=False)
    return Rows(value, found, key, found.whole().X, None if U is None else U[found.chosen])


def applied(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """States with their standard deviations, rows to come, or rows with their gaps filled."""
    model: LinearDynamics = fitted.value
    want, steps = _wanted(request.want or WANTS[0])
    given = rows(session, model, request)
    if request.particles is not None:
        return _by_particles(session, model, given, want, request)
    offsets = given.found.offsets
    if steps:
        return _forecast(model, given, steps, request)
    if want == "completed":
        X = model.completed(given.Y, offsets, given.U)
        return _beside(given, X, given.data.feature_names, request), f"{len(X)} rows × {X.shape[1]} columns completed"
    mean, deviation = model.states_of(given.Y, offsets, given.U, want)
    X = np.concatenate([mean, deviation], axis=1)
    return _beside(given, X, _named(model), request), f"{len(X)} rows × {model.states} {want} states with their standard deviations"


def _wanted(want: str) -> tuple[str, int]:
    """What is wanted, and how many steps of a forecast."""
    name, _, count = want.partition(":")
    if name == "forecast" and count.isdigit() and int(count):
        return name, int(count)
    if want not in WANTS:
        raise BadUsage(f"--want {want} is not of kind lds", hint=f"--want {', '.join(WANTS)} or forecast:12")
    return want, 0


def _named(model: LinearDynamics) -> list[str]:
    states = [f"state{k + 1}" for k in range(model.states)]
    return states + [name + SPREAD for name in states]


def _beside(given: Rows, made: Array, names: list[str] | None, request: Request) -> Dataset:
    """Values in the order of the rows they are of, with what stood beside those."""
    back = np.empty_like(made)
    back[given.found.chosen] = made
    data = given.data
    labels = data.y is not None and not ((data.y < 0).any() and data.class_names)
    return Dataset(
        back,
        y=data.y if labels else None,
        split=data.split,
        weight=data.weight,
        feature_names=names,
        class_names=data.class_names if labels else None,
        columns=None if given.key is None else {request.sequence or sequences.COLUMN: given.key},
    )


def _forecast(model: LinearDynamics, given: Rows, steps: int, request: Request) -> tuple[Dataset, str]:
    mean, deviation = model.forecast(given.Y, given.found.offsets, given.U, steps)
    names = given.data.feature_names or [f"x{d + 1}" for d in range(model.columns)]
    found = given.found
    columns = None
    if given.key is not None:
        columns = {request.sequence or sequences.COLUMN: np.repeat(given.key[found.chosen[found.offsets[:-1]]], steps)}
    X = np.concatenate([mean, deviation], axis=1)
    made = Dataset(X, feature_names=[*names, *(name + SPREAD for name in names)], columns=columns)
    of = f" of {found.count} sequences" if found.count > 1 else ""
    return made, f"{len(X)} rows to come{of} × {model.columns} columns with their standard deviations"


def _by_particles(session: Session, model: LinearDynamics, given: Rows, want: str, request: Request) -> tuple[Dataset, str]:
    """The same by a particle filter, with the effective sample size of every row."""
    from herdcli.em.particles import LinearGaussian, filter_and_smooth

    count = int(request.particles or 0)
    if want not in ("filtered", "smoothed"):
        raise BadUsage(f"--particles with --want {want} says nothing", hint="--want filtered or smoothed")
    longest = int(given.found.lengths.max())
    session.require_memory(8 * longest * count * (model.states + 3) + 16 * count * count, f"{longest} steps × {count} particles")
    mean, deviation = np.empty((len(given.Y), model.states)), np.empty((len(given.Y), model.states))
    effective, evidence = np.empty(len(given.Y)), 0.0
    for s in range(given.found.count):
        own = slice(given.found.offsets[s], given.found.offsets[s + 1])
        system = LinearGaussian(model.parameters, given.Y[own], None if given.U is None else given.U[own])
        told = filter_and_smooth(system, count, request.seed, unit=s, smooth=want == "smoothed")
        mean[own], deviation[own], effective[own] = told.mean, told.deviation, told.effective
        evidence += told.log_likelihood
    X = np.concatenate([mean, deviation, effective[:, None]], axis=1)
    made = _beside(given, X, [*_named(model), "effective_particles"], request)
    least = f"effective sample size from {effective.min():.3g}"
    return made, f"{len(X)} rows × {model.states} {want} states by {count} particles, {least}, log-likelihood {evidence / len(X):.6g} a row"


def drawn(session: Session, fitted: Artifact, request: Sampled) -> tuple[Dataset, str]:
    """New sequences."""
    model: LinearDynamics = fitted.value
    for name in ("burn_in", "chains", "thin", "means", "given", "mask"):
        session.ignored(name, "with an lds, whose sequences are drawn from their beginning")
    steps = request.steps or STEPS
    session.require_memory(16 * request.count * steps * model.columns, f"{request.count} sequences of {steps} steps")
    if model.controls:
        session.console.note("controls are at their means")
    X = model.drawn(request.count, steps, request.seed)
    names = model.known.feature_names if model.known is not None else None
    made = Dataset(X, feature_names=names, columns={sequences.COLUMN: np.repeat(np.arange(request.count), steps)})
    return made, f"{request.count} sequence{'s' * (request.count != 1)} of {steps} steps × {model.columns} columns"
