"""Other programs on one task of leagues/pairs.py: learns from the rows of split 0, judges those of split 2, prints one line of JSON.

    python scripts leagues/peer_programs PROGRAM TASK.h5 SEED

quality   what the task compares, lower is better: error, squared error a row, minus nats a row, or Teh's Amari distance (2N).
seconds   of the processor from the start of the process to the end of learning, imports and reading included.
mb        most memory held until then, by VmHWM.

Settings are those that each program has, or that its own documentation recommends for the task; what is set is in PROGRAMS.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

Judge = Callable[[], float]


@dataclass(frozen=True)
class Rows:
    """Rows to learn from and to judge by, their labels, numbers of sequences, and the mixing of sources."""

    X: np.ndarray
    y: np.ndarray
    held: np.ndarray
    held_y: np.ndarray
    sequence: np.ndarray
    held_sequence: np.ndarray
    mixing: np.ndarray


def read(path: Path) -> Rows:
    """The rows of a task."""
    with h5py.File(path) as file:
        X = file["X"][:].astype(np.float64)
        split = file["split"][:]
        columns = {name: file[name][:] if name in file else np.zeros(len(X), dtype=int) for name in ("y", "sequence")}
    mixing = path.with_name("mixing.h5")
    A = h5py.File(mixing)["X"][:] if mixing.exists() else np.zeros((0, 0))
    parts = [(X[split == k], columns["y"][split == k], columns["sequence"][split == k]) for k in (0, 2)]
    (a, b, c), (d, e, f) = parts
    return Rows(a, b, d, e, c, f, A)


# Classes: the share of test rows that are misjudged


def judged_by(model: Any, rows: Rows) -> Judge:
    """Learn, and judge by the error."""
    model.fit(rows.X, rows.y)
    return lambda: float(np.mean(model.predict(rows.held) != rows.held_y))


def logistic(rows: Rows, seed: int) -> Judge:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return judged_by(make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), rows)


def nearest(rows: Rows, seed: int) -> Judge:
    from sklearn.neighbors import KNeighborsClassifier

    return judged_by(KNeighborsClassifier(1), rows)


def machine(rows: Rows, seed: int) -> Judge:
    from sklearn.svm import SVC

    return judged_by(SVC(), rows)


def features(rows: Rows, seed: int) -> Judge:
    """The pipeline of scikit-learn's example of RBM features; its rate, its number of components, and of iterations."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import BernoulliRBM
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler

    rbm = BernoulliRBM(n_components=100, learning_rate=0.06, n_iter=10, random_state=seed)
    return judged_by(make_pipeline(MinMaxScaler(clip=True), rbm, LogisticRegression(C=6000, max_iter=1000)), rows)


def descent(rows: Rows, seed: int) -> Judge:
    from sklearn.linear_model import SGDClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return judged_by(make_pipeline(StandardScaler(), SGDClassifier(random_state=seed)), rows)


# Regression of classes: minus nats a row


def loss(p: np.ndarray, y: np.ndarray) -> float:
    """Minus the mean log-probability of 0 and 1 labels, away from 0 and 1 by what double precision tells."""
    p = np.clip(p, 1e-15, 1 - 1e-15)
    return float(-np.mean(np.where(y == 1, np.log(p), np.log(1 - p))))


def maximum(rows: Rows, seed: int) -> Judge:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(C=np.inf, max_iter=1000)).fit(rows.X, rows.y)
    return lambda: loss(model.predict_proba(rows.held)[:, 1], rows.held_y)


def reweighted(rows: Rows, seed: int) -> Judge:
    import statsmodels.api as sm

    fit = sm.GLM(rows.y, sm.add_constant(rows.X, has_constant="add"), family=sm.families.Binomial()).fit()
    return lambda: loss(fit.predict(sm.add_constant(rows.held, has_constant="add")), rows.held_y)


def glum(rows: Rows, seed: int) -> Judge:
    from glum import GeneralizedLinearRegressor

    fit = GeneralizedLinearRegressor(family="binomial", alpha=0, scale_predictors=True).fit(rows.X, rows.y.astype(float))
    return lambda: loss(fit.predict(rows.held), rows.held_y)


# Densities: minus nats a row; clusters: squared error


