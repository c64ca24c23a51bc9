"""What Bach, Lacoste-Julien & Obozinski (2012) say in words of rates, starts and laws, as numbers.

    python scripts claims/kernel FOLDER [--quick] [--only CLAIM …]           (makes claims-kernel.csv)

rates     sec. 4.2: ½MMD² ≤ 4R²/t with kernels of infinitely many dimensions; with features of finitely many 1/t² of herding, and a linear
          rate of line search: fitted slopes over draws of rows, t from 30 on.
starts    sec. 4: w₀ = 0 against w₀ = μ: the ratio of the MMDs at equal numbers of atoms.
zeros     sec. 5.3: states that never come up, of 1,024, after herding and line search; random means.
erratic   sec. 5.3: how far the distance to the law of maximum entropy, and the MMD, go up and down from one place of the trace to the
          next, of rational and of irrational means.

Every MMD is one of `herd kernel-herd … | herd eval --curve`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from claims.claim_rows import bits, told, write
from papers.bach_figures import UNITS, rounded, table, trace
from shared.figure_pipeline import Row
from shared.real_data import path

from herdcli import artifacts
from herdcli.schema import Array

REAL = {"usps_all.h5": 255.0, "spambase.h5": 0.0, "phoneme.h5": 0.0, "orl.h5": 255.0}


def drawn(name: str, rows: int, seed: int) -> Array:
    """So many rows of a set, columns divided by the largest value or by their standard deviations."""
    X = np.asarray(artifacts.load(str(path(name)), kinds={"dataset"}).value.X, dtype=np.float64)
    X = X[np.random.default_rng(seed).permutation(len(X))[:rows]]
    return X / REAL[name] if REAL[name] else X[:, X.std(axis=0) > 0] / X.std(axis=0)[X.std(axis=0) > 0]


def written(folder: Path, X: Array) -> str:
    return table(folder / "rows.csv", [f"x{i}" for i in range(X.shape[1])], X)


def curve(folder: Path, *arguments: object) -> tuple[Array, Array]:
    """t and MMD of one run."""
    found = trace(folder, *arguments)
    return np.array([int(row["t"]) for row in found]), np.array([float(row["mmd"]) for row in found])


def slope(x: Array, y: Array) -> tuple[float, float]:
    """The slope of a straight line through points, and the share of the variance that it explains."""
    by, at = np.polyfit(x, y, 1)
    left = y - by * x - at
    return float(by), float(1 - left.var() / y.var())


def rates(quick: bool) -> Iterator[Row]:
    """R = 1 for the Gaussian kernel; features: ten ±1 pixels, of which R² = 10; atoms are rows, so that μ lies within their hull."""
    seeds = 2 if quick else 5
    with TemporaryDirectory() as name:
        folder = Path(name)
        for data in list(REAL)[: 1 if quick else None]:
            title = data.partition(".")[0].partition("_")[0]
            share: dict[str, list[float]] = {"herding": [], "line-search": []}
            fitted: dict[str, list[float]] = {"herding": [], "line-search": []}
            for seed in range(seeds):
                rows = written(folder, drawn(data, 400, seed))
                for rule in share:
                    t, mmd = curve(folder, rows, "-m", 200 if quick else 400, "--rule", rule)
                    share[rule].append(float((mmd**2 / 2 * t / 4).max()))
                    late = t >= 30
                    fitted[rule].append(slope(np.log(t[late]), np.log(mmd[late] ** 2))[0])
            for rule in share:
                yield told("rates", f"{title}, gaussian", f"largest ½MMD² over 4R²/t: {rule}", max(share[rule]))
                yield told("rates", f"{title}, gaussian", f"exponent of MMD²: {rule}", fitted[rule])
        for data in ("eights8x8.h5", "usps_all.h5", "mnist.h5")[: 1 if quick else None]:
            title = data.partition(".")[0].partition("_")[0]
            powers, linear, straight, bound = [], [], [], []
            for seed in range(seeds):
                rows = written(folder, bits(data, 10, 1000, seed))
                t, mmd = curve(folder, rows, "-m", 300 if quick else 2000, "--kernel", "features:x", "--rule", "herding")
                late = (t >= 30) & (mmd > 1e-10)
                powers.append(slope(np.log(t[late]), np.log(mmd[late] ** 2))[0])
                bound.append(float((t * mmd)[late].max() / (t * mmd)[late][:10].max()))
                t, mmd = curve(folder, rows, "-m", 300 if quick else 2000, "--kernel", "features:x", "--rule", "line-search")
                kept = (t >= 5) & (mmd > 1e-6)  # MMDs are differences of products of numbers of size 10: below 1e-8 there is rounding alone
                by, explained = slope(t[kept], np.log(mmd[kept] ** 2))
                linear.append(by)
                straight.append(explained)
            yield told("rates", f"{title}, ten pixels", "exponent of MMD²: herding", powers)
            yield told("rates", f"{title}, ten pixels", "largest t MMD over that of the first ten", bound)
            yield told("rates", f"{title}, ten pixels", "log MMD² an atom: line-search", linear)
            yield told("rates", f"{title}, ten pixels", "of its variance explained by a line", straight)


def starts(quick: bool) -> Iterator[Row]:
    """log₂ of the MMD with w₀ = μ over that with w₀ = 0, at 10 to 300 atoms."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for data in list(REAL)[: 1 if quick else None]:
            gaps: dict[int, list[float]] = {10: [], 30: [], 100: [], 300: []}
            for seed in range(2 if quick else 5):
                rows = written(folder, drawn(data, 400, seed))
                zero, mean = (dict(zip(*curve(folder, rows, "-m", 300, "--init", init), strict=True)) for init in ("zero", "mean"))
                for count, found in gaps.items():
                    at = min(zero, key=lambda t, count=count: abs(t - count))
                    found.append(float(np.log2(mean[at] / zero[at])))
            for count, found in gaps.items():
                yield told("starts", data.partition(".")[0].partition("_")[0], f"log2 of MMD, w0 = μ over w0 = 0, {count} atoms", found)


