"""herd apply: applies a model to new rows; the mathematics is in the topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.apply.request import Request
from herdcli.cli.apply.values import EM, IN_TIME, OF_EM, OF_TIME
from herdcli.cli.frame.options.common_options import cleaning_options, command_with_request, csv_output_options, threads_option
from herdcli.cli.frame.options.help_pages import Command
from herdcli.errors import BadUsage, DataError
from herdcli.kinds import KINDS, kinds_with
from herdcli.parts import import_by_path

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@click.command("apply", cls=Command)
@click.argument("model")
@click.argument("source", metavar="[DATA]", default="-", required=False)
@command_with_request(Request, cleaning_options, threads_option, csv_output_options)
def command(session: Session, request: Request) -> None:
    """Apply a model to new rows: predict classes, compute features, fill in missing values, decode states.

    \b
      herd data digits -o digits.h5
      herd fit-rbm --per-class digits.h5 -o digits.rbm.h5
      herd apply digits.rbm.h5 digits.h5 --want classes -o classes.csv

    The result is a data set with one row per row of DATA; --want chooses what is computed.  Labels and splits of DATA
    are kept, so that the next command can learn from the features.  The rows are preprocessed as the training
    rows were: grey values, for example, are thresholded in the same way.

    MODEL or DATA may be - for stdin, but not both.  Large HDF5, Parquet and CSV files are processed block by block and
    written as HDF5, Parquet or CSV, except with models of sequences.
    """
    from herdcli.cli.apply import classifiers, explanations, large_files
    from herdcli.cli.frame.output import outputs
    from herdcli.cli.frame.run import exact_mode

    if request.model == request.source == "-":
        raise BadUsage(
            "MODEL and DATA cannot both come from stdin", hint="herd apply MODEL.h5 < data.h5, or herd apply - data.h5 < model.h5"
        )
    if request.explain is None:
        outputs.check_artifact_output(session, "dataset")
    else:
        outputs.check_text_output(session)
    fitted = session.load(request.model, "model", kinds=[*kinds_with("apply"), "dataset"], missing=True, as_stored=True)
    if fitted.kind == "dataset":
        raise DataError(
            "is a data set, but the first argument must be the model", where=fitted.name, hint="change the order: herd apply MODEL DATA"
        )
    exact_mode.refuse_kind_when_exact(session, fitted.kind, fitted.name)
    if request.want in OF_EM and fitted.kind not in (*EM, *IN_TIME):
        raise BadUsage(f"--want {request.want} is for models made by herd em, not for a {fitted.kind}", hint="leave out --want")
    if request.want is not None and request.want.partition(":")[0] in OF_TIME and fitted.kind not in IN_TIME:
        raise BadUsage(f"--want {request.want} is for models of sequences, not for a {fitted.kind}", hint="leave out --want")
    if fitted.kind not in IN_TIME and request.want != "forecasts":
        session.warn_of_ignored_option("sequence", f"with a model of kind {fitted.kind}")
    if fitted.kind not in IN_TIME:
        session.warn_of_ignored_option("particles", f"with a model of kind {fitted.kind}")
    classifiers.refuse_unavailable_results(fitted, request.want, request.explain)
    if request.explain is not None:
        explanations.write_score_explanation(session, fitted, request.explain, request.source, request.input_format, request.label)
        return
    applied = import_by_path(str(KINDS[fitted.kind].apply))
    if large_files.apply_in_blocks(session, fitted, request, applied):
        return
    with large_files.suggest_streaming(session, fitted, request):
        result, summary = applied(session, fitted, request)
    gaps = fitted.kind == "hmm" and request.want in (None, "viterbi")  # the output is the rows themselves with their states
    known = fitted.recoding if gaps and fitted.recoding.codes else None
    outputs.write_artifact(session, result, summary, history=fitted, missing=gaps, recoding=known)