def harmonium(rows: Rows, seed: int, **given: Any) -> Judge:
    """BernoulliRBM with 16 hidden units; log Z by adding up all states of the hidden units."""
    from sklearn.neural_network import BernoulliRBM

    model = BernoulliRBM(n_components=16, random_state=seed, **given).fit(rows.X)

    def judge() -> float:
        W, b, c = model.components_, model.intercept_visible_, model.intercept_hidden_
        states = ((np.arange(2**16)[:, None] >> np.arange(16)) & 1).astype(np.float64)
        score = np.concatenate([part @ c + np.logaddexp(0, part @ W + b).sum(axis=1) for part in np.split(states, 64)])
        top = score.max()
        log_z = top + np.log(np.exp(score - top).sum())
        return float(log_z - np.mean(rows.held @ b + np.logaddexp(0, rows.held @ W.T + c).sum(axis=1)))

    return judge


def harmonium_long(rows: Rows, seed: int) -> Judge:
    return harmonium(rows, seed, learning_rate=0.01, n_iter=100)


def mixture(rows: Rows, seed: int) -> Judge:
    from sklearn.mixture import GaussianMixture

    model = GaussianMixture(10, random_state=seed).fit(rows.X)
    return lambda: -float(model.score(rows.held))


def factors(rows: Rows, seed: int) -> Judge:
    from sklearn.decomposition import FactorAnalysis

    model = FactorAnalysis(20, random_state=seed).fit(rows.X)
    return lambda: -float(model.score(rows.held))


def components(rows: Rows, seed: int) -> Judge:
    from sklearn.decomposition import PCA

    model = PCA(20, random_state=seed).fit(rows.X)
    return lambda: -float(model.score(rows.held))


def states(rows: Rows, seed: int) -> Judge:
    """Eight states with full covariances and 100 iterations at most, as many as ours may take."""
    from hmmlearn.hmm import GaussianHMM

    model = GaussianHMM(8, covariance_type="full", n_iter=100, random_state=seed).fit(rows.X, lengths(rows.sequence))
    return lambda: -float(model.score(rows.held, lengths(rows.held_sequence))) / len(rows.held)


def kalman(rows: Rows, seed: int, iterations: int = 10) -> Judge:
    """Eight states, everything learned; pykalman learns from one sequence and begins with identity matrices."""
    from pykalman import KalmanFilter

    learned = ("transition_matrices", "observation_matrices", "transition_covariance", "observation_covariance")
    model = KalmanFilter(
        n_dim_state=8,
        n_dim_obs=rows.X.shape[1],
        em_vars=[*learned, "observation_offsets", "initial_state_mean", "initial_state_covariance"],
    ).em(rows.X, n_iter=iterations)
    return lambda: -float(model.loglikelihood(rows.held)) / len(rows.held)


def kalman_long(rows: Rows, seed: int) -> Judge:
    return kalman(rows, seed, 50)


def dynamic(rows: Rows, seed: int) -> Judge:
    """Eight factors, each with its own past and the others', and white noise in each column."""
    from statsmodels.tsa.statespace.dynamic_factor_mq import DynamicFactorMQ

    mean = rows.X.mean(axis=0)
    model = DynamicFactorMQ(rows.X - mean, factors=1, factor_multiplicities=8, factor_orders=1, idiosyncratic_ar1=False, standardize=False)
    fit = model.fit(maxiter=500, disp=False)
    return lambda: -float(fit.apply(rows.held - mean).llf) / len(rows.held)


Family = tuple[int, list[int], np.ndarray]  # a column, its parents, and the table of its probabilities: parents first


def families_judged(families: list[Family], rows: Rows) -> Judge:
    """Minus the mean log-probability of the rows held out under a Bayesian network."""
    held = rows.held.astype(int)
    return lambda: -float(sum(np.log(table[(*(held[:, k] for k in parents), held[:, own])]).mean() for own, parents, table in families))


def frame(rows: Rows) -> Any:
    """Two-valued columns x0, x1, … as a data frame."""
    import pandas as pd

    return pd.DataFrame(rows.X.astype(int), columns=[f"x{k}" for k in range(rows.X.shape[1])])


