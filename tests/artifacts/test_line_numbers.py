"""Rows of text tables are told by the lines that an editor shows, those of arrays as NumPy counts them."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from herdcli.artifacts import line_numbers

ODD = '# a comment\n\na,"b\nc"\n1,2\n\n3,"4\n5"\n6,7\n'  # a title and a cell that take two lines, blank lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a,b\n1,2\n3,4\n", [2, 3]),
        ("1,2\n3,4\n", [1, 2]),
        ("a,b\r\n1,2\r\n\r\n3,4\r\n", [2, 4]),
        (ODD, [5, 7, 9]),
        ("a  b\n1  2\n3  4\n", [2, 3]),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_lines_are_those_of_an_editor(tmp_path, text, lines, packed):
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    rows = list(range(len(lines)))
    assert line_numbers.line_numbers_by_row(str(path), rows) == dict(zip(rows, lines, strict=True))


def test_messages(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,2\n" * 20)
    for before, after in (
        ("2 NaN rows (first: row 17)", "2 NaN rows (first: line 19)"),
        ("3 rows have probability 0 (row 0, 2, 4): …", "3 rows have probability 0 (line 2, 4, 6): …"),
        ("rows 3 to 5 of column 7", "lines 5 to 7 of column 7"),
        ("row 20 is not there", "row 20 is not there"),
        ("4 rows of 9", "4 rows of 9"),
    ):
        assert line_numbers.with_line_numbers(before, str(path)) == after


def test_rows_of_arrays_and_pipes_are_counted_as_before(tmp_path):
    np.save(tmp_path / "t.npy", np.eye(3))
    (tmp_path / "t.svm").write_text("1 1:2\n0 2:3\n")
    for name in ("t.npy", "t.svm", "absent.csv", "stdin", ""):
        assert line_numbers.with_line_numbers("in row 1", str(tmp_path / name) if "." in name else name) == "in row 1"


def test_rows_of_a_stretch_are_numbered_among_all():
    assert line_numbers.shift_row_numbers("column 'c3' has 12 values (first: row 44)", 256) == "column 'c3' has 12 values (first: row 300)"
