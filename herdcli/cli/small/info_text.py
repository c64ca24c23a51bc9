"""The text of `herd info` for one file: its tables or fields, and its history."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from herdcli.cli.frame.output import summary_text
from herdcli.errors import escape_text

if TYPE_CHECKING:
    from herdcli.evaluation.metrics.feature_importance import FeatureWeight

Contents = dict[str, Any]  # the description of a file, or of its fields
STRONGEST = "strongest features"  # the table that --top replaces


def summarize_fields(value: Any, prefix: str = "") -> Contents:
    """Return every field by its path: arrays as type and shape, scalars unchanged."""
    found: Contents = {}
    items = value.items() if isinstance(value, dict) else ((declared.name, getattr(value, declared.name)) for declared in fields(value))
    for name, item in items:
        if item is None:
            continue
        if is_dataclass(item) or isinstance(item, dict):
            found |= summarize_fields(item, f"{prefix}{name}/")
        elif isinstance(item, (list, tuple)) and item and is_dataclass(item[0]):
            for index, part in enumerate(item):
                found |= summarize_fields(part, f"{prefix}{name}/{index}/")
        elif hasattr(item, "dtype") and item.size > 2:
            layout = " CSR" if hasattr(item, "indptr") else ""
            found[prefix + name] = f"{item.dtype} {' × '.join(str(length) for length in item.shape)}{layout}"
        else:
            found[prefix + name] = item.tolist() if hasattr(item, "tolist") else item
    return found


def description_text(item: Contents, detailed: bool) -> str:
    """Return the text for one file: kind, size, verdict, tables and history; also the fields if `detailed` or if there are no tables."""
    from herdcli.artifacts.message_numbers import format_size
    from herdcli.evaluation.summaries.summary_table import SummaryTable

    seal = "unsealed" if not item["sealed"] else f"sealed, sha256 {item['sha256'][:16]}…" if detailed or not item["tables"] else "sealed"
    text = f"{escape_text(item['file'])}: {item['kind']}, {format_size(item['bytes'])}, {seal}\n"
    if item["verdict"] is not None:
        text += f"  verdict: {item['verdict']}\n"
    shown = [SummaryTable(**each) for each in item["tables"] if each["title"] != STRONGEST or "strongest" not in item]
    text += summary_text.tables_text(shown)
    lines = []
    if detailed or not item["tables"]:
        content = {escape_text(name): value for name, value in item["content"].items()}
        width = max(map(len, content), default=0)
        lines += [f"  {name:{width}}  {_shorten(value)}" for name, value in content.items()]
    lines += _weight_table(item.get("strongest", []))
    if item["tables"] and item["history"]:
        lines += ["", "  made by"]
    for number, record in enumerate(item["history"], 1):
        options = "".join(
            f" {escape_text(name)}={_shorten(value)}" for name, value in record.get("parameters", {}).items() if value is not None
        )
        inputs = ", ".join(f"{each['role']} {each['kind']} {each['sha256'][:12]}" for each in record.get("inputs", []))
        command = escape_text(str(record.get("command", "unknown")))
        lines.append(f"  {number}. {command}{options}" + (f"  ← {escape_text(inputs)}" if inputs else ""))
    return text + "".join(f"{line}\n" for line in lines)


def _weight_table(weights: list[FeatureWeight]) -> list[str]:
    """Return one line per feature, below the class that it supports."""
    lines, towards = [], None
    width = max((len(escape_text(each.feature)) for each in weights), default=0)
    for each in weights:
        if each.towards != towards:
            towards = each.towards
            lines.append(f"  strongest features{' for ' + escape_text(towards) if towards else ''}:")
        spread = "" if each.deviation is None else f" ± {2 * each.deviation:.2g}"
        lines.append(f"    {escape_text(each.feature):{width}}  {each.weight:+.4g}{spread}")
    return lines


def _shorten(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    text = escape_text(text)
    return text if len(text) <= 80 else text[:77] + "…"
