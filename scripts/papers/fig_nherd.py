"""The figures of Crammer & Lee (2010): one update in the plane (2), who wins how often (4), accuracies task by task (5).

    python scripts papers/fig_nherd FOLDER --figure 2
    python scripts papers/fig_nherd FOLDER --figure 4 --figure 5 --tables RESULTS

Fig. 2 needs no data: μ = 0, Σ = I, x = (1, 2), y = +1, C = 1.  Fig. 4 is `herd eval --tournament` of nherd-tuned.csv and
nherd-equal.csv, which scripts/papers/paper_nherd.py has left in RESULTS, fig. 5 is drawn from nherd-tuned.csv and nherd-phoneme.csv.
Makes nherd-figN.png and, of 2 and 4, nherd-figN.csv (`share`: of the tasks that are no tie, those that the first wins).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from shared.figure_pipeline import Row, herd, pyplot, read_csv, write_csv

from herdcli import artifacts
from herdcli.evaluation.table import build_report
from herdcli.online.learners.reference_updates import five_diagonal_variances, update_step
from herdcli.online.model import Settings

X, C = np.array([1.0, 2.0]), 1.0
NOISES = (0.0, 0.1, 0.3)
NAMES = ("NHERD_P", "NHERD_E", "NHERD_D", "AROW_P", "AROW_D")


def flow_map(full: bool) -> tuple[np.ndarray, np.ndarray]:
    """A (2, 2) and μ (2,) of the update of N(0, I): w goes to A w + μ."""
    v = float(X @ X)
    alpha = update_step(Settings(C=C), 0.0, v)[0]
    if full:
        return np.eye(2) - C * np.outer(X, X) / (1 + C * v), alpha * X
    return np.diag(1 / (1 + C * X**2)), alpha * X


def circle(radius: float) -> np.ndarray:
    """Points (64, 2) of |w| = radius."""
    angle = np.linspace(0, 2 * np.pi, 64)
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def figure_2(folder: Path) -> None:
    """The flow maps of the full and of the exact diagonal form, and the covariances after one update."""
    ellipses = sorted(five_diagonal_variances(X, C).items(), key=lambda item: item[1].prod())
    rows = [
        {"algorithm": name, "variance_1": float(s[0]), "variance_2": float(s[1]), "area": float(np.pi * np.sqrt(s.prod()))}
        for name, s in ellipses
    ]
    write_csv(folder / "nherd-fig2.csv", rows)
    figure, axes = pyplot().subplots(1, 3, figsize=(12, 4))
    for axis, full in zip(axes, (True, False), strict=False):
        A, mu = flow_map(full)
        for radius, colour in ((1.0, "tab:blue"), (2.0, "tab:green")):
            before = circle(radius)
            after = before @ A.T + mu
            axis.plot(*before.T, "--", color=colour, lw=0.8)
            axis.plot(*after.T, "-", color=colour)
            axis.quiver(*before[::4].T, *(after - before)[::4].T, angles="xy", scale_units="xy", scale=1, width=0.003, color=colour)
        axis.plot(*mu, "rs")
        for level, style in ((0.0, ":"), (1.0, "--")):
            axis.plot([-4, 4], [(level + 4) / 2, (level - 4) / 2], "k" + style, lw=0.8)
        axis.set(title="full" if full else "diagonal (exact)", xlim=(-2.5, 2.5), ylim=(-2.5, 2.5), aspect="equal")
    for name, s in ellipses:
        axes[2].plot(*(circle(1.0) * np.sqrt(s) + mu).T, label=name)
    axes[2].plot(*circle(1.0).T, "c--", lw=0.8, label="before")
    axes[2].plot(*mu, "rs", label="mean after it")
    axes[2].legend(fontsize=7, loc="lower left")
    axes[2].set(ylim=(-1.6, 1.1), title="one update by ((1, 2), +1), five forms", aspect="equal")
    for axis in axes:
        axis.set(xlabel="first weight", ylabel="second weight")
    figure.tight_layout()
    figure.savefig(folder / "nherd-fig2.png", dpi=110)


def tournament(table: Path, folder: Path) -> list[Row]:
    """Wins of each algorithm over each other at each level of noise."""
    numbers = {"noise", "error", "C", "passes"}
    rows = [{name: float(value) if name in numbers else value for name, value in row.items()} for row in read_csv(table)]
    artifacts.save(str(folder / "tournament.h5"), build_report(rows, table.stem), [])
    found: list[Row] = []
    for row in read_csv(herd("eval", "--tournament", folder / "tournament.h5", "--format", "csv")):
        wins, losses = int(row["wins"]), int(row["losses"])
        common = {"noise": float(row["noise"]), "tasks": int(row["tasks"]), "ties": int(row["ties"]), "p": float(row["p"])}
        for first, second, won, lost in ((row["top"], row["bottom"], wins, losses), (row["bottom"], row["top"], losses, wins)):
            share = won / (won + lost) if won + lost else 0.5
            found.append({"first": first, "second": second, **common, "wins": won, "losses": lost, "share": share})
    return sorted(found, key=lambda row: (row["noise"], NAMES.index(row["first"]), NAMES.index(row["second"])))


def figure_4(tables: Path, folder: Path) -> None:
    """The paper's graphs as squares: tuned settings above, the same C for all below."""
    figure, axes = pyplot().subplots(2, 3, figsize=(10, 6.6), layout="constrained")
    table: list[Row] = []
    for line, (name, title) in zip(axes, (("tuned", "tuned"), ("equal", "the same C for all")), strict=True):
        rows = [{"settings": name, **row} for row in tournament(tables / f"nherd-{name}.csv", folder)]
        table += rows
        for axis, noise in zip(line, NOISES, strict=True):
            shares = np.full((len(NAMES), len(NAMES)), np.nan)
            for row in rows:
                if row["noise"] == noise:
                    place = NAMES.index(row["first"]), NAMES.index(row["second"])
                    shares[place] = row["share"]
                    axis.text(*place[::-1], f"{row['wins']}:{row['losses']}", ha="center", va="center", fontsize=6)
            axis.imshow(shares, cmap="RdYlBu", vmin=0, vmax=1)
            axis.set_xticks(range(len(NAMES)), NAMES, fontsize=6)
            axis.set_yticks(range(len(NAMES)), NAMES, fontsize=6)
            axis.set_title(f"{title}, label noise {noise:.0%}", fontsize=8)
    figure.suptitle("tasks that the row wins : loses against the column; blue: it wins most of those that are no tie", fontsize=9)
    write_csv(folder / "nherd-fig4.csv", table)
    figure.savefig(folder / "nherd-fig4.png", dpi=110)


