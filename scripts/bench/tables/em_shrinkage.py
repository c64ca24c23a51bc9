"""Full covariances of few rows: held-out log-likelihoods of `herd em` by the strength of the shrinkage.

    python scripts bench/tables/em_shrinkage                     the table of docs/em.md
    python scripts bench/tables/em_shrinkage --choose [FOLDER]   gains of several strengths: results/em_shrinkage.tsv

The prior of a covariance counts as w D² K / n rows, with n rows, D columns and K components; mclust: as 2 D + 4 rows (Fraley & Raftery
2007).  `--choose` compares values of w on drawn mixtures and, if there is FOLDER (that of `statsmodels.datasets`), on tables of
statsmodels.  None of these are tables of the league of defaults (`leagues/defaults`), where the strength is judged.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from pathlib import Path

import numpy as np
from sklearn import datasets

import herdcli
from herdcli.em import driver
from herdcli.em.mixture import gmm
from herdcli.em.mixture.covariance_prior import FEW
from herdcli.numerics.block_statistics import ArrayRows, RowBlocks

STRENGTHS = (0.0, 0.5, 1.0, 2.5, 5.0, 10.0)
COMPONENTS = (2, 4)
OF_STATSMODELS = ("star98", "statecrime", "ccard", "grunfeld", "scotland", "elnino", "copper", "longley")
MOST_COLUMNS = 12
SPLITS = 2


def curves(rows: int = 900, columns: int = 64) -> np.ndarray:
    """Five sine waves with exponentially correlated noise of different sizes."""
    random, t = np.random.default_rng(0), np.arange(columns)
    root = np.linalg.cholesky(np.exp(-np.abs(t[:, None] - t) / 8.0) + 0.02 * np.eye(columns))
    which = random.integers(0, 5, rows)
    centre = np.stack([3 * np.sin(t / (6 + 3 * k)) for k in range(5)])
    return centre[which] + random.normal(size=(rows, columns)) @ root.T * (1 + 0.3 * which[:, None])


def mixture(seed: int, rows: int, columns: int, components: int, *, common: bool, heavy: bool = False) -> np.ndarray:
    """Rows of a mixture whose components have one covariance in common, or each its own; heavy: Student's t with 4 degrees of freedom."""
    random = np.random.default_rng(seed)
    roots = random.normal(size=(components, columns, columns)) / np.sqrt(columns) + 0.5 * np.eye(columns)
    roots = np.repeat(roots[:1], components, axis=0) if common else roots
    which = random.integers(components, size=rows)
    noise = random.normal(size=(rows, columns))
    noise /= np.sqrt(random.chisquare(4, rows) / 4)[:, None] if heavy else 1.0
    return random.normal(0, 2.0, (components, columns))[which] + np.einsum("nij,nj->ni", roots[which], noise)


def tables_to_choose_by(folder: Path | None) -> dict[str, np.ndarray]:
    """Return drawn mixtures, and the columns of numbers of statsmodels' tables; the first column of these is often an index."""
    found = {
        f"{'common' if common else 'own'} covariances{' of t' if heavy else ''}, {rows} × {columns}": mixture(
            rows + columns, rows, columns, 3, common=common, heavy=heavy
        )
        for rows, columns in ((60, 5), (120, 5), (150, 10), (300, 10))
        for common, heavy in ((True, False), (False, False), (False, True))
    }
    for name in OF_STATSMODELS if folder else ():
        with next((folder / name).glob("*.csv")).open(newline="") as file:
            head, *lines = csv.reader(file)
        cells = [[_number(cell) for cell in line] for line in lines if len(line) == len(head)]
        X = np.array(cells, dtype=float)
        X = X[:, [len(np.unique(column)) > 5 and bool(np.isfinite(column).all()) for column in X.T]][:, :MOST_COLUMNS]
        found[f"{name}, {X.shape[0]} × {X.shape[1]}"] = X
    return found


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def held_out(X: np.ndarray, test: np.ndarray, components: int, rows: float, seed: int) -> float:
    """The mean log density of a mixture with a prior that counts as `rows` rows, in nats a test row and column."""
    source = RowBlocks(ArrayRows(X, None, None))
    model = gmm.prepare_gmm(source, components, seed=seed).with_shrinkage(rows)
    found = driver.run_em(driver.EM(model, source, driver.EMSettings(200, 1e-5)))
    return float(gmm.mixture_posteriors(found.parameters, test)[1].mean() / X.shape[1])


def choose(folder: Path | None) -> None:
    """Print, for each table and number of components, the gain of each strength over none, in nats a held-out row and column.

    The last lines have the mean and the largest distance from the best strength of a line, of lines with fewer rows than FEW.
    """
    print("\t".join(["table", "components", "rows_per_column_and_component", *(f"w={w:g}" for w in STRENGTHS[1:]), "mclust"]))
    behind = []
    for table, X in tables_to_choose_by(folder).items():
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        n, D = int(0.6 * len(X)), X.shape[1]
        for components in COMPONENTS:
            found = np.zeros(len(STRENGTHS) + 1)
            for seed in range(SPLITS):
                order = np.random.default_rng(seed).permutation(len(X))
                for place, rows in enumerate([*(w * D * D * components / n for w in STRENGTHS), 2.0 * D + 4.0]):
                    found[place] += held_out(X[order[:n]], X[order[n:]], components, rows, seed) / SPLITS
            gains = (found - found[0])[1:]
            print(f"{table}\t{components}\t{n / (D * components):.1f}\t" + "\t".join(f"{gain:.3f}" for gain in gains), flush=True)
            if n / (D * components) < FEW:
                behind.append(gains.max() - gains)
    for name, figures in (("mean", np.mean(behind, axis=0)), ("largest", np.max(behind, axis=0))):
        print(f"{name} distance from the best, below {FEW:g} rows\t\t\t" + "\t".join(f"{figure:.3f}" for figure in figures))


def show_defaults() -> None:
    """Print the table of the defaults."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--choose", nargs="?", type=Path, const=None, default=False)
    folder = parser.parse_args().choose
    if folder is False:
        show_defaults()
    else:
        choose(folder)


if __name__ == "__main__":
    main()
