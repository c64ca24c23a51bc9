"""`herd eval --explain FIGURE`: the meaning of a metric, its formula, its source and its baselines."""

from __future__ import annotations

import textwrap

from herdcli.cli.frame.output.text_tables import WIDTH, shorten_text
from herdcli.errors import BadUsage
from herdcli.evaluation.report import figure_relations as relations
from herdcli.evaluation.report.column_descriptions import column_description, metrics_with_description
from herdcli.evaluation.report.figure_formulas import metric_formula
from herdcli.evaluation.table import metric_column_name
from herdcli.kinds import KINDS


def metric_explanation_text(metric: str) -> str:
    """Return a few lines about one metric, named as in a column or as on a terminal.

    Raises BadUsage for an unknown name, with the most similar names.
    """
    name = metric_column_name(metric)
    name = next((known for known in (name, name.lower()) if column_description(known)), name)
    meaning, formula = column_description(name), metric_formula(name)
    if not meaning or formula is None:
        from difflib import get_close_matches

        close = get_close_matches(name.lower(), metrics_with_description(), n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else "metrics are the columns of herd eval --format csv"
        raise BadUsage(f"--explain: there is no metric '{shorten_text(metric, 60)}'", hint=hint)
    lines = [("", meaning), ("formula", formula[0]), ("source", formula[1])]
    if baselines := relations.BASELINES.get(name):
        lines.append(("baselines", ", ".join(baselines)))
    if error := relations.ERRORS.get(name):
        lines.append(("error", error))
    if interval := relations.INTERVALS.get(name):
        lines.append(("interval", " to ".join(interval)))
    if judged := [kind.name for kind in KINDS.values() if kind.baseline == name]:
        lines.append(("verdict", f"baseline of the verdict for kind {', '.join(judged)}"))
    return f"{name}\n" + "".join(_paragraph(title, text) for title, text in lines)


def _paragraph(title: str, text: str) -> str:
    start = f"  {title:9}  " if title else "  "
    return textwrap.fill(text, WIDTH, initial_indent=start, subsequent_indent=" " * len(start), break_on_hyphens=False) + "\n"
