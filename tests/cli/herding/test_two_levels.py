"""Data in two values of any coding: a row has the features of its pattern, whatever rows stand beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from herdcli import artifacts


def text(rows: list[str], low: int, high: int) -> str:
    cells = {"0": str(low), "1": str(high)}
    return "a,b,c\n" + "".join(",".join(cells[bit] for bit in row) + "\n" for row in rows)


@pytest.mark.parametrize("coding", [(0, 1), (-1, 1), (1, 2), (3, 7), (-7, -3)])
def test_features_of_a_row_do_not_depend_on_the_other_rows(herd: Callable, tmp_path: Path, coding: tuple[int, int]) -> None:
    (tmp_path / "train.csv").write_text(text(["101", "010", "110", "001", "100", "011"], *coding))
    assert herd("fit-rbm", "train.csv", "--hidden", "2", "--epochs", "3", "--learning-rate", "1", "-o", "model.h5").code == 0

    def features(rows: list[str]) -> list[str]:
        (tmp_path / "rows.csv").write_text(text(rows, *coding))
        ended = herd("apply", "model.h5", "rows.csv", "--want", "features", "-o", "features.csv")
        assert ended.code == 0
        return (tmp_path / "features.csv").read_text().splitlines()[1:]

    together = features(["000", "111", "101"])
    assert len(set(together)) == 3
    assert [features([row]) for row in ("000", "111", "101")] == [[line] for line in together]


@pytest.mark.parametrize("units", ["binary", "spin", "rate:2"])
@pytest.mark.parametrize("form", ["csv", "h5"])
def test_samples_of_a_model_of_grey_rows_are_read_as_what_they_are(herd: Callable, tmp_path: Path, units: str, form: str) -> None:
    """Their ends are those of units, in a model whose own rows were from 0 to 16."""
    (tmp_path / "train.csv").write_text("a,b,c\n" + "0,16,3\n16,0,9\n12,1,0\n5,16,16\n" * 5)
    told = herd("fit-rbm", "train.csv", "--range", "0,16", "--units", units, "--hidden", "2", "--epochs", "3", "-o", "model.h5")
    assert told.code == 0, told.err
    sample = f"drawn.{form}"
    assert herd("sample", "model.h5", "-m", "20", "--burn-in", "20", "-o", sample).code == 0
    told = herd("sample", "model.h5", "--given", sample, "--burn-in", "2", "-o", "again.h5")
    low = -1 if units == "spin" else 0
    line = f"values are read as unit states from {low} to 1, although the training rows had values from 0 to 16"
    assert f"sample: {sample}: {line}\n" in told.err
    drawn, again = artifacts.load(str(tmp_path / sample)).value.X, artifacts.load(str(tmp_path / "again.h5")).value.X
    np.testing.assert_array_equal(again, drawn)
    assert line not in herd("apply", "model.h5", "train.csv", "-o", "features.h5").err


def test_rows_that_are_all_off_are_told(herd: Callable, tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("a,b,c\n" + "0,16,3\n16,0,9\n12,1,0\n5,16,16\n" * 5)
    assert herd("fit-rbm", "train.csv", "--range", "0,16", "--hidden", "2", "--epochs", "3", "-o", "model.h5").code == 0
    (tmp_path / "dark.csv").write_text("a,b,c\n0,5,3\n6,0,4\n")
    told = herd("apply", "model.h5", "dark.csv", "-o", "features.h5")
    assert told.code == 0
    assert (
        "apply: warning: dark.csv: all values are on the same side of the threshold 6.4; "
        "the training rows had values from 0 to 16\n" in told.err
    )
