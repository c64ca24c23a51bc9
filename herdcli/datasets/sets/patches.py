"""16×16 patches from the training pictures of the Berkeley segmentation data set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from herdcli.datasets.registry import Arrays, DatasetEntry, PublishedFile

FILE = "BSDS500.zip"
COMMIT = "a04b7c6c3a9f0ace74bf205c72a43d32e1c72722"
COUNT, SIDE, SEED = 122_880, 16, 2003  # the count in Teh's thesis


def convert(files: Mapping[str, Path]) -> Arrays:
    """Return patches at random positions from a seed; pictures are sorted by name, and those in portrait format are transposed."""
    import numpy as np

    from herdcli.datasets.archives import read_members
    from herdcli.datasets.pictures import decode_grey

    found = dict(read_members(files[FILE], "BSDS500/data/images/train", ".jpg"))
    pictures = [decode_grey(found[name]) for name in sorted(found)]
    lying = np.stack([each.T if each.shape[0] > each.shape[1] else each for each in pictures])
    random = np.random.default_rng(SEED)
    image = random.integers(0, len(lying), size=COUNT)
    row = random.integers(0, np.full(COUNT, lying.shape[1] - SIDE + 1))
    column = random.integers(0, np.full(COUNT, lying.shape[2] - SIDE + 1))
    windows = np.lib.stride_tricks.sliding_window_view(lying, (SIDE, SIDE), axis=(1, 2))
    return {
        "X": windows[image, row, column].reshape(COUNT, SIDE * SIDE),
        "col": column.astype(np.int16),
        "image": image.astype(np.uint8),
        "row": row.astype(np.int16),
    }


ENTRY = DatasetEntry(
    name="patches",
    file="patches16.h5",
    rows=COUNT,
    columns=SIDE * SIDE,
    size=27_600_000,
    description="16×16 patches of grey photographs; image, row and col say where they were cut",
    figures="Teh 4.11; claims",
    licence="non-commercial research and education (Berkeley BSDS300/500)",
    restricted=True,
    origin="github.com/BIDS/BSDS500, BSDS500/data/images/train",
    sources=(PublishedFile(file=FILE, urls=(f"https://github.com/BIDS/BSDS500/archive/{COMMIT}.zip",)),),
    attributes={"image_shape": (SIDE, SIDE), "value_range": (0, 255), "seed": SEED},
    packages=("PIL",),
    checked=False,
    convert=convert,
    digest="b8d8dceff8a1124bf48bc0504330766612d2351fda64f86e7086aff2c9b07b22",
)
