"""Artifacts: what travels between commands.  A dataclass on disk, sealed, with its history.

Used by `cli` alone: topics see arrays, never files.
"""

from herdcli.artifacts.checkpoints import load_checkpoint, remove_checkpoint, save_checkpoint
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.files import Artifact, Written, load, save
from herdcli.artifacts.streams import check_destination, publish

__all__ = [
    "Artifact",
    "Dataset",
    "Written",
    "check_destination",
    "load",
    "load_checkpoint",
    "publish",
    "remove_checkpoint",
    "save",
    "save_checkpoint",
]
