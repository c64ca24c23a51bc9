"""The metrics of `herd eval` for an `ica` artifact: separation of sources, sparseness, locality of the filters, held-out fit."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from herdcli.algorithm import Map, ProgressCallback
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.plots import gabor
from herdcli.ica.energy import LinearExperts, make_energy
from herdcli.ica.experts import combine_experts
from herdcli.ica.filters import filter_metrics as measures
from herdcli.ica.filters.amari_distance import amari_distance
from herdcli.ica.model import ICA
from herdcli.numerics import block_statistics
from herdcli.records import dataclass
from herdcli.schema import Array, DType

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
GOOD_FIT = 0.7  # least r² with which a filter counts as a Gabor function
SMALLEST_PICTURE = 5  # least pixels per side for fitting a Gabor function


@dataclass(frozen=True)
class EvaluatedFilters:
    """A model and the whitened rows that evaluate it, in memory or not.  dtype  the type for computing outputs."""

    model: ICA
    rows: block_statistics.RowReader
    dtype: DType = np.dtype(np.float64)
    map: Map = map

    @cached_property
    def sums(self) -> block_statistics.Sums:
        """Return sums over all rows: count, squares, energies, score matching, second and fourth powers of centred columns and outputs.

        It takes one pass for the means, and one for the rest.
        """
        source, value = block_statistics.RowBlocks.with_memory_limit(self.rows), self.model
        first = block_statistics.sum_statistics(source, self._column_sums, self.map)
        count = first["rows"][0]
        centre, middle = first["columns"] / count, (first["outputs"] / count).astype(self.dtype)
        J, gamma = value.J.astype(np.float64), value.gamma.astype(np.float64)
        energy = (
            make_energy(J, gamma, value.experts, topography=value.topography, density=value.density)
            if _supports_score_matching(value)
            else None
        )
        linear = LinearExperts(J, gamma, combine_experts(value.experts)) if _is_likelihood_known(value) else None

        def sums(block: block_statistics.RowBlock) -> block_statistics.Sums:
            X = block.X
            found = {"rows": np.array([float(len(X))]), "squares": np.array([np.square(X).sum(axis=1).sum()])}
            found |= _power_sums("columns", X - centre) | _power_sums("outputs", self._outputs(X) - middle)
            if energy is not None:
                found["scores"] = np.array([measures.score_matching_loss(energy.gradient(X), energy.laplacian(X)).sum()])
            if linear is not None:
                found["energies"] = np.array([linear.energy(X).sum()])
            return found

        return block_statistics.sum_statistics(source, sums, self.map)

    def _outputs(self, X: Array) -> Array:
        found: Array = X.astype(self.dtype, copy=False) @ self.model.J.T
        return found

    def _column_sums(self, block: block_statistics.RowBlock) -> block_statistics.Sums:
        outputs = self._outputs(block.X).sum(axis=0).astype(np.float64)
        return {"rows": np.array([float(len(block.X))]), "columns": block.X.sum(axis=0), "outputs": outputs}

    def mean(self, name: str) -> float | None:
        """Return the mean over rows of a quantity; None if the model does not have it."""
        return float(self.sums[name][0] / self.sums["rows"][0]) if name in self.sums else None

    def kurtosis(self, name: str) -> Array:
        """Return E(u − ū)⁴ / var² − 3 of each of `columns` or `outputs`."""
        dtype, count = self.dtype if name == "outputs" else np.dtype(np.float64), self.sums["rows"][0]
        second, fourth = ((self.sums[f"{name}_{power}"] / count).astype(dtype) for power in ("second", "fourth"))
        found: Array = fourth / second**2 - 3.0
        return found


def _power_sums(name: str, centred: Array) -> block_statistics.Sums:
    square = centred**2
    found = {"second": square.sum(axis=0), "fourth": (square**2).sum(axis=0)}
    return {f"{name}_{power}": item.astype(np.float64) for power, item in found.items()}


def evaluate_heldout_filters(value: ICA | EvaluatedFilters, map: Map = map) -> EvaluatedFilters | None:
    """Return the evaluation on the held-out rows stored with a model, unless others were given; None if there are none."""
    if isinstance(value, EvaluatedFilters):
        return value
    if value.holdout is None or not len(value.holdout):
        return None
    return EvaluatedFilters(value, block_statistics.ArrayRows(value.holdout), np.result_type(value.holdout, value.J), map)


def metrics(
    value: ICA | EvaluatedFilters, settings: EvaluationSettings, *, map: Map = map, progress: ProgressCallback | None = None
) -> dict[str, float | None]:
    """Return every column of `COLUMNS`; None for those that do not apply to the model.

    amari, amari_squared  distance of unmixing @ mixing from a scaled permutation, Teh's sum and the mean of squares; for square models
                          with known mixing.
    sir, sir_least        ratio of a source to the others in its output, in decibels, mean and worst.
    kurtosis              median excess kurtosis of the outputs, over training and over held-out rows.
    kurtosis_whitening    median of its absolute value over the columns of whitened held-out rows, without any filter.
    log_likelihood_whitening  the log-likelihood of a Gaussian of unit variance on the same rows.
    participation         median share of pixels that a filter uses; filters are rotated to the axes of the rows, with lengths kept.
    localisation          median of 1 − radius of a filter's power / radius of uniform power; for ordered rows that are no images: in time.
    gabor_r2, gabor_share median r² of fitted Gabor functions, and the share of filters with r² ≥ 0.7; images only.
    score_matching        E[½|∇E|² − ∇²E] over held-out whitened rows: compares densities without their partition functions,
                          for models of the same rows whose whitenings differ only by a rotation.
    log_likelihood        nats per held-out whitened row, for square models whose outputs have their own densities.
    objective, acceptance the last values of the trace.
    rise                  of --posterior gaussian: the most that the free energy rose in a half-step, nats per row.
    """
    held = evaluate_heldout_filters(value, map)
    value = value.model if isinstance(value, EvaluatedFilters) else value
    M, D = value.J.shape
    result: dict[str, float | None] = dict.fromkeys(COLUMNS)
    result |= {"filters": M, "dimensions": D, "kurtosis": float(np.median(value.kurtosis)), "objective": float(value.trace.objective[-1])}
    if value.posterior == "gaussian":
        result["rise"] = float(max(0.0, -np.diff(value.trace.objective).min(initial=0.0)))
    if value.trace.acceptance is not None:
        result["acceptance"] = float(value.trace.acceptance[-1])
    if value.mixing is not None:
        result |= _separation_columns(value.unmixing_matrix @ value.mixing)
    elif value.whitening.mean.size > 1:
        result |= _locality_columns(value, map)
    return result if held is None else result | {"score_matching": held.mean("scores")} | _heldout_columns(held)


def whitening_columns(evaluated: EvaluatedFilters) -> dict[str, float | None]:
    """Return the metrics of whitening without filters: kurtosis and likelihood of whitened rows."""
    squares = evaluated.mean("squares")
    assert squares is not None
    gaussian = -0.5 * (evaluated.rows.columns * math.log(2.0 * math.pi) + squares)
    return {"kurtosis_whitening": float(np.median(np.abs(evaluated.kurtosis("columns")))), "log_likelihood_whitening": gaussian}


def _heldout_columns(evaluated: EvaluatedFilters) -> dict[str, float | None]:
    """Return the kurtoses and the likelihood, with those of whitening without filters."""
    kurtosis = {"kurtosis_heldout": float(np.median(evaluated.kurtosis("outputs")))}
    return kurtosis | whitening_columns(evaluated) | {"log_likelihood": _log_likelihood(evaluated)}


def _supports_score_matching(value: ICA) -> bool:
    """Return whether score matching applies: not if e^{−E} is not the density (causal models) or E has kinks."""
    return value.algorithm != "sparse-coding" and "laplace" not in value.experts and value.density != "laplace"


def quick_metrics(value: ICA, *, map: Map = map) -> dict[str, float | None]:
    """Return the columns for the verdict at the end of training: kurtoses and likelihood, with those of whitening; no Gabor fits."""
    row: dict[str, float | None] = {"kurtosis": float(np.median(value.kurtosis))}
    held = evaluate_heldout_filters(value, map)
    return row if held is None else row | _heldout_columns(held)


def _is_likelihood_known(value: ICA) -> bool:
    """Return whether the partition function is known; FastICA's filters are not scaled to a density."""
    M, D = value.J.shape
    if M != D or value.topography is not None or value.expert == "infomax" or value.algorithm in ("sparse-coding", "fastica", "sobi"):
        return False
    return bool(value.gamma.all())  # an output without energy has a flat density, which cannot be normalised


