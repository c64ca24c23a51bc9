"""Finished data sets as HDF5 files that other programs can read too: one HDF5 dataset for each array; other entries are attributes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from herdcli.artifacts.h5py_import import h5py
from herdcli.datasets.registry import Arrays, DatasetEntry

CSR = ("X/data", "X/indices", "X/indptr")


def write_arrays(path: Path, entry: DatasetEntry, arrays: Arrays) -> None:
    """Write a finished set, gzip-compressed; equal arrays and libraries give equal bytes."""
    with h5py.File(path, "w", libver=("v110", "v110"), locking=False) as file:
        for name, value in _attributes(entry, arrays).items():
            file.attrs[name] = value
        for name, value in arrays.items():
            if isinstance(value, list):
                file.create_dataset(name, data=value, dtype=h5py.string_dtype(), track_times=False)
            else:
                wide = value.dtype.itemsize > 1
                file.create_dataset(name, data=value, compression="gzip", compression_opts=4, shuffle=wide, track_times=False)


def _attributes(entry: DatasetEntry, arrays: Arrays) -> dict[str, Any]:
    found: dict[str, Any] = {"name": entry.name, "source": entry.origin, "licence": entry.licence, "description": entry.description}
    found |= {name: np.array(value) if isinstance(value, tuple) else value for name, value in entry.attributes.items()}
    if set(CSR) <= set(arrays):
        found |= {"format": "csr", "shape": np.array([entry.rows, entry.columns])}
    return found


def read_arrays(path: Path) -> Arrays:
    """Return the arrays of a finished set; texts are lists."""
    found: Arrays = {}

    def collect(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = [text.decode() for text in item[:]] if item.dtype.kind == "O" else item[...]

    with h5py.File(path, "r") as file:
        file.visititems(collect)
    return found


def read_svmlight(path: Path) -> Arrays:
    """Return the entries (CSR) and labels of an svmlight file; they do not depend on the formatting of numbers and spaces."""
    from herdcli.artifacts.text.svmlight import parse_svmlight

    with path.open("rb") as file:
        X, y = parse_svmlight(file, where=str(path))
    return {
        "X/data": X.data.astype(np.float64),
        "X/indices": X.indices.astype(np.int32),
        "X/indptr": X.indptr.astype(np.int64),
        "y": np.asarray(y).astype(np.float64),
    }
