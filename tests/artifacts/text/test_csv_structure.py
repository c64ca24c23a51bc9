"""Every line and every column of CSV is accounted for: quotes, separators that are one too many, widths, lines that are no rows."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from herdcli.artifacts import load
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.rows import block_reader
from herdcli.artifacts.text import line_index, wide_csv
from herdcli.artifacts.text.csv_structure import StructureCheck, TransformedStream, buffer_stream
from herdcli.errors import DataError


def _load(path: Path, text: str, **options: object) -> tuple[Dataset, list[str]]:
    told: list[str] = []
    path.write_bytes(text.encode())
    return load(str(path), note=told.append, account=lambda line, complete: told.append(line), **options).value, told  # type: ignore[arg-type]


def _refused(path: Path, text: str) -> DataError:
    with pytest.raises(DataError) as raised:
        _load(path, text)
    return raised.value


ROWS = [f"{row},{row % 7},{'lr'[row % 2]}" for row in range(1000)]


def _with(row: int, line: str, more: tuple[int, str] | None = None) -> str:
    rows = list(ROWS)
    rows[row] = line
    if more:
        rows[more[0]] = more[1]
    return "a,b,y\n" + "\n".join(rows) + "\n"


@pytest.mark.parametrize("row", [0, 1, 500, 999])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_quote_that_is_never_closed_is_refused_with_its_line(tmp_path: Path, row: int, end: str) -> None:
    """Lines are counted from 1, the titles among them."""
    text = _with(row, f'{row},3,"l').replace("\n", end)
    error = _refused(tmp_path / "a.csv", text)
    assert error.message == f"the quote that opens in line {row + 2} is never closed"
    assert error.exit_code == 65


def test_two_quotes_with_rows_between_them_are_refused(tmp_path: Path) -> None:
    """What lies between would be one cell."""
    error = _refused(tmp_path / "a.csv", _with(500, '500,3,"l', (700, '700,3,l"')))
    assert error.message == "the quoted cell that begins in line 502 contains whole rows, so a quote is not closed"


def test_text_behind_a_closing_quote_is_refused(tmp_path: Path) -> None:
    """It would belong to the cell."""
    error = _refused(tmp_path / "a.csv", _with(20, '20,3,"l" or "r"x', None))
    assert error.message == "the quoted cell that begins in line 22 is followed by other text in its line" or "line 22" in error.message


def test_quotes_across_the_pieces_of_a_stream_are_followed() -> None:
    """Whatever the places where a text is cut."""
    text = b'a,"b ""c""\nd",e\n1,"2",3\n' * 50
    for size in (1, 2, 3, 7, 64):
        seen = StructureCheck(",", 3, where="")
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        assert b"".join([*(seen.change(piece, False) for piece in pieces), seen.change(b"", True)]) == text
        assert seen.count == 150
    with pytest.raises(DataError, match="line 3 is never closed"):
        buffer_stream(TransformedStream(io.BytesIO(b'a,b\n1,2\n3,"4\n5,6\n'), StructureCheck(",", 2, where="").change)).read()


def test_quoted_cells_may_hold_lines_separators_and_quotes(tmp_path: Path) -> None:
    """As other programs write text."""
    text = 'a,note,y\n1,"first\nsecond, with comma",l\n2,"a ""word""",r\n3,"x\n\ny",l\n4,"x\n\ny",r\n'
    data, told = _load(tmp_path / "a.csv", text)
    np.testing.assert_array_equal(data.X, [[1], [2], [3], [4]])
    assert data.class_names == ["l", "r"]
    assert any("10 lines, 4 rows, 3 columns: 1 feature, labels 'y'; not used: note" in line for line in told)


def test_a_quote_inside_a_cell_without_quotes_is_a_character(tmp_path: Path) -> None:
    """5" is five inches."""
    data, _ = _load(tmp_path / "a.csv", 'a,size,y\n1,5",l\n2,6",r\n')
    np.testing.assert_array_equal(data.X, [[1], [2]])
    data, _ = _load(tmp_path / "a.csv", 'a,b\n1,5"2\n3,6"1\n5,7"1\n')
    np.testing.assert_array_equal(data.X, [[1], [3], [5]])


