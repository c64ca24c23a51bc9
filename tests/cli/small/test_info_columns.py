"""`herd info` of tables: columns of text, identifiers and dates."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

DAY = datetime.date(2024, 1, 31)


@pytest.fixture
def people(tmp_path: Path) -> pa.Table:
    """Twelve rows: an identifier, a count of the rows, a date, a town with two gaps, a number with a gap."""
    towns = ["Rome", "Paris", "Paris", None, "Oslo", "Paris", "Rome", "", "Rome", "Paris", "Bonn", "Bonn"]
    table = pa.table(
        {
            "code": [f"P{k:03}" for k in range(12)],
            "nr": list(range(1, 13)),
            "since": [DAY + datetime.timedelta(days=30 * k) for k in range(12)],
            "town": towns,
            "age": [None, *range(40, 51)],
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    rows = table.to_pylist()
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))
    cells = [",".join("" if cell is None else str(cell) for cell in row.values()) for row in rows]
    (tmp_path / "t.csv").write_text("\n".join([",".join(table.column_names), *cells]) + "\n")
    return table


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.jsonl"])
def test_text_identifiers_and_dates_are_shown_beside_the_numbers(herd, people, name):
    ended = herd("info", name)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.decode().partition("\n")[2] == (
        "\n"
        "  rows\n"
        "    rows  columns  without numbers\n"
        "    12          2                3\n"
        "\n"
        "  head\n"
        "    row  code  nr  since       town   age\n"
        "    0    P000   1  2024-01-31  Rome     –\n"
        "    1    P001   2  2024-03-01  Paris   40\n"
        "    2    P002   3  2024-03-31  Paris   41\n"
        "    3    P003   4  2024-04-30  –       42\n"
        "    4    P004   5  2024-05-30  Oslo    43\n"
        "\n"
        "  columns\n"
        "    column  type          missing  min  mean  max\n"
        "    nr      identifier          0    1   6.5   12\n"
        "    age     whole number        1   40    45   50\n"
        "\n"
        "  columns without numbers\n"
        "    column  type        missing  distinct  values\n"
        "    code    identifier        0        12  P000, …\n"
        "    since   date              0        12  2024-01-31 to 2024-12-26\n"
        "    town    text              2         4  Paris (4), Rome (3), Bonn (2), …\n"
    )


def test_json_has_the_columns_of_text(herd, people):
    found = json.loads(herd("info", "t.csv", "--format", "json").out)[0]
    assert found["tables"][-1]["rows"][2] == {
        "column": "town",
        "type": "text",
        "missing": 2,
        "distinct": 4,
        "values": "Paris (4), Rome (3), Bonn (2), …",
    }


def test_a_table_of_text_alone_is_shown(herd, tmp_path):
    (tmp_path / "words.csv").write_text("word,kind\nrun,verb\nsun,noun\nsit,verb\n")
    ended = herd("info", "words.csv")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.decode().endswith(
        "    rows  without numbers\n"
        "    3                   2\n"
        "\n"
        "  head\n"
        "    row  word  kind\n"
        "    0    run   verb\n"
        "    1    sun   noun\n"
        "    2    sit   verb\n"
        "\n"
        "  columns without numbers\n"
        "    column  type  missing  distinct  values\n"
        "    word    text        0         3  run, …\n"
        "    kind    text        0         2  verb (2), noun (1)\n"
    )
    refused = herd("em", "words.csv", "-o", "m.h5")  # commands that compute refuse it as before
    assert refused.code == 65
    assert "herd em: words.csv: has no column of numbers\n" in refused.err


def test_cells_that_are_no_numbers_are_named(herd, tmp_path):
    (tmp_path / "odd.csv").write_text(
        "a,b,t\n1,3 kg,2024-01-01T10:00:00\n2,4 kg,2024-01-02T10:00:00\nx3,6 kg,\n4,5 kg,2024-01-03T11:30:00\n"
    )
    ended = herd("info", "odd.csv")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.decode().endswith(
        "    column  type                  missing  distinct  values\n"
        "    a       text, mostly numbers        0         4  not numbers: x3 (1)\n"
        "    b       text                        0         4  3 kg, …\n"
        "    t       date and time               1         3  2024-01-01 10:00:00 to 2024-01-03 11:30:00\n"
    )


def test_lists_of_words_and_empty_columns_of_text_are_shown_by_their_types(herd, tmp_path):
    kinds = {"x": pa.array([1.5, 2.5]), "tags": pa.array([["a", "b"], ["c"]]), "none": pa.array([None, ""], pa.string())}
    pyarrow.parquet.write_table(pa.table(kinds | {"raw": pa.array([b"\xff", b"a"])}), tmp_path / "l.parquet")
    ended = herd("info", "l.parquet")
    assert (ended.code, ended.err) == (0, "")
    rows = [line.split()[:4] for line in ended.out.decode().splitlines()[-3:]]
    assert [row[0] for row in rows] == ["tags", "none", "raw"]
    assert rows[1] == ["none", "text", "2", "0"]
