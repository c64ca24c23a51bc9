"""A zip archive with one table, as data portals distribute them; FILE.zip:NAME names one of several tables."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager

from herdcli.artifacts import memory_budget
from herdcli.artifacts.byte_sources import ByteSource
from herdcli.artifacts.library_errors import convert_library_errors, error_reason
from herdcli.errors import BadUsage, DataError

LISTED = 8


def _archive_members(archive: zipfile.ZipFile) -> list[str]:
    """Return the files of an archive, except hidden files and those that macOS adds."""
    # `is_dir` of zipfile fails for an empty name.
    names = [entry.filename for entry in archive.infolist() if entry.filename and not entry.filename.endswith("/")]
    return [name for name in names if not name.startswith("__MACOSX/") and not name.rpartition("/")[2].startswith(".")]


def has_no_numpy_arrays(path: str) -> bool:
    """Return whether a zip file contains no NumPy arrays."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = _archive_members(archive)
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return False
    return bool(names) and not any(name.endswith(".npy") for name in names)


@contextmanager
def open_member(path: str, member: str | None, *, where: str, limit: int) -> Iterator[ByteSource]:
    """Open one file of an archive: the named one, or the only one.  Raises BadUsage if there are several and none is named."""

    def damaged(error: Exception) -> DataError:
        return DataError(
            f"the archive cannot be read ({error_reason(error)})", where=where, hint="unpack it, and give the name of the file"
        )

    with convert_library_errors(("zipfile",), damaged), zipfile.ZipFile(path) as archive:
        names = _archive_members(archive)
        listed = ", ".join(names[:LISTED]) + (" …" if len(names) > LISTED else "")
        if member is None and len(names) > 1:
            raise BadUsage(
                f"has {len(names)} files, but herd reads one", where=where, hint=f"name one of {listed}, as in {where}:{names[0]}"
            )
        chosen = names[0] if member is None else member
        if chosen not in names:
            raise BadUsage("has no such file", where=where, hint=f"it holds {listed}")
        memory_budget.require_memory(archive.getinfo(chosen).file_size, limit, where=where)
        with archive.open(chosen) as stream:
            yield ByteSource(where if member is not None else f"{where}:{chosen}", stream, regular=False, limit=limit)  # type: ignore[arg-type]
