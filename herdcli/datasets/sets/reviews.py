"""Reviews of products in four domains, as counts of words and of word pairs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from herdcli.datasets.registry import GITHUB, Arrays, DatasetEntry, PublishedFile

ADDRESS = f"{GITHUB}/lorenzoritter/domainadaption/f35a75418ea0ecf75dd85237bfcf68c224533747/sorted_data_acl"
DOMAINS = {"books": "books", "dvd": "dvd", "electronics": "electronics", "kitchen": "kitchen_&_housewares"}  # name -> folder
OPINIONS = ("positive", "negative")


def review_file_name(domain: str, opinion: str) -> str:
    """Return the name of a part in the folder of sources."""
    return f"{domain}-{opinion}.review"


def read_reviews(text: str) -> list[str]:
    """Return the title and text of each review of a file with XML-like elements, which is not valid XML."""

    def part(review: str, name: str) -> str:
        found = re.search(f"<{name}>(.*?)</{name}>", review, re.DOTALL)
        return found[1].strip() if found else ""

    return [f"{part(each, 'title')}\n{part(each, 'review_text')}" for each in re.findall("<review>(.*?)</review>", text, re.DOTALL)]


def convert(files: Mapping[str, Path]) -> Arrays:
    """Return the reviews domain by domain, positive ones first; the columns are words and pairs of three or more reviews."""
    import numpy as np

    from herdcli.datasets.word_counts import count_words, split_words_and_pairs

    parts = [(domain, opinion) for domain in range(len(DOMAINS)) for opinion in (1, 0)]
    found = []
    for domain, opinion in parts:
        name = review_file_name(list(DOMAINS)[domain], OPINIONS[1 - opinion])
        found.append(read_reviews(files[name].read_text(encoding="latin-1")))
    counts = [len(each) for each in found]
    return {
        **count_words((split_words_and_pairs(text) for each in found for text in each), min_documents=3),
        "domain": np.repeat(np.array([domain for domain, _ in parts], np.uint8), counts),
        "domain_names": list(DOMAINS),
        "y": np.repeat(np.array([opinion for _, opinion in parts], np.int32), counts),
    }


ENTRY = DatasetEntry(
    name="reviews",
    file="sentiment4_bow.h5",
    rows=8_000,
    columns=67_036,
    size=4_500_000,
    description="reviews of products, counts of words and pairs of words in three or more; y 1 positive; domain, domain_names",
    figures="Crammer & Lee 4",
    licence="research use, cite (Blitzer, Dredze, Pereira 2007)",
    restricted=True,
    origin="github.com/lorenzoritter/domainadaption, sorted_data_acl",
    sources=tuple(
        PublishedFile(file=review_file_name(domain, opinion), urls=(f"{ADDRESS}/{quote(folder)}/{opinion}.review",))
        for domain, folder in DOMAINS.items()
        for opinion in OPINIONS
    ),
    attributes={"n_classes": 2},
    checked=False,
    feature_names="vocab",
    convert=convert,
    digest="4e1610647bec24ab76505788de52aed7c487965e5123e32aa2131937d95d7d0f",
)
