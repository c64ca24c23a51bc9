"""Which settings of machine and libraries change the bytes of a result: the table of docs/reliability.md.

    python scripts checks/determinism                     prints the table
    python scripts checks/determinism --write             puts it into docs/reliability.md
    python scripts checks/determinism --only "em;herd" --under threads --write    puts these cells into it
    python scripts checks/determinism --price --write     the price of --exact: CPU times with it over those without it
    python scripts checks/determinism --lowest PYTHON     an interpreter with the lowest NumPy and SciPy that herd is for

Every command runs on small inputs once as it is, and once for each setting.  A cell is `=` where the bytes are the same, else the
largest difference of a value relative to the largest of its array (`herdcli.artifacts.sealed.artifact_comparison`), `≠` where texts or
shapes differ.  Processors are imitated: OPENBLAS_CORETYPE and NPY_DISABLE_CPU_FEATURES choose among the code that libraries have for
several of them, HERD_SIMD among that of herd's own.  What this machine cannot run is left out.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from herdcli import artifacts
from herdcli.artifacts.sealed import artifact_comparison

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- determinism -->", "<!-- end of determinism -->"
PRICE, PRICED = "<!-- price -->", "<!-- end of price -->"
OLD = "X86_V4 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"
INPUTS = """
data digits -o digits.h5
convert digits.h5 --split 40,10,20 -o few.h5
network grid --rows 5 --columns 5 --seed 1 -o grid.h5
fit-rbm few.h5 --hidden 16 --epochs 2 -o model.h5
fit-rbm few.h5 --hidden 40 --epochs 2 -o wide.h5
fit-rbm few.h5 --per-class --folds 2 --hidden 8 --epochs 2 -o classes.h5
nherd-train few.h5 -o first.h5
nherd-train few.h5 --C 1 -o second.h5
kernel-herd few.h5 -m 8 -o points.h5
"""
COMMANDS = {  # what is run, into `out`
    "convert": "convert few.h5 --split 20,5,5 -o out",
    "fit-rbm": "fit-rbm few.h5 --hidden 16 --epochs 3 -o out",
    "fit-rbm, Gaussian units": "fit-rbm few.h5 --units gaussian --standardize --hidden 16 --epochs 3 -o out",
    "fit-rbm, recurrent": "fit-rbm few.h5 --recurrent --hidden 8 --epochs 2 --split .6,.2,.2 -o out",
    "herd": "herd few.h5 --hidden 8 --iterations 20 -o out",
    "nherd-train": "nherd-train few.h5 -o out",
    "nherd-train, full": "nherd-train few.h5 --covariance full -o out",
    "merge": "merge first.h5 second.h5 -o out",
    "kernel-herd": "kernel-herd few.h5 -m 8 -o out",
    "network": "network grid --grid-rows 8 --grid-columns 8 -o out",
    "ups-infer, exact": "ups-infer grid.h5 --algorithm junction-tree -o out",
    "ups-infer, bp": "ups-infer grid.h5 --algorithm bp -o out",
    "fit-mrf": "fit-mrf few.h5 --smoothing 1 -o out",
    "ica": "ica few.h5 --algorithm infomax --components 8 --rate-schedule 0.01x3 -o out",
    "em": "em few.h5 --model gmm --components 2 --iterations 5 --floor 0.1 -o out",
    "em, factors": "em few.h5 --model fa --components 3 --iterations 5 -o out",
    "em, k-means": "em few.h5 --model kmeans --components 5 -o out",
    "em, hidden Markov": "em few.h5 --model hmm --components 3 --iterations 3 --floor 0.1 --split .6,.2,.2 -o out",
    "em, linear dynamics": "em few.h5 --model lds --components 2 --iterations 3 --split .6,.2,.2 -o out",
    "regress": "regress few.h5 --l2 0.01 -o out",
    "apply": "apply model.h5 few.h5 -o out",
    "sample": "sample model.h5 --count 20 -o out",
    "eval": "eval model.h5 --temperatures 100 --format csv",
    "fit-rbm --exact": "fit-rbm few.h5 --hidden 16 --epochs 3 --exact -o out",
    "fit-rbm --exact, Gaussian units": "fit-rbm few.h5 --units gaussian --standardize --hidden 16 --epochs 2 --exact -o out",
    "fit-rbm --exact, classes": "fit-rbm few.h5 --per-class --hidden 8 --epochs 2 --exact -o out",
    "eval --exact": "eval model.h5 --exact --format csv",
    "eval --exact, annealed": "eval wide.h5 --temperatures 200 --exact --format csv",
    "eval --exact, ais": "eval wide.h5 --likelihood ais --temperatures 100 --reverse --exact --format csv",
    "eval --exact, classes": "eval classes.h5 --exact --format csv",
    "apply --exact": "apply wide.h5 few.h5 --exact -o out",
    "apply --exact, classes": "apply classes.h5 few.h5 --exact -o out",
    "kernel-herd --exact": "kernel-herd few.h5 -m 8 --exact -o out",
    "kernel-herd --exact, line search": "kernel-herd few.h5 -m 8 --rule line-search --atom-weights simplex --exact -o out",
    "kernel-herd --exact, pairwise": "kernel-herd few.h5 -m 8 --rule pairwise --atom-weights affine --exact -o out",
    "kernel-herd --exact, nearest point": "kernel-herd few.h5 -m 8 --rule min-norm-point --exact -o out",
}
SETTINGS: dict[str, dict[str, str]] = {  # column -> variables of the environment; `threads` and `lowest` are no variables
    "threads": {},
    "NumPy loops": {"HERD_KERNELS": "python"},
    "own loops SSE2": {"HERD_SIMD": "sse2"},
    "own loops AVX2": {"HERD_SIMD": "avx2"},
    "BLAS Nehalem": {"OPENBLAS_CORETYPE": "Nehalem"},
    "BLAS Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "BLAS SkylakeX": {"OPENBLAS_CORETYPE": "SkylakeX"},
    "NumPy without AVX-512": {"NPY_DISABLE_CPU_FEATURES": OLD},
    "NumPy without AVX2": {"NPY_DISABLE_CPU_FEATURES": f"{OLD} X86_V3 AVX2 FMA3"},
    "C library without FMA": {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4"},
    "SSE2 everywhere": {
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4",
        "NPY_DISABLE_CPU_FEATURES": f"{OLD} X86_V3 AVX2 FMA3",
        "OPENBLAS_CORETYPE": "Nehalem",
        "HERD_SIMD": "sse2",
    },
    "locale": {"LC_ALL": "C", "LANG": "tr_TR.UTF-8", "PYTHONUTF8": "0"},
    "hash seed": {"PYTHONHASHSEED": "4242"},
    "lowest versions": {},
}


PRICES = {  # what is timed with and without --exact
    "fit-rbm, 64 × 100": "fit-rbm digits.h5 --hidden 100 --epochs 40 -o out",
    "fit-rbm, 64 × 500, batches of 100": "fit-rbm digits.h5 --hidden 500 --batch-size 100 --epochs 20 -o out",
    "fit-rbm, 64 × 100, Gaussian visible units": "fit-rbm digits.h5 --visible-units gaussian --standardize --hidden 100 --epochs 40 -o out",
    "eval, log Z of 16 hidden units summed": "eval narrow.h5 --format csv",
    "eval, log Z of 100 hidden units annealed": "eval hundred.h5 --likelihood ais --format csv",
    "apply, 64 × 100": "apply hundred.h5 digits.h5 -o out",
    "kernel-herd, 100 atoms": "kernel-herd digits.h5 -m 100 -o out",
    "kernel-herd, 100 atoms, min-norm-point": "kernel-herd digits.h5 -m 100 --rule min-norm-point -o out",
    "kernel-herd, 100 atoms, affine weights": "kernel-herd digits.h5 -m 100 --atom-weights affine -o out",
}
PRICED_ON = ("SSE2 everywhere",)  # besides the machine as it is


def herd(python: str, line: str, folder: Path, changes: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    """One command in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HERD_", "OPENBLAS_", "NPY_", "GLIBC_"))}
    elsewhere = {} if python == sys.executable else {"PYTHONPATH": str(ROOT)}  # an interpreter that herd is not installed for
    environment |= elsewhere | {"PYTHONHASHSEED": "0", **changes}
    return subprocess.run(
        [python, "-m", "herdcli", *line.split(), "-q"], cwd=folder, env=environment, capture_output=True, check=False, timeout=600
    )


