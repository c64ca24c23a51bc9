"""herd apply: new rows through a model; the mathematics is in the topics."""

from __future__ import annotations

from typing import Any

import click

from herdcli.cli.frame.options import data_options, output_options, seed_option, stage, threads_option
from herdcli.cli.frame.session import Session
from herdcli.errors import BadUsage


@click.command("apply")
@click.argument("model")
@click.argument("source", metavar="[DATA]", default="-", required=False)
@click.option(
    "--want",
    type=click.Choice(["features", "states", "energies", "classes", "rows"]),
    default=None,
    help="Hidden means or filter outputs, hidden states drawn once, energies, class probabilities with the likeliest as y, "
    "or (ica) filter outputs back as rows.  [default: classes if there are, else features]",
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
    fitted = session.load(model, "model", kinds={"rbm", "dbn", "classifier", "ica"})
    if fitted.kind == "classifier":
        from herdcli.cli.eval.classifiers import apply_classifier

        session.save(*apply_classifier(session, fitted.value, source, options), history=fitted)
        return
    data = session.load(source, "data", kinds={"dataset"}, input_format=options["input_format"], label=options["label"])
    if fitted.kind == "ica":
        from herdcli.cli.apply.filters import apply_ica

        session.save(*apply_ica(session, fitted.value, data, want), history=fitted)
        return
    if want == "rows":
        raise BadUsage("--want rows is of ica models: filter outputs back as rows", hint="--want features, energies or classes")
    layers = fitted.value.layers if fitted.kind == "dbn" else [fitted.value]
    result, summary = _harmoniums(session, layers, data, want, options)
    session.save(result, summary, history=fitted)


def _harmoniums(session: Session, layers: list[Any], data: Any, want: str | None, options: dict[str, Any]) -> tuple[Any, str]:
    """The rows of a data set as an `rbm`, or the layers of a `dbn`, see them, and what was made of them in words."""
    from herdcli.artifacts.dataset import Dataset
    from herdcli.cli.frame.rows import rows_of
    from herdcli.evaluation.classes import class_probabilities
    from herdcli.evaluation.settings import EvaluationSettings
    from herdcli.rbm import stack, transform

    model = layers[0]
    if want == "energies" and len(layers) > 1:
        raise BadUsage("a dbn has no energies, only a bound of its likelihood", hint="--want features or states; herd eval --data FILE")
    want = want or ("features" if model.scores is None else "classes")
    if want == "classes" and model.scores is None:
        raise BadUsage("--want classes needs a model of classes", hint="fit-rbm --per-class makes one")
    rows = rows_of(session, model, data, options, default=0.5)
    names, y = None, data.value.y
    if want == "states" or len(layers) > 1:
        models = [part.harmonium() for part in layers]
        if model.count > 1:
            raise BadUsage("--want states is of one model, this one has several", hint="--want features")
        X = stack.shown_states(models, rows.X, options["seed"]) if want == "states" else stack.features(models, rows.X, session.map)
    elif want == "features":
        X, names = transform.features(model, rows.X, session.map), None
    else:
        X, names = transform.energies(model.harmoniums(), rows.X, session.map), model.classes
    if want == "classes":
        X = class_probabilities(model.scores, X, EvaluationSettings(seed=options["seed"]))
        y = X.argmax(axis=1)
    limits = transform.feature_range(layers[-1]) if want in ("features", "states") else None
    class_names = model.classes if want == "classes" else data.value.class_names
    result = Dataset(X, y=y, split=data.value.split, feature_names=names, class_names=class_names, value_range=limits)
    return result, f"{X.shape[0]} rows × {X.shape[1]} {want if want != 'classes' else 'class probabilities'}"
