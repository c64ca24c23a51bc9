"""The folder of finished data sets: which sets it has, and how a set is added."""

from __future__ import annotations

import importlib.util
import os
import urllib.parse
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from herdcli.datasets.download import USUAL, DownloadLimits, fetch_file
from herdcli.datasets.registry import Arrays, DatasetEntry, PublishedFile
from herdcli.errors import BadUsage, CannotCreate, DataError, HerdError, Unreachable
from herdcli.records import dataclass

FOLDER, MIRROR = "HERD_DATA", "HERD_DATA_MIRROR"
SOURCES = "sources"  # the folder of published files
INSTALL = "pip install 'herdcli[data]'"
PACKAGES = {"PIL": "pillow"}  # import name -> name for pip
AGAIN = "remove it and try again"
OTHER_VALUES = "its values differ from those that the tables of the papers were computed with"
# errors raised by reading a file of an unexpected format
MALFORMED = (ArithmeticError, AttributeError, EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError, zlib.error)


class Reporter(Protocol):
    """The receiver of messages and progress from the work on a data set."""

    def note(self, message: str) -> None:
        """Print one line for the user."""

    def warn(self, message: str) -> None:
        """Print one line about something unexpected."""

    def progress(self, file: str) -> Callable[[int, int | None], None]:
        """Return a function that is called with the number of bytes downloaded so far, and the total number or None."""
        ...


@dataclass(frozen=True)
class Cache:
    """A folder of finished data sets.

    mirrors  addresses that are tried before the published ones, both for the finished set and for the published files.
    """

    folder: Path
    mirrors: tuple[str, ...] = ()
    patience: DownloadLimits = USUAL

    def path(self, entry: DatasetEntry) -> Path:
        """Return the path of the finished set, whether it exists or not."""
        return self.folder / entry.file

    def files(self, entry: DatasetEntry) -> list[Path]:
        """Return the files of the finished set."""
        path = self.path(entry)
        return [path / source.file for source in entry.sources] if entry.is_folder else [path]

    def is_finished(self, entry: DatasetEntry) -> bool:
        """Return whether the finished set exists."""
        return all(path.exists() for path in self.files(entry))

    def find_or_download(self, entry: DatasetEntry, reporter: Reporter, *, accept_licence: bool = False) -> Path:
        """Return the path of the finished set: an existing one, or a download that is converted and checked.

        Raises BadUsage if the licence has to be accepted or a package is missing, Unreachable, and DataError if files or arrays
        differ from the registry.
        """
        path = self.path(entry)
        if self.is_finished(entry):
            _check_finished_dataset(entry, path, reporter)
            return path
        if entry.restricted and not accept_licence:
            raise BadUsage(
                f"{entry.name} is not free to use for every purpose; licence: {entry.licence}",
                hint=f"if your use is allowed: herd data {entry.name} --accept-licence",
            )
        self._make_folder()
        reporter.note(f"{entry.name}: {describe_download(entry)}; licence: {entry.licence}")
        if entry.convert is None:
            self._fetch_unconverted_files(entry, reporter)
            _check_finished_dataset(entry, path, reporter)
        elif not self._fetch_finished(entry, reporter):
            _require_packages(entry)
            convert_and_write_dataset(entry, path, self._fetch_sources(entry, self.folder / SOURCES, reporter), reporter)
        return path

    def _make_folder(self) -> None:
        try:
            (self.folder / SOURCES).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            hint = f"set {FOLDER} to a folder that you can write to"
            raise CannotCreate(f"cannot be created: {error.strerror}", where=str(self.folder / SOURCES), hint=hint) from error

    def _download_addresses(self, source: PublishedFile, folder: str = "") -> list[str]:
        own = [f"{mirror}/{folder}{urllib.parse.quote(source.file)}" for mirror in self.mirrors]
        return [*own, *source.urls]

    def _fetch_sources(self, entry: DatasetEntry, folder: Path, reporter: Reporter) -> dict[str, Path]:
        inner = f"{entry.file}/" if entry.is_folder else ""
        return {
            source.file: fetch_file(source, folder, self._download_addresses(source, inner), reporter.progress(source.file), self.patience)
            for source in entry.sources
        }

    def _fetch_unconverted_files(self, entry: DatasetEntry, reporter: Reporter) -> None:
        """Download a set whose published files are kept unchanged."""
        self._fetch_sources(entry, self.path(entry) if entry.is_folder else self.folder, reporter)

    def _fetch_finished(self, entry: DatasetEntry, reporter: Reporter) -> bool:
        """Download the finished set from a mirror; return whether a mirror has it."""
        if not self.mirrors:
            return False
        finished = PublishedFile(file=entry.file, urls=())
        arrived = self.folder / SOURCES
        try:
            found = fetch_file(finished, arrived, self._download_addresses(finished), reporter.progress(entry.file), self.patience)
        except Unreachable:
            return False
        try:
            check_arrays(entry, _read_finished(entry, found), str(found), None)
            os.replace(found, self.path(entry))
        finally:
            found.unlink(missing_ok=True)
        return True


