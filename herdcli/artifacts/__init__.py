"""Artifacts: what travels between commands.  A dataclass on disk, sealed, with its history.

Used by `cli` alone: topics see arrays, never files.
"""

from herdcli.artifacts.checkpoints import Longer, check_checkpoint, load_checkpoint, remove_checkpoint, save_checkpoint
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.files import Artifact, Written, check_output, load, save
from herdcli.artifacts.streams import publish

__all__ = [
    "Artifact",
    "Dataset",
    "Longer",
    "Written",
    "check_checkpoint",
    "check_output",
    "load",
    "load_checkpoint",
    "publish",
    "remove_checkpoint",
    "save",
    "save_checkpoint",
]
