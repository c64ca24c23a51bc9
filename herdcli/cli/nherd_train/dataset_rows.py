"""Rows of a data set as examples for a task, and the model that is learned from them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.rows import labelled_examples, responses
from herdcli.cli.frame.rows.column_order import align_dataset
from herdcli.cli.nherd_train import in_memory
from herdcli.cli.nherd_train.heldout_scores import with_heldout_scores
from herdcli.cli.nherd_train.learner_choice import choose_learner, choose_learner_in_memory
from herdcli.cli.nherd_train.reporting_learner import ReportingLearner
from herdcli.cli.nherd_train.row_order import shuffle_if_sorted
from herdcli.cli.nherd_train.row_sources import memory_source, require_memory
from herdcli.errors import DataError
from herdcli.online.class_labels import look_like_quantities
from herdcli.online.predictions.score_calibration import calibrate_model
from herdcli.online.text.quadratic_features import NAMESPACES, missing_namespaces_message
from herdcli.splits import VALID

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.rows.labelled_examples import ClassificationRows
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.nherd_train.request import Request
    from herdcli.online.model import Classifier, Settings
    from herdcli.schema import Array


def learn_from_rows(
    session: Session, rows: ClassificationRows, settings: Settings, request: Request, model: Classifier | None, name: str
) -> Classifier:
    """Return the model learned from the training rows, with scores of the held-out rows.  name  the name of the data set, for errors."""
    columns = rows.X.shape[1]
    if model is not None:
        _require_columns(model, columns, name)
    train = training_mask(session, rows, name)
    rows, settings = shuffle_if_sorted(session, rows, settings, request.in_order)
    settings = request.settings_with_heldout_rule(settings, validated=bool((rows.split == VALID).any()))
    settings = request.settings_for_columns(settings, columns, session) if model is None else settings
    source = memory_source(session, rows, train, settings)
    covering = request.target_coverage(model)
    learner = ReportingLearner(settings, source, len(rows.names) or 2, columns + 1, rows, model, covering, console=session.console)
    require_memory(session, learner)
    if request.chooses_passes_in_memory and not session.dry_run and in_memory.fits_in_memory(source):
        chosen = choose_learner_in_memory(session, learner, source, rows, request)
    else:
        chosen = choose_learner(session, learner, request)
    fitted = chosen.with_comparison_record(session.run(chosen.learner, label="learning", ended=chosen.learner.report_last_pass))
    names = (model and model.feature_names) or rows.feature_names
    return calibrate_model(with_heldout_scores(replace(fitted, feature_names=names), rows))


def _require_columns(model: Classifier, columns: int, name: str) -> None:
    """Raise DataError if the rows have other columns than the continued model."""
    if model.bits or model.features != columns:
        had = f"hashes into 2^{model.bits} columns" if model.bits else f"has {model.features} features"
        raise DataError(f"/X has {columns} columns, but the model {had}", where=name)


def rows_for_task(session: Session, data: Artifact, request: Request, model: Classifier | None) -> ClassificationRows:
    """Return the rows of a data set as examples of the task, with columns and classes in the order of the continued model."""
    if request.namespace_pairs and model is None:
        raise DataError(missing_namespaces_message(request.namespace_pairs), where=data.name, hint=NAMESPACES)
    if model is not None and not model.bits and not model.text:
        data = align_dataset(session, data, model.feature_names, model.features)
    task = request.task if model is None else model.settings.task
    if task == "regression":
        return responses.regression_rows(data, label=request.label, split=request.split, seed=request.seed)
    if task == "multilabel":
        names, fixed, label = request.declared_class_names(model), model is None, request.label
        return responses.multilabel_rows(
            data, label=label, split=request.split, seed=request.seed, names=names, fixed=fixed, max_labels=request.max_classes
        )
    if model is None and request.classes is None and data.value.y is not None and not data.value.class_names:
        _warn_of_numeric_labels(session, data)
    return labelled_examples.classification_rows(
        data,
        split=request.split,
        seed=request.seed,
        only=request.only,
        positive=request.positive,
        classes=request.classes if model is None else ",".join(model.classes),
        max_classes=request.max_classes,
    )


def _warn_of_numeric_labels(session: Session, data: Artifact) -> None:
    """Warn if the labels seem to be a numeric quantity."""
    different, rows = np.unique(data.value.y), len(data.value.y)
    if look_like_quantities(different.tolist(), rows):
        session.console.warn(
            f"the labels are {len(different)} different numbers in {rows} rows, each learned as a class; --task regression predicts numbers"
        )


def training_mask(session: Session, rows: ClassificationRows, name: str) -> Array:
    """Return the mask (n,) bool of the training rows, and warn about options that apply only to text."""
    for option in ("bits", "zero_based", "skip_bad", "inverse_map", "cache"):
        session.warn_of_ignored_option(option, "with a data set")
    train: Array = rows.split == 0
    if not train.any():
        raise DataError("there are no training rows", where=name, hint="make a new split: --split .8,.1,.1")
    return train
