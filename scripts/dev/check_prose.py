"""Sentences that a reader would have to read twice: in README, docs/, the help of all commands and the messages of the program.

python scripts dev/check_prose            # print each finding; exit 1 if there is one
python scripts dev/check_prose FILE.md    # only these pages

Four rules: a sentence has at most 35 words (code and formulas count as one each); no phrase of RIDDLES; no word that docs/glossary.md
says is not used; no doubled word.  Generated pages are left out: their texts are the help of commands.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATED = {"commands", "man", "examples"}
GENERATED_PAGES = {"format.md", "python.md", "coverage.md", "dialects.md"}
MOST_WORDS = 35
NO_PROSE = re.compile(r"[\n|\\{]|</|/>|^<|(?:\w_\w.*){4}|=\S*=|\d:\d\S* \d")  # code, lists of names or of numbers in the sources
ENDS = re.compile(r"(?<=[.!?])(?<!\bfig\.)(?<!\beq\.)(?<!\bsec\.)(?<!\bcf\.)(?<!\bvs\.)(?<!\bp\.)\s+")
SHORT_ENDS = re.compile(r"(?<=[.!?;:])\s+")
CODE, FORMULA = "CODE", "FORMULA"  # what stands for `code` and $formulas$ in a sentence
RIDDLES = {
    r"(?<![Tt]here )\b(is|are) no (?!longer\b|better\b|worse\b|more\b|larger\b|smaller\b|fewer\b|less\b)": "write 'is not a'",
    r"\b(is|are) had\b": "write 'is available'",
    r"\bnothing but\b": "write 'only'",
    r"\bnow and then\b": "write 'sometimes'",
    r"\bnobody\b": "write what happens",
    r"\bin the place of\b": "write 'instead of'",
    r"\bso many\b": "give the number",
    r"\bone a (line|row)\b": "write 'one per line'",
    r"\bthat is said\b": "name the thing",
    r"\b(is|are|was|were|be|been) told\b(?! apart)": "write 'reported', 'printed' or 'warned'",
    r"\blaws? (of|that|whose|known|which)\b": "write 'distribution'",
    r"\brows to come\b": "write 'new rows'",
    r"\b(bears?|borne|bore) out\b": "write 'agrees with'",
    r"\bwhichever\b": "name the choice",
    r"(?:^|[;.(:] ?)[Oo]f (?:[a-z-]+ ){0,3}[a-z-]+: ": "start with the subject: 'for words, …'",
    r"(?:^|[.;:] )Of (?:the|these|those|all|an?|one|them|several)\b": "start with the subject",
    r", as (?:CODE|[a-z]*\d[\w.:]*)(?= or | and |[,.;)]|$)": "write 'such as'",
    r"\b(is|are) (its|their) affair\b": "say what it does",
    r"\bknows? no\b": "write 'does not support'",
    r"^(?!Based|Related|United|Combined)[A-Z][a-z]+(?:ed|en) (?:is|are) (?:the|an?|all|every)\b": "start with the subject",
    r"\b(is|are) said of\b": "write 'reported for'",
    r"\b(deals?|dealt) (it|them|out|to)\b": "write 'distribute'",
    r"\bgo(es)? on (with|to [a-z]+|from)\b": "write 'continue'",
}


@dataclass(frozen=True)
class Passage:
    """A piece of prose and where it is."""

    where: str
    text: str


def page_passages(path: Path) -> Iterator[Passage]:
    """The paragraphs, list items, headings and table cells of a Markdown page, without code and markup."""
    lines = _without_code(path.read_text(encoding="utf-8")).split("\n")
    block: list[str] = []
    first = 1
    for number, line in enumerate([*lines, ""], 1):
        inner = line.strip()
        starts = bool(re.match(r"([-*+]|\d+\.) ", inner))
        alone = inner.startswith(("#", "|", "<", "!!!", "???"))
        if block and (not inner or starts or alone):
            yield Passage(f"{_name(path)}:{first}", _plain(" ".join(block)))
            block = []
        if inner.startswith("|"):
            yield from (Passage(f"{_name(path)}:{number}", _plain(cell)) for cell in re.split(r"(?<!\\)\|", inner) if cell.strip(" -:"))
        elif inner.startswith("#"):
            yield Passage(f"{_name(path)}:{number}", _plain(inner.lstrip("# ")))
        elif inner and not alone:
            first = first if block else number
            block.append(re.sub(r"^([-*+]|\d+\.) ", "", inner))


def help_passages() -> Iterator[Passage]:
    """The help of each command and of each of its options."""
    import click

    from herdcli.cli.main import COMMANDS, cli

    parent = click.Context(cli, info_name="herd")
    for name in COMMANDS:
        command = cli.get_command(parent, name)
        assert command is not None
        for part in re.split(r"\n\s*\n", command.help or ""):
            if "\b" not in part:
                yield Passage(f"herd {name}", _plain(" ".join(part.split())))
        for parameter in command.params:
            if isinstance(parameter, click.Option) and parameter.help:
                yield Passage(f"herd {name} {parameter.opts[-1]}", _plain(parameter.help))


def message_passages() -> Iterator[Passage]:
    """The texts in the sources that have four words or more: messages, hints, titles, labels.  Docstrings are left out."""
    for path in sorted((ROOT / "herdcli").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        inside |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
        for node in ast.walk(tree):
            text = "" if id(node) in inside else _literal(node)
            if text.count(" ") >= 3 and not NO_PROSE.search(text):
                yield Passage(f"{_name(path)}:{node.lineno}", text)  # type: ignore[attr-defined]


def findings(passage: Passage, unused: dict[str, str], *, short: bool = False) -> Iterator[str]:
    """What is wrong with a passage.

    unused  words that the glossary says are not used, and what to write
    short   help or message: a semicolon ends a sentence, as in a list of choices
    """
    for sentence in re.split(SHORT_ENDS if short else ENDS, passage.text):
        words = re.findall(r"\S*[A-Za-z]\S*", sentence)
        if len(words) > MOST_WORDS:
            yield f"{passage.where}: {len(words)} words in one sentence: {sentence}"
    for pattern, advice in RIDDLES.items():
        if found := re.search(pattern, passage.text):
            yield f"{passage.where}: '{found[0].strip()}': {advice}"
    for word, instead in unused.items():
        if re.search(rf"\b{re.escape(word)}\b", passage.text):
            yield f"{passage.where}: '{word}' is not used: write {instead}"
    if found := re.search(r"(?<![-\w])(?!herd\b)([A-Za-z]{2,}) \1\b", passage.text):
        yield f"{passage.where}: '{found[0]}' is doubled"


def unused_words() -> dict[str, str]:
    """The words of the glossary's table of words that are not used, and what is written instead."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").partition("## Words that are not used")[2]
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if line.startswith("| ")]
    return {word: row[1] for row in rows[1:] for word in row[0].replace("`", "").split(", ")}


