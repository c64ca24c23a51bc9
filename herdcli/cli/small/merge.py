"""herd merge: combines classifiers (see herdcli.online.learners.model_merging), or joins all shards of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.history.request import field_recorded_as_file, input_file_field
from herdcli.cli.frame.options.common_options import command_with_request, csv_output_options
from herdcli.cli.frame.options.declaration import INPUT, choice_kind, option, text_kind
from herdcli.cli.frame.options.help_pages import Command
from herdcli.cli.frame.run import shards
from herdcli.errors import BadUsage, DataError
from herdcli.kinds import KINDS
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session


ONLINE = ("classifier", "predictor", "tagger")


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd merge`; names and meanings are those of its --help."""

    models: tuple[str, ...] = input_file_field()
    rule: str = option(
        choice_kind("precision", "evidence", "mean"),
        "--combine",
        default="precision",
        help="How classifiers are combined.  precision: precisions add up, without the repeated prior; evidence: means of the weights, "
        "each classifier counting by what it has learned; mean: plain means.",
    )
    data: str | None = option(
        text_kind(),
        "--calibration-data",
        metavar="FILE",
        group=INPUT,
        record=field_recorded_as_file(),
        help="Labelled examples on which the confidences of the merged classifier are calibrated.",
    )


@click.command("merge", cls=Command)
@click.argument("models", metavar="MODEL|SHARD...", nargs=-1, required=True)
@command_with_request(Request, csv_output_options)
def command(session: Session, request: Request) -> None:
    """Join the shards of one run, or combine classifiers that were trained on different data.

    \b
      herd data digits -o digits.h5
      herd herd digits.h5 --per-class --iterations 100 --shard 1/2 -o a.h5
      herd herd digits.h5 --per-class --iterations 100 --shard 2/2 -o b.h5
      herd merge a.h5 b.h5 -o herded.h5

    \b
      herd nherd-train digits.h5 --split .3,.2,.2 --seed 1 -o 1.h5
      herd nherd-train digits.h5 --split .3,.2,.2 --seed 2 -o 2.h5
      herd merge 1.h5 2.h5 -o both.h5

    A shard is the part of a run that one process did with --shard I/N.  Merging all N shards, in any order, gives exactly the
    output of the run without --shard: an artifact or, by the suffix of -o, a table or text.  The options and inputs of
    all shards must be the same.
    """
    from herdcli.artifacts.atomic_output import check_destination

    check_destination(session.output, clobber=session.clobber)
    found = [_load_part(session, path, f"model {n + 1}") for n, path in enumerate(request.models)]
    classifiers = [artifact for artifact in found if artifact.kind in ONLINE]
    if not classifiers:
        for option in ("rule", "data"):
            session.warn_of_ignored_option(option, "with shards")
        shards.merge_shards(session, found)
        return
    for other in found:
        if other.kind not in ONLINE:
            raise DataError(
                f"is {other.value.place.name} of a run, but {classifiers[0].name} is a {classifiers[0].kind}",
                where=other.name,
                hint="merge them separately",
            )
    _merge_classifiers(session, found, request)


def _load_part(session: Session, path: str, role: str) -> Artifact:
    found = session.load(path, role, kinds=None)
    if found.kind not in ONLINE and KINDS[found.kind].finish is None:
        raise DataError(f"is of kind {found.kind}, but only classifiers and shards can be merged", where=found.name)
    return found


def _merge_classifiers(session: Session, artifacts: list[Artifact], request: Request) -> None:
    from dataclasses import replace

    from herdcli.cli.frame.output import outputs
    from herdcli.cli.frame.rows.classifier_scores import rescore_classifier
    from herdcli.online import mixed_merging
    from herdcli.online.learners import model_merging
    from herdcli.online.predictions.score_calibration import calibrate_on_all

    if len(artifacts) < 2:
        raise BadUsage("merging needs at least two models")
    outputs.check_artifact_output(session, artifacts[0].kind)
    models = [artifact.value for artifact in artifacts]
    if mixed_merging.learners_differ(models):
        session.console.note(
            f"the models have different learners ({', '.join(mixed_merging.learner_names(models))}), "
            "so herd averages their calibrated scores instead of merging their weights by precision"
        )
        if request.rule != "precision":
            session.warn_of_ignored_option("rule", "with different learners")
    made = model_merging.merge_models(models, request.rule)
    if request.data is not None:
        made = calibrate_on_all(rescore_classifier(session, replace(artifacts[0], value=made), request.data).value)
    outputs.write_artifact(session, made, f"{len(artifacts)} models, {made.running.examples} examples")
