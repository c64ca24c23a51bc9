"""herd apply: new rows through a model; the mathematics is in the topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.apply.request import Request
from herdcli.cli.frame.helping import Command
from herdcli.cli.frame.options import data_options, output_options, seed_option, stage, threads_option
from herdcli.errors import BadUsage, DataError
from herdcli.kinds import KINDS, able, named

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session

EM = ("mixture", "kmeans", "factors")
OF_EM = ("clusters", "responsibilities", "scores")
IN_TIME = ("hmm", "lds")
OF_TIME = ("filtered", "smoothed", "viterbi", "predicted", "paths", "forecast")
WANTS = ["features", "states", "energies", "classes", "rows", *OF_EM, "completed", "means", *OF_TIME[:-2], "paths:N", "forecast:N"]


class Want(click.Choice):  # type: ignore[type-arg]
    """One of WANTS, or a number in the place of N."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        name, _, count = str(value).partition(":")
        if count and f"{name}:N" in self.choices and count.isdigit() and int(count):
            return value
        if count == "N":
            self.fail(f"'{value}' needs a number, as in {name}:100", param, ctx)
        return super().convert(value, param, ctx)


@click.command("apply", cls=Command)
@click.argument("model")
@click.argument("source", metavar="[DATA]", default="-", required=False)
@click.option(
    "--want",
    type=Want(WANTS),
    default=None,
    help="Hidden means or filter outputs, hidden states drawn once, energies, class probabilities with the likeliest as y, "
    "(ica) filter outputs back as rows; of em the rows with their clusters as y, probabilities of the clusters, factor scores, or the "
    "rows with their gaps filled, which an rbm does too (NaN, by expectations); of regress means; of hmm likeliest states as y, "
    "probabilities of the states by all rows, by those up to each and by those before it, or N paths drawn; "
    "of lds its states in the same ways with standard deviations, or the next N rows.  "
    "[default: classes if there are, else features; of em clusters, scores, viterbi or smoothed, of regress means]",
)
@click.option("--sequence", metavar="COLUMN", default=None, help="Of hmm and lds: which sequence a row is of.  [default: sequence]")
@click.option("--particles", type=click.IntRange(2), default=None, metavar="N", help="Of hmm and lds: by a particle filter and smoother.")
@stage(Request, data_options, seed_option, threads_option, output_options)
def command(session: Session, request: Request) -> None:
    """Run new rows through a model and write the result as a data set.

    \b
      herd data digits -o digits.h5
      herd fit-rbm --per-class digits.h5 -o digits.rbm.h5
      herd apply digits.rbm.h5 digits.h5 --want classes -o classes.csv

    MODEL or DATA may be - for stdin, not both.  Grey rows are thresholded as the model's were.
    Labels and splits of DATA go along, so that a next stage can learn from the features.
    """
    from herdcli.cli.frame import outputs

    if request.model == request.source == "-":
        raise BadUsage(
            "MODEL and DATA cannot both come from stdin", hint="herd apply MODEL.h5 < data.h5, or herd apply - data.h5 < model.h5"
        )
    outputs.check(session, "dataset")
    fitted = session.load(request.model, "model", kinds=[*able("apply"), "dataset"])
    if fitted.kind == "dataset":
        raise DataError("is a data set, and the model comes first", where=fitted.name, hint="herd apply MODEL DATA")
    if request.want in OF_EM and fitted.kind not in (*EM, *IN_TIME):
        raise BadUsage(f"--want {request.want} is of what herd em makes, not of a {fitted.kind}", hint="herd apply without --want")
    if request.want is not None and request.want.partition(":")[0] in OF_TIME and fitted.kind not in IN_TIME:
        raise BadUsage(f"--want {request.want} is of models in time, not of a {fitted.kind}", hint="herd apply without --want")
    if fitted.kind not in IN_TIME:
        session.ignored("sequence", f"with a model of kind {fitted.kind}")
        session.ignored("particles", f"with a model of kind {fitted.kind}")
    result, summary = named(str(KINDS[fitted.kind].apply))(session, fitted, request)
    outputs.artifact(session, result, summary, history=fitted)