def pages() -> list[Path]:
    """README and the pages of docs/ that people write."""
    docs = ROOT / "docs"
    found = [path for path in sorted(docs.rglob("*.md")) if path.relative_to(docs).parts[0] not in GENERATED]
    return [ROOT / "README.md", *(path for path in found if path.name not in GENERATED_PAGES)]


def main() -> int:
    """Print all findings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, help="only these pages  [default: all pages, help texts and messages]")
    asked = parser.parse_args()
    unused = unused_words()
    found = [line for path in asked.pages or pages() for passage in page_passages(path) for line in findings(passage, unused)]
    if not asked.pages:
        for passages in (help_passages(), message_passages()):
            found += [line for passage in passages for line in findings(passage, unused, short=True)]
    found = list(dict.fromkeys(found))
    print("\n".join(found), end="\n" if found else "")
    if found:
        print(f"{len(found)} sentences to rewrite", file=sys.stderr)
    return 1 if found else 0


def _name(path: Path) -> str:
    path = path.resolve()
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


def _without_code(text: str) -> str:
    """The page with its blocks of code, formulas and comments as empty lines, so that line numbers stay."""
    text = text if not text.startswith("---\n") else "\n" * text[: text.index("\n---", 4)].count("\n") + text[text.index("\n---", 4) :]
    for block in (r"^( *)```.*?^\1```\s*?$", r"^\$\$.*?\$\$", r"<!--.*?-->", r"<(table|details|div|picture|p)\b.*?</\1>"):
        text = re.sub(block, lambda found: "\n" * found[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    return text


def _plain(text: str) -> str:
    text = re.sub(r"``[^`]+``|`[^`]+`", CODE, text)
    text = re.sub(r"(?<!\$)\$(?!\s)[^$\n]+(?<!\s)\$(?!\d)", FORMULA, text)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)(\{[^}]*\})?", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return " ".join(re.sub(r"<[^>]+>|\*\*|(?<!\w)[*_]|[*_](?!\w)|\\(?=\|)", "", text).split())


def _literal(node: ast.AST) -> str:
    """A string or f-string, with … where a value is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)  # type: ignore[misc]
    return ""


if __name__ == "__main__":
    sys.exit(main())