def agrum(rows: Rows, seed: int, climbing: bool = False) -> Judge:
    """A Bayesian network by pyAgrum; one pseudo-row a cell of each table."""
    import pyagrum as gum

    data = frame(rows)
    template = gum.BayesNet()
    for name in data:
        template.add(gum.RangeVariable(name, "", 0, 1))
    learner = gum.BNLearner(data, template)
    learner.useSmoothingPrior(1)
    if climbing:
        learner.useGreedyHillClimbing()
        learner.useScoreBIC()
    net = learner.learnBN()
    families: list[Family] = []
    for name in data:
        parents = [net.variable(k).name() for k in sorted(net.parents(name))]
        places = list(reversed(net.cpt(name).names))
        table = np.transpose(net.cpt(name).toarray(), [places.index(each) for each in (*parents, name)])
        families.append((int(name[1:]), [int(each[1:]) for each in parents], table))
    return families_judged(families, rows)


def agrum_climbing(rows: Rows, seed: int) -> Judge:
    return agrum(rows, seed, climbing=True)


def tree(rows: Rows, seed: int) -> Judge:
    """Chow and Liu's tree by pgmpy, its tables with the prior that it has."""
    from pgmpy.estimators import TreeSearch
    from pgmpy.models import DiscreteBayesianNetwork
    from pgmpy.parameter_estimator import DiscreteBayesianEstimator

    data = frame(rows)
    net = DiscreteBayesianNetwork()
    net.add_nodes_from(data)
    net.add_edges_from(TreeSearch(data, root_node="x0").estimate(estimator_type="chow-liu", show_progress=False).edges())
    net.fit(data, estimator=DiscreteBayesianEstimator(state_names={name: [0, 1] for name in data}))
    families: list[Family] = []
    for name in data:
        table = net.get_cpds(name)
        families.append((int(name[1:]), [int(each[1:]) for each in table.variables[1:]], np.moveaxis(table.values, 0, -1)))
    return families_judged(families, rows)


# Dictionaries of 128 atoms: the mean over 300 rows held out of min ½|z − As|² + .01 |s|₁, atoms of length 1

PENALTY = 0.01


def coded(A: np.ndarray, rows: Rows) -> Judge:
    """Of a dictionary, a column an atom; scikit-learn's lasso finds the codes of all contenders."""
    from sklearn.linear_model import Lasso

    A = A / np.sqrt((A**2).sum(axis=0))
    n, held = len(A), rows.held[:300]

    def judge() -> float:
        lasso = Lasso(PENALTY / n, fit_intercept=False, max_iter=10_000, tol=1e-4)
        codes = lasso.fit(A, held.T).coef_
        return float((0.5 * np.square(held - codes @ A.T).sum(axis=1) + PENALTY * np.abs(codes).sum(axis=1)).mean())

    return judge


def herd_dictionary(rows: Rows, seed: int) -> Judge:
    """Of `herd ica --algorithm sparse-coding`, learned before."""
    from herdcli import artifacts

    return coded(np.asarray(artifacts.load("model.h5").value.dictionary), rows)


def spams(rows: Rows, seed: int) -> Judge:
    """As many batches, and as large ones, as in the examples of its documentation."""
    import spams as library

    given = {"lambda1": PENALTY, "mode": 2, "batchsize": 400, "iter": 1000, "numThreads": 1, "verbose": False}
    A = library.trainDL(np.asfortranarray(rows.X.T), K=128, **given)
    return coded(np.asarray(A), rows)


def online_dictionary(rows: Rows, seed: int) -> Judge:
    from sklearn.decomposition import MiniBatchDictionaryLearning

    model = MiniBatchDictionaryLearning(128, alpha=PENALTY, fit_algorithm="cd", random_state=seed).fit(rows.X)
    return coded(model.components_.T, rows)


def lengths(sequence: np.ndarray) -> list[int]:
    """Of runs of the same number."""
    ends = np.flatnonzero(np.diff(sequence)) + 1
    return [int(n) for n in np.diff([0, *ends, len(sequence)])]


def clusters(rows: Rows, seed: int, batches: bool = False) -> Judge:
    from sklearn.cluster import KMeans, MiniBatchKMeans

    model = (MiniBatchKMeans if batches else KMeans)(50, random_state=seed).fit(rows.X)
    return lambda: -float(model.score(rows.held)) / len(rows.held)


