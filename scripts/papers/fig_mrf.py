"""Fig. 6.5 and 6.6 of Teh (2003): the eights, and learning on junction graphs by the size of their cliques.

    python scripts papers/fig_mrf FOLDER [--models 8] [--largest 11]

Makes mrf-fig6.5 and mrf-fig6.6 (.csv, and .png by the extra `plot`) in FOLDER; models that the second table there has are left out.
Everything is learned by `herd fit-mrf` and judged by `herd eval`.

Pairwise models of the 8×8 eights: the likeliest tree and random pairs at most six steps apart on it, until there are so many
of each clique size 7 to 11 of the junction tree (best of eight elimination orders).  For each model and each largest clique
size of the junction graph: the mean log-likelihood of the training rows, and the L1 distance between given and learned pair
marginals, both exact, after loopy iterative scaling by its double loop, by its fixed-point equations with geometric damping
.7, and after the cluster variation method.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from shared.figure_pipeline import Row, herd, pyplot, read_csv, side_by_side, told, write_csv
from shared.real_data import path

from herdcli.artifacts import load
from herdcli.evaluation.plots import plot_list, tiles
from herdcli.schema import Array

SIZES = range(7, 12)
LEARNING = ["fit-mrf", path("eights8x8.h5"), "--split", "1,0,0", "--smoothing", 1]
EXACT = "--algorithm ups-jt --tolerance 1e-7 --iterations 3000"
RUNS = {
    "double loop": "--algorithm loopy-is --double-loop --tolerance 1e-5 --iterations 300",
    "damped": "--algorithm loopy-is --damping 0.7 --tolerance 1e-4 --iterations 5000",
    "cvm": "--algorithm cvm --tolerance 1e-5 --iterations 300",
}


def structure(seed: int) -> Row:
    """Pairs of variables, as `--edges` takes them, and the size of the junction tree's largest clique.

    The share of random pairs goes from .05 to .12.
    """
    with TemporaryDirectory() as folder:
        model, edges = Path(folder) / "model.h5", Path(folder) / "edges"
        share = 0.05 + 0.01 * (seed % 8)
        herd(*LEARNING, *f"--structure chow-liu+random:{share:.2f},6 --seed {seed} --iterations 1 -q".split(), "-o", model)
        text = "".join(f"x{i} x{j}\n" for (i, j), _ in load(str(model), kinds={"network"}).value.factors())
        edges.write_text(text)
        width = re.search(r"treewidth (\d+)", told(*LEARNING, "--edges", edges, "--dry-run")[1])
    assert width
    return {"seed": seed, "size": int(width[1]) + 1, "edges": text}


def structures(count: int, sizes: range) -> list[Row]:
    """The first `count` of each size, size by size."""
    found: dict[int, list[Row]] = {size: [] for size in sizes}
    made = side_by_side(lambda unit: [structure(unit["seed"])], ({"seed": seed} for seed in range(5000)))
    for (each,) in made:
        own = found.get(each["size"], [])
        if len(own) < count:
            own.append(each)
        if all(len(own) == count for own in found.values()):
            break
    return [each for size in sizes for each in found[size]]


def runs(model: Row) -> list[tuple[str, int, str]]:
    """The runs of one model that are wanted: algorithm, largest clique, options."""
    size, wanted = model["size"], model["wanted"]
    single = [(name, k, f"{RUNS[name]} --max-clique {k}") for k in range(2, size + 1) for name in RUNS if name in wanted]
    return [*([("exact", size, EXACT)] if "exact" in wanted else []), *single]


def measured(model: Row) -> list[Row]:
    """The rows of one model: log-likelihood of the training rows and mean L1 of the pairs after each run; blank where it ran away."""
    rows, judged = [], []
    with TemporaryDirectory() as folder:
        edges = Path(folder) / "edges"
        edges.write_text(model["edges"])
        for name, k, options in runs(model):
            learned = Path(folder) / f"{len(rows)}.h5"
            code, _ = told(*LEARNING, "--edges", edges, *options.split(), "-q", "-o", learned, answers=(0, 1))
            row = {"tree_clique": model["size"], "seed": model["seed"], "pairs": model["edges"].count("\n"), "algorithm": name}
            rows.append(row | {"max_clique": k, "converged": 0, "iterations": "", "log_likelihood": "", "l1": ""})
            judged += [learned] if code == 0 else []
        found = json.loads(herd("eval", *judged, "--format", "json"))
    for learned, numbers in zip(judged, found, strict=True):
        rows[int(learned.stem)] |= {
            "converged": int(numbers["converged"]),
            "iterations": numbers["iterations"],
            "log_likelihood": f"{numbers['train_log_likelihood']:.6f}",
            "l1": f"{numbers['marginal_l1']:.3e}",
        }
    return rows


def learn(table: Path, count: int, sizes: range) -> list[Row]:
    """The rows of `count` models of each size: those that the table holds, and the others, kept as they are made.

    Of a model that the table has, the algorithms that it lacks are run.
    """
    rows, every = read_csv(table), ("exact", *RUNS)
    known: dict[tuple[int, int], set[str]] = {}
    for row in rows:
        known.setdefault((int(row["tree_clique"]), int(row["seed"])), set()).add(row["algorithm"])
    lacking = {seed: set(every) - names for (_, seed), names in known.items() if not names >= set(every)}
    models = [structure(seed) | {"wanted": names} for seed, names in lacking.items()]
    if not all(sum(size == own for own, _ in known) >= count for size in sizes):
        models += [model | {"wanted": every} for model in structures(count, sizes) if (model["size"], model["seed"]) not in known]
    for made in side_by_side(measured, models):
        rows += [{name: str(value) for name, value in row.items()} for row in made]
        rows.sort(key=lambda row: (int(row["tree_clique"]), int(row["seed"]), every.index(row["algorithm"]), int(row["max_clique"])))
        write_csv(table, rows)
        print(f"clique size {made[0]['tree_clique']}, seed {made[0]['seed']}: {made[0]['pairs']} pairs", flush=True)
    return rows


def examples(x: Array, folder: Path) -> None:
    """Fig. 6.5: forty of the eights."""
    rows = np.linspace(0, len(x) - 1, 40).astype(int)
    write_csv(folder / "mrf-fig6.5.csv", [{"row": int(row), "pixels": "".join(map(str, x[row]))} for row in rows])
    ink = 1 - x[rows].reshape(-1, 8, 8).astype(float)
    plot_list.write_figure(
        tiles.tile_images(np.pad(ink, ((0, 0), (1, 1), (1, 1)), constant_values=1), columns=10), folder / "mrf-fig6.5.png", ".png"
    )


def draw(rows: list[Row], path: Path) -> None:
    """Both panels of the figure; a circle is the exact maximum likelihood, bars one standard deviation (clique size 10)."""
    figure, panels = pyplot().subplots(1, 2, figsize=(10, 4))
    for size in sorted({row["tree_clique"] for row in rows}):
        colour = f"C{size - min(SIZES)}"
        for name, style in (("double loop", "-"), ("cvm", ":")):
            own = [row for row in rows if row["tree_clique"] == size and row["algorithm"] == name and row["l1"]]
            ks = sorted({row["max_clique"] for row in own})
            for panel, column in zip(panels, ("log_likelihood", "l1"), strict=True):
                values = [np.array([float(row[column]) for row in own if row["max_clique"] == k]) for k in ks]
                means, spread = [v.mean() for v in values], [v.std() for v in values]
                label = f"junction tree {size}" if name == "double loop" else None
                if size == 10 and name == "double loop":
                    panel.errorbar(ks, means, spread, color=colour, ls=style, label=label, capsize=2)
                else:
                    panel.plot(ks, means, style, color=colour, label=label, lw=1.5 if style == "-" else 1)
        best = [float(row["log_likelihood"]) for row in rows if row["tree_clique"] == size and row["algorithm"] == "exact"]
        panels[0].plot([size], [np.mean(best)], "o", color=colour, mfc="none")
    panels[0].set_ylabel("mean log-likelihood of the training rows, nats")
    panels[1].set_ylabel("mean L1 distance of pair marginals")
    panels[1].set_yscale("log")
    panels[1].set_ylim(1e-5, 2)
    for panel in panels:
        panel.set_xlabel("largest clique of the junction graph")
    told = "solid: junction graph\ndotted: cluster variation\ncircles: exact; bars: one standard deviation"
    panels[0].legend(title=told, fontsize=8, title_fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", type=int, default=8, help="models of each clique size")
    parser.add_argument("--largest", type=int, default=max(SIZES), help="largest clique size of the junction trees")
    options = parser.parse_args()
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    x = load(str(path("eights8x8.h5")), kinds={"dataset"}).value.X.astype(np.int64)
    examples(x, folder)
    rows = learn(folder / "mrf-fig6.6.csv", options.models, range(min(SIZES), options.largest + 1))
    draw([row | {name: int(row[name]) for name in ("tree_clique", "max_clique")} for row in rows], folder / "mrf-fig6.6.png")


if __name__ == "__main__":
    main()
