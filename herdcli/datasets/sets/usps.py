"""USPS digits: the 11,000 pictures from Sam Roweis' page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from herdcli.datasets.registry import GITHUB, Arrays, DatasetEntry, PublishedFile

FILE = "usps_all.mat"
SOURCE = PublishedFile(
    file=FILE,
    urls=(f"{GITHUB}/kisakson/usps-digits/de6fec1a200d516c72ea8719a710a9a45847aa23/{FILE}", f"https://cs.nyu.edu/~roweis/data/{FILE}"),
    size=1_484_005,
    sha256="da2c8d6e8bd743da00c67020f444e0f28250dfbd16c55d8135c50ffa7719a5f9",
)
LICENCE = "none stated (Roweis' page of data; digits gathered at CEDAR, SUNY Buffalo, Hull 1994)"
ORIGIN = "cs.nyu.edu/~roweis/data.html, also in github.com/kisakson/usps-digits"


def read_digits(files: Mapping[str, Path]) -> tuple[Any, Any]:
    """Return pixels (11000, 256) uint8 in row-major order, and digits (11000,) int32: 1,100 of each in the order 1 … 9, 0."""
    import numpy as np
    from scipy.io import loadmat

    from herdcli.datasets.pictures import columns_to_rows

    pixels = loadmat(files[FILE])["data"]  # (256, 1100, 10)
    X = columns_to_rows(pixels.transpose(2, 1, 0).reshape(-1, 256), (16, 16))
    return X, np.repeat(np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 0], np.int32), 1100)


def convert(files: Mapping[str, Path]) -> Arrays:
    """Return the digits and their labels."""
    X, y = read_digits(files)
    return {"X": X, "y": y}


ENTRY = DatasetEntry(
    name="usps",
    file="usps_all.h5",
    rows=11_000,
    columns=256,
    size=1_400_000,
    description="USPS digits of 16×16, grey 0 … 255, 1,100 a class in the order 1 … 9, 0",
    figures="Welling 2, 3; claims; Teh 4.12; Crammer & Lee 4; leagues; em",
    licence=LICENCE,
    restricted=True,
    origin=ORIGIN,
    sources=(SOURCE,),
    attributes={"image_shape": (16, 16), "value_range": (0, 255), "n_classes": 10},
    convert=convert,
    digest="59ea11e2f4d515a2c4de5ccc7401d2e98a82e2352c252ddacae3cc5f2338e261",
)
