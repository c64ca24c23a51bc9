"""CPU time of every reader for ten times the rows and ten times the columns, and of CSV of up to 100,000 columns.

    python scripts bench/program/readers [--output results/readers.txt]

Each file is read in this process by `artifacts.load`; the lesser of two runs is kept.  A reader that is linear takes at most ten times as
long, and less where a part does not grow.  Exit 1 where a time grows by more than 15 and takes more than a second.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openpyxl
import pyarrow as pa
import scipy.io
from scipy.sparse import csr_matrix

from herdcli.artifacts import Dataset, load, save

RUNS = 2
BASE = (1000, 50)
SMALL = (100, 20)  # of Excel, whose library takes most of the time
WIDE = ((20, 1000), (20, 10_000), (20, 100_000))
MOST, LEAST_SECONDS = 15.0, 1.0


def _saved(path: Path, X: np.ndarray) -> None:
    y = (np.arange(len(X)) % 2).astype(np.int32)
    rows = csr_matrix(X) if path.suffix == ".svm" else X
    save(str(path), Dataset(rows, y=y), [])


def _excel(path: Path, X: np.ndarray) -> None:
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    for row in [[f"c{column}" for column in range(X.shape[1])], *X.tolist()]:
        sheet.append(row)
    book.save(path)


def _json(path: Path, X: np.ndarray) -> None:
    names = [f"c{column}" for column in range(X.shape[1])]
    path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in X.tolist()))


def _matlab(path: Path, X: np.ndarray) -> None:
    scipy.io.savemat(path, {"X": X})


def _arrow(path: Path, X: np.ndarray) -> None:
    whole = pa.table({f"c{column}": X[:, column] for column in range(X.shape[1])})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, whole.schema) as writer:
        writer.write_table(whole)


def _quoted(path: Path, X: np.ndarray) -> None:
    lines = [",".join(f'"c{column}"' for column in range(X.shape[1])), *(",".join(f'"{value}"' for value in row) for row in X.tolist())]
    path.write_text("\n".join(lines) + "\n")


def _aligned(path: Path, X: np.ndarray) -> None:
    lines = [
        "".join(f"{f'c{column}':>12}" for column in range(X.shape[1])),
        *("".join(f"{value:>12}" for value in row) for row in X.tolist()),
    ]
    path.write_text("\n".join(lines) + "\n")


READERS: dict[str, tuple[str, Callable[[Path, np.ndarray], None]]] = {
    "CSV": (".csv", _saved),
    "CSV, all cells quoted": (".quoted.csv", _quoted),
    "columns aligned by blanks": (".txt", _aligned),
    "Parquet": (".parquet", _saved),
    "Arrow": (".arrow", _arrow),
    "HDF5": (".h5", _saved),
    "NPZ": (".npz", _saved),
    "NPY": (".npy", _saved),
    "svmlight": (".svm", _saved),
    "JSON lines": (".json", _json),
    "MATLAB": (".mat", _matlab),
    "Excel, 100 × 20": (".xlsx", _excel),
}


def seconds(path: Path) -> float:
    """The lesser CPU time of the runs."""
    found = []
    for _ in range(RUNS):
        start = time.process_time()
        load(str(path))
        found.append(time.process_time() - start)
    return min(found)


def measured(folder: Path, suffix: str, make: Callable[[Path, np.ndarray], None], rows: int, columns: int) -> float:
    """Of a file of normal numbers."""
    path = folder / f"rows{suffix}"
    make(path, np.random.default_rng(0).normal(size=(rows, columns)).round(4))
    found = seconds(path)
    path.unlink()
    return found


def main() -> int:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path(__file__).resolve().parents[3] / "results" / "readers.txt")
    asked = parser.parse_args()
    lines = [f"{'reader':26s} {BASE[0]} × {BASE[1]}   × 10 rows   ratio   × 10 columns   ratio     CPU seconds"]
    slow = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, (suffix, make) in READERS.items():
            rows, columns = SMALL if suffix == ".xlsx" else BASE
            base, long, broad = (
                measured(folder, suffix, make, *size) for size in ((rows, columns), (10 * rows, columns), (rows, 10 * columns))
            )
            lines.append(f"{name:26s} {base:9.4f}   {long:9.4f}   {long / base:5.1f}   {broad:12.4f}   {broad / base:5.1f}")
            print(lines[-1], flush=True)
            slow += [f"{name}: {what}" for what, took in (("rows", long), ("columns", broad)) if took > max(LEAST_SECONDS, MOST * base)]
        for suffix, make, what in ((".csv", _saved, "CSV"), (".quoted.csv", _quoted, "CSV, all cells quoted")):
            times = [measured(folder, suffix, make, *size) for size in WIDE]
            shown = ", ".join(f"{size[0]} × {size[1]} {took:.2f} s" for size, took in zip(WIDE, times, strict=True))
            lines.append(f"wide {what}: {shown}")
            print(lines[-1], flush=True)
            slow += [f"wide {what}"] * (times[-1] > MOST * times[-2] and times[-1] > LEAST_SECONDS)
    text = "\n".join([*lines, *(f"not linear: {name}" for name in slow)]) + "\n"
    asked.output.write_text(text)
    return int(bool(slow))


if __name__ == "__main__":
    sys.exit(main())
