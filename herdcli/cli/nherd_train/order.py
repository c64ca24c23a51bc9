"""The order in which rows of a data set are learned: that of the file, or a drawn one where the file's would spoil learning."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.artifacts.lazy import Lazy
from herdcli.errors import HerdError

if TYPE_CHECKING:
    from herdcli.cli.frame.examples import Rows
    from herdcli.cli.frame.session import Session
    from herdcli.cli.nherd_train.request import Request
    from herdcli.online.model import Settings

WORDS = {"classification": "class", "regression": "what is predicted", "multilabel": "their labels"}


def mixed(session: Session, rows: Rows, settings: Settings, request: Request) -> tuple[Rows, Settings]:
    """The rows and the settings they are learned with: shuffled where the file has them sorted, unless --in-order wants them so."""
    from herdcli.online.order import sorted_by

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
