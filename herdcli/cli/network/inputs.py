"""Networks and texts that belong to them, from files, stdin and compressed wrappings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from herdcli.artifacts import Artifact, sniff
from herdcli.cli.frame.columns import variables_by_name
from herdcli.cli.network.options import TEXT_FORMATS
from herdcli.cli.network.request import MADE, USED_BY
from herdcli.errors import DataError, HerdError

if TYPE_CHECKING:
    from herdcli.artifacts.inputs import Source
    from herdcli.cli.frame.session import Session
    from herdcli.cli.network.request import Request
    from herdcli.markov.model.beliefs import Beliefs
    from herdcli.markov.model.network import Network
    from herdcli.schema import Array

T = TypeVar("T")


def made(session: Session, request: Request) -> tuple[Network, Artifact | None]:
    """The network that is read, with its file, or made from the seed."""
    if request.structure == "convert":
        found = load_network(session, request.source, request.input_format)
        return found.value, found
    if request.structure == "from-hmm":
        from herdcli.cli.em import networks

        return networks.made(session, request)
    from herdcli.markov.model import generate

    known = {name: getattr(request, name) for name in (*USED_BY, *MADE)}
    return generate.make(request.structure, **known), None


def load_network(session: Session, path: str, input_format: str | None) -> Artifact:
    """A network from UAI, .fg or BIF text, or an artifact.  Raises DataError with line and token."""
    from herdcli.markov.formats import networks as formats
    from herdcli.markov.model import network

    with session.opened(path) as source:
        form = input_format or sniff.network_text(source.head, source.name)
        if form in TEXT_FORMATS:
            found = _parsed(session, source, "network", lambda text: formats.read(text, form), "network")
        else:
            found = _artifact(session, source, path)
    try:
        network.validate(found.value)
    except DataError as error:
        error.where = found.name
        raise
    return found


def load_like(session: Session, path: str, names: list[str] | None, count: int) -> Network:
    """A network whose variables are matched by name with those of another one."""
    from herdcli.markov.model.network import reordered

    found = load_network(session, path, None)
    order = variables_by_name(found, found.value.names, found.value.count, names, count)
    network: Network = found.value if order is None else reordered(found.value, order)
    return network


def load_text(session: Session, path: str, role: str, parse: Callable[[str], T]) -> T:
    """What `parse` makes of the text of a file; errors name the file."""
    with session.opened(path) as source:
        found: T = _parsed(session, source, role, parse, "text").value
    return found


def _parsed(session: Session, source: Source, role: str, parse: Callable[[str], object], kind: str) -> Artifact:
    with source.reader() as stream:
        raw = stream.read()
    try:
        value = parse(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DataError(f"is no UTF-8 text (byte {error.start})", where=source.name) from None
    except HerdError as error:
        error.where = source.name
        raise
    found = Artifact(kind, value, [], source.sha256, source.name, len(raw), False)
    session.inputs[role] = replace(found, value=None)
    return found


def _artifact(session: Session, source: Source, path: str) -> Artifact:
    """A sealed network; a stream is drained first and keeps its name."""
    if source.regular:
        return session.load(path, "network", kinds={"network"})
    with source.file() as drained:
        try:
            found = session.load(drained, "network", kinds={"network"})
        except HerdError as error:
            error.where = source.name
            raise
    session.inputs["network"] = replace(session.inputs["network"], name=source.name)
    return replace(found, name=source.name)


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
            return _parsed(session, source, "reference", results.read_mar, "text").value, None
        if not source.regular:
            raise DataError("is no .MAR text", where=source.name, hint="name a file of beliefs, or .MAR text")
    found = session.load(path, "reference", kinds={"beliefs"})
    known, marginals = found.value, found.value.marginals()
    order = variables_by_name(found, known.names, len(marginals), beliefs.names, len(beliefs.node_offset) - 1)
    return marginals if order is None else [marginals[i] for i in order], known.log_z
