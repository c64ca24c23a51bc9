"""`herd convert --to rbm`: weights that another program learned, as an `rbm` that eval, apply and sample can use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from herdcli.cli.fit_rbm_options import unit_options
from herdcli.cli.session import Session


def import_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--to, and the units of imported weights."""
    return click.option(
        "--to",
        type=click.Choice(["dataset", "rbm"]),
        default="dataset",
        show_default=True,
        help="What INPUT becomes; rbm: weights W, b, c, or those of scikit-learn, or weight_matrix, vbias, hbias, from NPZ or HDF5.",
    )(unit_options(command))


def import_rbm(session: Session, source: str, options: dict[str, Any]) -> None:
    """Read the weights and save them as a model."""
    from herdcli.artifacts import Artifact, memory, weights
    from herdcli.rbm.model import imported
    from herdcli.rbm.proper import require_proper
    from herdcli.schema import check

    session.check_output("rbm")
    found = weights.read(source, limit=session.max_memory or memory.default_limit(), note=session.console.note)
    read = Artifact("weights", None, [], found.sha256, found.name, found.size, False)
    session.inputs["weights"] = read
    units = [options[name] or options["units"] for name in ("visible_units", "hidden_units")]
    model = imported(found.W, found.b, found.c, *units)
    check(model, where=found.name)
    require_proper(model.harmonium())
    session.save(model, f"{len(found.b)} visible, {len(found.c)} hidden units", history=read)
