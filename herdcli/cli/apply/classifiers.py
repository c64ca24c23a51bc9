"""`herd apply` with online models: class probabilities of new examples, or numbers with their standard deviations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.tables import column_roles
from herdcli.artifacts.tables.dataset_assembly import decode_numeric_labels
from herdcli.cli.frame.rows.classifier_scores import score_file
from herdcli.errors import BadUsage, DataError
from herdcli.online.numbers import predictive_deviations
from herdcli.online.predictions.prediction import class_probabilities, predict_classes
from herdcli.online.predictions.prediction_sets import prediction_set_mask
from herdcli.online.tags import assign_labels, label_confidences

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.apply.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.online.model import Classifier
    from herdcli.online.numbers import Predictor
    from herdcli.online.predictions.coverage import Coverage
    from herdcli.online.tags import Tagger


MORE = "learn from more examples, or choose a lower --coverage"


def apply_classifier(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """Return class probabilities of new rows, or their prediction sets, with the most probable class as y, and a summary."""
    model: Classifier = fitted.value
    form, label = request.input_format, request.label
    score, variance, _, split, _ = score_file(session, model, request.source, labelled=False, input_format=form, label=label)
    if request.want == "sets":
        p = prediction_set_mask(score, variance, _coverage_of_model(session, fitted).threshold).astype(float)
        what = f"classes, {p.sum(axis=1).mean():.4g} in a set"
    else:
        p, what = class_probabilities(score, variance, model.scale, model.link), "class probabilities"
    y, names = decode_numeric_labels(predict_classes(score), list(model.classes))
    title = column_roles.prediction_column_name(column_roles.model_target_column(fitted) or "y")
    made = Dataset(p, y=y, split=split, feature_names=list(model.classes), class_names=names, label_name=title)
    return made, f"{len(p)} rows × {p.shape[1]} {what}"


def apply_predictor(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """Return the numbers predicted for lines of text, with their standard deviations or intervals, and a summary."""
    model: Predictor = fitted.value
    score, variance, *_ = score_file(session, model, request.source, labelled=False, input_format=request.input_format)
    title = "predicted" if session.target is None else column_roles.prediction_column_name(session.target)
    if request.want == "sets":
        half = _coverage_of_model(session, fitted).threshold
        if not np.isfinite(half):
            known = model.coverage.calibrated if model.coverage else 0
            raise DataError(f"has {known} calibration scores, too few for intervals with this coverage", where=fitted.name, hint=MORE)
        X = score[:, :1] + np.array([0.0, -half, half])
        said = f"{len(X)} rows × a prediction and an interval of width {2 * half:.4g}"
        return Dataset(X, feature_names=[title, "lower", "upper"]), said
    X = np.stack([score[:, 0], predictive_deviations(model, variance)], axis=1)
    return Dataset(X, feature_names=[title, "deviation"]), f"{len(X)} rows × a prediction and its standard deviation"


def apply_tagger(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """Return the probability of each label of new rows, or with --want sets 1 for the predicted labels, and a summary.

    A further column has the predicted labels of each row as text.
    """
    model: Tagger = fitted.value
    form, label = request.input_format, request.label
    score, variance, _, split, _ = score_file(session, model, request.source, labelled=False, input_format=form, label=label)
    told = assign_labels(model, score)
    texts = np.array([",".join(model.classes[k] for k in np.flatnonzero(row)) for row in told], dtype=str)
    X, what = (
        (told.astype(np.uint8), "labels")
        if request.want == "sets"
        else (label_confidences(model, score, variance), "probabilities of labels")
    )
    made = Dataset(X, split=split, feature_names=list(model.classes), columns={"labels": texts})
    return made, f"{len(X)} rows × {X.shape[1]} {what}, {told.sum(axis=1).mean():.4g} labels per row"


def refuse_unavailable_results(fitted: Artifact, want: str | None, explain: int | None) -> None:
    """Raise BadUsage, before any row is read, for results that a model cannot give: sets, and for online models most others."""
    if fitted.kind not in ("classifier", "predictor", "tagger"):
        if want == "sets":
            what = f"--want sets is for models made by herd nherd-train --coverage, not for a {fitted.kind}"
            raise BadUsage(what, hint="leave out --want")
        if explain is not None:
            raise BadUsage(f"--explain-row is for models made by herd nherd-train, not for a {fitted.kind}", hint="leave out --explain-row")
        return
    if explain is not None and fitted.kind == "tagger":
        raise BadUsage(
            "--explain-row explains one prediction, but a multilabel model makes one for each label",
            hint="for the largest weights use: herd info MODEL --top 20",
        )
    wants = ("classes", "sets") if fitted.kind == "classifier" else ("sets",)
    if want not in (None, *wants):
        hint = f"use --want {' or '.join(wants)}, or leave it out"
        raise BadUsage(f"--want {want} does not work with a {fitted.kind}", hint=hint)
    if want == "sets" and fitted.kind != "tagger" and fitted.value.coverage is None:
        raise BadUsage(
            "--want sets needs a model learned with --coverage",
            where=fitted.name,
            hint="train the model again: herd nherd-train --coverage 0.9",
        )


def _coverage_of_model(session: Session, fitted: Artifact) -> Coverage:
    """Return the coverage of a model, and print a note on the assumptions of its prediction sets."""
    found: Coverage = fitted.value.coverage
    if not found.calibrated:
        hint = "add them from examples that no shard was trained on: herd merge SHARDS --data FILE"
        raise DataError("has no calibration scores, which prediction sets need", where=fitted.name, hint=hint)
    what = "intervals" if fitted.kind == "predictor" else "sets"
    session.console.note(
        f"{what} contain the true value in {100 * found.level:g} % of the rows if these have the same distribution as the "
        f"{found.calibrated} rows that calibrated the model (later rows of a stream that drifts do not)"
    )
    return found
