"""What `herd apply` reads beside the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.artifacts.dataset import Dataset
    from herdcli.cli.apply.request import Request
    from herdcli.cli.frame.run.session import Session

TOGETHER = {"ica": 512, "classifier": 1000, "tagger": 1000, "predictor": 1000}  # rows that are taken at one time (filters, frame.scores)


def load_rows(session: Session, request: Request, *, missing: bool = False) -> Artifact:
    """The data set of new rows.  missing  NaN is an entry that is to be found."""
    return session.load(request.source, "data", kinds={"dataset"}, input_format=request.input_format, label=request.label, missing=missing)


@dataclass(frozen=True)
class RowMap:
    """Rows of which each by itself becomes another: `make` gives those of any stretch that begins at a multiple of `unit`.

    count  of the rows.  said  what is made of all, in words.
    """

    count: int
    unit: int
    make: Callable[[slice], Dataset]
    said: str
