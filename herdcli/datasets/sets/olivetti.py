"""Olivetti faces, 64×64, from Sam Roweis' page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from herdcli.datasets.registry import GITHUB, Arrays, DatasetEntry, PublishedFile
from herdcli.datasets.sets.orl import LICENCE, read_glasses

FILE = "faces.rda"


def convert(files: Mapping[str, Path]) -> Arrays:
    """Return a row for each picture, ten per person, in the order of the ORL set."""
    import numpy as np

    from herdcli.datasets.pictures import columns_to_rows
    from herdcli.datasets.r_data import read_frame

    pixels = read_frame(files[FILE], "faces").to_numpy().T.astype(np.uint8)  # (400, 4096), column by column
    return {
        "X": columns_to_rows(pixels, (64, 64)),
        "glasses": read_glasses(),
        "y": np.repeat(np.arange(40, dtype=np.int32), 10),
    }


ENTRY = DatasetEntry(
    name="olivetti",
    file="olivetti.h5",
    rows=400,
    columns=4_096,
    size=1_400_000,
    description="faces of 40 persons, 64×64, ten pictures each; column glasses (0, 1)",
    figures="Teh 4.13",
    licence=LICENCE,
    restricted=False,
    origin="github.com/cran/loon.data, data/faces.rda; first on Sam Roweis' page",
    sources=(
        PublishedFile(
            file=FILE,
            urls=(f"{GITHUB}/cran/loon.data/7603f08d2a8c055c41093153c0668c98cbc1a449/data/{FILE}",),
            size=1_162_085,
            sha256="5a8670186e4d8c9bf427fc73d5989058a8b7c1d9af27a8057dcf91c8207e9823",
        ),
    ),
    attributes={"image_shape": (64, 64), "value_range": (0, 242), "n_classes": 40},
    packages=("rdata",),
    convert=convert,
    digest="ecdde193c1969e8b4ea0f403585044903db846389fcd98c3e3bc2fe97de17c83",
)
