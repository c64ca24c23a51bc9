"""Rows in memory or in a file as sources for a learner of `herd nherd-train`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.rows.lazy_matrix import LazyMatrix
from herdcli.numerics.row_selection import SelectedRows
from herdcli.online.block_sources import MemorySource
from herdcli.online.example_blocks import DENSE_ROWS
from herdcli.online.learner_state import HoldoutRule

if TYPE_CHECKING:
    from herdcli.cli.frame.rows.labelled_examples import ClassificationRows
    from herdcli.cli.frame.run.session import Session
    from herdcli.online.learner import OnlineLearner
    from herdcli.online.model import Settings
    from herdcli.schema import Array

LARGE = 1 << 26  # bytes of rows from which no copy is made
TRIAL_ROWS = 100  # rows per step of --dry-run, which tries some steps and not all rows


def memory_source(session: Session, rows: ClassificationRows, chosen: Array, settings: Settings) -> MemorySource:
    """Return a source of some of the rows.  chosen  a mask (n,) bool or row numbers."""
    return MemorySource(
        _select_rows(rows.X, chosen),
        rows.y[chosen],
        weight=None if rows.weight is None else rows.weight[chosen],
        passes=settings.passes,
        shuffle=settings.shuffle,
        seed=settings.seed,
        rows=min(TRIAL_ROWS, rows_per_block(settings.kernel, settings.covariance))
        if session.dry_run
        else rows_per_block(settings.kernel, settings.covariance),
        holdout=heldout_rule(settings.holdout, settings.until_last),
    )


def _select_rows(X: Array | LazyMatrix, chosen: Array) -> Array | LazyMatrix | SelectedRows:
    """Return some rows of X; many rows are copied in blocks, when the learner reads them."""
    if isinstance(X, LazyMatrix):
        return X.select_rows(chosen)
    if isinstance(X, np.ndarray) and X.nbytes >= LARGE:
        return X if chosen.dtype == bool and chosen.all() else SelectedRows(X, np.flatnonzero(chosen) if chosen.dtype == bool else chosen)
    return X[chosen]


def heldout_rule(holdout: int, until_last: bool) -> HoldoutRule:
    """Return the rule by which a source holds out examples."""
    return HoldoutRule(holdout, until_last)


def rows_per_block(kernel: str, covariance: str) -> int:
    """Return the number of rows in a learner's block."""
    return DENSE_ROWS if kernel != "none" or covariance == "full" else 10_000


def require_memory(session: Session, learner: OnlineLearner) -> None:
    """Raise an error for a learner whose weights do not fit into memory, before any race."""
    what = (
        f"a full covariance of {learner.full_covariance_size} weights"
        if learner.full_covariance_size
        else f"a table of {learner.features} features"
    )
    session.require_memory(learner.memory(), what)
