"""The table of data sets.  A set is described in a file of its own under sets/, which also converts it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from importlib import import_module
from pathlib import Path
from typing import Any

from herdcli.errors import BadUsage
from herdcli.records import dataclass

GITHUB = "https://raw.githubusercontent.com"
Arrays = dict[str, Any]  # NumPy arrays and lists of texts by their names in the HDF5 file; X/data, X/indices and X/indptr of CSR
Convert = Callable[[Mapping[str, Path]], Arrays]

# name on the command line -> module under sets/, in the order of the list
MODULES: dict[str, str] = {
    "usps": "usps",
    "eights": "eights",
    "mnist": "mnist",
    "olivetti": "olivetti",
    "orl": "orl",
    "yale": "yale",
    "natural": "natural",
    "patches": "patches",
    "speech": "speech",
    "music": "music",
    "phoneme": "phoneme",
    "spam": "spam",
    "newsgroups": "newsgroups",
    "r8": "r8",
    "reviews": "reviews",
    "news_w100": "news_w100",
    "a9a": "a9a",
    "a9a.t": "a9a_test",
    "w8a": "w8a",
    "networks": "networks",
}


@dataclass(frozen=True, kw_only=True)
class Source:
    """One published file.

    file     its name in the folder of sources.
    urls     where it is published, in the order in which they are tried.
    size     bytes, None where the archive is made on request and its size is not fixed.
    sha256   None where no digest of the published file is known; then the digest of the arrays alone is checked.
    """

    file: str
    urls: tuple[str, ...]
    size: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class DatasetEntry:
    """What a set is.

    name             on the command line.
    file             of the finished set, relative to the folder of sets; of `networks`, the folder.
    rows, columns    of X; 0 for a set that is no table.
    size             bytes of the finished set, in round figures.
    description      one line.
    figures          the figures and tables that are made of it.
    licence          as stated by the source.
    restricted       no licence is stated, or it allows research or non-commercial use only: --accept-licence is asked.
    origin           where it is published, for people.
    sources          the published files.
    digest           SHA-256 of the arrays (`digests.digest_of_arrays`), None for a set of files that have their own.
    attributes       of the HDF5 file.
    packages         optional packages that the conversion imports.
    feature_names    the array of the names of the columns, where there is one.
    checked          the conversion was compared with the published files; elsewhere arrays that differ are reported, not refused.
    convert          published files by name -> arrays; None where the published files are kept as they are.
    """

    name: str
    file: str
    rows: int
    columns: int
    size: int
    description: str
    figures: str
    licence: str
    restricted: bool
    origin: str
    sources: tuple[Source, ...]
    digest: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    feature_names: str | None = None
    checked: bool = True
    convert: Convert | None = None

    @property
    def is_folder(self) -> bool:
        """Is the finished set a folder of files?"""
        return self.columns == 0

    @property
    def download_size(self) -> int:
        """Bytes of the sources whose size is known."""
        return sum(source.size or 0 for source in self.sources)


def names() -> tuple[str, ...]:
    """The names of all sets."""
    return tuple(MODULES)


def entry(name: str) -> DatasetEntry:
    """The set of this name.  Raises BadUsage."""
    if name not in MODULES:
        raise BadUsage(f"no data set '{name}'", hint="herd data --list shows them")
    found: DatasetEntry = import_module(f"herdcli.datasets.sets.{MODULES[name]}").ENTRY
    return found


def entries() -> Iterator[DatasetEntry]:
    """All sets, in the order of the list."""
    return map(entry, MODULES)


def needed_for_results() -> Iterator[DatasetEntry]:
    """The sets that figures and tables of the papers are made of."""
    return (each for each in entries() if each.figures)
