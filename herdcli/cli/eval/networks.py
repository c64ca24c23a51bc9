"""What `herd eval --reference` does with networks and beliefs: another network, or known marginals, beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.cli.network.inputs import against

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.eval.request import Request
    from herdcli.cli.frame.session import Session


def judged(session: Session, artifact: Artifact, request: Request) -> Artifact:
    """A network or beliefs with --reference beside it."""
    return against(session, artifact, request.reference)
