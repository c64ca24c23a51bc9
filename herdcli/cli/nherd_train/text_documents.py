"""`herd nherd-train --text`: words of documents are counted and weighted, and learned in passes until held-out error stops falling."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.rows import document_rows
from herdcli.cli.nherd_train import dataset_rows, heldout_scores, learner_choice, reporting_learner, row_sources, runs
from herdcli.errors import BadUsage
from herdcli.online.learners import early_stopping
from herdcli.online.predictions.score_calibration import calibrate_model
from herdcli.online.text import compact_features
from herdcli.online.text.documents import DocumentConversion
from herdcli.splits import VALID

if TYPE_CHECKING:
    from herdcli.cli.frame.rows.labelled_examples import ExampleInput
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.nherd_train.request import Request
    from herdcli.online.model import Classifier, Settings

TEXT = "text"  # name of the column of documents if they come from a folder
BITS = 18  # default of --bits: words are hashed into 2^18 columns


def document_settings(request: Request, model: Classifier | None) -> DocumentConversion | None:
    """Return the settings that turn INPUT's documents into rows; None if it has no documents."""
    if model is not None:
        return model.documents
    if request.text is None and not document_rows.is_folder_of_texts(request.source):
        return None
    if request.task != "classification":
        raise BadUsage(f"--text learns classes, not --task {request.task}", hint="leave --task out")
    return DocumentConversion(request.text or TEXT, request.bits or BITS, not request.keep_case, request.ngrams, request.weighting)


def settings_for_documents(request: Request, settings: Settings) -> Settings:
    """Return the settings for documents: rows of length 1, and by default pa2 with stored dual multipliers."""
    settings = replace(settings, normalize=True, scaling="none")
    free = request.algorithm == "auto" and request.C == "auto" and request.multiclass == "auto" and request.passes is None
    return replace(settings, algorithm="pa2", dual=True, C=1.0, multiclass="one-vs-rest") if free else settings


def learn_documents(session: Session, request: Request, conversion: DocumentConversion, model: Classifier | None) -> None:
    """Learn from the documents of INPUT, and save a `classifier`."""
    outputs.check_artifact_output(session, "classifier")
    settings = runs.learning_settings(request, model)
    made, given = _train_on_documents(session, request, conversion, settings, model)
    runs.save_model(session, made, settings.budget, given.data)


def _train_on_documents(
    session: Session, request: Request, conversion: DocumentConversion, settings: Settings, model: Classifier | None
) -> tuple[Classifier, ExampleInput]:
    names: dict[int, str] = {}
    unweighted = replace(conversion, frequency=None)
    given = document_rows.open_documents(session, request.source, unweighted, label=request.label, labelled=True, names=names)
    assert given.data is not None
    rows = dataset_rows.rows_for_task(session, given.data, request, model)
    train = dataset_rows.training_mask(session, rows, given.name)
    conversion = conversion.with_document_frequencies(rows.X[train])
    settings = settings if model is not None else settings_for_documents(request, settings)
    used = compact_features.find_learned_columns(rows.X, settings.covariance, settings.kernel) if model is None else None
    X = conversion.weight_counts(rows.X)
    rows = replace(rows, X=X if used is None else compact_features.select_columns(X, used))
    validated = bool((rows.split == VALID).any())
    source = row_sources.memory_source(session, rows, np.flatnonzero(train), settings)
    if settings.dual:
        choice = early_stopping.choose_passes(settings, source.X, source.label, source.weight, len(rows.names), [settings])
        session.console.note(next(early_stopping.choice_messages(choice)))
        settings = request.settings_with_heldout_rule(choice.settings, validated=validated)
        source = row_sources.memory_source(session, rows, np.flatnonzero(train), settings)
    else:
        settings = request.settings_with_heldout_rule(settings, validated=validated)
    learner = reporting_learner.ReportingLearner(
        settings, source, len(rows.names), rows.X.shape[1] + 1, rows, model, rows=len(source.label), chosen=True, console=session.console
    )
    session.require_memory(learner.memory(), f"a table of {learner.features} columns")
    if not settings.dual:
        learner, _ = learner_choice.race_hyperparameters(
            session, learner, request.racing_algorithms, request.racing_multiclass_forms, request.algorithm
        )
    made = session.run(learner, label="learning", ended=learner.report_last_pass)
    made = calibrate_model(heldout_scores.with_heldout_scores(made, rows))
    if used is not None:
        baselines = None if made.baselines is None else replace(made.baselines, columns=used.astype(np.int64))
        made = replace(made, column=np.append(np.arange(settings.bias), used + settings.bias), baselines=baselines)
    order = np.array(sorted(names), dtype=np.int64)
    made = replace(made, documents=conversion, hash_index=order + settings.bias, hash_names=[names[column] for column in order.tolist()])
    return made, given
