"""Which algorithm `herd ica` runs, and what of its end goes into the artifact."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from herdcli.cli.frame.session import Session
from herdcli.cli.ica.inputs import Rows
from herdcli.errors import BadUsage, NotConverged
from herdcli.ica.model import Trace
from herdcli.ica.results import Fit
from herdcli.schema import Array

if TYPE_CHECKING:
    from herdcli.ica.learning import Problem, Settings, State


def fit(session: Session, rows: Rows, options: dict[str, Any]) -> Fit:
    """The fit that the options ask for.  Raises Collapsed, with the last good state, where an energy-based model breaks down."""
    algorithm = options["algorithm"]
    if algorithm in ("ml", "fastica", "picard", "sobi"):
        if options["filters"] not in (None, rows.Z.shape[1]):
            D, M = rows.Z.shape[1], options["filters"]
            raise BadUsage(
                f"{algorithm} finds as many filters as dimensions, {D}, not {M}", hint="--algorithm ebm, infomax or sparse-coding"
            )
        if algorithm == "sobi":
            return _time_structure(session, rows, options)
        return _library(session, rows, options) if _has_library(session, algorithm) else _maximum_likelihood(session, rows, options)
    settings = _settings(options, rows.Z.shape[1])
    if settings.expert != "student":
        session.ignored("gamma_rate", f"with --expert {settings.expert}")
    if algorithm == "sparse-coding":
        return _sparse_coding(session, rows, settings, options)
    return _learned(session, rows, settings)


def _settings(options: dict[str, Any], dimensions: int) -> Settings:
    from herdcli.ica import defaults
    from herdcli.ica.learning import Settings

    algorithm = options["algorithm"]
    square = (options["filters"] or dimensions) == dimensions
    options = options | defaults.missing(algorithm, dimensions, square, options)
    chosen = {name.name: options[name.name] for name in fields(Settings) if options.get(name.name) is not None}
    chosen["algorithm"] = "infomax" if algorithm == "sparse-coding" else algorithm
    chosen["natural"] = options["gradient"] == "natural"
    if options["topography"] is not None:
        chosen["grid"] = options["topography"]
        chosen["filters"] = options["filters"] or options["topography"][0] * options["topography"][1]
    chosen["gamma_rate"] = options["gamma_rate"] or 0.0
    return Settings(**chosen)


def _learned(session: Session, rows: Rows, settings: Settings) -> Fit:
    """infomax, ebm, equil."""
    from herdcli.ica import learning

    kind = np.float32 if settings.algorithm == "ebm" else np.float64
    problem = learning.Problem(rows.Z.astype(kind, copy=False), settings, rows.product)
    try:
        state = session.iterate(
            lambda now: learning.step(problem, now, map=session.map),
            lambda: learning.init(problem),
            steps=settings.updates,
            label="learning",
        )
    except learning.Collapsed as error:
        error.fit = _end(problem, error.state)
        raise
    return _end(problem, state)


def _end(problem: Problem, state: State) -> Fit:
    from herdcli.ica import learning

    settings, notes = problem.settings, []
    J, gamma = learning.result(problem, state)
    if state.resets and settings.algorithm != "ebm":
        notes.append(f"rates were halved {state.resets}×: each time filters had broken down, and the last good ones were taken")
    elif state.resets:
        notes.append("the acceptance collapsed once: the last good filters and a small leapfrog step were taken instead")
    if settings.used == "gaussian-cdf":
        notes.append("a Gaussian density decorrelates and no more: which rotation is found means nothing")
    if state.raised:
        notes.append(f"γ left the normalisable region {state.raised} times and was set back to its border")
    more: dict[str, Any] = {"experts": problem.experts(state)}
    if more["experts"][0] == "infomax":
        more["density"] = settings.density
    if settings.grid is not None:
        more["topography"] = learning.pooling(settings.grid, settings.neighbourhood)
        more["grid"] = np.array(settings.grid)
    return Fit(J, gamma, _trace(problem, state), state.step, learning.objective_name(problem), more, tuple(notes), state.signs is not None)


def _trace(problem: Problem, state: State) -> Trace:
    """The entries that were reached."""
    entries = -(-state.step // problem.every)
    iteration = np.minimum((np.arange(entries) + 1) * problem.every, state.step)
    known = {"acceptance": state.acceptance, "step_size": state.step_sizes, "amari": state.amari}
    return Trace(iteration, state.objective[:entries], **{name: _told(values[:entries]) for name, values in known.items()})


def _told(values: Array) -> Array | None:
    return None if np.isnan(values).all() else values


def _maximum_likelihood(session: Session, rows: Rows, options: dict[str, Any]) -> Fit:
    from herdcli.ica import maximum_likelihood

    density, gamma = options["density"] or "auto", options["gamma"] or 1.0
    iterations = options["iterations"] or 500
    problem = maximum_likelihood.Problem(rows.Z, density, gamma, options["tolerance"] or 1e-7, iterations)
    state = session.iterate(
        lambda now: maximum_likelihood.step(problem, now),
        lambda: maximum_likelihood.init(problem),
        steps=iterations,
        until=lambda now: now.done,
        label="learning",
    )
    left = float(np.abs(state.G).max())
    notes = () if left <= problem.tolerance else (_unconverged(options, state.step, f"the largest entry of the gradient is {left:.2g}"),)
    trace = Trace(np.arange(len(state.trace)), state.trace)
    more = {"experts": problem.experts(state)}
    return Fit(state.J, np.full(len(state.J), gamma), trace, state.step, "log_likelihood", more, notes, density == "auto")


def _time_structure(session: Session, rows: Rows, options: dict[str, Any]) -> Fit:
    from herdcli.ica import sobi

    problem = sobi.Problem(rows.Z, options["lags"], options["tolerance"] or 1e-7, options["iterations"] or 500)
    state = session.iterate(
        lambda now: sobi.step(problem, now),
        lambda: sobi.init(problem),
        steps=problem.iterations,
        until=lambda now: now.turned <= problem.tolerance,
        label="sweeps",
    )
    notes = [] if state.turned <= problem.tolerance else [_unconverged(options, state.step, f"the last sweep turned by {state.turned:.2g}")]
    if pairs := sobi.alike(problem, state):
        notes.append(f"{len(pairs)} pairs of outputs have the same autocorrelations: their rotation is not identifiable")
    trace, experts = Trace(np.arange(len(state.trace)), -state.trace), problem.experts(state.J)
    return Fit(state.J, np.ones(len(state.J)), trace, state.step, "contrast", {"experts": experts}, tuple(notes), True)


def _has_library(session: Session, algorithm: str) -> bool:
    from herdcli.ica import libraries

    if algorithm == "ml":
        return False
    if libraries.installed(algorithm):
        return True
    session.console.note(f"{algorithm} is not installed: our own maximum likelihood in its place (pip install 'herdcli[ica]')")
    return False


def _library(session: Session, rows: Rows, options: dict[str, Any]) -> Fit:
    from herdcli.ica import libraries

    algorithm, D = options["algorithm"], rows.Z.shape[1]
    if algorithm == "fastica" and options["whiten"] == "centre":
        raise BadUsage("fastica needs whitened rows", hint="--whiten zca or pca")
    tolerance, iterations = options["tolerance"] or (1e-4 if algorithm == "fastica" else 1e-7), options["iterations"] or 500
    state = session.iterate(
        lambda now: libraries.step(algorithm, rows.Z, now, tolerance=tolerance, iterations=iterations),
        lambda: libraries.init(D, options["seed"]),
        steps=1,
        label=algorithm,
    )
    notes = () if state.converged else (_unconverged(options, state.iterations, "its own tolerance was not reached"),)
    trace = Trace(np.array([state.iterations]), np.array([np.nan]))
    return Fit(state.J, np.ones(D), trace, state.iterations, "none", {"experts": state.experts}, notes, True)


def _unconverged(options: dict[str, Any], steps: int, why: str) -> str:
    message = f"not converged after {steps} iterations: {why}"
    if options["on_nonconvergence"] == "error":
        raise NotConverged(message, hint="--iterations allows more")
    return message


def _sparse_coding(session: Session, rows: Rows, settings: Settings, options: dict[str, Any]) -> Fit:
    from herdcli.ica import learning, sparse_coding

    noise = 0.1 if options["noise"] is None else options["noise"]
    task = sparse_coding.Task(learning.Problem(rows.Z, settings), noise, options["posterior"] or "map")
    state = session.iterate(
        lambda now: sparse_coding.step(task, now, map=session.map),
        lambda: sparse_coding.init(task),
        steps=settings.updates,
        label="learning",
    )
    more = {"experts": [settings.expert] * state.A.shape[1], "dictionary": state.A, "noise": noise, "posterior": task.posterior}
    trace = Trace(np.arange(1, state.step + 1), state.objective)
    return Fit(
        np.linalg.pinv(state.A),
        np.full(state.A.shape[1], settings.gamma),
        trace,
        state.step,
        "bound" if task.posterior == "variational" else "log_joint",
        more,
    )