def possible(column: str, lowest: str | None, folder: Path) -> dict[str, str] | None:
    """The variables of a setting with what NumPy here knows of; None where this machine cannot run it."""
    changes = dict(SETTINGS[column])
    wanted = changes.get("NPY_DISABLE_CPU_FEATURES")
    if wanted is not None:
        from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

        known = [name for name in wanted.split() if name in __cpu_dispatch__ and __cpu_features__.get(name)]
        if not known:
            return None
        changes["NPY_DISABLE_CPU_FEATURES"] = " ".join(known)
    if column == "lowest versions" and lowest is None:
        return None
    if "HERD_SIMD" in changes:
        ended = herd(sys.executable, "kernel-herd few.h5 -m 2 -o probe", folder, changes)
        return changes if ended.returncode == 0 else None
    return changes


def result(python: str, line: str, folder: Path, changes: Mapping[str, str]) -> bytes:
    """The bytes that a command makes: its artifact, or its text.  Raises RuntimeError where it fails."""
    out = folder / "out"
    out.unlink(missing_ok=True)
    ended = herd(python, line, folder, changes)
    if ended.returncode:
        raise RuntimeError(f"herd {line}: {ended.stderr.decode(errors='replace').strip()}")
    return out.read_bytes() if out.exists() else ended.stdout


