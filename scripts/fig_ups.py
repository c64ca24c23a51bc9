"""Figures 5.5 and 5.6 of Teh (2003): how fast and how exact generalised inference on 5×5 lattices is.

    python scripts/fig_ups.py FOLDER [--figure 5.5] [--figure 5.6] [--networks 100] [--cell 10]

Networks are those of `herd network grid --observe border --seed S`; the algorithms are those of `herd ups-infer`, called as
functions, since a process for each of thousands of small runs would take longer than the runs.

Fig. 5.5: σ_w = 5, σ_b = 1, σ_α = 4, residual 1e-10, the updates that each algorithm needs (`ups --clamp columns` is UPS-V,
`rows-columns` UPS-HV).  Fig. 5.6: mean absolute error of P(x = 1) over the variables without evidence, of loopy IS in parallel
and in series (2,000 iterations, linear damping rising to .99) and of UPS, under (a) hard evidence, (b) none, (c) σ_α = .2,
(d) σ_α = 2.  Exact marginals come from junction trees, after Newton's method on the multipliers of the border.

Makes ups-fig55 and ups-fig56 (.csv and, by the extra `plot`, .png) in FOLDER; rows that the tables there have already are not run again.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from pipeline import Row, pyplot, read_csv

from herdcli import iterate
from herdcli.markov import algorithms, generate, network

SPEED = {
    "loopy IS": ("loopy-is", {}, 20_000),
    "IS+BP": ("is-bp", {}, 5000),
    "GIS+BP": ("gis-bp", {}, 5000),
    "UPS-V": ("ups", {"clamp": "columns"}, 20_000),
    "UPS-HV": ("ups", {"clamp": "rows-columns"}, 20_000),
    "UPS+Newton": ("ups", {}, 1000),
}
CASES = {"a": "hard evidence", "b": "no evidence", "c": "σ_α = 0.2", "d": "σ_α = 2"}
SIGMA_W, SIGMA_B = (1.0, 2.5, 5.0, 7.5, 10.0), (0.5, 1.0, 2.0, 4.0)
ALGORITHMS = {"parallel": "loopy IS in parallel", "sequential": "loopy IS in series", "ups": "UPS"}
RIDGE, LONGEST = 1e-10, 5.0  # of the exact multipliers' Newton steps
DAMPINGS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99)  # 250 iterations each


def infer(given: network.Network, algorithm: str, **settings: Any) -> algorithms.Result:
    """The result of one run."""
    method = algorithms.method(given, algorithms.Settings(algorithm=algorithm, **settings))
    return method.result(iterate.run(method.step, method.init(), steps=method.steps, until=method.done))


def damped(given: network.Network, schedule: str) -> algorithms.Result:
    """Loopy IS, or bp where nothing is observed, with damping that rises as long as it has not converged."""
    name, state = "loopy-is" if given.observations() else "bp", None
    for stage, damping in enumerate(DAMPINGS, 1):
        settings = {"schedule": schedule, "damping": damping, "damping_kind": "linear", "tolerance": 1e-8}
        method = algorithms.method(given, algorithms.Settings(algorithm=name, iterations=250 * stage, **settings))
        state = iterate.run(method.step, state or method.init(), steps=method.steps, until=method.done)
        if method.done(state):
            break
    return method.result(state)


def exact(given: network.Network) -> algorithms.Result:
    """Marginals of the distribution nearest to the network among those with its observed marginals."""
    observed = given.observations()
    alone = network.observe(given, {})
    if not observed:
        return infer(alone, "junction-tree")
    order = sorted(observed)
    operands: list[Any] = []
    for scope, table in alone.factors():
        operands += [table, list(scope)]
    joint = np.log(np.einsum(*operands, order, optimize="greedy").ravel())
    x = np.array(list(np.ndindex(*[2] * len(order))), dtype=np.float64)
    multipliers = fitted(joint, x, np.array([observed[i][1] for i in order]))
    return infer(network.weigh(alone, {i: np.array([1.0, np.exp(t)]) for i, t in zip(order, multipliers, strict=True)}), "junction-tree")


def fitted(joint: np.ndarray, x: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Multipliers that give the table exp(joint + x λ) these means: Newton's method on log Z − λ·means, halving steps."""

    def dual(at: np.ndarray) -> tuple[float, np.ndarray]:
        logs = joint + x @ at
        top = logs.max()
        p = np.exp(logs - top)
        return float(top + np.log(p.sum()) - at @ wanted), p / p.sum()

    point = np.zeros(len(wanted))
    value, p = dual(point)
    for _ in range(1000):
        mean = p @ x
        if np.abs(mean - wanted).max() < 1e-9:
            return point
        covariance = (x * p[:, None]).T @ x - np.outer(mean, mean)
        step, size = np.linalg.solve(covariance + RIDGE * np.eye(len(wanted)), wanted - mean), 1.0
        step *= min(1.0, LONGEST / np.abs(step).max())
        while (tried := dual(point + size * step))[0] > value + 1e-13 * abs(value) and size > 1e-9:
            size /= 2
        point, (value, p) = point + size * step, tried
    raise RuntimeError(f"the multipliers of the border are off by {np.abs(mean - wanted).max():.1g}")


