"""The manual, made of the commands, kinds and docstrings themselves: docs/commands/*.md, docs/man/*.1, docs/format.md, docs/python.md and
the table of data sets in docs/reproducing.md.

python scripts dev/make_manual            # write what has changed
python scripts dev/make_manual --check    # change nothing; exit 1 and name what is out of date
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import click
from dev import python_manual

from herdcli import __version__
from herdcli.cli.frame.options.help_pages import help_record
from herdcli.cli.main import COMMANDS, cli
from herdcli.datasets import registry
from herdcli.datasets.cache import format_megabytes
from herdcli.kinds import KINDS
from herdcli.schema import KIND_NAMES, array_spec_of_field

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
NOTE = "<!-- made by scripts/dev/make_manual.py; edit the command, not this page -->"
FORMAT_INTRODUCTION = """The block before the HDF5 file, its seal and attributes are described in [design.md](design.md). Arrays are HDF5
datasets with the dimensions named here, equal names having equal lengths inside one group; scalars are attributes; `?` marks what may
be absent."""
EXIT_CODES = (
    ("0", "done"),
    ("1", "the computation ran and its answer is no: a bar missed, a self-test failed, no convergence, divergence"),
    ("2", "usage"),
    ("65", "bad data"),
    ("66", "no input"),
    ("69", "a file cannot be downloaded"),
    ("70", "a bug in herd"),
    ("73", "the output cannot be created"),
    ("74", "writing failed"),
    ("75", "locked, or interrupted with a checkpoint to go on from"),
    ("130, 141, 143", "stopped by SIGINT, SIGPIPE, SIGTERM"),
)


def context(name: str) -> click.Context:
    """A command as the user calls it."""
    parent = click.Context(cli, info_name="herd")
    found = cli.get_command(parent, name)
    assert found is not None
    return click.Context(found, info_name=name, parent=parent)


def paragraphs(text: str) -> Iterator[tuple[bool, str]]:
    """The parts of a help text: is it verbatim, and the part."""
    for part in re.split(r"\n\s*\n", text.strip()):
        lines = [line.rstrip() for line in part.splitlines()]
        if lines[0].strip() == "\b":
            yield True, "\n".join(line.strip() for line in lines[1:])
        else:
            yield False, " ".join(line.strip() for line in lines)


def options(ctx: click.Context) -> list[tuple[str, str]]:
    """(spelling, help) of every option."""
    records = (help_record(param, ctx) for param in ctx.command.get_params(ctx) if isinstance(param, click.Option))
    return [record for record in records if record]


def usage(ctx: click.Context) -> str:
    return f"{ctx.command_path} {' '.join(ctx.command.collect_usage_pieces(ctx))}"


def command_page(name: str) -> str:
    """docs/commands/NAME.md"""
    ctx = context(name)
    lines = [NOTE, "", f"# herd {name}", "", COMMANDS[name][1], "", f"    {usage(ctx)}", ""]
    for verbatim, text in paragraphs(ctx.command.help or ""):
        lines += ["```sh", text, "```", ""] if verbatim else [_cell(text).replace("\\|", "|"), ""]
    lines += ["| option | |", "|---|---|"]
    lines += [f"| `{spelling.replace('|', chr(92) + '|')}` | {_cell(text)} |" for spelling, text in options(ctx)]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Text inside a table, its upper-case words and angle brackets as they are."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def index_page() -> str:
    """docs/commands/README.md"""
    lines = [NOTE, "", "# The commands", "", "| command | |", "|---|---|"]
    lines += [f"| [herd {name}]({name}.md) | {_cell(line)} |" for name, (_, line) in COMMANDS.items()]
    lines += ["", "## Exit codes", "", "| code | |", "|---|---|", *(f"| {code} | {text} |" for code, text in EXIT_CODES)]
    return "\n".join(lines) + "\n"


def man_page(name: str | None) -> str:
    """docs/man/herd-NAME.1, or herd.1 without a name."""
    ctx = context(name) if name else click.Context(cli, info_name="herd")
    title = f"herd-{name}" if name else "herd"
    line = COMMANDS[name][1] if name else "learning and inference by herding, contrastive divergence and Bethe free energies"
    out = [f'.TH {title.upper()} 1 "" "herd {__version__}"', ".SH NAME", f"{title} \\- {_troff(line.rstrip('.'))}"]
    out += [".SH SYNOPSIS", _troff(usage(ctx)), ".SH DESCRIPTION"]
    for verbatim, text in paragraphs(ctx.command.help or ""):
        out += [".nf", *(_troff(each) for each in text.splitlines()), ".fi", ".PP"] if verbatim else [_troff(text), ".PP"]
    if name is None:
        out += [".SH COMMANDS"]
        for command, (_, summary) in COMMANDS.items():
            out += [".TP", f"\\fB{command}\\fR", _troff(summary)]
    out += [".SH OPTIONS"]
    for spelling, text in options(ctx):
        out += [".TP", f"\\fB{_troff(spelling)}\\fR", _troff(" ".join(text.split()))]
    out += [".SH EXIT STATUS"]
    for code, text in EXIT_CODES:
        out += [".TP", code, text]
    others = [f"herd-{command}(1)" for command in COMMANDS if command != name]
    out += [".SH SEE ALSO", ", ".join((["herd(1)"] if name else []) + others)]
    return "\n".join(out) + "\n"


def _troff(text: str) -> str:
    """A line that troff prints as it is."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + escaped if escaped.startswith((".", "'")) else escaped


