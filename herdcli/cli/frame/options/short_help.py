"""The short page of --help: what a command is for, examples, and its main options, on one screen."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping

from herdcli.cli.frame.options.short_texts import SHORT_TEXTS

SCREEN = 40  # lines of a short page of 80 columns
LONGEST_CHOICES = 18  # choices that take more columns are listed in the text
LONGEST_SPELLING = 25
_CHOICES = re.compile(r" \[([^\]\s]+\|[^\]\s]+)\]")
_DEFAULT = re.compile(r"\s*\[(default: .*|required)\]$", re.DOTALL)


def format_short_help_page(
    usage: str, description: str, groups: Mapping[str, Iterable[tuple[str, str, str]]], closing: str, width: int
) -> str:
    """Return the page: usage, the first paragraph, options with their headings, and the closing line, with examples as far as they fit.

    description  the long help of the command; blocks of examples follow a backslash and b.
    groups       heading -> key in SHORT_TEXTS (COMMAND.PARAMETER), spelling and help of each option.
    """
    first, examples = _purpose_and_examples(description, width)
    options: list[str] = []
    records = {heading: [_short_help_record(*record) for record in rows] for heading, rows in groups.items()}
    column = 4 + max((len(name) for rows in records.values() for name, _, _ in rows if len(name) <= LONGEST_SPELLING), default=0)
    for heading, rows in records.items():
        if rows:
            options += [f"{heading}:", *(line for row in rows for line in _option_lines(*row, column, width))]
    rest = [*options, "", closing]
    head = [*textwrap.wrap(usage, width, subsequent_indent="       ", break_on_hyphens=False), "", *first]
    left = SCREEN - len(head) - len(rest) - 2  # two blank lines around the examples
    shown: list[str] = []
    for line in examples:
        left -= -(-len(line) // width)
        if left < 0:
            break
        shown.append(line)
    return "\n".join([*head, "", *([*shown, ""] if shown else []), *rest]) + "\n"


def _purpose_and_examples(description: str, width: int) -> tuple[list[str], list[str]]:
    """Return the lines of the first paragraph, and those of the first block of examples."""
    paragraphs = [part for part in re.split(r"\n\s*\n", description.strip()) if part.strip()]
    first = textwrap.wrap(" ".join(paragraphs[0].split()), width, initial_indent="  ", subsequent_indent="  ") if paragraphs else []
    blocks = [part.strip("\n").split("\n")[1:] for part in paragraphs if part.lstrip().startswith("\b")]
    return first, [f"    {line.strip()}" for line in (blocks[0] if blocks else [])]


def _short_help_record(key: str, spelling: str, text: str) -> tuple[str, str, str]:
    """Return spelling, text and default of an option.

    The text is the short text, else the first sentence of the help; a long list of choices follows, unless the text has one.
    """
    default = _DEFAULT.search(text)
    text, shown = (text[: default.start()], f"[{default[1]}]") if default else (text, "")
    own = SHORT_TEXTS.get(key, SHORT_TEXTS.get(key.partition(".")[2]))
    text = first_sentence(text) if own is None else own
    choices = _CHOICES.search(spelling)
    if choices is None or len(choices[0]) <= LONGEST_CHOICES:
        return spelling, text, shown
    spelling, names = spelling.replace(choices[0], " NAME"), choices[1].split("|")
    if "…" in text or set(names) <= set(re.findall(r"[\w-]+", text)):  # the text lists the choices itself
        return spelling, text, shown
    return spelling, f"{text}: {', '.join(names)}", shown


def _option_lines(spelling: str, text: str, default: str, column: int, width: int) -> list[str]:
    """Return an option as one line, or as a few if its text is long; with the default if it fits into the last line."""
    room = width - column
    lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    if default and len(lines[-1]) + len(default) + 2 <= room:
        lines[-1] += f"  {default}"
    head = f"  {spelling}"
    if len(head) + 2 > column:
        return [head, *(" " * column + line for line in lines)]
    return [head.ljust(column) + lines[0], *(" " * column + line for line in lines[1:])]


def first_sentence(text: str) -> str:
    """Return the first sentence of a text, without its full stop."""
    return re.split(r"\.(?=\s|$)", " ".join(text.split()), maxsplit=1)[0]
