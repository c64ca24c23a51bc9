"""Where the papers' data sets are, $HERD_DATA, else ../shared/data beside the project, and where they come from.

    python scripts/real_data.py NAME…          exit 1 with the first of these sets that is missing

docs/reproducing.md says what each file holds.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDER = Path(os.environ.get("HERD_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
SOURCES = {
    "a9a": "www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets, a9a",
    "eights8x8.h5": "made of usps_all.mat, github.com/kisakson/usps-digits",
    "mnist.h5": "github.com/rasbt/mnist-pngs",
    "music16_long.h5": "github.com/librosa/data, audio/*.hq.ogg",
    "natural13.h5": "github.com/probml/pmtkdata, hyvarinenBookImages",
    "networks/references.json": "github.com/dechterlab/uai-competitions, UAI-2014/MAR, and bnlearn.com/bnrepository",
    "news_w100.h5": "github.com/probml/pmtkdata, 20news_w100/20news_w100.mat",
    "newsgroups20_bow.h5": "github.com/yao8839836/text_gcn, data/20ng",
    "olivetti.h5": "github.com/cran/loon.data, data/faces.rda",
    "orl.h5": "github.com/lawrennd/datasets_mirror, olivetti_faces/att_faces.zip",
    "patches16.h5": "github.com/BIDS/BSDS500, BSDS500/data/images/train",
    "phoneme.h5": "github.com/cran/ElemStatLearn, data/phoneme.RData",
    "r8_bow.h5": "github.com/Maryam-ask/NLP_PFAI_Assignment, r8-*-all-terms.txt",
    "sentiment4_bow.h5": "github.com/lorenzoritter/domainadaption, sorted_data_acl",
    "spambase.h5": "github.com/cran/ElemStatLearn, data/spam.RData",
    "speech_segments.h5": "github.com/Jakobovski/free-spoken-digit-dataset, recordings",
    "usps_all.h5": "github.com/kisakson/usps-digits, usps_all.mat",
    "yale64.h5": "github.com/MetinUnlu/Univr_FoDA, data/Yale_64x64.mat",
}


def path(name: str) -> Path:
    """The file of a data set.  Ends the program with one line that says where to get it and where to put it."""
    found = FOLDER / name
    if not found.exists():
        sys.exit(f"{found} is missing: set HERD_DATA to the folder that holds it (source: {SOURCES[name]}; docs/reproducing.md, 'Data')")
    return found


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        path(wanted)
