"""The files in a published archive, whose outermost folder may have any name."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from herdcli.errors import DataError


def read_members(path: Path, folder: str, suffix: str = "") -> Iterator[tuple[str, bytes]]:
    """Yield (name below `folder`, content) of the files of a zip or tar archive, in the order of the archive.

    folder  a path in the archive, "BSDS500/data/images/train"; any folders above it are ignored.  suffix: the ending of the names to read.
    """
    marker = f"/{folder.strip('/')}/" if folder else "/"
    for name, content in _read_zip(path, marker, suffix) if zipfile.is_zipfile(path) else _read_tar(path, marker, suffix):
        yield f"/{name}".partition(marker)[2], content


def _is_wanted_member(name: str, marker: str, suffix: str) -> bool:
    return marker in f"/{name}" and name.lower().endswith(suffix)


def _read_zip(path: Path, marker: str, suffix: str) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for item in archive.infolist():
            if not item.is_dir() and _is_wanted_member(item.filename, marker, suffix):
                yield item.filename, archive.read(item)


def _read_tar(path: Path, marker: str, suffix: str) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(path) as archive:
            for item in archive:
                if item.isfile() and _is_wanted_member(item.name, marker, suffix):
                    stream = archive.extractfile(item)
                    yield item.name, stream.read() if stream is not None else b""
    except tarfile.TarError as error:
        raise DataError("is not a zip or tar archive", where=str(path), hint="download it again") from error
