"""Rows of features extended by products of their features: the twin of a loop in `_online.pyx`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from herdcli.schema import Array

PRIME = 16777619  # the prime of Fowler, Noll & Vo's hash: the column of a product is (PRIME · h_i) xor h_j

Rows = tuple[Array, Array, Array]  # pointer (n + 1,) int64, index (nnz,) int32 from 1, value (nnz,) float64
Side = tuple[Rows, Rows, bool]  # the two factors, row by row; True: they are the same, and each pair occurs once


def check_sides(rows: Rows, sides: Sequence[Side], first: int, last: int) -> None:
    """Raise ValueError unless rows first to last − 1 and their entries exist, in the rows and on all sides."""
    for pointer, index, value in [rows, *(side for left, right, _ in sides for side in (left, right))]:
        at = np.asarray(pointer)
        fits = 0 <= first <= last < len(at) and at[0] >= 0 and at[-1] <= len(index) == len(value) and (at[1:] >= at[:-1]).all()
        if not fits or (len(index) and int(np.asarray(index).min()) < 1):
            raise ValueError("the arrays of the examples do not fit each other")


def with_products(rows: Rows, sides: Sequence[Side], mask: int, first: int, last: int) -> Rows:
    """Return rows first to last − 1 with the products of `sides`, columns in ascending order; entries of a column are added in order.

    mask  2^bits − 1: a product of h_i and h_j, indices minus 1, has index ((PRIME · h_i xor h_j) and mask) + 1.
    """
    check_sides(rows, sides, first, last)
    pointer, index, value = rows
    low, high = pointer[[first, last]].tolist()
    found = [(np.repeat(np.arange(last - first), np.diff(pointer[first : last + 1])), index[low:high], value[low:high])]
    found += [_pair_products(left, right, own, mask, first, last) for left, right, own in sides]
    row, index, value = (np.concatenate(part) for part in zip(*found, strict=True))
    key = row * np.int64(mask + 2) + index
    key, order = ordered(key, (last - first) * (mask + 2))
    new = np.diff(key, prepend=-1) != 0
    total = np.bincount(np.cumsum(new) - 1, weights=value[order])  # adds one entry after the other
    row, index = np.divmod(key[new], mask + 2)
    ends = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=last - first))]).astype(np.int64)
    return ends, index.astype(np.int32), total.astype(np.float64)


def ordered(key: Array, above: int) -> tuple[Array, Array]:
    """Return the keys (n,), which are below `above`, in ascending order, and their former positions; equal keys keep their order."""
    bits = len(key).bit_length()
    if above << bits >= 1 << 63:
        order = np.argsort(key, kind="stable")
        return key[order], order
    both = np.sort(key << bits | np.arange(len(key)))  # all are different, so a plain sort suffices, without carrying positions along
    return both >> bits, both & ((1 << bits) - 1)


def _pair_products(left: Rows, right: Rows, own: bool, mask: int, first: int, last: int) -> Rows:
    """Return the rows, columns and values of the products of two sides."""
    row, i, j = places(left, right, own, first, last)
    one, two = left[1][i].astype(np.int64) - 1, right[1][j].astype(np.int64) - 1
    return row, ((PRIME * one ^ two) & mask) + 1, left[2][i] * right[2][j]


def places(left: Rows, right: Rows, own: bool, first: int, last: int) -> tuple[Array, Array, Array]:
    """Return the row of each product, counted from `first`, and the positions of its two factors."""
    low, high = left[0][[first, last]].tolist()
    of = np.repeat(np.arange(first, last), np.diff(left[0][first : last + 1]))
    i = np.arange(low, high)
    begin = i if own else right[0][of]
    times = right[0][of + 1] - begin
    j = np.arange(times.sum()) + np.repeat(begin - (np.cumsum(times) - times), times)
    return np.repeat(of - first, times), np.repeat(i, times), j