def cell(ours: bytes, theirs: bytes, folder: Path) -> str:
    """How one result compares with the one of reference."""
    if ours == theirs:
        return "="
    if not theirs.startswith(b"herd-artifact"):
        return _texts(ours.decode(), theirs.decode())
    values = []
    for name, content in (("a.h5", ours), ("b.h5", theirs)):
        (folder / name).write_bytes(content)
        values.append(artifacts.load(str(folder / name), missing=True).value)
    largest, _ = artifact_comparison.largest_difference(*values)
    return "≠" if largest == float("inf") else f"{largest:.0e}" if largest else "values ="


def _texts(ours: str, theirs: str) -> str:
    """The largest relative difference of numbers in two tables of the same words."""
    pairs = list(zip(ours.replace("\n", ",").split(","), theirs.replace("\n", ",").split(","), strict=False))
    worst = 0.0
    for a, b in pairs:
        if a != b:
            try:
                worst = max(worst, abs(float(a) - float(b)) / (abs(float(b)) or 1.0))
            except ValueError:
                return "≠"
    return f"{worst:.0e}"


def inputs(lines: Iterable[str]) -> list[str]:
    """What makes the files that lines read, and those that these are made of."""
    needed = {"few.h5"} | {word for line in lines for word in line.split()}
    kept: list[str] = []
    for line in reversed(INPUTS.split("\n")):
        if line and line.split()[-1] in needed:
            kept.insert(0, line)
            needed |= set(line.split())
    return kept