def test_separators_at_the_ends_of_rows_alone_shift_nothing(tmp_path: Path) -> None:
    """The columns are those that the titles name."""
    data, told = _load(tmp_path / "a.csv", "a,b,y\n1,2,left,\n3,4,right,\n")
    np.testing.assert_array_equal(data.X, [[1, 2], [3, 4]])
    assert (data.feature_names, data.class_names) == (["a", "b"], ["left", "right"])
    assert "left out the separator at the end of each row" in told[0]
    error = _refused(tmp_path / "a.csv", "a,b,y\n" + "1,2,left,\n" * 200 + "3,4,right,9\n")
    assert error.message == "row 200 has 4 values, but the first line names 3 columns"


def test_rows_with_a_value_more_than_there_are_titles_are_refused(tmp_path: Path) -> None:
    """Unless the first cells name the rows."""
    error = _refused(tmp_path / "a.csv", "a,b,y\n5,1,2,left\n5,3,4,right\n")
    assert error.message == "row 0 has 4 values, but the first line names 3 columns"
    for names in ("1,2", "r1,r2", '"Mazda RX4","Fiat 128"'):
        first, second = names.split(",")
        data, _ = _load(tmp_path / "a.csv", f"a,b,y\n{first},1,2,left\n{second},3,4,right\n")
        np.testing.assert_array_equal(data.X, [[1, 2], [3, 4]])
    assert "row 1 has 4 values, expected 3" in _refused(tmp_path / "a.csv", "a,b,y\n1,2,l\n1,2,3,l\n").message
    assert "row 1 has 2 values, expected 3" in _refused(tmp_path / "a.csv", "a,b,y\n1,2,l\n1,2\n").message


def test_the_line_at_the_end_names_what_was_not_used(tmp_path: Path) -> None:
    """How many lines, rows and columns the file has, and which columns are of no use."""
    _, told = _load(tmp_path / "a.csv", "# made\nid,a,name,y\n" + "".join(f"{row},{row}.5,n{row},l\n" for row in range(30)))
    assert told[-1].endswith("a.csv: 32 lines, 30 rows, 4 columns: 2 features, labels 'y'; not used: name")


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("  1   2.5   3\n  4   5.5   6\n", [[1, 2.5, 3], [4, 5.5, 6]]),
        ("a    bb    c\n1    2     3\n10   20    30\n", [[1, 2, 3], [10, 20, 30]]),
        ("a \t b\n1 \t 2\n3 \t 4\n", [[1, 2], [3, 4]]),
        ("a|b\n1|2\n3|4\n", [[1, 2], [3, 4]]),
        ('a, "b c"\n1, 2\n3, 4\n', [[1, 2], [3, 4]]),
    ],
)
def test_blanks_and_bars_separate_cells(tmp_path: Path, text: str, rows: list[list[float]]) -> None:
    """Columns that blanks align, and those between bars."""
    data, _ = _load(tmp_path / "a.txt", text)
    np.testing.assert_array_equal(data.X, rows)


def test_leading_zeros_and_long_numbers_are_told_wherever_they_are(tmp_path: Path) -> None:
    """Not in the first lines alone."""
    rows = [f"{row},{row}.5" for row in range(500)]
    rows[300] = "0300,1.5"
    _, told = _load(tmp_path / "a.csv", "zip,b\n" + "\n".join(rows) + "\n")
    assert any("numbers such as 0300 lose their leading zeros" in line for line in told)
    _, told = _load(tmp_path / "a.csv", "id,b\n" + "\n".join(f"{2**60 + row},{row}.5" for row in range(5)) + "\n")
    assert any(f"column 'id' has whole numbers above 2^53 such as {2**60}" in line for line in told)


def test_a_column_name_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    """By its name."""
    assert _refused(tmp_path / "a.csv", "a,b,a\n1,2,3\n").message == "column 'a' appears twice"


def test_a_header_alone_is_no_data(tmp_path: Path) -> None:
    """It is said."""
    assert _refused(tmp_path / "a.csv", "a,b,y\n").message == "has a header but no rows"


