"""Tables about regressions and online models: coefficients with their errors, confusion, largest weights."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING

from herdcli.errors import HerdError
from herdcli.evaluation.summaries.summary_table import Levels, SummaryTable, limit_rows
from herdcli.evaluation.table import Row

if TYPE_CHECKING:
    from herdcli.online.model import Classifier
    from herdcli.online.tags import Tagger
    from herdcli.regression.model import GeneralisedLinear
    from herdcli.regression.perceptron.model import Perceptron

STRONGEST = {2: 10, 10: 3}  # number of classes, at most -> features shown for each class
MOST_COEFFICIENTS = 60


def regression_tables(value: GeneralisedLinear, levels: Levels) -> list[SummaryTable]:
    """Return the fit in a line of figures, and the coefficients as R and statsmodels print them."""
    fit: Row = {
        "target": value.target,
        "family": value.family,
        "rows": value.rows,
        "log_likelihood": value.log_likelihood,
        "deviance": value.deviance,
        "null_deviance": value.null_deviance,
        "dispersion": "1 (fixed)" if value.dispersion == 1.0 and not value.distribution().dispersed else value.dispersion,
        "converged": "yes" if value.converged else "no",
    }
    ratio = value.overdispersion
    about = "" if ratio is None else f"Pearson's X²/(n − p) {ratio:.4g}: above 1 over-dispersed, below 1 under-dispersed"
    figures = SummaryTable("fit", [fit], about)
    rows = [_coefficient_row(row) for row in value.table()]
    if any(math.isfinite(float(row["error"] or math.nan)) for row in rows):
        return [figures, limit_rows("coefficients, 95 % intervals", rows, MOST_COEFFICIENTS)]
    shown: list[Row] = [{name: item for name, item in row.items() if name in ("class", "term", "estimate", "note")} for row in rows]
    return [figures, limit_rows("coefficients", shown, MOST_COEFFICIENTS)]


def perceptron_tables(value: Perceptron, levels: Levels) -> list[SummaryTable]:
    """Return the fit in a line of figures, compared with a linear model of the same rows, and the layers."""
    fit: Row = {
        "target": value.target,
        "family": value.family,
        "rows": value.rows,
        "optimizer": value.optimizer,
        "deviance": value.deviance,
        "linear_deviance": value.linear_deviance,
        "null_deviance": value.null_deviance,
        "converged": "yes" if value.converged else "no",
    }
    last = len(value.layers) - 1
    layers: list[Row] = [
        {
            "layer": number + 1,
            "inputs": layer.W.shape[1],
            "outputs": len(layer.b),
            "activation": value.activation if number < last else "none",
        }
        for number, layer in enumerate(value.layers)
    ]
    return [SummaryTable("fit", [fit]), SummaryTable("layers", layers)]


def _coefficient_row(row: Row) -> Row:
    p = row["p"]
    found = {name: item for name, item in row.items() if name not in ("standard_error", "robust_error", "p", "low", "high", "note")}
    shown = "" if not isinstance(p, float) or math.isnan(p) else "<0.0001" if p < 1e-4 else f"{p:.4f}"
    ends = {"low": row["low"], "high": row["high"]}
    ordered: Row = {}
    for name, item in found.items():
        ordered[name] = item
        if name == "estimate":
            ordered["error"] = row["standard_error"]
    return {**ordered, "p": shown, **ends, **({"note": row["note"]} if "note" in row else {})}


def classifier_tables(value: Classifier, levels: Levels) -> list[SummaryTable]:
    """Return the confusion table of a classifier on held-out rows, and the largest weights by feature name."""
    from herdcli.evaluation.figures.classifier import confusion_rows
    from herdcli.evaluation.metrics.feature_importance import most_important_weights

    settings = value.settings
    run: Row = {"algorithm": settings.algorithm, "C": settings.C, "passes": settings.passes, "examples": value.running.examples}
    tables = [SummaryTable("learning", [run])]
    classes = list(value.classes or ())
    if settings.task == "classification" and len(classes) <= 20:
        with contextlib.suppress(HerdError):  # no held-out rows
            tables.append(SummaryTable("confusion on held-out rows (lines: true class)", confusion_rows(value)))
    count = next((most for limit, most in STRONGEST.items() if len(classes) <= limit), 1)
    try:
        found = most_important_weights("classifier", value, count)
    except HerdError:  # a kernel model
        return tables
    rows: list[Row] = [{"for": each.towards, "feature": each.feature, "weight": each.weight, "deviation": each.deviation} for each in found]
    return [*tables, limit_rows("strongest features", rows, 40)]


def tagger_tables(value: Tagger, levels: Levels) -> list[SummaryTable]:
    """Return the labels with thresholds and, on held-out rows, counts, precision and recall; and the largest weights of each label."""
    from herdcli.evaluation.figures.tagger import heldout_predictions
    from herdcli.evaluation.metrics.feature_importance import most_important_weights

    settings = value.settings
    run: Row = {"algorithm": settings.algorithm, "C": settings.C, "passes": settings.passes, "examples": value.running.examples}
    thresholds = [None] * value.count if value.threshold is None else value.threshold.tolist()
    labels: list[Row] = [{"label": name, "threshold": each} for name, each in zip(value.classes, thresholds, strict=True)]
    title = "labels"
    with contextlib.suppress(HerdError):  # no held-out rows
        _, _, truth, told = heldout_predictions(value)
        title = f"labels, on {len(truth)} held-out rows"
        counts = zip(labels, truth.sum(axis=0).tolist(), told.sum(axis=0).tolist(), (truth & told).sum(axis=0).tolist(), strict=True)
        for row, there, given, both in counts:
            row |= {
                "rows": there,
                "predicted": given,
                "precision": both / given if given else None,
                "recall": both / there if there else None,
            }
    tables = [SummaryTable("learning", [run]), limit_rows(title, labels)]
    count = next((most for limit, most in STRONGEST.items() if value.count <= limit), 1)
    found = most_important_weights("tagger", value, count)
    rows: list[Row] = [{"for": each.towards, "feature": each.feature, "weight": each.weight, "deviation": each.deviation} for each in found]
    return [*tables, limit_rows("strongest features", rows, 40)]
