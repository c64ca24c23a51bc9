"""One self-contained page about any set of artifacts: figures, pictures and how each was made.

Nothing in it is fetched and nothing is a script: style and pictures are inside, colours follow the reader's light or dark setting.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import field
from html import escape
from typing import Any

from herdcli.evaluation import table
from herdcli.records import dataclass

STYLE = """
:root { color-scheme: light dark; --line: #d0d0d8; --soft: #f4f4f7; --text: #1c1c22; --page: #ffffff; --accent: #2450a8; }
@media (prefers-color-scheme: dark) {
  :root { --line: #3b3b46; --soft: #23232b; --text: #e8e8ee; --page: #17171c; --accent: #9db8ff; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 1rem; background: var(--page); color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: 1rem; }
h3 { font-size: 1rem; } a { color: var(--accent); }
code, .digest { font-family: ui-monospace, monospace; font-size: 0.85em; overflow-wrap: anywhere; }
.kind { background: var(--soft); border: 1px solid var(--line); border-radius: 0.3rem; padding: 0.1rem 0.4rem; font-size: 0.8rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: 0.25rem 0.75rem 0.25rem 0; text-align: left; vertical-align: top; }
td.number { text-align: right; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; background: #ffffff; border-radius: 0.3rem; }
figcaption { font-size: 0.9rem; }
"""


@dataclass(frozen=True)
class Part:
    """What the page says of one artifact: rows of figures, pictures as PNG by their names, records of the commands that made it."""

    name: str
    kind: str
    sha256: str
    rows: Sequence[table.Row]
    history: Sequence[dict[str, Any]]
    pictures: dict[str, bytes] = field(default_factory=dict)


def page(parts: Sequence[Part], title: str = "herd eval") -> str:
    """The whole page as HTML.  Equal parts give equal bytes."""
    links = "".join(
        f'<li><a href="#part-{i}">{escape(part.name)}</a> <span class="kind">{escape(part.kind)}</span></li>'
        for i, part in enumerate(parts)
    )
    body = "".join(_section(i, part) for i, part in enumerate(parts))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{escape(title)}</h1>\n"
        f"<nav><ul>{links}</ul></nav>\n{body}</main>\n</body>\n</html>\n"
    )


def _section(number: int, part: Part) -> str:
    """One artifact."""
    pieces = [
        f'<section id="part-{number}">\n<h2>{escape(part.name)} <span class="kind">{escape(part.kind)}</span></h2>\n',
        f'<p class="digest">sha256 {escape(part.sha256)}</p>\n',
        _figures(part.rows),
    ]
    for name, png in part.pictures.items():
        source = base64.b64encode(png).decode()
        caption = f"{name} of {part.name}"
        picture = f'<img alt="{escape(caption)}" src="data:image/png;base64,{source}">'
        pieces.append(f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>\n")
    return "".join([*pieces, _history(part.history), "</section>\n"])


def _figures(rows: Sequence[table.Row]) -> str:
    """One row is set as a list of figures, several as a table."""
    hidden = ("file", "kind")
    rows = [{name: value for name, value in row.items() if name not in hidden} for row in rows]
    if len(rows) == 1:
        kept = [(name, table.shown(value)) for name, value in rows[0].items() if table.shown(value)]
        lines = "".join(f'<tr><th scope="row">{escape(name)}</th><td class="number">{escape(value)}</td></tr>\n' for name, value in kept)
        return f'<div class="wide"><table>\n{lines}</table></div>\n' if kept else ""
    columns = table.columns_of(rows)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    lines = "".join("<tr>" + "".join(_cell(row.get(name)) for name in columns) + "</tr>\n" for row in rows)
    return f'<div class="wide"><table>\n<tr>{head}</tr>\n{lines}</table></div>\n' if rows else ""


def _cell(value: table.Value) -> str:
    mark = "" if isinstance(value, str) else ' class="number"'
    return f"<td{mark}>{escape(table.shown(value))}</td>"


def _history(history: Sequence[dict[str, Any]]) -> str:
    """The pipeline: a line per command, its parameters and inputs on request."""
    if not history:
        return "<p>No record of how it was made.</p>\n"
    return f"<h3>How it was made</h3>\n<ol>\n{''.join(map(_command, history))}</ol>\n"


def _command(record: dict[str, Any]) -> str:
    """One command of the pipeline."""
    settings = {"version": record.get("version"), **record.get("parameters", {})}
    inputs = {f"input {each.get('role')}": f"{each.get('kind')} {each.get('sha256')}" for each in record.get("inputs", [])}
    lines = (f'<tr><th scope="row">{escape(name)}</th><td>{escape(str(value))}</td></tr>\n' for name, value in (settings | inputs).items())
    name = f"<code>herd {escape(str(record.get('command')))}</code>"
    return f'<li><details><summary>{name}</summary>\n<div class="wide"><table>\n{"".join(lines)}</table></div></details></li>\n'
