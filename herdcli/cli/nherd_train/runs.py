"""The run of `herd nherd-train`: it reads examples, learns a classifier and saves it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.rows import labelled_examples
from herdcli.cli.frame.run.console import write_stdout
from herdcli.cli.nherd_train import dataset_rows, text_stream
from herdcli.errors import DataError, NegativeResult
from herdcli.online.numbers import Predictor
from herdcli.online.tags import Tagger

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.rows.labelled_examples import ExampleInput
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.nherd_train.request import Request
    from herdcli.online.model import Classifier, Settings

KIND = {"classification": "classifier", "regression": "predictor", "multilabel": "tagger"}  # the kind of artifact for each task


def verify_updates(seed: int) -> None:
    """Print the distances of the closed-form updates from numerical minimisers.  Raises NegativeResult if one is too large."""
    from herdcli.evaluation.table import to_aligned_text
    from herdcli.online.learners import update_verification as check

    rows = check.verification_rows(20, 5, seed)
    write_stdout(to_aligned_text(rows))
    worst = max(float(row[gap] or 0.0) for row in rows for gap in ("mean_gap", "covariance_gap"))
    if not worst <= check.TOLERANCE:
        raise NegativeResult(f"a closed form is {worst:.2g} from the minimiser, more than {check.TOLERANCE:g}")


def load_continued_model(session: Session, model: str | None) -> Classifier | None:
    """Return the model of --continue, or None."""
    return session.load(model, "model", kinds=set(KIND.values())).value if model else None


def learn_stream(session: Session, request: Request, model: Classifier | None) -> None:
    """Learn from text or a data set, and save a model of the kind that fits the task."""
    task = request.task if model is None else model.settings.task
    outputs.check_artifact_output(session, KIND[task])
    settings = learning_settings(request, model)
    for option in ("ngrams", "weighting", "keep_case"):
        session.warn_of_ignored_option(option, "without --text")
    form, label = request.input_format, request.label
    stays = can_stay_in_file(request.model, settings)
    with labelled_examples.open_examples(
        session, request.source, role="data", passes=settings.passes, input_format=form, label=label, lazily=stays, task=task
    ) as given:
        try:
            made = _learn_model(session, given, settings, request, model)
        except DataError as error:
            error.where = error.where or given.name
            raise
    save_model(session, made, settings.budget, given.data)


def save_model(session: Session, classifier: Classifier, budget: int, history: Artifact | None) -> None:
    """Save the learned model, with a summary in the last line."""
    skipped = f", {classifier.running.skipped} lines skipped" if classifier.running.skipped else ""
    if classifier.running.refused:
        session.console.warn(
            f"the budget of {budget} support vectors is used up, so {classifier.running.refused} updates were skipped (raise --budget)"
        )
    summary = f"{classifier.running.examples} examples, {classifier.running.updates} updates{_progressive_summary(classifier)}{skipped}"
    outputs.write_artifact(session, classifier, summary, history=history)


def _progressive_summary(classifier: Classifier) -> str:
    """Return text with the error on examples before they were learned."""
    running = classifier.running
    if not running.seen:
        return ""
    if isinstance(classifier, Predictor):
        return f", progressive root mean square {(running.loss / running.seen) ** 0.5:.4g}{_coverage_summary(classifier)}"
    if isinstance(classifier, Tagger):
        return f", {classifier.count} labels, progressive Hamming loss {classifier.missed / running.seen:.4g}"
    return f", progressive error {running.wrong / running.seen:.4g}{_coverage_summary(classifier)}"


def _coverage_summary(classifier: Classifier) -> str:
    """Return text with the coverage of prediction sets or intervals and their mean size."""
    found, numbers = classifier.coverage, isinstance(classifier, Predictor)
    if found is None or not found.examples:
        return ""
    size = found.mean_size(numbers=numbers)
    shown = "" if size is None else f", mean width {size:.4g}" if numbers else f", {size:.4g} classes a set"
    what = "intervals" if numbers else "sets"
    return f"; {what} contain the true value for {found.share_covered:.4g} of them (goal: {found.level:g}){shown}"


def can_stay_in_file(model: str | None, settings: Settings) -> bool:
    """Return whether rows can stay in their file; a continued model may need the columns in another order."""
    return model is None


def learning_settings(request: Request, model: Classifier | None) -> Settings:
    """Return the settings from the options, or those of the continued model."""
    return request.settings() if model is None else request.settings_to_continue(model)


def _learn_model(
    session: Session, example_input: ExampleInput, settings: Settings, request: Request, model: Classifier | None
) -> Classifier:
    """Return the classifier learned from a data set or from text."""
    if example_input.data is not None:
        rows = dataset_rows.rows_for_task(session, example_input.data, request, model)
        found = dataset_rows.learn_from_rows(session, rows, settings, request, model, example_input.name)
        shape = example_input.data.value.image_shape
        return replace(found, image_shape=shape if shape is not None and int(shape[0]) * int(shape[1]) == found.features else None)
    for name in ("only", "positive", "split", "label", "in_order"):
        session.warn_of_ignored_option(name, "with text, which is learned as it arrives")
    made = text_stream.learn_from_text(session, example_input, settings, request, model)
    example_input.finish()
    return made
