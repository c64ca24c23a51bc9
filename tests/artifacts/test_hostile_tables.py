"""Parquet whose seal's own key was hit, or whose JSON nobody would have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from herdcli.artifacts import Dataset, load, save
from herdcli.artifacts.formats import parquet_files
from herdcli.artifacts.sealed import sealing
from herdcli.errors import DataError


@pytest.fixture
def table(tmp_path: Path, dataset: Dataset) -> Path:
    """A sealed data set."""
    path = tmp_path / "rows.parquet"
    save(str(path), dataset, [])
    return path


def test_a_hit_in_the_key_of_the_digest_is_a_lost_seal(table: Path) -> None:
    data = table.read_bytes()
    first = data.rindex(parquet_files.DIGEST_KEY)
    for at in range(first, first + len(parquet_files.DIGEST_KEY) + 2):
        table.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert sealing.check_file(str(table)).code == 65, at
        with pytest.raises(DataError):
            load(str(table))


def rewritten(path: Path, change: dict[str, Any] | str) -> None:
    """The same table with other metadata, sealed."""
    whole = pq.read_table(path)
    text = dict(pq.ParquetFile(path).metadata.metadata)[parquet_files.KEY].decode()
    text = json.dumps(json.loads(text) | change) if isinstance(change, dict) else change
    with pq.ParquetWriter(path, whole.schema.remove_metadata(), compression="none") as writer:
        writer.write_table(whole)
        writer.add_key_value_metadata({parquet_files.KEY.decode(): text, parquet_files.DIGEST_KEY.decode(): parquet_files.ZEROS.decode()})
    parquet_files.seal_file(path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format-version": 99}, "has the format version 99, but this version of herd reads only 1"),
        ({"kind-version": float("inf")}, "is no|cannot be read"),
        ({"provenance": 7}, "the provenance is not a JSON list of records"),
        ({"provenance": ["text"]}, "the provenance is not a JSON list of records"),
        ("[" * 100_000, "the herd metadata cannot be read"),
        ("[]", "the herd metadata cannot be read"),
    ],
)
def test_metadata_of_other_types_are_refused(table: Path, change: dict[str, Any] | str, told: str) -> None:
    rewritten(table, change)
    with pytest.raises(DataError, match=told):
        load(str(table))
