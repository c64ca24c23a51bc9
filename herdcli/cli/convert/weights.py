"""`herd convert --to rbm`: weights that another program learned, as an `rbm` that eval, apply and sample can use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click
import numpy as np

from herdcli.cli.frame.options import INTERVAL
from herdcli.cli.frame.session import Session
from herdcli.cli.frame.units import unit_options

OF_WEIGHTS = {"units", "visible_units", "hidden_units", "threshold", "value_range"}
USED = {*OF_WEIGHTS, "source", "to", "output", "no_clobber", "lock", "quiet", "verbose", "debug", "max_memory"}


def import_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--to, and what is to be known of imported weights: units, and how grey rows were made two-valued or proportions."""
    for option in (
        click.option(
            "--range", "value_range", type=INTERVAL, default=None, metavar="LO,HI", help="--to rbm: the range of the data's values."
        ),
        click.option(
            "--threshold",
            type=click.FloatRange(0, 1),
            default=None,
            help="--to rbm: pixels were on from this fraction of the range upwards.",
        ),
        unit_options,
        click.option(
            "--to",
            type=click.Choice(["dataset", "rbm"]),
            default="dataset",
            show_default=True,
            help="What INPUT becomes; rbm: weights W, b, c, or those of scikit-learn, or weight_matrix, vbias, hbias, from NPZ or HDF5.",
        ),
    ):
        command = option(command)
    return command


def warn_of_idle(session: Session, names: set[str], why: str) -> None:
    """Say which of these options were typed and do nothing."""
    for param in click.get_current_context().command.params:
        if param.name in session.given & names:
            session.console.warn(f"{max(param.opts, key=len)} has no effect {why}")


def import_rbm(session: Session, source: str, options: dict[str, Any]) -> None:
    """Read the weights and save them as a model."""
    from herdcli.artifacts import Artifact, memory, weights
    from herdcli.rbm.model import imported
    from herdcli.rbm.proper import require_proper
    from herdcli.schema import check

    warn_of_idle(session, session.given - USED, "with --to rbm")
    session.check_output("rbm")
    found = weights.read(source, limit=session.max_memory or memory.default_limit(), note=session.console.note)
    read = Artifact("weights", None, [], found.sha256, found.name, found.size, False)
    session.inputs["weights"] = read
    units = [options[name] or options["units"] for name in ("visible_units", "hidden_units")]
    limits = None if options["value_range"] is None else np.array(options["value_range"])
    model = replace(imported(found.W, found.b, found.c, *units), threshold=options["threshold"], value_range=limits)
    check(model, where=found.name)
    require_proper(model.harmonium())
    session.save(model, f"{len(found.b)} visible, {len(found.c)} hidden units", history=read)
