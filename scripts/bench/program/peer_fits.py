"""The jobs of bench/program/peers.py in other programs; prints one line of JSON with the processor seconds of the fit.

python scripts/bench/program/peer_fits.py logistic FILE.svm|FILE.npz L2 SOLVER [TOL]    scikit-learn
python scripts/bench/program/peer_fits.py rbm BITS.npz sklearn|torch EPOCHS
python scripts/bench/program/peer_fits.py kmeans ROWS.npy sklearn|faiss
python scripts/bench/program/peer_fits.py marginals NETWORK.bif                   pyAgrum
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np


def logistic(path: str, l2: str, solver: str, tolerance: str = "1e-4") -> Callable[[], Any]:
    """Logistic or softmax regression with herd's objective: the mean loss and ½ l2 |β|², so that C = 1 / (l2 n)."""
    from sklearn.linear_model import LogisticRegression

    if path.endswith(".svm"):
        from sklearn.datasets import load_svmlight_file

        X, y = load_svmlight_file(path)
    else:
        with np.load(path) as arrays:
            X, y = arrays["X"], arrays["y"]
    model = LogisticRegression(C=1 / (float(l2) * X.shape[0]), solver=solver, tol=float(tolerance), max_iter=1000)
    return lambda: model.fit(X, y)


def rbm(path: str, program: str, epochs: str) -> Callable[[], Any]:
    """CD-1 (scikit-learn: persistent chains) with 100 hidden units in batches of 20."""
    with np.load(path) as arrays:
        X = arrays["X"].astype(np.float32)
    if program == "sklearn":
        from sklearn.neural_network import BernoulliRBM

        model = BernoulliRBM(100, learning_rate=0.05, batch_size=20, n_iter=int(epochs), random_state=0)
        return lambda: model.fit(X)
    import torch

    torch.set_num_threads(1)
    data = torch.tensor(X)

    def fit() -> None:
        torch.manual_seed(0)
        W, b, c = 0.01 * torch.randn(data.shape[1], 100), torch.zeros(data.shape[1]), torch.zeros(100)
        moved = [torch.zeros_like(part) for part in (W, b, c)]
        for _ in range(int(epochs)):
            for rows in torch.randperm(len(data)).split(20):
                v = data[rows]
                h = torch.sigmoid(v @ W + c)
                shown = torch.bernoulli(torch.sigmoid(torch.bernoulli(h) @ W.T + b))
                last = torch.sigmoid(shown @ W + c)
                slopes = v.T @ h - shown.T @ last - 1e-4 * len(rows) * W, (v - shown).sum(0), (h - last).sum(0)
                for part, before, slope in zip((W, b, c), moved, slopes, strict=True):
                    part.add_(before.mul_(0.5).add_(slope, alpha=0.05 / len(rows)))

    return fit


def kmeans(path: str, program: str) -> Callable[[], Any]:
    """100 clusters, 20 iterations of Lloyd's algorithm from k-means++ (faiss: from random rows)."""
    X = np.load(path)
    if program == "faiss":
        import faiss

        single = X.astype(np.float32)
        model = faiss.Kmeans(X.shape[1], 100, niter=20, seed=0, max_points_per_centroid=len(X))
        return lambda: model.train(single)
    from sklearn.cluster import KMeans

    fitted = KMeans(100, n_init=1, max_iter=20, tol=0, random_state=0)
    return lambda: fitted.fit(X)


def marginals(path: str) -> Callable[[], Any]:
    """All marginals of a Bayesian network by lazy propagation."""
    import pyagrum as gum

    network = gum.loadBN(path)

    def infer() -> None:
        engine = gum.LazyPropagation(network)
        engine.makeInference()
        for node in network.nodes():
            engine.posterior(node)

    return infer


PROGRAMS: dict[str, Callable[..., Callable[[], Any]]] = {"logistic": logistic, "rbm": rbm, "kmeans": kmeans, "marginals": marginals}

if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of fits that end at their number of iterations
    fit = PROGRAMS[sys.argv[1]](*sys.argv[2:])
    started = time.process_time()
    fit()
    print(json.dumps({"inside": time.process_time() - started}))
