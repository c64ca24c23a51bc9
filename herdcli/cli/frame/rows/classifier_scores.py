"""The scores that a classifier gives to labelled or new examples, from a data set or from text: for apply, eval and merge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.tables.column_alignment import reorder_columns
from herdcli.cli.frame.rows import document_rows, labelled_examples, responses
from herdcli.cli.frame.rows.column_order import find_and_report_column_order
from herdcli.errors import DataError
from herdcli.numerics.block_statistics import BLOCK, blocks_per_read
from herdcli.online.block_sources import split_by_rows
from herdcli.online.class_labels import LabelEncoder, NumericTargets, format_labels
from herdcli.online.example_blocks import ExampleBlock, block_from_rows
from herdcli.online.model import Classifier, HeldoutScores
from herdcli.online.numbers import HeldoutOutcomes, Predictor
from herdcli.online.predictions.prediction import baseline_predictions, make_scorer
from herdcli.online.tags import ABSENT, HeldoutTagScores, Tagger, add_label_columns, reorder_labels
from herdcli.online.text.class_names import ClassNameEncoder
from herdcli.online.text.multilabel_text import LabelSetEncoder, LabelSetReader
from herdcli.online.text.quadratic_features import NAMESPACES, missing_namespaces_message
from herdcli.online.text.text_parser import BlockReader
from herdcli.splits import TEST

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session
    from herdcli.evaluation.figures.tagger import EvaluatedTags as JudgedSets
    from herdcli.schema import Array

    Judgement = tuple[Array, Array, Array, Array | None]

ROWS = 1000
UNBOUNDED = 1 << 30  # maximum number of labels in examples to evaluate


def score_file(
    session: Session, model: Classifier, path: str, *, labelled: bool, input_format: str | None = None, label: str | None = None
) -> tuple[Array, Array, Array, Array | None, Array | None]:
    """Return scores and variances (n, C), class indices (n,), splits (n,) and baseline predictions (n, 2) for the examples of a file.

    The splits are None for text, and the baseline predictions are None for a model without baselines.
    """
    with score_blocks(session, model, path, labelled=labelled, input_format=input_format, label=label) as (given, blocks):
        scores, variances, labels, baselines = (list(each) for each in zip(*blocks, strict=True))
    split = None if given.data is None else given.data.value.split
    if isinstance(model, Tagger) and labelled:
        widest = max(each.shape[1] for each in labels)
        labels = [add_label_columns(each, widest) for each in labels]
    predicted = None if baselines[0] is None else np.concatenate(baselines)
    return np.concatenate(scores), np.concatenate(variances), np.concatenate(labels), split, predicted


@contextmanager
def score_blocks(
    session: Session,
    model: Classifier,
    path: str,
    *,
    labelled: bool,
    input_format: str | None = None,
    label: str | None = None,
) -> Iterator[tuple[labelled_examples.ExampleInput, Iterator[Judgement]]]:
    """Open the examples of a file and yield the input with an iterator over blocks of scores.

    A block holds scores and variances (r, C), labels (r, …) and baseline predictions (r, 2).  The last is None unless the examples are
    labelled and the model has baselines.
    """
    lazily = labelled and not session.recoding  # files are read whole if missing values and text must be filled in
    if model.documents is not None:
        given = document_rows.open_documents(session, path, model.documents, label=label, labelled=labelled)
        yield given, _score_examples(session, given, model, labelled, label)
        return
    read = partial(
        labelled_examples.open_examples, session, path, role="data", passes=1, input_format=input_format, label=label, labels=labelled
    )
    with read(lazily=lazily, tables=True, task=model.settings.task) as given:
        yield given, _score_examples(session, given, model, labelled, label)


def _score_examples(
    session: Session, example_input: labelled_examples.ExampleInput, model: Classifier, labelled: bool, label: str | None
) -> Iterator[Judgement]:
    score_of, there = make_scorer(model), False
    try:
        for block in _example_blocks(session, example_input, model, labelled, label=label):
            there = True
            yield *score_of(block), block.label, baseline_predictions(model, block) if labelled else None
    except DataError as error:
        error.where = error.where or example_input.name
        raise
    example_input.finish()
    if not there:
        raise DataError(
            "the file has no lines of data", where=example_input.name, hint="check whether the command that wrote the text was interrupted"
        )


def read_example(
    session: Session, model: Classifier, path: str, row: int, *, input_format: str | None = None, label: str | None = None
) -> tuple[ExampleBlock, dict[int, str]]:
    """Return one example of a file, by its number from 1, as a block, and the names of the hashed features (from 1) in its text."""
    names: dict[int, str] = {}
    passed, found = 0, None
    how, read = model.documents, partial(labelled_examples.open_examples, session, path, role="data", passes=1, input_format=input_format)
    with (
        nullcontext(document_rows.open_documents(session, path, how, label=label, labelled=False, names=names))
        if how is not None
        else read(label=label, labels=False)
    ) as given:
        try:
            for block in _example_blocks(session, given, model, False, names):
                if found is None and passed < row <= passed + block.rows:
                    found = list(split_by_rows(block, 1))[row - passed - 1].copy_arrays()
                passed += block.rows
        except DataError as error:
            error.where = error.where or given.name
            raise
        given.finish()
        if found is None:
            raise DataError(f"has {passed} examples, but --explain-row asks for number {row}", where=given.name)
    return found, names


def _example_blocks(
    session: Session,
    example_input: labelled_examples.ExampleInput,
    model: Classifier,
    labelled: bool,
    names: dict[int, str] | None = None,
    label: str | None = None,
) -> Iterator[ExampleBlock]:
    if example_input.data is not None:
        yield from _dataset_blocks(session, example_input.data, model, labelled, label)
        return
    if not model.bits and (example_input.text == "vw" or model.text != example_input.text):
        learned = f"{model.text} text" if model.text else "a data set"
        if example_input.text == "vw" or model.text:
            raise DataError(f"is {example_input.text} text, but the model was learned from {learned}", where=example_input.name)
    if model.interactions and example_input.text != "vw":
        raise DataError(missing_namespaces_message(model.interactions), where=example_input.name, hint=NAMESPACES)
    vw, pairs = example_input.text == "vw", model.interactions
    reader = BlockReader(example_input.name, vw, bits=model.bits, zero_based=model.zero_based, unlabelled=not labelled, interactions=pairs)
    reader.names = names if model.bits else None
    if isinstance(model, Tagger):
        known = LabelSetEncoder(model.classes, most=UNBOUNDED, ignored=not labelled)
        yield from LabelSetReader.from_reader(reader, known).blocks(example_input.pieces())
        _report_new_labels(session, example_input.name, known.names[model.count :])
        return
    if not isinstance(model, Predictor) and (example_input.named or not all(map(_is_number, model.classes))):
        known_names = ClassNameEncoder(model.classes, ignored=not labelled)
        for block in LabelSetReader.from_reader(reader, known_names).blocks(example_input.pieces()):
            yield replace(block, label=known_names.encode_labels(block.label, example_input.name))
        return
    classes = (NumericTargets() if isinstance(model, Predictor) else LabelEncoder(model.classes)) if labelled else None
    for block in reader.blocks(example_input.pieces()):
        yield replace(block, label=classes.encode_labels(block.label, example_input.name)) if classes else block


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _report_new_labels(session: Session, where: str, names: list[str]) -> None:
    """Warn that examples have labels unknown to the model."""
    if names:
        session.console.warn(f"{where}: {len(names)} labels are unknown to the model, so it never predicts them: {format_labels(names)}")


def _dataset_blocks(
    session: Session, data: Artifact, model: Classifier, labelled: bool, column: str | None = None
) -> Iterator[ExampleBlock]:
    had = model.features
    if labelled and isinstance(model, Tagger):
        task = responses.multilabel_rows(data, label=column, split=None, seed=0, names=model.classes, fixed=False, max_labels=UNBOUNDED)
        data = replace(data, value=replace(data.value, X=task.X, feature_names=task.feature_names))
        _report_new_labels(session, data.name, task.names[model.count :])
    elif labelled and isinstance(model, Predictor):
        task = responses.regression_rows(data, label=column, split=None, seed=0)
        data = replace(data, value=replace(data.value, X=task.X, feature_names=task.feature_names))
    elif labelled:
        told = labelled_examples.labels_as_model_classes(data, model.classes)
    if model.bits:
        raise DataError(f"is a data set, but the model was learned from text that is hashed into 2^{model.bits} columns", where=data.name)
    X = data.value.X
    order = (
        None
        if model.text
        else find_and_report_column_order(session, data.value.feature_names, X.shape[1], model.feature_names, had, where=data.name)
    )
    width = X.shape[1] if order is None else len(order.columns)
    if width != had and not (hasattr(X, "indptr") and model.text):
        raise DataError(f"/X has {width} columns, but the model has {had} features", where=data.name)
    label: Array | labelled_examples.KnownLabels = np.broadcast_to(np.int64(0), X.shape[0])
    if labelled:
        label = task.y if isinstance(model, (Predictor, Tagger)) else told
    for start in range(0, X.shape[0], ROWS):
        rows = slice(start, start + ROWS)
        yield block_from_rows(reorder_columns(X[rows], order), np.array(label[rows]), slice(None))


def rescore_classifier(session: Session, artifact: Artifact, path: str | None) -> Artifact:
    """Return a classifier with its hold-out scores recomputed on the labelled examples of another file.

    Artifacts of other kinds are returned unchanged, and so are all artifacts without a file.
    """
    if path is None or artifact.kind not in ("classifier", "predictor", "tagger"):
        return artifact
    model: Classifier = artifact.value
    score, variance, label, _, baselines = score_file(session, model, path, labelled=True)
    split = np.full(len(label), TEST, dtype=np.uint8)
    if isinstance(model, Predictor):
        return replace(artifact, value=replace(model, holdout=HeldoutOutcomes(score, variance, label, split)))
    if isinstance(model, Tagger):
        held_sets = HeldoutTagScores(score, variance, label[:, : model.count], split)
        wide = _add_labels(replace(model, holdout=held_sets), label.shape[1])
        assert wide.holdout is not None
        return replace(artifact, value=replace(wide, holdout=replace(wide.holdout, y=label)))
    held = HeldoutScores(score, variance, label.astype(np.int64), split, baselines)
    return replace(artifact, value=replace(model, holdout=held))


def evaluate_on_examples(session: Session, artifact: Artifact, path: str) -> Artifact:
    """Return an online model evaluated on another file's labelled examples, for metrics that need not keep all scores in memory."""
    from herdcli.artifacts.rows.spill_file import SpilledBlocks
    from herdcli.evaluation.figures import classifier, predictor
    from herdcli.evaluation.metrics.score_collection import CollectedColumns

    model: Classifier = artifact.value
    if isinstance(model, Tagger):
        return replace(artifact, value=_score_tagger(session, model, path))
    columns = CollectedColumns(SpilledBlocks())
    made: classifier.EvaluatedExamples | predictor.EvaluatedOutcomes
    made = predictor.EvaluatedOutcomes(model, columns) if isinstance(model, Predictor) else classifier.EvaluatedExamples(model, columns)
    with score_blocks(session, model, path, labelled=True) as (_, blocks):
        for score, variance, label, baselines in blocks:
            if isinstance(made, classifier.EvaluatedExamples):
                made.add(score, variance, label, baselines)
            else:
                made.add(score, variance, label)
    return replace(artifact, value=made)


