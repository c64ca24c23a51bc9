"""HDF5 whose arrays have the names that other programs give them: x_train and y_train, images and labels, data …"""

from __future__ import annotations

from typing import Any

from herdcli.artifacts import arrays, codec, guard
from herdcli.artifacts.asked import Asked
from herdcli.artifacts.dataset import Dataset


def has_rows(file: Any) -> bool:
    """Are there rows under such names, and none under X?"""
    return "X" not in file and bool(arrays.row_name(list(file)) or arrays.parted(list(file)))


def read(file: Any, name: str, asked: Asked) -> Dataset:
    """The data set of a file whose arrays have the names that other programs give them: x_train, images, data …"""
    top = {path[1:]: item for path, item in guard.walk(file, where=name).items() if path.count("/") == 1}
    readable = {column: item for column, item in top.items() if item.dtype.kind in "fiubSO"}
    guard.check_readable({f"/{column}": item for column, item in readable.items()}, limit=asked.limit, where=name)
    values = {column: codec.read_array(item, text=object) for column, item in readable.items()}
    return arrays.from_arrays(values, where=name, asked=asked, hint="a data set keeps its rows in /X (n, d) and its labels in /y (n)")
