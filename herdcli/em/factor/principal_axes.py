"""Principal axes of wide rows without their D × D covariance: from the n × n inner products, or by a randomised range finder.

With centred rows Z (n, D) and weights w, S = Z'WZ/Σw.  For few rows, W^½ZZ'W^½ = V M V' has the eigenvalues Σw·λ of S, and the axes are
Z'W^½ V M^−½.  For many rows, subspace iteration Q ← orth(S Q) on L > K random directions gives S ≈ Q (Q'SQ) Q'.  Each pass needs D × L
numbers, and passes end when the variance along the K leading directions no longer grows.
Source: Halko, Martinsson & Tropp (2011), alg. 4.4, with a convergence test in place of a number of passes.
"""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Map, RunProgress
from herdcli.em.driver import EMFit, ObjectiveHistory
from herdcli.em.factor.closed_form_pca import OVERSAMPLED, fix_axis_signs, sorted_eigendecomposition
from herdcli.em.mixture.component_search import SearchResult
from herdcli.numerics.block_statistics import (
    BLOCK,
    PASS_BLOCKS,
    BlockSource,
    BlockStatistics,
    MarginalMoments,
    RowBlock,
    Sums,
    sum_statistics,
)
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array

WIDE = 2000  # with at least this many columns a randomised range costs less than the covariance
SHARE = 8  # the number of directions is at most the numbers of rows and columns divided by this
PASSES = 60
SETTLED = 1e-10  # passes end when they add less than this share of the total variance to the leading directions
NOTHING = 1e-12  # there is no axis if its eigenvalue is at most this share of the largest one


@dataclass
class AxesState:
    """The current directions, and S in their basis."""

    step: int
    span: Array = array("D L", "orthonormal directions", kind="f")
    axes: Array = array("D K", "principal axes in them", kind="f")
    values: Array = array("K", "variances along these", kind="f")
    gained: float = np.inf  # share of the total variance that the last pass added


@dataclass(frozen=True)
class CovarianceProduct(BlockStatistics):
    """A function from a block to its part of Σw S Q.  mean (D,);  span (D, L), Q."""

    mean: Array
    span: Array

    def __call__(self, block: RowBlock) -> Sums:
        """Return the sums of a block."""
        Z = block.X - self.mean
        scores = Z @ self.span
        return {"image": Z.T @ (scores if block.weight is None else block.weight[:, None] * scores)}


@dataclass(frozen=True)
class PrincipalAxes:
    """The K principal axes of complete rows, as an algorithm with one pass per step.

    exact  use the inner products of the rows, which are one block.
    """

    source: BlockSource
    found: MarginalMoments
    components: int
    exact: bool
    floor: float
    seed: int = 0
    map: Map = map
    state = AxesState  # the type of its states

    @property
    def width(self) -> int:
        """The number L of directions in the iteration."""
        return min(len(self.found.mean), self.components + OVERSAMPLED)

    def init(self) -> AxesState:
        """Return random directions; few rows need none."""
        D, K = len(self.found.mean), self.components
        nothing = np.zeros((D, K)), np.zeros(K)
        if self.exact:
            return AxesState(0, np.zeros((D, 0)), *nothing)
        random = generator(self.seed, Stream.EM_START).standard_normal((D, self.width))
        return AxesState(0, np.linalg.qr(random)[0], *nothing)

    def step(self, state: AxesState) -> AxesState:
        """Take one pass over the rows."""
        state.step += 1
        if self.exact:
            state.axes, state.values = self._axes_from_inner_products()
            state.gained = 0.0
            return state
        turned = sum_statistics(self.source, CovarianceProduct(self.found.mean, state.span), self.map)["image"] / self.found.mass
        small = state.span.T @ turned
        values, vectors = sorted_eigendecomposition(0.5 * (small + small.T))
        K, before = self.components, state.values.sum()
        state.axes, state.values = fix_axis_signs(state.span @ vectors[:, :K]), values[:K]
        state.gained = float(state.values.sum() - before) / max(float(self.found.variance.sum()), 1e-300)
        state.span = np.linalg.qr(turned)[0]
        return state

    def _axes_from_inner_products(self) -> tuple[Array, Array]:
        (block,) = self.source.take(0, 1)
        Z = block.X - self.found.mean
        if block.weight is not None:
            Z *= np.sqrt(block.weight)[:, None]
        K, (values, vectors) = self.components, sorted_eigendecomposition(Z @ Z.T)
        kept = np.flatnonzero(values[:K] > NOTHING * max(float(values[0]), 1e-300))
        axes, found = np.zeros((Z.shape[1], K)), np.zeros(K)
        # ZZ'a = λa gives Z'Z(Z'a) = λ(Z'a), and |Z'a|² = a'ZZ'a = λ.
        axes[:, kept] = fix_axis_signs((Z.T @ vectors[:, kept]) / np.sqrt(values[kept]))
        found[kept] = values[kept] / self.found.mass
        return axes, found

    def done(self, state: AxesState) -> bool:
        """Return whether the last pass added nothing, or all passes are used."""
        return (state.step > 1 - self.exact and state.gained <= SETTLED) or state.step >= PASSES

    def memory(self) -> int:
        """Return the bytes of the directions, in the tree and in use, or of the inner products."""
        D = len(self.found.mean)
        if self.exact:
            return 8 * self.found.rows * (3 * self.found.rows + 2 * D)
        return 8 * D * self.width * (PASS_BLOCKS + self.source.count.bit_length() + 2) + 8 * BLOCK * D

    def progress(self, state: AxesState) -> RunProgress:
        """Return the number of passes."""
        return RunProgress(state.step, 1 if self.exact else PASSES)

    def result(self, state: AxesState) -> SearchResult:
        """Return loadings, scaled as in `ppca_closed_form`; the error of a row is the variance that the axes leave out."""
        D, K = len(self.found.mean), self.components
        left = max(float(self.found.variance.sum() - state.values.sum()), 0.0)
        rest = max(left / (D - K), self.floor) if K < D else self.floor
        parameters = {
            "loading": state.axes * np.sqrt(np.maximum(state.values - rest, 0.0)),
            "mean": self.found.mean.copy(),
            "noise": np.zeros(D),
        }
        entry = np.array([left])
        ledger = ObjectiveHistory(-entry, entry, np.zeros(1), np.zeros(1, dtype=np.int64))
        ended = np.array([state.gained <= SETTLED])
        return SearchResult(EMFit(parameters, ledger, -entry, np.zeros(1, dtype=np.int64), ended, 0, self.found.mass), K, (0.0,))


def choose_solver(solver: str, rows: int, columns: int, components: int, *, complete: bool) -> str:
    """Return `rows` (inner products of few rows), `randomised` or `columns` (covariance) for the option auto, lapack or randomised."""
    few = rows <= BLOCK and rows < columns
    if solver == "randomised" or not complete:
        return solver if complete else "columns"
    if few:
        return "rows"
    small = (components + OVERSAMPLED) * SHARE <= min(rows, columns)
    return "randomised" if solver == "auto" and columns >= WIDE and small else "columns"
