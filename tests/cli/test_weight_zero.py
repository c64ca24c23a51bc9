"""A row of weight 0 is no row: files with such rows are learned from and judged as files without them."""

from __future__ import annotations

import json

import numpy as np
import pytest

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(240, 3)) + 4 * (np.arange(240) % 2)[:, None]
WEIGHT = (np.arange(240) % 3).astype(int)  # a third of the rows is absent
COMMANDS = {
    "mixture": ("em", "--components", "2", "--criterion", "bic", "--weights", "weight"),
    "factors": ("em", "--model", "fa", "--components", "1", "--weights", "weight"),
    "weights by name": ("em", "--components", "2", "--weights", "w"),
    "network": ("fit-mrf", "--structure", "chow-liu", "--values", "states", "--smoothing", "1", "--weights", "weight"),
    "regression": ("regress", "--target", "c"),
    "frequencies": ("regress", "--target", "c", "--weight-kind", "frequency"),
}


def write(path, rows, values, name):
    head = f"a,b,c,{name}\n"
    path.write_text(head + "".join(f"{','.join(map(str, row))},{w}\n" for row, w in zip(values[rows].tolist(), WEIGHT[rows], strict=True)))


@pytest.mark.parametrize("case", COMMANDS)
def test_rows_of_weight_0_take_no_part(herd, tmp_path, case):
    command, *options = COMMANDS[case]
    values = (X.mean(axis=0) < X).astype(int) if command == "fit-mrf" else X.round(3)
    name = "w" if "w" in options else "weight"
    write(tmp_path / "all.csv", np.arange(240), values, name)
    write(tmp_path / "some.csv", np.flatnonzero(WEIGHT), values, name)
    rows = []
    for source in ("all.csv", "some.csv"):
        ended = herd(command, source, *options, "-o", "m.h5")
        assert ended.code == 0, ended.err
        (row,) = json.loads(herd("eval", "m.h5", "--format", "json").out)
        rows.append({key: item for key, item in row.items() if isinstance(item, (int, float))})
    assert len(rows[0]) > 4
    assert rows[0] == pytest.approx(rows[1], rel=1e-9, nan_ok=True)
