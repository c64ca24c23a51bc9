"""Detection of examples sorted by their label or target, which spoils online learning."""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array

FEWER = 10  # an order is sorted if it has fewer changes from row to row than a mixed order by this factor


def is_sorted_by_label(y: Array) -> bool:
    """Return whether labels (n,), sets of labels (n, C) or numbers (n,) change far less from row to row than in a mixed order."""
    if len(y) < 2:
        return False
    if y.dtype.kind == "f":
        # E|Y − Y'| of two random rows is 2 Σ (2i − n − 1) y_(i) / (n(n − 1)), Gini's mean difference.
        ranked, n = np.sort(y), len(y)
        drawn = 2.0 * float((2.0 * np.arange(1, n + 1) - n - 1.0) @ ranked) / (n * (n - 1.0))
        return bool(float(np.mean(np.abs(np.diff(y)))) * FEWER < drawn)
    if y.ndim == 2:
        y = np.unique(y, axis=0, return_inverse=True)[1].reshape(-1)
    changes = np.count_nonzero(np.diff(y))
    return bool(changes * FEWER < len(y) * (1 - np.sum((np.bincount(y) / len(y)) ** 2)))
