"""Codes of verdicts: one for each finding, all different, all on the page of `herd eval`, and beside the words in JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from herdcli.evaluation import table, verdicts
from herdcli.evaluation.verdict_codes import CODES, verdict_code

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide.md"


def test_every_verdict_has_a_code_of_its_own():
    assert set(CODES) == {*verdicts.KNOWN, "WRONG"}
    assert len(set(CODES.values())) == len(CODES)
    assert all(re.fullmatch("[a-z]+(_[a-z]+)*", code) for code in CODES.values())


def test_the_page_has_every_code():
    _, _, text = PAGE.read_text(encoding="utf-8").partition("| `verdict` | `verdict_code` | meaning |\n")
    rows = re.findall(r"^\| `([^`]+)` \| `([a-z_]+)` \| [^|]+ \|$", text.partition("\n\n")[0], re.MULTILINE)
    assert dict(rows) == CODES


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        ("ok", "ok"),
        ("worse than independent; dead units", "worse_than_independent; dead_units"),
        ("log Z above its bound", "log_z_above_bound"),
        ("words of another version", None),
        ("ok; words of another version", None),
        (None, None),
    ],
)
def test_codes_of_verdicts(verdict, code):
    assert verdict_code(verdict) == code


def test_json_has_the_code_after_the_verdict_and_other_formats_do_not():
    rows = [{"file": "a.h5", "verdict": "overfits; not converged", "error": 0.5}, {"file": "b.h5", "error": 0.25}]
    found = json.loads(table.to_json(rows))
    assert list(found[0]) == ["file", "verdict", "verdict_code", "error"]
    assert [row["verdict_code"] for row in found] == ["overfits; not_converged", None]
    assert "verdict_code" not in table.to_csv(rows) + table.to_tsv(rows)
    assert "verdict_code" not in table.to_json([{"file": "b.h5", "error": 0.25}])
