"""Time series of `herd regress --gls ar1`: the sequence and step of each row, and splits that respect both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.errors import missing_column_error

if TYPE_CHECKING:
    from herdcli.artifacts.dataset import Dataset
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.regress.request import Request
    from herdcli.em.sequence.sequences import Sequences
    from herdcli.regression.covariance import TimeSteps


def split_time_columns(data: Dataset, column: str | None) -> tuple[Dataset, Sequences, TimeSteps, bool]:
    """Return the data set without its sequence column, the sequences, the steps of all rows, and whether the column existed."""
    from herdcli.cli.frame.rows.sequences import COLUMN, split_off_column
    from herdcli.em.sequence import sequences
    from herdcli.regression.covariance import TimeSteps

    name = column or COLUMN
    key, data = split_off_column(data, name)
    if key is None and column is not None:
        raise missing_column_error("--sequence", name, [*(data.columns or {}), *(data.feature_names or [])])
    series = sequences.group_rows_into_sequences(data.X, key)
    place, step = np.empty((2, len(data.X)), dtype=np.int64)
    place[series.chosen] = np.repeat(np.arange(series.count), series.lengths)
    step[series.chosen] = np.concatenate([np.arange(length) for length in series.lengths])
    return data, series, TimeSteps(place, step), key is not None


def arrange_in_time(session: Session, data: Dataset, request: Request) -> tuple[Dataset, TimeSteps]:
    """Return the data set without its sequence column and with a split, and the steps of all rows.

    The split keeps sequences whole; if there are few, it divides them in time.
    """
    from herdcli.cli.frame.rows.sequences import COLUMN, report_sequences
    from herdcli.em.sequence import sequences

    data, series, steps, grouped = split_time_columns(data, request.sequence)
    parts = sequences.split_sequences(series, data.split, sequences.parse_split_parts(request.split), request.seed)
    split = np.full(len(data.X), sequences.UNUSED, dtype=np.uint8)
    for part, rows in parts.items():
        split[rows.chosen] = part
    cut = sum(part.count for part in parts.values()) > series.count
    report_sequences(session, series, request.sequence or COLUMN, grouped=grouped, cut=cut)
    return replace(data, split=split), steps
