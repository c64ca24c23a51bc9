"""herd merge: one classifier of several; the mathematics is in herdcli.online.merge."""

from __future__ import annotations

import click

from herdcli.cli.options import output_options, stage
from herdcli.cli.session import Session
from herdcli.errors import BadUsage


@click.command("merge")
@click.argument("models", metavar="MODEL MODEL...", nargs=-1, required=True)
@click.option(
    "--rule",
    type=click.Choice(["precision", "evidence", "mean"]),
    default="precision",
    show_default=True,
    help="precision: evidence adds up, the prior counts once; evidence: means weighted by what each learned; mean: plain means.",
)
@click.option("--data", metavar="FILE", default=None, help="Labelled examples to calibrate the confidence on.")
@stage(output_options)
def command(session: Session, models: tuple[str, ...], rule: str, data: str | None) -> None:
    """Make one classifier of several that learned from different parts of a stream.

    \b
      herd data digits -o digits.h5
      herd nherd-train digits.h5 --split .3,.2,.2 --seed 1 -o 1.h5
      herd nherd-train digits.h5 --split .3,.2,.2 --seed 2 -o 2.h5
      herd merge 1.h5 2.h5 -o both.h5
    """
    from dataclasses import replace

    from herdcli.cli.compare import rescored
    from herdcli.online import merge, predict

    if len(models) < 2:
        raise BadUsage("merging takes two models or more")
    session.check_output("classifier")
    found = [session.load(path, f"model {n + 1}", kinds={"classifier"}) for n, path in enumerate(models)]
    made = merge.merge([artifact.value for artifact in found], rule)
    if data is not None:
        made = predict.calibrated_on(rescored(session, replace(found[0], value=made), data).value)
    session.save(made, f"{len(models)} models, {made.running.examples} examples", history=None)
