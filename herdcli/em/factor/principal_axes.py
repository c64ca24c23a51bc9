"""Principal axes of wide rows without their D × D covariance: by the n × n matrix of inner products, or by a randomised range.

With centred rows Z (n, D) and weights w, S = Z'WZ/Σw.  Few rows: W^½ZZ'W^½ = V M V' has the eigenvalues Σw·λ of S, and the axes are
Z'W^½ V M^−½.  Many rows: subspace iteration Q ← orth(S Q) on L > K random directions, S ≈ Q (Q'SQ) Q'; each pass takes D × L numbers, and
the passes end when the variance that the K leading directions have stands still.
Source: Halko, Martinsson & Tropp (2011), alg. 4.4 with a test in the place of a number of passes.
"""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import RunProgress
from herdcli.em.driver import EMFit, Ledger
from herdcli.em.factor.closed_form_pca import OVERSAMPLED, fix_signs, sorted_eigen
from herdcli.em.mixture.component_search import SearchResult
from herdcli.numerics.block_statistics import (
    BLOCK,
    PASS_BLOCKS,
    BlockSource,
    Map,
    MarginalMoments,
    RowBlock,
    Statistics,
    Sums,
    total_statistics,
)
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array

WIDE = 2000  # columns from which a range of few directions costs less than all of them
SHARE = 8  # the directions are at most this part of rows and columns
PASSES = 60
SETTLED = 1e-10  # of all variance, that a pass adds to the leading directions at the end
NOTHING = 1e-12  # of the largest eigenvalue, below which there is no axis


@dataclass
class AxesState:
    """Directions so far, and S between them."""

    step: int
    span: Array = array("D L", "orthonormal directions", kind="f")
    axes: Array = array("D K", "principal axes in them", kind="f")
    values: Array = array("K", "variances along these", kind="f")
    gained: float = np.inf  # share of all variance that the last pass added


@dataclass(frozen=True)
class CovarianceProduct(Statistics):
    """From a block to its part of Σw S Q.  mean (D,);  span (D, L), Q."""

    mean: Array
    span: Array

    def __call__(self, block: RowBlock) -> Sums:
        """The sums of a block."""
        Z = block.X - self.mean
        scores = Z @ self.span
        return {"image": Z.T @ (scores if block.weight is None else block.weight[:, None] * scores)}


@dataclass(frozen=True)
class PrincipalAxes:
    """K principal axes of complete rows as an algorithm, a pass a step.  exact: by inner products of the rows, one block of them."""

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
        """L, directions that are carried along."""
        return min(len(self.found.mean), self.components + OVERSAMPLED)

    def init(self) -> AxesState:
        """Random directions; none are needed of few rows."""
        D, K = len(self.found.mean), self.components
        nothing = np.zeros((D, K)), np.zeros(K)
        if self.exact:
            return AxesState(0, np.zeros((D, 0)), *nothing)
        random = generator(self.seed, Stream.EM_START).standard_normal((D, self.width))
        return AxesState(0, np.linalg.qr(random)[0], *nothing)

    def step(self, state: AxesState) -> AxesState:
        """One pass."""
        state.step += 1
        if self.exact:
            state.axes, state.values = self._of_inner_products()
            state.gained = 0.0
            return state
        turned = total_statistics(self.source, CovarianceProduct(self.found.mean, state.span), self.map)["image"] / self.found.mass
        small = state.span.T @ turned
        values, vectors = sorted_eigen(0.5 * (small + small.T))
        K, before = self.components, state.values.sum()
        state.axes, state.values = fix_signs(state.span @ vectors[:, :K]), values[:K]
        state.gained = float(state.values.sum() - before) / max(float(self.found.variance.sum()), 1e-300)
        state.span = np.linalg.qr(turned)[0]
        return state

    def _of_inner_products(self) -> tuple[Array, Array]:
        (block,) = self.source.take(0, 1)
        Z = block.X - self.found.mean
        if block.weight is not None:
            Z *= np.sqrt(block.weight)[:, None]
        K, (values, vectors) = self.components, sorted_eigen(Z @ Z.T)
        kept = np.flatnonzero(values[:K] > NOTHING * max(float(values[0]), 1e-300))
        axes, found = np.zeros((Z.shape[1], K)), np.zeros(K)
        # ZZ'a = λa gives Z'Z(Z'a) = λ(Z'a), and |Z'a|² = a'ZZ'a = λ.
        axes[:, kept] = fix_signs((Z.T @ vectors[:, kept]) / np.sqrt(values[kept]))
        found[kept] = values[kept] / self.found.mass
        return axes, found

    def done(self, state: AxesState) -> bool:
        """Whether a pass added nothing, or they are used up."""
        return (state.step > 1 - self.exact and state.gained <= SETTLED) or state.step >= PASSES

    def memory(self) -> int:
        """Bytes of the directions in the tree and at work, or of the inner products."""
        D = len(self.found.mean)
        if self.exact:
            return 8 * self.found.rows * (3 * self.found.rows + 2 * D)
        return 8 * D * self.width * (PASS_BLOCKS + self.source.count.bit_length() + 2) + 8 * BLOCK * D

    def progress(self, state: AxesState) -> RunProgress:
        """Passes."""
        return RunProgress(state.step, 1 if self.exact else PASSES)

    def result(self, state: AxesState) -> SearchResult:
        """Loadings as closed_form.ppca scales them; the error of a row is the variance that the axes leave out."""
        D, K = len(self.found.mean), self.components
        left = max(float(self.found.variance.sum() - state.values.sum()), 0.0)
        rest = max(left / (D - K), self.floor) if K < D else self.floor
        parameters = {
            "loading": state.axes * np.sqrt(np.maximum(state.values - rest, 0.0)),
            "mean": self.found.mean.copy(),
            "noise": np.zeros(D),
        }
        entry = np.array([left])
        ledger = Ledger(-entry, entry, np.zeros(1), np.zeros(1, dtype=np.int64))
        ended = np.array([state.gained <= SETTLED])
        return SearchResult(EMFit(parameters, ledger, -entry, np.zeros(1, dtype=np.int64), ended, 0, self.found.mass), K, (0.0,))


def choose_solver(solver: str, rows: int, columns: int, components: int, *, complete: bool) -> str:
    """`rows` (inner products of few), `randomised` or `columns` (their covariance) for what is asked: auto, lapack or randomised."""
    few = rows <= BLOCK and rows < columns
    if solver == "randomised" or not complete:
        return solver if complete else "columns"
    if few:
        return "rows"
    small = (components + OVERSAMPLED) * SHARE <= min(rows, columns)
    return "randomised" if solver == "auto" and columns >= WIDE and small else "columns"
