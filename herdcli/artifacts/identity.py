"""By which digests a history may know a file."""

from __future__ import annotations

import os

from herdcli.artifacts import files, memory, sniff, tables
from herdcli.artifacts.inputs import open_source


def digests(path: str) -> set[str]:
    """That of its seal, and of its bytes (uncompressed); of a folder or of IDX files with labels beside them the one of all.

    Raises NoInput, DataError.
    """
    if os.path.isdir(path):
        return {files.load(path).sha256}
    with open_source(path, limit=memory.default_limit()) as source:
        form = sniff.tell(source.head, source.name) if _told(source.head, source.name) else ""
        if form == "parquet":
            with source.file() as name:
                sealed = tables.verify(name, where=source.name)
                return {digest for digest in (sealed, source.sha256) if digest}
        found = {source.drained()}
    return found | {files.load(path).sha256} if form == "idx" else found


def _told(head: bytes, name: str) -> bool:
    """Is it of a format that data sets have?  Other inputs are texts of networks, scopes, evidence."""
    from herdcli.errors import HerdError

    try:
        sniff.tell(head, name)
    except HerdError:
        return False
    return True
