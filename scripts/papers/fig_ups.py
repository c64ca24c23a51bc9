"""Figures 5.5 and 5.6 of Teh (2003): how fast and how exact generalised inference on 5×5 lattices is.

    python scripts papers/fig_ups FOLDER [--figure 5.5] [--figure 5.6] [--networks 100] [--cell 10] [--sigma-w 1 --sigma-w 10]

Networks are those of `herd network grid --draw-observed border --seed S`, runs those of `herd ups-infer`, numbers those of `herd eval`.

Fig. 5.5: σ_w = 5, σ_b = 1, σ_α = 4, residual 1e-10, the updates that each algorithm needs (`ups --clamp columns` is UPS-V,
`rows-columns` UPS-HV).  Fig. 5.6: mean absolute error of P(x = 1) over the variables without evidence, of loopy IS in parallel
and in series (2,000 iterations, linear damping rising to .99) and of UPS, under (a) hard evidence, (b) none, (c) σ_α = .2,
(d) σ_α = 2.  Exact marginals come from junction trees, after `herd fit-mrf --base` has found the nearest network that has the
observed marginals of the border.

Makes ups-fig55 and ups-fig56 (.csv and, by the extra `plot`, .png) in FOLDER; rows that the tables there have already are not run again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from shared.figure_pipeline import Row, herd, pyplot, read_csv, side_by_side, write_csv

from herdcli.artifacts import load

SPEED = {
    "loopy IS": "loopy-is --iterations 20000",
    "IS+BP": "is-bp --iterations 5000",
    "GIS+BP": "gis-bp --iterations 5000",
    "UPS-V": "ups --clamp columns --iterations 20000",
    "UPS-HV": "ups --clamp rows-columns --iterations 20000",
    "UPS+Newton": "ups --iterations 1000",
}
CASES = {"a": "hard evidence", "b": "no evidence", "c": "σ_α = 0.2", "d": "σ_α = 2"}
SIGMA_W, SIGMA_B = (1.0, 2.5, 5.0, 7.5, 10.0), (0.5, 1.0, 2.0, 4.0)
ALGORITHMS = {"parallel": "loopy IS in parallel", "sequential": "loopy IS in series", "ups": "UPS"}
DAMPED = ["--damping-schedule", "0,0.25,0.5,0.75,0.9,0.95,0.98,0.99", "--damping-kind", "linear", "--iterations", "2000"]


def grid(at: Path, seed: int, sigma_w: float, sigma_b: float, sigma_alpha: float) -> Path:
    """A lattice with marginals given at its border, in a folder."""
    sigmas = ("--sigma-w", sigma_w, "--sigma-b", sigma_b, "--sigma-alpha", sigma_alpha)
    herd("network", "grid", *sigmas, "--draw-observed", "border", "--seed", seed, "-q", "-o", at / "network.h5")
    return at / "network.h5"


def infer(network: Path, algorithm: str, to: str, *options: object) -> Path:
    """Beliefs, beside the network."""
    beliefs = network.with_name(f"{to}.h5")
    herd("ups-infer", network, "--algorithm", *algorithm.split(), *options, "-q", "-o", beliefs)
    return beliefs


def speed(unit: Row) -> list[Row]:
    """The rows of fig. 5.5 of one network."""
    with TemporaryDirectory() as folder:
        given = grid(Path(folder), unit["seed"], 5.0, 1.0, 4.0)
        beliefs = [infer(given, options, str(k), "--tolerance", 1e-10) for k, options in enumerate(SPEED.values())]
        found = json.loads(herd("eval", *beliefs, "--format", "json"))
    return [
        unit
        | {"algorithm": label, "converged": row["converged"] == 1}
        | {key: row[key] for key in ("iterations", "propagation_updates", "scaling_updates", "log_z")}
        for label, row in zip(SPEED, found, strict=True)
    ]


def accuracy(unit: Row) -> list[Row]:
    """The row of fig. 5.6 of one network: mean absolute errors of each algorithm, and whether it converged."""
    case = unit["case"]
    with TemporaryDirectory() as folder:
        at = Path(folder)
        given = grid(at, unit["seed"], unit["sigma_w"], unit["sigma_b"], {"c": 0.2, "d": 2.0}.get(case, 1.0))
        observed = load(str(given), kinds={"network"}).value.stored_marginals()
        fixed: list[object] = [] if case in "cd" else ["--ignore-observed"]
        if case == "a":  # σ_α → ∞
            (at / "evidence").write_text("".join(f"x{i}={int(p[1] > 0.5)}\n" for i, p in observed.items()))
            fixed += ["--observations", at / "evidence"]
        exact = infer(projected(given, observed) if case in "cd" else given, "junction-tree", "exact", *fixed)
        propagation = "loopy-is" if case in "cd" else "bp"
        damped = [infer(given, propagation, s, "--schedule", s, *DAMPED, "--tolerance", 1e-8, *fixed) for s in ("parallel", "sequential")]
        beliefs = [*damped, infer(given, "ups", "ups", "--tolerance", 1e-8, *fixed)]
        found = json.loads(herd("eval", *beliefs, "--reference", exact, "--format", "json"))
    row = dict(unit)
    free = 1.0 if case == "b" else 1 - len(observed) / found[0]["variables"]  # the others have no error
    for name, numbers in zip(ALGORITHMS, found, strict=True):
        row |= {f"{name}_error": numbers["marginal_error"] / free, f"{name}_converged": numbers["converged"] == 1}
    return [row]


def projected(given: Path, observed: dict[int, np.ndarray]) -> Path:
    """The network nearest to the one given, among those with its observed marginals."""
    wanted = [{"scope": [i], "marginal": p.tolist()} for i, p in observed.items()]
    moments, nearest = given.with_name("moments.json"), given.with_name("nearest.h5")
    moments.write_text(json.dumps({"cardinality": [2] * 25, "clusters": wanted}))
    herd(
        "fit-mrf", "--moments", moments, "--base", given, "--tolerance", 1e-9, "--iterations", 100_000,
        "--on-nonconvergence", "error", "-q", "-o", nearest,
    )  # fmt: skip
    return nearest


def gathered(path: Path, units: Iterable[Row], size: int, work: Callable[[Row], list[Row]]) -> list[Row]:
    """The rows of a table, `size` a unit of work: those its file has, and the others, kept as they are made."""
    rows, wanted = read_csv(path), []
    for unit in units:
        stated = {name: str(value) for name, value in unit.items()}.items()
        own = [row for row in rows if stated <= row.items()]
        if len(own) < size:
            rows = [row for row in rows if row not in own]
            wanted.append(unit)
    for made in side_by_side(work, wanted):
        rows += [{name: str(value) for name, value in row.items()} for row in made]
        write_csv(path, rows)
    return rows


def draw_speed(rows: list[Row], path: Path) -> None:
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


def draw_accuracy(rows: list[Row], widths: Sequence[float], path: Path) -> None:
    """Mean errors over σ_w (across) and σ_b (up); under them how many runs did not converge, where any did not."""
    figure, axes = pyplot().subplots(len(ALGORITHMS), len(CASES), figsize=(12, 7), sharex=True, sharey=True, layout="constrained")
    for column, (case, label) in enumerate(CASES.items()):
        for line, name in enumerate(ALGORITHMS):
            panel, means = axes[line, column], np.zeros((len(SIGMA_B), len(widths)))
            for at, sigma_b in enumerate(SIGMA_B):
                for across, sigma_w in enumerate(widths):
                    own = [row for row in rows if (row["case"], float(row["sigma_w"]), float(row["sigma_b"])) == (case, sigma_w, sigma_b)]
                    means[at, across] = np.mean([float(row[f"{name}_error"]) for row in own])
                    failed = sum(row[f"{name}_converged"] != "True" for row in own)
                    text = f"{means[at, across]:.3f}" + (f"\n{failed} of {len(own)} ×" if failed else "")
                    panel.text(
                        across, at, text, ha="center", va="center", fontsize=6, color="white" if means[at, across] < 0.13 else "black"
                    )
            image = panel.imshow(means, origin="lower", vmin=0, vmax=0.2, cmap="viridis", aspect="auto")
            panel.set_xticks(range(len(widths)), [f"{s:g}" for s in widths])
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
    parser.add_argument("--sigma-w", type=float, choices=SIGMA_W, action="append", help="columns of fig. 5.6")
    options = parser.parse_args()
    folder, wanted, widths = options.folder, options.figure or ("5.5", "5.6"), options.sigma_w or SIGMA_W
    folder.mkdir(parents=True, exist_ok=True)
    if "5.5" in wanted:
        networks = [{"seed": seed} for seed in range(options.networks)]
        draw_speed(gathered(folder / "ups-fig55.csv", networks, len(SPEED), speed), folder / "ups-fig55.png")
    if "5.6" in wanted:
        cells = [
            {"case": case, "sigma_w": sigma_w, "sigma_b": sigma_b, "seed": seed}
            for seed, case, sigma_w, sigma_b in product(range(options.cell), CASES, widths, SIGMA_B)
        ]
        draw_accuracy(gathered(folder / "ups-fig56.csv", cells, 1, accuracy), widths, folder / "ups-fig56.png")


if __name__ == "__main__":
    main()
