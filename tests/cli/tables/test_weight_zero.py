"""A row of weight 0 is no row: files with such rows are learned from and judged as files without them."""

from __future__ import annotations

import json

import h5py
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
    "on disk": ("em", "--components", "2", "--on-disk"),
    "one pass": ("regress", "--target", "c", "--one-pass"),
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
    parts = {"all": np.arange(240), "some": np.flatnonzero(WEIGHT)}
    rows, suffix = [], ".h5" if "--on-disk" in options else ".csv"
    for part, chosen in parts.items():
        write(tmp_path / f"{part}.csv", chosen, values, name)
        with h5py.File(tmp_path / f"{part}.h5", "w") as file:
            file["X"], file["weight"] = values[chosen], WEIGHT[chosen].astype(float)
    for source in (f"{part}{suffix}" for part in parts):
        ended = herd(command, source, *options, "-o", "m.h5")
        assert ended.code == 0, ended.err
        (row,) = json.loads(herd("eval", "m.h5", "--format", "json").out)
        rows.append({key: item for key, item in row.items() if isinstance(item, (int, float))})
    assert len(rows[0]) > 4
    assert rows[0] == pytest.approx(rows[1], rel=1e-9, nan_ok=True)
