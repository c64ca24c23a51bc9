"""The options of `load` for one input: a single value that every reader gets."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import field
from typing import Any

from herdcli.artifacts import memory_budget
from herdcli.artifacts.tables.column_roles import ColumnRoles
from herdcli.dialect import TextDialect, current_dialect
from herdcli.records import dataclass


def ignore_note(line: str) -> None:
    """Ignore a note."""


@dataclass(frozen=True)
class LoadOptions:
    """The options for reading an input.

    limit    the most bytes that it may declare.    note     called with one line for anything ignored or assumed.
    label    column or dataset of the labels.       keep     further columns to read, of which those in `required` must exist.
    missing  empty cells and NaN are values that the caller can use; a row without a label has −1.
    gaps     further columns of numbers in which missing values become NaN.
    texts    columns of text are read as further columns, which `recoding` converts to numbers; else they are reported and left out.
    profiles columns without numbers are summarised in the account (`column_profiles`); dates among them are not refused.
    as_text  columns that are read as text if they exist, even if they look like numbers: names of states.
    columns  names of the columns of a table of texts without names, if it has as many: those of a model of states.
    layer    for an AnnData file: the layer that holds the rows instead of X.
    labels   False: the caller needs no labels, so that their column is left out, whatever it contains.
    roles    the columns of a table with labels, splits and weights, and the choice of the other columns to read.
    member   the part of a file to read, if the user names one: a sheet, or a file in an archive.
    rows     for an HDF5 file: the dataset that holds the rows, if the user names one.
    dialect  the text dialect that the user declares.
    account  collects a reader's contributions to the line at the end of reading: texts, and a `dataset_columns.TableReport`.
    summarised  the line at the end of reading is shown and lists the columns that are not used, so that no note does.
    stretch  the rows are only a part: the meaning of split numbers depends on all rows together, so they stay unchanged.
    """

    limit: int = 0
    note: Callable[[str], None] = ignore_note
    label: str | None = None
    keep: Collection[str] = ()
    missing: bool = False
    texts: bool = False
    profiles: bool = False
    gaps: Collection[str] = ()
    as_text: Collection[str] = ()
    columns: tuple[str, ...] = ()
    layer: str | None = None
    required: Collection[str] = ()
    stretch: bool = False
    summarised: bool = False
    labels: bool = True
    roles: ColumnRoles = ColumnRoles()
    member: str | None = None
    rows: str | None = None
    dialect: TextDialect = field(default_factory=current_dialect, compare=False)
    account: list[Any] = field(default_factory=list, compare=False)

    @staticmethod
    def with_defaults(limit: int | None, note: Callable[[str], None] | None, **more: object) -> LoadOptions:
        """Return options with the default limit (half of the free memory) and without notes, unless these are given."""
        return LoadOptions(memory_budget.default_memory_limit() if limit is None else limit, note or ignore_note, **more)  # type: ignore[arg-type]
