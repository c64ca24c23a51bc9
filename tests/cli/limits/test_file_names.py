"""Names of files that a shell can make and a program easily trips over."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

NAMES = [" before", "after ", "two\nlines", "--help", "漢字 ü", "a'b\"c;$(d)", "tab\there", os.fsdecode(b"no utf-8 \xff")]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_read_written_and_shown(herd: Callable, quick: Callable, small: Path, name: str) -> None:
    small.rename(small.with_name(name))
    assert herd(*quick("-q", "--algorithm", "cd", "-o", f"o{name}", "--", name)).code == 0
    assert herd("check", "--", f"o{name}").code == 0
    assert herd("info", "--", f"o{name}", env={"PYTHONIOENCODING": "utf-8"}).code == 0
    for format in ("tsv", "json"):
        ended = herd("eval", "--format", format, "--", f"o{name}", env={"PYTHONIOENCODING": "utf-8"})
        assert (ended.code, ended.err) == (0, "")
        if format == "json":
            shown = f"o{name}".encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            assert json.loads(ended.out)[0]["file"] == shown
    assert herd("eval", "-q", "-o", "report.h5", "--", f"o{name}").code == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_named_on_one_line(herd: Callable, name: str) -> None:
    ended = herd("eval", "--", name)
    assert (ended.code, ended.err.count("\n")) == (66, 1)
    assert ended.err.endswith(": there is no such file\n")


def test_no_name_or_label_steers_the_terminal(herd: Callable, write: Callable, tmp_path: Path) -> None:
    """An escape sequence in a file's name, a class name or a source is shown and not obeyed; a name with a line end stays on its line."""
    evil = "\x1b[31mred\x1b]0;title\x07\x9b2J\u202e\nfit-rbm: done"
    X = np.arange(24).reshape(12, 2) % 3 / 2.0
    write(tmp_path / "rows.h5", {"X": X, "y": np.array([evil, "b"] * 6, dtype=object), "split": np.arange(12, dtype=np.uint8) % 3})
    assert herd("nherd-train", "-q", "rows.h5", "-o", "c.h5").code == 0
    (tmp_path / evil).write_bytes((tmp_path / "c.h5").read_bytes())
    for line in (["info", evil], ["info", "--format", "json", evil], ["eval", evil], ["eval", "--confusion", evil], ["check", f"no{evil}"]):
        ended = herd(*line, env={"PYTHONIOENCODING": "utf-8"})
        shown = ended.out.decode() + ended.err
        assert "red" in shown
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", shown), line
        assert not re.search("^fit-rbm: done", shown, re.MULTILINE), line
        if "json" in line:
            assert json.loads(ended.out)[0]["file"] == evil


@pytest.mark.parametrize("line", [["fit-rbm", "rows.csv", "--hidden", "1\nhint: x"], ["convert", "--x\nhint: y"], ["a\nhint: z"]])
def test_an_argument_with_a_line_end_stays_on_its_line(run: Callable, line: list[str]) -> None:
    ended = run(*line)
    assert ended.code == 2
    assert "\\nhint: " in ended.err
    assert not re.search("^hint: [xyz]", ended.err, re.MULTILINE)


def test_columns_with_a_line_end_are_quoted(run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text('"a\nb",c\n1,2\n3,4\n')
    ended = run("convert", "rows.csv", "--columns", "a\nb", "-o", "x.h5")
    assert ended.code == 2
    assert "Traceback" not in ended.err
    assert "put names with line ends in double quotes" in ended.err
    assert run("convert", "rows.csv", "--columns", '"a\nb"', "-q", "-o", "x.csv").code == 0
    assert Path("x.csv").read_text() == '"a\nb"\n1\n3\n'


@pytest.mark.parametrize(
    "line", [["kernel-herd", "--embedding", "nystrom:²"], ["kernel-herd", "--embedding", "sample:¹"], ["herd", "--step-sizes", "3,²,1"]]
)
def test_raised_digits_are_no_numbers(run: Callable, line: list[str]) -> None:
    ended = run(line[0], "rows.csv", *line[1:], "-o", "x.h5")
    assert ended.code == 2
    assert f"Invalid value for '{line[1]}'" in ended.err