def clusters_batches(rows: Rows, seed: int) -> Judge:
    return clusters(rows, seed, batches=True)


# Sources: the Amari distance of Teh (2003), sec. 4.6, with 2N


def amari(unmixing: np.ndarray, mixing: np.ndarray) -> float:
    size = np.abs(unmixing @ mixing)
    return float((size / size.max(axis=1, keepdims=True)).sum() + (size / size.max(axis=0)).sum() - 2 * len(size))


def picard(rows: Rows, seed: int) -> Judge:
    from picard import picard as separate

    K, W, _ = separate(rows.X.T, ortho=False, extended=True, random_state=seed)
    return lambda: amari(W @ K, rows.mixing)


def fastica(rows: Rows, seed: int) -> Judge:
    from sklearn.decomposition import FastICA

    model = FastICA(random_state=seed).fit(rows.X)
    return lambda: amari(model.components_, rows.mixing)


def infomax(rows: Rows, seed: int) -> Judge:
    from mne.preprocessing import infomax as separate

    centred = rows.X - rows.X.mean(axis=0)
    value, vectors = np.linalg.eigh(np.cov(centred.T))
    whitening = vectors @ np.diag(value**-0.5) @ vectors.T
    W = separate(centred @ whitening.T, extended=True, random_state=seed, verbose="error")
    return lambda: amari(W @ whitening, rows.mixing)


PROGRAMS: dict[str, tuple[Callable[[Rows, int], Judge], str, str]] = {  # name: function, package, what is set
    "logistic regression": (logistic, "scikit-learn", "standardised"),
    "nearest neighbour": (nearest, "scikit-learn", ""),
    "SVC": (machine, "scikit-learn", "Gaussian kernel"),
    "BernoulliRBM + logistic": (features, "scikit-learn", "its example: 100 units, rate .06, C 6000"),
    "SGDClassifier": (descent, "scikit-learn", "standardised"),
    "LogisticRegression": (maximum, "scikit-learn", "standardised, no penalty"),
    "GLM": (reweighted, "statsmodels", "binomial"),
    "glum": (glum, "glum", "binomial, no penalty, scaled"),
    "BernoulliRBM": (harmonium, "scikit-learn", "16 units"),
    "BernoulliRBM, 100 passes": (harmonium_long, "scikit-learn", "16 units, rate .01"),
    "GaussianMixture": (mixture, "scikit-learn", "10 components"),
    "FactorAnalysis": (factors, "scikit-learn", "20 factors"),
    "PCA": (components, "scikit-learn", "20 components, with noise"),
    "GaussianHMM": (states, "hmmlearn", "8 states, full, 100 iterations"),
    "KMeans": (clusters, "scikit-learn", "50 clusters"),
    "MiniBatchKMeans": (clusters_batches, "scikit-learn", "50 clusters"),
    "picard": (picard, "python-picard", "extended, not orthogonal"),
    "FastICA": (fastica, "scikit-learn", "log cosh"),
    "KalmanFilter": (kalman, "pykalman", "8 states, all learned, 10 iterations"),
    "KalmanFilter, 50 iterations": (kalman_long, "pykalman", "8 states, all learned"),
    "DynamicFactorMQ": (dynamic, "statsmodels", "8 factors of order 1, white noise, 500 iterations at most"),
    "pyAgrum": (agrum, "pyagrum", "its default search, smoothing 1"),
    "pyAgrum, hill climbing": (agrum_climbing, "pyagrum", "greedy, by BIC, smoothing 1"),
    "TreeSearch": (tree, "pgmpy", "Chow and Liu's tree, BDeu prior"),
    "SPAMS": (spams, "spams-bin", "128 atoms, penalty .01, its example: 1,000 batches of 400"),
    "MiniBatchDictionaryLearning": (online_dictionary, "scikit-learn", "128 atoms, penalty .01, coordinate descent"),
    "herd's dictionary": (herd_dictionary, "herdcli", ""),
    "extended infomax": (infomax, "mne", "whitened by ZCA"),
}


def main() -> None:
    name, path, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    judge = PROGRAMS[name][0](read(path), seed)
    seconds = time.process_time()
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    print(json.dumps({"quality": judge(), "seconds": seconds, "mb": peak}))


if __name__ == "__main__":
    main()
