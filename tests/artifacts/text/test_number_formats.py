"""Numbers as people write them: read in the dialect that is declared, else refused with the options that read them, and never dropped."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from herdcli.artifacts import load
from herdcli.artifacts.text.number_formats import dialect_options, parse_number, propose_dialect
from herdcli.dialect import PLAIN, TextDialect, use_dialect
from herdcli.errors import DataError


def _load(path: Path, text: str | None = None, dialect: TextDialect = PLAIN) -> tuple[np.ndarray, list[str]]:
    told: list[str] = []
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with use_dialect(dialect):
        return load(str(path), note=told.append).value.X, told


@pytest.mark.parametrize(
    ("text", "dialect", "value"),
    [
        ("1,234", TextDialect(thousands=","), 1234),
        ("-1,234,567.5", TextDialect(thousands=","), -1234567.5),
        ("12,34,567", TextDialect(thousands=","), 1234567),  # lakhs
        ("1,23", TextDialect(thousands=","), None),
        ("1,2345", TextDialect(thousands=","), None),
        ("1.5,234", TextDialect(thousands=","), None),
        ("1.234,5", TextDialect(thousands="."), 1234.5),
        ("1.234", TextDialect(thousands="."), 1234),
        ("1.5", TextDialect(thousands="."), None),
        ("1.5", TextDialect(decimal=","), None),
        ("1,5e3", TextDialect(decimal=","), 1500),
        ("1'234.5", TextDialect(thousands="'"), 1234.5),
        ("1\u2019234", TextDialect(thousands="'"), 1234),
        *((f"1{blank}234{blank}567", TextDialect(thousands=" "), 1234567) for blank in " \u00a0\u2009\u202f"),
        ("12 %", TextDialect(percent=True), 0.12),
        ("12\u00a0%", TextDialect(percent=True), 0.12),
        ("-7%", TextDialect(percent=True), -0.07),
        ("7", TextDialect(percent=True), 7),
        ("$1.50", TextDialect(currency=True), 1.5),
        ("-$1.50", TextDialect(currency=True), -1.5),
        ("$-1.50", TextDialect(currency=True), -1.5),
        ("3 \u20ac", TextDialect(currency=True), 3),
        ("EUR 3.5", TextDialect(currency=True), 3.5),
        ("(1)", TextDialect(currency=True), -1),
        ("($1,234.50)", TextDialect(thousands=",", currency=True), -1234.5),
        ("1.234,50 \u20ac", TextDialect(thousands=".", currency=True), 1234.5),
        ("(5 %)", TextDialect(percent=True, currency=True), None),
        ("5 \u2030", TextDialect(percent=True), 0.005),
        ("1.5D+03", PLAIN, 1500),
        ("2d-1", PLAIN, 0.2),
        ("\u22125", PLAIN, -5),
        ("\u00a05\u2009", PLAIN, 5),
        ("\u0661\u066b\u0665", PLAIN, 1.5),  # Arabic
        ("-\u06f1\u06f2", PLAIN, -12),  # Persian
        ("\uff0d\uff11\uff0e\uff15", PLAIN, -1.5),  # full width
        ("\u0661\u066c\u0662\u0663\u0664", TextDialect(thousands=","), 1234),
        ("\uff15\uff05", TextDialect(percent=True), 0.05),
        ("1.5\u00d710^3", PLAIN, 1500),
        ("-2 x 10\u207b\u00b2", PLAIN, -0.02),
        ("3\u00b710^(-1)", PLAIN, 0.3),
        ("1.5\u00d7103", PLAIN, None),
        ("abc", TextDialect(thousands=",", percent=True, currency=True), None),
        ("1.2.2020", TextDialect(thousands="."), None),
        ("10_1", PLAIN, None),
    ],
)
def test_a_text_is_the_number_that_its_dialect_says(text: str, dialect: TextDialect, value: float | None) -> None:
    """And none where its marks stand elsewhere."""
    assert parse_number(text, dialect) == value


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (["1,234", "12,345"], "--thousands ,"),
        (["1,5", "12,25"], "--decimal ,"),
        (["1.234,5"], "--thousands ."),
        (["1 234,5"], "--thousands ' ' --decimal ,"),
        (["$1,234.50", "($3.00)"], "--thousands , --currency"),
        (["12,5 %"], "--decimal , --percent"),
        (["1.5", "2"], ""),
    ],
)
def test_the_plainest_options_are_proposed(texts: list[str], wanted: str) -> None:
    """As they are typed, and all of them."""
    found = propose_dialect(texts, PLAIN)
    assert (found.options, found.cells) == (wanted, len(texts))
    assert all(parse_number(text, found.dialect) is not None for text in texts)
    assert dialect_options(found.dialect) == wanted


@pytest.mark.parametrize(
    ("cell", "hint"),
    [
        ('"1,234"', "--thousands , reads 1,234 as 1234, --decimal , as 1.234"),
        ('"1,5"', "--decimal , reads it as 1.5"),
        ("12%", "--percent reads it as 0.12"),
        ("$1.50", "--currency reads it as 1.5"),
        ("(7)", "--currency reads it as -7"),
        ("1\u202f234", "--thousands ' ' reads it as 1234"),
        ("'5'", "write numbers as 1.5 or 1e-3: correct the cell or the decimal commas, or remove the column"),
    ],
)
def test_a_column_that_is_no_plain_number_is_refused_with_what_reads_it(tmp_path: Path, cell: str, hint: str) -> None:
    """Wherever it stands among the rows, and then the options read it."""
    rows = [f"{row},l" for row in range(3000)]
    rows[2500] = f"{cell},r"
    text = "a,y\n" + "\n".join(rows) + "\n"
    with pytest.raises(DataError) as raised:
        _load(tmp_path / "a.csv", text)
    shown = cell.strip('"')
    assert raised.value.message == f"column 'a' has {shown!r} in row 2500, which is not a number"
    assert (raised.value.hint or "").startswith(hint.split(" reads")[0])
    every = "a,y\n" + "\n".join(f"{cell},{'lr'[row % 2]}" for row in range(50)) + "\n"
    with pytest.raises(DataError) as raised:
        _load(tmp_path / "a.csv", every)
    assert raised.value.hint == hint


@pytest.mark.parametrize("kind", ["csv", "xlsx", "json", "parquet"])
def test_the_dialect_holds_for_text_in_every_table(tmp_path: Path, kind: str) -> None:
    """Not for CSV alone."""
    path, cells = tmp_path / f"a.{kind}", ["1.234,5", "2.000", "7", "(3,25)"]
    if kind == "csv":
        path.write_text("a;b\n" + "\n".join(f"{cell};1" for cell in cells) + "\n")
    elif kind == "json":
        path.write_text("\n".join(f'{{"a": "{cell}", "b": 1}}' for cell in cells) + "\n")
    elif kind == "parquet":
        pq.write_table(pa.table({"a": cells, "b": [1] * 4}), path)
    else:
        book = openpyxl.Workbook()
        for line in [["a", "b"], *([cell, 1] for cell in cells)]:
            book.active.append(line)
        book.save(path)
    X, told = _load(path, dialect=TextDialect(thousands=".", currency=True))
    np.testing.assert_array_equal(X, [[1234.5, 1], [2000, 1], [7, 1], [-3.25, 1]])
    assert any("read numbers with --thousands . --currency (for example 1.234,5 is 1234.5 in 'a')" in line for line in told)


def test_a_minus_sign_and_blanks_that_are_no_ascii_are_read_and_told(tmp_path: Path) -> None:
    """They mean one thing only."""
    X, told = _load(tmp_path / "a.csv", "a,b\n\u22121,2\n\u00a03\u00a0,4\n5,6\n")
    np.testing.assert_array_equal(X, [[-1, 2], [3, 4], [5, 6]])
    assert any("are read in 'a'" in line for line in told)


def test_a_comma_that_may_mean_two_things_is_not_guessed(tmp_path: Path) -> None:
    """1,234 between tabs is 1234 or 1.234; 1,25 is a fraction."""
    with pytest.raises(DataError, match="the comma may be a decimal comma or separate thousands") as raised:
        _load(tmp_path / "a.csv", "a\tb\n1,234\t2\n5,678\t3\n")
    assert raised.value.hint == "choose one: --thousands , reads 1234, --decimal , reads 1.234"
    X, _ = _load(tmp_path / "a.csv", dialect=TextDialect(decimal=","))
    np.testing.assert_array_equal(X[:, 0], [1.234, 5.678])
    X, _ = _load(tmp_path / "a.csv", dialect=TextDialect(thousands=","))
    np.testing.assert_array_equal(X[:, 0], [1234, 5678])
    X, told = _load(tmp_path / "a.csv", "a;b\n1,25;2\n5,6;3\n")
    np.testing.assert_array_equal(X[:, 0], [1.25, 5.6])
    assert "decimal commas" in told[0]


def test_a_point_of_thousands_is_no_decimal_point(tmp_path: Path) -> None:
    """1.234 under --thousands . is 1234 also where every cell looks like a number."""
    X, _ = _load(tmp_path / "a.csv", "a;b\n1.234;2\n5.678;3\n", TextDialect(thousands="."))
    np.testing.assert_array_equal(X[:, 0], [1234, 5678])
    X, told = _load(tmp_path / "a.csv")
    np.testing.assert_array_equal(X[:, 0], [1.234, 5.678])
    assert "numbers such as 1.234 are read with a decimal point; --thousands . reads 1234" in told[0]


def test_cells_that_no_option_reads_are_named(tmp_path: Path) -> None:
    """The second fault too, where options mend the first."""
    text = 'a,b\n"1,234",1\n"2,345",2\nabc,3\n4,4\n'
    with pytest.raises(DataError) as raised:
        _load(tmp_path / "a.csv", text)
    assert raised.value.message == "column 'a' has '1,234' in row 0, which is not a number"
    assert raised.value.hint == "--thousands , reads it as 1234, but not 'abc' in row 2: correct that cell, or remove the column"


def test_text_stays_text(tmp_path: Path) -> None:
    """Codes, ranges, dates and names are no numbers."""
    lines = ["code,range,day,b", *(f"A{row},{row}-{row + 9},1.2.20{row},{row}" for row in range(10, 20))]
    told: list[str] = []
    path = tmp_path / "a.csv"
    path.write_bytes(io.StringIO("\n".join(lines) + "\n").getvalue().encode())
    assert load(str(path), note=told.append).value.feature_names == ["b"]
    assert any("are not used: code, range, day" in line for line in told)


def test_digits_of_other_scripts_and_powers_of_ten_are_read_and_reported(tmp_path: Path) -> None:
    X, notes = _load(
        tmp_path / "a.csv", "a,b,c\n\uff11,\u0661\u066b\u0665,1\u00d710^2\n\uff12,\u0662,2\u00d710^2\n\uff13,\u0663,3\u00d710\u00b3\n"
    )
    np.testing.assert_array_equal(X, [[1, 1.5, 100], [2, 2, 200], [3, 3, 3000]])
    assert any("are read in 'a', 'b', 'c'" in line for line in notes)
