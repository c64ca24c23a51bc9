"""What a classifier says of labelled or new examples, of a data set or of text: for apply, eval and merge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.alignment import taken
from herdcli.cli.frame import answers, documents, examples
from herdcli.cli.frame.columns import ordered
from herdcli.errors import DataError
from herdcli.numerics.blocks import BLOCK, together
from herdcli.online.blocks import Block, from_rows
from herdcli.online.class_names import ClassNames
from herdcli.online.labels import Labels, Numbers, listed
from herdcli.online.model import Classifier, Holdout
from herdcli.online.numbers import Outcomes, Predictor
from herdcli.online.pairs import NAMESPACES, without_namespaces
from herdcli.online.parse import Reader
from herdcli.online.predict import baseline_predictions, scorer
from herdcli.online.source import pieces_of
from herdcli.online.tag_text import LabelSets, SetReader
from herdcli.online.tags import ABSENT, Tagged, Tagger, in_order, with_labels
from herdcli.splits import TEST

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.session import Session
    from herdcli.evaluation.classifier import Judged
    from herdcli.evaluation.predictor import Judged as JudgedNumbers
    from herdcli.evaluation.tagger import Judged as JudgedSets
    from herdcli.schema import Array

    Judgement = tuple[Array, Array, Array, Array | None]

ROWS = 1000
UNBOUNDED = 1 << 30  # labels of examples that are judged


def scored(
    session: Session, model: Classifier, path: str, *, labelled: bool, input_format: str | None = None, label: str | None = None
) -> tuple[Array, Array, Array, Array | None, Array | None]:
    """Scores, variances (n, C), class indices, parts (n,) and predictions of baselines (n, 2) of the examples of a file.

    None: text has no parts, and a model may have no baselines.
    """
    with judging(session, model, path, labelled=labelled, input_format=input_format, label=label) as (given, blocks):
        scores, variances, labels, baselines = (list(each) for each in zip(*blocks, strict=True))
    split = None if given.data is None else given.data.value.split
    if isinstance(model, Tagger) and labelled:
        widest = max(each.shape[1] for each in labels)
        labels = [with_labels(each, widest) for each in labels]
    predicted = None if baselines[0] is None else np.concatenate(baselines)
    return np.concatenate(scores), np.concatenate(variances), np.concatenate(labels), split, predicted


@contextmanager
def judging(
    session: Session,
    model: Classifier,
    path: str,
    *,
    labelled: bool,
    input_format: str | None = None,
    label: str | None = None,
) -> Iterator[tuple[examples.Examples, Iterator[Judgement]]]:
    """The examples of a file, and block by block their scores and variances (r, C), labels (r, …) and, of labelled examples of a model
    that has baselines, their predictions (r, 2)."""
    lazily = labelled and not session.recoding  # gaps and texts are filled in where a file is read whole
    if model.documents is not None:
        given = documents.opened(session, path, model.documents, label=label, labelled=labelled)
        yield given, _judged(session, given, model, labelled, label)
        return
    read = partial(examples.opened, session, path, role="data", passes=1, input_format=input_format, label=label, labels=labelled)
    with read(lazily=lazily, tables=True, task=model.settings.task) as given:
        yield given, _judged(session, given, model, labelled, label)


def _judged(session: Session, given: examples.Examples, model: Classifier, labelled: bool, label: str | None) -> Iterator[Judgement]:
    score_of, there = scorer(model), False
    try:
        for block in _blocks(session, given, model, labelled, label=label):
            there = True
            yield *score_of(block), block.label, baseline_predictions(model, block) if labelled else None
    except DataError as error:
        error.where = error.where or given.name
        raise
    given.finish()
    if not there:
        raise DataError("there are no lines of data", where=given.name)


def row_of(
    session: Session, model: Classifier, path: str, row: int, *, input_format: str | None = None, label: str | None = None
) -> tuple[Block, dict[int, str]]:
    """One example of a file, by its number from 1, as a block, and the names of hashed features (from 1) that its text has."""
    names: dict[int, str] = {}
    passed, found = 0, None
    how, read = model.documents, partial(examples.opened, session, path, role="data", passes=1, input_format=input_format)
    with (
        nullcontext(documents.opened(session, path, how, label=label, labelled=False, names=names))
        if how is not None
        else read(label=label, labels=False)
    ) as given:
        try:
            for block in _blocks(session, given, model, False, names):
                if found is None and passed < row <= passed + block.rows:
                    found = list(pieces_of(block, 1))[row - passed - 1].copied()
                passed += block.rows
        except DataError as error:
            error.where = error.where or given.name
            raise
        given.finish()
        if found is None:
            raise DataError(f"has {passed} examples, --explain asks for number {row}", where=given.name)
    return found, names


def _blocks(
    session: Session,
    given: examples.Examples,
    model: Classifier,
    labelled: bool,
    names: dict[int, str] | None = None,
    label: str | None = None,
) -> Iterator[Block]:
    if given.data is not None:
        yield from _rows(session, given.data, model, labelled, label)
        return
    if not model.bits and (given.text == "vw" or model.text != given.text):
        learned = f"{model.text} text" if model.text else "a data set"
        if given.text == "vw" or model.text:
            raise DataError(f"is {given.text} text, the model was learned from {learned}", where=given.name)
    if model.interactions and given.text != "vw":
        raise DataError(without_namespaces(model.interactions), where=given.name, hint=NAMESPACES)
    vw, pairs = given.text == "vw", model.interactions
    reader = Reader(given.name, vw, bits=model.bits, zero_based=model.zero_based, unlabelled=not labelled, interactions=pairs)
    reader.names = names if model.bits else None
    if isinstance(model, Tagger):
        known = LabelSets(model.classes, most=UNBOUNDED, ignored=not labelled)
        yield from SetReader.of(reader, known).blocks(given.pieces())
        _tell_new(session, given.name, known.names[model.count :])
        return
    if not isinstance(model, Predictor) and (given.named or not all(map(_is_number, model.classes))):
        known_names = ClassNames(model.classes, ignored=not labelled)
        for block in SetReader.of(reader, known_names).blocks(given.pieces()):
            yield replace(block, label=known_names.indices(block.label, given.name))
        return
    classes = (Numbers() if isinstance(model, Predictor) else Labels(model.classes)) if labelled else None
    for block in reader.blocks(given.pieces()):
        yield replace(block, label=classes.indices(block.label, given.name)) if classes else block


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _tell_new(session: Session, where: str, names: list[str]) -> None:
    """Say that examples have labels that the model has never met."""
    if names:
        session.console.warn(f"{where}: {len(names)} labels are unknown to the model, which misses them: {listed(names)}")


def _rows(session: Session, data: Artifact, model: Classifier, labelled: bool, column: str | None = None) -> Iterator[Block]:
    had = model.features
    if labelled and isinstance(model, Tagger):
        task = answers.label_sets(data, label=column, split=None, seed=0, names=model.classes, fixed=False, most=UNBOUNDED)
        data = replace(data, value=replace(data.value, X=task.X, feature_names=task.feature_names))
        _tell_new(session, data.name, task.names[model.count :])
    elif labelled and isinstance(model, Predictor):
        task = answers.numbers(data, label=column, split=None, seed=0)
        data = replace(data, value=replace(data.value, X=task.X, feature_names=task.feature_names))
    elif labelled:
        told = examples.told(data, model.classes)
    if model.bits:
        raise DataError(f"is a data set, the model hashes text into 2^{model.bits} columns", where=data.name)
    X = data.value.X
    order = None if model.text else ordered(session, data.value.feature_names, X.shape[1], model.feature_names, had, where=data.name)
    width = X.shape[1] if order is None else len(order.columns)
    if width != had and not (hasattr(X, "indptr") and model.text):
        raise DataError(f"/X has {width} columns, the model has {had} features", where=data.name)
    label: Array | examples.Told = np.broadcast_to(np.int64(0), X.shape[0])
    if labelled:
        label = task.y if isinstance(model, (Predictor, Tagger)) else told
    for start in range(0, X.shape[0], ROWS):
        rows = slice(start, start + ROWS)
        yield from_rows(taken(X[rows], order), np.array(label[rows]), slice(None))


def rescored(session: Session, artifact: Artifact, path: str | None) -> Artifact:
    """A classifier judged on the labelled examples of another file; other kinds, and without a file all, as they are."""
    if path is None or artifact.kind not in ("classifier", "predictor", "tagger"):
        return artifact
    model: Classifier = artifact.value
    score, variance, label, _, baselines = scored(session, model, path, labelled=True)
    split = np.full(len(label), TEST, dtype=np.uint8)
    if isinstance(model, Predictor):
        return replace(artifact, value=replace(model, holdout=Outcomes(score, variance, label, split)))
    if isinstance(model, Tagger):
        held_sets = Tagged(score, variance, label[:, : model.count], split)
        wide = _widened(replace(model, holdout=held_sets), label.shape[1])
        assert wide.holdout is not None
        return replace(artifact, value=replace(wide, holdout=replace(wide.holdout, y=label)))
    held = Holdout(score, variance, label.astype(np.int64), split, baselines)
    return replace(artifact, value=replace(model, holdout=held))


def judged(session: Session, artifact: Artifact, path: str) -> Artifact:
    """What learned online, with what its figures need of the labelled examples of another file, of which no scores are kept in memory."""
    from herdcli.artifacts.unnamed import Blocks
    from herdcli.evaluation import classifier, predictor
    from herdcli.evaluation.kept import Kept

    model: Classifier = artifact.value
    if isinstance(model, Tagger):
        return replace(artifact, value=_tagged(session, model, path))
    made: Judged | JudgedNumbers = (predictor if isinstance(model, Predictor) else classifier).Judged(model, Kept(Blocks()))
    with judging(session, model, path, labelled=True) as (_, blocks):
        for score, variance, label, baselines in blocks:
            if isinstance(made, classifier.Judged):
                made.add(score, variance, label, baselines)
            else:
                made.add(score, variance, label)
    return replace(artifact, value=made)


def _widened(model: Tagger, labels: int) -> Tagger:
    """With further labels, by no name of the model."""
    return in_order(model, [*model.classes, *(f"unknown {k}" for k in range(labels - model.count))])


def _tagged(session: Session, model: Tagger, path: str) -> JudgedSets:
    """A tagger and the scores of the examples of a file, put by until all of their labels are known."""
    from herdcli.evaluation.tagger import Judged

    kept = SetsPutBy(model.count)
    with judging(session, model, path, labelled=True) as (_, found):
        for score, variance, label, _ in found:
            kept.append(score, variance, label)
    kept.close()
    return Judged(_widened(replace(model, holdout=None), kept.labels), kept, map=session.map)


class SetsPutBy:
    """Scores, variances and sets of labels of examples in blocks of 4,096, in a file in $TMPDIR where they are many.

    labels  how many there are in all; examples that came before the last of them have it not.
    """

    def __init__(self, known: int) -> None:
        from herdcli.artifacts.unnamed import Blocks

        self._place, self._known, self.labels = Blocks(), known, known
        self._parts: list[tuple[int, int, Array | int]] = []  # examples, labels, where they are
        self._open: list[tuple[Array, Array, Array]] = []

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return len(self._parts)

    @property
    def together(self) -> int:
        """Blocks that are in memory at one time."""
        return together(3 * self.labels)

    def append(self, score: Array, variance: Array, y: Array) -> None:
        """The next examples: (r, C) each, labels (r, C') with those that are unknown to the model behind."""
        self.labels = max(self.labels, y.shape[1])
        while len(score):
            room = BLOCK - sum(len(part[0]) for part in self._open)
            self._open.append((score[:room], variance[:room], y[:room]))
            score, variance, y = score[room:], variance[room:], y[room:]
            if sum(len(part[0]) for part in self._open) == BLOCK:
                self.close()

    def close(self) -> None:
        """Put by what is left."""
        if not self._open:
            return
        wide = [(score, variance, with_labels(y, self.labels)) for score, variance, y in self._open]
        rows = np.concatenate([np.concatenate(part, axis=1, dtype=np.float64) for part in wide])
        self._parts.append((len(rows), self.labels, self._place.put(np.ascontiguousarray(rows.T))))
        self._open = []

    def take(self, first: int, last: int) -> Iterator[Tagged]:
        """Blocks first … last − 1, with all labels."""
        for rows, labels, held in self._parts[first:last]:
            columns = [self._place.get(held, rows, number).view(np.float64) for number in range(2 * self._known + labels)]
            parts = np.split(np.stack(columns), [self._known, 2 * self._known])
            score, variance, y = (np.ascontiguousarray(part.T) for part in parts)
            split = np.full(rows, TEST, dtype=np.uint8)
            yield Tagged(with_labels(score, self.labels, ABSENT), with_labels(variance, self.labels), with_labels(y, self.labels), split)
