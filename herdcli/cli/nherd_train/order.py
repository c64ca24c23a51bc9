"""The order in which rows of a data set are learned: that of the file, or a drawn one where the file's would spoil learning."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.lazy import Lazy
from herdcli.errors import HerdError

if TYPE_CHECKING:
    from herdcli.cli.frame.examples import Rows
    from herdcli.cli.frame.session import Session
    from herdcli.cli.nherd_train.request import Request
    from herdcli.online.model import Settings
    from herdcli.schema import Array

FEWER = 10  # times fewer changes from row to row than a mixed order has
WORDS = {"classification": "class", "regression": "what is predicted", "multilabel": "their labels"}


def mixed(session: Session, rows: Rows, settings: Settings, request: Request) -> tuple[Rows, Settings]:
    """The rows and the settings they are learned with: shuffled where the file has them sorted, unless --in-order wants them so."""
    y = rows.y[rows.split == 0]
    if settings.shuffle or not sorted_by(y):
        return rows, settings
    what = f"the rows are sorted by {WORDS[settings.task]}"
    if request.in_order:
        session.console.warn(f"{what}, which spoils learning in that order: leave --in-order out, and they are mixed")
        return rows, settings
    session.console.note(f"{what}: learned in an order drawn from --seed (--in-order keeps theirs)")
    if isinstance(rows.X, Lazy):
        try:
            session.require_memory(16 * rows.X.shape[0] * rows.X.shape[1], "rows in a drawn order")
        except HerdError as error:
            error.hint = "--in-order leaves them in the file, sorted as they are; or raise --max-memory if the machine has it"
            raise
        rows = replace(rows, X=rows.X[:])
    return rows, replace(settings, shuffle=True)


def sorted_by(y: Array) -> bool:
    """Do labels (n,), sets of labels (n, C) or numbers (n,) change far less from row to row than they would in a mixed order?"""
    if len(y) < 2:
        return False
    if y.dtype.kind == "f":
        # E|Y − Y'| of two rows at random is 2 Σ (2i − n − 1) y_(i) / (n(n − 1)), Gini's mean difference.
        ranked, n = np.sort(y), len(y)
        drawn = 2.0 * float((2.0 * np.arange(1, n + 1) - n - 1.0) @ ranked) / (n * (n - 1.0))
        return bool(float(np.mean(np.abs(np.diff(y)))) * FEWER < drawn)
    if y.ndim == 2:
        y = np.unique(y, axis=0, return_inverse=True)[1].reshape(-1)
    changes = np.count_nonzero(np.diff(y))
    return bool(changes * FEWER < len(y) * (1 - np.sum((np.bincount(y) / len(y)) ** 2)))
