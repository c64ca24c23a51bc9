"""The 20 newsgroups data as word counts, split by date."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from herdcli.datasets.registry import Arrays, DatasetEntry, PublishedFile

FILE = "20news-bydate.tar.gz"
COMMIT = "962223652e9bb164ac2d83cd09fc7b8845ce860b"


def subject_and_body(post: str) -> str:
    """Return the subject and the body of a post, without the other header lines."""
    header, _, body = post.partition("\n\n")
    subjects = [line[len("subject:") :] for line in header.split("\n") if line.lower().startswith("subject:")]
    return "\n".join([*subjects[:1], body])


def convert(files: Mapping[str, Path]) -> Arrays:
    """Return the test posts, then the training posts, sorted by group and file name; the columns are the words of two or more posts."""
    import numpy as np

    from herdcli.datasets.archives import read_members
    from herdcli.datasets.word_counts import count_words, split_words

    posts: list[tuple[str, str, str, bytes]] = []
    for part in ("test", "train"):
        for name, content in read_members(files[FILE], f"20news-bydate-{part}"):
            group, _, number = name.rpartition("/")
            posts.append((part, group.rpartition("/")[2], number, content))
    posts.sort(key=lambda post: post[:3])
    groups = sorted({group for _, group, _, _ in posts})
    texts = (content.decode("latin-1").replace("\r\n", "\n") for _, _, _, content in posts)
    return {
        **count_words((split_words(subject_and_body(text)) for text in texts), min_documents=2),
        "class_names": groups,
        "split": np.array([part == "test" for part, _, _, _ in posts], np.uint8),
        "y": np.array([groups.index(group) for _, group, _, _ in posts], np.int32),
    }


ENTRY = DatasetEntry(
    name="newsgroups",
    file="newsgroups20_bow.h5",
    rows=18_846,
    columns=59_358,
    size=6_400_000,
    description="20 newsgroups by date, counts of words in two posts or more; split (0 train, 1 test)",
    figures="Crammer & Lee 4",
    licence="none stated (public postings to Usenet, collected by K. Lang 1995, J. Rennie's version by date)",
    restricted=True,
    origin="qwone.com/~jason/20Newsgroups; also data/20ng in github.com/yao8839836/text_gcn",
    sources=(
        PublishedFile(
            file=FILE,
            urls=("https://ndownloader.figshare.com/files/5975967", "http://qwone.com/~jason/20Newsgroups/20news-bydate.tar.gz"),
            sha256="8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610",
        ),
    ),
    attributes={"n_classes": 20},
    checked=False,
    feature_names="vocab",
    convert=convert,
    digest="2d445103f7a2e0a0b4fa5b729bf215ef4602346c0ad0072b20fff2c0e24ae98c",
)
