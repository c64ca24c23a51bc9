"""The runs of `herd em` for models in time: sequences in, a hidden Markov model or linear dynamical system out, what is said of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from herdcli.cli.frame import outputs, sequences
from herdcli.errors import DataError, HerdError

if TYPE_CHECKING:
    from collections.abc import Callable

    from herdcli.artifacts import Artifact
    from herdcli.cli.em.request import Request
    from herdcli.cli.frame.sequences import Series
    from herdcli.cli.frame.session import Session
    from herdcli.em.hmm_artifacts import MarkovChain
    from herdcli.em.hmm_fitting import ChainFitting
    from herdcli.em.lds_artifacts import LinearDynamics
    from herdcli.em.lds_fitting import DynamicFitting
    from herdcli.em.search import Found

    Model = MarkovChain | LinearDynamics

F = TypeVar("F", "ChainFitting", "DynamicFitting")


def run(session: Session, request: Request, begun: Callable[[Series], F], warn: Callable[[Any, F, Found], None], memory: str) -> None:
    """Learn, save and warn.  begun: what learns from the sequences; memory: what it holds most of."""
    series = sequences.read(session, request, weights=request.weights or "weight", controls=request.controls)
    try:
        if 0 not in series.parts:
            raise DataError("has no sequences in split 0 to learn from")
        made = begun(series)
    except HerdError as error:
        error.where = error.where or series.history.name
        raise
    found = session.run(made.search, label=request.model, memory=memory)
    value = made.finished(found, session.map)
    outputs.artifact(session, value, _summary(value, found), history=series.history)
    warn(value, made, found)
    if request.components is not None and len(found.scores) > 1 and found.size == request.components[1]:
        session.console.warn(f"the best number of states is the end of the range, {found.size}; try a wider one")


def given(session: Session, request: Request, columns: int) -> Artifact | None:
    """The model of these columns that --init names."""
    if request.start is None:
        return None
    found = session.load(request.start, "init", kinds={request.model})
    if found.value.columns != columns:
        raise DataError(f"is of {found.value.columns} columns, the rows have {columns}", where=found.name)
    return found


def unfinished(session: Session, value: Model, request: Request) -> None:
    """Warn of an end before the tolerance."""
    if not value.restarts.converged[value.restarts.best] and request.iterations:
        session.console.warn(f"not converged after {request.iterations} iterations; raise --iterations or --tolerance")


def _summary(value: Model, found: Found) -> str:
    of = f" (best of {len(found.scores)} tried)" if len(found.scores) > 1 else ""
    iterations = int(value.restarts.iterations[value.restarts.best])
    last = float(value.ledger.log_likelihood[-1])
    return f"{found.size} state{'s' * (found.size != 1)}{of}, {iterations} iterations, log-likelihood {last:.6g} nats a row"
