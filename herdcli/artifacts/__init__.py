"""Artifacts: what travels between commands.  A dataclass on disk, sealed, with its history.

Used by `cli` alone: topics see arrays, never files.
"""

from herdcli.artifacts.atomic_output import atomic_file
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.load_save import Artifact, SavedArtifact, check_output, load, save
from herdcli.artifacts.sealed.checkpoints import ExtendedRun, check_checkpoint, load_checkpoint, remove_checkpoint, save_checkpoint

__all__ = [
    "Artifact",
    "Dataset",
    "ExtendedRun",
    "SavedArtifact",
    "check_checkpoint",
    "check_output",
    "load",
    "load_checkpoint",
    "atomic_file",
    "remove_checkpoint",
    "save",
    "save_checkpoint",
]
