"""Data in two values of any coding: a row has the features of its pattern, whatever rows stand beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


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
