"""`herd em --on-disk`: rows in files in $TMPDIR, a file for each part of the split, read a few blocks at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts import parts, preparation
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.wording import grouped
from herdcli.cli.frame import streamed
from herdcli.em.fitting import Rows
from herdcli.errors import BadUsage, DataError
from herdcli.numerics.blocks import ROOM, Block
from herdcli.records import dataclass
from herdcli.splits import TEST, TRAIN, VALID

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.em.request import Request
    from herdcli.cli.frame.session import Session
    from herdcli.schema import Array

HELD, HELD_BYTES = 100_000, 1 << 23  # rows of split 2, and their bytes, that the model takes along at most, evenly spread over more


@dataclass(frozen=True)
class FileRows:
    """`numerics.blocks.Rows` of a file."""

    file: parts.RowsFile
    room: int

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.file.count

    @property
    def columns(self) -> int:
        """How many columns they have."""
        return self.file.columns

    def read(self, start: int, stop: int) -> Block:
        """Rows [start, stop)."""
        X, weight = self.file.read(start, stop)
        return Block(start, np.ascontiguousarray(X), None, weight)


def read(session: Session, request: Request) -> tuple[Artifact, Rows]:
    """The artifact that rows came from, and the rows: of the file's own split or of --split, else all to learn from."""
    if request.source == "-":
        raise BadUsage("--on-disk needs a Parquet or HDF5 file", hint="herd convert INPUT -o FILE.parquet makes one")
    if request.weights not in (None, "weight"):
        raise BadUsage("--on-disk takes weights from the column 'weight' alone", hint="leave out --weights, or rename the column")

    def chosen(count: int, own: Array | None) -> Array | None:
        if request.split is None:
            return own
        session.require_memory(10 * count, f"the split of {count} rows")
        return preparation.split_rows(Dataset(np.broadcast_to(np.uint8(0), (count, 1))), request.split, request.seed)

    artifact, found = parts.load(
        request.source, note=session.console.note, choose=chosen, label=request.label, roles=session.column_roles()
    )
    session.inputs["data"], session.recoding = replace(artifact, value=None), artifact.recoding
    for number, part in found.items():
        session.console.detail(f"{artifact.name}: {grouped(part.count)} rows of split {number} in $TMPDIR")
    if TRAIN not in found:
        raise DataError("has no rows in split 0 to learn from", where=artifact.name)
    valid, test, names = found.get(VALID), found.get(TEST), artifact.value.feature_names
    room = min(streamed.room(), ROOM * session.threads)
    rows = Rows(
        training=FileRows(found[TRAIN], room),
        valid=None if valid is None else FileRows(valid, room),
        holdout=None if test is None else test.take(held(session, np.arange(test.count), test.columns)),
        feature_names=names,
    )
    return artifact, rows


def held(session: Session, places: Array, columns: int) -> Array:
    """The places (h,) of rows of split 2 that the model takes along, of all of them (n,)."""
    most = max(1, min(HELD, HELD_BYTES // (8 * columns)))
    if len(places) <= most:
        return places
    session.console.note(f"{grouped(most)} of {grouped(len(places))} rows of split 2, evenly spread, stay with the model")
    return places[np.arange(most) * len(places) // most]
