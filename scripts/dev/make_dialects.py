"""docs/dialects.md: what other readers and herd make of files in many dialects; exit 1 if herd reads one wrongly in silence.

    python scripts dev/make_dialects [--check]

Each file is written here, with the values that a person would read in it.  Readers are pandas, NumPy and pyarrow where they are installed.
A reader is `right` with these values, `refused` with an error, and else `wrong`; herd's line says what it reports.
"""

from __future__ import annotations

import argparse
import gzip
import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.io
from pyarrow import csv
from scipy import sparse

PAGE = Path(__file__).resolve().parents[2] / "docs" / "dialects.md"
ROWS = np.array([[1.5, 2.0], [3.0, 4.0], [-5.25, 6.0]])


@dataclass
class Case:
    """A file.  values  what a person reads in it, None where nothing right can be read; options  of herd that read it."""

    kind: str
    name: str
    make: Callable[[Path], None]
    values: np.ndarray | None = field(default_factory=lambda: ROWS)
    options: tuple[str, ...] = ()


def text(content: str, encoding: str = "utf-8") -> Callable[[Path], None]:
    """A writer of text."""
    return lambda path: path.write_bytes(content.encode(encoding)) and None


def table(cells: list[tuple[str, str]], separator: str = ",", end: str = "\n", titles: str = "ab") -> str:
    """Rows of cells below titles."""
    return end.join([separator.join(titles), *(separator.join(row) for row in cells)]) + end


def column(*cells: str, separator: str = ",", quoted: bool = False) -> str:
    """A first column of these cells beside 2, 4, 6."""
    mark = '"' if quoted else ""
    return table([(f"{mark}{cell}{mark}", str(2 * row + 2)) for row, cell in enumerate(cells)], separator)


PLAIN = [("1.5", "2"), ("3", "4"), ("-5.25", "6")]


def with_second_column(*values: float) -> np.ndarray:
    """A column beside 2, 4, 6."""
    return np.column_stack([values, 2.0 * np.arange(1, len(values) + 1)])


