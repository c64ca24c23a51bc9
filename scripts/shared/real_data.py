"""Where the papers' data sets are: $HERD_DATA, else ../shared/data beside the project, else the user's cache folder (`herd data --where`).

    python scripts shared/real_data FILE…          exit 1 with the first of these files that is missing

`herd data` downloads them; docs/reproducing.md says what each is.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from herdcli.datasets import cache, registry

REFERENCES = "networks/references.json"  # made by checks/network_references.py
BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"
NAMES = {entry.file: entry for entry in registry.all_datasets() if not entry.is_folder} | {REFERENCES: registry.find_dataset("networks")}


def _folder() -> Path:
    if not os.environ.get(cache.FOLDER) and BESIDE.is_dir():
        return BESIDE
    return cache.default_cache().folder


FOLDER = _folder()


def is_there(name: str) -> bool:
    """Whether the file of a data set is there."""
    return (FOLDER / name).exists()


def remedy(name: str) -> str:
    """The command that gets a file."""
    entry = NAMES[name]
    if name == REFERENCES:
        return "make data"
    return f"herd data {entry.name}{' --accept-licence' if entry.restricted else ''}"


def path(name: str) -> Path:
    """The file of a data set.  Ends the program with one line that says how to get it."""
    if not is_there(name):
        sys.exit(f"{FOLDER / name} is missing: {remedy(name)} gets it, or set HERD_DATA to the folder that holds it")
    return FOLDER / name


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        path(wanted)