def matrix(commands: Sequence[str], columns: Iterable[str], lowest: str | None = None) -> dict[str, dict[str, str]]:
    """Cells by command and setting."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for line in inputs(COMMANDS[command] for command in commands):
            ended = herd(sys.executable, line, folder, {})
            assert ended.returncode == 0, ended.stderr.decode()
        able = {column: changes for column in columns if (changes := possible(column, lowest, folder)) is not None}
        found: dict[str, dict[str, str]] = {}
        for command in commands:
            line = COMMANDS[command]
            reference = result(sys.executable, line, folder, {})
            found[command] = {}
            for column, changes in able.items():
                if column == "threads":
                    if "--threads" not in herd(sys.executable, f"{line.split()[0]} --help-all", folder, {}).stdout.decode():
                        found[command][column] = "·"
                        continue
                    changes = {"HERD_THREADS": "5"}
                python = str(lowest) if column == "lowest versions" else sys.executable
                found[command][column] = cell(result(python, line, folder, changes), reference, folder)
            print(command, found[command], file=sys.stderr, flush=True)
        return found


def written(found: Mapping[str, Mapping[str, str]]) -> str:
    """The table in Markdown."""
    columns = list(next(iter(found.values())))
    lines = ["| command | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    lines += [f"| {command} | " + " | ".join(row[column] for column in columns) + " |" for command, row in found.items()]
    from herdcli import fast

    made = f"Made with NumPy {np.__version__}, own loops {fast.instruction_set() or 'of NumPy'}."
    return "\n".join([*lines, "", made])


def cpu(line: str, folder: Path, changes: Mapping[str, str]) -> float:
    """Seconds of processor time of one command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result(sys.executable, line, folder, changes)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def price(runs: int = 5) -> str:
    """The table of prices in Markdown: with --exact over without, the least of some runs in turn, start included."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fits = [f"fit-rbm digits.h5 --hidden {hidden} --epochs 5 -o {made}" for hidden, made in ((100, "hundred.h5"), (16, "narrow.h5"))]
        for line in ("data digits -o digits.h5", *fits, "convert digits.h5 --split 40,10,20 -o few.h5"):
            ended = herd(sys.executable, line, folder, {})
            assert ended.returncode == 0, ended.stderr.decode()
        able = {column: changes for column in PRICED_ON if (changes := possible(column, None, folder)) is not None}
        machines: dict[str, dict[str, str]] = {"as it is": {}} | able
        lines = ["| command | " + " | ".join(machines) + " |", "|---|" + "---|" * len(machines)]
        for command, line in PRICES.items():
            cells = []
            for changes in machines.values():
                one = {"HERD_THREADS": "1", **changes}
                times = [(cpu(line, folder, one), cpu(f"{line} --exact", folder, one)) for _ in range(runs)]
                plain, exact = (min(part) for part in zip(*times, strict=True))
                cells.append(f"{exact / plain:.2f} ×")
            lines.append(f"| {command} | " + " | ".join(cells) + " |")
            print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def put(table: str, begin: str, end: str) -> None:
    """A table into its place in the page."""
    before, _, rest = PAGE.read_text().partition(begin)
    PAGE.write_text(before + begin + "\n" + table + "\n" + end + rest.partition(end)[2])


def read() -> dict[str, dict[str, str]]:
    """The table that stands in the page."""
    text = PAGE.read_text().split(BEGIN)[1].split(END)[0]
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def joined(known: Mapping[str, Mapping[str, str]], found: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """The table that is known with the cells that were found, `?` for those that are in neither."""
    rows = [command for command in COMMANDS if command in known or command in found]
    columns = [column for column in SETTINGS if any(column in row for row in (*known.values(), *found.values()))]
    cells = {command: {**known.get(command, {}), **found.get(command, {})} for command in rows}
    return {command: {column: cells[command].get(column, "?") for column in columns} for command in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="commands, separated by semicolons")
    parser.add_argument("--under", help="settings, separated by semicolons")
    parser.add_argument("--lowest", metavar="PYTHON")
    parser.add_argument("--price", action="store_true", help="time --exact")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    if asked.price:
        priced = price()
        put(priced, PRICE, PRICED) if asked.write else print(priced)
        return
    commands = asked.only.split(";") if asked.only else list(COMMANDS)
    columns = asked.under.split(";") if asked.under else list(SETTINGS)
    found = matrix(commands, columns, asked.lowest)
    table = written(found if (commands == list(COMMANDS) and columns == list(SETTINGS)) or not asked.write else joined(read(), found))
    if asked.write:
        put(table, BEGIN, END)
    else:
        print(table)


if __name__ == "__main__":
    main()
