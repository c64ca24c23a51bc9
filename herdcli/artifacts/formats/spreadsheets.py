"""Excel, read by openpyxl: the first sheet, or that of FILE.xlsx:SHEET; its first line has the column names."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

from herdcli.artifacts import memory_budget
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.library_errors import convert_library_errors, error_reason
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.tables.dataset_columns import dataset_from_table
from herdcli.artifacts.text import csv_header
from herdcli.errors import BadUsage, DataError

if TYPE_CHECKING:
    import pyarrow as pa
    from openpyxl import Workbook
    from openpyxl.worksheet.worksheet import Worksheet

INSTALL = "pip install 'herdcli[table]', or save the sheet as CSV"


def is_workbook(path: str) -> bool:
    """Return whether a zip file is a workbook."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return False


def read(path: str, *, where: str, options: LoadOptions) -> Dataset:
    """Read the data set of a workbook's first sheet, as values, not formulas."""
    try:
        import openpyxl
    except ImportError:
        raise BadUsage("reading Excel files needs the package openpyxl", where=where, hint=INSTALL) from None

    def damaged(error: Exception) -> DataError:
        hint = "save the sheet as CSV, because the workbook may be damaged"
        return DataError(f"the workbook cannot be read ({error_reason(error)})", where=where, hint=hint)

    with convert_library_errors(("openpyxl", "zipfile", "xml", "et_xmlfile", "lxml"), damaged), open(path, "rb") as file:
        with zipfile.ZipFile(file) as archive:
            memory_budget.require_memory(sum(entry.file_size for entry in archive.infolist()), options.limit, where=where)
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        sheet = _choose_sheet(book, where, options)
        lines = [list(line) for line in sheet.iter_rows(values_only=True) if any(cell is not None for cell in line)]
    titles = ["" if cell is None else str(cell).strip() for cell in lines[0]] if lines else []
    below = [["" if cell is None else str(cell).strip() for cell in line] for line in lines[1 : csv_header.SEEN]]
    if titles and not csv_header.are_column_titles(titles, below):
        why = "it has numbers and no column names" if any(map(csv_header.is_value, titles)) else "its texts occur below in the same columns"
        options.note(f"{where}: the first line is read as data because {why}")
        return dataset_from_table(
            table_from_cells([f"f{column}" for column in range(len(titles))], lines, where), {}, where=where, options=options
        )
    if len(lines) < 2:
        which = "the first sheet" if options.member is None else f"sheet '{options.member}'"
        raise DataError(
            f"{which} has no rows below the column names", where=where, hint="write the column names into the first line and the rows below"
        )
    return dataset_from_table(table_from_cells(titles, lines[1:], where), {}, where=where, options=options)


def _choose_sheet(book: Workbook, where: str, options: LoadOptions) -> Worksheet:
    """Return the named sheet, or the first with a nonempty cell; other sheets are reported.  Raises BadUsage for an unknown name."""
    names = [sheet.title for sheet in book.worksheets]
    listed = ", ".join(names[:12]) + (" …" if len(names) > 12 else "")
    if options.member is not None and options.member not in names:
        raise BadUsage("has no such sheet", where=where, hint=f"it has {listed}")
    if options.member is None and len(names) > 1:
        first = next((place for place, sheet in enumerate(book.worksheets) if _has_cells(sheet)), 0)
        options.note(f"{where}: read sheet '{names[first]}' of {listed}; {where}:{names[first - 1 if first else 1]} reads another")
        return book.worksheets[first]
    return book.worksheets[0 if options.member is None else names.index(options.member)]


def _has_cells(sheet: Worksheet) -> bool:
    """Return whether any cell of a sheet has a value."""
    return any(cell is not None for line in sheet.iter_rows(values_only=True) for cell in line)


def table_from_cells(titles: list[str], lines: list[list[object]], where: str) -> pa.Table:
    """Return a pyarrow table of lines of Python values: a column is numeric or temporal if all its cells are, else text.

    Raises DataError for a column that mixes objects or lists with other cells.
    """
    import pyarrow as pa

    width = max(len(titles), *(len(line) for line in lines), 0)
    names = titles + [""] * (width - len(titles))
    columns = [[line[index] if index < len(line) else None for line in lines] for index in range(width)]
    kept = [index for index in range(width) if names[index] or any(cell is not None for cell in columns[index])]
    return pa.Table.from_arrays(
        [_column_from_cells(columns[index], names[index], where) for index in kept], names=[names[index] for index in kept]
    )


def _column_from_cells(cells: list[object], name: str, where: str) -> pa.ChunkedArray:
    """Return a column of cells, as text if they have several types."""
    import pyarrow as pa

    try:
        return pa.array(cells)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        if any(isinstance(cell, (dict, list)) for cell in cells):
            row = next(row for row, cell in enumerate(cells) if isinstance(cell, (dict, list)))
            hint = "give all cells of the column the same form: objects, lists of numbers, or single values"
            raise DataError(
                f"column '{name}' has an object or a list in row {row}, unlike its other cells", where=where, hint=hint
            ) from error
        return pa.array([None if cell is None else str(cell) for cell in cells])
