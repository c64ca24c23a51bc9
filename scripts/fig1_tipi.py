"""Fig. 1 of Welling (2009): the tipi function of sin and cos, with the weights that herding visits.

    python scripts/fig1_tipi.py OUT.png          (needs the extra `plot`)

x = -pi + i, i = 0...6, uniform (the printed interval lost a minus); features sin x and cos x.  The weights come from
`herd herd --features rows`: w_t = t mu - sum of the chosen rows, from w_0 = 0.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

from herdcli import artifacts

ITERATIONS = 2000


def herded(points: np.ndarray) -> np.ndarray:
    """(T, 2) weights of `herd herd` on the rows of `points`."""
    text = io.StringIO()
    np.savetxt(text, points, delimiter=",", header="sin,cos", comments="", fmt="%.17g")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "tipi.h5"
        options = ["--features", "rows", "--iterations", str(ITERATIONS), "--burn-in", "0", "--input-format", "csv", "-q", "-o", str(out)]
        subprocess.run([sys.executable, "-m", "herdcli", "herd", *options], input=text.getvalue().encode(), check=True)
        chosen = artifacts.load(str(out)).value.kept(0)[0][:, 0]
    t = np.arange(1, ITERATIONS + 1)[:, None]
    weights: np.ndarray = t * points.mean(axis=0) - np.cumsum(points[chosen], axis=0)
    return weights


def tipi(w: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The zero-temperature likelihood mean_n w.phi_n - max_x w.phi(x) of weights (..., 2), eq. 7 without hidden variables."""
    height: np.ndarray = w @ points.mean(axis=0) - (w @ points.T).max(axis=-1)
    return height


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: fig1_tipi.py OUT.png")
    x = -np.pi + np.arange(7)
    points = np.column_stack([np.sin(x), np.cos(x)])
    weights = herded(points)
    size = 1.3 * np.abs(weights).max()
    grid = np.stack(np.meshgrid(*[np.linspace(-size, size, 121)] * 2), axis=-1)
    axes = plt.figure(figsize=(6, 5)).add_subplot(projection="3d")
    axes.plot_surface(grid[..., 0], grid[..., 1], tipi(grid, points), cmap="viridis", alpha=0.6, linewidth=0, rasterized=True)
    axes.scatter(weights[:, 0], weights[:, 1], tipi(weights, points), s=2, color="black", depthshade=False)
    axes.set(xlabel="weight of sin", ylabel="weight of cos", zlabel="$\\ell_0$")
    axes.view_init(elev=30, azim=-60)
    plt.savefig(sys.argv[1], dpi=200, bbox_inches="tight")


if __name__ == "__main__":
    main()
