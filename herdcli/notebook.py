"""How a notebook shows an artifact: a small table of its verdict, its settings and the shapes of its arrays, never their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any

from herdcli.errors import HerdError, escaped
from herdcli.kinds import kind_of
from herdcli.records import short
from herdcli.schema import spec_of

MOST_TEXT = 120  # characters of a value


def html(value: Any) -> str:
    """A dataclass of herd as a table in HTML.  Names and texts of data are escaped."""
    try:
        name = kind_of(value).name
    except TypeError:  # a part of an artifact
        name = ""
    rows = [*_judged(name, value), *_rows(value)]
    body = "".join(
        f"<tr><th style='text-align:left'>{_text(left)}</th><td>{_text(right)}</td><td>{_text(what)}</td></tr>"
        for left, right, what in rows
    )
    title = f"{type(value).__qualname__}{f' ({name})' if name and name != type(value).__qualname__.lower() else ''}"
    return f"<table><caption style='text-align:left'>herd: <b>{_text(title)}</b></caption><tbody>{body}</tbody></table>"


def _text(text: str) -> str:
    return escape(escaped(text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"))


def _judged(name: str, value: Any) -> Iterator[tuple[str, str, str]]:
    """The verdict of the end of training, where such a kind is judged then."""
    if not name:
        return
    from herdcli.evaluation import verdicts

    try:
        found, _ = verdicts.quickly(name, value)
    except HerdError:  # what cannot be judged without options, as classes without validation rows
        return
    if found is not None:
        yield "verdict", found, verdicts.advice(found, name)


def _rows(value: Any) -> Iterator[tuple[str, str, str]]:
    """(name, what it is, what it means) of each field that holds something; of parts one line."""
    for declared in fields(value):
        item, spec = getattr(value, declared.name), spec_of(declared)
        if item is None or (isinstance(item, list) and not item):
            continue
        yield declared.name, _told(item), spec.doc if spec else ""


def _told(value: Any) -> str:
    if isinstance(value, list) and is_dataclass(value[0]):
        return f"{len(value)} × {_told(value[0])}"
    if not is_dataclass(value):
        return value if isinstance(value, str) else short(value)
    return f"{type(value).__qualname__}: {', '.join(field.name for field in fields(value) if getattr(value, field.name) is not None)}"
