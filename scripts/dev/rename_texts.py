"""Texts after names have changed, for scripts/dev/rename.py: formatted strings, and lines that became too long."""

from __future__ import annotations

import re
import subprocess
import sys
import tokenize

from dev.rename_scopes import ROOT

WIDTH = 140
QUOTED = re.compile(r"(?<=`)[a-z_]\w*(?:\.[A-Za-z_]\w*)+(?=[`(])")
DOTTED = re.compile(r"\b((?:herdcli|tests|scripts)(?:\.[A-Za-z_]\w*)+)(?::([A-Za-z_]\w*))?")
FILES = re.compile(
    r"(?<![\w/.@-])(?:[A-Za-z_][\w-]*/)*[A-Za-z_]\w*\.py\b|(?<=`)(?:[A-Za-z_]\w*/)+[A-Za-z_]\w*(?=`)|(?<=[\"'])(?:[a-z_]\w*/)+[a-z_]\w*(?=[\"'])"
)


def word(content: bytes, start: int, end: int) -> bool:
    """Whether a slice is only a part of a longer identifier."""
    edge = rb"\w"
    return bool(re.match(edge, content[start - 1 : start]) or re.match(edge, content[end : end + 1]))


def in_braces(text: bytes, place: int) -> bool:
    """Whether a byte of a formatted string stands in an expression."""
    depth, index = 0, 0
    while index < place:
        pair = text[index : index + 2]
        if depth == 0 and pair in (b"{{", b"}}"):
            index += 2
            continue
        depth += {b"{": 1, b"}": -1}.get(text[index : index + 1], 0)
        index += 1
    return depth > 0


def swapped(line: str, swaps: dict[tuple[bool, str], str]) -> str:
    """A line with other identifiers; swaps  (behind a dot?, old name) -> new name."""
    return re.sub(r"(\.?)\b([A-Za-z_]\w*)", lambda found: found[1] + swaps.get((bool(found[1]), found[2]), found[2]), line)


def tidy() -> None:
    """Imports in order, code as ruff formats it, and texts that became too long on two lines."""
    for words in (["check", "--fix", "-q", "--select", "I,F401", "."], ["format", "-q", "."]):
        subprocess.run([sys.executable, "-m", "ruff", *words], cwd=ROOT, check=False)
    for tree in ("herdcli", "tests", "scripts"):
        for path in (ROOT / tree).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if any(len(line) > WIDTH for line in text.split("\n")):
                path.write_text(wrapped(text), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "ruff", "format", "-q", "."], cwd=ROOT, check=False)


def wrapped(text: str) -> str:
    """A source whose comments, docstrings and strings have no line that is too long."""
    lines = text.split("\n")
    inside, comments, strings = set(), set(), {}
    depth = 0
    for token in tokenize.generate_tokens(iter([line + "\n" for line in lines]).__next__):
        row = token.start[0] - 1
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token.string, 0) if token.type == tokenize.OP else 0
        if token.type == tokenize.STRING and token.string.endswith('"""'):
            inside.update(range(row, token.end[0]))
        elif token.type == tokenize.STRING and len(lines[row]) > WIDTH and token.end[1] > WIDTH - 2:
            strings[row] = (token.start[1], token.end[1], depth)
        elif token.type == tokenize.COMMENT:
            comments.add(row)
    made: list[str] = []
    for row, line in enumerate(lines):
        indent = line[: len(line) - len(line.lstrip())]
        prefix = indent + "# " if line.lstrip().startswith("# ") else indent
        code, _, comment = line.rpartition("  # ")
        if len(line) <= WIDTH:
            near = lines[max(0, row - 3) : row]
            made.append(line.removesuffix("  # fmt: skip") if any(len(each) > WIDTH for each in near) else line)
        elif line.endswith("  # fmt: skip"):
            made.append(code)
        elif row in comments and not line.lstrip().startswith("#"):
            made += [line] if comment.startswith(("type:", "noqa", "pragma")) else [f"{indent}# {comment}", code]
        elif row in inside or row in comments:
            cut = line.rfind(" ", len(prefix) + 1, WIDTH + 1)
            made += [line[:cut].rstrip(), prefix + line[cut + 1 :]]
        elif row in strings:
            made += _split(line, indent, *strings[row])
        else:
            made.append(line)
    return "\n".join(made)


def _split(line: str, indent: str, start: int, end: int, depth: int) -> list[str]:
    """A line whose string is too long as two or four, the string cut behind a blank that stands in no braces."""
    opening = re.match(r"[A-Za-z]*[\"']", line[start:])
    assert opening
    places, level = [], 0
    for place in range(start + opening.end(), min(end, WIDTH - 1)):
        level += {"{": 1, "}": -1}.get(line[place], 0)
        if line[place] == " " and level == 0:
            places.append(place + 1)
    if not places:
        return [line]
    quote, cut = opening.group()[-1], places[-1]
    if depth:
        return [line[:cut] + quote, indent + opening.group() + line[cut:]]
    return [line[:start] + "(", line[start:cut] + quote, opening.group() + line[cut:end], ")" + line[end:]]
