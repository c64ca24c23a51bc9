"""What `herd sample` draws from: a model, or a network as an artifact or text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from herdcli.kinds import able

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.session import Session


def model(session: Session, path: str) -> Artifact:
    """What can be sampled; a network as text is known by its name."""
    from herdcli.cli.frame.networks import TEXT_FORMATS, load_network

    if {suffix.lower().removeprefix(".") for suffix in Path(path).suffixes[-2:]} & set(TEXT_FORMATS):
        return replace(load_network(session, path, None), kind="network")
    return session.load(path, "model", kinds=able("sample"))
