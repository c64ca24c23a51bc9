"""The metrics of `herd eval` for mixtures, k-means and factors: likelihoods with baselines, criteria, code lengths, and labels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import comb

import numpy as np

from herdcli.algorithm import Map
from herdcli.em.artifacts import Clusters, FactorModel, Mixture
from herdcli.em.fitting import FittedArtifact, baseline_log_density, information_criteria
from herdcli.em.variance_floors import floor_scale
from herdcli.evaluation.baselines.gaussian_baseline import log_densities, predictive_covariance, predictive_variances
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.metrics import code_lengths, standard_errors
from herdcli.numerics import block_statistics
from herdcli.records import dataclass
from herdcli.schema import Array

FIGURES = ("", "_baseline", "_valid", "_train")  # suffixes of log_likelihood or squared_error
GAUSSIANS = ("_gaussian", "_independent")  # baselines of densities
GAIN = ("gain", "gain_se")
LEAST_MASS = 2.0  # least sum of weights that count the occurrences of rows
CRITERIA = ("bic", "aic", "icl")
LEDGER = ("iterations", "rise", "floors")
CLUSTERS = ("adjusted_rand", "mutual_information", "error")


@dataclass(frozen=True)
class EvaluatedRows:
    """A model and the rows that evaluate it, in memory or not; their labels are 0 … labels − 1, −1 if unknown."""

    model: FittedArtifact
    rows: block_statistics.RowReader
    labels: int = 0


def metrics(
    value: FittedArtifact | EvaluatedRows,
    settings: EvaluationSettings,
    *,
    map: Map = map,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, float | str | None]:
    """Return the columns of the kind; None for those without rows or labels.

    log_likelihood       nats per row of split 2; of split 1 (_valid) and 0 (_train).
    _gaussian, _independent, _baseline  those of split 2 under one full Gaussian, under one Gaussian per column, and under the baseline
                         of the verdict: for mixtures the better of both, for factors independent columns.
    gain, gain_se        the gain over the baseline for rows of split 2, without constant columns, and its standard error.
    squared_error        the same for kmeans and pca, per row: from the centre or the plane; for the baseline from the mean.
    code_length, bits_back   nats to send a held-out row with its component or factors, and the nats returned by their choice; the
                         difference is the free energy, −log_likelihood.  code_length_hard: with the most probable component only.
    bound, occupied      for variational Bayes: the bound of the log evidence in nats per row; components with at least one row.
    bic, aic, icl        criteria of the training rows; smaller is better.
    rise                 largest fall of the penalised objective in one half-step of the run, nats per row (squared error per row).
    floors               number of variances that the last M step raised to their floor.
    adjusted_rand, mutual_information   clusters compared with the labels of split 2; 1 is perfect, about 0 is chance.
    error                the classification error of --per-class.
    """
    held = value if isinstance(value, EvaluatedRows) else _heldout_rows(value)
    value = value.model if isinstance(value, EvaluatedRows) else value
    ledger = value.ledger
    density = not isinstance(value, Clusters) and not (isinstance(value, FactorModel) and value.model == "pca")
    name, sign = ("log_likelihood", 1.0) if density else ("squared_error", -1.0)
    parts = (*FIGURES[:2], *GAUSSIANS, *FIGURES[2:]) if density else FIGURES
    figures = (*(name + part for part in parts), *GAIN, *(CRITERIA if density else ()))
    labelled = () if isinstance(value, FactorModel) else CLUSTERS
    result: dict[str, float | str | None] = dict.fromkeys(("components", *figures, *LEDGER, *labelled))
    bayes = isinstance(value, Mixture) and value.concentration is not None
    if isinstance(value, Mixture) and bayes:
        result |= {"bound": -float(ledger.free_energy[-1]), "occupied": value.occupied_components}
    result |= {
        "components": len(value.centre) if isinstance(value, Clusters) else _parameter_count(value),
        f"{name}_train": None if bayes else sign * float(ledger.log_likelihood[-1]),
        "iterations": int(value.restarts.iterations[value.restarts.best]),
        "rise": ledger.largest_rise,
        "floors": int(ledger.floors[-2:].max(initial=0)),
    }
    known = value.known
    if known is None:
        return result | information_criteria(value, 0.0)
    result |= information_criteria(value, known.entropy)
    if known.valid is not None:
        result[f"{name}_valid"] = sign * known.valid
    if held is not None:
        against = _baseline_scores(value, density=density)
        found = block_statistics.sum_statistics(
            block_statistics.RowBlocks.with_memory_limit(held.rows), _make_block_statistics(held, against), map
        )
        rows = float(found["rows"][0])
        result |= {name: sign * float(found["own"][0]) / rows} | _baseline_columns(value, against, found, name, sign)
        result |= code_lengths.code_length_columns(value, found)
        if not isinstance(value, FactorModel) and held.labels:
            table = found["table"].astype(np.int64)
            if table.any():
                result |= _agreement_columns(table, float(found["wrong"][0]), supervised=known.supervised)
    return result


def _heldout_rows(value: FittedArtifact) -> EvaluatedRows | None:
    """Return the held-out rows stored with a model; None if there are none."""
    if value.holdout is None or not len(value.holdout):
        return None
    y = None if value.known is None else value.known.holdout_y
    return EvaluatedRows(value, block_statistics.ArrayRows(np.asarray(value.holdout), y), 0 if y is None else int(y.max()) + 1)


def _baseline_scores(value: FittedArtifact, *, density: bool) -> dict[str, Callable[[Array], Array]]:
    """Return the scores of the baselines as functions of rows (n, D): (n,) nats of Gaussians with the model's floors, or −squared error."""
    known = value.known
    assert known is not None
    if isinstance(value, Clusters) or not density:
        return {"_baseline": baseline_log_density(value)}
    mean, variance = known.base_mean, known.base_variance
    rows = known.rows if value.mass < LEAST_MASS else round(value.mass)  # weights that sum to 1 are shares, not counts
    alike = (isinstance(value, Mixture) and value.family == "spherical") or (isinstance(value, FactorModel) and value.model == "ppca")
    scale = np.ones(len(mean)) if alike else floor_scale(variance, mean, value.floor)
    narrow = predictive_variances(variance, rows, value.floor * np.square(scale))
    found: dict[str, Callable[[Array], Array]] = {"_independent": partial(log_densities, mean=mean, covariance=narrow)}
    whole = known.base_full if known.base_full is not None else known.base_covariance
    if whole is not None:
        for part, shrunk in (("_gaussian", True), ("_unshrunk", False)):
            full = predictive_covariance(whole, rows, value.floor, scale, shrunk=shrunk)
            found[part] = partial(log_densities, mean=mean, covariance=full)
    return found


