"""The models for `herd sample`: artifacts, or networks as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.kinds import kinds_with

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session


def load_model_to_sample(session: Session, path: str) -> Artifact:
    """Return an artifact that can be sampled, or a network from text."""
    from herdcli.cli.frame.rows.network_files import load_model

    return load_model(session, path, "model", kinds_with("sample"))
