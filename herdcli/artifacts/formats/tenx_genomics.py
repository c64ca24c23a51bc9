"""10x Genomics' HDF5 (filtered_feature_bc_matrix.h5): counts of genes in cells, a row for each cell.

Source: the feature-barcode matrices of Cell Ranger; version 3 has the group /matrix, version 2 a group for each genome.  Genes are
the columns: the compressed columns of the file are the rows here.
"""

from __future__ import annotations

import numpy as np

from herdcli.artifacts import hdf5_guard
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.h5py_import import h5py
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.sealed import codec
from herdcli.artifacts.tables.dataset_assembly import assemble_dataset
from herdcli.errors import BadUsage, DataError
from herdcli.schema import Array

PARTS = {"data", "indices", "indptr", "shape", "barcodes"}


def is_tenx(file: h5py.File) -> bool:
    """Return whether a file, or a group of it, has a matrix of genes and barcodes."""
    return bool(_matrix_groups(file))


def _matrix_groups(file: h5py.File) -> list[str]:
    if set(file) >= PARTS and ("features" in file or "genes" in file):
        return ["."]
    return sorted(name for name in file if isinstance(file.get(name), h5py.Group) and set(file[name]) >= PARTS)


def read(file: h5py.File, name: str, options: LoadOptions) -> Dataset:
    """Read the data set of a guarded file, one row for each barcode."""
    if options.label is not None:
        raise BadUsage("has no labels for its cells", where=name, hint="leave --label out")
    groups = _matrix_groups(file)
    if len(groups) > 1:
        raise BadUsage(
            f"has {len(groups)} matrices, but herd reads one",
            where=name,
            hint=f"name one of {', '.join(groups)}, as in {name}:/{groups[0]}",
        )
    group = file[groups[0]] if groups[0] != "." else file
    datasets = hdf5_guard.walk_datasets(group, where=name)
    genes = next((path for path in ("/features/name", "/gene_names", "/features/id", "/genes") if path in datasets), None)
    needed = {path: item for path, item in datasets.items() if path[1:] in PARTS - {"barcodes"} or path == genes}
    hdf5_guard.check_readable(needed, limit=options.limit, where=name)
    shape = codec.read_array(group["shape"]).ravel()
    if shape.shape != (2,):
        raise DataError(
            "/matrix/shape must have two numbers, those of genes and of cells",
            where=name,
            hint="write the file again with the program that made it",
        )
    try:
        X = codec.read_csr(group, (int(shape[1]), int(shape[0])))
    except ValueError as error:
        raise DataError(f"the matrix is damaged: {error}", where=name, hint="write the file again with the program that made it") from error
    parts: dict[str, Array] = {}
    if genes is not None:
        titles = codec.read_array(datasets[genes], text=object)
        parts["feature_names"] = np.array(_deduplicate([str(title) for title in titles.tolist()]), dtype=str)
    options.account.append(f"{X.shape[0]} cells, {X.shape[1]} genes")
    return assemble_dataset(X, parts, {}, where=name, note=options.note)


def _deduplicate(names: list[str]) -> list[str]:
    """Return gene names in which repeated ones get a number, as in scanpy: MATR3, MATR3-1."""
    taken, found = set(names), []
    seen: dict[str, int] = {}
    for name in names:
        number = seen.get(name, 0)
        seen[name] = number + 1
        title = name
        while number and (title := f"{name}-{number}") in taken:
            number += 1
        taken.add(title)
        found.append(title)
    return found
