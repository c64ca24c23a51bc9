"""`herd em --on-disk`: rows in temporary files in $TMPDIR, one file per part of the split, read a few blocks at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.message_numbers import group_digits
from herdcli.artifacts.rows import split_files
from herdcli.artifacts.tables import dataset_preparation
from herdcli.cli.frame.rows import streamed_rows
from herdcli.em.fitting import FitRows
from herdcli.errors import BadUsage, DataError
from herdcli.numerics.block_statistics import ROOM, ComputedRows, RowBlock
from herdcli.splits import TEST, TRAIN, VALID

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session
    from herdcli.schema import Array

HELD, HELD_BYTES = 100_000, 1 << 23  # maximum number of rows of split 2 stored in the model, and their bytes


def _spilled_rows(file: split_files.SpilledRows, room: int) -> ComputedRows[RowBlock]:
    """Return the rows of a temporary file.  room  bytes that rows read at one time may take."""

    def read(start: int, stop: int) -> RowBlock:
        X, weight = file.read(start, stop)
        return RowBlock(start, np.ascontiguousarray(X), None, weight)

    return ComputedRows(file.count, file.columns, read, room)


def read_rows(
    session: Session, source: str, weights: str | None, split: str | None, seed: int, label: str | None
) -> tuple[Artifact, FitRows]:
    """Return the artifact that the rows came from, and the rows, split by --split or by the file's own split, else all for training."""
    if source == "-":
        raise BadUsage("--on-disk needs a Parquet or HDF5 file", hint="make one: herd convert INPUT -o FILE.parquet")
    if weights not in (None, "weight"):
        raise BadUsage("--on-disk takes weights only from the column 'weight'", hint="leave out --weights, or rename the column")

    def chosen(count: int, own: Array | None) -> Array | None:
        if split is None:
            return own
        session.require_memory(10 * count, f"the split of {count} rows")
        return dataset_preparation.assign_splits(Dataset(np.broadcast_to(np.uint8(0), (count, 1))), split, seed)

    artifact, found = split_files.load_parts(source, note=session.console.note, choose=chosen, label=label, roles=session.column_roles())
    session.inputs["data"], session.recoding = replace(artifact, value=None), artifact.recoding
    for number, part in found.items():
        session.console.detail(f"{artifact.name}: {group_digits(part.count)} rows of split {number} in $TMPDIR")
    if TRAIN not in found:
        raise DataError("has no training rows", where=artifact.name, hint="make a new split: --split .8,.1,.1")
    valid, test, names = found.get(VALID), found.get(TEST), artifact.value.feature_names
    room = min(streamed_rows.read_budget_bytes(), ROOM * session.threads)
    rows = FitRows(
        training=_spilled_rows(found[TRAIN], room),
        valid=None if valid is None else _spilled_rows(valid, room),
        holdout=None if test is None else test.take(choose_heldout_rows(session, np.arange(test.count), test.columns)),
        feature_names=names,
        image_shape=artifact.value.image_shape,
    )
    return artifact, rows


def choose_heldout_rows(session: Session, row_indices: Array, columns: int) -> Array:
    """Return the indices (h,) of the rows of split 2 that are stored in the model, chosen evenly from the indices `row_indices` (n,)."""
    most = max(1, min(HELD, HELD_BYTES // (8 * columns)))
    if len(row_indices) <= most:
        return row_indices
    session.console.note(
        f"{group_digits(most)} of {group_digits(len(row_indices))} test rows, evenly spaced, are stored in the model for herd eval"
    )
    return row_indices[np.arange(most) * len(row_indices) // most]
