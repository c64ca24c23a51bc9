"""Large Parquet files are decoded a column at a time into a mapped file: the same table, in the memory of the rows."""

from __future__ import annotations

import decimal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from herdcli import artifacts
from herdcli.artifacts.formats import mapped_table, parquet_files
from herdcli.artifacts.tables.column_roles import ColumnRoles
from herdcli.errors import HerdError, WriteFailed

ROWS = 1000
PEAK = """
import sys
import numpy, pyarrow.parquet
from herdcli import artifacts

def peak():
    return int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) * 1024

artifacts.load(sys.argv[1])
open("/proc/self/clear_refs", "w").write("5")  # resets the peak to the present size
before = peak()
X = artifacts.load(sys.argv[2]).value.X
print((peak() - before) / X.nbytes)
"""


@pytest.fixture
def mapped(monkeypatch):
    """Files of any size are mapped, in pieces of 70 rows."""
    monkeypatch.setattr(mapped_table, "LEAST", 0)
    monkeypatch.setattr(mapped_table, "PIECE_ROWS", 70)


def columns_of_all_kinds() -> pa.Table:
    random = np.random.default_rng(0)
    whole = random.integers(-5, 9, ROWS)
    return pa.table(
        {
            "real": random.standard_normal(ROWS),
            "single": random.standard_normal(ROWS).astype(np.float32),
            "whole": whole,
            "gaps": pa.array(whole, mask=random.random(ROWS) < 0.2),
            "true": random.random(ROWS) < 0.5,
            "text": [f"é{k}" * (k % 3) for k in range(ROWS)],
            "decimal": [decimal.Decimal(k) / 4 for k in range(ROWS)],
            "list": [[k, k + 1] for k in range(ROWS)],
            "pair": [{"a": k, "b": str(k)} for k in range(ROWS)],
        }
    )


@pytest.mark.parametrize("group", [ROWS, 333])
def test_a_mapped_table_equals_the_table(tmp_path, mapped, group):
    table = columns_of_all_kinds()
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=group)
    with pq.ParquetFile(tmp_path / "rows.parquet") as file:
        found = mapped_table.map_table(file)
        assert found is not None
        for _ in range(2):  # pages that were dropped are read again
            assert found.table.equals(file.read(), check_metadata=True)
            found.table.validate(full=True)
            found.release()


def test_small_tables_dictionaries_and_single_columns_are_not_mapped(tmp_path, monkeypatch):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": np.arange(9.0), "b": np.arange(9.0)}), path)
    assert mapped_table.map_table(pq.ParquetFile(path)) is None
    monkeypatch.setattr(mapped_table, "LEAST", 0)
    assert mapped_table.map_table(pq.ParquetFile(path)) is not None
    for table in ({"a": np.arange(9.0)}, {"a": np.arange(9.0), "b": pa.array(["x", "y", "x"] * 3).dictionary_encode()}):
        pq.write_table(pa.table(table), path)
        assert mapped_table.map_table(pq.ParquetFile(path)) is None


def test_a_full_disk_of_temporary_files_is_no_obstacle(tmp_path, mapped, monkeypatch):
    pq.write_table(pa.table({"a": np.arange(9.0), "b": np.arange(9.0)}), tmp_path / "rows.parquet")

    def full(*given: object) -> None:
        raise WriteFailed("writing failed (No space left on device)")

    monkeypatch.setattr(mapped_table, "write_array", full)
    assert mapped_table.map_table(pq.ParquetFile(tmp_path / "rows.parquet")) is None
    assert artifacts.load(str(tmp_path / "rows.parquet")).value.X.tolist() == [[k, k] for k in range(9)]


@pytest.mark.parametrize("missing", [False, True])
def test_the_data_set_of_a_mapped_table_is_the_same(tmp_path, monkeypatch, missing):
    table = columns_of_all_kinds().drop_columns(["list", "pair"] if missing else ["list", "pair", "gaps"])
    path = str(tmp_path / "rows.parquet")
    pq.write_table(table.append_column("y", pa.array(["no", "yes"] * (ROWS // 2))), path)
    plain = artifacts.load(path, missing=missing).value
    monkeypatch.setattr(mapped_table, "LEAST", 0)
    found = artifacts.load(path, missing=missing).value
    assert np.isnan(found.X).any() == missing
    np.testing.assert_array_equal(found.X, plain.X)
    assert (found.X.dtype, found.feature_names, found.class_names) == (plain.X.dtype, plain.feature_names, plain.class_names)
    assert found.y.tolist() == plain.y.tolist()


def test_reading_takes_the_memory_of_the_rows(tmp_path):
    """80 MB of rows in one row group: Arrow's own reader would take more than 400 MB."""
    X = np.random.default_rng(0).standard_normal((400_000, 50), dtype=np.float32)
    whole = pa.table({f"c{j}": X[:, j] for j in range(50)})
    pq.write_table(whole.slice(0, 100), tmp_path / "few.parquet")
    pq.write_table(whole, tmp_path / "many.parquet", row_group_size=len(X))
    words = [sys.executable, "-c", PEAK, str(tmp_path / "few.parquet"), str(tmp_path / "many.parquet")]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    assert 1 <= float(ended.stdout) < 1.3


NAMES = ["a", "b", "a.b", "y", "split", "weight", "", "Unnamed: 0", "__index_level_0__", "x1", "3", "x*", "none"]


@pytest.mark.parametrize("seed", range(40))
def test_reading_fewer_columns_gives_what_leaving_them_out_gives(tmp_path, monkeypatch, seed):
    """Names of indices, places, patterns and roles mean the same, whether or not the other columns were read."""
    random = np.random.default_rng(seed)
    names = random.choice(NAMES, size=random.integers(2, 8), replace=seed % 7 == 0).tolist()
    table = columns_of_all_kinds().slice(0, 12)
    kinds = random.choice([*table.column_names, "record"], size=len(names)).tolist()
    record = pa.array([{"p": 1.0, "q": float(row)} for row in range(12)])
    columns = [record if kind == "record" else table.column(kind).combine_chunks() for kind in kinds]
    pq.write_table(pa.Table.from_arrays(columns, names=names), tmp_path / "rows.parquet")
    texts = random.choice([*names, "1", "2:3", "x*", f"{names[0]}:{names[-1]}"], size=3).tolist()
    roles = ColumnRoles(columns=tuple(texts[: seed % 3]), drop=() if seed % 2 and seed % 3 else tuple(texts[2:]))

    def found() -> object:
        notes: list[str] = []
        try:
            value = artifacts.load(str(tmp_path / "rows.parquet"), roles=roles, note=notes.append, missing=True).value
        except HerdError as error:
            return error.message, error.hint
        return value.X.tolist(), value.feature_names, str(value.y), str(value.split), str(value.weight), str(value.columns), notes

    fewer = found()
    monkeypatch.setattr(parquet_files, "unread_columns", lambda *given: [])
    assert str(fewer) == str(found())
