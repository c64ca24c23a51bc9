"""The models of `herd em` and `herd regress` beside other programs, in one run, from the same starts.

    python scripts bench/tables/em [--small] [--only PART] …

gmm      200,000 × 20, 50 components, 20 iterations: scikit-learn.            kmeans  10⁶ × 20, 100 clusters, 20 iterations: scikit-learn.
poisson  10⁶ × 50 with a ridge: scikit-learn, glum.                           lasso   logistic, 200,000 × 50: saga, liblinear.
hmm      bench/tables/hmm.py: one iteration, 10 states, 1,000 × 1,000 rows: hmmlearn.
lds      bench/tables/lds.py speed: 100,000 rows: pykalman, simdkalman, dynamax.
stream   bench/tables/em_on_disk.py: 10⁸ × 10 rows from Parquet under --max-memory 1G, two iterations, beside reading alone.

Each figure is the least of some turns taken in alternation.  Ratios to others are of seconds of the processor, one thread each; above
1 herd is faster.  What two threads gain, by the clock, stands beside what they gain in products of matrices, which need nothing of
each other: what the machine had to give.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))  # before NumPy is imported

import argparse
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from shared.script_paths import script

from herdcli.algorithm import run_algorithm
from herdcli.em.driver import EM, EMSettings, run_em
from herdcli.em.mixture import gmm, kmeans
from herdcli.numerics.block_statistics import ArrayRows, RowBlocks
from herdcli.regression import families, fit, model


@dataclass(frozen=True)
class Asked:
    """Iterations of gmm and kmeans, and turns of everything."""

    iterations: int
    turns: int


def seconds(turns: int, *calls: Callable[[], Any]) -> np.ndarray:
    """(calls, 2) the least seconds of each by the clock and of the processor, in alternation."""
    best = np.full((len(calls), 2), np.inf)
    for _ in range(turns):
        for index, call in enumerate(calls):
            start = np.array([time.perf_counter(), time.process_time()])
            call()
            best[index] = np.minimum(best[index], np.array([time.perf_counter(), time.process_time()]) - start)
    return best


def products(map: Any) -> Callable[[], Any]:
    """As much work for two as there is, of nothing but products of matrices in the cache."""
    A = np.random.default_rng(0).random((300, 300))

    def work(count: int) -> None:
        for _ in range(count):
            A @ A

    return lambda: list(map(work, [200, 200]))


def compared(what: str, ours: Callable[[Any], Any], pool: ThreadPoolExecutor, peers: dict[str, Callable[[], Any]], turns: int) -> None:
    """Ours on one thread and on two, bare products in the same way, and peers: one line."""
    calls = (products(map), products(pool.map), lambda: ours(map), lambda: ours(pool.map), *peers.values())
    bare, pair, one, two, *others = seconds(turns, *calls)
    ratios = ", ".join(f"{name} {other[1] / one[1]:.2f}×" for name, other in zip(peers, others, strict=True))
    threads = f"on two threads {one[0] / two[0]:.2f}× as fast (bare products {bare[0] / pair[0]:.2f}×)"
    print(f"{what}: herd {one[1]:.2f} s, {threads}; {ratios}", flush=True)


def clusters(rows: int, columns: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, D) of `count` clusters that overlap, and centres to start from."""
    random = np.random.default_rng(0)
    centres = 3.0 * random.normal(size=(count, columns))
    X = centres[random.integers(count, size=rows)] + random.normal(size=(rows, columns))
    return X, X[random.choice(rows, count, replace=False)]


def mixtures(rows: int, pool: ThreadPoolExecutor, asked: Asked) -> None:
    """Full covariances, 50 components, scikit-learn's from the same start."""
    from sklearn.mixture import GaussianMixture

    X, centres = clusters(rows, 20, 50)
    source = RowBlocks(ArrayRows(X))
    start = {"weight": np.full(50, 0.02), "mean": centres, "covariance": np.repeat(np.cov(X.T)[None], 50, axis=0)}
    precision = np.linalg.inv(start["covariance"])
    begun = gmm.prepare_gmm(source, 50, floor=0.0, start=start)

    def ours(map: Any) -> float:
        return run_em(EM(begun, source, EMSettings(asked.iterations, 0.0, asked.iterations + 1), map)).log_likelihood

    def theirs() -> float:
        made = GaussianMixture(
            50,
            max_iter=asked.iterations,
            tol=0.0,
            reg_covar=0.0,
            weights_init=start["weight"],
            means_init=centres,
            precisions_init=precision,
        )
        return float(made.fit(X).lower_bound_)

    compared(f"gmm {rows} × 20, 50 components, {asked.iterations} iterations", ours, pool, {"scikit-learn": theirs}, asked.turns)


