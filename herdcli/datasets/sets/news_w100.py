"""The presence of 100 words in postings to newsgroups, from Sam Roweis' page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from herdcli.datasets.registry import GITHUB, Arrays, DatasetEntry, PublishedFile

FILE = "20news_w100.mat"


def convert(files: Mapping[str, Path]) -> Arrays:
    """Return a row for each posting, in the order of the file; y is one of four groups of newsgroups."""
    import numpy as np
    from scipy.io import loadmat

    found = loadmat(files[FILE])
    documents = found["documents"]
    return {
        "X": np.ascontiguousarray((documents.toarray() if hasattr(documents, "toarray") else documents).T.astype(np.uint8)),
        "class_names": [str(each[0]) for each in found["groupnames"].ravel()],
        "words": [str(each[0]) for each in found["wordlist"].ravel()],
        "y": found["newsgroups"].ravel().astype(np.int32) - 1,
    }


ENTRY = DatasetEntry(
    name="news_w100",
    file="news_w100.h5",
    rows=16_242,
    columns=100,
    size=90_000,
    description="which of 100 words a posting to newsgroups has; y one of four groups",
    figures="leagues",
    licence="none stated (Roweis' page of data)",
    restricted=True,
    origin="github.com/probml/pmtkdata, 20news_w100/20news_w100.mat",
    sources=(
        PublishedFile(
            file=FILE,
            urls=(f"{GITHUB}/probml/pmtkdata/42bc2738a294382f9d6ffb1b0203404ffb10295a/20news_w100/{FILE}",),
            size=416_176,
            sha256="6667c5459e22eb544a854bff1443edaaea71735cf1af7b12cc5d986e74af7064",
        ),
    ),
    attributes={"n_classes": 4},
    feature_names="words",
    convert=convert,
    digest="9c40e57cb1c65ad47e3f7b6fb4cd1d792a9ed5c550290581d2f0d3cf84d00f1a",
)
