"""Parquet: artifacts as tables with a seal in their metadata, and tables of users as data sets.

A sealed Parquet file has its kind, version, history and scalar fields as JSON under the metadata
key `herd`, and under `herd.sha256` the SHA-256 of the whole file, computed with zeros in the place of
the 64 digits of the digest itself.  Page checksums are written, and verified if a file has them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from herdcli import __version__
from herdcli.artifacts import memory_budget
from herdcli.artifacts.dataset import Dataset, rechunk
from herdcli.artifacts.formats.mapped_table import MappedTable, map_table
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.recoding import Recoding
from herdcli.artifacts.rows import row_groups
from herdcli.artifacts.sealed import seal_header, sealed_hdf5, table_codec
from herdcli.artifacts.tables.dataset_columns import dataset_from_table, unread_columns
from herdcli.errors import DataError, HerdError
from herdcli.kind_entry import Kind
from herdcli.kinds import find_kind, upgrade
from herdcli.records import HistoryRecord
from herdcli.schema import check_arrays

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

KEY, DIGEST_KEY = b"herd", b"herd.sha256"
ZEROS = b"0" * 64
FORMAT_MARK = b'"format": "herd"'
STREAM = b"\xff\xff\xff\xff"  # the first bytes of an Arrow stream
ROW_GROUP_BYTES = 1 << 26


def write_table(
    path: str | os.PathLike[str], kind: Kind, value: Any, history: list[HistoryRecord], leading: Sequence[str] = (), **extra: str
) -> None:
    """Write an artifact whose arrays share their rows as sealed Parquet.  leading: further columns that come first.

    extra: texts stored next to the value.
    """
    import pyarrow.parquet as pq

    check_arrays(value)
    table, fields = table_codec.to_table(value)
    if leading:
        first = [table_codec.extra_column_name(name) for name in leading]
        table = table.select([*first, *(name for name in table.column_names if name not in first)])
    rows = max(1, ROW_GROUP_BYTES * max(1, table.num_rows) // max(1, table.nbytes))
    with pq.ParquetWriter(path, table.schema, compression="none", write_page_checksum=True, store_schema=True) as writer:
        writer.write_table(table, row_group_size=rows)
        writer.add_key_value_metadata(_schema_metadata(kind, history, fields, extra))
    seal_file(path)


def _schema_metadata(kind: Kind, history: list[HistoryRecord], fields: dict[str, Any], extra: dict[str, str]) -> dict[str, str]:
    """Return the metadata of the schema, with space for the digest."""
    attributes = {
        "format": "herd",
        "format-version": sealed_hdf5.FORMAT_VERSION,
        "kind": kind.name,
        "kind-version": kind.version,
        "generated-by": f"herdcli {__version__}",
        "provenance": history,
        "fields": fields,
        **extra,
    }
    text = json.dumps(attributes, ensure_ascii=False, allow_nan=False, sort_keys=True)
    return {KEY.decode(): text, DIGEST_KEY.decode(): ZEROS.decode()}


def write_parts(path: str | os.PathLike[str], kind: Kind, parts: Iterable[Dataset], rows: int, history: list[HistoryRecord]) -> None:
    """Write a data set of `rows` rows that arrives in parts as sealed Parquet; the bytes are those of the data set written at once."""
    import pyarrow.parquet as pq

    coming = iter(parts)
    first = next(coming)
    table, fields = table_codec.to_table(first)
    words = sum(column.chunk(0).dictionary.nbytes for column in table.columns if hasattr(column.type, "index_type"))
    schema, size = table.schema, words + (table.nbytes - words) * rows // table.num_rows
    groups = rechunk(chain([first], coming), min(rows, max(1, ROW_GROUP_BYTES * rows // max(1, size))))
    del table, first
    with pq.ParquetWriter(path, schema, compression="none", write_page_checksum=True, store_schema=True) as writer:
        for group in groups:
            check_arrays(group)
            writer.write_table(table_codec.to_table(group)[0], row_group_size=max(1, len(group.X)))
            del group
        writer.add_key_value_metadata(_schema_metadata(kind, history, fields, {}))
    seal_file(path)


def seal_file(path: str | os.PathLike[str]) -> None:
    """Write the digest of a Parquet file that has space for it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        place = find_digest(descriptor)
        if place is None:
            raise DataError(
                "cannot be sealed, because it was not written by herd",
                where=str(path),
                hint="turn a data set into a sealed artifact: herd convert FILE -o NEW.parquet",
            )
        os.pwrite(descriptor, compute_digest(descriptor, place).encode(), place)
    finally:
        os.close(descriptor)


