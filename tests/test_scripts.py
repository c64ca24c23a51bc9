"""`python scripts NAME`: every script is listed, found by its path or its last name, and run from any folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"


def run(folder: Path, *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `python scripts WORDS`, started in a folder."""
    ended = subprocess.run([sys.executable, SCRIPTS, *words], cwd=folder, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout, ended.stderr


def test_every_script_is_listed_with_a_line_of_its_own(tmp_path):
    code, shown, errors = run(tmp_path)
    lines = [line.split(maxsplit=1) for line in shown.splitlines()]
    assert (code, errors) == (0, "")
    assert [line for line in lines if len(line) < 2] == []
    below = {path.relative_to(SCRIPTS).with_suffix("") for path in SCRIPTS.rglob("*.py") if path.parent.parent != SCRIPTS.parent}
    named = {Path(name) for name, _ in lines}
    assert {path for path in below if path not in named and path.parent not in named} == set()
    assert Path("torture") in named


@pytest.mark.parametrize("name", ["papers/check_results", "papers/check_results.py", "check_results"])
def test_a_script_is_run_by_its_path_or_its_last_name_from_any_folder(tmp_path, name):
    code, shown, errors = run(tmp_path, name, "--help")
    assert (code, errors) == (0, "")
    assert shown.startswith("usage: ")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fig99", "python scripts: no script is called 'fig99'; `python scripts` lists them\n"),
        ("faces", "python scripts: several scripts are called 'faces': bench/rbm/faces, claims/faces\n"),
    ],
)
def test_a_name_that_no_script_or_several_have_is_an_error(tmp_path, name, message):
    assert run(tmp_path, name) == (2, "", message)
