"""Fig. 6.5 and 6.6 of Teh (2003): the eights, and learning on junction graphs by the size of their cliques.

    python scripts/fig_mrf.py FOLDER [--models 8] [--largest 11]

Makes mrf-fig6.5 and mrf-fig6.6 (.csv, and .png by the extra `plot`) in FOLDER; models that the second table there has are left out.
The learners are those of `herd fit-mrf`, called as functions, because the models are picked by the size of their junction trees.

Pairwise models of the 8×8 eights: the likeliest tree and random pairs at most six steps apart on it, until there are so many
of each clique size 7 to 11 of the junction tree (best of eight elimination orders).  For each model and each largest clique
size of the junction graph: the mean log-likelihood of the training rows, and the L1 distance between given and learned pair
marginals, both exact, after loopy iterative scaling by its double loop, by its fixed-point equations with geometric damping
½ (for the first two models of sizes 7 to 10: it is slow where it does not converge), and after the cluster variation method.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from pipeline import Row, pyplot, read_csv, write_csv
from realdata import path

from herdcli import iterate
from herdcli.artifacts import load
from herdcli.errors import NegativeResult
from herdcli.evaluation import plots
from herdcli.markov import constraints, fitted, learning, structure
from herdcli.schema import Array

SIZES = range(7, 12)
SMOOTHING = 1.0
LIMIT = 2e9
SINGLE = {7: 2, 8: 2, 9: 2, 10: 2, 11: 0}  # models of each size that are learned by fixed-point equations too (minutes each)
EXACT = {"algorithm": "ups-jt", "tolerance": 1e-7, "iterations": 3000}
RUNS = {
    "double loop": {"algorithm": "loopy-is", "double_loop": True, "tolerance": 1e-5, "iterations": 300},
    "damped": {"algorithm": "loopy-is", "damping": 0.5, "tolerance": 1e-4, "iterations": 60},
    "cvm": {"algorithm": "cvm", "tolerance": 1e-5, "iterations": 300},
}


def problems(x: Array, count: int, sizes: range) -> list[tuple[int, int, constraints.Problem]]:
    """`count` problems of each clique size: (size, seed, problem).  The share of random pairs goes from .05 to .12."""
    rows = constraints.Rows(x, np.full(len(x), 1 / len(x)))
    cardinality = np.full(x.shape[1], 2)
    information = constraints.pairs(rows, cardinality, SMOOTHING).information()
    found: dict[int, list[tuple[int, int, constraints.Problem]]] = defaultdict(list)
    for seed in range(5000):
        share = 0.05 + 0.01 * (seed % 8)
        edges = structure.edges("chow-liu+random", share, 6, x.shape[1], information, None, seed)
        problem = constraints.Problem(cardinality, constraints.from_scopes(rows, cardinality, edges, SMOOTHING), rows=rows)
        size = learning.learner(problem, learning.Settings()).width + 1
        if size in sizes and len(found[size]) < count:
            found[size].append((size, seed, problem))
        if sum(map(len, found.values())) == count * len(sizes):
            break
    return [item for size in sizes for item in found[size]]


def measured(problem: constraints.Problem, settings: dict[str, Any]) -> Row:
    """Log-likelihood of the rows and mean L1 of the pairs after learning; blank where learning ran away."""
    learner = learning.learner(problem, learning.Settings(**settings))
    try:
        state = iterate.run(learner.step, learner.init(), steps=learner.steps, until=learner.done)
    except NegativeResult:
        return {"converged": 0, "iterations": "", "log_likelihood": "", "l1": ""}
    learned = learner.result(state)
    network = problem.network(learned.factors)
    found = fitted.calibrated(network, LIMIT)
    assert found is not None
    assert problem.rows is not None
    pairs = fitted.marginals(network, found, [cluster.scope for cluster in problem.clusters])
    distance = np.mean([np.abs(p - cluster.target).sum() for p, cluster in zip(pairs, problem.clusters, strict=True)])
    likelihood = float(problem.rows.weight @ fitted.log_potential(network, problem.rows.x)) - found.log_z
    return {
        "converged": int(learned.converged),
        "iterations": learned.iterations,
        "log_likelihood": f"{likelihood:.6f}",
        "l1": f"{distance:.3e}",
    }


def learn(x: Array, table: Path, models: int, sizes: range) -> None:
    """Append the rows of a model at a time; models that the table holds are left out, so that a run that was stopped goes on."""
    columns = ["tree_clique", "seed", "pairs", "algorithm", "max_clique", "converged", "iterations", "log_likelihood", "l1"]
    known = {(int(row["tree_clique"]), int(row["seed"])) for row in read_csv(table)}
    seen = dict.fromkeys(sizes, 0)
    with table.open("a", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if not known:
            writer.writeheader()
        for size, seed, problem in problems(x, models, sizes):
            seen[size] += 1
            if (size, seed) in known:
                continue
            wanted = {name: settings for name, settings in RUNS.items() if name != "damped" or seen[size] <= SINGLE[size]}
            runs = [("exact", size, EXACT)]
            runs += [(name, k, {**settings, "max_clique": k}) for k in range(2, size + 1) for name, settings in wanted.items()]
            rows = []
            for name, k, settings in runs:
                row = {"tree_clique": size, "seed": seed, "pairs": len(problem.clusters), "algorithm": name, "max_clique": k}
                rows.append(row | measured(problem, settings))
            writer.writerows(rows)
            file.flush()
            print(f"clique size {size}, seed {seed}: {len(problem.clusters)} pairs", flush=True)


def examples(x: Array, folder: Path) -> None:
    """Fig. 6.5: forty of the eights."""
    rows = np.linspace(0, len(x) - 1, 40).astype(int)
    write_csv(folder / "mrf-fig6.5.csv", [{"row": int(row), "pixels": "".join(map(str, x[row]))} for row in rows])
    ink = 1 - x[rows].reshape(-1, 8, 8).astype(float)
    plots.write(plots.tiles(np.pad(ink, ((0, 0), (1, 1), (1, 1)), constant_values=1), columns=10), folder / "mrf-fig6.5.png", ".png")


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
    panels[0].legend(title="solid: junction graph\ndotted: cluster variation", fontsize=8, title_fontsize=8)
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
    learn(x, folder / "mrf-fig6.6.csv", options.models, range(min(SIZES), options.largest + 1))
    rows = [row | {name: int(row[name]) for name in ("tree_clique", "max_clique")} for row in read_csv(folder / "mrf-fig6.6.csv")]
    draw(rows, folder / "mrf-fig6.6.png")


if __name__ == "__main__":
    main()
