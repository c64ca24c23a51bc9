"""herd herd: options of herding; the dynamics are in herdcli.herding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.frame import shards
from herdcli.cli.frame.helping import Command
from herdcli.cli.frame.options import (
    Parsed,
    checkpoint_options,
    data_options,
    input_argument,
    output_options,
    seed_option,
    stage,
    threads_option,
)
from herdcli.cli.herd.request import Request

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session


def _parse_step_sizes(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if len(parts) != 3 or not all(part.isdigit() and int(part) for part in parts):
        raise ValueError("is not three whole numbers from 1: of pair, visible and hidden features")
    return tuple(int(part) for part in parts)


@click.command("herd", cls=Command)
@input_argument
@click.option("--model", type=click.Choice(["rbm", "mrf"]), default="rbm", show_default=True, help="With hidden units, or fully visible.")
@click.option(
    "--features",
    type=click.Choice(["x", "x,xx", "rows"]),
    default=None,
    help="mrf: which features; rows: INPUT's rows are feature vectors.  [default: x]",
)
@click.option(
    "--maximiser",
    type=click.Choice(["exact", "enumerate", "rows", "coordinates"]),
    default=None,
    help="mrf: by sign (x alone), over all states, over all rows, or by single flips.  [default: exact, or what is exact at this size]",
)
@click.option("--hidden", type=click.IntRange(1), default=100, show_default=True, help="Hidden units.")
@click.option(
    "--variant",
    type=click.Choice(["local", "safe"]),
    default="local",
    show_default=True,
    help="Ascent from the last state, or the best row.",
)
@click.option("--flip/--no-flip", default=True, show_default=True, help="Flip all spins at a fixed point where that helps.")
@click.option(
    "--hidden-bias",
    type=click.Choice(["growthless", "none", "full"]),
    default="none",
    show_default=True,
    help="Which part of the hidden features' update is kept.",
)
@click.option("--sweeps", type=click.IntRange(0), default=0, show_default=True, help="Sweeps of block ascent; 0: until a fixed point.")
@click.option(
    "--step-sizes",
    type=Parsed("w,b,c", _parse_step_sizes),
    default="1,1,1",
    show_default=True,
    help="Step sizes of pair, visible and hidden features.",
)
@click.option("--iterations", type=click.IntRange(1), default=2000, show_default=True, help="Herding iterations.")
@click.option(
    "--burn-in", type=click.IntRange(0), default=None, help="Iterations before energies are averaged and states kept.  [default: half]"
)
@click.option("--energy-every", type=click.IntRange(1), default=1, show_default=True, help="Average energies every N iterations.")
@click.option("--keep", type=click.IntRange(0), default=None, help="Keep the last N pseudo-samples.  [default: all after burn-in]")
@click.option("--per-class", is_flag=True, help="One run per label, and class scores for eval.")
@click.option("--score-training", is_flag=True, help="With --per-class: average the training rows' energies too.")
@click.option(
    "--representation", type=click.Choice(["spin", "binary"]), default="spin", show_default=True, help="Units in {−1,+1} or {0,1}."
)
@click.option("--moments", is_flag=True, help="INPUT's one row holds the moments of mrf's features.")
@click.option("--rates", metavar="ARTIFACT", default=None, help="Continue this herding by its rates, without data.")
@click.option(
    "--on-nonconvergence", type=click.Choice(["warn", "error"]), default="warn", show_default=True, help="What to do if weights run away."
)
@stage(Request, data_options, seed_option, threads_option, shards.shard_option, checkpoint_options, output_options)
def command(session: Session, request: Request) -> None:
    """Herding: deterministic weights and pseudo-samples that match the data's moments.

    \b
      herd data digits | herd herd --per-class | herd eval
      herd data digits | herd herd --hidden 50 -o digits.herd.h5
      herd herd --rates digits.herd.h5 -o without-data.herd.h5

    INPUT is a data set; runs are driven by the rows of split 0.  With --per-class the rows of splits
    1 and 2 are scored by every class, for eval.  Arithmetic is exact: any number of threads, the compiled
    and the NumPy loops give the same bytes.
    """
    from herdcli.cli.frame import outputs
    from herdcli.cli.herd import inputs, runs

    request.warn_of_ignored(session)
    outputs.check(session, "herding")
    read = inputs.read(session, request)
    if read.problem.count == 1 and not request.per_class:
        shards.refuse(session, "--per-class herds one run per label")
    runs.run(session, read, request)