def figure_5(tables: Path, folder: Path) -> None:
    """Accuracy against accuracy at three levels of noise, and the phonemes at the highest, ordered by McNemar's p."""
    rows = read_csv(tables / "nherd-tuned.csv")
    figure, axes = pyplot().subplots(1, 4, figsize=(15, 4), layout="constrained")
    for axis, noise in zip(axes[:3], NOISES, strict=True):
        error = {(row["task"], row["algorithm"]): float(row["error"]) for row in rows if float(row["noise"]) == noise}
        groups = {row["task"]: row["group"] for row in rows}
        for group in dict.fromkeys(groups.values()):
            tasks = [task for task in groups if groups[task] == group]
            points = np.array([[1 - error[task, "AROW_P"], 1 - error[task, "NHERD_P"]] for task in tasks])
            axis.plot(*points.T, ".", label=group, ms=4)
        low = axis.get_xlim()[0]
        axis.plot([low, 1], [low, 1], "k-", lw=0.6)
        axis.set(xlabel="accuracy of AROW_P", ylabel="accuracy of NHERD_P", title=f"label noise {noise:.0%}")
    axes[0].legend(fontsize=6)
    phonemes = read_csv(tables / "nherd-phoneme.csv")
    gain = [100 * ((1 - float(row["nherd_p"])) / (1 - float(row["arow_p"])) - 1) for row in phonemes]
    axes[3].bar(range(len(phonemes)), gain, color=["tab:blue" if float(row["p"]) < 0.001 else "lightgray" for row in phonemes])
    axes[3].set_xticks(range(len(phonemes)), [row["pair"] for row in phonemes], rotation=90, fontsize=7)
    axes[3].set_title("phonemes, label noise 30%; blue: p < 0.001", fontsize=10)
    axes[3].set_ylabel("relative gain in accuracy of NHERD_P, %")
    figure.savefig(folder / "nherd-fig5.png", dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--figure", type=int, choices=(2, 4, 5), action="append")
    parser.add_argument("--tables", type=Path, default=None, help="where nherd-tuned.csv and its like are; default: FOLDER")
    arguments = parser.parse_args()
    folder, tables = arguments.folder, arguments.tables or arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    for number in arguments.figure or (2, 4, 5):
        if number == 2:
            figure_2(folder)
        elif number == 4:
            figure_4(tables, folder)
        else:
            figure_5(tables, folder)


if __name__ == "__main__":
    main()
