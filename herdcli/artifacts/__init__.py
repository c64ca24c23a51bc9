"""Artifacts, the files that commands exchange: each is a sealed dataclass on disk, with its history.

Only `cli` uses this package: the other packages work with arrays, never with files.
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
