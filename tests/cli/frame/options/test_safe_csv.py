"""--safe-csv: an apostrophe before names and texts that spreadsheets take for formulas; numbers and files without the option as before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import herdcli
from herdcli.artifacts.dataset import Dataset
from herdcli.evaluation import table
from herdcli.spreadsheet_text import csv_text, use_safe_csv

ROWS = '=h,-cmd,"+x,y",y\n1,-2,3.5,"=1+1"\n-1.5,2,3,"-cmd"\n1,2,3,"+x"\n1,4,3,"@SUM"\n1,5,3,"plain"\n1,6,3,"-7"\n'
SAFE = '\'=h,\'-cmd,"\'+x,y",y\n1,-2,3.5,"\'=1+1"\n-1.5,2,3,"\'-cmd"\n1,2,3,"\'+x"\n1,4,3,"\'@SUM"\n1,5,3,"plain"\n1,6,3,"-7"\n'


@pytest.mark.parametrize("text", ["=1+1", "-cmd", "+x", "@SUM", "\t=1", "\r=1", "-1+cmd|x", "-", "=", "+1.5.2", "-1\n"])
def test_texts_that_look_like_formulas_get_an_apostrophe(text: str) -> None:
    with use_safe_csv(True):
        assert csv_text(text) == "'" + text
    assert csv_text(text) == text


@pytest.mark.parametrize("text", ["-1", "+1.5e-3", "-.5", "-inf", "plain", "", "a=b", "'=1", "3"])
def test_numbers_and_other_texts_stay(text: str) -> None:
    with use_safe_csv(True):
        assert csv_text(text) == text


def test_a_data_set_is_written_with_and_without_it(herd: Callable, tmp_path: Path) -> None:
    source, plain, safe = (tmp_path / name for name in ("rows.csv", "plain.csv", "safe.csv"))
    source.write_text(ROWS)
    assert herd("convert", source, "-o", plain).code == 0
    assert herd("convert", source, "--safe-csv", "-o", safe).code == 0
    assert plain.read_text() == ROWS
    assert safe.read_text() == SAFE


def test_the_round_trip_without_it_keeps_names_and_labels(herd: Callable, tmp_path: Path) -> None:
    source, hdf5, again = (tmp_path / name for name in ("rows.csv", "rows.h5", "again.csv"))
    source.write_text(ROWS)
    assert herd("convert", source, "-o", hdf5).code == 0
    assert herd("convert", hdf5, "-o", again).code == 0
    assert again.read_text() == ROWS


def test_it_leaves_other_formats_and_their_history_alone(herd: Callable, tmp_path: Path) -> None:
    source, plain, safe = (tmp_path / name for name in ("rows.csv", "plain.h5", "safe.h5"))
    source.write_text(ROWS)
    assert herd("convert", source, "-o", plain).code == 0
    assert herd("convert", source, "--safe-csv", "-o", safe).code == 0
    assert plain.read_bytes() == safe.read_bytes()


def test_tables_are_written_with_and_without_it() -> None:
    rows: list[table.Row] = [{"=name": "=1+1", "value": -1.5}, {"=name": "-cmd", "value": -2}, {"=name": "\t@SUM", "value": None}]
    assert table.to_csv(rows) == "=name,value\n=1+1,-1.5\n-cmd,-2\n\t@SUM,\n"
    assert table.to_tsv(rows) == "=name\tvalue\n=1+1\t-1.5\n-cmd\t-2\n @SUM\t\n"
    with use_safe_csv(True):
        assert table.to_csv(rows) == "'=name,value\n'=1+1,-1.5\n'-cmd,-2\n'\t@SUM,\n"
        assert table.to_tsv(rows) == "'=name\tvalue\n'=1+1\t-1.5\n'-cmd\t-2\n' @SUM\t\n"


def test_atoms_of_kernel_herding_have_safe_names(herd: Callable, tmp_path: Path) -> None:
    source, atoms = tmp_path / "rows.csv", tmp_path / "atoms.csv"
    source.write_text("=h,-cmd\n1,2\n3,-4\n5,6\n")
    assert herd("kernel-herd", source, "-m", "1", "--safe-csv", "-o", atoms).code == 0
    assert atoms.read_text().splitlines()[0].endswith("'=h,'-cmd")


def test_python_writes_with_and_without_it(tmp_path: Path) -> None:
    rows = Dataset(np.array([[1.0, -2.0]]), feature_names=["=h", "b"])
    herdcli.save(tmp_path / "plain.csv", rows)
    herdcli.save(tmp_path / "safe.csv", rows, safe_csv=True)
    assert (tmp_path / "plain.csv").read_text() == "=h,b\n1,-2\n"
    assert (tmp_path / "safe.csv").read_text() == "'=h,b\n1,-2\n"
