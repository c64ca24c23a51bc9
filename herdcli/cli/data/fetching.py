"""The output of data sets: the one in the package, and those that are downloaded, singly or all."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from herdcli.algorithm import RunProgress
from herdcli.artifacts.load_save import output_format
from herdcli.cli.frame.output import outputs
from herdcli.datasets import cache, registry
from herdcli.errors import BadUsage, HerdError, Unreachable

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.artifacts.dataset import Dataset
    from herdcli.cli.frame.run.console import Console, ProgressDisplay
    from herdcli.cli.frame.run.session import Session
    from herdcli.datasets.registry import DatasetEntry

KILOBYTE = 1000


class ConsoleReporter:
    """A context manager that reports the work on data sets on the console."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.display: ProgressDisplay | None = None

    def __enter__(self) -> ConsoleReporter:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.display is not None:
            self.display.__exit__(*exc)
            self.display = None

    def note(self, message: str) -> None:
        """Print one line for the user."""
        self.console.note(message)

    def warn(self, message: str) -> None:
        """Print a warning of one line."""
        self.console.warn(message)

    def progress(self, file: str) -> Callable[[int, int | None], None]:
        """Return a function that shows the progress of this file in kilobytes; the display of the file before ends."""
        self.__exit__(None, None, None)
        display = self.display = self.console.progress(file)

        def report(here: int, total: int | None) -> None:
            bound = None if total is None else max(total // KILOBYTE, 1)
            display.show(RunProgress(here // KILOBYTE, bound, "kB"))

        return report


def write_shipped_dataset(session: Session, name: str) -> None:
    """Write the data set of the package unchanged, or in the format of the output's suffix."""
    outputs.check_artifact_output(session, "dataset")
    with as_file(files("herdcli.data") / f"{name}.h5") as shipped:
        if output_format(session.output, None, "dataset") == "hdf5":
            outputs.write_side_file(session, session.output, partial(_copy_dataset, shipped))
            return
        found = session.load(str(shipped), "data", kinds={"dataset"})
        _write_dataset(session, found, found.value)


def write_downloaded_dataset(session: Session, entry: DatasetEntry, *, accept_licence: bool) -> None:
    """Write a data set of the papers as a sealed artifact; for one that is a folder, print its path."""
    if entry.is_folder and session.output != "-":
        raise BadUsage(
            f"{entry.name} is a folder of files, which -o cannot write",
            hint=f"herd data {entry.name} --where prints where they are",
        )
    if not entry.is_folder:
        outputs.check_artifact_output(session, "dataset")
    with ConsoleReporter(session.console) as reporter:
        path = cache.default_cache().find_or_download(entry, reporter, accept_licence=accept_licence)
    if entry.is_folder:
        session.console.note(f"{entry.name}: {len(entry.sources)} files in {path}")
    else:
        found = session.load(str(path), "data", kinds={"dataset"})
        names = cache.read_feature_names(entry, path)
        _write_dataset(session, found, replace(found.value, source=entry.origin, licence=entry.licence, feature_names=names))


def _write_dataset(session: Session, artifact: Artifact, value: Dataset) -> None:
    outputs.write_artifact(session, value, f"{value.X.shape[0]} rows", history=outputs.RestoredHistory(artifact))


def download_paper_datasets(session: Session, *, accept_licence: bool) -> None:
    """Download every data set that the figures and tables need; failures are reported and the others continue."""
    found = cache.default_cache()
    wanted = list(registry.datasets_for_results())
    missing = [entry for entry in wanted if not found.is_finished(entry)]
    unaccepted = [entry for entry in missing if entry.restricted and not accept_licence]
    session.console.note(_download_plan_text(found, wanted, missing))
    failures = []
    with ConsoleReporter(session.console) as reporter:
        for entry in missing:
            if entry in unaccepted:
                session.console.note(f"{entry.name} is not downloaded, because its licence needs --accept-licence: {entry.licence}")
                continue
            try:
                found.find_or_download(entry, reporter, accept_licence=accept_licence)
            except HerdError as error:
                session.console.print_error(f"{entry.name}: {error}", error.hint)
                failures.append(entry.name)
    if failures:
        raise Unreachable(f"{len(failures)} of {len(wanted)} sets could not be downloaded: {', '.join(failures)}")
    if unaccepted:
        names = ", ".join(entry.name for entry in unaccepted)
        raise BadUsage(
            f"these data sets need an accepted licence: {names}", hint="if your use is allowed: herd data --all --accept-licence"
        )


def _download_plan_text(cache_folder: cache.Cache, entries: list[DatasetEntry], missing: list[DatasetEntry]) -> str:
    """Return one line on the downloads to do."""
    there = f"{len(entries) - len(missing)} of {len(entries)} sets are in {cache_folder.folder}"
    if not missing:
        return there
    size = cache.format_megabytes(sum(entry.download_size for entry in missing))
    unknown = sum(source.size is None for entry in missing for source in entry.sources)
    rest = f" and {unknown} files of unknown size" if unknown else ""
    kept = cache.format_megabytes(sum(entry.size for entry in missing))
    return f"{there}; {len(missing)} to download: {size}{rest}, {kept} when converted"


def _copy_dataset(shipped: Path, target: Path) -> None:
    shutil.copyfile(shipped, target)
