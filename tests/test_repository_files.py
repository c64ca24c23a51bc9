"""The repository's files: how long they are, how many stand in a folder, and what none of them may hold."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MACHINE_PATH = re.compile(r"(?<![\w.$}-])/(?:work|tmp|root|home|Users|mnt)/\w")


@cache
def content(path: Path) -> str:
    """The text of a file."""
    return path.read_text()


def sources() -> list[Path]:
    """The repository's own text files."""
    folders = ("herdcli", "tests", "scripts", "docs", "data", ".ci")
    named = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and (path.suffix in {".py", ".pyx", ".md", ".sh"} or path.name == "run")
    ]
    return (
        named
        + [path for path in ROOT.iterdir() if path.is_file() and path.suffix in {".py", ".md", ".toml", ".cff", ".in", ".txt"}]
        + [ROOT / "Makefile"]
    )


def test_no_file_is_longer_than_600_lines():
    long = {
        str(path.relative_to(ROOT)): lines
        for path in sources()
        if path.suffix in {".py", ".pyx"} and (lines := len(content(path).splitlines())) > 600
    }
    assert long == {}


def test_no_folder_has_more_than_24_python_files():
    """A reader takes in a folder at a glance."""
    counts = Counter(path.parent.relative_to(ROOT) for path in sources() if path.suffix == ".py")
    assert {str(folder): count for folder, count in counts.items() if count > 24} == {}


def test_command_files_have_at_most_150_lines():
    from herdcli.cli.main import COMMANDS

    paths = [ROOT / Path(*module.split(".")).with_suffix(".py") for module, _ in COMMANDS.values()]
    assert {path.name: lines for path in paths if (lines := len(content(path).splitlines())) > 150} == {}


@pytest.mark.parametrize("page", ["design.md", "internals.md", "rbm.md", "recipes.md"])
def test_files_that_a_page_names_are_there(page):
    """Paths relative to herdcli/, or to the repository; capitals and N stand for a name."""
    named = re.findall(r"`([\w/]+/\w+\.pyx?)`", (ROOT / "docs" / page).read_text())
    places = (ROOT / "herdcli", ROOT)
    assert named
    assert [path for path in named if not any((place / path).exists() for place in places) and not re.search("[A-Z]{4}", path)] == []


def test_no_machine_paths():
    found = {
        f"{path.relative_to(ROOT)}:{number}": line.strip()
        for path in sources()
        for number, line in enumerate(content(path).splitlines(), 1)
        if MACHINE_PATH.search(line)
    }
    assert found == {}
    assert MACHINE_PATH.search("see " + "/wo" + "rk/notes")


def test_unfinished_work_is_not_committed():
    marks = re.compile(r"\bTO" + r"DO\b|\bFIX" + r"ME\b|raise NotImpl" + r"emented|\bX{3}\b")
    found = {f"{path.relative_to(ROOT)}: {match.group()}" for path in sources() if (match := marks.search(content(path)))}
    assert found == set()