def _baseline_columns(
    value: FittedArtifact, baseline_scores: dict[str, Callable[[Array], Array]], sums: block_statistics.Sums, name: str, sign: float
) -> dict[str, float | str | None]:
    """Return the columns of the baselines, and the gain over the baseline of the verdict."""
    rows = float(sums["rows"][0])
    base = {part: float(sums["base" + part][0]) / rows for part in baseline_scores}
    best = "_independent" if isinstance(value, FactorModel) and "_independent" in base else max(base, key=lambda part: base[part])
    total, squares = sums["gain" + best].tolist()
    if "_unshrunk" in base:  # the same Gaussian, shrunk or not, whichever is better
        base["_gaussian"] = max(base["_gaussian"], base.pop("_unshrunk"))
    result: dict[str, float | str | None] = {name + part: sign * figure for part, figure in base.items()}
    result |= {f"{name}_baseline": sign * base.get(best, base.get("_gaussian", 0.0)), "gain": total / rows}
    return result | {"gain_se": standard_errors.independent_standard_error(rows, total, squares)}


def _make_block_statistics(
    evaluated_rows: EvaluatedRows, baseline_scores: dict[str, Callable[[Array], Array]]
) -> Callable[[block_statistics.RowBlock], block_statistics.Sums]:
    """Return a function from rows to sums: the row count, densities of model and baselines, gains and their squares, and code lengths.

    The sums also contain the table of clusters by labels.
    """
    value = evaluated_rows.model
    constant = np.zeros(0, dtype=bool) if value.known is None or "_baseline" in baseline_scores else value.known.constant_columns

    def sums(block: block_statistics.RowBlock) -> block_statistics.Sums:
        X, y = block.X, block.labels
        own, parts = code_lengths.densities_and_sums(value, X)
        found = {"rows": np.array([float(len(X))]), "own": np.array([own.sum()])} | parts
        varying, mine = X, own
        if constant.any():
            varying = np.where(constant, np.nan, X)
            mine = value.densities(varying)
        for part, densities in baseline_scores.items():
            base = densities(X)
            gain = mine - (base if varying is X else densities(varying))
            found |= {"base" + part: np.array([base.sum()]), "gain" + part: np.array([gain.sum(), gain @ gain])}
        if isinstance(value, FactorModel) or y is None:
            return found
        clusters, there = value.assign_clusters(X), y >= 0
        size = len(value.centre) if isinstance(value, Clusters) else len(value.weight)
        cells = np.bincount(y[there] * size + clusters[there], minlength=evaluated_rows.labels * size)
        return found | {
            "table": cells.reshape(evaluated_rows.labels, size).astype(np.float64),
            "wrong": np.array([float(np.count_nonzero(clusters[there] != y[there]))]),
        }

    return sums


