"""Fig. 1 of Welling (2009): the tipi function of sin and cos, with the weights that herding visits.

    python scripts papers/fig1_tipi FOLDER          (makes herding-fig1.csv and, by the extra `plot`, herding-fig1.png there)

x = -pi + i, i = 0...6, uniform (the printed interval lost a minus); features sin x and cos x.  The weights come from
`herd herd --features rows`: w_t = t mu - sum of the chosen rows, from w_0 = 0.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from shared.figure_pipeline import herd, pyplot, write_csv

from herdcli import artifacts

ITERATIONS = 2000


def herded(points: np.ndarray, folder: Path) -> np.ndarray:
    """(T, 2) weights of `herd herd` on the rows of `points`."""
    lines = ["sin,cos", *(f"{sine:.17g},{cosine:.17g}" for sine, cosine in points)]
    options = ["--features", "rows", "--iterations", ITERATIONS, "--burn-in", 0, "--input-format", "csv", "-q", "-o", folder / "tipi.h5"]
    herd("herd", *options, stdin="\n".join(lines) + "\n")
    chosen = artifacts.load(str(folder / "tipi.h5")).value.kept_samples(0)[0][:, 0]
    t = np.arange(1, ITERATIONS + 1)[:, None]
    weights: np.ndarray = t * points.mean(axis=0) - np.cumsum(points[chosen], axis=0)
    return weights


def tipi(w: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The zero-temperature likelihood mean_n w.phi_n - max_x w.phi(x) of weights (..., 2), eq. 7 without hidden variables."""
    height: np.ndarray = w @ points.mean(axis=0) - (w @ points.T).max(axis=-1)
    return height


def draw(weights: np.ndarray, points: np.ndarray, path: Path) -> None:
    plt = pyplot()
    size = 1.3 * np.abs(weights).max()
    grid = np.stack(np.meshgrid(*[np.linspace(-size, size, 121)] * 2), axis=-1)
    axes = plt.figure(figsize=(6, 5)).add_subplot(projection="3d")
    axes.plot_surface(grid[..., 0], grid[..., 1], tipi(grid, points), cmap="viridis", alpha=0.6, linewidth=0, rasterized=True)
    axes.scatter(weights[:, 0], weights[:, 1], tipi(weights, points), s=2, color="black", depthshade=False)
    axes.set(xlabel="weight of sin", ylabel="weight of cos", zlabel="$\\ell_0$")
    axes.view_init(elev=30, azim=-60)
    plt.savefig(path, dpi=130, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    x = -np.pi + np.arange(7)
    points = np.column_stack([np.sin(x), np.cos(x)])
    weights = herded(points, folder)
    table = np.column_stack([weights, np.hypot(*weights.T), tipi(weights, points)])
    rows = [dict(zip(("t", "sin", "cos", "norm", "tipi"), (t, *map(float, row)), strict=True)) for t, row in enumerate(table, 1)]
    write_csv(folder / "herding-fig1.csv", rows)
    draw(weights, points, folder / "herding-fig1.png")


if __name__ == "__main__":
    main()
