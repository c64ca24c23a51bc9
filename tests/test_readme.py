"""What the README and the guide say can be done is done: examples run, links lead somewhere, tables are complete."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from herdcli import errors
from herdcli.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "docs/guide.md")
README, GUIDE = ((ROOT / name).read_text(encoding="utf-8") for name in PAGES)


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", [PAGES[0], pytest.param(PAGES[1], marks=pytest.mark.examples)])
def test_examples_run_in_order(tmp_path, herd_environment, name):
    page = (ROOT / name).read_text(encoding="utf-8")
    examples = blocks(page, "sh")
    assert len(examples) >= 6
    printed = []
    for example in [*examples, *(f"python - <<'END'\n{block}\nEND" for block in blocks(page, "python"))]:
        command = ["bash", "-euo", "pipefail", "-c", example]
        ended = subprocess.run(command, cwd=tmp_path, env=herd_environment, capture_output=True, text=True, timeout=300, check=False)
        assert ended.returncode == 0, f"{example}\n{ended.stderr}"
        printed.append(ended.stdout)
    if name == "README.md":
        figures = dict(zip(*(line.split("\t") for line in printed[0].splitlines()), strict=True))
        shown = re.search(r"log-likelihood +(\S+) nats", (ROOT / "docs" / "pipeline.svg").read_text(encoding="utf-8"))
        assert shown
        assert float(shown[1]) == pytest.approx(float(figures["log_likelihood"]), abs=0.5)


def test_the_readme_is_short_enough_to_be_read():
    assert len(README.splitlines()) <= 120


def test_numbers_of_rows_in_the_first_example():
    import numpy as np

    from herdcli.artifacts import load

    split = load(str(ROOT / "data" / "digits.h5")).value.split
    train, test = (f"{int(np.sum(split == part)):,}" for part in (0, 2))
    assert f"from {train} handwritten digits" in README
    assert f"of {test} other digits" in README


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example(command):
    assert any(re.search(rf"\bherd {command}\b", block) for block in [*blocks(GUIDE, "sh"), *re.findall(r"`[^`]+`", GUIDE)])
    assert re.search(rf"^### .*\bherd {command}\b", GUIDE, re.MULTILINE)
    assert re.search(rf"^\| .*`{command}`.* \|", README, re.MULTILINE)


def headings(page: str) -> set[str]:
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in re.findall(r"^#+ (.+)$", page, re.MULTILINE)}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    page = ROOT / name
    text = page.read_text(encoding="utf-8")
    local = [target for target in re.findall(r"\]\(([^)]+)\)", text) if not target.startswith("http")]
    assert local
    for target in local:
        path, _, place = target.partition("#")
        assert not path or (page.parent / path).exists(), target
        assert not place or place in headings((page.parent / path).read_text(encoding="utf-8") if path else text), target


def test_every_exit_code_is_explained():
    codes = {error.exit_code for error in vars(errors).values() if isinstance(error, type) and issubclass(error, errors.HerdError)}
    table = GUIDE[GUIDE.index("| exit code |") :]
    explained = {int(code) for cell in re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE) for code in cell.split(",")}
    assert codes <= explained


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)", "".join(blocks(README, "console"))))
    assert {"demo", "test"} <= named <= targets