def _texts() -> list[Case]:
    big = np.array([[1234.5, 2], [2000, 4], [7, 6]])
    return [
        Case("CSV", "plain", text(table(PLAIN))),
        Case("CSV", "CRLF line ends", text(table(PLAIN, end="\r\n"))),
        Case("CSV", "CR line ends", text(table(PLAIN, end="\r"))),
        Case("CSV", "byte order mark", text("\ufeff" + table(PLAIN))),
        Case("CSV", "semicolons", text(table(PLAIN, ";"))),
        Case("CSV", "tabs", text(table(PLAIN, "\t"))),
        Case("CSV", "bars", text(table(PLAIN, "|"))),
        Case("CSV", "blanks that align columns", text("  a     b\n  1.5   2\n  3     4\n -5.25  6\n")),
        Case("CSV", "comments above", text("# made today\n" + table(PLAIN))),
        Case("CSV", "a comment between rows", text("a,b\n1.5,2\n# a, note\n3,4\n-5.25,6\n")),
        Case("CSV", "UTF-16", text(table(PLAIN), "utf-16")),
        Case("CSV", "Latin-1", text("größe,b\n1.5,2\n3,4\n-5.25,6\n", "latin-1")),
        Case("CSV", "gzip", lambda path: path.write_bytes(gzip.compress(table(PLAIN).encode())) and None),
        Case("CSV", "decimal commas between semicolons", text(column("1,5", "3", "-5,25", separator=";"))),
        Case("CSV", "1,234.5", text(column("1,234.5", "2,000", "7", quoted=True)), big, ("--thousands", ",")),
        Case("CSV", "1.234,5", text(column("1.234,5", "2.000", "7", separator=";")), big, ("--thousands", ".")),
        Case("CSV", "1.234 with marks of thousands", text(column("1.234", "2.000", "7.000", separator=";")), None),
        Case("CSV", "1,234 between tabs", text(column("1,234", "2,000", "7,000", separator="\t")), None),
        Case(
            "CSV",
            "1 234,5 with thin blanks",
            text(column("1\u2009234,5", "2\u2009000", "7", separator=";")),
            big,
            ("--thousands", " ", "--decimal", ","),
        ),
        Case("CSV", "1'234.5", text(column("1'234.5", "2'000", "7")), big, ("--thousands", "'")),
        Case("CSV", "12 %", text(column("12 %", "7 %", "1.5 %")), with_second_column(0.12, 0.07, 0.015), ("--percent",)),
        Case("CSV", "$1.50", text(column("$1.50", "$3.00", "-$5.25")), ROWS, ("--currency",)),
        Case("CSV", "(5.25)", text(column("1.5", "3", "(5.25)")), ROWS, ("--currency",)),
        Case("CSV", "3,00 €", text(column("1,50 €", "3,00 €", "-5,25 €", separator=";")), ROWS, ("--currency", "--decimal", ",")),
        Case("CSV", "minus sign U+2212", text(column("1.5", "3", "\u22125.25"))),
        Case("CSV", "non-breaking blanks around", text(column("1.5\u00a0", "\u00a03", "-5.25"))),
        Case("CSV", "Fortran's exponents", text(column("1.5D+00", "3.0D+00", "-5.25D+00"))),
        Case("CSV", "quoted numbers", text(column("1.5", "3", "-5.25", quoted=True))),
        Case("CSV", "quotes beside blanks", text('"a", "b"\n1.5, "2"\n3, "4"\n-5.25, "6"\n')),
        Case("CSV", "a separator at each end", text("a,b,\n1.5,2,\n3,4,\n-5.25,6,\n")),
        Case("CSV", "a separator at the ends of rows", text("a,b\n1.5,2,\n3,4,\n-5.25,6,\n")),
        Case("CSV", "row names without a title", text("a,b\nr1,1.5,2\nr2,3,4\nr3,-5.25,6\n")),
        Case("CSV", "a value too many in each row", text("a,b\n9,1.5,2\n9,3,4\n9,-5.25,6\n"), None),
        Case("CSV", "a value too many in one row", text("a,b\n1.5,2\n3,4,5\n-5.25,6\n"), None),
        Case("CSV", "a value too few in one row", text("a,b\n1.5,2\n3\n-5.25,6\n"), None),
        Case("CSV", "a quote that is not closed", text('a,b\n1.5,2\n3,"4\n-5.25,6\n'), None),
        Case("CSV", "two quotes with rows between", text('a,b\n1.5,2\n3,"4\n7,8\n9,10"\n-5.25,6\n'), None),
        Case("CSV", "one word deep in the file", text("a,b\n" + "1,2\n" * 200_000 + "x,2\n"), None),
        Case("CSV", "a line of units", text("a,b\nm,s\n1.5,2\n3,4\n-5.25,6\n"), None),
        Case("CSV", "a total below", text("a,b\n1.5,2\n3,4\n-5.25,6\nTotal,12\n"), None),
        Case("CSV", "a column name twice", text("a,a\n1.5,2\n3,4\n-5.25,6\n"), None),
        Case("CSV", "a header alone", text("a,b\n"), None),
        Case(
            "CSV",
            "whole numbers beyond 2^53",
            text(column("9007199254740993", "9007199254740995", "5.5")),
            with_second_column(2.0**53, 2.0**53 + 4, 5.5),
        ),
        Case("CSV", "leading zeros", text(column("007", "010", "011")), with_second_column(7, 10, 11)),
        Case("CSV", "NA, null and empty cells", text("a,b\n1.5,2\nNA,4\nnull,\n"), None),
        Case("CSV", "Excel's sep= line", text("sep=;\n" + table(PLAIN, ";"))),
        Case("CSV in zip", "one file", _zip),
        *_further_texts(),
    ]


