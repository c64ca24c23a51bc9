"""What the caller of `load` asks of an input: one value that every reader is handed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import field
from typing import Any

from herdcli.artifacts import memory_budget
from herdcli.artifacts.tables.column_roles import ColumnRoles
from herdcli.dialect import TextDialect, current_dialect
from herdcli.records import dataclass


def ignore_note(line: str) -> None:
    """A note that nobody reads."""


@dataclass(frozen=True)
class LoadOptions:
    """How an input is to be read.

    limit    bytes that it may declare.             note     called with one line for what was ignored or assumed.
    label    column or dataset of the labels.       keep     further columns to read, `required` of which it must have.
    missing  empty cells and NaN are values that the caller can use; a row without a label has −1.
    gaps     further columns of numbers that may lack some, NaN then.
    texts    columns of text come along, as further columns, for `recoding` to make numbers of; else they are told and left out.
    as_text  columns that are read as text where they are there, also where it looks like numbers: names of states.
    layer    of an AnnData file: the layer that holds the rows instead of X.
    labels   False: nobody asks for the rows' own labels, so that their column is left out, whatever it holds.
    roles    which columns of a table are labels, splits and weights, and which of the others are read.
    member   what is read of a file: its sheet, its file in an archive, where the user names one.
    rows     of an HDF5 file: the name of the dataset that holds the rows, where the user names one.
    dialect  how text is written, as the user declares it.
    account  what a reader adds to the line at the end of reading: texts, and a `dataset_columns.TableReport`.
    stretch  the rows are some of several: numbers of parts mean what those of all rows together do, and stay as they are.
    """

    limit: int = 0
    note: Callable[[str], None] = ignore_note
    label: str | None = None
    keep: Collection[str] = ()
    missing: bool = False
    texts: bool = False
    gaps: Collection[str] = ()
    as_text: Collection[str] = ()
    layer: str | None = None
    required: Collection[str] = ()
    stretch: bool = False
    labels: bool = True
    roles: ColumnRoles = ColumnRoles()
    member: str | None = None
    rows: str | None = None
    dialect: TextDialect = field(default_factory=current_dialect, compare=False)
    account: list[Any] = field(default_factory=list, compare=False)

    @staticmethod
    def of(limit: int | None, note: Callable[[str], None] | None, **more: object) -> LoadOptions:
        """With the default limit, half of what is free, and no notes where none are given."""
        return LoadOptions(memory_budget.default_limit() if limit is None else limit, note or ignore_note, **more)  # type: ignore[arg-type]
