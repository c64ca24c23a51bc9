"""Networks and texts that belong to them, from files, stdin and compressed wrappings, and on their way to -o."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from herdcli.artifacts import Artifact, sniff
from herdcli.cli.frame import outputs
from herdcli.cli.frame.columns import variables_by_name
from herdcli.cli.frame.options import NETWORK_FORMATS
from herdcli.errors import DataError, HerdError

if TYPE_CHECKING:
    from herdcli.artifacts.inputs import Source
    from herdcli.artifacts.recoding import Recoding
    from herdcli.cli.frame.outputs import History
    from herdcli.cli.frame.session import Session
    from herdcli.markov.model.network import Network

T = TypeVar("T")
TEXT_FORMATS = NETWORK_FORMATS[1:]


def load_network(session: Session, path: str, input_format: str | None) -> Artifact:
    """A network from UAI, .fg or BIF text, or an artifact.  Raises DataError with line and token."""
    from herdcli.markov.formats import networks as formats

    with session.opened(path) as source:
        form = input_format or sniff.network_text(source.head, source.name)
        if form in TEXT_FORMATS:
            found = parsed(session, source, "network", lambda text: formats.read(text, form), "network")
            if (told := formats.unlike_distributions(found.value)) is not None:
                session.console.warn(
                    f"{source.name}: is marked BAYES, but {told}: its factors are multiplied as they are, as those of MARKOV"
                )
                found = replace(found, value=replace(found.value, directed=False))
        else:
            found = _artifact(session, source, path)
    return found


def load_like(session: Session, path: str, names: list[str] | None, count: int) -> Network:
    """A network whose variables are matched by name with those of another one."""
    from herdcli.markov.model.network import reordered

    found = load_network(session, path, None)
    order = variables_by_name(found, found.value.names, found.value.count, names, count)
    network: Network = found.value if order is None else reordered(found.value, order)
    return network


def states_named(network: Network) -> Recoding:
    """The names of states, by variable, that columns of text have; of variables whose states are named by their places alone none."""
    import numpy as np

    from herdcli.artifacts.recoding import Recoding

    parts = [] if network.states is None else np.split(np.array(network.states), np.cumsum(network.cardinality)[:-1])
    levels = {network.name(i): tuple(part.tolist()) for i, part in enumerate(parts)}
    return Recoding({name: own for name, own in levels.items() if own != tuple(map(str, range(len(own))))}, codes=True)


def load_text(session: Session, path: str, role: str, parse: Callable[[str], T]) -> T:
    """What `parse` makes of the text of a file; errors name the file."""
    with session.opened(path) as source:
        found: T = parsed(session, source, role, parse, "text").value
    return found


def parsed(session: Session, source: Source, role: str, parse: Callable[[str], object], kind: str) -> Artifact:
    """What `parse` makes of an open text, remembered among the inputs; errors name the file."""
    with source.reader() as stream:
        raw = stream.read()
    try:
        value = parse(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DataError(f"is not UTF-8 text (byte {error.start})", where=source.name) from None
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


def output_format(session: Session, wanted: str | None, choices: tuple[str, ...]) -> str:
    """The format of -o: as asked, by its suffix, else hdf5."""
    suffix = Path(session.output).suffix.lower().removeprefix(".")
    return wanted or (suffix if suffix in choices else "hdf5")


def check(session: Session, kind: str, form: str) -> None:
    """Refuse an output that cannot be made, before any work is done."""
    if session.shard is not None:
        outputs.check(session, kind, None if form == "hdf5" else form)
    elif form == "hdf5":
        outputs.check(session, kind)
    else:
        outputs.check_text(session)


def write_network(session: Session, value: Network, summary: str, form: str, history: History = None) -> None:
    """A network as an artifact, or as UAI, .fg or BIF text."""
    from herdcli.markov.formats import networks as formats

    if form == "hdf5":
        outputs.artifact(session, value, summary, history=history)
    else:
        outputs.text(session, formats.write(value, form), summary, form)
