"""The assignment of rows to groups: one group of all rows, or one of each label."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.quadrature import input_preparation
from herdcli.quadrature.kernels.stein_kernels import ScoreTarget
from herdcli.quadrature.selection_problem import SelectionGroup
from herdcli.quadrature.targets import RowTarget, Target
from herdcli.records import dataclass
from herdcli.schema import Array, require_valid_weights


@dataclass
class WeightedRows:
    """Rows X (n, d) float64 with weights (n,) of sum 1, and, if there are groups, the group number (n,) of each row and the groups' names.

    given  (n,) the original weights.
    lost   (n, d) of rows that `make_row_groups` scaled, the result of `input_preparation.scale_in_place`.
    """

    X: Array
    weights: Array
    group: Array | None = None
    group_names: Sequence[str] | None = None
    given: Array | None = None
    lost: Array | None = None

    def original(self, numbers: Array, scale: Array) -> Array:
        """Return the rows of these numbers (m,) in the input's units, bit for bit.  scale  (d,) divisors of the columns."""
        X = self.X[numbers]
        return X if self.lost is None else input_preparation.restore_rows(X, scale, self.lost[numbers])


def normalise_row_weights(X: Array, weights: Array | None, group: Array | None, group_names: Sequence[str] | None) -> WeightedRows:
    """Scale weights (n,) of rows to sum 1 (None: equal weights).  Raises DataError for invalid weights, and for a single row."""
    if len(X) < 2:
        raise DataError("has only one row, but at least two are needed")
    own = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=np.float64)
    require_valid_weights(own)
    return WeightedRows(X, own / own.sum(), group, group_names, own)


def number_groups(values: Array, names: Sequence[str] | None) -> tuple[Array, list[str]]:
    """Return the group number (n,) of each row, and the groups' names: names of classes, or the values themselves."""
    distinct, group = np.unique(values, return_inverse=True)
    return group, [names[int(value)] for value in distinct] if names else [f"{value:g}" for value in distinct]


def make_closed_form_group(target: Target, points: Array | None, scale: Array, count: int, *, polish: bool) -> SelectionGroup:
    """Make the one group of a target that is not rows, with candidates (N, d).

    Raises BadUsage for columns whose scale (d,) is not 1.
    """
    if (scale != 1).any():
        raise BadUsage("--scale works only with --distribution rows, because other targets are not scaled")
    return SelectionGroup(
        target, points, count, input_preparation.make_search_box(target, points) if polish and points is not None else None
    )


def make_row_groups(
    rows: WeightedRows, points: Array | None, scale: Array, count: int, *, polish: bool
) -> tuple[list[SelectionGroup], list[Array | None]]:
    """Make groups in scaled columns (scale (d,)), and the row numbers of their candidates (None: the candidates are `points`).

    `rows.X` is scaled in place.
    points (N, d), None for the rows themselves.  Groups of labels are separate distributions.
    """
    parts, groups = _row_numbers_by_group(rows), []
    rows.lost = input_preparation.scale_in_place(rows.X, scale)
    for part in parts:
        weights = rows.weights[part]
        contiguous = part[-1] - part[0] + 1 == len(part)  # rows are then shared, not copied
        X = rows.X[part[0] : part[-1] + 1] if contiguous else rows.X[part]
        own = RowTarget(X, weights / weights.sum())
        box = input_preparation.make_search_box(own, own.X if points is None else points) if polish else None
        groups.append(SelectionGroup(own, points, count, box))
    return groups, [part if points is None else None for part in parts]


def make_score_groups(rows: WeightedRows, scores: Array, scale: Array, count: int) -> tuple[list[SelectionGroup], list[Array | None]]:
    """Make groups of points with scores (n, d) ∇ log p in the input's units, in scaled columns, and the row numbers of their candidates.

    If a column is divided by c, its score is multiplied by c.
    """
    parts = _row_numbers_by_group(rows)
    both = [np.concatenate([rows.X[part] / scale, scores[part] * scale], axis=1) for part in parts]
    return [SelectionGroup(ScoreTarget(points.shape[1]), points, count) for points in both], list(parts)


def _row_numbers_by_group(rows: WeightedRows) -> list[Array]:
    """Return the row numbers of each group."""
    n = len(rows.X)
    if rows.group is not None and rows.group_names is not None:
        parts = [np.flatnonzero(rows.group == g) for g in range(len(rows.group_names))]
        empty = [name for name, part in zip(rows.group_names, parts, strict=True) if not rows.weights[part].any()]
        if empty:
            raise DataError(f"all rows of group {empty[0]} have weight 0")
        return parts
    return [np.arange(n)]
