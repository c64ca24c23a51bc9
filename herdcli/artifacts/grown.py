"""A data set that is written a stretch of its rows after the other, with the bytes that it would have as one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from herdcli.artifacts import delimited, hdf5, sniff
from herdcli.artifacts.dataset import Dataset, validate
from herdcli.artifacts.files import TEXT, Written, output_format
from herdcli.artifacts.streams import pack, publish
from herdcli.kinds import kind_of

if TYPE_CHECKING:
    from pathlib import Path

FORMS = ("hdf5", "parquet", "csv")


def save(path: str, parts: Iterable[Dataset], rows: int, history: list[dict[str, Any]], *, clobber: bool = True) -> Written:
    """As `files.save` of the data set of so many rows whose parts these are, dense and with the same fields, in one of FORMS."""
    form = output_format(path, None, "dataset")
    packed = sniff.packing(path) if form == "csv" else None
    with publish(path, clobber=clobber, binary=form not in TEXT) as temporary:
        _write(temporary, form, _valid(parts), rows, history)
        if packed:
            pack(temporary, packed)
        size = os.stat(temporary).st_size
    return Written("dataset", size)


def _valid(parts: Iterable[Dataset]) -> Iterator[Dataset]:
    fields: list[str] | None = None
    for part in parts:
        validate(replace(part, weight=None))  # of which some rows may have none
        there = [name for name, item in vars(part).items() if item is not None]
        if fields not in (None, there):
            raise TypeError(f"a part has {', '.join(there)}, those before it {', '.join(fields or ())}")
        fields = there
        yield part


def _write(path: Path, form: str, parts: Iterator[Dataset], rows: int, history: list[dict[str, Any]]) -> None:
    if form == "parquet":
        from herdcli.artifacts import tables

        first = next(parts)
        tables.write_on(path, kind_of(first), _behind(first, parts), rows, history)
    elif form == "hdf5":
        first = next(parts)
        kind = kind_of(first)
        hdf5.write(path, kind.name, kind.version, first, history, rows=rows, more=parts)
    else:
        with open(path, "wb") as out:
            for number, part in enumerate(parts):
                delimited.append(out, part, titles=not number)


def _behind(first: Dataset, parts: Iterator[Dataset]) -> Iterator[Dataset]:
    yield first
    yield from parts
