"""HDF5 files whose arrays have the names that other programs use: x_train and y_train, images and labels, data …"""

from __future__ import annotations

import numpy as np

from herdcli.artifacts import hdf5_guard
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.formats import hdf5_contents, unsealed_hdf5
from herdcli.artifacts.h5py_import import h5py
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.sealed import codec
from herdcli.artifacts.tables import named_arrays

KINDS = "fiubSO"
RESERVED = frozenset({*unsealed_hdf5.LABELS, *unsealed_hdf5.NAMES, *unsealed_hdf5.DECLARED, "split", "weight"})  # not feature columns


def has_foreign_arrays(file: h5py.File) -> bool:
    """Return whether a file has no X but rows under other usual names, a single netCDF matrix, or vectors that are columns."""
    if "X" in file:
        return False
    if named_arrays.find_row_array(list(file)) or named_arrays.find_split_arrays(list(file)) or _lone_variable(file):
        return True
    return bool(hdf5_contents.column_datasets(_root_datasets(file), RESERVED))


def _lone_variable(file: h5py.File) -> str | None:
    """Return the only variable with dimensions in a netCDF file."""
    return _lone_matrix(_root_datasets(file)) if hdf5_contents.is_netcdf(file) else None


def _root_datasets(file: h5py.File) -> dict[str, h5py.Dataset]:
    """Return the datasets at the root of a file, by name."""
    found = {name: file[name] for name in file if file.get(name, getclass=True) is h5py.Dataset}
    return {name: item for name, item in found.items() if not hdf5_contents.is_netcdf_dimension(item)}


def _lone_matrix(datasets: dict[str, h5py.Dataset]) -> str | None:
    found = list(hdf5_contents.candidate_matrices(datasets))
    return found[0] if len(found) == 1 else None


def read(file: h5py.File, name: str, options: LoadOptions) -> Dataset:
    """Read the data set of a file whose arrays have the names that other programs use: x_train, images, data …"""
    top = {
        path[1:]: item for path, item in hdf5_guard.walk_datasets(file, where=name, include_soft_links=True).items() if path.count("/") == 1
    }
    readable = {column: item for column, item in top.items() if item.dtype.kind in KINDS and not hdf5_contents.is_netcdf_dimension(item)}
    rows = options.rows
    if (
        rows is None
        and not named_arrays.find_row_array(readable)
        and not named_arrays.find_split_arrays(readable)
        and (rows := _lone_variable(file))
    ):
        options.note(f"{name}: rows are read from /{rows}")
    hdf5_guard.check_readable({f"/{column}": item for column, item in readable.items()}, limit=options.limit, where=name)
    values = {column: codec.read_array(item, text=object) for column, item in readable.items()}
    rows = rows or named_arrays.find_row_array(values)
    columns = [] if rows or options.rows else hdf5_contents.column_datasets(readable, {*RESERVED, options.label or "y", *options.keep})
    if columns and "X" not in values and not named_arrays.find_split_arrays(values):
        parts = [unsealed_hdf5.unpack_values(values.pop(column), top[column], name, options.note) for column in columns]
        values |= {"X": np.column_stack(parts), "feature_names": np.array(columns)}
    if rows in values:
        values[rows] = unsealed_hdf5.unpack_values(values[rows], top[rows], name, options.note)
    if options.rows is not None:
        values["X"] = values.pop(options.rows)
    elif rows is not None and rows in values and "X" not in values and rows not in named_arrays.ROWS:
        values["X"] = values.pop(rows)
    return named_arrays.dataset_from_arrays(
        values, where=name, options=options, hint="a data set keeps its rows in /X (n, d) and its labels in /y (n)"
    )
