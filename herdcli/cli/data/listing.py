"""The list of data sets, and the paths where they are stored."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING

from herdcli.cli.data.request import SHIPPED
from herdcli.cli.frame.run.console import write_stdout
from herdcli.datasets import cache, registry
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session

NAME_WIDTH, SHAPE_WIDTH, SIZE_WIDTH = 12, 18, 8


def write_dataset_path(session: Session, name: str | None) -> None:
    """Print the path of a data set, whether or not it exists, or the folder of all."""
    if name in SHIPPED:
        raise BadUsage(f"{name} is part of the herd package, so it has no path of its own", hint=f"herd data {name} -o FILE")
    found = cache.default_cache()
    write_stdout(f"{found.folder if name is None else found.path(registry.find_dataset(name))}\n")


def write_dataset_list(session: Session) -> None:
    """Print all data sets, with some lines for each."""
    try:
        folder: cache.Cache | None = cache.default_cache()
    except BadUsage as error:
        session.console.warn(f"{error}; {error.hint}")
        folder = None
    write_stdout("\n".join(_dataset_list_lines(folder)) + "\n")


def _dataset_list_lines(folder: cache.Cache | None) -> Iterator[str]:
    size = len((files("herdcli.data") / "digits.h5").read_bytes())
    yield _dataset_line("digits", "1,797 × 64", size, "ships with herd")
    yield from _dataset_details(what="handwritten digits of 8×8, split 60/20/20", licence="CC BY 4.0", origin="UCI Optical Recognition")
    for entry in registry.all_datasets():
        shape = f"{entry.rows:,} × {entry.columns:,}" if not entry.is_folder else f"{len(entry.sources)} files"
        state = "" if folder is None else "here" if folder.is_finished(entry) else f"to download, {cache.describe_download(entry)}"
        yield _dataset_line(entry.name, shape, entry.size, state)
        licence = f"{entry.licence} (asks for --accept-licence)" if entry.restricted else entry.licence
        yield from _dataset_details(what=entry.description, figures=entry.figures, licence=licence, origin=entry.origin)


def _dataset_line(name: str, shape: str, size: int, state: str) -> str:
    return f"{name:<{NAME_WIDTH}}{shape:<{SHAPE_WIDTH}}{cache.format_megabytes(size):>{SIZE_WIDTH}}  {state}".rstrip()


def _dataset_details(what: str, licence: str, origin: str, figures: str = "") -> Iterator[str]:
    for label, value in (("what", what), ("figures", figures), ("licence", licence), ("from", origin)):
        if value:
            yield f"  {label + ':':<10}{value}"
