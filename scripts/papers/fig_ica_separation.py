"""Fig. 4.5 and 4.6 of Teh (2003): how well 16 mixed recordings are separated, during learning and at its end.

    python scripts papers/fig_ica_separation FOLDER [--runs N] [--mixings instamix,random]

The recordings are $HERD_DATA/music16_long.h5, 88,436 × 16 samples.  HMC is `herd ica --algorithm ebm`, one proposal of 30
leapfrog steps; EQUIL draws from the model, EXACT is Bell and Sejnowski's gradient.  2,000 iterations each at rates .05, .025,
.005, .0025 and .0005, batches of 100, momentum .9, ZCA whitening.  Run s has the seed s, for its initial filters, batches and
random mixing.  Every run is one line of FOLDER/ica-separation.csv, so that an interrupted figure goes on where it stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from shared.figure_pipeline import Row, herd, pyplot, read_csv, write_csv
from shared.real_data import path

from herdcli import artifacts
from herdcli.ica.model import ICA

ALGORITHMS = {"HMC": "--algorithm ebm --leapfrog 30", "EQUIL": "--algorithm equil", "EXACT": "--algorithm infomax --gradient exact"}
RATES = "0.05x2000,0.025x2000,0.005x2000,0.0025x2000,0.0005x2000"
COMMON = f"--expert logistic --density logistic --whiten zca --initial-scale 0.1 --momentum 0.9 --batch-size 100 --rates {RATES}"
ITERATIONS = list(range(250, 10_001, 250))  # at which the distance is kept
COLOURS = {"HMC": "tab:blue", "EQUIL": "tab:orange", "EXACT": "tab:green"}

Runs = dict[tuple[str, str, int], np.ndarray]


def run(mixing: str, algorithm: str, seed: int, target: Path) -> np.ndarray:
    """The Amari distance at ITERATIONS of one fit."""
    options = f"{ALGORITHMS[algorithm]} {COMMON} --mix {mixing} --seed {seed}"
    herd("ica", path("music16_long.h5"), *options.split(), "-q", "-o", target)
    value: ICA = artifacts.load(str(target)).value
    target.unlink()
    return np.interp(ITERATIONS, value.trace.iteration, value.trace.amari)


def line(mixing: str, algorithm: str, seed: int, distances: np.ndarray) -> Row:
    return {"mixing": mixing, "algorithm": algorithm, "seed": seed} | {
        f"t{t}": f"{value:.4f}" for t, value in zip(ITERATIONS, distances, strict=True)
    }


def compute(arguments: argparse.Namespace) -> Runs:
    """Every run asked for, and those that are in the table: the missing ones seed by seed."""
    table = arguments.folder / "ica-separation.csv"
    done = {
        (row["mixing"], row["algorithm"], int(row["seed"])): np.array([row[f"t{t}"] for t in ITERATIONS], dtype=float)
        for row in read_csv(table)
    }
    for seed in range(arguments.runs):
        for mixing in arguments.mixings.split(","):
            for algorithm in ALGORITHMS:
                if (mixing, algorithm, seed) not in done:
                    done[mixing, algorithm, seed] = run(mixing, algorithm, seed, arguments.folder / "run.h5")
                    write_csv(table, [line(*key, distances) for key, distances in done.items()])
    return done


def draw(runs: Runs, mixings: list[str], folder: Path) -> None:
    """Fig. 4.5, means over runs with their standard errors, and 4.6, boxes of the last distances: a panel for each mixing."""
    plt = pyplot()
    curves, along = plt.subplots(1, len(mixings), figsize=(4.5 * len(mixings), 3.2), squeeze=False, layout="constrained")
    boxes, across = plt.subplots(1, len(mixings), figsize=(3.2 * len(mixings), 3.2), squeeze=False, layout="constrained")
    for mixing, line, box in zip(mixings, along[0], across[0], strict=True):
        groups = {name: np.array([trace for key, trace in sorted(runs.items()) if key[:2] == (mixing, name)]) for name in ALGORITHMS}
        for name, traces in groups.items():
            mean, error = traces.mean(axis=0), traces.std(axis=0) / np.sqrt(len(traces))
            line.plot(ITERATIONS, mean, label=f"{name} ({len(traces)} runs)", color=COLOURS[name], linewidth=1.2)
            line.fill_between(ITERATIONS, mean - error, mean + error, color=COLOURS[name], alpha=0.25, linewidth=0)
        line.set(xlabel="iteration", ylabel="Amari distance, mean ± standard error", title=f"{mixing} mixing", yscale="log")
        line.grid(alpha=0.3, which="both")
        line.legend(fontsize=8)
        box.boxplot([traces[:, -1] for traces in groups.values()], tick_labels=list(groups), whis=1.5, flierprops={"marker": "+"})
        last = np.concatenate([traces[:, -1] for traces in groups.values()])
        near = last <= 2 * np.median(last)
        away = ", ".join(f"{value:.0f}" for value in sorted(last[~near]))  # runs that left a source unfound would make the boxes lines
        label = f"{mixing} mixing" + (f"\nnot drawn: runs at {away}" if away else "")
        box.set(ylabel="Amari distance after 10,000 iterations", title=label, ylim=(0.97 * last.min(), 1.03 * last[near].max()))
        box.grid(alpha=0.3, axis="y")
    for figure, name in ((curves, "ica-fig4-5.png"), (boxes, "ica-fig4-6.png")):
        figure.savefig(folder / name, dpi=110, metadata={"Software": None})


def table(runs: Runs, mixings: list[str]) -> str:
    """Markdown: median and quartiles of the last distances."""
    lines = ["| mixing | algorithm | runs | median | lower quartile | upper quartile |", "|---|---|---|---|---|---|"]
    for mixing in mixings:
        for name in ALGORITHMS:
            last = [trace[-1] for key, trace in runs.items() if key[:2] == (mixing, name)]
            low, middle, high = np.percentile(last, [25, 50, 75])
            lines.append(f"| {mixing} | {name} | {len(last)} | {middle:.2f} | {low:.2f} | {high:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Fig. 4.5 and 4.6 of Teh (2003).")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--mixings", default="instamix,random")
    arguments = parser.parse_args()
    runs, mixings = compute(arguments), arguments.mixings.split(",")
    draw(runs, mixings, arguments.folder)
    print(table(runs, mixings), end="")


if __name__ == "__main__":
    main()