def _further_texts() -> list[Case]:
    cyrillic = "рост,вес\n1.5,2\n3,4\n-5.25,6\n"
    noted = 'a,b,note\n1.5,2,"first\nsecond"\n3,4,"x"\n-5.25,6,"with 1,2,3"\n'
    return [
        Case("CSV", "line ends between quotes, beside numbers", text(noted), ROWS),
        Case("CSV", "a quote that opens in the last row", text('a,b,c\n1,2,x\n3,4,y\n5,6,"z\n'), None),
        Case("CSV", "text behind a closing quote", text('a,b\n"1"x,2\n3,4\n'), None),
        Case("CSV", "a separator at the ends of rows, no titles", text("1.5,2,\n3,4,\n-5.25,6,\n")),
        Case("CSV", "rows of separators alone", text("a,b\n1.5,2\n,\n3,4\n"), None),
        Case("CSV", "UTF-16 without a mark, Cyrillic", text(cyrillic, "utf-16-le")),
        Case("CSV", "a character of code 0", text("a,b\n1,2\n3\0,4\n5,6\n"), None),
        Case(
            "CSV",
            "1,23,456.5",
            text(column("1,23,456.5", "12,34,567", "7", quoted=True)),
            with_second_column(123456.5, 1234567, 7),
            ("--thousands", ","),
        ),
        Case(
            "CSV",
            "R$ 1.234,50",
            text(column("R$ 1.234,50", "R$ 2.000,00", "R$ 7,25", separator=";")),
            with_second_column(1234.5, 2000, 7.25),
            ("--thousands", ".", "--currency"),
        ),
        Case(
            "CSV",
            "12,5 %",
            text(column("12,5 %", "7 %", "0,5 %", separator=";")),
            with_second_column(0.125, 0.07, 0.005),
            ("--percent", "--decimal", ","),
        ),
        Case("CSV", "12.5% beside 7", text(column("12.5%", "7", "0.5%")), None),
        Case("CSV", "1.50-", text(column("1.50", "3.00", "5.25-")), ROWS, ("--currency",)),
        Case("CSV", "en dash for minus", text(column("1.5", "3", "\u20135.25"))),
        Case("CSV", "1_000", text(column("1_000", "2_000", "7")), None),
        Case("CSV", "5 kg", text(column("5 kg", "7 kg", "9.5 kg")), None),
        Case("CSV", "1.5k, 2M", text(column("1.5k", "2M", "9")), None),
    ]


def _rows_of_json() -> list[Case]:
    plain = '{"a":1.5,"b":2}\n{"b":4,"a":3}\n{"a":-5.25,"b":6}\n'
    nested = '{"a":1.5,"n":{"b":2}}\n{"a":3,"n":{"b":4}}\n{"a":-5.25,"n":{"b":6}}\n'
    lists = '{"v":[1.5,2]}\n{"v":[3,4]}\n{"v":[-5.25,6]}\n'
    return [
        Case("JSON lines", "objects, in any order of fields", text(plain)),
        Case("JSON lines", "objects in objects", text(nested)),
        Case("JSON lines", "lists", text(lists)),
        Case("JSON lines", "a list a line", text("[1.5,2]\n[3,4]\n[-5.25,6]\n")),
        Case("JSON lines", "lists of different lengths", text('{"v":[1,2],"c":1}\n{"v":[3],"c":2}\n'), None),
        Case("JSON lines", "a field twice", text('{"a":1,"a":2,"b":3}\n{"a":3,"b":4}\n'), None),
        Case("JSON lines", "a field too few", text('{"a":1,"b":2}\n{"a":3}\n'), None),
    ]


def _zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("rows.csv", table(PLAIN))


def _npz(**arrays: Any) -> Callable[[Path], None]:
    return lambda path: np.savez(path, **arrays)


def _h5(fill: Callable[[Any], None]) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with h5py.File(path, "w") as file:
            fill(file)

    return make


def _csr(kind: str, order: bool) -> Callable[[Any], None]:
    def fill(file: Any) -> None:
        group = file.create_group("X")
        matrix = sparse.csr_matrix(ROWS)
        index, data = matrix.indices.reshape(3, 2), matrix.data.reshape(3, 2)
        group["indices"] = (index if order else index[:, ::-1]).ravel().astype(kind)
        group["data"] = (data if order else data[:, ::-1]).ravel()
        group["indptr"] = matrix.indptr
        group.attrs["format"], group.attrs["shape"] = "csr", (3, 2)

    return fill


def _arrow(opened: Any) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        whole = pa.table({"a": ROWS[:, 0], "b": ROWS[:, 1]})
        with pa.OSFile(str(path), "wb") as sink, opened(sink, whole.schema) as writer:
            writer.write_table(whole)

    return make


def _folder(path: Path) -> None:
    path.mkdir()
    for part in range(3):
        pq.write_table(pa.table({"a": ROWS[part : part + 1, 0], "b": ROWS[part : part + 1, 1]}), path / f"part-{part}.parquet")


def _enumerated(file: Any) -> None:
    file["X"] = ROWS
    file.create_dataset("y", data=[0, 1, 0], dtype=h5py.enum_dtype({"no": 0, "yes": 1}, basetype="i1"))


def _two_sheets(path: Path) -> None:
    book = openpyxl.Workbook()
    for sheet, rows in ((book.active, ROWS.tolist()), (book.create_sheet("further"), [[7, 8]])):
        for row in [["a", "b"], *rows]:
            sheet.append(row)
    book.save(path)


def _soft(file: Any) -> None:
    file["raw"] = ROWS
    file["X"] = h5py.SoftLink("/raw")


