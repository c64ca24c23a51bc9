"""The recipes of docs/recipes.md, done in a copy of the program as the page says: what it writes is written, what it types is run.

A recipe is a section `## A thing`.  Its blocks are

    ```python title="herdcli/rbm/units/narrow.py"     a new file
    ```diff title="herdcli/rbm/units/__init__.py"     lines that are there (blank at the front), go (-) and come after them (+) in a file
    ```sh                                             lines of a shell, in a folder of their own; `herd` and `python` are those of the copy
    ```python                                         a program, run there too
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from herdcli.records import dataclass

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "recipes.md"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
COPIED = ("herdcli", "tests", "docs", "scripts", "README.md", "pyproject.toml", "CHANGELOG.md")
LEFT = shutil.ignore_patterns("gallery", "man", "*.png", "*.c")


@dataclass(frozen=True)
class Block:
    """One block of a page: its language, the file it is of or "", and its text."""

    language: str
    title: str
    text: str


def sections(page: Path = PAGE) -> dict[str, str]:
    """Title -> text of each recipe."""
    parts = re.split(r"^## (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def blocks(text: str) -> list[Block]:
    """The blocks of a section, in order."""
    return [Block(*match) for match in BLOCK.findall(text)]


def files(text: str) -> list[Block]:
    """The blocks that write files."""
    return [block for block in blocks(text) if block.title]


def touched(text: str) -> list[str]:
    """Files of the program that a section changes, new ones not counted."""
    return sorted({block.title for block in blocks(text) if block.language == "diff"})


def copy_program(folder: Path) -> Path:
    """A copy of what the program and its tests are, to be changed."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=LEFT)
        else:
            shutil.copy(source, folder / name)
    for place in ("data", "herdcli/data"):  # as in the sources, and as where it is installed
        (folder / place).symlink_to(ROOT / "data")
    return folder


def write(block: Block, folder: Path) -> None:
    """Write a new file, or insert lines into one."""
    path = folder / block.title
    if block.language != "diff":
        assert not path.exists(), f"{block.title} is there already"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
        return
    path.write_text(changed(block, path.read_text(encoding="utf-8")), encoding="utf-8")


def changed(block: Block, text: str) -> str:
    """The text of a file after a block of inserted lines; an AssertionError where the lines before them are not there once."""
    for old, new in _hunks(block.text):
        assert text.count(old) == 1, f"{block.title} has {text.count(old)} times:\n{old}"
        text = text.replace(old, new)
    return text


def _hunks(diff: str) -> Iterator[tuple[str, str]]:
    """(lines as they are, lines as they become), one after another: a hunk ends with its last line that comes."""
    old, new, added = "", "", False
    for line in diff.splitlines(keepends=True):
        kind, text = line[0], line[1:]
        assert kind in " +-", line
        if added and kind != "+":
            yield old, new
            old, new = "", ""
        added = kind == "+"
        old += text if kind != "+" else ""
        new += text if kind != "-" else ""
    yield old, new


def environment(program: Path, programs: Path) -> dict[str, str]:
    """`herd` and `python` of the copy first on the path."""
    programs.mkdir()
    for name, module in (
        ("herd", ["-m", "herdcli"]),
        ("python", []),
        ("pytest", ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0"]),
    ):
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec {" ".join([sys.executable, *module])} "$@"\n')
        script.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "HERD", "COV"))}
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    return kept | {"PATH": path, "PYTHONPATH": str(program), "PROGRAM": str(program), "NO_COLOR": "1", "COLUMNS": "110"}


def run(block: Block, folder: Path, own: dict[str, str]) -> None:
    """Run a block of a shell or of Python; what fails is an AssertionError with what it said."""
    command = ["bash", "-euo", "pipefail", "-c", block.text] if block.language == "sh" else [sys.executable, "-c", block.text]
    ended = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, f"{block.text}\n{ended.stdout}\n{ended.stderr}"


def follow(title: str, folder: Path) -> None:
    """Do what a recipe says: write its files into a copy of the program, and run the rest of it there."""
    text = sections()[title]
    program = copy_program(folder / "program")
    for block in files(text):
        write(block, program)
    work = folder / "work"
    work.mkdir()
    own = environment(program, folder / "programs")
    for block in blocks(text):
        if not block.title:
            run(block, work, own)
