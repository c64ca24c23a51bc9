"""Comparison of two artifacts of one kind, array by array."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from herdcli.kinds import KINDS
from herdcli.schema import is_sparse

TOLERANCE = 1e-6  # tolerance for kinds that only a later version knows
SMALL = 1e-10  # arrays with no larger entries are rounding errors (residuals, rises): their absolute differences count


def comparison_tolerance(kind: str) -> float:
    """Return the relative difference allowed between two machines or library versions, relative to the largest entry of an array."""
    return KINDS[kind].tolerance if kind in KINDS else TOLERANCE


def largest_difference(ours: Any, theirs: Any) -> tuple[float, str]:
    """Return the largest relative difference of two values of one type, and the name of the field where it occurs.

    For an array it is the largest |a − b| divided by the largest entry; ∞ if types, shapes, texts or missing values differ.
    """
    worst, place = 0.0, ""
    left, right = dict(_leaf_fields(ours)), dict(_leaf_fields(theirs))
    absent = tuple(f"{name}/" for name, value in right.items() if value is None)  # fields that only a later version has
    for name in {**left, **right}:
        if (name not in right and absent and name.startswith(absent)) or (name not in left and right[name] is None):
            continue
        found = _relative_difference(left[name], right[name]) if name in left and name in right else float("inf")
        if found > worst:
            worst, place = found, name
    return worst, place


def _leaf_fields(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every field with its path."""
    if is_dataclass(value):
        for declared in fields(value):
            yield from _leaf_fields(getattr(value, declared.name), f"{prefix}/{declared.name}" if prefix else declared.name)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _leaf_fields(item, f"{prefix}/{name}")
    elif isinstance(value, (list, tuple)) and any(is_dataclass(item) or isinstance(item, dict) for item in value):
        for index, item in enumerate(value):
            yield from _leaf_fields(item, f"{prefix}/{index}")
    elif is_sparse(value):  # CSR
        for name in ("indptr", "indices", "data"):
            yield f"{prefix}/{name}", getattr(value, name)
    else:
        yield prefix, value


def _relative_difference(ours: Any, theirs: Any) -> float:
    if theirs is None:  # a field that only a later version has
        return 0.0
    if ours is None:
        return float("inf")
    if isinstance(ours, str) or isinstance(theirs, str):
        return 0.0 if isinstance(ours, str) and isinstance(theirs, str) and ours == theirs else float("inf")
    a, b = np.asarray(ours), np.asarray(theirs)
    if a.shape != b.shape or (a.dtype.kind in "fiub") != (b.dtype.kind in "fiub"):
        return float("inf")
    if a.dtype.kind not in "fiub":
        return 0.0 if np.array_equal(a, b) else float("inf")
    if np.array_equal(a, b):
        return 0.0
    a, b = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(finite, np.isfinite(a)) or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return float("inf")
    scale = max(float(np.abs(part[finite]).max(initial=0.0)) for part in (a, b))
    return float(np.abs(a[finite] - b[finite]).max(initial=0.0)) / (scale if scale > SMALL else 1.0)