def _arrays() -> list[Case]:
    cases = [Case("NPY", f"type {kind}", lambda path, kind=kind: np.save(path, ROWS.astype(kind))) for kind in (">f8", ">f4", "f2", "g")]
    cases += [Case("NPZ", f"type {kind}", _npz(X=ROWS.astype(kind))) for kind in (">f8", ">f4", "f2", "g")]
    whole = np.array([[1, 2], [3, 4], [-5, 6]])
    cases += [Case("NPZ", f"type {kind}", _npz(X=whole.astype(kind)), whole.astype(kind)) for kind in (">i8", ">i2", "i1")]
    cases += [
        Case("NPZ", "datetime64", _npz(X=np.arange(6).astype("M8[D]").reshape(3, 2)), None),
        Case("NPZ", "CSC of scipy", lambda path: sparse.save_npz(path, sparse.csc_matrix(ROWS))),
        Case("NPZ", "COO of scipy", lambda path: sparse.save_npz(path, sparse.coo_matrix(ROWS))),
        Case("HDF5", "big-endian", _h5(lambda file: file.__setitem__("X", ROWS.astype(">f8")))),
        Case("HDF5", "soft link", _h5(_soft)),
        Case("HDF5", "CSR with uint64 indices", _h5(_csr("u8", True))),
        Case("HDF5", "CSR out of order", _h5(_csr("i4", False))),
        Case("HDF5", "an enumeration of labels", _h5(_enumerated)),
        Case("Excel", "two sheets", _two_sheets),
        Case(
            "MATLAB",
            "labels in a cell array",
            lambda path: scipy.io.savemat(path, {"X": ROWS, "y": np.array(["u", "v", "u"], dtype=object)}),
        ),
        Case("MATLAB", "big-endian types", lambda path: scipy.io.savemat(path, {"X": ROWS.astype(">f8")})),
        Case("Arrow", "file", _arrow(pa.ipc.new_file)),
        Case("Arrow", "stream", _arrow(pa.ipc.new_stream)),
        Case(
            "Parquet", "float16", lambda path: pq.write_table(pa.table({"a": ROWS[:, 0].astype("f2"), "b": ROWS[:, 1].astype("f2")}), path)
        ),
        Case("Parquet", "numbers as text", lambda path: pq.write_table(pa.table({"a": ["1.5", "3", "-5.25"], "b": [2, 4, 6]}), path)),
        Case(
            "Parquet",
            "timestamps",
            lambda path: pq.write_table(pa.table({"a": pa.array([1, 2], pa.timestamp("s")), "b": [1, 2]}), path),
            None,
        ),
        Case("Parquet", "folder of parts", _folder),
    ]
    return [*cases, *_further_arrays(), *_rows_of_json()]


def _further_arrays() -> list[Case]:
    lists, records = pa.array(ROWS.tolist()), pa.array([{"u": u, "v": v} for u, v in ROWS.tolist()])
    block = sparse.bsr_matrix(np.vstack([ROWS, [7, 8]]), blocksize=(2, 2))

    def parquet(**columns: Any) -> Callable[[Path], None]:
        return lambda path: pq.write_table(pa.table(columns), path)

    def records_array(path: Path) -> None:
        np.save(path, np.array([tuple(row) for row in ROWS], dtype=[("a", ">f8"), ("b", "f4")]))

    def two_arrays(path: Path) -> None:
        with open(path, "wb") as file:
            np.save(file, ROWS)
            np.save(file, ROWS)

    def nameless(path: Path) -> None:
        book = openpyxl.Workbook()
        for row in ROWS.tolist():
            book.active.append(row)
        book.save(path)

    def wrong_code(file: Any) -> None:
        file["X"] = ROWS
        file.create_dataset("y", data=[0, 2, 0], dtype=h5py.enum_dtype({"no": 0, "yes": 1}))

    def vectors(file: Any) -> None:
        file["a"], file["b"] = ROWS.T

    return [
        Case("NPY", "a single number", lambda path: np.save(path, np.array(3.0)), None),
        Case("NPY", "complex", lambda path: np.save(path, ROWS + 1j), None),
        Case("NPY", "records", records_array, None),
        Case("NPY", "two arrays in one file", two_arrays, None),
        Case("NPZ", "BSR of scipy", lambda path: sparse.save_npz(path, block), block.toarray()),
        Case("NPZ", "DIA of scipy", lambda path: sparse.save_npz(path, sparse.dia_matrix(ROWS))),
        Case("NPZ", "one array of any name", _npz(rows=ROWS), None),
        Case("NPZ", "two arrays of any name", _npz(left=ROWS, right=ROWS), None),
        Case("HDF5", "vectors that are columns", _h5(vectors)),
        Case("HDF5", "a code that its enumeration lacks", _h5(wrong_code), None),
        Case("HDF5", "an external link", _h5(lambda file: file.__setitem__("X", h5py.ExternalLink("other.h5", "/X"))), None),
        Case("HDF5", "compound", _h5(lambda file: file.__setitem__("X", np.zeros(3, dtype=[("a", "f8"), ("b", "i4")]))), None),
        Case("Excel", "no names above", nameless),
        Case("MATLAB", "version 4", lambda path: scipy.io.savemat(path, {"X": ROWS}, format="4")),
        Case("MATLAB", "a structure alone", lambda path: scipy.io.savemat(path, {"s": {"X": ROWS}}), None),
        Case("Parquet", "one column of lists", parquet(v=lists)),
        Case("Parquet", "lists of different lengths", parquet(v=[[1.0, 2], [3.0]], b=[1, 2]), None),
        Case("Parquet", "records", parquet(s=records)),
        Case("Parquet", "categories of numbers", parquet(a=pa.array(ROWS[:, 0]).dictionary_encode(), b=ROWS[:, 1])),
        Case("Parquet", "decimals", parquet(a=pa.array(["1.5", "3", "-5.25"]).cast(pa.decimal128(10, 2)), b=ROWS[:, 1])),
    ]


