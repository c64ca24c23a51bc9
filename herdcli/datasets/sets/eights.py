"""The eights among the USPS digits, reduced to 8×8 and black and white, as in section 6.6 of Teh's thesis."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from herdcli.datasets.registry import Arrays, DatasetEntry
from herdcli.datasets.sets.usps import LICENCE, ORIGIN, SOURCE, read_digits

THRESHOLD = 80  # pixels with at least this value, of 255, are on


def convert(files: Mapping[str, Path]) -> Arrays:
    """Return the means of 2×2 pixels as `gray`, and as X whether they reach the threshold."""
    import numpy as np

    X, y = read_digits(files)
    blocks = X[y == 8].reshape(-1, 8, 2, 8, 2)
    gray = blocks.mean(axis=(2, 4)).reshape(-1, 64).astype(np.float32)
    return {"X": (gray >= THRESHOLD).astype(np.uint8), "gray": gray, "y": np.full(len(gray), 8, np.int32)}


ENTRY = DatasetEntry(
    name="eights",
    file="eights8x8.h5",
    rows=1_100,
    columns=64,
    size=120_000,
    description="the eights of usps, means of 2×2 pixels, on from 80 of 255; the means are in gray",
    figures="Teh 6.5, 6.6; claims",
    licence=LICENCE,
    restricted=True,
    origin=ORIGIN,
    sources=(SOURCE,),
    attributes={"image_shape": (8, 8), "value_range": (0, 1), "n_classes": 10},
    convert=convert,
    digest="b2f8031acd2f415992b672d7d805f477e9d56366009983275627537da1a197a8",
)
