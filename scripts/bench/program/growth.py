"""Growth of processor time and memory with ten times the rows and ten times the columns, for every command that reads rows or networks.

    python scripts bench/program/growth FOLDER [--only em-kmeans,ica] [--runs 3] [-o results/growth.md]

An exponent is log10 of the ratio of two medians, less those of the command on a few rows: 1 is proportional.  `theory` is what the method
asks for; an exponent more than .1 above it is marked.  Cases are sized so that the smallest takes a few tenths of a second more than a few
rows.  The figures of each case stay in FOLDER, from which the page is made anew.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench.program.peers import ONE_THREAD, measure

FEW = (60, 4)
TOLERANCE = 0.1
SHORT = 0.05  # seconds: shorter differences are not compared


@dataclass(frozen=True)
class Case:
    """A command, its smallest number of rows and columns, and the exponents of theory.

    line  words of the command: {0} the input, {1} a file for the result, {2} a model that `model` fits to the input.
    make  writes the input of some rows and columns.
    """

    line: str
    rows: int
    columns: int
    make: Callable[[Path, int, int], Path]
    theory: tuple[float, float] = (1.0, 1.0)
    model: str = ""


def numbers(folder: Path, n: int, d: int) -> Path:
    """Correlated normal columns."""
    path = folder / f"numbers-{n}-{d}.npy"
    if not path.exists():
        random = np.random.default_rng(0)
        np.save(path, random.normal(size=(n, d)) + random.laplace(size=(n, 1)))
    return path


def bits(folder: Path, n: int, d: int) -> Path:
    """Two-state columns in chains."""
    path = folder / f"bits-{n}-{d}.npy"
    if not path.exists():
        random = np.random.default_rng(0)
        X = random.random((n, d)) < 0.3
        for j in range(1, d):
            X[:, j] ^= X[:, j - 1] & (random.random(n) < 0.6)
        np.save(path, X.astype(np.int8))
    return path


def labelled(folder: Path, n: int, d: int) -> Path:
    """Normal columns with a class that depends on them."""
    path = folder / f"labelled-{n}-{d}.npz"
    if not path.exists():
        random = np.random.default_rng(0)
        X = random.normal(size=(n, d))
        np.savez(path, X=X, y=(X[:, : min(d, 4)].sum(axis=1) + random.logistic(size=n) > 0).astype(np.int64))
    return path


def network(folder: Path, n: int, d: int) -> Path:
    """A grid of n by d two-state variables."""
    path = folder / f"grid-{n}-{d}.h5"
    if not path.exists():
        words = ["network", "grid", "--grid-rows", str(n), "--grid-columns", str(d), "--sigma-w", ".3", "-o", str(path)]
        subprocess.run([sys.executable, "-m", "herdcli", *words], check=True)
    return path


ALL = " --split 1,0,0"
GMM = "em {0} --model gmm --components 5 --covariance diagonal --iterations 10 --tolerance 0 --split 1,0,0 -o {2}"
CASES = {
    "fit-rbm": Case("fit-rbm {0} --algorithm cd --hidden 50 --epochs 2 -o {1}" + ALL, 20_000, 50, bits),
    "herd": Case("herd {0} --iterations 500 --hidden 10 -o {1}" + ALL, 5_000, 50, bits),
    "nherd-train": Case("nherd-train {0} --passes 1 --algorithm nherd --C 1 -o {1}" + ALL, 50_000, 20, labelled),
    "kernel-herd": Case("kernel-herd {0} -m 50 -o {1}", 20_000, 20, numbers),
    "ups-infer": Case("ups-infer {0} --algorithm bp --iterations 30 -o {1}", 200, 100, network),
    "fit-mrf": Case("fit-mrf {0} -o {1}" + ALL, 5_000, 12, bits, (1.0, 2.0)),  # every pair of columns is looked at
    "ica": Case("ica {0} --iterations 10 -o {1}" + ALL, 20_000, 10, numbers, (1.0, 2.0)),  # D × D filters
    "em-kmeans": Case("em {0} --model kmeans --components 50 --iterations 10 --tolerance 0 -o {1}" + ALL, 20_000, 20, numbers),
    "em-gmm": Case(GMM.replace("{2}", "{1}"), 20_000, 20, numbers),
    "em-pca": Case("em {0} --model pca --components 3 -o {1}" + ALL, 50_000, 20, numbers, (1.0, 2.0)),  # D × D covariances
    "regress": Case("regress {0} -o {1}" + ALL, 50_000, 10, labelled, (1.0, 2.0)),  # D × D curvature
    "convert": Case("convert {0} -o {1}", 200_000, 10, numbers),
    "eval": Case("eval {2} --data {0}", 50_000, 10, numbers, model=GMM),
    "apply": Case("apply {2} {0} -o {1}", 50_000, 10, numbers, model=GMM),
    "sample": Case("sample {2} --count {3} -o {1}", 50_000, 10, numbers, model=GMM),
    "info": Case("info {0}", 50_000, 10, numbers),
}


def figures(case: Case, folder: Path, runs: int) -> list[list[float]]:
    """Processor seconds and MB on a few rows, on the smallest input, on ten times the rows and on ten times the columns."""
    sizes = [(min(FEW[0], case.rows), min(FEW[1], case.columns)), (case.rows, case.columns)]
    sizes += [(10 * case.rows, case.columns), (case.rows, 10 * case.columns)]
    result, model, found = folder / "result.h5", folder / "model.h5", []
    for n, d in sizes:
        path = case.make(folder, n, d)
        if case.model:
            words = case.model.format(path, result, model, n).split()
            subprocess.run([sys.executable, "-m", "herdcli", *words], check=False, capture_output=True)
        seen = []
        for _ in range(runs):
            result.unlink(missing_ok=True)
            usage = measure([sys.executable, "-m", "herdcli", *case.line.format(path, result, model, n).split()], ONE_THREAD)
            if usage is not None:
                seen.append((usage.whole, usage.peak))
        found.append([statistics.median(values) for values in zip(*seen, strict=True)] if seen else [math.nan, math.nan])
    return found


def exponents(found: list[list[float]], which: int) -> list[float]:
    """Exponents of the seconds (0) or the memory (1) in rows and in columns; NaN where the difference is too short."""
    least = SHORT if which == 0 else 5.0
    few, small, *large = (figure[which] for figure in found)
    return [math.log10((x - few) / (small - few)) if small - few > least and x > few else math.nan for x in large]


def page(results: dict[str, list[list[float]]]) -> str:
    """The table: cases that grow faster than theory asks first."""
    above = {name: max(x - y for x, y in zip(exponents(found, 0), CASES[name].theory, strict=True)) for name, found in results.items()}
    fast = [name for name in results if above[name] > TOLERANCE]
    lines = ["# Growth for ten times the rows and columns", ""]
    lines.append(f"{len(fast)} of {len(results)} cases grow faster than theory asks{': ' + ', '.join(fast) if fast else ''}.")
    lines += ["", "Exponents of processor time, and of memory above that of a few rows, by `scripts/bench/program/growth.py`.", ""]
    lines += ["| case | rows × columns | s | 10 × rows | 10 × columns | rows | columns | theory | MB | rows | columns |"]
    lines += ["|" + "---|" * 11]
    for name in sorted(results, key=lambda each: -np.nan_to_num(above[each], nan=-9.0)):
        case, found = CASES[name], results[name]
        seconds = [f"{figure[0]:.2f}" for figure in found[1:]]
        time, memory = ([f"{x:.2f}" if x == x else "" for x in exponents(found, which)] for which in (0, 1))
        theory = f"{case.theory[0]:g}, {case.theory[1]:g}"
        cells = [name, f"{case.rows:,} × {case.columns}", *seconds, *time, theory, f"{found[1][1]:.0f}", *memory]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=",".join(CASES), help="names of cases")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    kept = options.folder / "growth.json"
    results = json.loads(kept.read_text()) if kept.exists() else {}
    for name in options.only.split(","):
        results[name] = figures(CASES[name], options.folder, options.runs)
        kept.write_text(json.dumps(results, indent=1))
        print(name, *(f"{seconds:.2f} s {peak:.0f} MB" for seconds, peak in results[name]), sep="\t", flush=True)
    if options.output:
        options.output.write_text(page(results), encoding="utf-8")


if __name__ == "__main__":
    main()