def _add_labels(model: Tagger, label_count: int) -> Tagger:
    """Return a tagger with further labels, whose names the model does not know."""
    return reorder_labels(model, [*model.classes, *(f"unknown {k}" for k in range(label_count - model.count))])


def _score_tagger(session: Session, model: Tagger, path: str) -> JudgedSets:
    """Return a tagger with its scores for the examples of a file, which are stored until all labels are known."""
    from herdcli.evaluation.figures.tagger import EvaluatedTags

    kept = SpilledLabelSets(model.count)
    with score_blocks(session, model, path, labelled=True) as (_, found):
        for score, variance, label, _ in found:
            kept.append(score, variance, label)
    kept.close()
    return EvaluatedTags(_add_labels(replace(model, holdout=None), kept.labels), kept, map=session.map)


class SpilledLabelSets:
    """Scores, variances and label sets of examples in blocks of 4,096; many blocks are stored in a file in $TMPDIR.

    labels  the number of labels so far; an example that came before a label was first seen does not have it.
    """

    def __init__(self, known: int) -> None:
        from herdcli.artifacts.rows.spill_file import SpilledBlocks

        self._place, self._known, self.labels = SpilledBlocks(), known, known
        self._parts: list[tuple[int, int, Array | int]] = []  # number of examples, number of labels, position
        self._open: list[tuple[Array, Array, Array]] = []

    @property
    def count(self) -> int:
        """The number of blocks."""
        return len(self._parts)

    @property
    def blocks_in_memory(self) -> int:
        """The number of blocks that are in memory at the same time."""
        return blocks_per_read(3 * self.labels)

    def append(self, score: Array, variance: Array, y: Array) -> None:
        """Add the next examples: scores and variances (r, C) and labels (r, C'), in which labels unknown to the model come last."""
        self.labels = max(self.labels, y.shape[1])
        while len(score):
            room = BLOCK - sum(len(part[0]) for part in self._open)
            self._open.append((score[:room], variance[:room], y[:room]))
            score, variance, y = score[room:], variance[room:], y[room:]
            if sum(len(part[0]) for part in self._open) == BLOCK:
                self.close()

    def close(self) -> None:
        """Store the examples that do not fill a block yet."""
        if not self._open:
            return
        wide = [(score, variance, add_label_columns(y, self.labels)) for score, variance, y in self._open]
        rows = np.concatenate([np.concatenate(part, axis=1, dtype=np.float64) for part in wide])
        self._parts.append((len(rows), self.labels, self._place.put(np.ascontiguousarray(rows.T))))
        self._open = []

    def take(self, first: int, last: int) -> Iterator[HeldoutTagScores]:
        """Yield blocks first … last − 1, with all labels."""
        for rows, labels, held in self._parts[first:last]:
            columns = [self._place.get(held, rows, number).view(np.float64) for number in range(2 * self._known + labels)]
            parts = np.split(np.stack(columns), [self._known, 2 * self._known])
            score, variance, y = (np.ascontiguousarray(part.T) for part in parts)
            split = np.full(rows, TEST, dtype=np.uint8)
            yield HeldoutTagScores(
                add_label_columns(score, self.labels, ABSENT),
                add_label_columns(variance, self.labels),
                add_label_columns(y, self.labels),
                split,
            )
