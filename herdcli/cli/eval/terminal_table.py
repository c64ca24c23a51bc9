"""Metrics on a terminal: one artifact upright, several artifacts of one kind as a table, and a table for each kind."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from herdcli.cli.frame.output.text_tables import pad_text, text_table
from herdcli.errors import escape_text
from herdcli.evaluation import table
from herdcli.evaluation.report import figure_relations as relations
from herdcli.evaluation.report.column_descriptions import metric_title
from herdcli.evaluation.verdicts import finding_advice

if TYPE_CHECKING:
    from herdcli.evaluation.table import Row

GAINS = {"gaussian": "gaussian_gain_se", "log_likelihood_linear": "linear_gain_se"}  # further baseline -> standard error of the gain


def terminal_text(rows: Sequence[Row], width: int) -> str:
    """Return the text for all kinds, one after another: a single artifact upright, several as a table folded to the width."""
    groups = [table.drop_empty_columns(group) for group in table.split_by_kind(rows)]
    return "\n".join(
        _single_artifact_text(group[0], width) if _is_single_artifact(group) else _folded_table(group, width) for group in groups if group
    )


def _is_single_artifact(group: Sequence[Row]) -> bool:
    return len(group) == 1 and group[0].get("kind") is not None


def _folded_table(rows: Sequence[Row], width: int) -> str:
    columns = (
        relations.sort_by_interest(name for name in table.all_columns(rows) if name != "kind")
        if rows[0].get("kind")
        else table.all_columns(rows)
    )
    lines = [[_yes_no_text(row, name) or table.display_text(row.get(name), table.DIGITS) for name in columns] for row in rows]
    title = f"{rows[0]['kind']}\n" if rows[0].get("kind") else ""
    return title + text_table(columns, lines, width=width, left=1)


def _single_artifact_text(row: Row, width: int) -> str:
    """Return the text for one artifact: the verdict, then sections with a line for each metric with its error and baselines."""
    text = f"{escape_text(str(row['file']))}: {row['kind']}\n"
    if row.get("verdict") is not None:
        text += "\n" + _verdict_text(str(row["verdict"]), str(row["kind"]), width)
    sections: dict[str, list[tuple[str, str, str]]] = {}
    for name in _leading_metrics(row):
        sections.setdefault(relations.metric_section(name), []).append(
            (metric_title(name), _metric_with_error_text(row, name), _interval_and_baseline_text(row, name))
        )
    titles = [*relations.SECTIONS, relations.OTHER]
    lines = [line for part in sections.values() for line in part]
    label = max((len(line[0]) for line in lines), default=0)
    value = max((len(line[1]) for line in lines if line[2]), default=0)
    for title in sorted(sections, key=titles.index):
        text += f"\n{title}\n" + "".join(_metric_line(line, label, value, width) for line in sections[title])
    return text


def _verdict_text(verdict: str, kind: str, width: int) -> str:
    wrapped = textwrap.wrap(finding_advice(verdict, kind), max(width - 9, 20))
    return f"verdict  {verdict}\n" + "".join(f"         {line}\n" for line in wrapped)


def _metric_line(line: tuple[str, str, str], label: int, value: int, width: int) -> str:
    title, shown, beside = line
    start = f"  {pad_text(title, label)}  {shown}"
    if not beside:
        return f"{start}\n"
    start = f"  {pad_text(title, label)}  {pad_text(shown, value)}  "
    wrapped = textwrap.wrap(f"({beside})", max(width - len(start), 24), break_long_words=False, break_on_hyphens=False)
    return "".join(f"{start if not number else ' ' * (len(start) + 1)}{part}\n" for number, part in enumerate(wrapped))


def _leading_metrics(row: Row) -> Iterator[str]:
    """Yield the metrics with their own line, in the order of their sections, without those shown next to another metric."""
    owned = {name for own, others in relations.BASELINES.items() if row.get(own) is not None for name in others}
    owned |= {error for own, error in relations.ERRORS.items() if row.get(own) is not None}
    owned |= {end for own, ends in relations.INTERVALS.items() if row.get(own) is not None for end in ends}
    if relations.metric_with_gain(row):
        owned |= {"gain", "gain_se", "gaussian_gain_se", "linear_gain_se", "error_gain_se", "error_independent_gain_se"}
    for name in relations.sort_by_interest(row):
        if name not in ("file", "kind", "verdict") and name not in owned and row.get(name) is not None:
            yield name


def _metric_with_error_text(row: Row, name: str) -> str:
    return _yes_no_text(row, name) or table.value_with_error(row.get(name), row.get(relations.ERRORS.get(name, "")))


def _yes_no_text(row: Row, name: str) -> str:
    """Return yes or no for a figure that is one of them, which programs read as 1 and 0; an empty text for other figures."""
    value = row.get(name)
    return ("yes" if value else "no") if name in table.TRUTHS and value is not None else ""


def _interval_and_baseline_text(row: Row, name: str) -> str:
    """Return the interval of a metric and its baselines; the first baseline has the gain over it."""
    parts = []
    low, high = (row.get(end) for end in relations.INTERVALS.get(name, ("", "")))
    if low is not None and high is not None and low != high:
        how = "bounds" if name == "log_z" else "95 %"
        parts.append(f"{how} {table.display_text(low, table.SHOWN_DIGITS)} to {table.display_text(high, table.SHOWN_DIGITS)}")
    own = row.get(name)
    values = {each: row[each] for each in relations.BASELINES.get(name, ()) if isinstance(row.get(each), (int, float))}
    if not isinstance(own, (int, float)):
        return "; ".join(parts)
    best = values.pop("log_likelihood_baseline", None)  # equals one of the other baselines, which has a name
    named = next((each for each, value in values.items() if value == best), None)
    if best is not None:
        values = {named or "log_likelihood_baseline": best, **values}
    for number, (baseline, value) in enumerate(values.items()):
        text = f"{relations.baseline_label(baseline, str(row.get('kind')))} {table.display_text(value, table.SHOWN_DIGITS)}"
        if not number:
            text += _gain_text(row, name, float(own) - float(value or 0.0))
        elif row.get(error := GAINS.get(baseline, "")) is not None:
            text += f", gain {table.value_with_error(float(own) - float(value or 0.0), row[error])}"
        parts.append(text)
    return "; ".join(parts)


def _gain_text(row: Row, name: str, difference: float) -> str:
    """Return `, gain 3.0 ± 0.2` for the metric that a row's gain_se belongs to."""
    if relations.metric_with_gain(row) != name or row.get("gain_se") is None:
        return ""
    gain = row["gain"] if row.get("gain") is not None else difference
    return f", gain {table.value_with_error(gain, row['gain_se'])}"
