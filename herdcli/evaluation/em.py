"""What `herd eval` says of mixtures, k-means and factors: likelihoods beside a baseline, criteria, the ledger, and known labels."""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Any

import numpy as np

from herdcli.em.artifacts import Clusters, FactorModel, Mixture
from herdcli.em.fitting import Made, base_densities, criteria
from herdcli.evaluation import codes
from herdcli.evaluation.settings import EvaluationSettings
from herdcli.schema import Array

FIGURES = ("", "_baseline", "_valid", "_train")  # of log_likelihood or squared_error
CRITERIA = ("bic", "aic", "icl")
LEDGER = ("iterations", "rise", "floors")
CLUSTERS = ("adjusted_rand", "mutual_information", "error")


def metrics(
    value: Made, settings: EvaluationSettings, *, map: Callable[..., Any] = map, progress: Callable[[int, int], None] | None = None
) -> dict[str, float | str | None]:
    """The columns of the kind; None where there are no rows or labels for one.

    log_likelihood       nats a row of split 2; of one Gaussian or independent columns beside it; of split 1 and 0.
    squared_error        the same for kmeans and pca, a row: from the centre or the plane; the baseline's from the mean.
    code_length, bits_back   nats a row to send a held-out row with its component or factors, and what choosing these gives back; the
                         difference is the free energy, −log_likelihood.  code_length_hard: with the likeliest component alone.
    bound, occupied      of variational Bayes: of the log evidence, nats a row; components that hold a row or more.
    bic, aic, icl        of the rows learned from; the smaller, the better.
    rise                 largest fall of the penalised objective in one half-step of the run, nats a row (squared error a row).
    floors               variances that the last M step raised.
    adjusted_rand, mutual_information   clusters beside the labels of split 2; 1 is perfect, about 0 is chance.
    error                of the classes of --per-class.
    """
    ledger = value.ledger
    density = not isinstance(value, Clusters) and not (isinstance(value, FactorModel) and value.model == "pca")
    name, sign = ("log_likelihood", 1.0) if density else ("squared_error", -1.0)
    figures = tuple(name + part for part in FIGURES) + (CRITERIA if density else ())
    labelled = () if isinstance(value, FactorModel) else CLUSTERS
    result: dict[str, float | str | None] = dict.fromkeys(("components", *figures, *LEDGER, *labelled))
    bayes = isinstance(value, Mixture) and value.concentration is not None
    if isinstance(value, Mixture) and bayes:
        result |= {"bound": -float(ledger.free_energy[-1]), "occupied": value.occupied}
    result |= {
        "components": len(value.centre) if isinstance(value, Clusters) else _size(value),
        f"{name}_train": None if bayes else sign * float(ledger.log_likelihood[-1]),
        "iterations": int(value.restarts.iterations[value.restarts.best]),
        "rise": ledger.rise,
        "floors": int(ledger.floors[-2:].max(initial=0)),
    }
    known = value.known
    if known is None:
        return result | criteria(value, 0.0)
    result |= criteria(value, known.entropy)
    if known.valid is not None:
        result[f"{name}_valid"] = sign * known.valid
    if value.holdout is not None and len(value.holdout):
        own, base = float(value.densities(value.holdout).mean()), float(base_densities(value)(value.holdout).mean())
        result |= {name: sign * own, f"{name}_baseline": sign * base}
        if isinstance(value, Mixture):
            result |= codes.of_mixture(value, value.holdout)
        elif isinstance(value, FactorModel):
            result |= codes.of_factors(value, value.holdout)
        if known.holdout_y is not None:
            result |= _labelled(value, known.holdout_y)
    return result


def _size(value: Mixture | FactorModel) -> int:
    return len(value.weight) if isinstance(value, Mixture) else int(value.loading.shape[1])


def _labelled(value: Made, y: Array) -> dict[str, float | str | None]:
    """Clusters beside known labels."""
    there = y >= 0
    if isinstance(value, FactorModel) or not there.any():
        return {}
    X, labels = np.asarray(value.holdout)[there], y[there]
    found = value.clusters(X)
    return matched(found, labels, supervised=value.known is not None and value.known.supervised)


def matched(found: Array, labels: Array, *, supervised: bool) -> dict[str, float | str | None]:
    """Clusters or states (n,) beside labels (n,): two indices of clusterings, and the error where each class has its own."""
    result: dict[str, float | str | None] = {
        "adjusted_rand": adjusted_rand(labels, found),
        "mutual_information": mutual_information(labels, found),
    }
    return result | ({"error": float(np.mean(found != labels))} if supervised else {})


def contingency(first: Array, second: Array) -> Array:
    """(a, b) counts of rows by two labellings (n,)."""
    a, i = np.unique(first, return_inverse=True)
    b, j = np.unique(second, return_inverse=True)
    return np.bincount(i * len(b) + j, minlength=len(a) * len(b)).reshape(len(a), len(b))


def adjusted_rand(first: Array, second: Array) -> float:
    """Agreement of two partitions of rows (n,), 1 where they are the same and 0 on average by chance.

    (Σ_ij C(n_ij, 2) − e) / (½ (a + b) − e), a = Σ_i C(n_i, 2), b = Σ_j C(n_j, 2), e = a b / C(n, 2).  Source: Hubert & Arabie (1985).
    """
    table = contingency(first, second)

    def pairs(counts: Array) -> int:
        return sum(comb(int(count), 2) for count in counts.ravel())

    both, a, b, every = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0)), comb(len(first), 2)
    expected = a * b / every if every else 0.0
    most = 0.5 * (a + b)
    return 1.0 if most == expected else (both - expected) / (most - expected)


def mutual_information(first: Array, second: Array) -> float:
    """I(a; b) / ½ (H(a) + H(b)) of two partitions of rows (n,): 1 where they are the same, 0 where they are independent."""
    # Σ p_ij log p_ij/(p_i p_j), empty cells 0; at most the smaller of both entropies, so that the quotient with their mean is at most 1.
    p = contingency(first, second) / len(first)
    a, b = p.sum(axis=1), p.sum(axis=0)
    some = p > 0
    shared = float((p[some] * np.log(p[some] / np.outer(a, b)[some])).sum())
    mean = -0.5 * float((a * np.log(a)).sum() + (b * np.log(b)).sum())
    return 1.0 if mean == 0.0 else max(0.0, shared / mean)
