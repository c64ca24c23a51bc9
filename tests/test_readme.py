"""What the README says can be done is done: its examples run, its links lead somewhere, its tables are complete."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from herdcli import errors
from herdcli.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.mark.examples
def test_examples_run_in_order(tmp_path, herd_environment):
    examples = blocks("sh")
    assert len(examples) >= 10
    for example in [*examples, *(f"python - <<'END'\n{block}\nEND" for block in blocks("python"))]:
        command = ["bash", "-euo", "pipefail", "-c", example]
        ended = subprocess.run(command, cwd=tmp_path, env=herd_environment, capture_output=True, text=True, timeout=300, check=False)
        assert ended.returncode == 0, f"{example}\n{ended.stderr}"


def test_numbers_of_rows_in_the_first_example():
    import numpy as np

    from herdcli.artifacts import load

    split = load(str(ROOT / "data" / "digits.h5")).value.split
    train, test = (f"{int(np.sum(split == part)):,}" for part in (0, 2))
    assert f"from {train} handwritten digits" in README
    assert f"gives {test} other digits" in README


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example(command):
    assert any(re.search(rf"\bherd {command}\b", block) for block in [*blocks("sh"), *re.findall(r"`[^`]+`", README)])
    assert re.search(rf"^### .*\bherd {command}\b", README, re.MULTILINE)


def headings(page: str) -> set[str]:
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in re.findall(r"^#+ (.+)$", page, re.MULTILINE)}


def test_links_lead_somewhere():
    local = [target for target in re.findall(r"\]\(([^)]+)\)", README) if not target.startswith("http")]
    assert local
    for target in local:
        path, _, place = target.partition("#")
        assert not path or (ROOT / path).exists(), target
        assert not place or place in headings((ROOT / path).read_text(encoding="utf-8") if path else README), target


def test_every_exit_code_is_explained():
    codes = {error.exit_code for error in vars(errors).values() if isinstance(error, type) and issubclass(error, errors.HerdError)}
    table = README[README.index("| exit code |") :]
    explained = {int(code) for cell in re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE) for code in cell.split(",")}
    assert codes <= explained


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)", "".join(blocks("console"))))
    assert {"demo", "test"} <= named <= targets
