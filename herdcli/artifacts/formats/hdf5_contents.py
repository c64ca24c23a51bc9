"""The contents of an HDF5 file: their list for hints, and the resolution of FILE.h5:/PATH."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from herdcli.artifacts import hdf5_guard
from herdcli.artifacts.h5py_import import h5py
from herdcli.artifacts.sealed import codec
from herdcli.errors import BadUsage

LISTED = 8
TITLES = ("words", "vocabulary", "vocab", "terms", "column_names", "variable_names")  # other programs' and users' names for feature_names
DIMENSION = b"This is a netCDF dimension but not a netCDF variable"


def describe_datasets(datasets: Mapping[str, h5py.Dataset]) -> str:
    """Return datasets with their sizes as text, for a hint."""
    shown = [f"{path} ({'×'.join(map(str, item.shape or ())) or 'single'})" for path, item in sorted(datasets.items())]
    return ", ".join(shown[:LISTED]) + (" …" if len(shown) > LISTED else "") or "nothing"


def is_netcdf_dimension(item: h5py.Dataset) -> bool:
    """Return whether a dataset is a netCDF dimension without values."""
    name = item.attrs.get("NAME", b"")
    return isinstance(name, bytes) and name.startswith(DIMENSION)


def is_netcdf(file: h5py.File) -> bool:
    """Return whether a netCDF library wrote the file."""
    return "_NCProperties" in file.attrs or any(
        is_netcdf_dimension(file[name]) for name in file if file.get(name, getclass=True, getlink=False) is h5py.Dataset
    )


def candidate_matrices(datasets: Mapping[str, h5py.Dataset]) -> dict[str, h5py.Dataset]:
    """Return the numeric datasets that may be rows: two dimensions or more, and not dimensions of netCDF."""
    return {path: item for path, item in datasets.items() if item.dtype.kind in "fiub" and item.ndim > 1 and not is_netcdf_dimension(item)}


def column_datasets(datasets: Mapping[str, h5py.Dataset], reserved: Collection[str]) -> list[str]:
    """Return the datasets that are columns of a table: at least two numeric vectors of one length, if there is no matrix.

    Coordinates of netCDF are excluded, and so are `reserved` names, which hold labels and the like.
    """
    if candidate_matrices(datasets):
        return []
    vectors = {
        name: item
        for name, item in datasets.items()
        if item.ndim == 1 and item.dtype.kind in "fiub" and name not in reserved and item.attrs.get("CLASS") != b"DIMENSION_SCALE"
    }
    return list(vectors) if len(vectors) > 1 and len({len(item) for item in vectors.values()}) == 1 else []


def find_column_titles(file: h5py.File, limit: int, where: str) -> dict[str, str]:
    """Return path -> `feature_names`, for texts that name the columns of X under another name, each once; {} if there are none."""
    X = file.get("X")
    sparse = isinstance(X, h5py.Group)
    shape = hdf5_guard.shape_attribute(X, "shape") or hdf5_guard.shape_attribute(file, "shape") if sparse else getattr(X, "shape", None)
    if shape is None or len(shape) != 2 or "feature_names" in file:
        return {}
    for name in TITLES:
        item = file.get(name)
        if isinstance(item, h5py.Dataset) and item.shape == (shape[1],) and h5py.check_string_dtype(item.dtype):
            hdf5_guard.check_readable({f"/{name}": item}, limit=limit, where=where)
            if len({*codec.read_array(item, text=object).tolist()}) == shape[1]:
                return {f"/{name}": "feature_names"}
    return {}


def resolve_member(file: h5py.File, member: str, *, where: str) -> tuple[Any, str | None]:
    """Return the group at a path and None; or, for a dataset, its group and its name.

    Raises BadUsage for a path to neither.
    """
    datasets = hdf5_guard.walk_datasets(file, where=where, include_soft_links=True)
    path = f"/{member.strip('/')}"
    if path in datasets:
        above, _, name = path.rpartition("/")
        return file[above or "/"], name
    if member.strip("/") and not any(other.startswith(f"{path}/") for other in datasets):
        raise BadUsage(f"has no dataset {path}", where=where, hint=f"it has {describe_datasets(datasets)}")
    found = file[path]
    return (found, None) if isinstance(found, h5py.Group) else (file, None)
