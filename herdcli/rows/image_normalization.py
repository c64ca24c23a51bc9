"""Rows as images made comparable without hand work: block means, an oval mask, one common histogram.

Source: Teh (2003), sec. 3.4, steps d (subsample), e (mask) and f (equalise) of the normalisation of faces; locating the
eyes (a to c) is done by hand there and not here.
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import DataError
from herdcli.schema import Array


def subsampled(X: Array, shape: tuple[int, int], factor: int) -> Array:
    """Means of factor × factor blocks of images X (n, h·w) with `shape` (h, w): (n, h·w / factor²) float32.

    Raises DataError unless the factor divides both sides.
    """
    height, width = shape
    if height % factor or width % factor:
        raise DataError(f"images of {height}×{width} pixels cannot be cut into blocks of {factor}×{factor}")
    blocks = X.reshape(len(X), height // factor, factor, width // factor, factor)
    means: Array = blocks.mean(axis=(2, 4), dtype=np.float64).astype(np.float32)
    return means.reshape(len(X), -1)


def ellipse(shape: tuple[int, int], across: float = 1.0, down: float = 1.0) -> Array:
    """Pixels (h·w,) bool whose centres lie in a centred ellipse; its axes are shares `across` of the width, `down` of the height."""
    height, width = shape
    y = (np.arange(height) + 0.5) / height * 2 - 1
    x = (np.arange(width) + 0.5) / width * 2 - 1
    inside: Array = (y[:, None] / down) ** 2 + (x / across) ** 2 <= 1
    return inside.ravel()


def masked(X: Array, mask: Array, outside: float) -> Array:
    """Rows (n, D) with the pixels that are not in `mask` (D,) set to one value, so that they say nothing of a row."""
    return np.where(mask, X, np.asarray(outside, dtype=X.dtype))


def equalized(X: Array, mask: Array) -> Array:
    """Rows (n, D) whose pixels inside `mask` (D,) all get the histogram of those of all rows, in float32.

    The pixel of rank r in its row gets the mean of the r-th n values among the sorted values of all rows; pixels of equal value
    share the mean of what their ranks would get, so that no order is invented.  Pixels outside stay.
    """
    result = X.astype(np.float32)
    inside = result[:, mask]
    common = np.sort(inside, axis=None).reshape(inside.shape[1], len(X)).mean(axis=1, dtype=np.float64)
    for row in inside:
        order = np.argsort(row, kind="stable")
        ranked = row[order]
        first = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
        counts = np.diff(np.append(first, len(row)))
        row[order] = np.repeat(np.add.reduceat(common, first) / counts, counts)
    result[:, mask] = inside
    return result
