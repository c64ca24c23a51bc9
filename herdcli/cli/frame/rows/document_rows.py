"""Documents as rows of a data set: for `nherd-train --text`, and for apply and eval with its models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts import Artifact
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.text import documents
from herdcli.cli.frame.rows.labelled_examples import ExampleInput
from herdcli.online.text.documents import DocumentConversion, count_words

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


def is_folder_of_texts(path: str) -> bool:
    """Whether a path is a folder with .txt files, directly or in subfolders."""
    return os.path.isdir(path) and next(Path(path).rglob("*.txt"), None) is not None


def open_documents(
    session: Session,
    path: str,
    conversion: DocumentConversion,
    *,
    label: str | None,
    labelled: bool,
    role: str = "data",
    names: dict[int, str] | None = None,
) -> ExampleInput:
    """Return the documents of a file or folder as rows of word counts, weighted as in `conversion`.  names: as in
    `documents.count_words`."""
    session.refuse_stdin_twice(path)
    corpus = documents.read(path, conversion.column, label, labelled=labelled, usual_label=session.target if labelled else None)
    for note in corpus.notes:
        session.console.note(f"{corpus.name}: {note}")
    X = conversion.weight_counts(count_words(corpus.texts, conversion, names))
    classes = None if corpus.labels is None else sorted(set(corpus.labels))
    y = None
    if corpus.labels is not None and classes is not None:
        place = {name: k for k, name in enumerate(classes)}
        y = np.array([place[name] for name in corpus.labels], dtype=np.int32)
    value = Dataset(X, y=y, split=corpus.split, class_names=classes)
    data = Artifact("dataset", value, [], corpus.sha256, corpus.name, corpus.size, False)
    session.inputs[role] = data
    return ExampleInput(corpus.name, data=data)
