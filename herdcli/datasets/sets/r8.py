"""R8: Reuters news articles with one of eight topics, as word counts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from herdcli.datasets.registry import GITHUB, Arrays, DatasetEntry, PublishedFile

ADDRESS = f"{GITHUB}/Maryam-ask/NLP_PFAI_Assignment/22b863544b9282b7795bdc8be1e3906f2608b274"
TRAIN, TEST = "r8-train-all-terms.txt", "r8-test-all-terms.txt"
HEADER = "Class\tExample"


def convert(files: Mapping[str, Path]) -> Arrays:
    """Return the training part, then the test part; a line is a topic, a tab, and the text.  The columns are words of two or more texts."""
    import numpy as np

    from herdcli.datasets.word_counts import count_words, split_words

    documents: list[tuple[int, str, str]] = []
    for split, name in enumerate((TRAIN, TEST)):
        lines = files[name].read_text(encoding="latin-1").split("\n")
        pairs = (line.rstrip("\r").partition("\t") for line in lines if "\t" in line and line.rstrip("\r") != HEADER)
        documents += [(split, topic, text) for topic, _, text in pairs]
    topics = sorted({topic for _, topic, _ in documents})
    return {
        **count_words((split_words(text) for _, _, text in documents), min_documents=2),
        "class_names": topics,
        "split": np.array([split for split, _, _ in documents], np.uint8),
        "y": np.array([topics.index(topic) for _, topic, _ in documents], np.int32),
    }


ENTRY = DatasetEntry(
    name="r8",
    file="r8_bow.h5",
    rows=7_674,
    columns=12_683,
    size=1_100_000,
    description="Reuters R8, counts of words in two documents or more; split (0 train, 1 test)",
    figures="Crammer & Lee 4",
    licence="research use, cite (Reuters-21578 distribution 1.0; split of A. Cardoso-Cachopo)",
    restricted=True,
    origin="github.com/Maryam-ask/NLP_PFAI_Assignment, r8-*-all-terms.txt",
    sources=(
        PublishedFile(
            file=TRAIN,
            urls=(f"{ADDRESS}/{TRAIN}",),
            size=3_354_438,
            sha256="64b54d11c97ecd9c4540090d96cc5be601eb843af7931c8b59aa34e51705a812",
        ),
        PublishedFile(
            file=TEST,
            urls=(f"{ADDRESS}/{TEST}",),
            size=1_195_275,
            sha256="7a827d7c2cd64c6b85a8268b8806c54563bd79813df9af13246b3ca56bc8431f",
        ),
    ),
    attributes={"n_classes": 8},
    feature_names="vocab",
    convert=convert,
    digest="b445e0f8acdc5a69f384a8c90fff58622ed1f0ef305469b28dda96fbc79ef05f",
)
