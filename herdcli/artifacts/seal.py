"""`herd check` and `herd seal`: is a file the one that was written, and a new seal after an edit on purpose."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from herdcli import kinds
from herdcli.artifacts import guard, header, memory, sniff, tables
from herdcli.artifacts.inputs import Source, open_source
from herdcli.artifacts.streams import publish
from herdcli.errors import DataError, HerdError


@dataclass(frozen=True)
class Verdict:
    """What is known of a file's integrity.

    kind  the artifact's, None if unsealed or damaged.  code  the exit code it asks for.
    message, hint  one line each; empty when all is well.
    """

    name: str
    kind: str | None
    sealed: bool
    code: int
    message: str = ""
    hint: str | None = None


def check_file(path: str) -> Verdict:
    """Read a file's digest, nothing else.  "-" is stdin.  Never raises HerdError: the verdict says it."""
    shown = "stdin" if path == "-" else path
    try:
        with open_source(path, limit=memory.default_limit()) as source:
            kind = _verified_kind(source)
    except HerdError as error:
        return Verdict(shown, None, False, error.exit_code, str(error), error.hint)
    if kind is None:
        return Verdict(shown, None, False, 0, f"{shown}: unsealed data set, nothing to verify")
    return Verdict(shown, kind, True, 0)


def _verified_kind(source: Source) -> str | None:
    """The kind of a sealed file whose bytes are right, None for an unsealed data set; DataError for others."""
    stated = header.parse(source.head, where=source.name)
    if stated is not None:
        digest = source.drained()
        header.verify(stated, source.size, digest, where=source.name)
        return stated.kind
    form = sniff.tell(source.head, source.name)
    if form == "hdf5":
        sniff.refuse_lost_seal(source.head, source.name)
    if form == "parquet":
        with source.file() as path:
            return "table" if tables.verify(path, where=source.name) else None
    return None


def reseal(path: str) -> None:
    """Write a new seal on an artifact that was edited on purpose, whole or not at all.

    The contents must be readable as the kind they say they are.  Raises DataError for a file that
    is no artifact.
    """
    with open_source(path, limit=memory.default_limit()) as source:
        form = sniff.tell(source.head[: header.BLOCK].ljust(header.BLOCK, b"\0") + source.head[header.BLOCK :], path)
        if not source.regular or form not in ("hdf5", "parquet"):
            raise DataError("only HDF5 and Parquet files on disk carry seals", where=path)
    kind = _kind_of(path) if form == "hdf5" else ""  # before the copy, which is locked, and HDF5 wants its own lock
    with publish(path) as temporary:
        shutil.copyfile(path, temporary)
        if form == "parquet":
            tables.seal_file(temporary)
        else:
            header.seal_file(temporary, kind)


def _kind_of(path: str) -> str:
    """The kind an HDF5 artifact declares on its root, after a look at its structure."""
    with open(path, "rb") as file:
        offset = sniff.hdf5_offset(file.read(2 * header.BLOCK))
    if offset != header.BLOCK:
        hint = "herd convert FILE -o SEALED.h5 makes an artifact of a data set"
        raise DataError("is no herd artifact: HDF5 does not begin after 512 bytes", where=path, hint=hint)
    with guard.opened(path, where=path) as file:
        kind = file.attrs.get("kind")
        if file.attrs.get("format") != "herd" or not isinstance(kind, str) or kind not in {*kinds.KINDS, kinds.CHECKPOINT}:
            raise DataError("the root attributes name no kind of artifact", where=path)
        return kind
