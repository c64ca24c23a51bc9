"""herd sample --given and herd apply --want completed: rows with gaps, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from herdcli import artifacts
from herdcli.rbm.sampling.imputation import impute_rows

Run = Callable[..., Any]
TORN = "1,,1,,1,1\n,0,,0,0,0\n1,1,1,1,1,1\n"
ROWS = np.array([[1, np.nan, 1, np.nan, 1, 1], [np.nan, 0, np.nan, 0, 0, 0], [1, 1, 1, 1, 1, 1]])


@pytest.fixture
def fitted(small: Path, run: Run, tmp_path: Path) -> str:
    """m.h5, one model of 6 columns, and torn.csv."""
    (tmp_path / "torn.csv").write_text("a,b,c,d,e,f\n" + TORN)
    assert run("fit-rbm", small, "--hidden", "3", "--epochs", "20", "-o", "m.h5").code == 0
    return "m.h5"


def test_gaps_are_filled_with_expectations(fitted: str, run: Run) -> None:
    told = run("apply", fitted, "torn.csv", "--want", "completed", "-o", "whole.h5")
    assert told.code == 0, told.err
    assert "3 rows × 6 columns, 4 entries filled in" in told.err
    found = artifacts.load("whole.h5").value
    expected = impute_rows(artifacts.load(fitted).value.harmonium(), ROWS, ~np.isnan(ROWS))
    np.testing.assert_allclose(found.X, expected, atol=1e-12)
    assert tuple(found.value_range) == (0.0, 1.0)


@pytest.mark.parametrize("mask", [None, "0,1,1,1,1,1\n", "0,1,1,1,1,1\n1,0,1,1,1,1\n1,1,1,1,1,1\n"])
def test_what_is_given_is_held(fitted: str, run: Run, tmp_path: Path, mask: str | None) -> None:
    known = ~np.isnan(ROWS)
    if mask:
        (tmp_path / "mask.csv").write_text("a,b,c,d,e,f\n" + mask)
        known &= np.array([line.split(",") for line in mask.split()], dtype=int) != 0
    more = ("--mask", "mask.csv") if mask else ()
    told = run("sample", fitted, "--given", "torn.csv", "-m", "4", "--burn-in", "5", *more, "-o", "drawn.h5")
    assert told.code == 0, told.err
    X = artifacts.load("drawn.h5").value.X
    assert X.shape == (12, 6)
    held = np.repeat(known, 4, axis=0)
    np.testing.assert_array_equal(X[held], np.repeat(ROWS, 4, axis=0)[held])
    assert set(np.unique(X)) <= {0, 1}


def test_each_row_is_drawn_once_by_default(fitted: str, run: Run) -> None:
    assert run("sample", fitted, "--given", "torn.csv", "--burn-in", "5", "-o", "drawn.h5").code == 0
    assert artifacts.load("drawn.h5").value.X.shape == (3, 6)


def test_what_cannot_be_is_said(fitted: str, run: Run, small: Path, tmp_path: Path) -> None:
    (tmp_path / "mask.csv").write_text("a,b,c,d,e,f\n1,1,1,1,1,1\n1,1,1,1,1,1\n")
    told = run("sample", fitted, "--given", "torn.csv", "--given-mask", "mask.csv", "-o", "x.h5")
    assert (told.code, told.err) == (65, "herd sample: mask.csv: the mask has 2 × 6 entries, but the rows of torn.csv have 3 × 6\n")
    told = run("sample", fitted, "--given-mask", "mask.csv", "-m", "2", "--burn-in", "2", "-o", "x.h5")
    assert told.err.splitlines()[0] == "sample: warning: --given-mask has no effect without --given"
    assert run("fit-rbm", small, "--per-class", "--hidden", "2", "--epochs", "2", "-o", "pc.h5").code == 0
    hint = "hint: fit one: herd fit-rbm without --per-class and --layers\n"
    told = run("sample", "pc.h5", "--given", "torn.csv", "-o", "x.h5")
    assert (told.code, told.err) == (2, f"herd sample: --given needs a single rbm; this is 2 models, one for each class\n{hint}")
    told = run("apply", "pc.h5", "torn.csv", "--want", "completed", "-o", "x.h5")
    assert (told.code, told.err) == (2, f"herd apply: --want completed needs a single rbm; this is 2 models, one for each class\n{hint}")
