"""Data sets in HDF5 files of users: `X`, `y` and so on, without herd's seal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np

from herdcli.artifacts import hdf5_guard
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.formats import hdf5_contents
from herdcli.artifacts.h5py_import import h5py
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.sealed import codec
from herdcli.artifacts.tables.column_roles import NONE, require_column
from herdcli.artifacts.tables.dataset_assembly import assemble_dataset, flatten_rows, map_indices_to_names
from herdcli.errors import BadUsage, DataError
from herdcli.schema import Array, CSRMatrix

LABELS = ("y", "Y", "label", "labels", "class", "target", "targets")
NAMES = ("feature_names", "class_names")
DECLARED = ("value_range", "image_shape", "units", "source", "licence")
FILLS = ("_FillValue", "missing_value")
CSR = {"data", "indices", "indptr"}


def read(file: h5py.File, name: str, options: LoadOptions) -> Dataset:
    """Read the data set of a guarded file.  HDF5 datasets that are neither part of it nor to be kept are ignored with one note.

    In columns that are kept, indices into a dataset NAME_names are replaced by the names.
    """
    if options.layer is not None:
        raise BadUsage("--layer works only with AnnData files, and this is not one", where=name, hint="leave out --layer")
    limit, note, label, keep = options.limit, options.note, options.label, options.keep
    datasets = {
        path: item
        for path, item in hdf5_guard.walk_datasets(file, where=name, include_soft_links=True).items()
        if not hdf5_contents.is_netcdf_dimension(item)
    }
    matlab = "MATLAB_class" in (file["X"].attrs if "X" in file else {})
    sparse = _is_csr(file)
    rows = [f"/X/{part}" for part in ("data", "indices", "indptr")] if sparse else ["/X"]
    if not set(rows) <= set(datasets):
        found = ", ".join(sorted(datasets)[:8]) or "nothing"
        matrices = sorted(hdf5_contents.candidate_matrices(datasets))
        hint = f"name its rows: {name}:{matrices[0]}" if matrices else "a data set keeps its rows in /X (n, d) and its labels in /y (n)"
        raise DataError(
            f"has no dataset /X (it has {hdf5_contents.describe_datasets(datasets) if matrices else found})", where=name, hint=hint
        )
    top = {path[1:] for path in datasets if path.count("/") == 1}
    labels = choose_label(top, [known for known in LABELS if known not in keep], label, name)
    columns = {role: f"/{role}" for role in ("split", "weight", *NAMES) if f"/{role}" in datasets}
    titles = {} if matlab else hdf5_contents.find_column_titles(file, limit, name)
    columns |= {role: path for path, role in titles.items() if path[1:] not in (*keep, labels)}
    if labels:
        columns["y"] = f"/{labels}"
    kept = select_kept_columns(keep, {path[1:] for path in datasets}, {"X", *(path[1:] for path in columns.values())})
    used = {
        path: datasets[path] for path in [*rows, *columns.values(), *(f"/{column}" for pair in kept.items() for column in pair if column)]
    }
    used |= {f"/{role}": datasets[f"/{role}"] for role in DECLARED if f"/{role}" in datasets and role not in kept}
    hdf5_guard.check_readable(used, limit=limit, where=name)
    ignored = sorted(path for path in datasets if path not in used)
    if ignored:
        note(f"{name}: these parts of the file are not used: {', '.join(ignored)}")
    X, pictures = (
        (_read_csr(file), {}) if sparse else flatten_rows(unpack_values(codec.read_array(datasets["/X"]), datasets["/X"], name, note))
    )
    read = {role: path for role, path in columns.items() if options.labels or role != "y"}
    parts = {role: codec.read_array(datasets[path], text=object) for role, path in read.items()}
    if matlab:
        X, parts = X.T, {role: part.ravel() for role, part in parts.items()}
    further = {column: codec.read_array(datasets[f"/{column}"], text=object).ravel() for column in kept}
    for column, names in kept.items():
        if names:
            further[column] = map_indices_to_names(further[column], codec.read_array(datasets[f"/{names}"], text=object), column, name)
    attributes, response = pictures | read_attributes(file), bool(options.roles.response)
    return assemble_dataset(X, parts, attributes, where=name, note=note, columns=further, response=response)


def has_netcdf_packing(item: h5py.Dataset) -> bool:
    """Return whether a dataset declares, as in netCDF, that its stored numbers are scaled, or that one of them means a missing value."""
    return any(name in item.attrs for name in (*FILLS, "scale_factor", "add_offset"))


def unpack_values(X: Array, item: h5py.Dataset, where: str, note: Callable[[str], None]) -> Array:
    """Return the unpacked values according to the netCDF attributes: NaN for fill values, else X · scale_factor + add_offset."""
    said: dict[str, float] = {}
    for attribute in (*FILLS, "scale_factor", "add_offset"):
        with contextlib.suppress(TypeError, ValueError, IndexError):
            said[attribute] = float(np.asarray(item.attrs.get(attribute, np.empty(0)), dtype=np.float64).ravel()[0])
    gaps = np.isin(X, [said[attribute] for attribute in FILLS if attribute in said]) if X.dtype.kind in "iuf" else np.zeros(0, dtype=bool)
    scale, offset = said.get("scale_factor", 1.0), said.get("add_offset", 0.0)
    if X.dtype.kind not in "iuf" or not (gaps.any() or scale != 1.0 or offset != 0.0):
        return X
    note(
        f"{where}: {item.name} is rescaled by its attributes scale_factor {scale:g} and add_offset {offset:g}; "
        f"{int(gaps.sum())} fill values are read as missing"
    )
    return np.where(gaps, np.nan, X * scale + offset)


def select_kept_columns(keep: Iterable[str], names: Collection[str], used_names: Collection[str]) -> dict[str, str | None]:
    """Return the requested columns that exist and have no role yet, each with the dataset of its value names or None."""
    return {name: f"{name}_names" if f"{name}_names" in names else None for name in keep if name in names and name not in used_names}


def choose_label(names: Collection[str], candidates: Iterable[str], label: str | None, where: str) -> str | None:
    """Return the name of the labels: the user's choice, None for `none`, else the first candidate present, else None."""
    if label == NONE and NONE not in names:
        return None
    if label is not None:
        return require_column(sorted(names), label, "y", where)
    return next((candidate for candidate in candidates if candidate in names), None)


