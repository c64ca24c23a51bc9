"""Standard errors of means over rows: of rows that are independent, of sequences, and of neighbouring rows in time."""

from __future__ import annotations

import math

import numpy as np

from herdcli.schema import Array

LEAST_SEQUENCES = 10  # whose means are taken as independent; of fewer, pieces of each
PIECES = 20  # of all rows in time, at least √n long


def independent_standard_error(count: float, total: float, squares: float) -> float | None:
    """Of `count` values with this sum and sum of squares; None of fewer than two."""
    if count < 2:
        return None
    return math.sqrt(max(squares - total * total / count, 0.0) / (count - 1.0) / count)


def autocorrelated_standard_error(values: Array, offsets: Array) -> float | None:
    """Of the mean of values (n,), one a row, of sequences that begin at offsets (S + 1,): neighbouring rows are not independent.

    The sums of whole sequences vary independently; where there are few of them they are cut into pieces (batch means).  None of fewer
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
    # The mean is a ratio of sums over pieces; its variance is that of what pieces have beside the mean times their length.
    rest = sums - sizes * (values.sum() / n)
    pieces = len(begin)
    return math.sqrt(pieces / (pieces - 1.0) * float(np.square(rest).sum())) / n
