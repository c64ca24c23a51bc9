"""The same rows as HDF5, text, Parquet and several Parquet files; blocks of few rows; and the shards of a run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from herdcli.cli.frame.rows import unit_rows
from herdcli.numerics import block_statistics


def few_rows(monkeypatch: pytest.MonkeyPatch, *readers: ModuleType) -> None:
    """Blocks of eight rows, for sums, for the reader of units, and for modules that read rows block by block; no waiting for the disk."""
    for module in (block_statistics, unit_rows, *readers):
        monkeypatch.setattr(module, "BLOCK", 8)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def write(X: np.ndarray, names: list[str], columns: dict[str, np.ndarray], lines: Callable[[Any], str] = str) -> tuple[str, ...]:
    """Names of files, in this folder, of rows X (n, D) and further columns (n,); `lines` writes a value as text."""
    with h5py.File("rows.h5", "w") as file:
        file["X"], file["feature_names"] = X, names
        for name, column in columns.items():
            file[name] = column.astype(h5py.string_dtype()) if column.dtype.kind == "U" else column
    table = {name: X[:, i] for i, name in enumerate(names)} | columns
    rows = zip(*(each.tolist() for each in table.values()), strict=True)
    Path("rows.csv").write_text("\n".join([",".join(table), *(",".join(map(lines, row)) for row in rows)]) + "\n")
    parquet.write_table(pa.table(table), "rows.parquet", row_group_size=13)
    for first, last in ((0, 11), (11, 40), (40, len(X))):
        parquet.write_table(pa.table(table).slice(first, last - first), f"part-{first:02}.parquet")
    return "rows.h5", "rows.csv", "rows.parquet", "part-*.parquet"


def shards(run: Callable[..., Any], line: tuple[object, ...] | list[object], count: int) -> list[str]:
    """The names of shards of a run."""
    names = [f"shard-{index}.h5" for index in range(1, count + 1)]
    for index, name in enumerate(names, 1):
        ended = run(*line, "--shard", f"{index}/{count}", "-q", "-o", name)
        assert ended.code == 0, ended.err
    return names
