"""The inputs of `herd apply` other than the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.artifacts.dataset import Dataset
    from herdcli.cli.frame.run.session import Session

TOGETHER = {"ica": 512, "classifier": 1000, "tagger": 1000, "predictor": 1000}  # rows taken at a time (filters, classifier_scores)


def load_rows(session: Session, source: str, input_format: str | None, label: str | None, *, missing: bool = False) -> Artifact:
    """Return the data set of new rows.  missing: whether NaN stands for an entry to be filled in."""
    return session.load(source, "data", kinds={"dataset"}, input_format=input_format, label=label, missing=missing)


@dataclass(frozen=True)
class RowMap:
    """A map that treats each row separately: `make` computes the results for any range that begins at a multiple of `unit`.

    count  the number of rows.
    said   a summary of the results for all rows.
    """

    count: int
    unit: int
    make: Callable[[slice], Dataset]
    said: str
