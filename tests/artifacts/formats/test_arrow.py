"""pyarrow's columns and NumPy's vectors say the same, whichever way, slice and type."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from herdcli.artifacts.formats.arrow import numpy_dtype, to_arrow, to_numpy, to_numpy_filled

NUMBERS = ("int8", "uint16", "int64", "uint64", "float16", "float32", "float64", "bool")


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_come_back_from_every_slice_and_chunk(name):
    values = np.array([1, 0, 1, 1, 0, 0, 0, 1, 1, 0], dtype=name)
    column = to_arrow(values)
    assert column.type == pa.from_numpy_dtype(values.dtype)
    column.validate(full=True)
    for arrow, expected in (
        (column, values),
        (column[1:9], values[1:9]),
        (column[10:], values[10:]),
        (pa.chunked_array([column, column[3:]]), np.concatenate([values, values[3:]])),
        (pa.chunked_array([], column.type), values[:0]),
        (to_arrow(values[::3]), values[::3]),
    ):
        found = to_numpy(arrow)
        assert found.dtype == expected.dtype == numpy_dtype(arrow.type)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["int8", "int32", "float32", "float64"])
def test_empty_places_are_nan_or_what_is_asked_for(name):
    values, absent = np.arange(11).astype(name), np.arange(11) % 3 == 1
    column = to_arrow(values, absent)
    assert column.null_count == 4
    column.validate(full=True)
    expected = np.where(absent, np.nan, values)
    for start in (0, 1, 4):
        found = to_numpy(pa.chunked_array([column[start:], column]))
        assert found.dtype == (np.float32 if name == "float32" else np.float64)
        np.testing.assert_array_equal(found, [*expected[start:], *expected])
        np.testing.assert_array_equal(to_numpy_filled(column[start:], -1), np.where(absent, -1, values)[start:])


def test_texts_and_absent_truths_go_through():
    texts = np.array(["", "é", "a\0", "long" * 9], dtype=object)
    assert to_arrow(texts).to_pylist() == to_numpy(to_arrow(texts)).tolist() == texts.tolist()
    assert to_arrow(np.array(["b", "ü"])).to_pylist() == ["b", "ü"]
    truths = to_arrow(np.array([True, False, True]), np.array([False, True, False]))
    assert truths.to_pylist() == to_numpy(truths).tolist() == [True, None, True]
    assert to_arrow(np.array([None, "x"], dtype=object)).to_pylist() == [None, "x"]


SCRIPT = """
import sys
from contextlib import suppress
from herdcli.cli.main import main
asked = []
class Finder:
    def find_spec(self, name, path=None, target=None):
        asked.append(name)
sys.meta_path.insert(0, Finder())
for line in (["convert", "a.csv", "-o", "b.parquet"], ["convert", "b.parquet", "-o", "c.csv"]):
    with suppress(SystemExit):
        main(line)
assert "pyarrow.parquet" in asked and "pyarrow.csv" in asked
print([name for name in asked if name == "pandas"])
"""


def test_tables_are_read_and_written_without_pandas(tmp_path):
    (tmp_path / "a.csv").write_text("u,v,y,split\n1,.5,cat,train\n2,1.5,dog,test\n3,.25,cat,train\n")
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path)
    assert ended.stdout == "[]\n", ended.stderr
    assert (tmp_path / "c.csv").read_text().replace('"', "") == "u,v,y,split\n1,0.5,cat,train\n2,1.5,dog,test\n3,0.25,cat,train\n"
