"""The digests by which a history may identify a file."""

from __future__ import annotations

import os

from herdcli.artifacts import load_save, memory_budget
from herdcli.artifacts.byte_sources import open_source
from herdcli.artifacts.formats import format_detection, parquet_files


def accepted_digests(path: str) -> set[str]:
    """Return the digests of the seal and of the (uncompressed) bytes; for a folder, or IDX files with labels, the joint digest.

    Raises NoInput, DataError.
    """
    if os.path.isdir(path):
        return {load_save.load(path).sha256}
    with open_source(path, limit=memory_budget.default_memory_limit()) as source:
        form = format_detection.detect_format(source.head, source.name) if _is_dataset_format(source.head, source.name) else ""
        if form == "parquet":
            with source.file_path() as name:
                sealed = parquet_files.verify_seal(name, where=source.name)
                return {digest for digest in (sealed, source.sha256) if digest}
        found = {source.drain_and_digest()}
    return found | {load_save.load(path).sha256} if form == "idx" else found


def _is_dataset_format(head: bytes, name: str) -> bool:
    """Return whether it is a format of data sets.  Other inputs are texts of networks, scopes, evidence."""
    from herdcli.errors import HerdError

    try:
        format_detection.detect_format(head, name)
    except HerdError:
        return False
    return True
