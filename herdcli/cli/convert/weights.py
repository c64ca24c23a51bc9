"""`herd convert --to rbm`: weights that another program learned, as an `rbm` that eval, apply and sample can use."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click
import numpy as np

from herdcli.cli.frame import outputs

if TYPE_CHECKING:
    from herdcli.cli.convert.request import Request
    from herdcli.cli.frame.session import Session

OF_WEIGHTS = {"units", "visible_units", "hidden_units", "threshold", "value_range"}
USED = {*OF_WEIGHTS, "source", "to", "output", "no_clobber", "lock", "quiet", "verbose", "debug", "max_memory"}


def warn_of_idle(session: Session, names: set[str], why: str) -> None:
    """Say which of these options were typed and do nothing."""
    for param in click.get_current_context().command.params:
        if param.name in session.given & names:
            session.console.warn(f"{max(param.opts, key=len)} has no effect {why}")


def import_rbm(session: Session, request: Request) -> None:
    """Read the weights and save them as a model."""
    from herdcli.artifacts import Artifact, memory, weights
    from herdcli.rbm.model import imported
    from herdcli.rbm.proper import require_proper
    from herdcli.schema import check

    warn_of_idle(session, session.given - USED, "with --to rbm")
    outputs.check(session, "rbm")
    found = weights.read(request.source, limit=session.max_memory or memory.default_limit(), note=session.console.note)
    read = Artifact("weights", None, [], found.sha256, found.name, found.size, False)
    session.inputs["weights"] = read
    units = [own or request.units for own in (request.visible_units, request.hidden_units)]
    limits = None if request.value_range is None else np.array(request.value_range)
    model = replace(imported(found.W, found.b, found.c, *units), threshold=request.threshold, value_range=limits)
    check(model, where=found.name)
    require_proper(model.harmonium())
    outputs.artifact(session, model, f"{len(found.b)} visible, {len(found.c)} hidden units", history=read)
