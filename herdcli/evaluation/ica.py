"""What `herd eval` says about an `ica` artifact: sources found, sparseness, locality of the filters, fit on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from herdcli.algorithm import Watch
from herdcli.evaluation import gabor
from herdcli.evaluation.settings import EvaluationSettings
from herdcli.ica import metrics as measures
from herdcli.ica.amari import amari_distance
from herdcli.ica.energy import Linear, energy_of
from herdcli.ica.experts import together
from herdcli.ica.model import ICA
from herdcli.schema import Array

COLUMNS = (
    "filters",
    "dimensions",
    "amari",
    "amari_squared",
    "sir",
    "sir_least",
    "kurtosis",
    "kurtosis_heldout",
    "kurtosis_whitening",
    "participation",
    "localisation",
    "gabor_r2",
    "gabor_share",
    "score_matching",
    "log_likelihood",
    "log_likelihood_whitening",
    "objective",
    "acceptance",
)
GOOD_FIT = 0.7  # r² from which on a filter counts as a Gabor function
SMALLEST_PICTURE = 5  # pixels a side that a Gabor function needs


def metrics(
    value: ICA, settings: EvaluationSettings, *, map: Callable[..., Any] = map, progress: Watch | None = None
) -> dict[str, float | None]:
    """Every column of `COLUMNS`; None where the model has no such thing.

    amari, amari_squared  distance of unmixing @ mixing from a scaled permutation, Teh's sum and the mean of squares; square models
                          whose mixing is known.
    sir, sir_least        decibels of a source over the others in its output, mean and worst.
    kurtosis              median excess kurtosis of the outputs, over training and over held-out rows.
    kurtosis_whitening    median of its absolute value over the columns of whitened held-out rows, without any filter.
    log_likelihood_whitening  of a Gaussian of unit variance, of the same rows.
    participation         median share of pixels that a filter uses; filters turned to the rows' own axes, lengths kept.
    localisation          median of 1 − radius of a filter's power over that of even power; of rows in order, no pictures: in time.
    gabor_r2, gabor_share median r² of fitted Gabor functions, and the share of filters with r² ≥ 0.7; pictures alone.
    score_matching        E[½|∇E|² − ∇²E] over held-out whitened rows: compares densities without their partition functions,
                          models of the same rows and of whitenings that differ by a rotation alone.
    log_likelihood        nats per held-out whitened row, of square models whose outputs have densities of their own.
    objective, acceptance last of the trace.
    rise                  of --posterior gaussian: the most that the free energy rose in a half-step, nats a row.
    """
    M, D = value.J.shape
    result: dict[str, float | None] = dict.fromkeys(COLUMNS)
    result |= {"filters": M, "dimensions": D, "kurtosis": float(np.median(value.kurtosis)), "objective": float(value.trace.objective[-1])}
    if value.posterior == "gaussian":
        result["rise"] = float(max(0.0, -np.diff(value.trace.objective).min(initial=0.0)))
    if value.trace.acceptance is not None:
        result["acceptance"] = float(value.trace.acceptance[-1])
    if value.mixing is not None:
        result |= _separation(value.unmixing @ value.mixing)
    elif value.whitening.mean.size > 1:
        result |= _locality(value, map)
    if value.holdout is not None and len(value.holdout):
        result["kurtosis_heldout"] = float(np.median(measures.excess_kurtosis(value.holdout @ value.J.T)))
        result |= whitening(value.holdout)
        result["score_matching"] = _score_matching(value)
        result["log_likelihood"] = _log_likelihood(value)
    return result


def whitening(rows: Array) -> dict[str, float | None]:
    """What whitening alone gives: kurtosis and likelihood of whitened rows (n, D)."""
    gaussian = -0.5 * (rows.shape[1] * math.log(2.0 * math.pi) + float(np.square(rows, dtype=np.float64).sum(axis=1).mean()))
    kurtosis = np.abs(measures.excess_kurtosis(np.asarray(rows, dtype=np.float64)))
    return {"kurtosis_whitening": float(np.median(kurtosis)), "log_likelihood_whitening": gaussian}


def _score_matching(value: ICA) -> float | None:
    """None where e^{−E} is not the density (causal models) or E has kinks."""
    if value.algorithm == "sparse-coding" or "laplace" in value.experts or value.density == "laplace":
        return None
    J, gamma = value.J.astype(np.float64), value.gamma.astype(np.float64)
    energy = energy_of(J, gamma, value.experts, topography=value.topography, density=value.density)
    rows = np.asarray(value.holdout, dtype=np.float64)
    return measures.score_matching(energy.gradient(rows), energy.laplacian(rows))


def quick(value: ICA, *, map: Callable[..., Any] = map) -> dict[str, float | None]:
    """What the verdict at the end of learning needs: kurtoses and the likelihood beside whitening alone; no Gabor functions are fitted."""
    row: dict[str, float | None] = {"kurtosis": float(np.median(value.kurtosis))}
    if value.holdout is None or not len(value.holdout):
        return row
    row["kurtosis_heldout"] = float(np.median(measures.excess_kurtosis(value.holdout @ value.J.T)))
    return row | whitening(value.holdout) | {"log_likelihood": _log_likelihood(value)}


def _log_likelihood(value: ICA) -> float | None:
    """None where the partition function is not known; FastICA's filters were never scaled to a density."""
    M, D = value.J.shape
    if M != D or value.topography is not None or value.expert == "infomax" or value.algorithm in ("sparse-coding", "fastica", "sobi"):
        return None
    J, gamma = value.J.astype(np.float64), value.gamma.astype(np.float64)
    if not gamma.all():  # an output without energy has a flat density, which no sum makes a probability
        return None
    energies = Linear(J, gamma, together(value.experts)).energy(np.asarray(value.holdout, dtype=np.float64))
    return float(np.linalg.slogdet(J)[1] - together(value.experts).log_z(gamma).sum() - energies.mean())


def _separation(product: Array) -> dict[str, float | None]:
    """Of the product of unmixing and mixing matrix (M, S)."""
    decibels = measures.source_to_interference(product)
    found: dict[str, float | None] = {"sir": float(decibels.mean()), "sir_least": float(decibels.min())}
    if product.shape[0] == product.shape[1]:
        found |= {"amari": amari_distance(product), "amari_squared": amari_distance(product, squared=True)}
    return found


def _locality(value: ICA, map: Callable[..., Any]) -> dict[str, float | None]:
    """Of filters on the rows' own axes."""
    filters = value.whitening.rotated(value.J)
    shape = picture_shape(value) or (filters.shape[1],)
    found: dict[str, float | None] = {
        "participation": float(np.median(measures.participation(filters))),
        "localisation": float(np.median(measures.localisation(filters, shape))),
    }
    if len(shape) == 2 and min(shape) >= SMALLEST_PICTURE:
        r2 = gabor.fit(filters.reshape(-1, *shape), map=map).r2
        found |= {"gabor_r2": float(np.median(r2)), "gabor_share": float(np.mean(r2 >= GOOD_FIT))}
    return found


def picture_shape(value: ICA) -> tuple[int, int] | None:
    """Height and width of a row, None where rows are no pictures."""
    return None if value.image_shape is None else (int(value.image_shape[0]), int(value.image_shape[1]))
