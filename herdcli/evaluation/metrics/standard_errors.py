"""Standard errors of means over rows: independent rows, sequences, and autocorrelated rows in time."""

from __future__ import annotations

import math

import numpy as np

from herdcli.schema import Array

LEAST_SEQUENCES = 10  # least number of sequences whose means are taken as independent; fewer are cut into pieces
PIECES = 20  # number of pieces of all rows in time, each at least √n long


def independent_standard_error(count: float, total: float, squares: float) -> float | None:
    """Return the standard error of the mean of `count` values with this sum and sum of squares; None for fewer than two."""
    if count < 2:
        return None
    return math.sqrt(max(squares - total * total / count, 0.0) / (count - 1.0) / count)


def autocorrelated_standard_error(values: Array, offsets: Array) -> float | None:
    """Return the standard error of the mean of values (n,), one per row, for dependent rows of sequences with offsets (S + 1,).

    The sums of whole sequences are independent; a few sequences are cut into pieces (batch means).  Returns None for fewer
    than two pieces.
    """
    n, lengths = len(values), np.diff(offsets)
    if len(lengths) < LEAST_SEQUENCES:
        size = max(1, math.isqrt(n), -(-n // PIECES))
        cuts = [np.linspace(0, length, max(1, round(length / size)) + 1).astype(np.int64)[:-1] for length in lengths]
        begin = np.concatenate([start + cut for start, cut in zip(offsets[:-1], cuts, strict=True)])
    else:
        begin = np.asarray(offsets[:-1])
    if len(begin) < 2:
        return None
    sums, sizes = np.add.reduceat(values, begin), np.diff(np.append(begin, n))
    # The mean is a ratio of sums over pieces; its variance is that of the pieces' sums minus the mean times their lengths.
    rest = sums - sizes * (values.sum() / n)
    pieces = len(begin)
    return math.sqrt(pieces / (pieces - 1.0) * float(np.square(rest).sum())) / n