def find_digest(descriptor: int) -> int | None:
    """Return the position of the 64 digits of the digest in an open Parquet file; None if it has no digest.

    The footer is Thrift: the key, then 0x18 (a string follows), 0x40 (64 bytes).
    """
    footer, start = _read_footer(descriptor)
    found = footer.rfind(DIGEST_KEY + b"\x18\x40")
    return None if found < 0 else start + found + len(DIGEST_KEY) + 2


def _read_footer(descriptor: int) -> tuple[bytes, int]:
    """Return the bytes of the metadata, and their position."""
    size = os.fstat(descriptor).st_size
    length = int.from_bytes(os.pread(descriptor, 4, size - 8), "little") if size >= 12 else 0
    start = max(4, size - 8 - length)
    return os.pread(descriptor, size - 8 - start, start), start


def compute_digest(descriptor: int, digest_position: int) -> str:
    """Return the SHA-256 of the file in hex, with zeros in the place of the digest's own digits."""
    running, position = hashlib.sha256(), 0
    for piece in seal_header.read_pieces(descriptor):
        low, high = max(digest_position - position, 0), min(digest_position + 64 - position, len(piece))
        if low < high:
            piece[low:high] = ZEROS[: high - low]
        running.update(piece)
        position += len(piece)
    return running.hexdigest()


def stated_digest(path: str, *, where: str) -> str | None:
    """Return the digest that a sealed Parquet file states, without verifying it; None if the file is unsealed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        place = _seal_position(descriptor, where)
        return None if place is None else os.pread(descriptor, 64, place).decode("ascii", "replace")
    finally:
        os.close(descriptor)


def verify_seal(path: str, *, where: str) -> str | None:
    """Return the digest of a sealed Parquet file after verifying it; None if the file is unsealed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        place = _seal_position(descriptor, where)
        if place is None:
            return None
        digest = os.pread(descriptor, 64, place).decode("ascii", "replace")
        if compute_digest(descriptor, place) != digest:
            raise DataError("the contents do not match the seal (SHA-256 differs)", where=where, hint=seal_header.RESEAL_HINT)
        return digest
    finally:
        os.close(descriptor)


def _seal_position(descriptor: int, where: str) -> int | None:
    """Return the position of the digest of an open file; None if the file is unsealed."""
    size = os.fstat(descriptor).st_size
    if size < 12 or os.pread(descriptor, 4, size - 4) != b"PAR1":
        raise DataError("the Parquet file is cut short", where=where, hint=seal_header.DAMAGED_HINT)
    place = find_digest(descriptor)
    if place is None and FORMAT_MARK in _read_footer(descriptor)[0]:  # an artifact in which the key of the digest itself is damaged
        raise DataError("the file is damaged: its herd metadata has no seal", where=where, hint=seal_header.RESEAL_HINT)
    return place


def read_table(
    path: str,
    sealed: bool,
    *,
    where: str,
    options: LoadOptions,
) -> tuple[str, Any, list[HistoryRecord], Recoding]:
    """Return kind, value, history and recoding of columns of a Parquet file that passed `verify_seal`."""
    found, metadata = _read_table_and_metadata(path, sealed, options.limit, where, None if sealed else options)
    if not sealed:
        attributes = _parse_attributes(metadata)
        value = dataset_from_table(found.table, attributes, where=where, options=options, release=found.release)
        return "dataset", value, [], Recoding()
    return _decode_table(found.table, metadata[KEY], where)


