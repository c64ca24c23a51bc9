"""Rows that are valid and cannot be reckoned with as they are, and arithmetic that overflows: one line, never a traceback."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

LINES = (
    ("ica", "--label", "label"),
    ("kernel-herd", "-m", "3"),
    ("kernel-herd", "-m", "3", "--kernel", "linear"),
    ("nherd-train", "--label", "label"),
    ("em", "--components", "2"),
    ("em", "--model", "pca", "--components", "1"),
    ("regress", "--target", "b"),
)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Sixty rows around 1e300."""
    rows = np.random.default_rng(0).normal(size=(60, 3)) * 1e300
    lines = [",".join(f"{value:.17g}" for value in row) + f",{int(row[0] > 0)}" for row in rows]
    (tmp_path / "large.csv").write_text("\n".join(["a,b,c,label", *lines]))
    lines = [f"{1 if row[0] > 0 else -1} 1:{row[0]:g} 2:{row[1]:g}" for row in rows]
    (tmp_path / "large.svm").write_text("\n".join(lines))
    return tmp_path / "large.csv"


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_rows_too_large_to_be_squared_are_refused(herd: Callable[..., Any], large: Path, line: tuple[str, ...]) -> None:
    ended = herd(line[0], "large.csv", *line[1:], "-o", "out.h5")
    assert ended.code == 65
    assert "large.csv: /X has the value -2.39823e+300, but absolute values above 1e+100 are too large" in ended.err
    assert "Warning" not in ended.err


def test_a_stream_of_such_rows_is_refused(herd: Callable[..., Any], large: Path) -> None:
    ended = herd("nherd-train", "large.svm", "--C", "1", "-o", "out.h5")
    assert (ended.code, "large.svm: has the value -2.3982" in ended.err) == (65, True), ended.err


def test_such_rows_are_converted_all_the_same(herd: Callable[..., Any], large: Path) -> None:
    assert herd("convert", "large.csv", "-o", "large.h5").code == 0
    assert herd("info", "large.h5").code == 0


@pytest.mark.parametrize("line", [("ica", "--algorithm", "ml"), ("kernel-herd", "-m", "3"), ("em", "--components", "2")], ids=" ".join)
def test_boolean_rows_are_zeros_and_ones(herd: Callable[..., Any], tmp_path: Path, line: tuple[str, ...]) -> None:
    rows = np.random.default_rng(0).random((50, 4)) < 0.5
    for name, values in (("bool.h5", rows), ("whole.h5", rows.astype(np.uint8))):
        with h5py.File(tmp_path / name, "w") as file:
            file["X"] = values
    made = [herd(line[0], name, *line[1:], "-o", f"of-{name}") for name in ("bool.h5", "whole.h5")]
    assert [ended.code for ended in made] == [0, 0], made[0].err
    with h5py.File(tmp_path / "of-bool.h5") as ours, h5py.File(tmp_path / "of-whole.h5") as theirs:
        names = [name for name in ours if isinstance(ours[name], h5py.Dataset) and ours[name].dtype.kind == "f"]
        assert names
        assert all(np.array_equal(ours[name][()], theirs[name][()], equal_nan=True) for name in names)


def test_an_overflow_that_nobody_foresaw_is_told_in_one_line(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from herdcli.cli import main

    def overflowing(args: object) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            for _ in range(3):
                np.float64(1e300) * np.float64(1e300)
        return 0

    shown: list[str] = []
    monkeypatch.setattr(main, "_print_error", lambda label, message, hint, code: shown.append(f"{label}: {message}") or code)
    tell = main._show_warnings("herd eval")
    monkeypatch.setattr(warnings, "showwarning", tell)
    overflowing(())
    assert [line.rpartition(" (")[0] for line in shown] == ["herd eval: warning: overflow encountered in scalar multiply"]


def test_warnings_of_libraries_are_one_line(monkeypatch, capsys):
    from herdcli.cli import main

    monkeypatch.setattr(warnings, "showwarning", main._show_warnings("herd convert"))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("an old header\nwas \x1b[31mread", UserWarning, stacklevel=1)
    line = r"herd convert: warning: an old header was \\u001b\[31mread \(test_hostile_values.py:\d+\)\n"
    assert re.fullmatch(line, capsys.readouterr().err)
