"""AnnData (.h5ad), the format of scanpy: X or a layer, dense or sparse; names of genes; a column of obs as labels.

Source: the on-disk format of anndata, versions 0.1 to 0.2 of its encodings.
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
from herdcli.schema import Array, Matrix

OBS = "obs:"


def is_anndata(file: h5py.File) -> bool:
    """Return whether an HDF5 file has the groups of AnnData."""
    return hdf5_guard.text_attribute(file, "encoding-type") == "anndata" or ("X" in file and "obs" in file and "var" in file)


def read(file: h5py.File, name: str, options: LoadOptions) -> Dataset:
    """Read the data set of a guarded file."""
    datasets = hdf5_guard.walk_datasets(file, where=name, include_soft_links=True)
    place = f"layers/{options.layer}" if options.layer else "X"
    layers = sorted(file["layers"]) if isinstance(file.get("layers"), h5py.Group) else []
    if place not in file:
        raise BadUsage(f"has no {'layer ' + repr(options.layer) if options.layer else 'X'}", where=name, hint=_describe_layers(layers))
    obs, var = file["obs"], file["var"]
    columns = _column_names(obs)
    label = _label_column(options.label, columns, name)
    needed = {path: item for path, item in datasets.items() if path == f"/{place}" or path.startswith(f"/{place}/")}
    for group, column in ((var, _index_column(var)), *(((obs, label),) if label else ())):
        needed |= {path: item for path, item in datasets.items() if _is_column_member(path, group, column)}
    hdf5_guard.check_readable(needed, limit=options.limit, where=name)
    X = _read_matrix(file[place], name)
    roles: dict[str, Array] = {}
    genes = _read_column(var, _index_column(var), name)
    if genes is not None and len(set(genes.tolist())) == len(genes):
        roles["feature_names"] = genes.astype(str)
    if label:
        roles["y"] = _read_labels(obs, label, name)
    else:
        options.note(
            f"{name}: no labels are read; --label obs:COLUMN reads them from a column of obs ({', '.join(columns[:12]) or 'there is none'})"
        )
    if layers and not options.layer:
        options.note(f"{name}: read X; {_describe_layers(layers)}")
    return assemble_dataset(X, roles, {}, where=name, note=options.note)


def _describe_layers(layers: list[str]) -> str:
    return f"--layer takes {', '.join(layers[:12])}" if layers else "it has no layers"


def _is_column_member(path: str, group: h5py.Group, column: str | None) -> bool:
    whole = f"{group.name}/{column}"
    categories = f"{group.name}/__categories/{column}"
    return column is not None and (path in (whole, categories) or path.startswith(f"{whole}/") or path == group.name)


def _column_names(frame: h5py.Group) -> list[str]:
    if isinstance(frame, h5py.Dataset):
        return list(frame.dtype.names or ())
    index = _index_column(frame)
    return [name for name in frame if name not in (index, "__categories")]


def _index_column(frame: h5py.Group) -> str | None:
    """Return the column that names the rows of a frame."""
    if isinstance(frame, h5py.Dataset):
        return (frame.dtype.names or (None,))[0]
    text = hdf5_guard.text_attribute(frame, "_index") or "_index"
    return text if text in frame else None


def _label_column(requested: str | None, columns: list[str], where: str) -> str | None:
    if requested is None:
        return None
    column = requested.removeprefix(OBS)
    if column not in columns:
        listed = ", ".join(f"{OBS}{name}" for name in columns[:12]) or "no column"
        raise BadUsage(f"has no column '{column}' in obs", where=where, hint=f"--label takes {listed}")
    return column


def _read_labels(obs: h5py.Group, label: str, where: str) -> Array:
    found = _read_column(obs, label, where)
    if found is None:
        raise DataError(
            f"obs:{label} has values that are neither numbers nor text nor categories",
            where=where,
            hint="use another column: --label obs:COLUMN",
        )
    if found.dtype.kind in "UO" and (missing := [row for row, text in enumerate(found.tolist()) if not text]):
        raise DataError(
            f"obs:{label} has {len(missing)} missing values (first: row {missing[0]})",
            where=where,
            hint="use another column: --label obs:COLUMN",
        )
    return found


def _read_column(frame: h5py.Group, name: str | None, where: str) -> Array | None:
    """Return a column of a frame, plain or categorical; None if it is neither."""
    if name is None or isinstance(frame, h5py.Dataset):
        return None
    item = frame[name]
    if isinstance(item, h5py.Group):
        if not {"categories", "codes"} <= set(item):
            return None
        return _decode_categories(codec.read_array(item["codes"]), codec.read_array(item["categories"], text=object), name, where)
    values = codec.read_array(item, text=object)
    if "__categories" in frame and name in frame["__categories"]:
        return _decode_categories(values, codec.read_array(frame["__categories"][name], text=object), name, where)
    return values


def _decode_categories(codes: Array, categories: Array, name: str, where: str) -> Array:
    if codes.dtype.kind not in "iu" or (codes.size and not -1 <= codes.min() <= codes.max() < len(categories)):
        raise DataError(
            f"{name} is damaged: some rows have a code that no category belongs to",
            where=where,
            hint="write the file again with the program that made it",
        )
    texts = np.array([str(text) for text in categories.tolist()] + [""], dtype=object)
    return np.asarray(texts[codes])


def _read_matrix(item: h5py.Dataset, where: str) -> Matrix:
    """Return a dense matrix, or CSR for CSR and CSC."""
    if isinstance(item, h5py.Dataset):
        return codec.read_array(item)
    form = hdf5_guard.text_attribute(item, "encoding-type", "h5sparse_format").removesuffix("_matrix")
    shape = hdf5_guard.shape_attribute(item, "shape", "h5sparse_shape")
    if form not in ("csr", "csc") or shape is None or not {"data", "indices", "indptr"} <= set(item):
        raise DataError(
            f"{item.name} has the encoding '{form}', but herd reads only dense, csr and csc",
            where=where,
            hint="convert it in Python: adata.X = adata.X.tocsr()",
        )
    rows, columns = shape
    try:
        found = codec.read_csr(item, (rows, columns) if form == "csr" else (columns, rows))
    except ValueError as error:
        raise DataError(
            f"{item.name} is damaged: {error}", where=where, hint="write the file again with the program that made it"
        ) from error
    if form == "csc":
        found = found.T.tocsr()
    found.sum_duplicates()
    return found