def speed(networks: int) -> Iterator[tuple[Row, Callable[[], Row]]]:
    """The runs of fig. 5.5: what tells them apart, and the work."""
    for seed in range(networks):
        for label, (name, settings, iterations) in SPEED.items():

            def work(seed: int = seed, name: str = name, settings: Any = settings, iterations: int = iterations) -> Row:
                given = generate.make("grid", sigma_w=5.0, sigma_b=1.0, observe="border", sigma_alpha=4.0, seed=seed)
                told = infer(given, name, tolerance=1e-10, iterations=iterations, **settings).attributes
                return {key: told[key] for key in ("converged", "iterations", "propagation_updates", "scaling_updates", "log_z")}

            yield {"seed": seed, "algorithm": label}, work


def accuracy(cell: int) -> Iterator[tuple[Row, Callable[[], Row]]]:
    """The runs of fig. 5.6."""
    for seed in range(cell):
        for case in CASES:
            for sigma_w in SIGMA_W:
                for sigma_b in SIGMA_B:
                    yield (
                        {"case": case, "sigma_w": sigma_w, "sigma_b": sigma_b, "seed": seed},
                        lambda key=(case, sigma_w, sigma_b, seed): errors(*key),
                    )


def errors(case: str, sigma_w: float, sigma_b: float, seed: int) -> Row:
    """Mean absolute errors of each algorithm on one network, and whether it converged."""
    alpha = {"a": 1.0, "b": 1.0, "c": 0.2, "d": 2.0}[case]
    given = generate.make("grid", sigma_w=sigma_w, sigma_b=sigma_b, observe="border", sigma_alpha=alpha, seed=seed)
    observed = given.observations()
    if case == "a":  # σ_α → ∞
        given = network.condition(given, {i: int(p[1] > 0.5) for i, p in observed.items()})
    if case == "b":
        given, observed = network.observe(given, {}), {}
    free = [i for i in range(given.count) if i not in observed]
    truth, row = exact(given), Row()
    for name in ALGORITHMS:
        found = infer(given, "ups", tolerance=1e-8) if name == "ups" else damped(given, name)
        row[f"{name}_error"] = float(np.mean([abs(found.nodes[i][1] - truth.nodes[i][1]) for i in free]))
        row[f"{name}_converged"] = found.attributes["converged"]
    return row


