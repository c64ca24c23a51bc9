"""Algorithms and rates for `herd fit-rbm --learn-variances`: the table of docs/rbm.md.

    python scripts bench/rbm/learned_variances

Rows in well-separated clusters, and iris.  A fit that diverges has no figure.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from sklearn import datasets

import herdcli
from herdcli.errors import HerdError

WAYS = {
    "8 units: `cd` at .05": {"hidden": 8, "algorithm": "cd", "learning_rate": 0.05},
    "`rpcd`": {"hidden": 8, "algorithm": "rpcd", "learning_rate": 0.05},
    "`pt`": {"hidden": 8, "algorithm": "pt", "learning_rate": 0.05},
    "`exact`": {"hidden": 8, "algorithm": "exact"},
    "100 units: `cd` at .05": {"hidden": 100, "algorithm": "cd", "learning_rate": 0.05},
    "`cd` at .005": {"hidden": 100, "algorithm": "cd", "learning_rate": 0.005},
    "`rpcd` at .005": {"hidden": 100, "algorithm": "rpcd", "learning_rate": 0.005},
    "`pt` at .01": {"hidden": 100, "algorithm": "pt", "learning_rate": 0.01},
}


def clusters(seed: int = 1) -> np.ndarray:
    """Five standard normal clusters in four columns, far apart."""
    random = np.random.default_rng(seed)
    centre = random.normal(size=(5, 4)) * 6
    which = random.integers(0, 5, 800)
    return centre[which] + random.normal(size=(800, 4))


def main() -> None:
    """Print the table."""
    print(f"| rows | one Gaussian | {' | '.join(WAYS)} |\n|{'---|' * (len(WAYS) + 2)}")
    for name, X in (("clusters", clusters()), ("iris", datasets.load_iris().data)):
        shown, one = [], 0.0
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "t.csv"
            np.savetxt(path, X, delimiter=",", header=",".join("abcd"), comments="", fmt="%.5f")
            for options in WAYS.values():
                try:
                    (row,) = herdcli.eval(herdcli.fit_rbm(path, visible_units="gaussian", learn_variances=True, **options))
                except HerdError:
                    shown.append("")
                    continue
                one = row["gaussian"]
                shown.append(f"{row['log_likelihood']:.2f}")
        print(f"| {name} | {one:.2f} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