PANELS = ("uniform", "irrational", "rational")


def means(panel: str, seed: int) -> Array:
    """Means of ten ±1 bits, as in fig. 6."""
    random = np.random.default_rng((3, seed))
    sixths = random.integers(1, 6, 10) / 6
    return {
        "uniform": rounded(random.uniform(-1, 1, 10)),
        "irrational": rounded(2 * (sixths * 2 * np.sqrt(2) / 3) - 1),
        "rational": 2 * sixths - 1,
    }[panel]


def laws(quick: bool, panels: tuple[str, ...], rules: tuple[str, ...]) -> Iterator[tuple[str, str, list[Row], Path]]:
    """Runs over all states of ten bits: panel, rule, the rows of the trace, and the artifact."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for panel in panels:
            for seed in range(2 if quick else 5):
                moments = table(folder / "mean.csv", UNITS, means(panel, seed))
                for rule in rules:
                    made = ("--target", f"moments:{moments}", "--candidates", "cube:10", "--kernel", "features:x", "--rule", rule)
                    yield panel, rule, trace(folder, *made, "-m", 1000 if quick else 10000), folder / "run.h5"


def zeros(quick: bool) -> Iterator[Row]:
    """Different states among the atoms, and their entropy; the law of maximum entropy has all 1,024."""
    found: dict[str, list[float]] = {"herding": [], "line-search": []}
    for _, rule, _, file in laws(quick, ("uniform",), ("herding", "line-search")):
        x = np.asarray(artifacts.load(str(file)).value.x)
        found[rule].append(1 - len(np.unique(x > 0, axis=0)) / 1024)
    for rule, values in found.items():
        yield told("zeros", "ten bits, random means", f"states that never come up: {rule}", values)


def erratic(quick: bool) -> Iterator[Row]:
    """Root mean squares of changes of log distance and log MMD between neighbouring places of the trace, from 100 atoms on."""
    found: dict[str, dict[str, list[float]]] = {name: {panel: [] for panel in PANELS} for name in ("law_distance", "mmd")}
    for panel, _, rows, _ in laws(quick, PANELS, ("herding",)):
        for name, values in found.items():
            late = [max(float(row[name]), 1e-9) for row in rows if int(row["t"]) >= 100]  # of six equal parts MMDs are 0 every sixth atom
            values[panel].append(float(np.sqrt(np.mean(np.diff(np.log(late)) ** 2))))
    for name, values in found.items():
        for panel, runs in values.items():
            yield told("erratic", panel, f"changes of log {name}", runs)
        yield told("erratic", "rational less irrational", f"changes of log {name}", np.array(values["rational"]) - values["irrational"])


CLAIMS = {"rates": rates, "starts": starts, "zeros": zeros, "erratic": erratic}

if __name__ == "__main__":
    write("claims-kernel", CLAIMS)
