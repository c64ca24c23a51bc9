"""A self-contained page about any set of artifacts: their comparison, their pictures, and the commands that made them.

The page loads nothing: style, script and pictures are inside, and colours follow the reader's light or dark setting.
"""

from __future__ import annotations

import html
import shlex
from collections.abc import Sequence
from dataclasses import field

from herdcli.errors import escape_text
from herdcli.evaluation import table
from herdcli.evaluation.report import inline_svg
from herdcli.evaluation.report.column_descriptions import column_description
from herdcli.evaluation.report.report_style import SCRIPT, STYLE
from herdcli.evaluation.summaries.summary_table import SummaryTable
from herdcli.kinds import KINDS
from herdcli.records import HistoryRecord, dataclass

HIDDEN = ("file", "kind")
FIRST = ("verdict", "error", "log_likelihood", "mmd", "moment_gap")  # columns that come first if they exist
SHOWN = 12  # displayed digits of a digest
DIGITS = 5  # significant digits of a number about the contents


def escape_html(text: str) -> str:
    """Return text for HTML, without control characters of terminals and of the writing direction."""
    return html.escape(escape_text(text, keep="\n"))


@dataclass(frozen=True)
class ReportPicture:
    """A picture: SVG from `plot_list.write_figure(…, page=True)`, and a sentence about it."""

    svg: str
    shows: str


@dataclass(frozen=True)
class ReportPart:
    """The content of the page for one artifact: rows of metrics, pictures by name, and records of the commands that made it.

    It also has command lines that make it again; if there are none, only `herd check --rerun` can follow its history.
    """

    name: str
    kind: str
    sha256: str
    rows: Sequence[table.Row]
    history: Sequence[HistoryRecord]
    pictures: dict[str, ReportPicture] = field(default_factory=dict)
    commands: Sequence[str] = ()
    tables: Sequence[SummaryTable] = ()  # about the contents, such as coefficients


