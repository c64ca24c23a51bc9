"""`herd apply --explain-row ROW`: a table of the terms of one prediction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.rows.classifier_scores import read_example
from herdcli.errors import BadUsage, DataError, escape_text
from herdcli.evaluation import table
from herdcli.evaluation.metrics.feature_importance import column_namer
from herdcli.online.predictions.explanation import ScoreTerms, explain_score

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session
    from herdcli.evaluation.table import Row
    from herdcli.online.model import Classifier

SHOWN = 20
FORMATS = {".csv": "csv", ".tsv": "tsv", ".json": "json", ".md": "markdown", ".tex": "latex", ".txt": "aligned"}


def write_score_explanation(
    session: Session, fitted: Artifact, explain: int | None, source: str, input_format: str | None, label: str | None
) -> None:
    """Write the table as text.  Raises DataError for a kernel model and for a row that does not exist."""
    model: Classifier = fitted.value
    assert explain is not None
    if model.mean is None:
        hint = "train a model without --kernel"
        raise DataError("--explain-row needs weights for features, but a kernel model has none", where=fitted.name, hint=hint)
    suffix = Path(session.output).suffix.lower()
    if suffix not in FORMATS and session.output != "-":
        raise BadUsage(
            "--explain-row can only write a table as text",
            where=session.output,
            hint=f"use -o FILE with one of the suffixes {' '.join(FORMATS)}",
        )
    block, names = read_example(session, model, source, explain, input_format=input_format, label=label)
    found = explain_score(model, block)
    if found.towards >= 0:
        session.console.note(
            f"example {explain}: what favours class {model.classes[found.towards]} over class {model.classes[found.against]}"
        )
    form = FORMATS.get(suffix, "aligned")
    outputs.write_text_result(session, escape_text(table.FORMATS[form](_score_term_rows(model, found, names)), keep="\n\t"))


def _score_term_rows(model: Classifier, score_terms: ScoreTerms, names: dict[int, str]) -> list[Row]:
    """Return the largest terms, the sum of the others, the bias and the score."""
    of, part = column_namer(model), score_terms.contributions
    terms = np.flatnonzero((score_terms.index >= 0) & (score_terms.value != 0))
    order = terms[np.argsort(-np.abs(part[terms]), kind="stable")]
    bias = np.flatnonzero(score_terms.index < 0)
    rows = [
        _score_term_row(score_terms, int(k), names.get(int(score_terms.index[k]) + 1) or of(int(score_terms.index[k])))
        for k in order[:SHOWN]
    ]
    rest = order[SHOWN:]
    if len(rest):
        spread = float(np.sqrt(np.sum(score_terms.deviation[rest] ** 2)))
        rows.append({"feature": f"({len(rest)} others)", "contribution": float(part[rest].sum()), "deviation": spread})
    rows += [_score_term_row(score_terms, int(k), "(bias)") for k in bias]
    return [*rows, {"feature": "(score)", "contribution": score_terms.score, "deviation": score_terms.spread}]


def _score_term_row(terms: ScoreTerms, k: int, name: str) -> Row:
    value, weight = float(terms.value[k]), float(terms.weight[k])
    return {
        "feature": name,
        "value": value,
        "weight": weight,
        "contribution": float(terms.contributions[k]),
        "deviation": float(terms.deviation[k]),
    }