def _is_csr(file: h5py.File) -> bool:
    """Return whether X is a group of CSR arrays, with the attribute `shape` and, if a format is declared, that of CSR."""
    group = file.get("X")
    if not isinstance(group, h5py.Group) or not set(group) >= CSR:
        return False
    formats = {
        text for holder in (group, file) for name in ("format", "encoding-type") if (text := hdf5_guard.text_attribute(holder, name))
    }
    return bool({"csr", "csr_matrix"} & formats) or not formats & {"csc", "csc_matrix", "coo", "bsr"}


def _read_csr(file: h5py.File) -> CSRMatrix:
    shape = hdf5_guard.shape_attribute(file["X"], "shape") or hdf5_guard.shape_attribute(file, "shape")
    if shape is None:
        raise DataError("the CSR group /X has no attribute shape (n, d)", hint="add this attribute with the numbers of rows and columns")
    try:
        return codec.read_csr(file["X"], shape)
    except ValueError as error:
        raise DataError(f"the CSR group /X is damaged: {error}", hint="write the file again with the program that made it") from error


def read_attributes(file: h5py.File) -> dict[str, Any]:
    """Return the declarations about the rows: datasets, as herd writes arrays, or attributes of the root or of /X."""
    found: dict[str, Any] = {
        name: _decode_text(file[name][()]) for name in DECLARED if isinstance(file.get(name), h5py.Dataset) and name not in file.attrs
    }
    for holder in (file, file["X"]):
        for name in DECLARED:
            if name in holder.attrs:
                found[name] = _decode_text(holder.attrs[name])
    return found


def _decode_text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
