"""Peaks of memory of commands that learn from a Parquet file under --max-memory: the file is made, every command runs under every bound.

    python scripts bench/program/memory results/memory.tsv
    python scripts bench/program/memory results/memory.tsv --rows 1e6 --columns 50 --bounds 250M,500M,1G,2G --only regress,em

A line is a command under a bound: its exit code, its peak (ru_maxrss), the same of `herd --version`, its CPU time, and what a run that was
refused says.  The file has one row group, float64 columns and a label.  Runs are short: one epoch, a few iterations.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HERD = str(Path(sys.executable).with_name("herd"))
SMALL = """import os, resource, sys
code = os.spawnv(os.P_WAIT, sys.argv[1], sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, used.ru_maxrss, used.ru_utime + used.ru_stime)"""  # a child's peak is never told as less than its parent's size
COMMANDS = {
    "nherd-train": ["nherd-train", "FILE"],
    "regress, least squares": ["regress", "FILE", "--family", "gaussian", "--iterations", "5"],
    "regress, logistic": ["regress", "FILE", "--family", "bernoulli", "--iterations", "3"],
    "em, mixture": ["em", "FILE", "--components", "2", "--iterations", "2"],
    "em, k-means": ["em", "FILE", "--model", "kmeans", "--components", "4", "--iterations", "2"],
    "em, factors": ["em", "FILE", "--model", "fa", "--components", "2", "--iterations", "2"],
    "fit-rbm": ["fit-rbm", "FILE", "--units", "gaussian", "--standardize", "--hidden", "8", "--epochs", "1", "--batch-size", "1000"],
    "kernel-herd": ["kernel-herd", "FILE", "-m", "10"],
    "kernel-herd, small blocks": ["kernel-herd", "FILE", "-m", "10", "--block-rows", "5000", "--embedding", "exact"],
}


def write(path: Path, rows: int, columns: int, kind: str) -> None:
    """A table of so many rows in one row group, with a label that the columns tell."""
    random = np.random.default_rng(1)
    X = random.standard_normal((rows, columns), dtype=np.float32)
    X[:, : columns // 5] += 2 * random.integers(0, 2, rows)[:, None]
    y = (X @ random.standard_normal(columns).astype(np.float32) + random.standard_normal(rows) > 0).astype(np.int64)
    table = pa.table({f"c{j}": X[:, j].astype(kind) for j in range(columns)} | {"y": y})
    pq.write_table(table, path, row_group_size=rows)


def run(line: list[str], folder: Path) -> tuple[int, float, float, str]:
    """The exit code of a command, its peak in MB, its CPU seconds, and its last lines on standard error."""
    ended = subprocess.run([sys.executable, "-Sc", SMALL, *line], cwd=folder, capture_output=True, text=True, check=True)
    code, peak, seconds = ended.stdout.splitlines()[-1].split()
    told = " ".join(ended.stderr.splitlines()[-2:]) if int(code) else ""
    return int(code), int(peak) * 1024 / 1e6, float(seconds), told


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--kind", choices=["float64", "float32"], default="float64")
    parser.add_argument("--bounds", default="250M,500M,1G,2G")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    args = [part for part in given.only.split(",") if part]
    chosen = {name: line for name, line in COMMANDS.items() if not args or any(name.startswith(part) for part in args)}
    with tempfile.TemporaryDirectory() as made, given.table.open("w") as table:
        folder = Path(made)
        write(folder / "rows.parquet", int(given.rows), given.columns, given.kind)
        least = run([HERD, "--version"], folder)[1]
        print("command\tbound\texit\tpeak_MB\tversion_MB\tcpu_s\tsaid", file=table, flush=True)
        for bound in given.bounds.split(","):
            for name, line in chosen.items():
                words = [HERD, *("rows.parquet" if word == "FILE" else word for word in line), "-q", "--max-memory", bound, "-o", "out.h5"]
                code, peak, seconds, told = run(words, folder)
                print(name, bound, code, f"{peak:.0f}", f"{least:.0f}", f"{seconds:.0f}", told, sep="\t", file=table, flush=True)


if __name__ == "__main__":
    main()
