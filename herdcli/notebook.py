"""The view of an artifact in a notebook: a small table of its verdict, its settings and the shapes of its arrays, never their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any

from herdcli.errors import HerdError, escape_text
from herdcli.kinds import kind_for_value
from herdcli.records import short_repr
from herdcli.schema import array_spec_of_field

MOST_TEXT = 120  # the longest value, in characters


def artifact_html(value: Any) -> str:
    """Return a dataclass of herd as an HTML table.  Names and texts from data are escaped."""
    try:
        name = kind_for_value(value).name
    except TypeError:  # the value is a part of an artifact
        name = ""
    rows = [*_training_verdict_rows(name, value), *_field_rows(value)]
    body = "".join(
        f"<tr><th style='text-align:left'>{_escape(left)}</th><td>{_escape(right)}</td><td>{_escape(what)}</td></tr>"
        for left, right, what in rows
    )
    title = f"{type(value).__qualname__}{f' ({name})' if name and name != type(value).__qualname__.lower() else ''}"
    return f"<table><caption style='text-align:left'>herd: <b>{_escape(title)}</b></caption><tbody>{body}</tbody></table>"


def _escape(text: str) -> str:
    return escape(escape_text(text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"))


def _training_verdict_rows(name: str, value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the verdict at the end of training, for kinds that have one there."""
    if not name:
        return
    from herdcli.evaluation import verdicts

    try:
        found, _ = verdicts.quick_verdict(name, value)
    except HerdError:  # no verdict without options, for instance classes without validation rows
        return
    if found is not None:
        yield "verdict", found, verdicts.finding_advice(found, name)


def _field_rows(value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield (name, value, meaning) of each field that is not empty; a nested dataclass gets one line."""
    for declared in fields(value):
        item, spec = getattr(value, declared.name), array_spec_of_field(declared)
        if item is None or (isinstance(item, list) and not item):
            continue
        yield declared.name, describe_value(item), spec.doc if spec else ""


def describe_value(value: Any) -> str:
    """Return the text of a field: the type and shape of an array, the names of the fields of a part."""
    if isinstance(value, list) and is_dataclass(value[0]):
        return f"{len(value)} × {describe_value(value[0])}"
    if not is_dataclass(value):
        return value if isinstance(value, str) else short_repr(value)
    return f"{type(value).__qualname__}: {', '.join(field.name for field in fields(value) if getattr(value, field.name) is not None)}"