def read_foreign_table(path: str, limit: int, *, where: str) -> pa.Table:
    """Return the table of an unsealed Parquet file, or only the columns of a sealed one."""
    return _read_table_and_metadata(path, verify_seal(path, where=where) is not None, limit, where)[0].table


def _read_table_and_metadata(
    path: str, sealed: bool, limit: int, where: str, options: LoadOptions | None = None
) -> tuple[MappedTable, dict[bytes, bytes]]:
    """Return the table and the metadata of a Parquet file.  A large table is mapped.

    options  if --columns or --drop leave columns out, these are not read: they hold nulls in the table.
    """
    import pyarrow as pa

    try:
        with row_groups.open_parquet(path) as file:
            metadata = dict(file.metadata.metadata or {})
            if (KEY in metadata) != sealed:
                raise DataError("the file is damaged: its herd metadata has no seal", where=where, hint=seal_header.RESEAL_HINT)
            names = file.schema_arrow.names
            left_out = (
                set(unread_columns(file.schema_arrow, options, where)) if options is not None and options.roles.selects_columns else set()
            )
            wanted = [name for name in names if name not in left_out] or names
            _require_memory(file, wanted, limit, where)
            part = wanted if len(wanted) < len(names) else None
            found = map_table(file, part) or MappedTable(file.read(part, use_threads=False), lambda: None)
            found = found if part is None else replace(found, table=_with_unread_columns(found.table, names))
            found.table.validate(full=True)  # text that is not UTF-8 would fail later, cell by cell
            _require_decoded_memory(found.table, limit, where)
    except (HerdError, MemoryError):
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"the Parquet file cannot be read ({reason})", where=where, hint=seal_header.DAMAGED_HINT) from error
    return found, metadata


def read_arrow(
    path: str,
    *,
    where: str,
    options: LoadOptions,
) -> Dataset:
    """Read the data set of an Arrow IPC (Feather 2) file, or of an Arrow stream stored in a file."""
    import pyarrow as pa

    try:
        memory_budget.require_memory(os.path.getsize(path), options.limit, where=where)
        with pa.OSFile(path) as file:
            streamed = file.read(len(STREAM)) == STREAM
            file.seek(0)
            opened = pa.ipc.open_stream if streamed else pa.ipc.open_file
            table = opened(file, options=pa.ipc.IpcReadOptions(use_threads=False)).read_all()
            table.validate(full=True)
    except (HerdError, MemoryError):
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"the Arrow file cannot be read ({reason})", where=where, hint="it may be cut short or damaged") from error
    return dataset_from_table(table, _parse_attributes(dict(table.schema.metadata or {})), where=where, options=options)


def write_plain_table(table: pa.Table, path: str) -> None:
    """Write a pyarrow.Table as a Parquet file without a seal: a table that is no data set."""
    import pyarrow.parquet as pq

    pq.write_table(table, path, compression="zstd")


