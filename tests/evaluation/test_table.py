"""Tables: what each format says exactly, the bars, the report artifact."""

from __future__ import annotations

import csv
import io
import json
import math

import numpy as np
import pytest

from herdcli.errors import BadUsage, DataError
from herdcli.evaluation import table
from herdcli.kinds import kinds_with

ROWS: list[table.Row] = [
    {"file": "a & b.h5", "kind": "rbm", "log_likelihood": -18.123456789, "error": 0.05},
    {"file": "c|d.h5", "kind": "rbm", "log_likelihood": -7.0, "error": None},
]


def test_every_kind_has_metrics_that_can_be_imported():
    for kind in kinds_with("metrics"):
        assert callable(table.import_metrics_function(kind))
    with pytest.raises(BadUsage, match="artifacts of kind 'report' cannot be evaluated"):
        table.import_metrics_function("report")


def test_columns_of_different_kinds_come_in_order_of_first_appearance():
    assert table.all_columns([{"file": "a", "x": 1.0}, {"file": "b", "y": 2.0, "x": 1.0}]) == ["file", "x", "y"]


def test_tsv():
    assert table.to_tsv(ROWS) == ("file\tkind\tlog_likelihood\terror\na & b.h5\trbm\t-18.123456789\t0.05\nc|d.h5\trbm\t-7.0\t\n")
    assert table.to_tsv([{"file": "a\tb\nc"}]) == "file\na b c\n"


def test_aligned():
    assert table.to_aligned_text(ROWS) == (
        "file      kind  log_likelihood  error\na & b.h5  rbm           -18.12   0.05\nc|d.h5    rbm               -7      –\n"
    )


def test_json_has_every_column_of_a_kind_and_null_for_what_is_missing_or_infinite():
    found = json.loads(table.to_json([*ROWS, {"file": "e", "kind": "rbm", "error": math.inf, "log_likelihood": math.nan}]))
    assert found[0] == ROWS[0]
    assert found[1]["error"] is None
    assert found[2] == {"file": "e", "kind": "rbm", "log_likelihood": None, "error": None}


def test_csv_reads_back():
    rows = [{"file": 'with "quotes", commas\nand lines', "error": 0.1}]
    assert list(csv.DictReader(io.StringIO(table.to_csv(rows)))) == [{"file": rows[0]["file"], "error": "0.1"}]


def test_markdown():
    assert table.to_markdown(ROWS) == (
        "| file | kind | log_likelihood | error |\n"
        "| --- | --- | ---: | ---: |\n"
        "| a & b.h5 | rbm | -18.1235 | 0.05 |\n"
        "| c\\|d.h5 | rbm | -7 |  |\n"
    )


def test_latex():
    assert table.to_latex(ROWS[:1]) == (
        "\\begin{tabular}{llrr}\n\\hline\nfile & kind & log\\_likelihood & error \\\\\n\\hline\n"
        "a \\& b.h5 & rbm & -18.1235 & 0.05 \\\\\n\\hline\n\\end{tabular}\n"
    )
    assert "\\textbackslash{}\\{x\\}\\%" in table.to_latex([{"file": "\\{x}%"}])


@pytest.mark.parametrize("name", list(table.FORMATS))
def test_machines_get_full_precision_and_no_format_fails_on_an_empty_table(name):
    text = table.FORMATS[name]([{"error": 1 / 3}])
    assert (repr(1 / 3) in text) == (name in {"tsv", "json", "csv"})
    table.FORMATS[name]([])


@pytest.mark.parametrize(
    ("text", "value", "passes"),
    [
        ("error<0.05", 0.049, True),
        ("error<0.05", 0.05, False),
        ("error <= 0.05", 0.05, True),
        ("error>1e-3", 0.002, True),
        ("error>=.5", 0.4, False),
        ("error==0", 0.0, True),
        ("error<1", None, False),
        ("error<1", math.nan, False),
        ("error>-inf", -1.0, True),
    ],
)
def test_bars(text, value, passes):
    assert (table.parse_requirement(text).failure_messages([{"file": "a.h5", "error": value}]) == []) == passes


def test_missed_bars_name_file_value_and_bar():
    rows: list[table.Row] = [{"file": "a.h5", "error": 0.061}, {"file": "b.h5", "error": None}, {"file": "c.h5", "error": 0.01}]
    assert table.parse_requirement("error<0.05").failure_messages(rows) == [
        "a.h5: error is 0.061, required < 0.05",
        "b.h5: error is missing, required < 0.05",
    ]


def test_unknown_column_and_text_column_are_named():
    with pytest.raises(BadUsage, match="there is no column 'eror'") as caught:
        table.parse_requirement("eror<1").failure_messages(ROWS)
    assert caught.value.hint == "did you mean error?  columns: file, kind, log_likelihood, error"
    with pytest.raises(BadUsage, match="column 'kind' has text"):
        table.parse_requirement("kind<1").failure_messages(ROWS)


@pytest.mark.parametrize("text", ["error", "error<", "<1", "error<x", "error=1", "error<nan", "error<1 2", ""])
def test_malformed_bars(text):
    with pytest.raises(BadUsage, match="is not of the form COLUMN<NUMBER"):
        table.parse_requirement(text)


def test_report_keeps_the_table():
    found = table.build_report(ROWS)
    assert list(found.table) == ["file", "kind", "log_likelihood", "error"]
    assert found.table["log_likelihood"].dtype == np.float64
    assert found.table["file"].dtype.kind == "U"
    assert table.report_rows(found) == ROWS
    assert table.report_rows(table.build_report([])) == []


def test_ragged_report_is_refused():
    with pytest.raises(DataError, match="different shapes"):
        table.report_rows(table.Report({"a": np.zeros(2), "b": np.zeros(3)}))


def test_a_bar_in_a_column_name_does_not_divide_a_markdown_table() -> None:
    assert table.to_markdown([{"a|b": 1.0}]).splitlines()[0] == "| a\\|b |"