def _parameter_count(value: Mixture | FactorModel) -> int:
    return len(value.weight) if isinstance(value, Mixture) else int(value.loading.shape[1])


def compare_with_labels(clusters: Array, labels: Array, *, supervised: bool) -> dict[str, float | str | None]:
    """Compare clusters or states (n,) with labels (n,): two agreement indices, and the error if each class has its own cluster."""
    return _agreement_columns(contingency_table(labels, clusters), float(np.count_nonzero(clusters != labels)), supervised=supervised)


def _agreement_columns(table: Array, wrong: float, *, supervised: bool) -> dict[str, float | str | None]:
    """Return the same columns from counts of rows by label and cluster; `wrong` rows are in clusters of another number than their label."""
    table = table[np.ix_(table.any(axis=1), table.any(axis=0))]
    result: dict[str, float | str | None] = {
        "adjusted_rand": adjusted_rand_index(table),
        "mutual_information": normalized_mutual_information(table),
    }
    return result | ({"error": wrong / float(table.sum())} if supervised else {})


def contingency_table(first: Array, second: Array) -> Array:
    """Return (a, b) counts of rows by two labellings (n,)."""
    a, i = np.unique(first, return_inverse=True)
    b, j = np.unique(second, return_inverse=True)
    return np.bincount(i * len(b) + j, minlength=len(a) * len(b)).reshape(len(a), len(b))


def adjusted_rand_index(table: Array) -> float:
    """Return the agreement of two partitions of rows from counts (a, b): 1 if they are equal, and 0 on average by chance.

    (Σ_ij C(n_ij, 2) − e) / (½ (a + b) − e), a = Σ_i C(n_i, 2), b = Σ_j C(n_j, 2), e = a b / C(n, 2).  Source: Hubert & Arabie (1985).
    """

    def pairs(counts: Array) -> int:
        return sum(comb(int(count), 2) for count in counts.ravel())

    both, a, b, every = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0)), comb(int(table.sum()), 2)
    expected = a * b / every if every else 0.0
    most = 0.5 * (a + b)
    return 1.0 if most == expected else (both - expected) / (most - expected)


def normalized_mutual_information(table: Array) -> float:
    """Return I(a; b) / ½ (H(a) + H(b)) of two partitions from counts (a, b): 1 if they are equal, 0 if they are independent."""
    # Σ p_ij log p_ij/(p_i p_j), empty cells 0; it is at most the smaller entropy, so its quotient by their mean is at most 1.
    p = table / int(table.sum())
    a, b = p.sum(axis=1), p.sum(axis=0)
    some = p > 0
    shared = float((p[some] * np.log(p[some] / np.outer(a, b)[some])).sum())
    mean = -0.5 * float((a * np.log(a)).sum() + (b * np.log(b)).sum())
    return 1.0 if mean == 0.0 else max(0.0, shared / mean)