def default_cache() -> Cache:
    """Return the cache in the folder HERD_DATA, else in the user's cache folder.

    HERD_DATA_MIRROR has further addresses, separated by spaces.
    Raises BadUsage if there is neither HERD_DATA nor the package platformdirs.
    """
    mirrors = tuple(each.rstrip("/") for each in os.environ.get(MIRROR, "").split())
    named = os.environ.get(FOLDER)
    if named:
        return Cache(Path(named).expanduser(), mirrors)
    if importlib.util.find_spec("platformdirs") is None:
        raise BadUsage(
            "the package platformdirs, which finds your cache folder, is not installed", hint=f"{INSTALL}, or set {FOLDER} to a folder"
        )
    from platformdirs import user_cache_path

    return Cache(user_cache_path("herd") / "data", mirrors)


def describe_download(entry: DatasetEntry) -> str:
    """Return the size and the origin of the download, in a few words."""
    hosts = dict.fromkeys(urllib.parse.urlsplit(source.urls[0]).netloc for source in entry.sources)
    unknown = sum(source.size is None for source in entry.sources)
    size = format_megabytes(entry.download_size) if entry.download_size else ""
    rest = f"{unknown} file{'s' if unknown > 1 else ''} of unknown size" if unknown else ""
    return f"{' and '.join(filter(None, (size, rest)))} from {', '.join(hosts)}"


def format_megabytes(size: int) -> str:
    """Return a number of bytes as text in megabytes."""
    return f"{size / 1e6:.0f} MB" if size >= 9.5e6 else f"{size / 1e6:.1f} MB" if size >= 95_000 else f"{size / 1e3:.0f} kB"


def convert_and_write_dataset(entry: DatasetEntry, path: Path, files: dict[str, Path], reporter: Reporter) -> None:
    """Convert published files, check the arrays and write the finished set.  Raises DataError if the arrays differ from the registry."""
    from herdcli.artifacts.atomic_output import atomic_file
    from herdcli.datasets.hdf5_layout import write_arrays

    assert entry.convert is not None
    where = str(next(iter(files.values())))
    try:
        arrays = entry.convert(files)
    except HerdError:
        raise
    except MALFORMED as error:
        raise DataError(f"differs from the published file of {entry.name}: {error}", where=where, hint=AGAIN) from error
    check_arrays(entry, arrays, where, reporter)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(str(path)) as target:
        write_arrays(target, entry, arrays)


def _require_packages(entry: DatasetEntry) -> None:
    missing = [each for each in entry.packages if importlib.util.find_spec(each) is None]
    if missing:
        names = " and ".join(PACKAGES.get(each, each) for each in missing)
        raise BadUsage(f"the conversion of {entry.name} needs the package {names}", hint=INSTALL)


def _read_finished(entry: DatasetEntry, path: Path) -> Arrays:
    """Return the arrays of a finished set.  Raises DataError if the file cannot be read."""
    from herdcli.datasets.hdf5_layout import read_arrays, read_svmlight

    try:
        return read_arrays(path) if path.suffix == ".h5" else read_svmlight(path)
    except MALFORMED as error:
        raise DataError(f"cannot be read as the data set {entry.name} ({error})", where=str(path), hint=AGAIN) from error


def read_feature_names(entry: DatasetEntry, path: Path) -> list[str] | None:
    """Return the column names of a finished set, or None if it has none."""
    return None if entry.feature_names is None else list(_read_finished(entry, path)[entry.feature_names])


def check_arrays(entry: DatasetEntry, arrays: Arrays, where: str, reporter: Reporter | None) -> None:
    """Raise DataError unless the arrays agree with the registry.

    reporter  gets a warning if the values differ in a set whose conversion was not checked; without a reporter that is an error too.
    """
    from herdcli.datasets.digests import arrays_digest

    rows = len(arrays["X/indptr"]) - 1 if "X/indptr" in arrays else len(arrays["X"])
    columns = len(arrays["vocab"]) if "vocab" in arrays else arrays["X"].shape[1] if "X" in arrays else entry.columns
    if (rows, columns) != (entry.rows, entry.columns):
        raise DataError(f"has {rows} rows × {columns} columns, expected {entry.rows} × {entry.columns}", where=where, hint=AGAIN)
    if arrays_digest(arrays) == entry.digest:
        return
    if entry.checked or reporter is None:
        raise DataError(OTHER_VALUES, where=where, hint=AGAIN)
    reporter.warn(f"{entry.name}: {OTHER_VALUES}")


def _check_finished_dataset(entry: DatasetEntry, path: Path, reporter: Reporter) -> None:
    """Compare a finished set with the registry."""
    if entry.digest is None:  # files whose own digests were checked after the download
        return
    check_arrays(entry, _read_finished(entry, path), str(path), reporter)
