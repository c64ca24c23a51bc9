"""The order and the signs of filters, so that reruns and machines agree: descending power, largest entry positive.

The power of output i is the variance it contributes to the raw rows, Var(u_i) |b_i|² with b_i column i of the basis.  It depends neither
on the filter's scale nor on the units of u.  The sign makes the entry of J_i @ whitening.forward with the largest magnitude
positive.  The filters of a topographic map keep their positions on its grid.
"""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Map
from herdcli.ica.whitening import make_row_blocks
from herdcli.numerics.block_statistics import BlockSource, BlockStatistics, RowBlock, RowReader, Sums, sum_statistics
from herdcli.records import dataclass
from herdcli.schema import Array

SMALLEST = 1e-150  # least variance by which an output is divided


@dataclass(frozen=True)
class OutputMoments:
    """Variance (M,) and excess kurtosis (M,) of outputs over all rows, and E log cosh of the standardised outputs."""

    variance: Array
    kurtosis: Array
    log_cosh: Array


@dataclass(frozen=True)
class _PowerSums(BlockStatistics):
    """The sums Σ u² and Σ u⁴ of the outputs of a block."""

    J: Array

    def __call__(self, block: RowBlock) -> Sums:
        squares = np.square(block.X @ self.J.T)
        return {"second": squares.sum(axis=0), "fourth": np.square(squares).sum(axis=0)}


@dataclass(frozen=True)
class _LogCoshSums(BlockStatistics):
    """The sum Σ log cosh of the outputs of a block, each divided by its `scale` (M,)."""

    J: Array
    scale: Array

    def __call__(self, block: RowBlock) -> Sums:
        size = np.abs(block.X @ self.J.T) / self.scale
        return {"log_cosh": (size + np.log1p(np.exp(-2.0 * size)) - np.log(2.0)).sum(axis=0)}


def compute_output_moments(Z: Array | RowReader, J: Array, map: Map = map, remote_blocks: BlockSource | None = None) -> OutputMoments:
    """Return the moments of the outputs J z of centred rows Z (n, D), in memory or read block by block.

    remote_blocks  the blocks of the rows, if other processes hold them.
    """
    source, n = remote_blocks or make_row_blocks(Z), len(Z) if isinstance(Z, np.ndarray) else Z.count
    J = np.asarray(J, dtype=np.float64)
    sums = sum_statistics(source, _PowerSums(J), map)
    variance = sums["second"] / n
    scale = np.sqrt(np.maximum(variance, SMALLEST))
    contrast = sum_statistics(source, _LogCoshSums(J, scale), map)["log_cosh"]
    return OutputMoments(variance, sums["fourth"] / n / scale**4 - 3.0, contrast / n)


def raw_variance_by_output(variance: Array, basis: Array) -> Array:
    """Return the variance (M,) that each output contributes to the raw rows.      basis  (C, M)."""
    result: Array = variance * (basis**2).sum(axis=0)
    return result


def order_and_signs(unmixing: Array, power: Array, *, keep_order: bool = False) -> tuple[Array, Array]:
    """Return (order (M,), signs (M,)), to be used as filters[order] * signs[:, None].      unmixing  (M, C), filters on raw rows."""
    order = np.arange(len(power)) if keep_order else np.argsort(-power, kind="stable")
    rows = unmixing[order]
    largest = rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)]
    return order, np.where(largest < 0, -1.0, 1.0)


def kurtosis_standard_error(n: int) -> float:
    """Return the standard error √(24/n) of the excess kurtosis of n independent Gaussian rows."""
    return float(np.sqrt(24.0 / n))


def looks_gaussian(moments: OutputMoments, n: int, sigmas: float = 4.0) -> Array:
    """Return (M,) booleans: neither kurtosis nor E log cosh of an output differs from a Gaussian's by `sigmas` standard errors.

    For a Gaussian E log cosh is 0.374567, and the part of log cosh u that varies apart from u², whose mean is the variance,
    has standard deviation 0.07955.
    """
    # Division by the rows' own deviation moves the mean of log cosh by −½ E[u tanh u] (mean of u² − 1), and E[u tanh u] = E sech² u =
    # 0.605706.  The remainder is log cosh u − 0.374567 − 0.302853 (u² − 1), with standard deviation 0.0795489.
    contrast_error = 0.0795489 / np.sqrt(n)
    result: Array = (np.abs(moments.kurtosis) < sigmas * kurtosis_standard_error(n)) & (
        np.abs(moments.log_cosh - 0.3745672) < sigmas * contrast_error
    )
    return result