def test_blocks_of_a_stream_are_held_to_the_same(tmp_path: Path) -> None:
    """As rows that are read whole."""
    (tmp_path / "a.csv").write_text('a,b\n1,2\n3,"4\n5,6\n')
    with (
        pytest.raises(DataError, match="the quote that opens in line 3 is never closed"),
        block_reader.open_blocks(str(tmp_path / "a.csv"), input_format=None, note=lambda line: None) as (_, found),
    ):
        assert found is not None
        list(found)


def _wide(width: int, rows: int) -> str:
    random = np.random.default_rng(width)
    cells = random.normal(size=(rows, width)).round(3).astype(str)
    cells[:, 1] = [str(value) for value in range(rows)]  # whole
    cells[:, 2] = ["", *map(str, range(1, rows))]  # with a gap
    cells[:, 3] = ["left" if row % 2 else "right" for row in range(rows)]
    cells[:, 4] = ["true", "false"] * (rows // 2)
    cells[:, 5] = [str(2**62 + row) for row in range(rows)]
    cells[:, 6] = ""
    cells[:, 7] = ["1e5", "-.5", " 3 ", "inf", *["7."] * (rows - 4)]
    cells[:, 8] = ["2020-01-01"] * rows
    return ",".join(f"c{column}" for column in range(width)) + "\n" + "\n".join(",".join(row) for row in cells.tolist()) + "\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_wide_table_is_the_one_that_pyarrow_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """Types and values of every column, across several blocks of rows."""
    text = _wide(wide_csv.WIDE + 200, 10).replace("\n", end)
    expected = csv.read_csv(io.BytesIO(text.encode()), csv.ReadOptions(use_threads=False))
    seen: list[pa.Table] = []
    real = wide_csv.read_table

    def table(*arguments: object) -> pa.Table:
        seen.append(real(*arguments))  # type: ignore[arg-type]
        return seen[-1]

    monkeypatch.setattr(wide_csv, "read_table", table)
    monkeypatch.setattr(wide_csv, "CELLS", 4 * wide_csv.WIDE)
    with pytest.raises(DataError, match="column 'c8' holds dates or times"):
        _load(tmp_path / "a.csv", text)
    assert seen[0].column_names == expected.column_names
    assert seen[0].schema.types == expected.schema.types
    for name in expected.column_names:
        assert seen[0].column(name).to_pylist() == expected.column(name).to_pylist(), name


def test_a_wide_row_of_another_width_is_refused(tmp_path: Path) -> None:
    """With its number."""
    width = wide_csv.WIDE + 5
    lines = [",".join(f"c{column}" for column in range(width)), ",".join("1" * width), ",".join("1" * (width - 1))]
    assert _refused(tmp_path / "a.csv", "\n".join(lines) + "\n").message == f"row 1 has {width - 1} values, expected {width}"


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("w;z,a\n3,4\n5,6\n", ["w;z", "a"], [[3, 4], [5, 6]]),
        ("a|b;c,d,e\n3,4,1\n5,6,2\n", ["a|b;c", "d", "e"], [[3, 4, 1], [5, 6, 2]]),
        ("Annual income\n3\n4\n", ["Annual income"], [[3], [4]]),
        ("mass, kg;b\n1;2\n3;4\n", ["mass, kg", "b"], [[1, 2], [3, 4]]),
        ("a b  c\n1 2  3\n4  5 6\n", ["a", "b", "c"], [[1, 2, 3], [4, 5, 6]]),
    ],
)
def test_a_separator_that_divides_no_row_is_part_of_a_title(tmp_path: Path, text: str, names: list[str], rows: list[list[float]]) -> None:
    data, _ = _load(tmp_path / "d.csv", text)
    assert data.feature_names == names
    assert data.X.tolist() == rows


def test_rows_that_no_separator_divides_as_the_titles_are_refused(tmp_path: Path) -> None:
    assert _refused(tmp_path / "d.csv", "a;b,c\n1,2,3\n4,5,6\n").message == "row 0 has 1 values, expected 2"


def test_cached_lines_are_counted_anew_if_the_first_line_has_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_index, "LEAST", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "d.csv"
    path.write_text("7,12\n1,2\n3,4\n")
    for names, count in (((), 3), (("12", "7"), 2), ((), 3)):
        index = line_index.build_index(str(path), path.read_bytes(), names)
        assert index is not None
        assert index.count == count
