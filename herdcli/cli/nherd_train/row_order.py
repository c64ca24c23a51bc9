"""The order in which rows of a data set are learned: that of the file, or a random one if the file is sorted by class or target."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.artifacts import memory_budget
from herdcli.artifacts.rows.lazy_matrix import LazyMatrix, copy_to_spool_file

if TYPE_CHECKING:
    from herdcli.cli.frame.rows.labelled_examples import ClassificationRows
    from herdcli.cli.frame.run.session import Session
    from herdcli.online.model import Settings

WORDS = {"classification": "class", "regression": "what is predicted", "multilabel": "their labels"}


def shuffle_if_sorted(
    session: Session, rows: ClassificationRows, settings: Settings, in_order: bool
) -> tuple[ClassificationRows, Settings]:
    """Return the rows and their settings, with shuffling if the rows are sorted by class or target, unless --in-order is given."""
    from herdcli.online.order_check import is_sorted_by_label

    y = rows.y[rows.split == 0]
    if settings.shuffle:
        return make_random_access(session, rows), settings
    if not is_sorted_by_label(y):
        return rows, settings
    what = f"the rows are sorted by {WORDS[settings.task]}"
    if in_order:
        session.console.warn(f"{what}, so learning in their order gives a bad model: leave out --in-order to shuffle them")
        return rows, settings
    session.console.note(f"{what}, so they are shuffled by --seed (--in-order keeps their order)")
    return make_random_access(session, rows), replace(settings, shuffle=True)


def make_random_access(session: Session, rows: ClassificationRows) -> ClassificationRows:
    """Return the rows in a form that can be read in any order: in memory, or in a temporary file if they exceed --max-memory."""
    if not isinstance(rows.X, LazyMatrix):
        return rows
    few = 16 * rows.X.size <= (session.max_memory or memory_budget.default_memory_limit())
    return replace(rows, X=rows.X[:] if few else copy_to_spool_file(rows.X))
