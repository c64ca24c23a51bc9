"""Sealed HDF5: a dataclass after a seal, with its kind, version and history as root attributes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from herdcli import __version__, kinds
from herdcli.artifacts import hdf5_guard, memory_budget
from herdcli.artifacts.deferred_errors import create_hdf5
from herdcli.artifacts.sealed import codec, seal_header
from herdcli.errors import DataError
from herdcli.records import HistoryRecord
from herdcli.schema import check_arrays

if TYPE_CHECKING:
    import h5py

VERSIONS = frozenset({"format-version", "kind-version"})
RESERVED = VERSIONS | frozenset({"format", "kind", "generated-by", "provenance", "configuration", "recoding"})
FORMAT_VERSION = 1


def write_sealed(
    path: str | os.PathLike[str],
    kind: str,
    version: int,
    value: Any,
    history: list[HistoryRecord],
    *,
    rows: int | None = None,
    further_parts: Iterable[Any] = (),
    **extra: str,
) -> seal_header.Seal:
    """Write a sealed artifact to a temporary file, and return its seal.  extra: further root attributes.

    rows  the total number of rows: `value` has the first ones and `further_parts` the others, in values of the same kind.  The bytes are
          the same as those of a single value with all rows.
    """
    value = value.condense() if hasattr(value, "condense") else value
    check_arrays(value)
    clash = RESERVED & {declared.name for declared in fields(value)}
    if clash:
        raise TypeError(f"{type(value).__name__} has fields with the names of root attributes: {', '.join(sorted(clash))}")
    attributes = {
        "format": "herd",
        "format-version": FORMAT_VERSION,
        "kind": kind,
        "kind-version": version,
        "generated-by": f"herdcli {__version__}",
        "provenance": json.dumps(history, ensure_ascii=False, allow_nan=False),
        **extra,
    }
    with create_hdf5(path, libver=("v110", "v110"), userblock_size=seal_header.BLOCK, track_times=False) as file:
        for name, item in attributes.items():
            codec.write_attribute(file, name, item)
        codec.write_fields(file, value, rows=rows)
        start = 0 if rows is None else len(value.X)
        for part in further_parts:
            codec.append_rows(file, part, start)
            start += len(part.X)
    return seal_header.write_seal(path, kind)


def read_sealed(file: h5py.File, sealed_kind: str, *, limit: int, where: str) -> tuple[Any, list[HistoryRecord], str | None]:
    """Read the value, the history and the recoding of columns (JSON) of a verified artifact, upgraded to the newest version of its kind."""
    attributes = read_root_attributes(file, sealed_kind, where=where)
    kind = kinds.find_kind(sealed_kind, where=where)
    version = int(attributes["kind-version"])
    cls = kind.dataclass_of_version(version, where=where)
    hdf5_guard.check_readable(hdf5_guard.walk_datasets(file, where=where), limit=limit, where=where)
    value = codec.read_fields(file, cls, where=where)
    check_arrays(value, where=where)
    if hasattr(value, "with_all_columns"):
        memory_budget.require_memory(value.expanded_bytes, limit, where=where)
        value = value.with_all_columns()
    return kinds.upgrade(value, kind, version), attributes["history"], attributes.get("recoding")


def read_root_attributes(file: h5py.File, sealed_kind: str, *, where: str) -> dict[str, Any]:
    """Return the reserved attributes, checked against the seal; `history` is the parsed provenance."""
    attributes: dict[str, Any] = {name: file.attrs[name] for name in sorted(RESERVED - VERSIONS) if name in file.attrs}
    numbers = {name: hdf5_guard.integer_attribute(file, name) for name in sorted(VERSIONS) if name in file.attrs}
    plain = all(isinstance(text, str) for text in attributes.values()) and None not in numbers.values()
    attributes |= numbers
    if not plain or attributes.get("format") != "herd" or attributes.get("kind") != sealed_kind or "kind-version" not in attributes:
        raise DataError(
            "the root attributes do not match the seal", where=where, hint="if you edited it on purpose, seal it again: herd seal FILE"
        )
    require_known_version(attributes.get("format-version", 1), where=where)
    attributes["history"] = parse_history(str(attributes.get("provenance", "[]")), where=where)
    return attributes


def require_known_version(version: Any, *, where: str) -> None:
    """Raise DataError for files of a format newer than this program."""
    if int(version) > FORMAT_VERSION:
        hint = "update with: pip install --upgrade herdcli"
        raise DataError(f"has the format version {version}, but this version of herd reads only {FORMAT_VERSION}", where=where, hint=hint)


def parse_history(text: str, *, where: str) -> list[HistoryRecord]:
    """Parse the provenance list of an artifact from its JSON text."""
    try:
        history = json.loads(text)
        # 1e999 is read as an infinity, \\ud800 as a lone surrogate: no record can be written with them
        json.dumps(history, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        history = None
    if not isinstance(history, list) or not all(map(_is_history_record, history)):
        raise DataError("the provenance is not a JSON list of records", where=where, hint="make the file again")
    return history


def _is_history_record(stage: Any) -> bool:
    """Return whether a record has the form of `provenance.make_history_record` in the fields that are used."""
    if not isinstance(stage, dict) or not all(isinstance(stage.get(name, ""), str) for name in ("software", "version", "command")):
        return False
    inputs = stage.get("inputs", [])
    whole = isinstance(stage.get("parameters", {}), dict) and isinstance(inputs, list)
    return whole and all(isinstance(item, dict) and all(isinstance(text, str) for text in item.values()) for item in inputs)
