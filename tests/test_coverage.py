"""docs/coverage.md: every numbered equation has a row, every row a command with a test or a reason, every test and option exists."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "dev" / "make_coverage.py"


@pytest.fixture
def coverage():
    spec = importlib.util.spec_from_file_location("make_coverage", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nothing_is_missing_and_the_page_is_fresh(coverage):
    assert coverage.wrong() == []
    assert coverage.PAGE.read_text() == coverage.page(), "python scripts dev/make_coverage"


ROW = 'ref = "eq. 1", what = "w", '
BROKEN = {
    "no reason": (ROW, "needs a command with a test or a verdict, or else a reason"),
    "a command alone": (ROW + 'command = "herd em"', "needs a command with a test or a verdict"),
    "both": (ROW + 'command = "herd em", tests = ["em/test_gmm.py"], reason = "r"', "or else a reason"),
    "no such file": (ROW + 'command = "herd em", tests = ["em/test_none.py"]', "there is no test em/test_none.py"),
    "no such test": (ROW + 'command = "herd em", tests = ["em/test_gmm.py::test_x"]', "there is no test em/test_gmm.py::test_x"),
    "no such option": (ROW + 'command = "herd em --none", tests = ["em/test_gmm.py"]', "the manual has no em --none"),
    "no such verdict": (ROW + 'command = "herd em", judged = "fig. 99"', "says nothing of fig. 99"),
    "no row for a claim": (ROW + 'command = "herd em", judged = "sec. 6.2"', "no row for the claims of sec. 5.1"),
    "no row": ('ref = "sec. 1", what = "w", reason = "r"', "no row for equation 1"),
}


@pytest.mark.parametrize(("row", "message"), BROKEN.values(), ids=BROKEN)
def test_what_is_wrong_is_told(coverage, tmp_path, monkeypatch, row, message):
    table = tmp_path / "coverage.toml"
    table.write_text(f'intro = ""\n[[document]]\nname = "Makin (2024)"\ntitle = "t"\nnumbered = "1"\nrows = [{{ {row.rstrip(", ")} }}]\n')
    monkeypatch.setattr(coverage, "TABLE", table)
    assert any(message in line for line in coverage.wrong()), coverage.wrong()


def test_ranges_of_equations_are_taken_apart(coverage):
    assert coverage.equations("eq. 2.3–2.5, 2.8, fig. 3.1") == {"2.3", "2.4", "2.5", "2.8"}
    assert coverage.equations("alg. 2.1") == set()
    assert coverage.numbers("9-11") == {"9", "10", "11"}