def lloyd(rows: int, pool: ThreadPoolExecutor, asked: Asked) -> None:
    """100 clusters from the same start, scikit-learn's Lloyd and Elkan."""
    from sklearn.cluster import KMeans

    X, centres = clusters(rows, 20, 100)
    source = RowBlocks(ArrayRows(X))

    def ours(map: Any) -> None:
        run_em(
            EM(
                kmeans.prepare_kmeans(source, 100, start_centres=centres, map=map),
                source,
                EMSettings(asked.iterations, 0.0, asked.iterations + 1),
                map,
            )
        )

    def theirs(algorithm: str) -> Callable[[], Any]:
        return lambda: KMeans(100, init=centres, n_init=1, max_iter=asked.iterations, tol=0.0, algorithm=algorithm).fit(X)

    rivals = {f"scikit-learn {name}": theirs(name) for name in ("lloyd", "elkan")}
    compared(f"k-means {rows} × 20, 100 clusters, {asked.iterations} iterations", ours, pool, rivals, asked.turns)


def counts(rows: int, pool: ThreadPoolExecutor, asked: Asked) -> None:
    """Poisson regression with a ridge, to the same objective; glum's and scikit-learn's solvers."""
    random = np.random.default_rng(1)
    X = random.normal(size=(rows, 50))
    y = random.poisson(np.exp(0.5 + X @ (0.1 * random.normal(size=50)))).astype(float)
    problem = fit.RegressionProblem(ArrayRows(np.column_stack([X, y, np.zeros(rows)])), families.family_by_name("poisson"), 1, 50, l2=1e-3)

    def ours(map: Any) -> np.ndarray:
        return run_algorithm(fit.NewtonDescent(problem, model.initial_coefficients(problem, map), map=map)).theta

    def scikit() -> np.ndarray:
        from sklearn.linear_model import PoissonRegressor

        return PoissonRegressor(alpha=1e-3, tol=1e-8, solver="newton-cholesky").fit(X, y).coef_

    calls: dict[str, Callable[[], Any]] = {"scikit-learn": scikit}
    try:
        from glum import GeneralizedLinearRegressor

        calls["glum"] = lambda: GeneralizedLinearRegressor(family="poisson", alpha=1e-3, l1_ratio=0, gradient_tol=1e-8).fit(X, y).coef_
    except ImportError:
        print("glum is not installed")
    print(f"  largest difference of a coefficient from scikit-learn's: {np.abs(ours(map)[0, :-1] - scikit()).max():.1e}")
    compared(f"poisson {rows} × 50, l2", ours, pool, calls, asked.turns)


def lasso(rows: int, pool: ThreadPoolExecutor, asked: Asked) -> None:
    """Logistic regression with l1, scikit-learn's saga and liblinear at the same penalty."""
    from sklearn.linear_model import LogisticRegression

    random = np.random.default_rng(2)
    X = random.normal(size=(rows, 50))
    y = (X[:, :5].sum(axis=1) + random.logistic(size=rows) > 0).astype(float)
    l1 = 0.01
    problem = fit.RegressionProblem(ArrayRows(np.column_stack([X, y, np.zeros(rows)])), families.family_by_name("bernoulli"), 1, 50, l1=l1)

    def ours(map: Any) -> np.ndarray:
        return run_algorithm(fit.NewtonDescent(problem, model.initial_coefficients(problem, map), map=map)).theta

    def theirs(solver: str) -> Callable[[], Any]:
        return lambda: LogisticRegression(penalty="l1", C=1 / (l1 * rows), solver=solver, tol=1e-6, max_iter=1000).fit(X, y)

    compared(f"logistic {rows} × 50, l1", ours, pool, {name: theirs(name) for name in ("saga", "liblinear")}, asked.turns)


PARTS = {"gmm": (mixtures, 200_000), "kmeans": (lloyd, 1_000_000), "poisson": (counts, 1_000_000), "lasso": (lasso, 200_000)}
ELSEWHERE = {  # scripts of their own, with what makes them a tenth as large
    "hmm": (["hmm"], ["--sequences", "100"]),
    "lds": (["lds", "speed"], ["--steps", "10000"]),
    "stream": (["em_on_disk", "--rows", "1e8", "--iterations", "2", "--threads", "2"], ["--rows", "1e7"]),
}


def main() -> None:
    """The parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a tenth of the rows")
    parser.add_argument("--only", action="append", choices=[*PARTS, *ELSEWHERE])
    parser.add_argument("--iterations", type=int, default=20, help="of gmm and kmeans")
    parser.add_argument("--turns", type=int, default=2)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    with ThreadPoolExecutor(2) as pool:
        for name in chosen.only or [*PARTS, *ELSEWHERE]:
            if name in PARTS:
                bench, rows = PARTS[name]
                bench(rows // (10 if chosen.small else 1), pool, Asked(chosen.iterations, chosen.turns))
                continue
            (other, *line), small = ELSEWHERE[name]
            line = [sys.executable, *script(f"bench/tables/{other}"), *line, *(small if chosen.small else [])]
            subprocess.run(line, check=True)


if __name__ == "__main__":
    main()