def format_page() -> str:
    """docs/format.md"""
    lines = [NOTE, "", "# What the kinds of artifacts hold", ""]
    lines += [FORMAT_INTRODUCTION]
    for kind in KINDS.values():
        dataclass = kind.dataclass_of_version(kind.version)
        lines += ["", f"## {kind.name}, version {kind.version}", "", *_summary(dataclass), *_fields(dataclass)]
    return "\n".join(lines) + "\n"


def _summary(dataclass: type[Any]) -> list[str]:
    text = (dataclass.__doc__ or "").strip().split("\n\n")[0]
    return [" ".join(text.split()), ""]


def _fields(dataclass: type[Any]) -> list[str]:
    lines = ["| field | type | shape | |", "|---|---|---|---|"]
    _rows(dataclass, "", lines, [])
    return lines


def _rows(dataclass: type[Any], prefix: str, lines: list[str], seen: list[type[Any]]) -> None:
    """One line per field, those of nested dataclasses after their group's."""
    hints = get_type_hints(dataclass)
    for declared in fields(dataclass):
        spec, optional = array_spec_of_field(declared), _optional(hints[declared.name])
        name = f"{prefix}{declared.name}"
        mark = "?" if optional else ""
        if spec:
            types = " or ".join(KIND_NAMES[kind] for kind in spec.kinds) + (", dense or CSR" if spec.sparse else "")
            lines.append(f"| `{name}`{mark} | {types} | {' × '.join(spec.dims)} | {_cell(spec.doc)} |")
            continue
        inner = [part for part in (hints[declared.name], *_parts(hints[declared.name])) if is_dataclass(part)]
        if inner and isinstance(inner[0], type):
            several = get_origin(hints[declared.name]) in (list, tuple)
            kind = next((kind for kind in KINDS.values() if inner[0] is kind.dataclass_of_version(kind.version)), None)
            text = f"as of kind [{kind.name}](#{kind.name}-version-{kind.version})" if kind else _cell(_summary(inner[0])[0])
            lines.append(f"| `{name}/`{mark} | group{'s 0, 1, …' if several else ''} | | {text} |")
            if not kind and inner[0] not in seen:
                _rows(inner[0], f"{name}/{'N/' if several else ''}", lines, [*seen, inner[0]])
        else:
            lines.append(f"| `{name}`{mark} | {_plain(hints[declared.name])} | | |")


def _parts(hint: Any) -> Iterator[Any]:
    for part in get_args(hint):
        yield part
        yield from _parts(part)


def _optional(hint: Any) -> bool:
    return type(None) in get_args(hint)


def _plain(hint: Any) -> str:
    """A scalar's type in words."""
    names = {int: "integer", float: "number", str: "text", bool: "true or false", list[str]: "list of texts"}
    kept = [part for part in get_args(hint) if part is not type(None)] if _optional(hint) else [hint]
    return " or ".join("group of arrays" if get_origin(part) is dict else names.get(part, str(part)) for part in kept)


def reproducing_page() -> str:
    """docs/reproducing.md, with its table of data sets anew."""
    text = (DOCS / "reproducing.md").read_text(encoding="utf-8")
    before, start, rest = text.partition("<!-- the table of sets is made by scripts/dev/make_manual.py of herdcli/datasets -->\n")
    _, end, after = rest.partition("<!-- end of the table of sets -->")
    assert start
    assert end
    return f"{before}{start}{_dataset_table()}{end}{after}"


def _dataset_table() -> str:
    lines = ["| `herd data` | file | rows × columns | size | what it is | figures | licence | from |", "|---|---|---|---|---|---|---|---|"]
    for entry in registry.all_datasets():
        shape = f"{len(entry.sources)} files" if entry.is_folder else f"{entry.rows:,} × {entry.columns:,}"
        licence = f"{entry.licence} ⚠" if entry.restricted else entry.licence
        cells = (entry.description, entry.figures or "–", licence, entry.origin)
        lines.append(f"| `{entry.name}` | `{entry.file}` | {shape} | {format_megabytes(entry.size)} | {' | '.join(map(_cell, cells))} |")
    return "\n".join([*lines, "", "⚠ asks for `--accept-licence`.", ""])


def pages() -> dict[Path, str]:
    """Every page of the manual."""
    found = {DOCS / "commands" / "README.md": index_page(), DOCS / "format.md": format_page(), DOCS / "man" / "herd.1": man_page(None)}
    found[DOCS / "reproducing.md"] = reproducing_page()
    found[DOCS / "python.md"] = python_manual.page()
    for name in COMMANDS:
        found[DOCS / "commands" / f"{name}.md"] = command_page(name)
        found[DOCS / "man" / f"herd-{name}.1"] = man_page(name)
    return found


def stale(made: dict[Path, str]) -> list[Path]:
    """Pages that differ from the files, and files that no page stands behind."""
    differing = [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    return differing + [path for folder in ("commands", "man") for path in sorted((DOCS / folder).glob("*")) if path not in made]


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the generated part of the manual.")
    parser.add_argument("--check", action="store_true", help="only say what is out of date")
    arguments = parser.parse_args()
    made = pages()
    for path in stale(made):
        print(f"{path.relative_to(ROOT)}{' is out of date' if arguments.check else ''}")
        if not arguments.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made[path], encoding="utf-8") if path in made else path.unlink()
    if arguments.check and stale(made):
        sys.exit("make manual writes them anew")


if __name__ == "__main__":
    main()
