"""Excel: the first sheet, or the one of FILE.xlsx:SHEET, its first line the names of the columns, by openpyxl."""

from __future__ import annotations

import zipfile
from typing import Any

from herdcli.artifacts import memory_budget
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.dataset_columns import dataset_from_table
from herdcli.artifacts.load_options import LoadOptions
from herdcli.errors import BadUsage, DataError, HerdError

INSTALL = "pip install 'herdcli[table]', or save the sheet as CSV"


def is_workbook(path: str) -> bool:
    """Is a zip file a workbook?"""
    try:
        with zipfile.ZipFile(path) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return False


def read(path: str, *, where: str, asked: LoadOptions) -> Dataset:
    """The data set of a workbook's first sheet, as values, not formulas."""
    try:
        import openpyxl
    except ImportError:
        raise BadUsage("Excel files need openpyxl", where=where, hint=INSTALL) from None
    try:
        with open(path, "rb") as file:
            with zipfile.ZipFile(file) as archive:
                memory_budget.require_memory(sum(entry.file_size for entry in archive.infolist()), asked.limit, where=where)
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            sheet = _choose_sheet(book, where, asked)
            lines = [list(line) for line in sheet.iter_rows(values_only=True) if any(cell is not None for cell in line)]
    except (HerdError, MemoryError):
        raise
    except Exception as error:  # openpyxl raises whatever its parsers do
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(f"the workbook cannot be read ({reason})", where=where, hint="it may be damaged; save the sheet as CSV") from error
    if len(lines) < 2:
        which = "the first sheet" if asked.member is None else f"sheet '{asked.member}'"
        raise DataError(f"{which} has no rows below its names", where=where, hint="names in the first line, rows below")
    titles = ["" if cell is None else str(cell).strip() for cell in lines[0]]
    return dataset_from_table(table_from_cells(titles, lines[1:]), {}, where=where, asked=asked)


def _choose_sheet(book: Any, where: str, asked: LoadOptions) -> Any:
    """The sheet that is named, or the first; others are told.  Raises BadUsage for a name that no sheet has."""
    names = [sheet.title for sheet in book.worksheets]
    listed = ", ".join(names[:12]) + (" …" if len(names) > 12 else "")
    if asked.member is not None and asked.member not in names:
        raise BadUsage("has no such sheet", where=where, hint=f"it has {listed}")
    if asked.member is None and len(names) > 1:
        asked.note(f"{where}: read sheet '{names[0]}' of {listed}; {where}:{names[1]} reads another")
    return book.worksheets[0 if asked.member is None else names.index(asked.member)]


def table_from_cells(titles: list[str], lines: list[list[Any]]) -> Any:
    """A pyarrow table of lines of Python values, a column of numbers or moments where all its cells are, else of text."""
    import pyarrow as pa

    width = max(len(line) for line in [titles, *lines])
    names = titles + [""] * (width - len(titles))
    columns = [[line[index] if index < len(line) else None for line in lines] for index in range(width)]
    kept = [index for index in range(width) if names[index] or any(cell is not None for cell in columns[index])]
    return pa.Table.from_arrays([_cell_column(columns[index]) for index in kept], names=[names[index] for index in kept])


def _cell_column(cells: list[Any]) -> Any:
    import pyarrow as pa

    try:
        return pa.array(cells)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if cell is None else str(cell) for cell in cells])
