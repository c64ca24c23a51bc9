"""A text of CSV that was opened: what its readers hand to each other."""

from __future__ import annotations

from typing import Any, BinaryIO

from herdcli.artifacts.text.csv_header import CsvHeader
from herdcli.artifacts.text.csv_structure import StructureCheck
from herdcli.records import dataclass


@dataclass
class OpenedCsv:
    """A text whose head was looked at: how pyarrow is to read, parse and convert it, and what passes on the way.

    labels  the column of labels that is read as bytes (`padded`).  trailing  whether rows end in a separator, which the titles do not.
    """

    stream: BinaryIO
    head: CsvHeader
    structure: StructureCheck
    options: tuple[Any, Any, Any]
    labels: str | None
    trailing: bool
