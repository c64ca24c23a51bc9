"""The table of data sets.  Each set has a file of its own under sets/, with its description and its conversion."""

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
class PublishedFile:
    """One published file.

    file     its name in the folder of sources.
    urls     where it is published, in the order in which they are tried.
    size     bytes; None if the archive is generated on request and its size is not fixed.
    sha256   None if no digest of the published file is known; then only the digest of the arrays is checked.
    """

    file: str
    urls: tuple[str, ...]
    size: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class DatasetEntry:
    """The description of a data set.

    name             on the command line.
    file             the file of the finished set, relative to the folder of sets; for `networks`, the folder.
    rows, columns    the shape of X; 0 for a set that is not a table.
    size             bytes of the finished set, rounded.
    description      one line.
    figures          the figures and tables that use it.
    licence          as stated by the source.
    restricted       no licence is stated, or it allows research or non-commercial use only: --accept-licence is required.
    origin           the place of publication, for readers.
    sources          the published files.
    digest           SHA-256 of the arrays (`digests.arrays_digest`), None for a set of files that have their own.
    attributes       of the HDF5 file.
    packages         optional packages that the conversion imports.
    feature_names    the name of the array with the column names, if there is one.
    checked          the conversion was compared with the published files; otherwise arrays that differ are reported, not refused.
    convert          published files by name -> arrays; None if the published files are kept unchanged.
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
    sources: tuple[PublishedFile, ...]
    digest: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    feature_names: str | None = None
    checked: bool = True
    convert: Convert | None = None

    @property
    def is_folder(self) -> bool:
        """Whether the finished set is a folder of files."""
        return self.columns == 0

    @property
    def download_size(self) -> int:
        """The total bytes of the sources whose size is known."""
        return sum(source.size or 0 for source in self.sources)


def dataset_names() -> tuple[str, ...]:
    """Return the names of all sets."""
    return tuple(MODULES)


def find_dataset(name: str) -> DatasetEntry:
    """Return the set with this name.  Raises BadUsage if there is none."""
    if name not in MODULES:
        raise BadUsage(f"there is no data set '{name}'", hint="list them: herd data --list")
    found: DatasetEntry = import_module(f"herdcli.datasets.sets.{MODULES[name]}").ENTRY
    return found


def all_datasets() -> Iterator[DatasetEntry]:
    """Yield all sets, in the order of the list."""
    return map(find_dataset, MODULES)


def datasets_for_results() -> Iterator[DatasetEntry]:
    """Yield the sets that the figures and tables of the papers need."""
    return (each for each in all_datasets() if each.figures)
