"""Statements of README, pages and help that the program can confirm: options exist in the commands named, counts are true."""

from __future__ import annotations

import functools
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from herdcli.cli.main import COMMANDS, cli

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
GENERATED = {"commands", "man"}
PAGES = [ROOT / "README.md", *(page for page in sorted(DOCS.rglob("*.md")) if page.relative_to(DOCS).parts[0] not in GENERATED)]
NUMBERS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
NUMBERS += ("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen")
FOREIGN = {  # options of other programs, of scripts, and of an example of a new option, that pages name alone
    "clusters.md": {"--signal"},
    "export.md": {"--readable_model"},
    "guide.md": {"--hash"},
    "internals.md": {"--before", "--by-hand"},
    "recipes.md": {"--step-gain"},
    "reliability.md": {"--lowest"},
    "results.md": {"--quick", "--write"},
    "scaling.md": {"--bounds"},
    "ups.md": {"--cell"},
    "vowpal-wabbit.md": {"--oaa", "--adaptive"},
}
OPTION = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*")


@functools.cache
def options(command: str) -> frozenset[str]:
    """The names of all options of a command, short ones too; those of former versions are not among them."""
    found = cli.get_command(click.Context(cli, info_name="herd"), command)
    assert found is not None
    names = {name for each in found.params if isinstance(each, click.Option) for name in (*each.opts, *each.secondary_opts)}
    return frozenset(names | {"-h", "--help", "--help-all"})


def named_commands(words: list[str]) -> Iterator[tuple[str, str]]:
    """The commands and options of a line of words, each option with the command before it.  `herd cv` runs the command that it names."""
    places = [place for place, word in enumerate(words) if word == "herd" and words[place + 1 : place + 2] and words[place + 1] in COMMANDS]
    for place, end in itertools.pairwise([*places, len(words)]):
        line = words[place + 1 : end]
        line = line[: next((at for at, word in enumerate(line) if re.match(r"[|;&>]", word)), len(line))]
        command = line[0]
        for word in line[1:]:
            if line[0] == "cv" and word in COMMANDS:
                command = word
            if found := OPTION.match(word):
                yield command, found[0]


def words_of(line: str) -> list[str]:
    """The words of a shell line; operators are words of their own."""
    lexer = shlex.shlex(line.replace("…", " "), posix=True, punctuation_chars="|;&><()")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        return list(lexer)
    except ValueError:  # a quote that is closed on a later line
        return line.split()


def lines_of(text: str) -> Iterator[str]:
    """The lines of the shell blocks of a page, without texts that they write into files, and its inline code."""
    for block in re.findall(r"^ *```(?:sh|console)?\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
        block = re.sub(r"<<'?(\w+)'?(.*?)\n.*?^\1$", r"\2", block, flags=re.MULTILINE | re.DOTALL)
        yield from block.replace("\\\n", " ").splitlines()
    prose = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from (" ".join(span.split()) for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", prose))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_of_pages_have_the_options_that_are_named(page):
    named = [each for line in lines_of(page.read_text(encoding="utf-8")) for each in named_commands(words_of(line))]
    known = FOREIGN.get(page.name, set())
    assert [f"herd {command} {option}" for command, option in named if option not in options(command) | known] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_options_named_alone_belong_to_a_command(page):
    known = frozenset[str](FOREIGN.get(page.name, ())).union(*map(options, COMMANDS))
    spans = [line for line in lines_of(page.read_text(encoding="utf-8")) if line.startswith("--")]
    assert [span for span in spans if OPTION.match(span)[0] not in known] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_options_that_exist(command):
    found = cli.get_command(click.Context(cli, info_name="herd"), command)
    assert found is not None
    helps = [" ".join((each.help or "").split()) for each in found.params if isinstance(each, click.Option)]
    for text in [" ".join((found.help or "").split()), *helps]:
        named = re.findall(rf"\bherd ({'|'.join(COMMANDS)}) (--[\w-]+)", text)
        assert [each for each in named if each[1] not in options(each[0])] == [], text
    everywhere = frozenset[str]().union(*map(options, COMMANDS))
    for text in helps:
        others = [name for name in COMMANDS if name != "herd" and re.search(rf"(?<![\w-]){name}(?![\w-])", text)]
        known = options(command).union(*map(options, others)) if others else options(command)
        assert [option for option in OPTION.findall(text) if option not in known] == [], text
    assert set(OPTION.findall(found.help or "")) <= everywhere


def test_counts_of_pages_are_true():
    cookbook, coverage = ((DOCS / name).read_text(encoding="utf-8") for name in ("cookbook.md", "coverage.md"))
    pipelines = NUMBERS[len(re.findall(r"^## \d+\. ", cookbook, re.MULTILINE))]
    assert cookbook.startswith(f"# {pipelines.capitalize()} pipelines\n")
    assert f"[{pipelines} pipelines](cookbook.md)" in (DOCS / "tutorial.md").read_text(encoding="utf-8")
    authors = {re.match(r"\w+", title)[0] for title in re.findall(r"^## (.+)$", coverage, re.MULTILINE)}
    assert f"[{NUMBERS[len(authors)]} publications](docs/coverage.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"{NUMBERS[len(authors)].capitalize()} publications, equation by equation" in (DOCS / "index.md").read_text(encoding="utf-8")


def test_the_guide_counts_the_models_whose_verdicts_were_checked():
    rows = [line.split("\t") for line in (ROOT / "results" / "verdicts.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    good, bad = ([row for row in rows if row[1] == meant] for meant in ("good", "bad"))
    assert all(row[2] != "ok" for row in bad)
    assert all(row[2] == "ok" for row in good)
    warned = sum(row[3] == "yes" for row in good)
    guide = " ".join((DOCS / "guide.md").read_text(encoding="utf-8").split())
    assert f"Of {len(bad)} misconfigured and {len(good)} sensible models" in guide
    assert f"the fitting commands warned of {warned} sensible model" in guide
