"""MATLAB 4 to 7 (`save` without -v7.3): arrays, and cells of text or of single numbers, by scipy.io; structures and objects are ignored."""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any

import numpy as np

from herdcli.artifacts import memory_budget
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.formats.matlab_elements import readable_variables
from herdcli.artifacts.formats.unsealed_hdf5 import choose_label
from herdcli.artifacts.library_errors import convert_library_errors, error_reason
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.tables import named_arrays
from herdcli.artifacts.tables.dataset_assembly import assemble_dataset
from herdcli.errors import BadUsage, DataError
from herdcli.schema import Array

HINT = "in MATLAB: save('data.mat', 'X', 'y'), X with a row for each observation"
PLAIN = {"double", "single", "logical", "char", "sparse", "cell"} | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
LARGEST = 8  # largest element, in bytes


def read(path: str, *, where: str, options: LoadOptions) -> Dataset:
    """Read the data set of X and y, of other known names, or of the only matrix."""
    from scipy.io import loadmat, whosmat

    def damaged(error: Exception) -> DataError:
        hint = "fetch or save the file again: it may be cut short or damaged"
        return DataError(f"the MATLAB file cannot be read ({error_reason(error)})", where=where, hint=hint)

    try:
        readable = readable_variables(path)
    except (OSError, ValueError, struct.error, zlib.error) as error:
        raise damaged(error) from error
    with convert_library_errors(("scipy", "numpy"), damaged):
        there = [(name, shape, kind) for name, shape, kind in whosmat(path) if not name.startswith("__")]
        listed = [(name, shape) for name, shape, kind in there if kind in PLAIN and (readable is None or name in readable)]
        memory_budget.require_memory(sum(math.prod(shape) * LARGEST for _, shape in listed if len(shape) == 2), options.limit, where=where)
        values: dict[str, Any] = loadmat(path, variable_names=[name for name, _ in listed]) if listed else {}
        for item in values.values():
            if hasattr(item, "check_format"):
                item.check_format(full_check=True)  # indices within the shape
    found = {name: values[name] for name, _ in listed if name in values and values[name].dtype.kind != "O"}
    found |= {name: cells for name, _ in listed if name in values and (cells := _cell_values(values[name])) is not None}
    ignored = sorted({name for name, _, _ in there} - set(found))
    if ignored:
        options.note(f"{where}: these variables are neither numbers nor text and are not used: {', '.join(ignored)}")
    if options.member is not None:
        found = _rename_row_variable(found, options.member.strip("/"), where)
    matrices = [name for name, item in found.items() if min(item.shape) > 1]
    if named_arrays.find_row_array(found) is None and not named_arrays.find_split_arrays(found) and len(matrices) == 1:
        options.note(f"{where}: rows are read from {matrices[0]}")
        found["X"] = found.pop(matrices[0])
    rows = named_arrays.find_row_array(found)
    if rows is not None and hasattr(found[rows], "tocsr"):
        return _sparse_dataset(found, rows, where, options)
    dense = {name: _strip_padding(item) for name, item in found.items() if not hasattr(item, "tocsr")}
    return named_arrays.dataset_from_arrays(_transpose_row_vectors(dense), where=where, options=options, hint=HINT)


def _rename_row_variable(variables: dict[str, Any], name: str, where: str) -> dict[str, Any]:
    """Return the variables with the rows under X.  Raises BadUsage for a name that no variable has."""
    if name not in variables:
        raise BadUsage("has no such variable", where=where, hint=f"it has {', '.join(variables) or 'nothing'}")
    return {other: item for other, item in variables.items() if other not in ("X", name)} | {"X": variables[name]}


def _cell_values(item: Any) -> Array | None:
    """Return the texts or single numbers of a cell array (n, 1) or (1, n); None for other values, and for cells with other contents."""
    if getattr(item, "dtype", np.dtype(float)).kind != "O" or item.ndim != 2 or 1 not in item.shape:
        return None
    cells = [np.asarray(cell).ravel() for cell in item.ravel().tolist()]
    if cells and all(cell.dtype.kind in "fiub" and len(cell) == 1 for cell in cells):
        return np.concatenate(cells)
    if any(cell.dtype.kind != "U" or len(cell) > 1 for cell in cells):
        return None
    return np.array([str(cell[0]) if len(cell) else "" for cell in cells], dtype=str)


def _transpose_row_vectors(arrays: dict[str, Array]) -> dict[str, Array]:
    """Return the arrays, with a row vector (1, n) as a column if a matrix has n rows: in MATLAB y = [1 0 1] is one."""
    heights = {len(item) for item in arrays.values() if item.ndim == 2 and len(item) > 1}
    return {name: item.T if item.ndim == 2 and len(item) == 1 and item.shape[1] in heights else item for name, item in arrays.items()}


def _strip_padding(item: Array) -> Array:
    """Return text without MATLAB's padding blanks; return anything else unchanged."""
    return np.char.rstrip(item) if item.dtype.kind == "U" else item


def _sparse_dataset(variables: dict[str, Any], rows: str, where: str, options: LoadOptions) -> Dataset:
    X = variables.pop(rows).tocsr()
    X.sum_duplicates()
    labels = choose_label(variables, named_arrays.label_array_names(rows), options.label, where)
    roles = {} if labels is None else {"y": _strip_padding(variables[labels]).ravel()}
    return assemble_dataset(X, roles, {}, where=where, note=options.note, response=bool(options.roles.response))
