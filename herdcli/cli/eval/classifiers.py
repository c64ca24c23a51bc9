"""Evaluation of classifiers by `herd eval`: on other examples, by confusion matrix, and by comparison."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from herdcli.artifacts.sealed import provenance
from herdcli.cli.frame.rows import classifier_scores
from herdcli.cli.frame.rows.classifier_scores import rescore_classifier
from herdcli.errors import DataError
from herdcli.evaluation import table
from herdcli.evaluation.figures import classifier

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.eval.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.evaluation.table import Row

VARIANTS = {"algorithm", "form", "covariance", "loss", "C", "passes", "confidence", "multiclass", "always_update", "kernel", "continue"}


def comparison_rows(session: Session, tournament: bool, confusion: bool, data: str | None, paths: tuple[str, ...]) -> list[Row]:
    """Return the rows of --confusion, --mcnemar or --tournament."""
    kinds = {"classifier", "report"} if tournament else {"classifier"}
    found = [session.load(path, f"artifact {n + 1}", kinds=kinds) for n, path in enumerate(paths)]
    found = [rescore_classifier(session, artifact, data) for artifact in found]
    if tournament:
        return classifier.tournament_edges([row for artifact in found for row in _tournament_entries(artifact)])
    if confusion:
        return [{"file": artifact.name, **row} for artifact in found for row in classifier.confusion_rows(artifact.value)]
    return [{"a": a.name, "b": b.name, **classifier.mcnemar_test(a.value, b.value)} for a, b in combinations(found, 2)]


def _tournament_entries(artifact: Artifact) -> list[Row]:
    """Return the entries of a tournament: the rows of a report, or the entry of a classifier."""
    return table.report_rows(artifact.value) if artifact.kind == "report" else [_tournament_entry(artifact)]


def _tournament_entry(artifact: Artifact) -> Row:
    """Return the entry of a classifier in a tournament; its task is its input and the options that do not concern the algorithm."""
    settings = artifact.value.settings
    made = provenance.last_record_of_command(artifact.history, "nherd-train")
    if made is None:
        raise DataError(
            "was not made by herd nherd-train, so its task is not known and it cannot enter the tournament", where=artifact.name
        )
    task = {"inputs": made["inputs"], "options": {name: item for name, item in made["parameters"].items() if name not in VARIANTS}}
    name = f"{settings.algorithm} {'full' if settings.covariance == 'full' else settings.form}"
    return {
        "task": provenance.record_digest(task),
        "algorithm": name,
        "noise": settings.label_noise,
        "error": classifier.metrics(artifact.value, None)["error"],
    }


def with_evaluation_examples(session: Session, artifact: Artifact, request: Request) -> Artifact:
    """Return a classifier evaluated on the examples of --data; unchanged without the option.

    All scores are kept for plots and reports, which need them.
    """
    if request.data is None or request.plots or request.report:
        return rescore_classifier(session, artifact, request.data)
    return classifier_scores.evaluate_on_examples(session, artifact, request.data)
