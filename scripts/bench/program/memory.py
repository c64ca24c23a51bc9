"""Peaks of memory of all commands that read rows, beside what their pages say that they hold; and under --max-memory.

    python scripts bench/program/memory results/memory.tsv --write
    python scripts bench/program/memory results/memory.tsv --only em,regress --append
    python scripts bench/program/memory bounds.tsv --rows 1e6 --columns 50 --bounds 250M,500M,1G,2G

The file is Parquet with one row group, columns of float32 (--kind) and a label.  Runs are short: one epoch, a few iterations.  The peak is
`ru_maxrss` of the child.  The program itself is the peak of the same command with 1,000 rows.  `HELD` has the arrays that a command holds;
the contract is that the peak exceeds that of the program by at most 1.2 times their size.  --write puts the table into docs/scaling.md.
Under a bound, a command must stay within it (or within 250 MB), or be refused with exit code 65 and an option that needs less.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from shared.script_paths import ROOT

HERD = str(Path(sys.executable).with_name("herd"))
PAGE = ROOT / "docs" / "scaling.md"
BEGIN, END = "<!-- memory: begin -->", "<!-- memory: end -->"
HEADER = "command\tbound\texit\tpeak_MB\tprogram_MB\theld_MB\tcpu_s\tsaid"
SLACK = 1.2
LEAST = 250  # MB that a process may always use
FEW = 1000
SMALL = """import os, resource, sys
code = os.spawnv(os.P_WAIT, sys.argv[1], sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, used.ru_maxrss, used.ru_utime + used.ru_stime)"""  # a child's peak is never reported as less than its parent's size


@dataclass(frozen=True)
class Held:
    """The memory that a command holds: bytes for each value of the rows, bytes for each row, and MB for blocks of any file."""

    values: float
    row: float = 0
    fixed: float = 0
    what: str = ""

    def size(self, rows: int, columns: int) -> float:
        """The memory of so many rows in MB."""
        return (self.values * columns + self.row) * rows / 1e6 + self.fixed


@dataclass(frozen=True)
class Run:
    """A command line, FILE in the place of the table, and what it holds."""

    words: list[str]
    held: Held


NEEDED = {  # models that commands read beside the rows, fitted to the first 20,000 of them without a bound
    "linear.h5": ["nherd-train", "few.parquet"],
    "line.h5": ["regress", "few.parquet", "--target", "c0"],
    "mixture.h5": ["em", "few.parquet", "--components", "2", "--iterations", "2"],
    "rbm.h5": ["fit-rbm", "few.parquet", "--units", "gaussian", "--standardize", "--hidden", "8", "--epochs", "1"],
    "filters.h5": ["ica", "few.parquet", "--iterations", "3"],
}
LABEL = ["--label", "y"]  # else the label would be a feature, and all rows float64
GAUSSIAN = ["--units", "gaussian", "--standardize", "--hidden", "8", "--epochs", "1", "--batch-size", "1000", *LABEL]
CLUSTERS = ["--components", "2", "--iterations", "2", *LABEL]
TWO = ["--threshold", "0.5", "--range=-20,20"]
BLOCKS = Held(0, 30, 100, "blocks of rows; labels, split and weights")
ONLINE = Held(4, 60, 80, "the rows as stored; label, split and held-out scores; a block of 10,000 rows")
ONLINE_ON_DISK = Held(0, 60, 100, "label, split and held-out scores; a block of 10,000 rows")
REGRESSION = Held(0, 90, 60, "target, offset, split and predictions; blocks of rows")
MIXTURE = Held(5.6, 30, 140, "the rows as stored; those of the test split in float64; three times 65,536 rows to start from; blocks")
RUNS = {
    "nherd-train": Run(["nherd-train", "FILE"], ONLINE),
    "nherd-train --max-memory 400M": Run(["nherd-train", "FILE", "--max-memory", "400M"], ONLINE_ON_DISK),
    "regress": Run(["regress", "FILE", "--target", "c0", "--iterations", "5"], REGRESSION),
    "regress, logistic": Run(["regress", "FILE", "--family", "bernoulli", "--iterations", "3"], REGRESSION),
    "regress --one-pass": Run(["regress", "FILE", "--target", "c0", "--one-pass"], BLOCKS),
    "em": Run(["em", "FILE", *CLUSTERS], MIXTURE),
    "em --model kmeans": Run(["em", "FILE", "--model", "kmeans", "--components", "4", "--iterations", "2", *LABEL], MIXTURE),
    "em --model fa": Run(["em", "FILE", "--model", "fa", *CLUSTERS], MIXTURE),
    "em --on-disk": Run(["em", "FILE", *CLUSTERS, "--on-disk"], Held(0, 30, 120, "split and row numbers; 65,536 rows to start from")),
    "fit-rbm": Run(["fit-rbm", "FILE", *GAUSSIAN], Held(4, 30, 60, "the rows in float32; split and row numbers")),
    "fit-rbm --on-disk": Run(["fit-rbm", "FILE", *GAUSSIAN, "--on-disk"], Held(0, 20, 80, "the split; two windows of 32 MB")),
    "kernel-herd": Run(["kernel-herd", "FILE", "-m", "10"], Held(16, 60, 40, "the rows in float64, twice; sums and weights")),
    "kernel-herd --block-rows 5000": Run(
        ["kernel-herd", "FILE", "-m", "10", "--block-rows", "5000", "--embedding", "exact"],
        Held(0, 30, 100, "blocks of 5,000 rows; 65,536 rows"),
    ),
    "ica": Run(["ica", "FILE", "--iterations", "3"], Held(0, 40, 150, "65,536 rows; the split")),
    "herd": Run(
        ["herd", "FILE", *TWO, *LABEL, "--hidden", "4", "--iterations", "3", "--burn-in", "1"],
        Held(5, 30, 40, "the rows as stored, until they are bytes; then 2 bits a unit"),
    ),
    "herd --max-memory 200M": Run(
        ["herd", "FILE", *TWO, *LABEL, "--hidden", "4", "--iterations", "3", "--burn-in", "1", "--max-memory", "200M"],
        Held(1, 30, 80, "the rows as bytes; labels and split"),
    ),
    "fit-mrf --algorithm bayes": Run(
        ["fit-mrf", "FILE", *TWO, "--algorithm", "bayes", "--structure", "independent", *LABEL],
        Held(21, 30, 60, "the rows as stored, as bytes, and twice as states of 8 bytes"),
    ),
    "fit-mrf": Run(["fit-mrf", "FILE", *TWO], Held(1, 30, 60, "rows kept for evaluation, as bytes")),
    "convert": Run(["convert", "FILE"], BLOCKS),
    "apply, classifier": Run(["apply", "linear.h5", "FILE"], BLOCKS),
    "apply, regression": Run(["apply", "line.h5", "FILE"], BLOCKS),
    "apply, mixture": Run(["apply", "mixture.h5", "FILE"], BLOCKS),
    "apply, RBM": Run(["apply", "rbm.h5", "FILE"], BLOCKS),
    "apply, ICA": Run(["apply", "filters.h5", "FILE"], BLOCKS),
    "eval, classifier": Run(["eval", "linear.h5", "--data", "FILE"], BLOCKS),
    "eval, regression": Run(["eval", "line.h5", "--data", "FILE"], BLOCKS),
    "eval, mixture": Run(["eval", "mixture.h5", "--data", "FILE"], BLOCKS),
    "info": Run(["info", "FILE"], Held(4, 30, 60, "the rows as stored; labels and split")),
}


def write(folder: Path, rows: int, columns: int, kind: str) -> None:
    """Tables of so many rows in one row group, with a label that the columns tell; the first 20,000 of them, and the first 1,000."""
    random = np.random.default_rng(1)
    X = random.standard_normal((rows, columns), dtype=np.float32)
    X[:, : columns // 5] += 2 * random.integers(0, 2, rows)[:, None]
    y = (X @ random.standard_normal(columns).astype(np.float32) + random.standard_normal(rows) > 0).astype(np.int64)
    table = pa.table({f"c{j}": X[:, j].astype(kind) for j in range(columns)} | {"y": y})
    pq.write_table(table, folder / "rows.parquet", row_group_size=rows)
    pq.write_table(table.slice(0, min(rows, 20_000)), folder / "few.parquet")
    pq.write_table(table.slice(0, FEW), folder / "tiny.parquet")


def measure(words: list[str], folder: Path) -> tuple[int, float, float, str]:
    """The exit code of a command, its peak in MB, its CPU seconds, and its last lines on standard error."""
    ended = subprocess.run([sys.executable, "-Sc", SMALL, *words], cwd=folder, capture_output=True, text=True, check=True)
    code, peak, seconds = ended.stdout.splitlines()[-1].split()
    said = " ".join(ended.stderr.splitlines()[-2:]) if int(code) else ""
    return int(code), int(peak) * 1024 / 1e6, float(seconds), said


def page_table(lines: list[list[str]], rows: int, columns: int) -> str:
    """The table of the page: what each command holds, its size, and the peak."""
    head = "| command | holds | held, MB | program, MB | peak, MB | bytes a row | share |\n|---|---|---|---|---|---|---|"
    body = []
    for name, bound, code, peak, program, held, _, _ in lines:
        if bound == "none" and code == "0" and name in RUNS:
            more = float(peak) - float(program)
            share = more / float(held)
            shown = f"{share:.2f}" if share <= SLACK else f"**{share:.2f}**"
            what = RUNS[name].held.what
            body.append(f"| `{name}` | {what} | {held} | {program} | {peak} | {1e6 * more / rows:.0f} | {shown} |")
    caption = f"{rows:,} × {columns} values of float32 ({4 * columns} bytes a row), in one row group. Share: (peak − program) ÷ held."
    return "\n".join([BEGIN, caption, "", head, *body, END])


def put_into_page(text: str) -> None:
    """Replace the table of the page."""
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    PAGE.write_text(before + text + rest.split(END)[1], encoding="utf-8")


def judged(bound: str, code: int, peak: float, program: float, held: float, said: str) -> str | None:
    """The fault of a run, or None."""
    if bound == "none":
        return None if code == 0 and peak - program <= SLACK * held else f"exit {code}, {(peak - program) / held:.2f} times what it holds"
    most = max(LEAST, float(bound.replace("G", "000").replace("M", "")))
    if code == 65:
        return None if "hint:" in said and "--" in said.split("hint:")[1] else "refused without an option that works"
    return None if code == 0 and peak <= most else f"exit {code}, {peak:.0f} MB"


def main() -> int:
    """Measure, write the table, and print what breaks the contract; 1 if something does."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--kind", choices=["float64", "float32"], default="float32")
    parser.add_argument("--bounds", default="none", help="none: without --max-memory")
    parser.add_argument("--only", default="", help="beginnings of names of runs")
    parser.add_argument("--append", action="store_true", help="replace the lines of these runs in the table")
    parser.add_argument("--write", action="store_true", help="put the table into docs/scaling.md")
    parser.add_argument("--keep", type=Path, help="a folder for the files, which are used again")
    given = parser.parse_args()
    args, rows = [part for part in given.only.split(",") if part], int(given.rows)
    chosen = {name: run for name, run in RUNS.items() if not args or any(name.startswith(part) for part in args)}
    lines = [line.split("\t") for line in given.table.read_text().splitlines()[1:]] if given.append and given.table.exists() else []
    faults = 0
    with tempfile.TemporaryDirectory() as made:
        folder = given.keep or Path(made)
        folder.mkdir(exist_ok=True)
        if not (folder / "tiny.parquet").exists():
            write(folder, rows, given.columns, given.kind)
        for name, words in NEEDED.items():
            if not (folder / name).exists() and any(name in run.words for run in chosen.values()):
                subprocess.run([HERD, *words, "-q", "-o", name], cwd=folder, check=True)
        for name, run in chosen.items():
            end = ["-q"] if run.words[0] == "info" else ["-q", "-o", "out.h5"]
            small = [HERD, *("tiny.parquet" if word == "FILE" else word for word in run.words), *end]
            program = measure([word for word in small if word != "--one-pass"], folder)[1]
            for bound in given.bounds.split(","):
                more = [] if bound == "none" else ["--max-memory", bound]
                words = [HERD, *("rows.parquet" if word == "FILE" else word for word in run.words), *more, *end]
                code, peak, seconds, said = measure(words, folder)
                held = run.held.size(rows, given.columns)
                if (fault := judged(bound, code, peak, program, held, said)) is not None:
                    faults += 1
                    print(f"{name}, bound {bound}: {fault} {said}", flush=True)
                line = [name, bound, str(code), f"{peak:.0f}", f"{program:.0f}", f"{held:.0f}", f"{seconds:.0f}", said]
                lines = [each for each in lines if each[:2] != line[:2]] + [line]
                order = list(RUNS)
                lines.sort(key=lambda each: (each[1], order.index(each[0])))
                given.table.write_text("\n".join([HEADER, *("\t".join(each) for each in lines)]) + "\n")
    if given.write:
        put_into_page(page_table(lines, rows, given.columns))
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