def _log_likelihood(evaluated: EvaluatedFilters) -> float | None:
    energies, value = evaluated.mean("energies"), evaluated.model
    if energies is None:
        return None
    gamma = value.gamma.astype(np.float64)
    return float(np.linalg.slogdet(value.J.astype(np.float64))[1] - combine_experts(value.experts).log_z(gamma).sum() - energies)


def _separation_columns(product: Array) -> dict[str, float | None]:
    """Return the separation columns from the product of unmixing and mixing matrix (M, S)."""
    decibels = measures.source_to_interference_db(product)
    found: dict[str, float | None] = {"sir": float(decibels.mean()), "sir_least": float(decibels.min())}
    if product.shape[0] == product.shape[1]:
        found |= {"amari": amari_distance(product), "amari_squared": amari_distance(product, squared=True)}
    return found


def _locality_columns(value: ICA, map: Map) -> dict[str, float | None]:
    """Return the locality columns of filters on the axes of the rows."""
    filters = value.whitening.filters_in_row_axes(value.J)
    shape = image_shape(value) or (filters.shape[1],)
    found: dict[str, float | None] = {
        "participation": float(np.median(measures.participation_ratio(filters))),
        "localisation": float(np.median(measures.filter_localisation(filters, shape))),
    }
    if len(shape) == 2 and min(shape) >= SMALLEST_PICTURE:
        r2 = gabor.fit_gabors(filters.reshape(-1, *shape), map=map).r2
        found |= {"gabor_r2": float(np.median(r2)), "gabor_share": float(np.mean(r2 >= GOOD_FIT))}
    return found


def image_shape(value: ICA) -> tuple[int, int] | None:
    """Return the height and width of a row, or None if rows are not images."""
    return None if value.image_shape is None else (int(value.image_shape[0]), int(value.image_shape[1]))
