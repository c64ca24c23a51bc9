"""Full covariances of few rows: held-out log-likelihoods of `herd em` with and without shrinkage: the table of docs/em.md.

    python scripts bench/tables/em_shrinkage

Tables of scikit-learn, and five smooth curves with correlated noise.  The weight of the prior was chosen on wine, breast_cancer, iris,
digits and drawn clusters by their likelihoods over several weights.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from sklearn import datasets

import herdcli


def curves(rows: int = 900, columns: int = 64) -> np.ndarray:
    """Five sine waves with exponentially correlated noise of different sizes."""
    random, t = np.random.default_rng(0), np.arange(columns)
    root = np.linalg.cholesky(np.exp(-np.abs(t[:, None] - t) / 8.0) + 0.02 * np.eye(columns))
    which = random.integers(0, 5, rows)
    centre = np.stack([3 * np.sin(t / (6 + 3 * k)) for k in range(5)])
    return centre[which] + random.normal(size=(rows, columns)) @ root.T * (1 + 0.3 * which[:, None])


def main() -> None:
    """Print the table."""
    tables = {name: getattr(datasets, f"load_{name}")().data for name in ("iris", "wine", "breast_cancer", "diabetes")}
    tables["five smooth curves with noise"] = curves()
    print("| table | training rows × columns | one Gaussian | `--shrinkage 0` | default |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, X in tables.items():
            path = Path(folder) / "t.csv"
            np.savetxt(path, X, delimiter=",", header=",".join(f"f{k}" for k in range(X.shape[1])), comments="")
            models = [herdcli.em(path, components=4, **options) for options in ({"shrinkage": 0}, {})]
            rows = [herdcli.eval(model)[0] for model in models]
            shown = " | ".join(f"{row['log_likelihood']:.2f}" for row in rows)
            print(f"| {name} | {models[0].mass:g} × {X.shape[1]} | {rows[0]['log_likelihood_gaussian']:.2f} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
