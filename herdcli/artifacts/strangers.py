"""HDF5 whose arrays have the names that other programs give them: x_train and y_train, images and labels, data …"""

from __future__ import annotations

from typing import Any

from herdcli.artifacts import arrays, codec, contents, guard, people
from herdcli.artifacts.asked import Asked
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.libhdf5 import h5py

KINDS = "fiubSO"


def has_rows(file: Any) -> bool:
    """Are there rows under such names, or in netCDF one matrix alone, and none under X?"""
    return "X" not in file and bool(arrays.row_name(list(file)) or arrays.parted(list(file)) or _lone_variable(file))


def _lone_variable(file: Any) -> str | None:
    """The one variable with dimensions of a netCDF file."""
    return _lone_matrix(_datasets(file)) if contents.is_netcdf(file) else None


def _datasets(file: Any) -> dict[str, Any]:
    """The datasets of a file that lie in no group, by name."""
    found = {name: file[name] for name in file if file.get(name, getclass=True) is h5py.Dataset}
    return {name: item for name, item in found.items() if not contents.is_dimension(item)}


def _lone_matrix(datasets: dict[str, Any]) -> str | None:
    found = list(contents.matrices(datasets))
    return found[0] if len(found) == 1 else None


def read(file: Any, name: str, asked: Asked) -> Dataset:
    """The data set of a file whose arrays have the names that other programs give them: x_train, images, data …"""
    top = {path[1:]: item for path, item in guard.walk(file, where=name, soft=True).items() if path.count("/") == 1}
    readable = {column: item for column, item in top.items() if item.dtype.kind in KINDS and not contents.is_dimension(item)}
    rows = asked.rows
    if rows is None and not arrays.row_name(readable) and not arrays.parted(readable) and (rows := _lone_variable(file)):
        asked.note(f"{name}: rows are read from /{rows}")
    guard.check_readable({f"/{column}": item for column, item in readable.items()}, limit=asked.limit, where=name)
    values = {column: codec.read_array(item, text=object) for column, item in readable.items()}
    rows = rows or arrays.row_name(values)
    if rows in values:
        values[rows] = people.unpacked(values[rows], top[rows], name, asked.note)
    if asked.rows is not None:
        values["X"] = values.pop(asked.rows)
    elif rows is not None and rows in values and "X" not in values and rows not in arrays.ROWS:
        values["X"] = values.pop(rows)
    return arrays.from_arrays(values, where=name, asked=asked, hint="a data set keeps its rows in /X (n, d) and its labels in /y (n)")
