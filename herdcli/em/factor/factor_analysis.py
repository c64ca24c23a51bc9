"""Factor analysis, probabilistic PCA and PCA by EM, from the moments of complete rows or from rows with missing values.

    x ~ N(0, I_K),   y | x ~ N(C x + c, Ψ),   Ψ diagonal (fa), σ² I (ppca), or its limit 0 (pca).

    E   V = (I + C'Ψ⁻¹C)⁻¹,   m_n = V C'Ψ⁻¹(y_n − c),   ⟨xx'⟩ = V + m m'
    M   [C c]_d = Σ y_nd ⟨z⟩' (Σ ⟨zz'⟩)⁻¹  with z = (x, 1),   ψ_d = ⟨y_d²⟩ − [C c]_d ⟨z y_d⟩

Only observed values are used: a row uses C and Ψ of its observed columns, and a column's regression uses the rows that have it.
For pca V = 0 and m_n = (C'C)⁻¹C'(y_n − c): both steps are least squares, and the ledger holds −(squared reconstruction error).
Source: Rubin & Thayer (1982); Tipping & Bishop (1999); Roweis (1998); Makin, sec. 2.1.2 and 6.4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from herdcli.algorithm import Map
from herdcli.em.driver import Parameters
from herdcli.em.factor import closed_form_pca
from herdcli.em.factor.closed_form_pca import fix_axis_signs
from herdcli.em.mixture.gaussian_densities import LOG_TAU
from herdcli.em.model_table import TABLE
from herdcli.em.variance_floors import floor_and_column_scales
from herdcli.errors import BadUsage
from herdcli.numerics import symmetric_matrices
from herdcli.numerics.block_statistics import BlockSource, BlockStatistics, RowBlock, RowMoments, Sums, row_moments
from herdcli.numerics.factor_model import fit_factors_above_noise
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

MODELS = tuple(name for name, entry in TABLE.items() if entry.kind == "factors")
INITS = ("pca", "newton", "random")
UNEQUAL = 1e6  # columns are taken to be in different units if the largest variance is more than this times the least


@dataclass(frozen=True)
class MomentsBlock:
    """All complete rows as one block, given by their moments, which are sufficient for the E step."""

    found: RowMoments

    @property
    def count(self) -> int:
        """The number of blocks, 1."""
        return 1

    def take(self, first: int, last: int) -> Iterator[RowMoments]:
        """Yield the moments."""
        if first < last:
            yield self.found


def recognition_parameters(name: str, C: Array, noise: Array) -> tuple[Array, Array, float]:
    """Return V (K, K), β = V C'Ψ⁻¹ (K, d), and log |CC' + Ψ| = log |Ψ| − log |V|."""
    K = C.shape[1]
    if name == "pca":
        return np.zeros((K, K)), symmetric_matrices.pseudoinverse(C), 0.0
    scaled = C / noise[:, None]
    # The precision form of the recognition (Makin, eq. 2.12 to 2.15) inverts K × K alone, Ψ being diagonal; by the determinant lemma
    # |CC' + Ψ| = |Ψ| |I + C'Ψ⁻¹C|.
    inverse = np.eye(K) + C.T @ scaled
    V = np.linalg.inv(inverse)
    V = 0.5 * (V + V.T)
    return V, V @ scaled.T, float(np.log(noise).sum() + np.linalg.slogdet(inverse)[1])


@dataclass(frozen=True)
class FactorRowStatistics(BlockStatistics):
    """The E-step statistics of a block of rows with missing values.

    name, parameters  the name and the parameters of the model.
    """

    name: str
    parameters: Parameters

    def __call__(self, block: RowMoments | RowBlock) -> Sums:
        """Return the sums of a block, computed for each pattern of missing values."""
        assert isinstance(block, RowBlock)
        D, K = self.parameters["loading"].shape
        sums = {
            "xx": np.zeros((D, K + 1, K + 1)),
            "yx": np.zeros((D, K + 1)),
            "yy": np.zeros(D),
            "known": np.zeros(D),
            "mass": np.array([block.mass]),
            "log_likelihood": np.zeros(1),
        }
        patterns, which = np.unique(~np.isnan(block.X), axis=0, return_inverse=True)
        for number, there in enumerate(patterns):
            rows = np.flatnonzero(which.ravel() == number)
            if there.any():
                w = np.ones(len(rows)) if block.weight is None else block.weight[rows]
                self._add_missing_pattern(there, block.X[rows][:, there], w, sums)
        return sums

    def _add_missing_pattern(self, observed: Array, Y: Array, w: Array, sums: Sums) -> None:
        parameters = self.parameters
        C, noise, K = parameters["loading"][observed], parameters["noise"][observed], parameters["loading"].shape[1]
        V, beta, determinant = recognition_parameters(self.name, C, noise)
        Y = Y - parameters["mean"][observed]
        Z = np.concatenate([Y @ beta.T, np.ones((len(Y), 1))], axis=1)
        weighted = Z * w[:, None]
        xx = weighted.T @ Z
        xx[:K, :K] += w.sum() * V
        sums["xx"][observed] += xx
        sums["yx"][observed] += Y.T @ weighted
        sums["yy"][observed] += w @ np.square(Y)
        sums["known"][observed] += w.sum()
        rest = Y - Z[:, :K] @ C.T
        if self.name == "pca":
            sums["log_likelihood"] -= float(w @ np.square(rest).sum(axis=1))
            return
        # y'(CC' + Ψ)⁻¹y = (y − Cβy)'Ψ⁻¹y, as (CC' + Ψ)⁻¹ = Ψ⁻¹(I − Cβ): Woodbury's identity (Makin, eq. A.18).
        squares = (rest * Y / noise).sum(axis=1)
        sums["log_likelihood"] -= 0.5 * float(w @ (squares + determinant + observed.sum() * LOG_TAU))


@dataclass(frozen=True)
class FactorEM:
    """The factor model for `driver.EM`, made by `prepare_factors`.  Parameters: loading (D, K), mean (D,), noise (D,)."""

    name: str
    factors: int
    floor: float
    scale: Array  # (D,) no noise variance of column d is below floor · scale_d²
    found: RowMoments
    seed: int
    init: str = "pca"  # initialisation of the first restart, pca or newton; the others are random
    given: Parameters | None = None

    @property
    def noise_floors(self) -> Array:
        """The noise floors of the columns (D,)."""
        return np.asarray(self.floor * self.scale**2)

    @cached_property
    def _varying_columns(self) -> Array:
        """The columns with more than one value, (D,) bool.  Constant columns teach nothing: their noise is at its floor, if any."""
        varies: Array = self.found.variance > 0
        return varies if varies.any() and self.floor > 0 else np.ones(len(varies), dtype=bool)

    def start(self, restart: int) -> Parameters:
        """Return principal axes (pca) or maximum-likelihood factors (newton) for the first restart, else random loadings.

        EM is slow where a noise variance tends to its floor: on the shipped digits 500 iterations are too few, Newton's method takes ten.
        """
        if self.given is not None:
            return {name: item.copy() for name, item in self.given.items()}
        variance, D = self.found.variance, len(self.found.mean)
        if restart == 0 and self.init == "newton" and self.name == "fa" and not self.found.missing and self.floor > 0:
            best, _ = fit_factors_above_noise(self.found.covariance, self.factors, self.noise_floors)
            return {"loading": fix_axis_signs(best.loadings), "mean": self.found.mean.copy(), "noise": best.noise}
        if restart == 0 and self.init != "random" and not self.found.missing:
            loading, noise = self._ppca_closed_form()
            if self.name == "fa":
                noise = np.maximum(variance - np.square(loading).sum(axis=1), 0.1 * variance)
        else:
            random = generator(self.seed, Stream.EM_START, unit=restart)
            loading = random.standard_normal((D, self.factors)) * np.sqrt(variance if variance.any() else np.ones(D))[:, None]
            loading /= np.sqrt(2 * self.factors)
            noise = (
                0.5 * variance if self.name == "fa" else np.where(self._varying_columns, 0.5 * variance[self._varying_columns].mean(), 0.0)
            )
        noise = np.zeros(D) if self.name == "pca" else np.maximum(noise, self.noise_floors)
        return {"loading": loading, "mean": self.found.mean.copy(), "noise": noise}

    def _ppca_closed_form(self) -> tuple[Array, Array]:
        """Return loadings (D, K) and noise (D,) of probabilistic PCA; those of constant columns are 0."""
        loading, noise = np.zeros((len(self.found.mean), self.factors)), np.zeros(len(self.found.mean))
        found = replace(
            self.found,
            mean=self.found.mean[self._varying_columns],
            covariance=self.found.covariance[np.ix_(self._varying_columns, self._varying_columns)],
        )
        begun = closed_form_pca.ppca_closed_form(found, min(self.factors, len(found.mean)), self.floor)
        loading[self._varying_columns, : begun["loading"].shape[1]], noise[self._varying_columns] = begun["loading"], begun["noise"]
        return loading, noise

    def expect(self, parameters: Parameters) -> Callable[[RowMoments | RowBlock], Sums]:
        """Return the E step, with statistics of y − mean: xx (D or 1, K+1, K+1) of z = (x, 1), yx (D, K+1), yy and known (D,)."""

        of_rows = FactorRowStatistics(self.name, parameters)
        if self.found.missing:
            return of_rows

        def statistics(block: RowMoments | RowBlock) -> Sums:
            return self._statistics_from_moments(parameters, block) if isinstance(block, RowMoments) else of_rows(block)

        return statistics

    @cached_property
    def _covariance_root(self) -> Array:
        """A root R (D, D) of the rows' covariance, RR'."""
        variance = self.found.variance
        # Eigenvalues have errors relative to the largest: columns of very different units would lose the small ones, correlations do not.
        near = variance[variance > 0].min(initial=np.inf) * UNEQUAL >= variance.max()
        units = np.ones(len(variance)) if near else np.sqrt(np.where(variance > 0, variance, 1.0))
        values, vectors = np.linalg.eigh(self.found.covariance / np.outer(units, units))
        return np.asarray(units[:, None] * vectors * np.sqrt(np.maximum(values, 0.0)))

    def _residual_mean_squares(self, beta: Array, d: Array, C: Array, c: Array) -> Array:
        """Return mean squares (D,) of y − Cβy − c over complete rows; d is their mean relative to the origin of β."""
        # Computed from the root of the covariance: y'y − 2Cβyy' + … would cancel where noise is 1e-6 of a column's variance.
        rest = np.eye(len(C)) - C @ beta
        return np.asarray(np.square(rest @ self._covariance_root).sum(axis=1) + np.square(rest @ d - c))

    def _statistics_from_moments(self, parameters: Parameters, moments: RowMoments) -> Sums:
        C, noise, n = parameters["loading"], parameters["noise"], moments.mass
        D, K = C.shape
        V, beta, determinant = recognition_parameters(self.name, C, noise)
        d = moments.mean - parameters["mean"]
        S = moments.covariance + np.outer(d, d)  # second moment about the model's mean
        xx, inner = np.empty((1, K + 1, K + 1)), beta @ S @ beta.T
        # ⟨x⟩ = β(y − c) is linear in y, so that Σ ⟨xx'⟩ = n (V + βSβ') and Σ y⟨x⟩' = n Sβ': the rows' moments are sufficient.
        xx[0, :K, :K], xx[0, :K, K], xx[0, K, :K], xx[0, K, K] = V + inner, beta @ d, beta @ d, 1.0
        yx = np.concatenate([S @ beta.T, d[:, None]], axis=1)
        left = self._residual_mean_squares(beta, d, C, np.zeros(D))
        if self.name == "pca":
            evidence = -float(left.sum())
        else:
            # y'(CC' + Ψ)⁻¹y = min_x (y − Cx)'Ψ⁻¹(y − Cx) + x'x, reached at x = βy: sums of squares, and β's rounding enters squared
            evidence = -0.5 * float(D * LOG_TAU + determinant + (left / noise).sum() + np.trace(inner))
        return {
            "xx": n * xx,
            "yx": n * yx,
            "yy": n * np.diag(S),
            "known": np.full(D, n),
            "mass": np.array([n]),
            "log_likelihood": np.array([n * evidence]),
            "recognition": beta,
            "spread": V,
        }

    def complete_statistics(self, parameters: Parameters, sums: Sums) -> Sums:
        """Return the statistics with the mean that was subtracted from the rows."""
        return sums | {"mean": parameters["mean"]}

    def _residual_square_sums(self, parameters: Parameters, sums: Sums) -> Array:
        """Return Σ E(y_d − C_d x − c_d)² for each column, (D,)."""
        C, c = parameters["loading"], parameters["mean"] - sums["mean"]
        if "recognition" in sums:
            squares = self._residual_mean_squares(sums["recognition"], self.found.mean - sums["mean"], C, c)
            return np.asarray(sums["known"] * (squares + np.einsum("dk,kl,dl->d", C, sums["spread"], C)))
        A, xx = np.concatenate([C, c[:, None]], axis=1), sums["xx"]
        # Σ (y_d² − 2 A_d z y_d + A_d zz'A_d') holds for any A, including one that is not the regression's.
        quadratic = np.einsum("di,dij,dj->d", A, np.broadcast_to(xx, (len(A), *xx.shape[1:])), A)
        found: Array = sums["yy"] - 2.0 * (A * sums["yx"]).sum(axis=1) + quadratic
        return found

    def expected_log_likelihood(self, parameters: Parameters, sums: Sums) -> float:
        """Return Σ E log p(x, y) without the terms of x alone, which do not depend on the parameters."""
        residuals, noise = self._residual_square_sums(parameters, sums), parameters["noise"]
        if self.name == "pca":
            return -float(residuals.sum())
        return -0.5 * float((sums["known"] * (LOG_TAU + np.log(noise)) + residuals / noise).sum())

    def maximise(self, parameters: Parameters, sums: Sums) -> tuple[Parameters, int]:
        """Return loadings and mean by regression on the factors, and noise from the residuals."""
        xx, yx = sums["xx"], sums["yx"]
        # Σ ⟨(y_d − A_d z)²⟩ is least at A_d = ⟨y_d z'⟩⟨zz'⟩⁻¹ with z = (x, 1); this does not depend on Ψ, because Ψ is diagonal.  With
        # missing values each column has a ⟨zz'⟩ of its own.
        A = (
            np.stack([solve_or_least_squares(one, y) for one, y in zip(xx, yx, strict=True)])
            if len(xx) == len(yx)
            else solve_or_least_squares(xx[0], yx.T).T
        )
        K = self.factors
        after = {"loading": A[:, :K].copy(), "mean": sums["mean"] + A[:, K], "noise": parameters["noise"]}
        if self.name == "pca":
            return after, 0
        residuals, known = self._residual_square_sums(after, sums), sums["known"]
        if self.name == "ppca":
            noise = np.full(len(known), residuals[self._varying_columns].sum() / known[self._varying_columns].sum())
            noise[~self._varying_columns] = self.floor
        else:
            noise = residuals / known
        low = np.count_nonzero(noise < self.noise_floors)
        return after | {"noise": np.maximum(noise, self.noise_floors)}, int(low > 0 if self.name == "ppca" else low)

    def penalty(self, parameters: Parameters) -> float:
        """Return 0: this is maximum likelihood."""
        return 0.0

    def memory(self) -> int:
        """Return the bytes of statistics of rows with missing values, and of column covariances with factors and inverses."""
        D = len(self.found.mean)
        return 8 * (D * (self.factors + 2) ** 2 + 6 * D * D)


def solve_or_least_squares(A: Array, b: Array) -> Array:
    """Return A⁻¹ b, or the least-squares solution if A is singular."""
    try:
        return np.asarray(np.linalg.solve(A, b))
    except np.linalg.LinAlgError:
        return symmetric_matrices.least_squares(A, b)[0]


def prepare_factors(
    name: str,
    source: BlockSource,
    count: int,
    *,
    floor: float | None = None,
    init: str = "pca",
    seed: int = 0,
    start: Parameters | None = None,
    map: Map = map,
) -> tuple[FactorEM, BlockSource]:
    """Return the model, and the source for its passes: one block of moments if no value is missing.

    floor  least noise variance; by default one per column for fa, see `variance_floors.floor_and_column_scales`, and their mean for ppca.
    Raises BadUsage for more factors than columns, or for as many if noise is learned.
    """
    if name not in MODELS:
        raise BadUsage(f"unknown model '{name}', expected {', '.join(MODELS)}")
    found = row_moments(source, map)
    D = len(found.mean)
    most = D if name == "pca" else D - 1
    if not 1 <= count <= most:
        raise BadUsage(f"{name} cannot learn {count} factors from {D} columns", hint=f"use --components from 1 to {most}")
    if init not in INITS:
        raise BadUsage(f"unknown init '{init}', expected {', '.join(INITS)}")
    least, scale = floor_and_column_scales(found.variance, found.mean, floor)
    model = FactorEM(name, count, least, scale if name == "fa" else np.ones(D), found, seed, init, start)
    return model, (source if found.missing else MomentsBlock(found))


def parameter_count(name: str, columns: int, factors: int) -> int:
    """Return the number of free parameters: D means, D K loadings less K(K − 1)/2 of a rotation, and D (fa) or 1 (ppca) variances."""
    return columns + columns * factors - factors * (factors - 1) // 2 + (columns if name == "fa" else 1)


def factor_posterior(parameters: Parameters, X: Array) -> tuple[Array, Array]:
    """Return factor scores (n, K) and log densities (n,) of rows (n, D) under fa or ppca; NaN is a missing value.

    With noise 0 (pca) the scores are least-squares solutions and the densities NaN.
    """
    loading, noise = parameters["loading"], parameters["noise"]
    scores, evidence = np.zeros((len(X), loading.shape[1])), np.zeros(len(X))
    name, known = "ppca" if noise.any() else "pca", ~np.isnan(X)
    if known.all():  # a single pattern needs no sorting
        patterns, which = np.ones((min(1, len(X)), X.shape[1]), dtype=bool), np.zeros(len(X), dtype=np.int64)
    else:
        patterns, which = np.unique(known, axis=0, return_inverse=True)
    for number, there in enumerate(patterns):
        rows = np.flatnonzero(which.ravel() == number)
        _, beta, determinant = recognition_parameters(name, loading[there], noise[there])
        Y = X[rows][:, there] - parameters["mean"][there]
        scores[rows] = Y @ beta.T
        if not noise.any():
            evidence[rows] = np.nan
            continue
        squares = ((Y - scores[rows] @ loading[there].T) * Y / noise[there]).sum(axis=1)
        evidence[rows] = -0.5 * (squares + determinant + there.sum() * LOG_TAU)
    return scores, evidence
