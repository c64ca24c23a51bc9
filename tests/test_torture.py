"""The lists of scripts/torture.py are complete: every kind of artifact and page it has, every command, algorithms with checkpoints."""

from __future__ import annotations

import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from herdcli.cli.main import COMMANDS
from herdcli.kinds import KINDS

SCRIPTS = str(Path(__file__).resolve().parents[1] / "scripts")
OPTIONS = ("algorithm", "model", "rule", "family")  # what a command runs, among several


@pytest.fixture(scope="module")
def corpus():
    sys.path.insert(0, SCRIPTS)
    try:
        return import_module("torture.corpus")
    finally:
        sys.path.remove(SCRIPTS)


def options(command: str) -> dict[str, object]:
    return {str(param.name): param for param in import_module(COMMANDS[command][0]).command.params}


def words(lines) -> list[list[str]]:
    return [line.split() for line in lines]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_a_file_of_every_kind_is_read_by_every_command_that_can(corpus, kind):
    name = corpus.OF_KIND[kind.name]
    assert name in corpus.MADE
    read = words(line for lines in corpus.READ.values() for line in lines)
    own = words(line for file in (name, corpus.SECOND.get(kind.name)) for line in corpus.READ.get(file, ()))
    for page, command in (("apply", "apply"), ("sample", "sample"), ("finish", "merge")):
        assert not getattr(kind, page) or any(line[:2] == [command, "EVIL"] for line in own), f"no line '{command} EVIL' for {name}"
    for option in kind.judged_by[:1]:
        asked = [line for line in read if line[0] == "eval" and f"--{option}" in line and (line[1] == "EVIL" or line[1] == name)]
        assert asked, f"no line 'eval EVIL --{option}' for {name}"


def test_every_command_reads_or_makes_something_tortured(corpus):
    lines = [*corpus.MADE.values(), *corpus.LONG.values(), *corpus.EVERYWHERE, *(line for lines in corpus.READ.values() for line in lines)]
    asked = {line.split()[0] for line in lines}
    assert set(COMMANDS) - asked == {"data", "seal", "selftest", "completion"}


@pytest.mark.parametrize("command", [name for name in COMMANDS if "checkpoint" in options(name)])
def test_every_command_with_checkpoints_is_killed_with_each_of_its_algorithms(corpus, command):
    lines = [line for line in words(corpus.LONG.values()) if line[0] == command]
    assert lines
    option = next((name for name in OPTIONS if hasattr(getattr(options(command).get(name), "type", None), "choices")), None)
    if option is not None:
        spared = {choice for choice, more in corpus.VARIED[command][2].items() if more is corpus.AT_ONCE}
        asked = {line[line.index(f"--{option}") + 1] for line in lines if f"--{option}" in line}
        assert asked | spared == set(options(command)[option].type.choices)


def test_what_a_part_has_found_is_put_into_its_row_and_the_others_stay(corpus, tmp_path, monkeypatch):
    table = import_module("torture.table")
    page = tmp_path / "page.md"
    page.write_text(f"before\n{table.BEGIN}\n{table.END}\nafter\n", encoding="utf-8")
    monkeypatch.setattr(table, "PAGE", page)
    table.write({"kills": table.row("kills", 3, Counter(stopped=11, ran=2, wrong=1), 4.4)})
    table.write({"mutants": table.row("mutants", 1200, Counter(refused=1000, ran=300, traceback=2, crashed=1), 60)})
    text = page.read_text(encoding="utf-8")
    assert "| mutants | changed files | 1 200 | 1 303 | 1 000 | 300 | 0 | 1 | 2 | 60 |\n| kills | signals | 11 | 14 |" in text
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
