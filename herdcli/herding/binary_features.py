"""Rows of two-state units packed into words, and the features of fully visible models.

A row's units stand 64 to a word, first unit in the lowest bit; bit 1 is the unit's high value.
"""

from __future__ import annotations

import math

import numpy as np

from herdcli.errors import DataError
from herdcli.numerics.row_selection import SelectedRows, iterate_row_slices
from herdcli.records import dataclass
from herdcli.schema import Array

REPRESENTATIONS = {"spin": (-1, 1), "binary": (0, 1)}  # low and high value of a unit
EXACT = 1 << 53  # integers below this, and their sums, are exact in float64; the dynamics stop when weights reach it
PACKED = 8  # units whose columns are packed together
LANES = 32  # the compiled loops process hidden units in blocks of this many


def pack_bits(truth: Array) -> Array:
    """Pack truth values (n, u) into words (n, ceil(u/64)) uint64."""
    rows, units = truth.shape
    octets = np.packbits(truth, axis=1, bitorder="little")
    padded = np.zeros((rows, -(-units // 64) * 8), dtype=np.uint8)
    padded[:, : octets.shape[1]] = octets
    return padded.view("<u8").astype(np.uint64, copy=False)


def unpack_bits(words: Array, units: int) -> Array:
    """Unpack words (n, w) into truth values (n, units)."""
    octets = np.ascontiguousarray(words).astype("<u8", copy=False).view(np.uint8)
    return np.unpackbits(octets, axis=1, count=units, bitorder="little").astype(bool)


def to_unit_values(truth: Array, representation: str) -> Array:
    """Return truth values as int8 unit values of the representation."""
    low, high = REPRESENTATIONS[representation]
    result: Array = np.where(truth, np.int8(high), np.int8(low))
    return result


@dataclass(frozen=True)
class PackedRows:
    """The rows of a data set of n rows and D two-state units, packed by rows and by columns: 2 bits for each unit of each row."""

    rows: Array  # (n, ceil(D/64)) uint64
    columns: Array  # (D, ceil(n/64)) uint64
    total: Array  # (D,) int64, Σ_n x_n in unit values

    @property
    def count(self) -> int:
        """The number of rows, n."""
        return len(self.rows)

    def row(self, index: int, representation: str) -> Array:
        """Return the int8 unit values (D,) of one row."""
        return to_unit_values(unpack_bits(self.rows[index : index + 1], len(self.columns))[0], representation)


def pack_rows(truth: Array, representation: str) -> PackedRows:
    """Pack truth values (n, D) into `PackedRows`."""
    low, high = REPRESENTATIONS[representation]
    ones, units = truth.sum(axis=0, dtype=np.int64), range(0, truth.shape[1], PACKED)
    columns = np.concatenate([pack_bits(np.ascontiguousarray(truth[:, first : first + PACKED].T)) for first in units])
    return PackedRows(pack_bits(truth), columns, low * len(truth) + (high - low) * ones)


def varying_unit_mask(truth: Array, rows: Array) -> Array:
    """Return for each unit whether it has both values in the rows with these indices, (D,) bool.  truth  (n, D) truth values."""
    some, every = np.zeros(truth.shape[1], dtype=bool), np.ones(truth.shape[1], dtype=bool)
    for part in iterate_row_slices(SelectedRows(truth, rows)):
        block = truth[rows[part]]
        some |= block.any(axis=0)
        every &= block.all(axis=0)
    return some & ~every


def find_varying_units(truth: Array, rows: Array, *, where: str | None = None) -> Array:
    """Return the indices of the units that do not have the same value in all rows with these indices.

    A constant unit has a flat direction in weight space, along which herding would stand still.
    Raises DataError with fewer than two distinct rows.  Source: Welling (2009), sec. 7.
    """
    kept = np.flatnonzero(varying_unit_mask(truth, rows))
    if not len(kept):
        raise DataError("herding needs at least two distinct rows, but there are fewer", where=where)
    return kept


def pair_indices(units: int) -> tuple[Array, Array]:
    """Return the index pairs (i, j) of the features x_i x_j, i < j, in the order (0,1), (0,2), …, (1,2), …."""
    return np.triu_indices(units, 1)


def feature_count(units: int, features: str) -> int:
    """Return the number of features F of D units: D for `x`, D + D(D−1)/2 for `x,xx`."""
    return units if features == "x" else units * (units + 1) // 2


def units_from_feature_count(length: int, features: str) -> int:
    """Return the number of units D of a vector of F moments.  Raises DataError if no D has F features `x,xx`."""
    if features == "x":
        return length
    units = math.isqrt(2 * length)  # D² ≤ D² + D < (D + 1)²
    if units * (units + 1) // 2 != length:
        raise DataError(f"the number of moments is {length}, which is not D + D(D-1)/2 for any number of units D")
    return units


def feature_sums(x: Array, features: str) -> Array:
    """Return the sums (F,) int64 over the rows of the features of unit values (n, D)."""
    first = x.sum(axis=0, dtype=np.int64)
    if features == "x":
        return np.asarray(first)
    second = np.zeros((x.shape[1], x.shape[1]))
    for part in iterate_row_slices(x):
        exact = x[part].astype(np.float64)
        second += exact.T @ exact
    second = second.astype(np.int64)
    return np.concatenate([first, second[pair_indices(x.shape[1])]])


def split_pairwise_weights(weights: Array, units: int) -> tuple[Array, Array]:
    """Convert weights (F,) over `x,xx` to (b, J).

    b is (D,) and J (D, D), symmetric with zero diagonal, so that w·Φ(x) = b·x + ½ x'Jx.
    """
    matrix = np.zeros((units, units), dtype=weights.dtype)
    matrix[pair_indices(units)] = weights[units:]
    return weights[:units], matrix + matrix.T
