"""The figures of Crammer & Lee (2010): one update in the plane (Fig. 2), and accuracies task by task (Fig. 5).

    python scripts/fig_nherd.py --results results

Fig. 2 needs no data: μ = 0, Σ = I, x = (1, 2), y = +1, C = 1.  Fig. 5 is drawn from nherd-tuned.csv of scripts/paper_nherd.py.
Prints the areas of the five ellipses and the points that the flow maps send the circles |w| = 1, 2 through.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

from herdcli.online.model import Settings
from herdcli.online.updates import five_ellipses, step_of

X, C = np.array([1.0, 2.0]), 1.0


def flow_map(full: bool) -> tuple[np.ndarray, np.ndarray]:
    """A (2, 2) and μ (2,) of the update of N(0, I): w goes to A w + μ."""
    v = float(X @ X)
    alpha = step_of(Settings(C=C), 0.0, v)[0]
    if full:
        return np.eye(2) - C * np.outer(X, X) / (1 + C * v), alpha * X
    return np.diag(1 / (1 + C * X**2)), alpha * X


def circle(radius: float) -> np.ndarray:
    """Points (64, 2) of |w| = radius."""
    angle = np.linspace(0, 2 * np.pi, 64)
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def figure_2(path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(12, 4))
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
    for name, s in five_ellipses(X, C).items():
        axes[2].plot(*(circle(1.0) * np.sqrt(s)).T, label=name)
    axes[2].plot(*circle(1.0).T, "c--", lw=0.8)
    axes[2].legend(fontsize=7)
    axes[2].set(title="one update, five forms", aspect="equal")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def figure_5(source: Path, path: Path) -> None:
    import matplotlib.pyplot as plt

    with source.open() as file:
        rows = list(csv.DictReader(file))
    figure, axes = plt.subplots(1, 3, figsize=(12, 4))
    for axis, noise in zip(axes, ("0.0", "0.1", "0.3"), strict=True):
        error = {(row["task"], row["algorithm"]): float(row["error"]) for row in rows if row["noise"] == noise}
        groups = {row["task"]: row["group"] for row in rows}
        for group in dict.fromkeys(groups.values()):
            tasks = [task for task in groups if groups[task] == group]
            points = np.array([[1 - error[task, "AROW_P"], 1 - error[task, "NHERD_P"]] for task in tasks])
            axis.plot(*points.T, ".", label=group, ms=4)
        low = axis.get_xlim()[0]
        axis.plot([low, 1], [low, 1], "k-", lw=0.6)
        axis.set(xlabel="accuracy of AROW_P", ylabel="accuracy of NHERD_P", title=f"noise {float(noise):.0%}")
    axes[0].legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results"))
    folder = parser.parse_args().results
    for name, s in sorted(five_ellipses(X, C).items(), key=lambda item: item[1].prod()):
        print(f"{name}\tvariances {s[0]:.6f} {s[1]:.6f}\tarea {np.pi * np.sqrt(s.prod()):.6f}")
    for full in (True, False):
        A, mu = flow_map(full)
        print("full" if full else "diagonal", "A =", np.round(A, 6).tolist(), "mean =", np.round(mu, 6).tolist())
    figure_2(folder / "nherd-fig2.png")
    if (folder / "nherd-tuned.csv").exists():
        figure_5(folder / "nherd-tuned.csv", folder / "nherd-fig5.png")


if __name__ == "__main__":
    main()