def _texts_of_other_kinds() -> list[Case]:
    """Digits of other scripts, and text that is no table."""
    marked = b"\xef\xbb\xbf1 1:1.5 2:2\n0 1:3 2:4\n0 1:-5.25 2:6\n"
    return [
        Case("CSV", "Arabic digits", text(column("\u0661\u066b\u0665", "\u0663", "-\u0665\u066b\u0662\u0665"))),
        Case("CSV", "digits of full width", text(column("\uff11\uff0e\uff15", "\uff13", "\uff0d\uff15\uff0e\uff12\uff15"))),
        Case("CSV", "1.5 \u00d7 10^0", text(column("1.5 \u00d7 10^0", "3 \u00d7 10^0", "-5.25 \u00d7 10\u2070"))),
        Case("CSV", "a header without a line end", text("a,b"), None),
        Case("CSV", "an HTML page", text("<!DOCTYPE html>\n<html>\n<body>a,b</body>\n</html>\n"), None),
        Case("CSV", "XML", text('<?xml version="1.0"?>\n<rows><row a="1.5"/></rows>\n'), None),
        Case("CSV", "a pointer of Git LFS", text("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 12\n"), None),
        Case("svmlight", "byte order mark", lambda path: path.write_bytes(marked) and None),
        Case("svmlight", "counted from 0", text("1 0:1.5 1:2\n0 0:3 1:4\n0 0:-5.25 1:6\n")),
        Case("svmlight", "UTF-16", text("1 1:1.5 2:2\n0 1:3 2:4\n0 1:-5.25 2:6\n", "utf-16")),
        Case("svmlight", "qid: and comments", text("1 qid:1 1:1.5 2:2 # one\n# two\n0 qid:1 1:3 2:4\n0 qid:2 1:-5.25 2:6\n")),
        Case("MATLAB", "labels in a row vector", lambda path: scipy.io.savemat(path, {"X": ROWS, "y": np.array([0, 1, 0])})),
        Case("MATLAB", "sparse", lambda path: scipy.io.savemat(path, {"X": sparse.csc_matrix(ROWS)})),
    ]


SUFFIX = {
    "CSV": ".csv",
    "CSV in zip": ".zip",
    "NPY": ".npy",
    "NPZ": ".npz",
    "HDF5": ".h5",
    "MATLAB": ".mat",
    "svmlight": ".svm",
    "Excel": ".xlsx",
    "Arrow": ".arrow",
    "Parquet": ".parquet",
    "JSON lines": ".jsonl",
}


def _compared(case: Case, found: Any) -> str:
    try:
        numbers = np.asarray(found, dtype=float)
    except (TypeError, ValueError):
        return "text"
    return "right" if case.values is not None and numbers.shape == case.values.shape and np.allclose(numbers, case.values) else "wrong"


