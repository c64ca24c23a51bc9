"""The scores ∇ log p of rows for Stein kernels, from a separate file or from columns of the same table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.rows.column_order import align_matrix
from herdcli.cli.frame.rows.target_files import read_rows_and_names
from herdcli.errors import BadUsage, DataError, NoInput

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session
    from herdcli.schema import Array

HINT = "use --scores FILE with one score for each column of the rows, or --scores PREFIX if the scores are columns of the same table"
LEAVE_OUT = "leave out columns that are not coordinates with --drop NAME,…"


def read_scores(
    session: Session, option: str | None, X: Array, names: list[str] | None, where: str, *, named_by: str = ""
) -> tuple[Array, list[str] | None, Array]:
    """Return points (n, d), their names, and scores (n, d), from --scores FILE or PREFIX.

    named_by  what the command has for columns that are not coordinates, besides --drop.
    """
    if option is None:
        raise BadUsage("a Stein kernel needs the score ∇ log p at each row", hint=HINT)
    if names and any(name.startswith(option) for name in names) and not Path(option).is_file():
        return _score_columns(option, X, names, where, named_by)
    if names and option != "-" and not Path(option).exists():
        raise NoInput("is not a file, and no column name begins with it", where=option)
    S, have = read_rows_and_names(session, option, "scores")
    if S.shape != X.shape:
        raise DataError(f"has {S.shape[0]} rows × {S.shape[1]} columns, but {where} has {X.shape[0]} × {X.shape[1]}", where=option)
    if have and names and set(have) & set(names):
        S = align_matrix(session, S, have, names, X.shape[1], where=option)
    return X, names, S


def _score_columns(prefix: str, X: Array, names: list[str], where: str, named_by: str) -> tuple[Array, list[str] | None, Array]:
    """Return the columns without a prefix as points, and the columns with the prefix as their scores."""
    points = [name for name in names if not name.startswith(prefix)]
    lacking = [name for name in points if prefix + name not in names]
    if lacking or 2 * len(points) != len(names):
        unknown = [name for name in names if name.startswith(prefix) and name[len(prefix) :] not in points]
        listed = ", ".join([prefix + name for name in lacking[:8]] or unknown[:8])
        what = f"lacks the scores {listed}" if lacking else f"has scores of columns that are not there: {listed}"
        raise DataError(what, where=where, hint=LEAVE_OUT + named_by)
    place = {name: j for j, name in enumerate(names)}
    chosen = [np.ascontiguousarray(X[:, [place[name] for name in part]]) for part in (points, [prefix + name for name in points])]
    return chosen[0], points, chosen[1]
