"""A folder of Parquet files, as Spark, Dask and pandas write tables in parts: the parts are read in the order of their names.

Folders KEY=VALUE, by which a table is partitioned, become columns.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from herdcli.artifacts.byte_sources import open_source
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.formats import parquet_files
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.tables.dataset_columns import dataset_from_table
from herdcli.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".parquet", ".pq")
DEEPEST = 4  # nesting levels of folders KEY=VALUE
_PART = re.compile(r"([^=]+)=(.*)")
EMPTY = "__HIVE_DEFAULT_PARTITION__"


def list_parquet_files(folder: str) -> list[Path]:
    """Return the Parquet files of a folder, and of folders KEY=VALUE in it, by name; hidden files and success markers are left out."""
    root = Path(folder)
    found: list[Path] = []
    for depth in range(DEEPEST + 1):
        for path in root.glob("/".join(["*"] * (depth + 1))):
            inner = path.relative_to(root).parts
            divided = all(_PART.fullmatch(part) for part in inner[:-1])
            if divided and path.suffix.lower() in SUFFIXES and not path.name.startswith((".", "_")) and path.is_file():
                found.append(path)
    return sorted(found)


def read_folder(folder: str, paths: list[Path], options: LoadOptions) -> tuple[Dataset, str, int]:
    """Return the data set of all parts, the digest of their names and bytes, and their size.

    Raises DataError for a part whose columns differ from those of the first part in their names, or have incompatible types.
    """
    import pyarrow as pa

    parts: list[pa.Table] = []
    running, size, left = hashlib.sha256(), 0, options.limit
    for path in paths:
        with open_source(str(path), limit=options.limit) as source:
            running.update(f"{path.relative_to(folder)} {source.sha256}\n".encode("utf-8", "surrogateescape"))
            size += source.size
        table = _add_partition_columns(
            parquet_files.read_foreign_table(str(path), left, where=str(path)), path.relative_to(folder).parts[:-1]
        )
        left -= table.nbytes
        if parts and table.column_names != parts[0].column_names:
            raise DataError(
                f"has other columns than {paths[0].relative_to(folder)}",
                where=str(path),
                hint="remove the file, or convert it to the same columns",
            )
        parts.append(table.replace_schema_metadata(None))
    try:
        whole = pa.concat_tables(parts, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(
            f"the files have columns of different types ({reason})", where=folder, hint="convert all of them in the same way"
        ) from error
    if others := _other_files(Path(folder)):
        options.note(f"{folder}: {len(paths)} Parquet files are read; ignored {', '.join(others[:8])}{' …' if len(others) > 8 else ''}")
    options.account.append(f"{len(paths)} files")
    return dataset_from_table(whole, {}, where=folder, options=options), running.hexdigest(), size


def _other_files(root: Path) -> list[str]:
    """Return the names of other files next to the Parquet files, except hidden files and success markers."""
    return sorted(
        path.name
        for path in root.iterdir()
        if not path.name.startswith((".", "_")) and path.is_file() and path.suffix.lower() not in SUFFIXES
    )


def _add_partition_columns(table: pa.Table, folders: tuple[str, ...]) -> pa.Table:
    """Add a column for each folder KEY=VALUE above a part: whole numbers if the value is one, else text."""
    import pyarrow as pa

    for folder in folders:
        key, value = (unquote(text) for text in folder.split("=", 1))
        cell: str | int | None = None if value == EMPTY else int(value) if re.fullmatch(r"-?(?:0|[1-9]\d{0,17})", value) else value
        if key not in table.column_names:
            table = table.append_column(key, pa.array([cell] * table.num_rows))
    return table
