"""A data set that is written in consecutive parts, with the bytes that it would have if written at once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.artifacts.atomic_output import atomic_file, compress_file
from herdcli.artifacts.dataset import Dataset, validate
from herdcli.artifacts.formats import format_detection
from herdcli.artifacts.load_save import TEXT, SavedArtifact, output_format
from herdcli.artifacts.sealed import sealed_hdf5
from herdcli.artifacts.text import delimited_text
from herdcli.kinds import kind_for_value
from herdcli.records import HistoryRecord

if TYPE_CHECKING:
    from pathlib import Path

FORMS = ("hdf5", "parquet", "csv")


def save_in_parts(path: str, parts: Iterable[Dataset], rows: int, history: list[HistoryRecord], *, clobber: bool = True) -> SavedArtifact:
    """Save the data set of `rows` rows that these parts form, as `load_save.save` does, in one of FORMS.

    The parts are dense and have equal fields.
    """
    form = output_format(path, None, "dataset")
    packed = format_detection.compression_from_suffix(path) if form == "csv" else None
    with atomic_file(path, clobber=clobber, binary=form not in TEXT) as temporary:
        _write_parts(temporary, form, _validate_parts(parts), rows, history)
        if packed:
            compress_file(temporary, packed)
        size = os.stat(temporary).st_size
    return SavedArtifact("dataset", size)


def _validate_parts(parts: Iterable[Dataset]) -> Iterator[Dataset]:
    fields: list[str] | None = None
    for part in parts:
        validate(replace(part, weight=None))  # rows of weight 0 are allowed in a part
        there = [name for name, item in vars(part).items() if item is not None]
        if fields not in (None, there):
            raise TypeError(f"a part has {', '.join(there)}, those before it {', '.join(fields or ())}")
        fields = there
        yield part


def _write_parts(path: Path, form: str, parts: Iterator[Dataset], rows: int, history: list[HistoryRecord]) -> None:
    if form == "parquet":
        from herdcli.artifacts.formats import parquet_files

        first = next(parts)
        parquet_files.write_parts(path, kind_for_value(first), _chain_parts(first, parts), rows, history)
    elif form == "hdf5":
        first = next(parts)
        kind = kind_for_value(first)
        sealed_hdf5.write_sealed(path, kind.name, kind.version, first, history, rows=rows, further_parts=parts)
    else:
        with open(path, "wb") as out:
            for number, part in enumerate(parts):
                delimited_text.append_rows(out, part, titles=not number)


def _chain_parts(first: Dataset, parts: Iterator[Dataset]) -> Iterator[Dataset]:
    yield first
    yield from parts