def gathered(path: Path, runs: Iterable[tuple[Row, Callable[[], Row]]]) -> list[dict[str, str]]:
    """All rows of a table: those its file has, and the others, appended as they are made."""
    rows = read_csv(path)
    known = {tuple(row.items()) for row in rows}
    for key, work in runs:
        stated = {name: str(value) for name, value in key.items()}.items()
        if any(stated <= set(row) for row in known):
            continue
        made = {name: str(value) for name, value in (key | work()).items()}
        with path.open("a", newline="") as file:
            writer = csv.DictWriter(file, list(made), lineterminator="\n")
            if not rows:
                writer.writeheader()
            writer.writerow(made)
        rows.append(made)
    return rows


def draw_speed(rows: list[dict[str, str]], path: Path) -> None:
    """Box plots of updates, over the networks on which an algorithm converged."""
    figure, axes = pyplot().subplots(figsize=(7, 4))
    boxes, labels = [], []
    for label in SPEED:
        own = [row for row in rows if row["algorithm"] == label]
        done = [row for row in own if row["converged"] == "True"]
        boxes.append([int(row["propagation_updates"]) + int(row["scaling_updates"]) for row in done])
        labels.append(f"{label}\n{len(done)} of {len(own)}")
    axes.boxplot(boxes, tick_labels=labels, whis=(0, 100))
    axes.set(yscale="log", ylabel="message updates to a residual of 1e-10", title="5×5 lattices, border observed, σ_w 5, σ_b 1, σ_α 4")
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def draw_accuracy(rows: list[dict[str, str]], path: Path) -> None:
    """Mean errors over σ_w (across) and σ_b (up); under them how many runs did not converge, where any did not."""
    figure, axes = pyplot().subplots(len(ALGORITHMS), len(CASES), figsize=(12, 7), sharex=True, sharey=True, layout="constrained")
    for column, (case, label) in enumerate(CASES.items()):
        for line, name in enumerate(ALGORITHMS):
            panel, means = axes[line, column], np.zeros((len(SIGMA_B), len(SIGMA_W)))
            for at, sigma_b in enumerate(SIGMA_B):
                for across, sigma_w in enumerate(SIGMA_W):
                    own = [row for row in rows if (row["case"], float(row["sigma_w"]), float(row["sigma_b"])) == (case, sigma_w, sigma_b)]
                    means[at, across] = np.mean([float(row[f"{name}_error"]) for row in own])
                    failed = sum(row[f"{name}_converged"] != "True" for row in own)
                    text = f"{means[at, across]:.3f}" + (f"\n{failed} of {len(own)} ×" if failed else "")
                    panel.text(
                        across, at, text, ha="center", va="center", fontsize=6, color="white" if means[at, across] < 0.13 else "black"
                    )
            image = panel.imshow(means, origin="lower", vmin=0, vmax=0.2, cmap="viridis", aspect="auto")
            panel.set_xticks(range(len(SIGMA_W)), [f"{s:g}" for s in SIGMA_W])
            panel.set_yticks(range(len(SIGMA_B)), [f"{s:g}" for s in SIGMA_B])
            panel.set_title(f"({case}) {label}, {ALGORITHMS[name]}", fontsize=8)
    figure.supxlabel("σ_w", fontsize=9)
    figure.supylabel("σ_b", fontsize=9)
    figure.colorbar(image, ax=axes, label="mean absolute error (×: did not converge)", shrink=0.8)
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--figure", choices=("5.5", "5.6"), action="append")
    parser.add_argument("--networks", type=int, default=100, help="networks of fig. 5.5")
    parser.add_argument("--cell", type=int, default=10, help="networks of each cell of fig. 5.6")
    options = parser.parse_args()
    folder, wanted = options.folder, options.figure or ("5.5", "5.6")
    folder.mkdir(parents=True, exist_ok=True)
    if "5.5" in wanted:
        draw_speed(gathered(folder / "ups-fig55.csv", speed(options.networks)), folder / "ups-fig55.png")
    if "5.6" in wanted:
        draw_accuracy(gathered(folder / "ups-fig56.csv", accuracy(options.cell)), folder / "ups-fig56.png")


if __name__ == "__main__":
    main()
