"""Networks and texts that belong to them, from files, stdin and compressed wrappings; and networks as text to -o."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from herdcli.artifacts import Artifact, check_output, memory, publish, sniff
from herdcli.artifacts.inputs import Source, open_source
from herdcli.artifacts.wording import readable
from herdcli.cli.frame.columns import variables_by_name
from herdcli.cli.frame.session import Session
from herdcli.errors import BadUsage, DataError, HerdError

if TYPE_CHECKING:
    from herdcli.markov.model.network import Network

TEXT_FORMATS = ("uai", "fg", "bif")
FORMATS = ("hdf5", *TEXT_FORMATS)


def load_network(session: Session, path: str, input_format: str | None) -> Artifact:
    """A network from UAI, .fg or BIF text, or an artifact.  Raises DataError with line and token."""
    from herdcli.markov.formats import networks as formats
    from herdcli.markov.model import network

    _refuse_stdin_twice(session, path)
    with open_source(path, limit=session.max_memory or memory.default_limit()) as source:
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


def load_like(session: Session, path: str, names: Any, count: int) -> Network:
    """A network whose variables are matched by name with those of another one."""
    from herdcli.markov.model.network import reordered

    found = load_network(session, path, None)
    order = variables_by_name(found, found.value.names, found.value.count, names, count)
    network: Network = found.value if order is None else reordered(found.value, order)
    return network


def load_text(session: Session, path: str, role: str, parse: Any) -> Any:
    """What `parse` makes of the text of a file; errors name the file."""
    _refuse_stdin_twice(session, path)
    with open_source(path, limit=session.max_memory or memory.default_limit()) as source:
        return _parsed(session, source, role, parse, "text").value


def _refuse_stdin_twice(session: Session, path: str) -> None:
    if path == "-" and any(artifact.name == "stdin" for artifact in session.inputs.values()):
        raise BadUsage("stdin can be read only once", hint="name a file in the place of one -")


def _parsed(session: Session, source: Source, role: str, parse: Any, kind: str) -> Artifact:
    from dataclasses import replace

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
    from dataclasses import replace

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
    from dataclasses import replace

    from herdcli.evaluation.beliefs import Compared
    from herdcli.evaluation.network import Beside

    if artifact.kind == "network":
        return replace(artifact, value=Beside(artifact.value, load_like(session, reference, artifact.value.names, artifact.value.count)))

    marginals, log_z = _reference(session, reference, artifact.value)
    return replace(artifact, value=Compared(artifact.value, marginals, log_z))


def _reference(session: Session, path: str, beliefs: Any) -> tuple[list[Any], float | None]:
    from herdcli.markov.formats import results

    _refuse_stdin_twice(session, path)
    with open_source(path, limit=session.max_memory or memory.default_limit()) as source:
        if source.head.lstrip().startswith(b"MAR"):
            return _parsed(session, source, "reference", results.read_mar, "text").value, None
        if not source.regular:
            raise DataError("is no .MAR text", where=source.name, hint="name a file of beliefs, or .MAR text")
    found = session.load(path, "reference", kinds={"beliefs"})
    known, marginals = found.value, found.value.marginals()
    order = variables_by_name(found, known.names, len(marginals), beliefs.names, len(beliefs.node_offset) - 1)
    return marginals if order is None else [marginals[i] for i in order], known.log_z


def output_format(session: Session, wanted: str | None, choices: tuple[str, ...]) -> str:
    """The format of -o: as asked, by its suffix, else hdf5."""
    suffix = Path(session.output).suffix.lower().removeprefix(".")
    return wanted or (suffix if suffix in choices else "hdf5")


def check_text_output(session: Session, kind: str, form: str) -> None:
    """Refuse an output that cannot be made, before any work is done."""
    if form == "hdf5" or session.shard is not None:
        session.check_output(kind, None if form == "hdf5" else form)
    else:
        check_output(session.output, "dataset", format="csv", clobber=session.clobber)  # as for any text


def write_network(session: Session, value: Network, summary: str, form: str, history: Artifact | None = None) -> None:
    """A network as an artifact, or as UAI, .fg or BIF text."""
    from herdcli.markov.formats import networks as formats

    if form == "hdf5":
        session.save(value, summary, history=history)
        return
    write_text(session, formats.write(value, form), summary, form)


def write_text(session: Session, text: str, summary: str, form: str) -> None:
    """A text to -o, whole or not at all, and the closing line."""
    with publish(session.output, clobber=session.clobber, binary=False) as target:
        target.write_text(text, encoding="utf-8")
    session.console.note(f"{summary}, {session.console.elapsed():.1f} s → {form} {readable(len(text.encode()))}")


def network_format_option(command: Any) -> Any:
    """--input-format of commands that read networks."""
    return click.option(
        "--input-format", type=click.Choice(FORMATS), default=None, help="Read the network as this.  [default: told by its content]"
    )(command)
