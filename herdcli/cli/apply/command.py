"""herd apply: new rows through a model; the mathematics is in the topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.apply.request import Request
from herdcli.cli.frame.helping import Command
from herdcli.cli.frame.options import data_options, exact_option, output_options, seed_option, stage, threads_option
from herdcli.errors import BadUsage, DataError
from herdcli.kinds import KINDS, able
from herdcli.parts import named

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session

EM = ("mixture", "kmeans", "factors")
OF_EM = ("clusters", "responsibilities", "scores")
IN_TIME = ("hmm", "lds", "rtrbm")
OF_TIME = ("filtered", "smoothed", "viterbi", "predicted", "paths", "forecast")
WANTS = [
    "features",
    "states",
    "energies",
    "classes",
    "rows",
    *OF_EM,
    "completed",
    "sets",
    "means",
    "forecasts",
    *OF_TIME[:-2],
    "paths:N",
    "forecast:N",
]


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
    help="features: hidden means or filter outputs; states: hidden states, drawn once; energies; classes: their probabilities, and the "
    "likeliest as y.  ica: rows, made from filter outputs.  em: clusters as y, responsibilities, factor scores, or rows with their gaps "
    "filled (completed; of an rbm too, by expectations).  regress: means; of rows in time (--gls ar1) forecasts by the last row before "
    "whose target is known.  hmm: the likeliest states as y (viterbi), probabilities of states given all rows (smoothed), the rows up to "
    "each (filtered) or those before it (predicted), or N drawn paths.  lds: the same "
    "of its states, with standard deviations, or a forecast of N rows.  rtrbm: hidden means, the rows expected (predicted), a "
    "forecast.  "
    "nherd-train --coverage: which classes are in the set of each row, or intervals, multilabel: which labels (sets).  "
    "[default: classes or else features; em: clusters, scores, viterbi or smoothed; regress: means]",
)
@click.option(
    "--sequence",
    metavar="COLUMN",
    default=None,
    help="hmm, lds, rtrbm, forecasts: column that says which sequence a row belongs to.  [default: sequence]",
)
@click.option(
    "--particles", type=click.IntRange(2), default=None, metavar="N", help="hmm, lds: use a particle filter and smoother with N particles."
)
@click.option(
    "--explain",
    type=click.IntRange(1),
    default=None,
    metavar="ROW",
    help="nherd-train: what the prediction of one row (the first is 1) is made of: its 20 largest terms weight × value by name, "
    "their standard deviations, the bias, and the score they add up to.",
)
@stage(Request, data_options, seed_option, threads_option, exact_option, output_options)
def command(session: Session, request: Request) -> None:
    """Run new rows through a model and write the result as a data set.

    \b
      herd data digits -o digits.h5
      herd fit-rbm --per-class digits.h5 -o digits.rbm.h5
      herd apply digits.rbm.h5 digits.h5 --want classes -o classes.csv

    MODEL or DATA may be - for stdin, but not both.  Grey values are thresholded as the model's were.
    Labels and splits of DATA are kept, so that the next stage can learn from the features.  Rows of a large HDF5, Parquet or CSV
    file stay in it and are written as HDF5, Parquet or CSV some at a time, but those of models in time.
    """
    from herdcli.cli.apply import classifiers, explaining, streams
    from herdcli.cli.frame import exact, outputs

    if request.model == request.source == "-":
        raise BadUsage(
            "MODEL and DATA cannot both come from stdin", hint="herd apply MODEL.h5 < data.h5, or herd apply - data.h5 < model.h5"
        )
    if request.explain is None:
        outputs.check(session, "dataset")
    else:
        outputs.check_text(session)
    fitted = session.load(request.model, "model", kinds=[*able("apply"), "dataset"], missing=True, as_stored=True)
    if fitted.kind == "dataset":
        raise DataError("is a data set, and the model comes first", where=fitted.name, hint="herd apply MODEL DATA")
    exact.refuse_kind(session, fitted.kind, fitted.name)
    if request.want in OF_EM and fitted.kind not in (*EM, *IN_TIME):
        raise BadUsage(f"--want {request.want} is for models made by herd em, not for a {fitted.kind}", hint="herd apply without --want")
    if request.want is not None and request.want.partition(":")[0] in OF_TIME and fitted.kind not in IN_TIME:
        raise BadUsage(f"--want {request.want} is for models of sequences, not for a {fitted.kind}", hint="herd apply without --want")
    if fitted.kind not in IN_TIME and request.want != "forecasts":
        session.ignored("sequence", f"with a model of kind {fitted.kind}")
    if fitted.kind not in IN_TIME:
        session.ignored("particles", f"with a model of kind {fitted.kind}")
    classifiers.refuse(fitted, request)
    if request.explain is not None:
        explaining.explain(session, fitted, request)
        return
    applied = named(str(KINDS[fitted.kind].apply))
    if streams.streamed(session, fitted, request, applied):
        return
    with streams.hinted(session, fitted, request):
        result, summary = applied(session, fitted, request)
    gaps = fitted.kind == "hmm" and request.want in (None, "viterbi")  # the rows themselves, beside their states
    known = fitted.recoding if gaps and fitted.recoding.codes else None
    outputs.artifact(session, result, summary, history=fitted, missing=gaps, recoding=known)
