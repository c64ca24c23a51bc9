"""Fig. 2 of Welling (2009): rate filters of "5", and herding sequences of "4" with and without data.

    python scripts/fig2_digits.py DATA OUT.png          (needs the extra `plot`)

DATA is the USPS set.  One `herd herd --per-class` with 100 hidden units makes the filters (rates of x_i z_k, for 20
hidden units) and the first sequence; `herd herd --rates` goes on from it without data for the second.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

from herdcli import artifacts
from herdcli.herding.model import Herding

SHOWN = 20


def made(out: Path, *arguments: str) -> Herding:
    """The artifact of one `herd herd`."""
    subprocess.run([sys.executable, "-m", "herdcli", "herd", *arguments, "-o", str(out)], check=True)
    value: Herding = artifacts.load(str(out)).value
    return value


def pictures(values: np.ndarray, herding: Herding) -> np.ndarray:
    """Rows over the kept units as pictures, pruned units blank."""
    full = np.full((len(values), herding.all_units), values.min())
    full[:, herding.units] = values
    return full.reshape(-1, *herding.image_shape)


def strip(axes: np.ndarray, images: np.ndarray, title: str) -> None:
    """Two rows of pictures."""
    limit = np.abs(images).max()
    for image, place in zip(images, axes.flat, strict=True):
        place.imshow(image, cmap="gray", vmin=-limit, vmax=limit)
        place.set_axis_off()
    axes.flat[0].set_title(title, loc="left", fontsize=9)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: fig2_digits.py DATA OUT.png")
    with tempfile.TemporaryDirectory() as folder:
        learned = Path(folder) / "learned.h5"
        options = [
            "--per-class",
            "--split",
            "700,0,0",
            "--hidden",
            "100",
            "--iterations",
            "2000",
            "--keep",
            str(SHOWN),
            "--threshold",
            "0.2",
        ]
        with_data = made(learned, sys.argv[1], *options)
        without = made(Path(folder) / "decoupled.h5", "--rates", str(learned), "--iterations", "2000", "--keep", str(SHOWN))
    four, five = with_data.classes.index("4"), with_data.classes.index("5")
    rates = with_data.rates.pair[five] / with_data.rates.scale[five]
    figure, axes = plt.subplots(6, SHOWN // 2, figsize=(7, 5))
    strip(axes[:2], pictures(rates[:, :SHOWN].T, with_data), 'rate filters of "5"')
    strip(axes[2:4], pictures(with_data.kept(four)[0], with_data), '"4", driven by data')
    strip(axes[4:], pictures(without.kept(four)[0], without), '"4", driven by rates')
    figure.savefig(sys.argv[2], dpi=200, bbox_inches="tight")


if __name__ == "__main__":
    main()