def _other_readers() -> dict[str, Callable[[Case, Path], Any]]:
    def by_arrow(case: Case, path: Path) -> Any:
        found = csv.read_csv(path) if case.kind.startswith("CSV") else pq.read_table(path) if case.kind == "Parquet" else None
        if found is None and case.kind == "Arrow":
            found = pa.ipc.open_file(path).read_all()
        return None if found is None else np.column_stack([np.array(one.to_pylist(), dtype=object) for one in found.columns])

    def by_numpy(case: Case, path: Path) -> Any:
        if case.kind.startswith("CSV"):
            return np.loadtxt(path, delimiter=",", skiprows=1)
        found = np.load(path) if case.kind in ("NPY", "NPZ") else None
        return found["X"] if case.kind == "NPZ" and found is not None else found

    readers: dict[str, Callable[[Case, Path], Any]] = {"numpy": by_numpy, "pyarrow": by_arrow}
    try:
        import pandas
    except ImportError:
        return readers

    def by_pandas(case: Case, path: Path) -> Any:
        if case.kind.startswith("CSV"):
            return pandas.read_csv(path).to_numpy()
        if case.kind == "Excel":
            return pandas.read_excel(path).to_numpy()
        return pandas.read_parquet(path).to_numpy() if case.kind == "Parquet" else None

    return {"pandas": by_pandas} | readers


def _read_by_other(reader: Callable[[Case, Path], Any], case: Case, path: Path) -> str:
    try:
        found = reader(case, path)
    except Exception:  # whatever libraries raise
        return "refused"
    return "not asked" if found is None else _compared(case, found)


def _herd(case: Case, path: Path, options: tuple[str, ...]) -> tuple[str, str]:
    """What herd makes of a file, and its first line of a note or of an error."""
    out = path.with_suffix(".out.npy")
    out.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "herdcli", "convert", str(path), *options, "-o", str(out)], capture_output=True, text=True, check=False
    )
    notes = [line.replace(f"{path}: ", "").replace(str(path), path.name) for line in done.stderr.splitlines()]
    said = [line.split(": ", 1)[-1] for line in notes if not line.split(": ", 1)[-1][:1].isdigit() or "not used" in line]
    if done.returncode:
        return ("refused" if done.returncode in (2, 65) else f"exit {done.returncode}"), " · ".join(said[-2:])
    return _compared(case, np.load(out)), " · ".join(said)


def _line(case: Case, folder: Path, number: int) -> tuple[str, bool]:
    """The line of a case, and whether herd is wrong in silence."""
    path = folder / f"case{number}{SUFFIX[case.kind]}"
    case.make(path)
    others = [_read_by_other(reader, case, path) for reader in _other_readers().values()]
    plain, said = _herd(case, path, ())
    typed = " ".join(f"'{option}'" if option in (" ", "'") else option for option in case.options)
    asked, _ = _herd(case, path, case.options) if case.options else (plain, "")
    silent = (
        plain.startswith("exit")
        or (plain == "wrong" and not said)
        or (plain == "wrong" and case.values is not None)
        or (bool(case.options) and asked != "right")
    )
    shown = plain if not case.options else f"{plain}; {asked} with `{typed}`"
    cells = [case.kind, case.name.replace("|", "\\|"), *others, shown, said.replace("|", "\\|")]
    return "| " + " | ".join(cells) + " |", silent


def main() -> int:
    """Write the page; 1 where herd is wrong in silence, or under --check where the page is another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare the page with the one that is there")
    asked = parser.parse_args()
    heading = ["kind", "file", *_other_readers(), "herd", "what herd reports"]
    out = io.StringIO()
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        lines = []
        for number, case in enumerate([*_texts(), *_texts_of_other_kinds(), *_arrays()]):
            line, silent = _line(case, Path(folder), number)
            lines.append(line)
            wrong += [f"{case.kind}: {case.name}"] * silent
    out.write(
        "# Dialects\n\nWhat readers make of files as other programs and people write them, without options, and herd with those that\n"
    )
    out.write("its message names. `right`: the numbers that a person reads; `text`: a column is left as text; `refused`: an error.\n")
    out.write(f"Files without a right reading are to be refused. {len(lines)} files, {len(wrong)} that herd reads wrongly in silence.\n\n")
    out.write("| " + " | ".join(heading) + " |\n|" + "---|" * len(heading) + "\n" + "\n".join(lines) + "\n\n")
    out.write("Made by `python scripts dev/make_dialects`.\n")
    if asked.check:
        return int(PAGE.read_text() != out.getvalue() or bool(wrong))
    PAGE.write_text(out.getvalue())
    for name in wrong:
        print(f"wrong in silence: {name}")
    print(f"{len(lines)} files, {len(wrong)} wrong in silence -> {PAGE.name}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
