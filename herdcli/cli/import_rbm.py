"""`herd convert --to rbm`: weights that another program learned, as an `rbm` that eval, apply and sample can use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from herdcli.cli.fit_rbm_options import unit_options
from herdcli.cli.session import Session

UNITS = ("units", "visible_units", "hidden_units")
USED = {*UNITS, "source", "to", "output", "no_clobber", "lock", "quiet", "verbose", "debug", "max_memory"}


def import_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--to, and the units of imported weights."""
    return click.option(
        "--to",
        type=click.Choice(["dataset", "rbm"]),
        default="dataset",
        show_default=True,
        help="What INPUT becomes; rbm: weights W, b, c, or those of scikit-learn, or weight_matrix, vbias, hbias, from NPZ or HDF5.",
    )(unit_options(command))


def warn_of_units(session: Session) -> None:
    """Units are those of weights: say that they do nothing for rows."""
    for name in UNITS:
        session.ignored(name, "without --to rbm")


def import_rbm(session: Session, source: str, options: dict[str, Any]) -> None:
    """Read the weights and save them as a model."""
    from herdcli.artifacts import Artifact, memory, weights
    from herdcli.rbm.model import imported
    from herdcli.rbm.proper import require_proper
    from herdcli.schema import check

    for param in click.get_current_context().command.params:
        if param.name in session.given - USED:
            session.console.warn(f"{max(param.opts, key=len)} has no effect with --to rbm")
    session.check_output("rbm")
    found = weights.read(source, limit=session.max_memory or memory.default_limit(), note=session.console.note)
    read = Artifact("weights", None, [], found.sha256, found.name, found.size, False)
    session.inputs["weights"] = read
    units = [options[name] or options["units"] for name in UNITS[1:]]
    model = imported(found.W, found.b, found.c, *units)
    check(model, where=found.name)
    require_proper(model.harmonium())
    session.save(model, f"{len(found.b)} visible, {len(found.c)} hidden units", history=read)
