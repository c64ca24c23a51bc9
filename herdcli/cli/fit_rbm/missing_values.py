"""`herd fit-rbm --draw-missing`: rows whose missing values are sampled given the others.

The learning is in herdcli.rbm.learning.missing_values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.errors import BadUsage, DataError
from herdcli.splits import TRAIN

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.fit_rbm.request import Request
    from herdcli.cli.frame.rows.dataset_rows import PreparedRows
    from herdcli.cli.frame.run.session import Session
    from herdcli.numerics.row_selection import SelectedRows
    from herdcli.rbm.learning.class_rows import ClassGroups
    from herdcli.schema import Array


def refuse_for_missing_values(session: Session, request: Request) -> None:
    """Raise BadUsage for options that need complete rows."""
    if session.missing is not None:
        raise BadUsage("--draw-missing and --missing exclude each other", hint="leave one of them out")
    if session.cluster is not None:
        raise BadUsage("--draw-missing and --cluster exclude each other", hint="leave out --cluster")
    request.settings().require_missing_values_support()


def read_rows(session: Session, source: str, input_format: str | None, label: str | None, seed: int) -> tuple[Artifact, Array | None]:
    """Return the data set with missing values replaced by random known values of their columns, and a mask (n, D) of the known values.

    The mask is None if no value is missing.
    """
    import numpy as np

    from herdcli.artifacts.tables import dataset_preparation
    from herdcli.rbm.learning.missing_values import fill_missing_at_random

    data = session.load(source, "data", kinds={"dataset"}, input_format=input_format, label=label, missing=True)
    if data.value.is_sparse:
        raise DataError(
            "/X is sparse, so entries that are not stored are 0 and none is missing", where=data.name, hint="leave out --draw-missing"
        )
    X = dataset_preparation.dense_copy(data.value, np.float64)
    known: Array = ~np.isnan(X)
    if known.all():
        session.console.warn("--draw-missing has no effect: no value is missing")
        return data, None
    try:
        return replace(data, value=replace(data.value, X=fill_missing_at_random(X, seed))), known
    except DataError as error:
        error.where = error.where or data.name
        raise


def drop_incomplete_heldout_rows(session: Session, rows: PreparedRows, known_mask: Array) -> tuple[PreparedRows, Array]:
    """Return the rows without held-out rows that have missing values, which evaluation cannot use, and the mask of known entries."""
    import numpy as np

    torn = np.asarray((~known_mask).any(axis=1))
    session.console.note(f"{int(torn[rows.split == TRAIN].sum())} of {int((rows.split == TRAIN).sum())} training rows have missing values")
    lost = torn & (rows.split != TRAIN)
    if not lost.any():
        return rows, known_mask
    session.console.note(f"{int(lost.sum())} held-out rows with missing values are left out")
    y = None if rows.y is None else rows.y[~lost]
    return replace(rows, X=rows.X[~lost], split=rows.split[~lost], y=y), known_mask[~lost]


def known_mask_with_labels(known_mask: Array | None, labels: int) -> Array | None:
    """Extend the mask (n, D) of known entries to rows with their labels (n, D + C), which are always known."""
    import numpy as np

    return None if known_mask is None else np.concatenate([known_mask, np.ones((len(known_mask), labels), dtype=bool)], axis=1)


def known_masks_per_model(groups: ClassGroups, known_mask: Array | None) -> list[SelectedRows] | None:
    """Return the mask of known entries of each model's training rows; None if all are known."""
    from herdcli.numerics.row_selection import SelectedRows

    if known_mask is None:
        return None
    return [SelectedRows(known_mask, rows.index) for rows in groups.training_rows() if isinstance(rows, SelectedRows)]
