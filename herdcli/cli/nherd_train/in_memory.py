"""Rows of a data set that fit into memory: `herd nherd-train` makes passes over them until the error of held-out rows stops falling."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.rows.lazy_matrix import LazyMatrix
from herdcli.online.block_sources import MemorySource
from herdcli.online.learners import early_stopping
from herdcli.splits import VALID

if TYPE_CHECKING:
    from herdcli.cli.frame.rows.labelled_examples import ClassificationRows
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.nherd_train.request import Request
    from herdcli.online.learner import OnlineLearner
    from herdcli.online.learners.early_stopping import PassChoice


def fits_in_memory(source: MemorySource) -> bool:
    """Return whether the source is small enough, in memory, and has more than one class."""
    X, rows = source.X, len(source.label)
    if isinstance(X, LazyMatrix):
        return False
    entries = X.nnz if hasattr(X, "nnz") else rows * X.shape[1]
    return 1 < rows <= early_stopping.ROWS and entries <= early_stopping.ENTRIES and len(np.unique(source.label)) > 1


def choose_passes(
    session: Session, learner: OnlineLearner, source: MemorySource, rows: ClassificationRows, request: Request
) -> tuple[PassChoice, MemorySource]:
    """Return the settings and number of passes with the lowest error on held-out rows, and the source of these passes."""
    choice = early_stopping.choose_passes(learner.settings, source.X, source.label, source.weight, learner.classes)
    first, *others = early_stopping.choice_messages(choice)
    session.console.note(first)
    for line in others:
        session.console.detail(line)
    settings = request.settings_with_heldout_rule(choice.settings, validated=bool((rows.split == VALID).any()))
    memory = MemorySource(
        source.X,
        source.label,
        weight=source.weight,
        passes=settings.passes,
        shuffle=True,
        seed=settings.seed,
        rows=source.rows,
        holdout=replace(source.holdout, every=settings.holdout, until_last=settings.until_last),
    )
    return replace(choice, settings=settings), memory
