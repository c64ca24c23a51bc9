"""`herd sample` of mixtures and factors."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Run = Callable[..., Any]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 2)) + 6 * (np.arange(60) % 2)[:, None]
    path = tmp_path / "rows.csv"
    path.write_text("u,v,y\n" + "".join(f"{a:.3f},{b:.3f},{'nw'[k % 2]}\n" for k, (a, b) in enumerate(X)))
    return path


def test_rows_of_a_mixture_carry_their_class(rows: Path, run: Run) -> None:
    assert run("em", rows, "--per-class", "-q", "-o", "m.h5").code == 0
    told = run("sample", "m.h5", "-m", "40", "--thin", "3", "--burn-in", "9", "-o", "drawn.csv")
    assert told.code == 0, told.err
    assert "sample: 40 rows × 2 columns with their classes, " in told.err
    assert "warning: --burn-in has no effect with a mixture model, whose rows are drawn at once\n" in told.err
    with open(rows.parent / "drawn.csv", newline="") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == ["u", "v", "y"]
    assert {(float(row["u"]) > 3, row["y"]) for row in found} == {(False, "n"), (True, "w")}


def test_factors_are_drawn_from_and_principal_components_are_not(rows: Path, run: Run) -> None:
    assert run("em", rows, "--model", "ppca", "--components", "1", "-q", "-o", "f.h5").code == 0
    told = run("sample", "f.h5", "-m", "1", "-o", "drawn.csv")
    assert "sample: 1 row × 2 columns, " in told.err
    assert run("em", rows, "--model", "pca", "-q", "-o", "p.h5").code == 0
    refused = run("sample", "p.h5", "-o", "no.csv")
    hint = "hint: herd em --model ppca learns one with the same axes\n"
    assert (refused.code, refused.err) == (2, f"herd sample: pca is no distribution to draw from\n{hint}")
