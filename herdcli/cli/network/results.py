"""Networks, and texts that belong to them, on their way to -o."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from herdcli.cli.frame import outputs

if TYPE_CHECKING:
    from herdcli.cli.frame.outputs import History
    from herdcli.cli.frame.session import Session
    from herdcli.markov.model.network import Network


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
