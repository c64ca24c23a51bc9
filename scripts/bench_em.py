"""Mixtures, k-means and regressions beside other programs, in one run, from the same starts: `python scripts/bench_em.py [--small]`.

Each figure is the shortest of several turns taken in alternation, of one thread each (herd also of two).  A ratio above 1: herd is faster.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))  # before NumPy is imported

import argparse
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from herdcli.algorithm import solve
from herdcli.em import gmm, kmeans
from herdcli.em.driver import EM, Settings, run
from herdcli.numerics.blocks import Blocks, Table
from herdcli.regression import families, fit, model

TURNS = 2


def seconds(*calls: Callable[[], Any]) -> list[float]:
    """The shortest time of each call, in alternation."""
    best = [np.inf] * len(calls)
    for _ in range(TURNS):
        for index, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[index] = min(best[index], time.perf_counter() - start)
    return best


def told(what: str, ours: float, two: float, peers: dict[str, float]) -> None:
    """One line."""
    ratios = ", ".join(f"{name} {other / ours:.2f}×" for name, other in peers.items())
    print(f"{what}: herd {ours:.2f} s, on two threads {ours / two:.2f}× as fast; {ratios}", flush=True)


def clusters(rows: int, columns: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, D) of `count` clusters that overlap, and centres to start from."""
    random = np.random.default_rng(0)
    centres = 3.0 * random.normal(size=(count, columns))
    X = centres[random.integers(count, size=rows)] + random.normal(size=(rows, columns))
    return X, X[random.choice(rows, count, replace=False)]


def mixtures(rows: int, pool: ThreadPoolExecutor) -> None:
    """Full covariances, 50 components, 20 iterations, scikit-learn's from the same start."""
    from sklearn.mixture import GaussianMixture

    X, centres = clusters(rows, 20, 50)
    source = Blocks(Table(X))
    start = {"weight": np.full(50, 0.02), "mean": centres, "covariance": np.repeat(np.cov(X.T)[None], 50, axis=0)}
    precision = np.linalg.inv(start["covariance"])
    begun = gmm.gmm(source, 50, floor=0.0, given=start)

    def ours(map: Any) -> float:
        return run(EM(begun, source, Settings(20, 0.0, 21), map)).log_likelihood

    def theirs() -> float:
        made = GaussianMixture(
            50, max_iter=20, tol=0.0, reg_covar=0.0, weights_init=start["weight"], means_init=centres, precisions_init=precision
        )
        return float(made.fit(X).lower_bound_)

    one, two, other = seconds(lambda: ours(map), lambda: ours(pool.map), theirs)
    told(f"gmm {rows} × 20, 50 components, 20 iterations", one, two, {"scikit-learn": other})


def lloyd(rows: int, pool: ThreadPoolExecutor) -> None:
    """100 clusters from the same start, 20 iterations, scikit-learn's Lloyd and Elkan."""
    from sklearn.cluster import KMeans

    X, centres = clusters(rows, 20, 100)
    source = Blocks(Table(X))

    def ours(map: Any) -> None:
        run(EM(kmeans.kmeans(source, 100, given=centres, map=map), source, Settings(20, 0.0, 21), map))

    def theirs(algorithm: str) -> Callable[[], Any]:
        return lambda: KMeans(100, init=centres, n_init=1, max_iter=20, tol=0.0, algorithm=algorithm).fit(X)

    one, two, *others = seconds(lambda: ours(map), lambda: ours(pool.map), theirs("lloyd"), theirs("elkan"))
    told(
        f"k-means {rows} × 20, 100 clusters, 20 iterations",
        one,
        two,
        dict(zip(("scikit-learn lloyd", "scikit-learn elkan"), others, strict=True)),
    )


def counts(rows: int, pool: ThreadPoolExecutor) -> None:
    """Poisson regression with a ridge, to the same objective; glum's and scikit-learn's solvers."""
    random = np.random.default_rng(1)
    X = random.normal(size=(rows, 50))
    y = random.poisson(np.exp(0.5 + X @ (0.1 * random.normal(size=50)))).astype(float)
    problem = fit.Problem(Table(np.column_stack([X, y, np.zeros(rows)])), families.family("poisson"), 1, 50, l2=1e-3)

    def ours(map: Any) -> np.ndarray:
        return solve(fit.Regression(problem, model.started(problem, map), map=map)).theta

    def scikit() -> np.ndarray:
        from sklearn.linear_model import PoissonRegressor

        return PoissonRegressor(alpha=1e-3, tol=1e-8, solver="newton-cholesky").fit(X, y).coef_

    calls: dict[str, Callable[[], Any]] = {"scikit-learn": scikit}
    try:
        from glum import GeneralizedLinearRegressor

        calls["glum"] = lambda: GeneralizedLinearRegressor(family="poisson", alpha=1e-3, l1_ratio=0, gradient_tol=1e-8).fit(X, y).coef_
    except ImportError:
        print("glum is not installed")
    one, two, *others = seconds(lambda: ours(map), lambda: ours(pool.map), *calls.values())
    print(f"  largest difference of a coefficient from scikit-learn's: {np.abs(ours(map)[0, :-1] - scikit()).max():.1e}")
    told(f"poisson {rows} × 50, l2", one, two, dict(zip(calls, others, strict=True)))


def lasso(rows: int, pool: ThreadPoolExecutor) -> None:
    """Logistic regression with l1, scikit-learn's saga and liblinear at the same penalty."""
    from sklearn.linear_model import LogisticRegression

    random = np.random.default_rng(2)
    X = random.normal(size=(rows, 50))
    y = (X[:, :5].sum(axis=1) + random.logistic(size=rows) > 0).astype(float)
    l1 = 0.01
    problem = fit.Problem(Table(np.column_stack([X, y, np.zeros(rows)])), families.family("bernoulli"), 1, 50, l1=l1)

    def ours(map: Any) -> np.ndarray:
        return solve(fit.Regression(problem, model.started(problem, map), map=map)).theta

    def theirs(solver: str) -> Callable[[], Any]:
        return lambda: LogisticRegression(penalty="l1", C=1 / (l1 * rows), solver=solver, tol=1e-6, max_iter=1000).fit(X, y)

    one, two, *others = seconds(lambda: ours(map), lambda: ours(pool.map), theirs("saga"), theirs("liblinear"))
    told(f"logistic {rows} × 50, l1", one, two, dict(zip(("saga", "liblinear"), others, strict=True)))


def main() -> None:
    """All four."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a tenth of the rows")
    parser.add_argument("--only", choices=["mixtures", "lloyd", "counts", "lasso"])
    chosen = parser.parse_args()
    share = 10 if chosen.small else 1
    warnings.simplefilter("ignore")
    sizes = {mixtures: 200_000, lloyd: 1_000_000, counts: 1_000_000, lasso: 200_000}
    with ThreadPoolExecutor(2) as pool:
        for bench, rows in sizes.items():
            if chosen.only in (None, bench.__name__):
                bench(rows // share, pool)


if __name__ == "__main__":
    main()
