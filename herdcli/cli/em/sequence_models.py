"""The run of `herd em` for sequence models: it reads sequences, fits a hidden Markov model or linear dynamical system, and warns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.rows import sequences, streamed_rows
from herdcli.errors import DataError, HerdError
from herdcli.splits import TEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from herdcli.artifacts import Artifact
    from herdcli.cli.em.request import Request
    from herdcli.cli.frame.rows.sequences import SequenceTable
    from herdcli.cli.frame.run.session import Session
    from herdcli.em.hmm_artifacts import HiddenMarkovModel
    from herdcli.em.lds_artifacts import LinearDynamics
    from herdcli.em.mixture.component_search import ComponentSearch, SearchResult
    from herdcli.em.sequence.hmm_fitting import PreparedChainFit
    from herdcli.em.sequence.lds_fitting import PreparedDynamicsFit

    Model = HiddenMarkovModel | LinearDynamics

SMALLER_FIT = "--sequence COLUMN with shorter sequences, --columns NAME,… or fewer --components"  # what needs less memory
F = TypeVar("F", "PreparedChainFit", "PreparedDynamicsFit")
LISTED = 8  # maximum number of names in a message


def fit_sequences(
    session: Session, request: Request, prepare: Callable[[SequenceTable], F], warn: Callable[[Any, F, SearchResult], None], memory: str
) -> None:
    """Fit a sequence model, save it and print warnings.

    prepare   prepares the fit from the sequences.  memory  the largest object that the fit holds, for messages about memory.
    """
    with streamed_rows.suggest_streaming(streamed_rows.FEWER_COLUMNS, lambda: True):
        series = sequences.read_sequences(session, request, weights=request.weights or "weight", controls=request.controls)
    with streamed_rows.suggest_streaming(SMALLER_FIT, lambda: True, series.history.name):
        try:
            if 0 not in series.parts:
                raise DataError("has no training sequences", hint="make a new split: --split .8,.1,.1")
            made = prepare(_drop_uninformative_columns(session, series, request))
        except HerdError as error:
            error.where = error.where or series.history.name
            raise
        found = session.run(made.search, label=request.model, memory=memory, after=lambda _: (0.0, _untried_bytes(made.search, series)))
        value = made.artifact_from_search(found, session.map)
    outputs.write_artifact(session, value, _summarize(value, found), history=series.history)
    warn(value, made, found)
    if request.components is not None and len(found.scores) > 1 and found.size == request.components[1]:
        session.console.warn(f"the best number of states is the largest one tried, {found.size}; try a wider range of --components")


def _untried_bytes(search: ComponentSearch, series: SequenceTable) -> int:
    """Return the bytes that a run needs and its first steps do not: larger models, and the held-out rows in the artifact and a copy."""
    test = series.parts.get(TEST)
    return search.memory() - search.runs[0].memory() + (0 if test is None else 2 * 8 * test.rows * test.columns)


def _drop_uninformative_columns(session: Session, series: SequenceTable, request: Request) -> SequenceTable:
    """Return the sequences without uninformative columns: those without a value in the training rows and constant real-valued columns.

    Neither a model nor a baseline could give another value of such a column any probability.
    """
    from herdcli.artifacts.recoding import column_names
    from herdcli.em.sequence.sequences import uninformative_columns

    real, controls = request.model == "lds" or request.emission in ("gaussian", "gmm"), set(request.controls or ())
    silent, constant = uninformative_columns(series.parts[0])
    names = column_names(series.data)
    for what, columns in (("no value", silent), ("one value", constant & real)):
        gone = [name for name, out in zip(names, columns, strict=True) if out and name not in controls]
        if gone:
            listed = ", ".join(f"'{name}'" for name in gone[:LISTED]) + (", …" if len(gone) > LISTED else "")
            subject = f"column {listed} has" if len(gone) == 1 else f"{len(gone)} columns ({listed}) have"
            session.console.warn(f"{subject} {what} in the training rows and {'is' if len(gone) == 1 else 'are'} left out")
    kept = np.array([name in controls for name in names]) | ~(silent | (constant & real))
    if kept.all():
        return series
    if not any(keep for keep, name in zip(kept, names, strict=True) if name not in controls):
        raise DataError("all columns are constant in the training rows", hint="use data or a --split in which at least one column varies")
    places = np.flatnonzero(kept)
    X = np.ascontiguousarray(series.data.X[:, places])
    data = replace(series.data, X=X, feature_names=[names[place] for place in places], image_shape=None)
    parts = {number: replace(part, X=X) for number, part in series.parts.items()}
    return replace(series, data=data, sequences=replace(series.sequences, X=X), parts=parts)


def load_initial_model(session: Session, initial_file: str | None, model: str, columns: int) -> Artifact | None:
    """Return the model that --init names, after checking its number of columns; None without --init FILE."""
    if initial_file is None:
        return None
    found = session.load(initial_file, "init", kinds={model})
    if found.value.columns != columns:
        raise DataError(f"was learned from {found.value.columns} columns, but the rows have {columns}", where=found.name)
    return found


def warn_of_nonconvergence(session: Session, value: Model, iterations: int) -> None:
    """Warn if the fit ended before it converged."""
    if not value.restarts.converged[value.restarts.best] and iterations:
        session.console.warn(f"not converged after {iterations} iterations; raise --iterations or --tolerance")


def _summarize(value: Model, search: SearchResult) -> str:
    of = f" (best of {len(search.scores)} tried)" if len(search.scores) > 1 else ""
    iterations = int(value.restarts.iterations[value.restarts.best])
    last = float(value.ledger.log_likelihood[-1])
    return f"{search.size} state{'s' * (search.size != 1)}{of}, {iterations} iterations, log-likelihood {last:.6g} nats per row"
