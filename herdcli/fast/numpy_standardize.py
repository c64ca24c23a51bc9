"""Standardization of a stream's features by their running means, in NumPy: the twin of `_standardize.pyx`, the same numbers bit for bit.

A row of `scales` (D, 5) describes a feature by five numbers:

1. the number of values ≠ 0,
2. the sum of their sizes |x|,
3. while the feature is centred, the mean of its values in all rows, 0 in rows that lack it; else the sum of its values,
4. while it is centred, the sum of |x − mean|; else 0,
5. while it is centred, the number of rows since then; else 0.

Feature 0 is the bias, which every row has: its count is the number of rows.

A feature becomes centred when it is ≠ 0 in more than ¾ of the rows, and stays so until it is in less than ⅝ of them.  Its mean may be
large compared with its deviation; the mean of a feature that a fraction p of the rows has is at most √(p/(1 − p)) deviations, 1.7 for ¾.
A row gets entries for the centred features that it lacks.  Over all rows there are at most 8/5 as many entries as before.
"""

from __future__ import annotations

import itertools

import numpy as np

from herdcli.schema import Array

SEEN, SIZE, LOCATION, DEVIATION, CENTRED, FIELDS = range(6)


def check(scales: Array, pointer: Array, index: Array, value: Array, frozen: Array | None) -> None:
    """Raise ValueError unless CSR rows fit each other and a table of scales (D, 5)."""
    fits = len(pointer) > 0 and pointer[0] >= 0 and pointer[-1] <= len(index) == len(value) and bool((pointer[1:] >= pointer[:-1]).all())
    if not fits or (frozen is not None and len(frozen) != len(pointer) - 1):
        raise ValueError("the arrays of the examples do not fit each other")
    if scales.shape[0] < 1 or scales.shape[1] != FIELDS:
        raise ValueError("the scales of features have five columns")
    if len(index) and not 0 <= int(index.min()) <= int(index.max()) < len(scales):
        raise ValueError("an index of an example is outside its table")


def standardize(scales: Array, pointer: Array, index: Array, value: Array, frozen: Array | None = None) -> tuple[Array, Array, Array]:
    """Return the rows in the scale in which they are learned next.

    Centred features become (x − mean) divided by the mean deviation, others x divided by the mean size of values ≠ 0.
    scales (D, 5), changed: updated by each row before it is standardized.   CSR rows that begin with the bias, each feature at most once.
    frozen (n,) uint8: rows that do not update `scales`; in them a feature that never occurred before becomes its sign.
    Returns pointer (n + 1,), index and value; entries that a row lacked are at its end, in ascending order.
    """
    check(scales, pointer, index, value, frozen)
    centred = np.flatnonzero(scales[:, CENTRED] > 0)
    bounds, indices, values = pointer.tolist(), [], []
    lengths = np.zeros(len(pointer), dtype=np.int64)
    with np.errstate(all="ignore"):
        for row, (begin, end) in enumerate(itertools.pairwise(bounds)):
            at, x, still = index[begin:end], value[begin:end], frozen is not None and bool(frozen[row])
            t = float(scales[0, SEEN]) + (0.0 if still else 1.0)
            missing = centred[~np.isin(centred, at)]
            if not still:
                centred, missing = _update_scales(scales, at, x, t, centred, missing)
            made = _standardize_present(scales, at, x)
            absent = _standardize_centred(scales, missing, np.zeros(len(missing)))
            indices += [at, missing.astype(np.int32)]
            values += [made, absent]
            lengths[row + 1] = len(at) + len(missing)
    if not indices:
        return lengths, np.zeros(0, dtype=np.int32), np.zeros(0)
    return np.cumsum(lengths), np.concatenate(indices).astype(np.int32), np.concatenate(values)


def _update_scales(scales: Array, at: Array, x: Array, t: float, centred: Array, missing: Array) -> tuple[Array, Array]:
    """Update the scales by the t-th row; return the features that are centred from now on, and which of these the row lacks."""
    scales[at, SEEN] += x != 0.0
    scales[at, SIZE] += np.abs(x)
    was = scales[at, CENTRED] > 0
    new, own = at[~was], x[~was]
    scales[new, LOCATION] += own
    joins = (new > 0) & (4.0 * scales[new, SEEN] > 3.0 * t)
    new, own = new[joins], own[joins]
    scales[new, LOCATION] /= t
    scales[new, CENTRED] = 1.0
    scales[new, DEVIATION] = np.abs(_rounded_difference(scales[new, LOCATION], own))
    leaves = 8.0 * scales[missing, SEEN] < 5.0 * t
    left, missing = missing[leaves], missing[~leaves]
    scales[left, LOCATION] *= t - 1.0
    scales[left, DEVIATION] = scales[left, CENTRED] = 0.0
    for features, values in ((at[was], x[was]), (missing, np.zeros(len(missing)))):
        scales[features, LOCATION] += (values - scales[features, LOCATION]) / t
        scales[features, CENTRED] += 1.0
        scales[features, DEVIATION] += np.abs(_rounded_difference(scales[features, LOCATION], values))
    kept = centred[~np.isin(centred, left)]
    return np.sort(np.concatenate([kept, new])), missing


def _rounded_difference(mean: Array, x: Array) -> Array:
    """Return x − mean, or 0 where the two differ only by rounding."""
    d = x - mean
    return np.where(np.abs(d) > 1e-12 * np.abs(mean), d, 0.0)


def _standardize_centred(scales: Array, features: Array, x: Array) -> Array:
    """Return (x − mean)/deviation of centred features."""
    own = scales[features]
    d = _rounded_difference(own[:, LOCATION], x)
    rows = np.maximum(own[:, CENTRED] - 1.0, 1.0)  # the first row has no deviation, since its value is the mean
    return np.where(own[:, DEVIATION] > 0.0, d * rows / own[:, DEVIATION], 0.0)


def _standardize_present(scales: Array, at: Array, x: Array) -> Array:
    """Return the standardized values of the features that a row has."""
    own = scales[at]
    by_size = np.where(own[:, SIZE] > 0.0, x * own[:, SEEN] / own[:, SIZE], np.sign(x))
    return np.where(own[:, CENTRED] > 0, _standardize_centred(scales, at, x), by_size)
