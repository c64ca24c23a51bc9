"""Reading data sets whose rows have targets other than a single class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.artifacts.tables.column_roles import LABELS
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session

WRITINGS = (str, str.capitalize, str.upper)
PLURALS = [write(name) for name in ("labels", "targets") for write in WRITINGS]
USUAL = [write(name) for name in LABELS for write in WRITINGS] + PLURALS  # usual names of target columns


def names_label_columns(label: str | None) -> bool:
    """Whether --label names columns of 0 and 1, one for each label, instead of a single column."""
    return label is not None and any(mark in label for mark in ",*?")


def load_responses(session: Session, path: str, task: str, input_format: str | None, label: str | None, *, labels: bool = True) -> Artifact:
    """Return a data set for learning numbers, with its target among the further columns, or for learning sets of labels."""
    if task == "multilabel":
        one = None if names_label_columns(label) else label
        return session.load(path, "data", kinds={"dataset"}, input_format=input_format, label=one, labels=labels)
    response = "usual" if label is None else "named"
    try:
        if label is not None:
            return session.load(path, "data", kinds={"dataset"}, input_format=input_format, keep=[label], response=response)
        also = [name for name in ("y", *PLURALS) if name not in session.features]
        return session.load(path, "data", kinds={"dataset"}, input_format=input_format, also=also, labels=labels, response=response)
    except BadUsage as error:
        if label is None or "extra column" not in error.message:
            raise
        return session.load(path, "data", kinds={"dataset"}, input_format=input_format)  # a sealed one may have it among its features
