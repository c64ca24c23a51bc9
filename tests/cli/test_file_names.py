"""Names of files that a shell can make and a program easily trips over."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

NAMES = [" before", "after ", "two\nlines", "--help", "漢字 ü", "a'b\"c;$(d)", "tab\there", os.fsdecode(b"no utf-8 \xff")]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_read_written_and_shown(herd: Callable, quick: Callable, small: Path, name: str) -> None:
    small.rename(small.with_name(name))
    assert herd(*quick("-q", "-o", f"o{name}", "--", name)).code == 0
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
