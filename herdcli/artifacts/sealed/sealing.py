"""The commands `herd check` and `herd seal`: verifying a file against its seal, and a new seal after an intended edit."""

from __future__ import annotations

import shutil

from herdcli import kinds
from herdcli.artifacts import hdf5_guard, load_save, memory_budget
from herdcli.artifacts.atomic_output import atomic_file
from herdcli.artifacts.byte_sources import ByteSource, open_source
from herdcli.artifacts.dataset import Dataset, validate
from herdcli.artifacts.formats import format_detection, parquet_files
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.sealed import seal_header
from herdcli.errors import DataError, HerdError
from herdcli.records import dataclass


@dataclass(frozen=True)
class SealVerdict:
    """The result of an integrity check of a file.

    kind  the artifact's kind, None if unsealed or damaged.  code  the resulting exit code.
    message, hint  one line each; empty if the file is valid.
    """

    name: str
    kind: str | None
    sealed: bool
    code: int
    message: str = ""
    hint: str | None = None


def check_file(path: str, *, seal_only: bool = False, max_memory: int | None = None) -> SealVerdict:
    """Verify a file's seal and, without `seal_only`, that its contents are valid for its kind.

    "-" is stdin.  max_memory: the most bytes of the contents.  Never raises HerdError: the verdict reports errors.
    """
    shown = "stdin" if path == "-" else path
    limit = max_memory or memory_budget.default_memory_limit()
    try:
        with open_source(path, limit=limit) as source:
            kind = _verify_kind(source, None if seal_only else limit)
    except HerdError as error:
        return SealVerdict(shown, None, False, error.exit_code, str(error), error.hint)
    if kind is None:
        return SealVerdict(shown, None, False, 0, f"{shown}: unsealed data set, nothing to verify")
    return SealVerdict(shown, kind, True, 0)


def _verify_kind(source: ByteSource, limit: int | None) -> str | None:
    """Return the kind of a valid sealed file, or None for an unsealed data set.  Raises DataError for other files.

    limit  the most bytes of its contents when they are read; None: only the seal is verified.
    """
    stated = seal_header.parse_seal(source.head, where=source.name)
    if stated is not None:
        if limit is not None:
            return load_save.verify_hdf5(source, stated, limit=limit)
        digest = source.drain_and_digest()
        seal_header.verify_seal(stated, source.size, digest, where=source.name)
        return stated.kind
    form = format_detection.detect_format(source.head, source.name)
    if form == "hdf5":
        format_detection.refuse_damaged_seal(source.head, source.name)
    return _parquet_kind(source, limit) if form == "parquet" else None


def _parquet_kind(source: ByteSource, limit: int | None) -> str | None:
    with source.file_path() as path:
        sealed = parquet_files.verify_seal(path, where=source.name) is not None
        if not sealed or limit is None:
            return "table" if sealed else None
        kind, value, *_ = parquet_files.read_table(path, True, where=source.name, options=LoadOptions(limit, missing=True))
        if isinstance(value, Dataset):
            validate(value, where=source.name, missing=True)
        return kind


def write_new_seal(path: str) -> None:
    """Write a new seal on an artifact that was edited intentionally; the file is replaced atomically.

    The contents must be readable as their declared kind.  Raises DataError for a file that
    is not an artifact.
    """
    with open_source(path, limit=memory_budget.default_memory_limit()) as source:
        form = format_detection.detect_format(
            source.head[: seal_header.BLOCK].ljust(seal_header.BLOCK, b"\0") + source.head[seal_header.BLOCK :], path
        )
        if not source.regular or form not in ("hdf5", "parquet"):
            raise DataError(
                "cannot be sealed: only HDF5 and Parquet files on disk have seals",
                where=path,
                hint="write HDF5 with a seal: herd convert FILE -o NEW.h5",
            )
    kind = _declared_kind(path) if form == "hdf5" else ""  # before the copy is locked, because HDF5 needs its own lock
    with atomic_file(path) as temporary:
        shutil.copyfile(path, temporary)
        if form == "parquet":
            parquet_files.seal_file(temporary)
        else:
            seal_header.write_seal(temporary, kind)


def _declared_kind(path: str) -> str:
    """Return the kind that an HDF5 artifact declares at its root, after a check of its structure."""
    with open(path, "rb") as file:
        offset = format_detection.find_hdf5_signature(file.read(2 * seal_header.BLOCK))
    if offset != seal_header.BLOCK:
        hint = "turn a data set into an artifact: herd convert FILE -o SEALED.h5"
        raise DataError("is not a herd artifact: the HDF5 contents do not begin at byte 512", where=path, hint=hint)
    with hdf5_guard.open_guarded(path, where=path) as file:
        kind = hdf5_guard.text_attribute(file, "kind")
        if hdf5_guard.text_attribute(file, "format") != "herd" or kind not in {*kinds.KINDS, kinds.CHECKPOINT}:
            raise DataError(
                "the root attributes do not say which kind of artifact it is",
                where=path,
                hint="turn a data set into an artifact: herd convert FILE -o SEALED.h5",
            )
        return kind
