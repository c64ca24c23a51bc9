"""The ORL database of faces, 112×92."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from herdcli.datasets.registry import GITHUB, Arrays, DatasetEntry, PublishedFile

FILE = "att_faces.zip"
LICENCE = "free use, credit Olivetti Research Laboratory (AT&T Laboratories Cambridge; Samaria & Harter 1994)"
# one bit per picture, 1 for a person with glasses: olivetti_faces/has_glasses.np of github.com/lawrennd/datasets_mirror
GLASSES = "003ff00386003ff184000000000000cffff00000cfc00e47af000000000000000fffff00000ffc00003ff00003ffc0000000"


def read_glasses() -> Any:
    """Return (400,) uint8: 1 for a person with glasses."""
    import numpy as np

    return np.unpackbits(np.frombuffer(bytes.fromhex(GLASSES), np.uint8))


def convert(files: Mapping[str, Path]) -> Arrays:
    """Return s1/1.pgm … s40/10.pgm, one row each."""
    import numpy as np

    from herdcli.datasets.archives import read_members
    from herdcli.datasets.pictures import decode_netpbm

    found = {tuple(name.split("/")[-2:]): content for name, content in read_members(files[FILE], "", ".pgm")}
    pictures = [decode_netpbm(found[f"s{person}", f"{number}.pgm"]).ravel() for person in range(1, 41) for number in range(1, 11)]
    return {"X": np.stack(pictures), "glasses": read_glasses(), "y": np.repeat(np.arange(40, dtype=np.int32), 10)}


ENTRY = DatasetEntry(
    name="orl",
    file="orl.h5",
    rows=400,
    columns=10_304,
    size=3_700_000,
    description="faces of 40 persons, 112×92, ten pictures each; column glasses (0, 1)",
    figures="Teh 3.4–3.7, 3.9–3.12; claims; em",
    licence=LICENCE,
    restricted=False,
    origin="github.com/lawrennd/datasets_mirror, olivetti_faces/att_faces.zip",
    sources=(
        PublishedFile(
            file=FILE,
            urls=(f"{GITHUB}/lawrennd/datasets_mirror/2eb6dce7501464457465facc7ef9334250efe4b4/olivetti_faces/{FILE}",),
        ),
    ),
    attributes={"image_shape": (112, 92), "value_range": (0, 251), "n_classes": 40},
    convert=convert,
    digest="06112d170693d444248973095d70566ea933f1a2b09aa4303d21eda2846d88bd",
)
