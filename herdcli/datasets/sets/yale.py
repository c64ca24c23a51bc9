"""Yale faces, aligned at the eyes, 64×64."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from herdcli.datasets.registry import GITHUB, Arrays, DatasetEntry, PublishedFile

FILE = "Yale_64x64.mat"
CONDITIONS = (
    *("centerlight", "surprised", "wink", "glasses", "happy", "leftlight"),
    *("noglasses", "normal", "rightlight", "sad", "sleepy"),
)


def convert(files: Mapping[str, Path]) -> Arrays:
    """Return a row for each picture: fifteen people under eleven conditions."""
    import numpy as np
    from scipy.io import loadmat

    from herdcli.datasets.pictures import columns_to_rows

    found = loadmat(files[FILE])
    y = found["gnd"].ravel().astype(np.int32) - 1
    return {
        "X": columns_to_rows(found["fea"].T if len(found["fea"]) != len(y) else found["fea"], (64, 64)),
        "condition": np.tile(np.arange(len(CONDITIONS), dtype=np.uint8), 15),
        "condition_names": list(CONDITIONS),
        "y": y,
    }


ENTRY = DatasetEntry(
    name="yale",
    file="yale64.h5",
    rows=165,
    columns=4_096,
    size=620_000,
    description="faces of 15 persons, 64×64, under 11 conditions; column condition, an index into condition_names",
    figures="Teh 3.11; claims",
    licence="non-commercial research, credit Yale; no licence file",
    restricted=True,
    origin="github.com/MetinUnlu/Univr_FoDA, data/Yale_64x64.mat (Deng Cai's aligned pictures)",
    sources=(
        PublishedFile(
            file=FILE,
            urls=(f"{GITHUB}/MetinUnlu/Univr_FoDA/863d92de2dd6a61706f01b7606b58d4c9e940ddf/data/{FILE}",),
            size=611_391,
            sha256="315433db65209b636ea80f55f921662d6173a5757c9e99ec8b3daea6da2a8233",
        ),
    ),
    attributes={"image_shape": (64, 64), "value_range": (0, 255), "n_classes": 15},
    convert=convert,
    digest="e140de4dc66d861e729222cf04ef497f12cece876a934a016df29b370a330f25",
)
