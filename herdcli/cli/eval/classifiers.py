"""What `herd eval` and `herd apply` do with classifiers: other examples, confusion, comparisons, predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

import click
import numpy as np

from herdcli.artifacts import Artifact
from herdcli.cli.frame.columns import by_name
from herdcli.cli.frame.session import Session
from herdcli.cli.nherd_train import examples
from herdcli.errors import BadUsage, DataError
from herdcli.online.blocks import Block, from_rows
from herdcli.online.labels import Labels
from herdcli.online.model import Classifier, Holdout
from herdcli.online.parse import Reader
from herdcli.online.predict import probabilities, scorer, winners
from herdcli.splits import TEST

COMPARISONS = ("data", "reference", "confusion", "mcnemar", "tournament")  # the options of `comparison_options`
ROWS = 1000
VARIANTS = {"algorithm", "form", "covariance", "loss", "C", "passes", "confidence", "multiclass", "always_update", "kernel", "continue"}

Row = dict[str, Any]


def comparison(session: Session, sources: tuple[str, ...], options: Row) -> list[Row] | None:
    """The rows of --confusion, --mcnemar or --tournament; None without any of them."""
    from herdcli.evaluation import classifier, table

    chosen = [name for name in ("confusion", "mcnemar", "tournament") if options[name]]
    if not chosen:
        return None
    if len(chosen) > 1:
        raise BadUsage(f"--{chosen[0]} and --{chosen[1]} make different tables", hint="ask for one at a time")
    kinds = {"classifier", "report"} if options["tournament"] else {"classifier"}
    found = [session.load(path, f"artifact {n + 1}", kinds=kinds) for n, path in enumerate(sources or ("-",))]
    found = [rescored(session, artifact, options["data"]) for artifact in found]
    if options["tournament"]:
        results = [
            row for artifact in found for row in (table.rows_of(artifact.value) if artifact.kind == "report" else [_result(artifact)])
        ]
        return classifier.tournament(results)
    if options["confusion"]:
        return [{"file": artifact.name, **row} for artifact in found for row in classifier.confusion(artifact.value)]
    if len(found) < 2:
        raise BadUsage("--mcnemar compares two classifiers or more", hint="herd eval A.h5 B.h5 --mcnemar")
    return [{"a": a.name, "b": b.name, **classifier.mcnemar(a.value, b.value)} for a, b in combinations(found, 2)]


def _result(artifact: Artifact) -> Row:
    """The entry of a classifier in a tournament: its task is its input and whatever of its options is not the algorithm."""
    from herdcli.artifacts import provenance
    from herdcli.evaluation.classifier import metrics

    settings = artifact.value.settings
    made = next((stage for stage in reversed(artifact.history) if stage["command"] == "nherd-train"), None)
    if made is None:
        raise DataError("was not made by nherd-train, so its task is not known", where=artifact.name)
    task = {"inputs": made["inputs"], "options": {name: item for name, item in made["parameters"].items() if name not in VARIANTS}}
    name = f"{settings.algorithm} {'full' if settings.covariance == 'full' else settings.form}"
    return {
        "task": provenance.digest(task),
        "algorithm": name,
        "noise": settings.label_noise,
        "error": metrics(artifact.value, None)["error"],
    }


def rescored(session: Session, artifact: Artifact, path: str | None) -> Artifact:
    """A classifier judged on the labelled examples of another file; other kinds, and without a file all, as they are."""
    if path is None or artifact.kind != "classifier":
        return artifact
    model: Classifier = artifact.value
    score, variance, label, _ = _scored(session, model, path, {"input_format": None, "label": None}, labelled=True)
    held = Holdout(score, variance, label.astype(np.int64), np.full(len(label), TEST, dtype=np.uint8))
    return replace(artifact, value=replace(model, holdout=held))


def apply_classifier(session: Session, model: Classifier, path: str, options: Row) -> tuple[Any, str]:
    """Class probabilities of new rows as a data set, with the likeliest class as y, and what was made in words."""
    from herdcli.artifacts.dataset import Dataset

    score, variance, _, split = _scored(session, model, path, options, labelled=False)
    p = probabilities(score, variance, model.scale)
    made = Dataset(p, y=winners(score), split=split, feature_names=list(model.classes), class_names=list(model.classes))
    return made, f"{len(p)} rows × {p.shape[1]} class probabilities"


def _scored(session: Session, model: Classifier, path: str, options: Row, *, labelled: bool) -> tuple[Any, Any, Any, Any]:
    """Scores, variances (n, C), class indices and parts (n,) of the examples of a file; text has no parts (None)."""
    score_of = scorer(model)
    scores, variances, labels = [], [], []
    form, label = options["input_format"], options["label"]
    with examples.opened(session, path, role="data", passes=1, input_format=form, label=label) as given:
        try:
            for block in _blocks(session, given, model, labelled):
                score, variance = score_of(block)
                scores.append(score)
                variances.append(variance)
                labels.append(block.label)
        except DataError as error:
            error.where = error.where or given.name
            raise
        given.finish()
        if not scores:
            raise DataError("there is no line of data", where=given.name)
    split = None if given.data is None else given.data.value.split
    return np.concatenate(scores), np.concatenate(variances), np.concatenate(labels), split


def _blocks(session: Session, given: examples.Examples, model: Classifier, labelled: bool) -> Iterator[Block]:
    if given.data is not None:
        yield from _rows(session, given.data, model, labelled)
        return
    if not model.bits and (given.text == "vw" or model.text != given.text):
        learned = f"{model.text} text" if model.text else "a data set"
        if given.text == "vw" or model.text:
            raise DataError(f"is {given.text} text, the model was learned from {learned}", where=given.name)
    reader = Reader(given.name, given.text == "vw", bits=model.bits, zero_based=model.zero_based, unlabelled=not labelled)
    classes = Labels(model.classes) if labelled else None
    for block in reader.blocks(given.pieces()):
        yield replace(block, label=classes.indices(block.label, given.name)) if classes else block


def _rows(session: Session, data: Artifact, model: Classifier, labelled: bool) -> Iterator[Block]:
    had = model.features
    if model.bits:
        raise DataError(f"is a data set, the model hashes text into 2^{model.bits} columns", where=data.name)
    data = data if model.text else by_name(session, data, model.feature_names, had)
    X = data.value.X
    if X.shape[1] != had and not (hasattr(X, "indptr") and model.text):
        raise DataError(f"/X has {X.shape[1]} columns, the model has {had} features", where=data.name)
    label = np.zeros(X.shape[0], dtype=np.int64)
    if labelled:
        task = examples.classification(data, split=None, seed=0, only=None, positive=None, classes=",".join(model.classes))
        label = task.y
    for start in range(0, X.shape[0], ROWS):
        yield from_rows(X, label, slice(start, start + ROWS))


def comparison_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--confusion, --mcnemar, --tournament and --data of `herd eval`."""
    for option in (
        click.option("--data", metavar="FILE", default=None, help="Judge classifiers, samples and filters on these rows."),
        click.option(
            "--reference",
            metavar="FILE",
            default=None,
            help="Judge beliefs by these marginals (.MAR text or beliefs), a network by this network.",
        ),
        click.option("--tournament", is_flag=True, help="Classifiers of many tasks, or a report of them: who wins how often."),
        click.option("--mcnemar", is_flag=True, help="Pairs of classifiers: McNemar's test."),
        click.option("--confusion", is_flag=True, help="Classifiers: true classes against predicted ones."),
    ):
        command = option(command)
    return command
