"""Spambase: e-mails as frequencies of words and characters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from herdcli.datasets.registry import GITHUB, Arrays, DatasetEntry, PublishedFile

FILE = "spam.RData"
WORDS = """make address all 3d our over remove internet order mail receive will people report addresses free business email you credit your
font 000 money hp hpl george 650 lab labs telnet 857 data 415 85 technology 1999 parts pm direct cs meeting original project re edu table
conference"""
CHARACTERS = ("semicolon", "paren", "bracket", "bang", "dollar", "hash")
RUNS = ("average", "longest", "total")


def convert(files: Mapping[str, Path]) -> Arrays:
    """Return 57 columns as X, and y with 1 for spam."""
    import numpy as np

    from herdcli.datasets.r_data import read_frame

    frame = read_frame(files[FILE], "spam")
    return {
        "X": frame.iloc[:, :57].to_numpy().astype(np.float32),
        "feature_names": [
            *(f"word_freq_{each}" for each in WORDS.split()),
            *(f"char_freq_{each}" for each in CHARACTERS),
            *(f"capital_run_length_{each}" for each in RUNS),
        ],
        "y": np.array([str(each) == "spam" for each in frame["spam"]], np.int32),
    }


ENTRY = DatasetEntry(
    name="spam",
    file="spambase.h5",
    rows=4_601,
    columns=57,
    size=260_000,
    description="e-mails as frequencies of words and characters; y 1 for spam",
    figures="Crammer & Lee 4; claims; leagues",
    licence="CC BY 4.0 (UCI Spambase: Hopkins, Reeber, Forman, Suermondt 1999); GPL (≥ 2) of the package",
    restricted=False,
    origin="github.com/cran/ElemStatLearn, data/spam.RData",
    sources=(
        PublishedFile(
            file=FILE,
            urls=(f"{GITHUB}/cran/ElemStatLearn/253e54016d004ac67879b594311651be3debbed4/data/{FILE}",),
            size=107_544,
            sha256="6bdc225d7cf499a9dbf93191fcb33d6a7c112cdc2c6a589092a90f4abec2bc07",
        ),
    ),
    attributes={"n_classes": 2},
    packages=("rdata",),
    feature_names="feature_names",
    convert=convert,
    digest="bd4602fe420acec32cb4c20e33b507adfa38f69b0d647b702a47c4c0fc3156f4",
)
