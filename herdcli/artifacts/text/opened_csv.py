"""An opened CSV text, as its readers pass it on."""

from __future__ import annotations

from typing import Any, BinaryIO

from herdcli.artifacts.text.csv_header import CsvHeader
from herdcli.artifacts.text.csv_structure import StructureCheck
from herdcli.records import dataclass


@dataclass
class OpenedCsv:
    """A text whose head was examined: pyarrow's options for reading, parsing and converting it, and the checks of its stream.

    labels  the column of labels that is read as bytes (`zero_padded_labels`).  trailing  whether only rows, not titles, end in a separator.
    """

    stream: BinaryIO
    head: CsvHeader
    structure: StructureCheck
    options: tuple[Any, Any, Any]
    labels: str | None
    trailing: bool
