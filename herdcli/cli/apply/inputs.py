"""What `herd apply` reads beside the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.apply.request import Request
    from herdcli.cli.frame.session import Session


def rows(session: Session, request: Request, *, missing: bool = False) -> Artifact:
    """The data set of new rows.  missing  NaN is an entry that is to be found."""
    return session.load(request.source, "data", kinds={"dataset"}, input_format=request.input_format, label=request.label, missing=missing)
