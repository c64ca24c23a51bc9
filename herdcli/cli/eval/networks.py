"""What `herd eval --reference` does with networks and beliefs: another network, or known marginals, beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.cli.frame.columns import variables_by_name
from herdcli.cli.frame.networks import load_like, parsed
from herdcli.errors import DataError

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.eval.request import Request
    from herdcli.cli.frame.session import Session
    from herdcli.markov.model.beliefs import Beliefs
    from herdcli.schema import Array


def judged(session: Session, artifact: Artifact, request: Request) -> Artifact:
    """A network or beliefs with --reference beside it."""
    return against(session, artifact, request.reference)


def against(session: Session, artifact: Artifact, reference: str | None) -> Artifact:
    """Beliefs beside the marginals of a reference (.MAR text, or beliefs), networks beside a network; the others as they are."""
    if reference is None or artifact.kind not in ("beliefs", "network"):
        return artifact
    from herdcli.evaluation.beliefs import Compared
    from herdcli.evaluation.network import Beside

    if artifact.kind == "network":
        return replace(artifact, value=Beside(artifact.value, load_like(session, reference, artifact.value.names, artifact.value.count)))

    marginals, log_z = _reference(session, reference, artifact.value)
    return replace(artifact, value=Compared(artifact.value, marginals, log_z))


def _reference(session: Session, path: str, beliefs: Beliefs) -> tuple[list[Array], float | None]:
    from herdcli.markov.formats import results

    with session.opened(path) as source:
        if source.head.lstrip().startswith(b"MAR"):
            return parsed(session, source, "reference", results.read_mar, "text").value, None
        if not source.regular:
            raise DataError("is not .MAR text", where=source.name, hint="name a file of beliefs, or .MAR text")
    found = session.load(path, "reference", kinds={"beliefs"})
    known, marginals = found.value, found.value.marginals()
    order = variables_by_name(found, known.names, len(marginals), beliefs.names, len(beliefs.node_offset) - 1)
    return marginals if order is None else [marginals[i] for i in order], known.log_z