def _with_unread_columns(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return a table with all columns of its file; those that it lacks hold nulls, which take no memory."""
    import pyarrow as pa

    there = set(table.column_names)
    columns = [table.column(name) if name in there else pa.nulls(table.num_rows) for name in names]
    return pa.Table.from_arrays(columns, names=list(names), metadata=table.schema.metadata)


def _require_memory(file: pq.ParquetFile, names: Sequence[str], limit: int, where: str) -> None:
    """Raise an error before reading columns that need too much memory: fixed widths by the schema, the rest by the page sizes."""
    import pyarrow as pa

    rows, declared, every = file.metadata.num_rows, 0, file.schema_arrow.names
    for field in file.schema_arrow if len(names) == len(every) else [file.schema_arrow.field(name) for name in names]:
        kind, width = field.type, 1
        while pa.types.is_fixed_size_list(kind):
            kind, width = kind.value_type, width * kind.list_size
        if pa.types.is_primitive(kind):
            declared += rows * width * max(1, kind.bit_width // 8)
    groups = [file.metadata.row_group(group) for group in range(file.metadata.num_row_groups)]
    if len(names) == len(every):
        stored = sum(group.total_byte_size for group in groups)
    else:  # no column is nested, so that the numbers of columns are those of the schema
        places = [every.index(name) for name in names]
        stored = sum(group.column(place).total_uncompressed_size for group in groups for place in places)
    memory_budget.require_memory(max(declared, stored), limit, where=where)


def _require_decoded_memory(table: pa.Table, limit: int, where: str) -> None:
    """Raise an error for dictionary-encoded texts that would exceed the limit if each row had its own text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    total = 0
    for column in table.columns:
        if not (pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type)):
            continue
        for chunk in column.chunks:
            total += pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0
    memory_budget.require_memory(total, limit, where=where)


def _parse_attributes(metadata: dict[bytes, bytes]) -> dict[str, Any]:
    """Return the attributes that users store in the metadata of the schema."""
    found: dict[str, Any] = {}
    for name in ("value_range", "image_shape", "units", "source", "licence"):
        text = metadata.get(name.encode(), b"").decode("utf-8", "replace")
        if text:
            try:
                found[name] = json.loads(text) if name in ("value_range", "image_shape") else text
            except ValueError:
                continue
    return found


def declared_attributes(file: pq.ParquetFile) -> dict[str, Any]:
    """Return the declarations of an open Parquet file about all rows: value_range, image_shape, units and named.

    `named` is whether its columns have names.
    """
    metadata = dict(file.metadata.metadata or {})
    if KEY not in metadata:
        return _parse_attributes(metadata)
    try:
        fields = dict(json.loads(metadata[KEY])["fields"])
    except (LookupError, RecursionError, TypeError, ValueError):
        return {}  # the reader of the file reports the error
    arrays = {name: fields[name]["values"] for name in ("value_range", "image_shape") if isinstance(fields.get(name), dict)}
    return {"units": fields.get("units", "real"), "named": "feature_names" in fields} | arrays


def read_history_and_recoding(file: pq.ParquetFile, where: str) -> tuple[list[HistoryRecord], Recoding]:
    """Return history and recoding of columns of an open Parquet file with a data set; both are empty for a foreign file."""
    text = dict(file.metadata.metadata or {}).get(KEY)
    if text is None:
        return [], Recoding()
    try:
        attributes = json.loads(text)
        kind, history = str(attributes["kind"]), sealed_hdf5.parse_history(json.dumps(attributes["provenance"]), where=where)
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise DataError(f"the herd metadata cannot be read ({error})", where=where) from error
    if kind != "dataset":
        raise DataError(f"is of kind {kind}, but must be of kind dataset", where=where)
    return history, Recoding.from_json(str(attributes["recoding"]), where=where) if "recoding" in attributes else Recoding()


def _decode_table(table: pa.Table, text: bytes, where: str) -> tuple[str, Any, list[HistoryRecord], Recoding]:
    try:
        attributes = json.loads(text)
        sealed_hdf5.require_known_version(attributes["format-version"], where=where)
        history, kind = (
            sealed_hdf5.parse_history(json.dumps(attributes["provenance"]), where=where),
            find_kind(attributes["kind"], where=where),
        )
        version, fields = int(attributes["kind-version"]), attributes["fields"]
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise DataError(f"the herd metadata cannot be read ({error})", where=where) from error
    value = table_codec.from_table(table, fields, kind.dataclass_of_version(version, where=where), where=where)
    check_arrays(value, where=where)
    recoding = Recoding.from_json(str(attributes["recoding"]), where=where) if "recoding" in attributes else Recoding()
    return kind.name, upgrade(value, kind, version), history, recoding
