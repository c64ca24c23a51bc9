"""Figures 3 to 7 of Bach, Lacoste-Julien & Obozinski (2012) from pipelines of `herd` commands.

    python scripts papers/bach_figures FOLDER                # all, two minutes
    python scripts papers/bach_figures FOLDER --figure 4
    python scripts papers/bach_figures FOLDER --figure 3 --count 60 --seeds 3

For each figure bach-figN.csv (long form: panel, method, t, and what is plotted) and, with matplotlib, bach-figN.png.  Every number
comes out of `herd kernel-herd … | herd eval --curve`; this file only writes inputs and draws.

Figure 3: population herding on [0, 1], MMD against the number of atoms.  Left ν = 3 and a trigonometric density, middle
ν = 3 and right ν = 1, both uniform.  Random is averaged over 10 seeds, with the standard error of that mean; "-proj" are the simplex
weights of the same atoms.
Figure 4: the same from a sample of 1,000 rows: error on the rows (train) and against the density (test).
Figure 5: signs of 100 Gaussian variables, features x and xx', candidates 10,000 draws.
Figure 6: 10 independent bits with means U[−1, 1]; {1..5}/6 · 2√2/3; {1..5}/6 (of (1 + mean)/2): distance to the law of maximum entropy and
error of the means.  Figure 7: zero weights on x, constant weights on xx'.
The herding trajectories of 6 and 7 are compared with `herd herd --model mrf` and must be equal.  Both programs give a tie to
the first state, and ties abound where units are exchangeable; so moments are rounded to multiples of 2^-20, with which all scores are
exact, and the rational ones are given to `herd herd` as six rows of data.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from shared.figure_pipeline import Row, herd, pyplot, read_csv, write_csv


def trace(folder: Path, *arguments: object, target: str | None = None) -> list[Row]:
    """`herd kernel-herd ARGUMENTS` and the rows of `herd eval --curve`."""
    herd("kernel-herd", *arguments, "--no-state", "-q", "-o", "run.h5", folder=folder)
    extra = ["--distribution", target] if target else []
    return read_csv(herd("eval", "run.h5", "--curve", "--format", "csv", *extra, folder=folder))


def table(path: Path, columns: list[str], rows: np.ndarray) -> str:
    """A CSV file; its name."""
    np.savetxt(path, np.atleast_2d(rows), delimiter=",", header=",".join(columns), comments="", fmt="%.17g")
    return path.name


def density(folder: Path) -> str:
    """The randomly selected density of figures 3 and 4: D = 5, coefficients N(0, 1)."""
    return "trigonometric:" + table(folder / "density.csv", ["a", "b"], np.random.default_rng(1).standard_normal((5, 2)))


def figure3(folder: Path, count: int, seeds: int = 10) -> Iterator[Row]:
    panels = {
        "nu=3, density": (density(folder), "bernoulli:3"),
        "nu=3, uniform": ("uniform", "bernoulli:3"),
        "nu=1, uniform": ("uniform", "bernoulli:1"),
    }
    for panel, (target, kernel) in panels.items():
        common = ("--target", target, "--kernel", kernel, "-m", count)
        for rule in ("herding", "line-search", "min-norm-point", "sobol", "random"):
            runs = []
            for seed in range(seeds if rule == "random" else 1):
                made = ("--rule", rule, "--seed", seed, *(() if rule in ("random", "sobol") else ("--candidates", "grid:8192")))
                runs.append(trace(folder, *common, *made, *(() if rule == "min-norm-point" else ("--trace-projected",))))
            for rows in zip(*runs, strict=True):
                for column, suffix in (("mmd", ""), ("projected_mmd", "-proj")):
                    values = [float(row[column]) for row in rows if row.get(column)]
                    if values:
                        spread = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
                        figures = {"mmd": float(np.mean(values)), "standard_error": spread}
                        yield {"panel": panel, "method": rule + suffix, "t": int(rows[0]["t"]), **figures}


def figure4(folder: Path, count: int) -> Iterator[Row]:
    target = density(folder)
    herd(
        "kernel-herd",
        "--rule",
        "random",
        "-m",
        1000,
        "--distribution",
        target,
        "--kernel",
        "bernoulli:3",
        "-q",
        "-o",
        "sample.h5",
        folder=folder,
    )
    for rule in ("herding", "line-search"):
        for row in trace(folder, "sample.h5", "-m", count, "--kernel", "bernoulli:3", "--rule", rule, target=target):
            for column, name in (("mmd", "train"), ("target_mmd", "test")):
                yield {"panel": "sample of 1000", "method": f"{rule}, {name}", "t": int(row["t"]), "mmd": float(row[column])}
    for t in np.unique(np.round(np.logspace(0, np.log10(min(count, 200)), max(2, min(count // 20, 24)))).astype(int)):
        herd(
            "kernel-herd", "sample.h5", "-m", t, "--kernel", "bernoulli:3", "--rule", "min-norm-point", "-q", "-o", "run.h5", folder=folder
        )
        (row,) = read_csv(herd("eval", "run.h5", "--format", "csv", "--distribution", target, folder=folder))
        for column, name in (("mmd", "train"), ("target_mmd", "test")):
            yield {"panel": "sample of 1000", "method": f"min-norm-point, {name}", "t": int(t), "mmd": float(row[column])}


def figure5(folder: Path, count: int) -> Iterator[Row]:
    A = np.random.default_rng(2).standard_normal((100, 100))
    target = "signs:" + table(folder / "covariance.csv", [f"x{i}" for i in range(100)], A @ A.T)
    for rule in ("herding", "line-search", "min-norm-point"):
        m = min(count, 1000) if rule == "min-norm-point" else count
        made = ("--target", target, "--candidates", "sample:10000", "--kernel", "features:x+xx", "--rule", rule, "-m", m)
        for row in trace(folder, *made):
            yield {"panel": "100 signs", "method": rule, "t": int(row["t"]), "mmd": float(row["mmd"])}


def laws(folder: Path, panel: str, moments: str, features: str, count: int) -> Iterator[Row]:
    """Herding and line search over all states of 10 units."""
    for rule in ("herding", "line-search"):
        made = (
            "--target",
            f"moments:{moments}",
            "--candidates",
            "cube:10",
            "--kernel",
            f"features:{features}",
            "--rule",
            rule,
            "-m",
            count,
        )
        for row in trace(folder, *made):
            figures = {name: float(row[name]) for name in ("mmd", "law_distance", "law_entropy")}
            yield {"panel": panel, "method": rule, "t": int(row["t"]), **figures}


def same_trajectory(folder: Path, source: str, matrix: str, features: str, steps: int, *model: str) -> None:
    """Raise unless `herd herd --model mrf` of `source` visits the same states as herding towards the moments `matrix`."""
    import h5py

    names = {"x": "x", "x+xx": "x,xx"}
    model = ("--model", "mrf", "--features", names[features], "--maximiser", "enumerate", *model)
    herd("herd", source, *model, "--iterations", steps, "--burn-in", 0, "-q", "-o", "mrf.h5", folder=folder)
    made = ("--target", f"moments:{matrix}", "--candidates", "cube:10", "--kernel", f"features:{features}", "-m", steps)
    herd("kernel-herd", *made, "-q", "-o", "kernel.h5", folder=folder)
    with h5py.File(folder / "mrf.h5") as file:
        bits = np.unpackbits(file["states"][0], axis=1, count=10, bitorder="little")
    with h5py.File(folder / "kernel.h5") as file:
        mine = file["x"][:] > 0
    if not np.array_equal(bits.astype(bool), mine):
        first = int(np.argmax((bits.astype(bool) != mine).any(axis=1)))
        raise SystemExit(f"features {features}: the trajectory of herd herd {source} differs from step {first + 1} on")


def rounded(x: np.ndarray) -> np.ndarray:
    """Multiples of 2^-20."""
    return np.round(x * 2.0**20) / 2.0**20


UNITS = [f"x{i}" for i in range(10)]


def figure6(folder: Path, count: int) -> Iterator[Row]:
    random = np.random.default_rng(3)
    sixths = random.integers(1, 6, 10)
    means = {
        "uniform": rounded(random.uniform(-1, 1, 10)),
        "irrational": rounded(2 * (sixths / 6 * 2 * np.sqrt(2) / 3) - 1),
        "rational": 2 * (sixths / 6) - 1,
    }
    for panel, mean in means.items():
        name = table(folder / f"mean-{panel}.csv", UNITS, mean)
        if panel == "rational":
            rows = table(folder / "six.csv", UNITS, np.where(np.arange(6)[:, None] < sixths, 1.0, -1.0))
            same_trajectory(folder, rows, name, "x", count, "--split", "1,0,0")
        else:
            same_trajectory(folder, name, name, "x", count, "--moments")
        yield from laws(folder, panel, name, "x", count)


def figure7(folder: Path, count: int) -> Iterator[Row]:
    states = np.where(np.arange(1024)[:, None] >> np.arange(10) & 1, 1.0, -1.0)
    score = 0.1 * 0.5 * (states.sum(axis=1) ** 2 - 10)  # constant weight 0.1 on every pair
    law = np.exp(score - score.max())
    second = rounded((states * (law / law.sum())[:, None]).T @ states)
    name = table(folder / "pairs.csv", UNITS, np.vstack([np.zeros(10), second]))
    flat = np.concatenate([np.zeros(10), second[np.triu_indices(10, 1)]])
    source = table(folder / "flat.csv", [f"m{i}" for i in range(len(flat))], flat)
    same_trajectory(folder, source, name, "x+xx", count, "--moments")
    yield from laws(folder, "constant pairs", name, "x+xx", count)


FIGURES = {3: (figure3, 300), 4: (figure4, 1000), 5: (figure5, 3000), 6: (figure6, 20000), 7: (figure7, 20000)}


TITLES = {  # the papers' words for what the panels are
    "nu=3, density": "ν = 3, density",
    "nu=3, uniform": "ν = 3, uniform",
    "nu=1, uniform": "ν = 1, uniform",
    "uniform": "means uniform on [−1, 1]",
    "irrational": "means √2 times rational numbers",
    "rational": "means rational",
}
LABELS = {"mmd": "MMD, the error of the mean of the features", "law_distance": "distance to the law of maximum entropy"}


def draw(path: Path, rows: list[Row]) -> None:
    """One panel for each panel and quantity; a zero, which has no logarithm, breaks its line."""
    quantities = [name for name in ("law_distance", "mmd") if name in rows[0]]
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    size = (4.5 * len(panels), 3.6 * len(quantities))
    figure, axes = pyplot().subplots(len(quantities), len(panels), figsize=size, squeeze=False)
    for i, quantity in enumerate(quantities):
        for j, panel in enumerate(panels):
            axis = axes[i][j]
            colours: dict[str, str] = {}  # of a method: the same for train and test
            for method in dict.fromkeys(row["method"] for row in rows if row["panel"] == panel):
                own = [row for row in rows if row["panel"] == panel and row["method"] == method]
                points = [(row["t"], row[quantity]) for row in own]
                spread = [(row["t"], row[quantity], row["standard_error"]) for row in own if row.get("standard_error")]
                label = f"{method} ± s. e." if spread else method
                colour = colours.setdefault(str(method).partition(",")[0], f"C{len(colours)}")
                style = "--" if str(method).endswith(("-proj", "train")) else "-"
                (line,) = axis.loglog(*zip(*points, strict=True), style, color=colour, label=label, nonpositive="mask")
                if spread:
                    t, mean, error = np.array(spread).T
                    axis.fill_between(t, mean - error, mean + error, color=line.get_color(), alpha=0.3, linewidth=0)
            axis.set(title=TITLES.get(str(panel), str(panel)), xlabel="atoms", ylabel=LABELS[quantity])
            axis.legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--figure", type=int, choices=FIGURES, action="append")
    parser.add_argument("--count", type=int, default=None, help="atoms, instead of each figure's own number")
    parser.add_argument("--seeds", type=int, default=10, help="of random atoms in figure 3")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for number in arguments.figure or FIGURES:
        make, count = FIGURES[number]
        if number == 3:
            make = partial(figure3, seeds=arguments.seeds)
        rows = list(make(arguments.folder, arguments.count or count))
        write_csv(arguments.folder / f"bach-fig{number}.csv", rows)
        draw(arguments.folder / f"bach-fig{number}.png", rows)


if __name__ == "__main__":
    main()
