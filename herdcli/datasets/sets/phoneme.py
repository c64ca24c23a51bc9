"""Log-periodograms of five phonemes, from the book The Elements of Statistical Learning."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from herdcli.datasets.registry import GITHUB, Arrays, DatasetEntry, PublishedFile

FILE = "phoneme.RData"


def convert(files: Mapping[str, Path]) -> Arrays:
    """Return rows of 256 frequencies; the split is train or test, the beginning of the speaker's name."""
    import numpy as np

    from herdcli.datasets.r_data import read_frame

    frame = read_frame(files[FILE], "phoneme")
    phonemes, speakers = [str(each) for each in frame["g"]], [str(each) for each in frame["speaker"]]
    class_names = sorted(set(phonemes))
    return {
        "X": frame.iloc[:, :256].to_numpy().astype(np.float32),
        "class_names": class_names,
        "speaker": speakers,
        "split": np.array([each.startswith("test") for each in speakers], np.uint8),
        "y": np.array([class_names.index(each) for each in phonemes], np.int32),
    }


ENTRY = DatasetEntry(
    name="phoneme",
    file="phoneme.h5",
    rows=4_509,
    columns=256,
    size=3_800_000,
    description="log-periodograms of five phonemes; split (0 train, 1 test), speaker",
    figures="Crammer & Lee 4, 5; claims; leagues",
    licence="GPL (≥ 2) of the package; derived from TIMIT (LDC), published by Hastie et al.",
    restricted=False,
    origin="github.com/cran/ElemStatLearn, data/phoneme.RData",
    sources=(
        PublishedFile(
            file=FILE,
            urls=(f"{GITHUB}/cran/ElemStatLearn/253e54016d004ac67879b594311651be3debbed4/data/{FILE}",),
            size=3_354_072,
            sha256="4dea961c4450d436210417f01c8d12fa94e3ab4506bdd5680e0e976e1be4285c",
        ),
    ),
    attributes={"n_classes": 5},
    packages=("rdata",),
    convert=convert,
    digest="35927fad7d2a50a96f51e96ffa2e1a8cae9ec97a537f2369c16fca50b2b15145",
)