def report_page(parts: Sequence[ReportPart], title: str = "herd eval") -> str:
    """Return the whole page as HTML.  Equal parts give equal bytes."""
    body = "".join(_artifact_section(i, part) for i, part in enumerate(parts))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape_html(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{escape_html(title)}</h1>\n"
        f"{_comparison_tables(parts)}{body}</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


# The table that compares ----------------------------------------------------------------------------------------


def _comparison_tables(parts: Sequence[ReportPart]) -> str:
    """Return a table for each kind, and the descriptions of the columns."""
    kinds = list(dict.fromkeys(part.kind for part in parts))
    tables = "".join(_comparison_table(kind, [(i, part) for i, part in enumerate(parts) if part.kind == kind]) for kind in kinds)
    return f'<section aria-label="Comparison">\n{_summary_html(parts)}{tables}{_column_meanings(parts)}</section>\n'


def _summary_html(parts: Sequence[ReportPart]) -> str:
    verdicts = [row["verdict"] for part in parts for row in part.rows if row.get("verdict") is not None]
    fine = sum(verdict == "ok" for verdict in verdicts)
    said = f"; {fine} of {len(verdicts)} verdicts {'is' if fine == 1 else 'are'} ok" if verdicts else ""
    return f"<p>{len(parts)} artifact{'s' * (len(parts) != 1)}{said}. A column's heading sorts by it.</p>\n"


def _comparison_table(kind: str, parts: Sequence[tuple[int, ReportPart]]) -> str:
    """Return artifacts of one kind side by side if they have one row of metrics; those with several rows have their own table below."""
    rows = [{column: value for column, value in part.rows[0].items() if column not in HIDDEN} for _, part in parts if len(part.rows) == 1]
    columns = order_columns(
        kind, [column for column in table.all_columns(rows) if any(table.display_text(row.get(column)) for row in rows)]
    )
    head = '<th scope="col"><button type="button">artifact</button></th>' + "".join(
        _column_heading(kind, column, rows) for column in columns
    )
    lines = "".join(
        f'<tr><th scope="row"><a href="#part-{i}">{escape_html(part.name)}</a></th>'
        + "".join(_table_cell(part.rows[0].get(column) if len(part.rows) == 1 else None, column, kind) for column in columns)
        + "</tr>\n"
        for i, part in parts
    )
    return _html_table(head, lines, kind)


def order_columns(kind: str, columns: Sequence[str]) -> list[str]:
    """Return columns with the verdict, the metric that it concerns and its baseline first."""
    baseline = KINDS[kind].baseline if kind in KINDS else None
    first = [*FIRST, *([baseline] if baseline else [])]
    return [column for column in first if column in columns] + [column for column in columns if column not in first]


def _column_heading(kind: str, column: str, rows: Sequence[table.Row]) -> str:
    numeric = not any(isinstance(row.get(column), str) for row in rows)
    marks = " ".join(name for name, on in (("number", numeric), ("baseline", _is_baseline(kind, column))) if on)
    told = column_description(column)
    hover = f' title="{escape_html(told)}"' if told else ""
    return f'<th scope="col" class="{marks}"{hover}><button type="button">{escape_html(column)}</button></th>'


def _is_baseline(kind: str, column: str) -> bool:
    return (kind in KINDS and KINDS[kind].baseline == column) or column_description(column).startswith("baseline")


def _table_cell(value: table.Value, column: str, kind: str) -> str:
    text = escape_html(table.display_text(value))
    if isinstance(value, str):
        mark = f' class="{"ok" if value == "ok" else "ill"}"' if column == "verdict" else ""
        return f"<td{mark}>{text}</td>"
    marks = "number baseline" if _is_baseline(kind, column) else "number"
    return f'<td class="{marks}" data-value="{escape_html(table.exact_text(value))}">{text}</td>'


def _html_table(head: str, lines: str, caption: str) -> str:
    return (
        f'<div class="wide" tabindex="0" role="region" '
        f'aria-label="{escape_html(caption)}"><table>\n<caption>{escape_html(caption)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}</tbody></table></div>\n"
    )


def _column_meanings(parts: Sequence[ReportPart]) -> str:
    columns = sorted(
        {column for part in parts for row in part.rows for column in row if column not in HIDDEN and column_description(column)}
    )
    if not columns:
        return ""
    lines = "".join(f"<dt>{escape_html(column)}</dt><dd>{escape_html(column_description(column))}</dd>\n" for column in columns)
    return f"<details><summary>What the columns mean</summary>\n<dl>\n{lines}</dl></details>\n"


# One artifact -----------------------------------------------------------------------------------------------------


def _artifact_section(number: int, part: ReportPart) -> str:
    pictures = "".join(_picture_html(f"p{number}-{name}", name, picture) for name, picture in part.pictures.items())
    return "".join(
        [
            f'<section id="part-{number}" aria-labelledby="name-{number}">\n',
            f'<h2 id="name-{number}">{escape_html(part.name)} <span class="kind">{escape_html(part.kind)}</span></h2>\n',
            f'<p class="digest">sha256 {escape_html(part.sha256)}</p>\n',
            _artifact_table(part),
            *(_contents_table(each) for each in part.tables),
            f'<div class="pictures">\n{pictures}</div>\n' if pictures else "",
            _history_html(part),
            "</section>\n",
        ]
    )


def _artifact_table(part: ReportPart) -> str:
    """Return the table of an artifact that has several rows of metrics."""
    if len(part.rows) < 2:
        return ""
    rows = [{name: value for name, value in row.items() if name not in HIDDEN} for row in part.rows]
    columns = table.all_columns(rows)
    head = "".join(_column_heading(part.kind, column, rows) for column in columns)
    lines = "".join("<tr>" + "".join(_table_cell(row.get(column), column, part.kind) for column in columns) + "</tr>\n" for row in rows)
    return _html_table(head, lines, f"figures of {part.name}")


def _contents_cell(value: table.Value) -> str:
    mark = "" if isinstance(value, str) else ' class="number"'
    return f"<td{mark}>{escape_html(table.display_text(value, DIGITS))}</td>"


def _contents_table(shown: SummaryTable) -> str:
    """Return a table about the contents of an artifact, without empty columns."""
    rows = table.drop_empty_columns(shown.rows)
    columns = table.all_columns(rows)
    head = "".join(f'<th scope="col">{escape_html(column)}</th>' for column in columns)
    lines = "".join("<tr>" + "".join(_contents_cell(row.get(column)) for column in columns) + "</tr>\n" for row in rows)
    return _html_table(head, lines, shown.title)


def _picture_html(ident: str, name: str, picture: ReportPicture) -> str:
    safe = "".join(letter if letter.isalnum() or letter == "-" else "_" for letter in ident)
    drawn = inline_svg.inline_svg(picture.svg, safe, f"{name}: {picture.shows}")
    return f"<figure>{drawn}<figcaption><b>{escape_html(name)}</b>: {escape_html(picture.shows)}</figcaption></figure>\n"


def _history_html(part: ReportPart) -> str:
    """Return the origin of the artifact: a small graph, the commands that make it again, and their parameters on request."""
    if not part.history:
        return "<p>No record of how it was made.</p>\n"
    return (
        f"<h3>How it was made</h3>\n{_pipeline_diagram(part)}{_command_lines_html(part)}"
        f"<details><summary>All parameters</summary>\n<ol>\n{''.join(map(_command_html, part.history))}</ol></details>\n"
    )


def _pipeline_diagram(part: ReportPart) -> str:
    """Return inputs, commands and the result, from left to right."""
    pieces, known = [], set()
    for number, record in enumerate(part.history):
        inputs = list(record.get("inputs", []))
        new = [each for each in inputs if each.get("sha256") not in known]
        known |= {each.get("sha256") for each in inputs}
        if number and new:
            inputs.remove(new[0])  # the output of the previous command
        if inputs:
            boxes = "".join(
                f'<li class="box">{escape_html(str(each.get("role")))}: {escape_html(str(each.get("kind")))} '
                f"<code>{escape_html(str(each.get('sha256'))[:SHOWN])}</code></li>"
                for each in inputs
            )
            pieces.append(f"<li><ul>{boxes}</ul></li>")
        pieces.append(f'<li><span class="box step">herd {escape_html(str(record.get("command")))}</span></li>')
    pieces.append(f'<li><span class="box"><b>{escape_html(part.name)}</b> {escape_html(part.kind)}</span></li>')
    return f'<ol class="flow" aria-label="Pipeline of {escape_html(part.name)}">{"".join(pieces)}</ol>\n'


def _command_lines_html(part: ReportPart) -> str:
    """Return the command lines with a button that copies them, and the meaning of their placeholders."""
    file = f"./{part.name}" if part.name.startswith("-") else part.name
    lines = "\n".join(part.commands) or f"herd check --rerun {shlex.quote(file)} --input INPUT"
    names = {
        f"{str(each.get('kind')).upper()}-{str(each.get('sha256'))[:SHOWN]}": str(each.get("sha256"))
        for record in part.history
        for each in record.get("inputs", [])
    }
    used = "".join(
        f'<dt><code>{escape_html(name)}</code></dt><dd class="digest">sha256 {escape_html(digest)}</dd>'
        for name, digest in names.items()
        if name in lines
    )
    held = f"<dl>{used}</dl>\n" if used else ""
    placeholders = ", with your files in place of the names in capitals, which stand for inputs by their digests" if used else ""
    return (
        f'<div class="made"><p>Makes it again, bit for bit{placeholders}:</p>\n<pre '
        f'tabindex="0">{escape_html(lines)}</pre>\n'
        f'<p><button type="button" class="copy">Copy</button> <span class="quiet" role="status"></span></p>{held}</div>\n'
    )


def _command_html(record: HistoryRecord) -> str:
    """Return one command of the pipeline with its parameters and inputs."""
    settings = {"version": record.get("version"), **record.get("parameters", {})}
    inputs = {f"input {each.get('role')}": f"{each.get('kind')} {each.get('sha256')}" for each in record.get("inputs", [])}
    lines = "".join(
        f'<tr><th scope="row">{escape_html(name)}</th><td>{escape_html(str(value))}</td></tr>\n'
        for name, value in (settings | inputs).items()
        if value is not None
    )
    name = f"herd {escape_html(str(record.get('command')))}"
    return f'<li><code>{name}</code><div class="wide" tabindex="0" role="region" aria-label="{name}"><table>\n{lines}</table></div></li>\n'
