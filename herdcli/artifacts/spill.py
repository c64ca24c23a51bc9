"""Rows that do not fit into memory: a Parquet file read by row groups into a float64 matrix on disk.

The matrix is an unnamed temporary file in $TMPDIR, mapped into memory; it vanishes with the process.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from herdcli.artifacts import columns, header, memory, sniff, tables
from herdcli.artifacts.asked import Asked, silent
from herdcli.artifacts.dataset import Dataset, validate
from herdcli.artifacts.files import Artifact
from herdcli.artifacts.inputs import open_source
from herdcli.errors import DataError, HerdError

BATCH_BYTES = 8 << 20


def load(path: str, *, note: Callable[[str], None], label: str | None = None) -> Artifact | None:
    """The data set of a Parquet file with X on disk; None for other formats.  Labels are left out."""
    with open_source(path, limit=memory.default_limit()) as source:
        if not source.regular or sniff.tell(source.head, source.name) != "parquet":
            return None
        digest = tables.verify(path, where=source.name)
        value = _rows(path, source.name, note, label)
        artifact = Artifact("dataset", value, [], digest or source.sha256, source.name, source.size, digest is not None)
    validate(value, where=artifact.name)
    return artifact


def _rows(path: str, where: str, note: Callable[[str], None], label: str | None) -> Dataset:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            return _batches(file, pa, where, note, label)
    except HerdError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"the Parquet file cannot be read ({reason})", where=where, hint=header.DAMAGED_HINT) from error


def _batches(file: Any, pa: Any, where: str, note: Callable[[str], None], label: str | None) -> Dataset:
    """Batch after batch as data sets, their rows appended to the matrix, their weights joined."""
    total = file.metadata.num_rows
    first: Dataset | None = None
    X: Any = None
    weights, row = [], 0
    size = (
        max(1, BATCH_BYTES // max(1, file.metadata.row_group(0).total_byte_size // max(1, file.metadata.row_group(0).num_rows)))
        if total
        else 1
    )
    for batch in file.iter_batches(batch_size=size, use_threads=False):
        part = columns.from_table(
            pa.Table.from_batches([batch]), {}, where=where, asked=Asked(note=note if first is None else silent, label=label)
        )
        if first is None:
            first = part
            with tempfile.TemporaryFile() as file_of_rows:  # the mapping keeps it
                X = np.memmap(file_of_rows, dtype=np.float64, mode="w+", shape=(total, part.X.shape[1]))
        X[row : row + len(part.X)] = part.X
        if part.weight is not None:
            weights.append(part.weight)
        row += len(part.X)
    if first is None:
        raise DataError("has no rows", where=where)
    weight = np.concatenate(weights) if weights else None
    return replace(first, X=np.asarray(X), y=None, class_names=None, split=None, weight=weight)
