"""herd apply: new rows through a model; the mathematics is in the topics."""

from __future__ import annotations

from typing import Any

import click

from herdcli.cli.options import data_options, output_options, seed_option, stage, threads_option
from herdcli.cli.session import Session
from herdcli.errors import BadUsage, DataError


@click.command("apply")
@click.argument("model")
@click.argument("source", metavar="[DATA]", default="-", required=False)
@click.option(
    "--want",
    type=click.Choice(["features", "energies", "classes"]),
    default=None,
    help="Hidden means, free energies, or class probabilities with the likeliest as y.  [default: classes if there are, else features]",
)
@stage(data_options, seed_option, threads_option, output_options)
def command(session: Session, model: str, source: str, want: str | None, **options: Any) -> None:
    """Run new rows through a model and write the result as a data set.

    \b
      herd data digits -o digits.h5
      herd fit-rbm --per-class digits.h5 -o digits.rbm.h5
      herd apply digits.rbm.h5 digits.h5 --want classes -o classes.csv

    MODEL or DATA may be - for stdin, not both.  Grey rows are thresholded as the model's were.
    Labels and splits of DATA go along, so that a next stage can learn from the features.
    """
    if model == source == "-":
        raise BadUsage(
            "MODEL and DATA cannot both come from stdin", hint="herd apply MODEL.h5 < data.h5, or herd apply - data.h5 < model.h5"
        )
    session.check_output("dataset")
    fitted = session.load(model, "model", kinds={"rbm", "classifier"})
    if fitted.kind == "classifier":
        from herdcli.cli.compare import apply_classifier

        session.save(*apply_classifier(session, fitted.value, source, options), history=fitted)
        return
    data = session.load(source, "data", kinds={"dataset"}, input_format=options["input_format"], label=options["label"])
    result, summary = _rbm(session, fitted.value, data, want, options)
    session.save(result, summary, history=fitted)


def _rbm(session: Session, model: Any, data: Any, want: str | None, options: dict[str, Any]) -> tuple[Any, str]:
    """The rows of a data set as an `rbm` sees them, and what was made of them in words."""
    from herdcli.artifacts.dataset import Dataset
    from herdcli.cli.prepare import in_units
    from herdcli.evaluation.classes import class_probabilities
    from herdcli.evaluation.settings import EvaluationSettings
    from herdcli.rbm import transform
    from herdcli.rbm.units import family

    want = want or ("features" if model.scores is None else "classes")
    if want == "classes" and model.scores is None:
        raise BadUsage("--want classes needs a model of classes", hint="fit-rbm --per-class makes one")
    known = {"threshold": model.threshold, "value_range": None if model.value_range is None else tuple(model.value_range)}
    given = {name: value for name, value in options.items() if name not in known or value is not None}
    rows = in_units(session, data, family(model.visible_units), known | given, default=0.5)
    if rows.X.shape[1] != model.W.shape[1]:
        raise DataError(f"/X has {rows.X.shape[1]} columns, the model has {model.W.shape[1]} visible units", where=data.name)
    names, y = None, data.value.y
    if want == "features":
        X, names = transform.features(model, rows.X, session.map), None
    else:
        X, names = transform.energies(model.harmoniums(), rows.X, session.map), model.classes
    if want == "classes":
        X = class_probabilities(model.scores, X, EvaluationSettings(seed=options["seed"]))
        y = X.argmax(axis=1)
    limits = transform.feature_range(model) if want == "features" else None
    class_names = model.classes if want == "classes" else data.value.class_names
    result = Dataset(X, y=y, split=data.value.split, feature_names=names, class_names=class_names, value_range=limits)
    return result, f"{X.shape[0]} rows × {X.shape[1]} {want if want != 'classes' else 'class probabilities'}"
