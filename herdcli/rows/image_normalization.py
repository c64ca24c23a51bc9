"""Normalisation of images without manual work: block means, an oval mask, one common histogram.

Source: Teh (2003), sec. 3.4, steps d (subsample), e (mask) and f (equalise) of the normalisation of faces; locating the
eyes (a to c) is done by hand there and is not done here.
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import DataError
from herdcli.schema import Array


def downsample_images(X: Array, shape: tuple[int, int], factor: int) -> Array:
    """Return the means (n, h·w / factor²) float32 of factor × factor blocks of images X (n, h·w) with `shape` (h, w).

    Raises DataError unless the factor divides both sides.
    """
    height, width = shape
    if height % factor or width % factor:
        raise DataError(f"images of {height}×{width} pixels cannot be cut into blocks of {factor}×{factor}")
    blocks = X.reshape(len(X), height // factor, factor, width // factor, factor)
    means: Array = blocks.mean(axis=(2, 4), dtype=np.float64).astype(np.float32)
    return means.reshape(len(X), -1)


def ellipse_mask(shape: tuple[int, int], across: float = 1.0, down: float = 1.0) -> Array:
    """Return the pixels (h·w,) bool whose centres lie in a centred ellipse with axes `across` · width and `down` · height."""
    height, width = shape
    y = (np.arange(height) + 0.5) / height * 2 - 1
    x = (np.arange(width) + 0.5) / width * 2 - 1
    inside: Array = (y[:, None] / down) ** 2 + (x / across) ** 2 <= 1
    return inside.ravel()


def mask_pixels(X: Array, mask: Array, outside: float) -> Array:
    """Return rows (n, D) with the pixels outside `mask` (D,) set to one value, so that they carry no information."""
    return np.where(mask, X, np.asarray(outside, dtype=X.dtype))


def equalize_histograms(X: Array, mask: Array) -> Array:
    """Return rows (n, D) in float32 in which the pixels inside `mask` (D,) have the common histogram of all rows.

    The pixel of rank r in its row gets the mean of the r-th n values among the sorted values of all rows.  Pixels of equal value
    share the mean of the values for their ranks, so that no order is invented.  Pixels outside the mask do not change.
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
