"""The text of `herd info` for one file: its tables or fields, and its history."""

from __future__ import annotations

import textwrap
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from herdcli.cli.frame.output import summary_text
from herdcli.cli.frame.output.text_tables import terminal_width
from herdcli.command_table import TABLE
from herdcli.errors import escape_text

if TYPE_CHECKING:
    from herdcli.evaluation.metrics.feature_importance import FeatureWeight

Contents = dict[str, Any]  # the description of a file, or of its fields
READING = {"split_rule": "rows", "column_roles": "declared"}  # values that every record has
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
    lines += [line for number, record in enumerate(item["history"], 1) for line in _stage_lines(number, record, detailed)]
    return text + "".join(f"{line}\n" for line in lines)


def _stage_lines(number: int, record: Contents, detailed: bool) -> list[str]:
    """Return a stage of the history, folded to the width of the terminal; unless `detailed`, without options that have their defaults."""
    options, name = record.get("parameters", {}), str(record.get("command", "unknown"))
    usual = {} if detailed else READING | _default_values(name)
    shown = [
        f"{escape_text(key)}={_shorten(value, key)}"
        for key, value in options.items()
        if value is not None and (key not in usual or _shorten(value) != _shorten(usual[key]))
    ]
    inputs = ", ".join(f"{each['role']} {each['kind']} {each['sha256'][:12]}" for each in record.get("inputs", []))
    text = " ".join([f"{number}. {escape_text(name)}", *shown]) + (f"  ← {escape_text(inputs)}" if inputs else "")
    return textwrap.wrap(
        text, terminal_width(), initial_indent="  ", subsequent_indent="     ", break_long_words=False, break_on_hyphens=False
    )


def _default_values(command: str) -> Contents:
    """Return the defaults of a command's options by the names in histories; nothing for commands that this version does not have."""
    if command not in TABLE:
        return {}
    options = {str(param.name): param.default for param in import_module(TABLE[command][0]).command.params}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in options.items()}


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


def _shorten(value: object, name: str = "") -> str:
    if name == "components" and isinstance(value, list) and len(value) == 2:  # a range of numbers
        value = value[0] if value[0] == value[1] else f"{value[0]}-{value[1]}"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    text = escape_text(text)
    return text if len(text) <= 80 else text[:77] + "…"
