"""The thirteen photographs of the book Natural Image Statistics."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from herdcli.datasets.registry import GITHUB, Arrays, DatasetEntry, PublishedFile

FILE = "hyvarinenBookImages.zip"


def convert(files: Mapping[str, Path]) -> Arrays:
    """Return 1.tiff … 13.tiff, one row each; pictures in portrait format are transposed, and `transpose` marks them."""
    import numpy as np

    from herdcli.datasets.archives import read_members
    from herdcli.datasets.pictures import decode_grey

    found = {name.rpartition("/")[2]: content for name, content in read_members(files[FILE], "", ".tiff")}
    pictures = [decode_grey(found[f"{number}.tiff"]) for number in range(1, 14)]
    upright = np.array([height > width for height, width in (each.shape for each in pictures)])
    return {
        "X": np.stack([(each.T if turn else each).ravel() for each, turn in zip(pictures, upright, strict=True)]),
        "transposed": upright.astype(np.uint8),
        "y": np.zeros(len(pictures), np.int32),
    }


ENTRY = DatasetEntry(
    name="natural",
    file="natural13.h5",
    rows=13,
    columns=131_072,
    size=1_500_000,
    description="grey photographs of 256×512",
    figures="Teh 4.9, 4.10; claims",
    licence="none stated (photographs of Hyvärinen, Hurri and Hoyer, Natural Image Statistics, Springer 2009)",
    restricted=True,
    origin="github.com/probml/pmtkdata, hyvarinenBookImages",
    sources=(
        PublishedFile(
            file=FILE,
            urls=(f"{GITHUB}/probml/pmtkdata/42bc2738a294382f9d6ffb1b0203404ffb10295a/hyvarinenBookImages/{FILE}",),
            size=1_486_977,
            sha256="bc8a72a34beefe4035acdf8ac7beeb0bb5fa06acd2c63e304b53800817486924",
        ),
    ),
    attributes={"image_shape": (256, 512), "value_range": (0, 255)},
    packages=("PIL",),
    convert=convert,
    digest="85f1249dcdcbca8ce133ef5b24e6e4b0787872322639308dea11f171f0cf5cde",
)
