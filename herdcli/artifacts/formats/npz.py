"""NPZ: NumPy arrays in a zip file.  Arrays of objects contain pickles and are refused."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.lib import format as npy

from herdcli.artifacts import memory_budget
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.formats.unsealed_hdf5 import LABELS, choose_label, select_kept_columns
from herdcli.artifacts.library_errors import convert_library_errors, error_reason
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.tables import native_arrays
from herdcli.artifacts.tables.dataset_assembly import assemble_dataset, map_indices_to_names
from herdcli.artifacts.tables.named_arrays import dataset_from_arrays, flatten_images
from herdcli.errors import BadUsage, DataError
from herdcli.schema import TRUTHS, Array, CSRMatrix, DType

ATTRIBUTES = ("units", "value_range", "image_shape", "source", "licence")
NAMES = ("feature_names", "class_names")
CSR = ("data", "indices", "indptr", "shape")
COO = ("row", "col", "data")
DIA = ("data", "offsets")


def read(path: str, *, where: str, options: LoadOptions) -> Dataset:
    """Read the data set of arrays `X`, `y` …; or of a matrix saved by scipy's `save_npz` with labels added."""
    keep, label, note = options.keep, options.label, options.note
    arrays = _rename_row_array(load_arrays(path, where=where, limit=options.limit), where, options)
    declared = {"format", "shape"} <= set(arrays)
    sparse = "X" not in arrays and (set(CSR) <= set(arrays) or (declared and (set(COO) <= set(arrays) or set(DIA) <= set(arrays))))
    if not sparse and "X" not in arrays and declared and "data" in arrays:
        raise _csr_error(where)
    if not sparse and "X" not in arrays:
        return dataset_from_arrays(arrays, where=where, options=options, hint=_rows_hint(arrays, where))
    X, pictures = (_csr_from_arrays(arrays, where), {}) if sparse else flatten_images(arrays["X"])
    labels = choose_label(arrays, [known for known in LABELS if known not in keep], label, where)
    roles = {role: arrays[role] for role in ("split", "weight", *NAMES) if role in arrays} | ({"y": arrays[labels]} if labels else {})
    used = {"X", "format", *ATTRIBUTES, *roles, *((*CSR, *COO, *DIA) if sparse else ()), labels}
    kept = select_kept_columns(keep, arrays, used)
    used |= {name for pair in kept.items() for name in pair if name}
    further = {
        column: map_indices_to_names(arrays[column].ravel(), arrays[names], column, where) if names else arrays[column]
        for column, names in kept.items()
    }
    ignored = sorted(set(arrays) - used)
    if ignored:
        note(f"{where}: these parts of the file are not used: {', '.join(ignored)}")
    roles = {role: array for role, array in roles.items() if options.labels or role != "y"}
    attributes = pictures | {name: _decode_scalar(arrays[name]) for name in ATTRIBUTES if name in arrays}
    return assemble_dataset(X, roles, attributes, where=where, note=note, columns=further, response=bool(options.roles.response))


def _rename_row_array(arrays: dict[str, Array], where: str, options: LoadOptions) -> dict[str, Array]:
    """Return the arrays, with the rows under X if FILE.npz:NAME names them.

    Raises BadUsage for a name that no array has.
    """
    if options.member is not None:
        name = options.member.strip("/")
        if name not in arrays:
            raise BadUsage("has no such array", where=where, hint=f"it has {', '.join(arrays) or 'nothing'}")
        return {other: array for other, array in arrays.items() if other not in ("X", name)} | {"X": arrays[name]}
    return arrays


def _rows_hint(arrays: dict[str, Array], where: str) -> str:
    """Return a hint on what to type if no array has a usual name for rows."""
    matrix = next((name for name, array in arrays.items() if array.ndim > 1 and array.dtype.kind in "fiub"), None)
    return "numpy.savez(FILE, X=X, y=y)" if matrix is None else f"name its rows: {where}:{matrix}"


def read_array(path: str, *, where: str, options: LoadOptions) -> Dataset:
    """Read the data set of a single array: rows (n, d); a vector is one column; images (n, h, w) become rows of pixels."""
    if options.label is not None or options.required:
        raise BadUsage(
            "a file with a single array has no labels or further columns",
            where=where,
            hint="save the data as .npz: numpy.savez(FILE, X=X, y=y)",
        )
    with open(path, "rb") as file, _convert_read_errors("the array", where):
        shape, _, dtype = _read_header(file, "X", where)
        if dtype.hasobject:
            raise DataError(
                "has Python objects (a pickle), which herd does not read",
                where=where,
                hint="save numbers: pickles can run code and are never loaded",
            )
        if dtype.names:
            hint = "make a plain array of it: numpy.lib.recfunctions.structured_to_unstructured"
            raise DataError("has records (a structured array), which herd does not read", where=where, hint=hint)
        memory_budget.require_memory(
            int(np.prod([int(length) for length in shape], dtype=object)) * dtype.itemsize, options.limit, where=where
        )
        file.seek(0)
        X = npy.read_array(file, allow_pickle=False)
        if file.read(1):
            hint = "save several arrays as .npz: numpy.savez(FILE, X=X, y=y)"
            raise DataError("the file continues after its array, perhaps with a second array", where=where, hint=hint)
    X, pictures = flatten_images(X)
    return assemble_dataset(X, {}, pictures, where=where, note=options.note)


def load_arrays(path: str, *, where: str, limit: int) -> dict[str, Array]:
    """Read all arrays of the file by name.  Raises DataError for a file that is cut short, damaged, or contains pickles."""
    with _convert_read_errors("the NPZ file", where), zipfile.ZipFile(path) as archive:
        return _read_members(archive, where, limit)


@contextmanager
def _convert_read_errors(what: str, where: str) -> Iterator[None]:
    """Convert the various errors of zipfile and NumPy, and of what they call, to one DataError; arrays of Python 2 give no warning."""

    def describe(error: Exception) -> DataError:
        return DataError(
            f"{what} cannot be read ({error_reason(error)})", where=where, hint="download or make it again: it may be cut short or damaged"
        )

    with convert_library_errors(("zipfile", "numpy"), describe), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Reading .* required additional header parsing", UserWarning)
        yield


def _read_members(archive: zipfile.ZipFile, where: str, limit: int) -> dict[str, Array]:
    """Read every member as an array; sizes are checked before reading, checksums while reading."""
    memory_budget.require_memory(sum(entry.file_size for entry in archive.infolist()), limit, where=where)
    arrays: dict[str, Array] = {}
    for entry in archive.infolist():
        name = entry.filename.removesuffix(".npy")
        with archive.open(entry) as member:
            shape, _, dtype = _read_header(member, name, where)
            if dtype.hasobject:
                hint = "save numbers or str arrays: pickles can run code and are never loaded"
                raise DataError(f"array {name} has Python objects (a pickle), which herd does not read", where=where, hint=hint)
            declared = int(np.prod([int(length) for length in shape], dtype=object)) * dtype.itemsize
            if declared > entry.file_size:
                raise DataError(
                    f"array {name} is damaged: its header says {declared} bytes, but the file has at most {entry.file_size}",
                    where=where,
                    hint="make the file again",
                )
        with archive.open(entry) as member:
            arrays[name] = npy.read_array(member, allow_pickle=False)
            if member.read(1):
                raise DataError(f"array {name} is damaged: its data continue after the last value", where=where, hint="make the file again")
    return arrays


def _read_header(member: Any, name: str, where: str) -> tuple[tuple[int, ...], bool, DType]:
    version = npy.read_magic(member)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise DataError(
            f"array {name} is in version {version} of NumPy's format, which herd does not read",
            where=where,
            hint="save it again with numpy.savez",
        )
    read_header: Any = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    found: tuple[tuple[int, ...], bool, DType] = read_header(member)
    return found


def _csr_from_arrays(arrays: dict[str, Array], where: str) -> CSRMatrix:
    from herdcli.artifacts.sealed.codec import csr_matrix

    form, shape = str(_decode_scalar(arrays.get("format", np.array("csr")))), arrays["shape"].ravel()
    needed = {"coo": COO, "dia": DIA}.get(form, CSR)
    if (
        form not in ("csr", "csc", "coo", "bsr", "dia")
        or not set(needed) <= set(arrays)
        or shape.shape != (2,)
        or shape.dtype.kind not in "iu"
    ):
        raise _csr_error(where)
    rows, columns = int(shape[0]), int(shape[1])
    try:
        if form == "coo":
            return _csr_from_coo(arrays, rows, columns)
        if form == "dia":
            return _csr_from_diagonals(arrays, rows, columns)
        if form == "bsr":
            return _csr_from_blocks(arrays, rows, columns)
        across = (rows, columns) if form == "csr" else (columns, rows)
        found = csr_matrix(arrays["data"], arrays["indices"], arrays["indptr"], across)
        if form == "csr":
            return found
        transposed: CSRMatrix = native_arrays.native_matrix(found, name="X", where=where).T
        return transposed.tocsr()
    except ValueError as error:
        raise DataError(f"the sparse matrix is damaged: {error}", where=where, hint="save it again with scipy.sparse.save_npz") from error


def _csr_from_coo(arrays: dict[str, Array], rows: int, columns: int) -> CSRMatrix:
    """Return a CSR matrix from entries by row and column.  Raises ValueError for indices outside the matrix."""
    from scipy.sparse import coo_matrix

    row, column, data = (arrays[name] for name in COO)
    if {row.dtype.kind, column.dtype.kind} - set("iu") or data.dtype.kind not in "fiub" or not len(row) == len(column) == len(data):
        raise ValueError("entries have a row, a column and a number")
    if len(row) and not (0 <= row.min() <= row.max() < rows and 0 <= column.min() <= column.max() < columns):
        raise ValueError(f"entries lie outside {rows} × {columns}")
    values = native_arrays.native_array(data, name="data", where="")
    whole = values.astype(np.int64) if values.dtype.kind in "iub" else values  # avoid overflow in sums of repeated entries
    return coo_matrix((whole, (row.astype(np.int64), column.astype(np.int64))), shape=(rows, columns)).tocsr()


def _csr_from_diagonals(arrays: dict[str, Array], rows: int, columns: int) -> CSRMatrix:
    """Return a CSR matrix from diagonals.  Raises ValueError for invalid ones."""
    from scipy.sparse import dia_matrix

    data, offsets = native_arrays.native_array(arrays["data"], name="data", where=""), arrays["offsets"]
    if data.ndim != 2 or data.dtype.kind not in "fiub" or offsets.dtype.kind not in "iu" or offsets.shape != data.shape[:1]:
        raise ValueError("diagonals have an offset and numbers each")
    return dia_matrix((data, offsets.astype(np.int64)), shape=(rows, columns)).tocsr()


def _csr_from_blocks(arrays: dict[str, Array], rows: int, columns: int) -> CSRMatrix:
    """Return a CSR matrix from dense blocks.  Raises ValueError for blocks outside the matrix."""
    from herdcli.artifacts.sealed.codec import csr_matrix

    data = native_arrays.native_array(arrays["data"], name="data", where="")
    if data.ndim != 3 or data.dtype.kind not in "fiub" or not all(data.shape[1:]) or rows % data.shape[1] or columns % data.shape[2]:
        raise ValueError("blocks of one size fill the matrix")
    high, wide = data.shape[1:]
    blocks = csr_matrix(np.arange(len(data)), arrays["indices"], arrays["indptr"], (rows // high, columns // wide)).tocoo()
    down, across = np.broadcast_arrays(np.arange(high)[:, None], np.arange(wide))
    row = blocks.row.astype(np.int64)[:, None, None] * high + down
    column = blocks.col.astype(np.int64)[:, None, None] * wide + across
    entries = {"row": row.ravel(), "col": column.ravel(), "data": data[blocks.data].ravel()}
    return _csr_from_coo(entries, rows, columns)


def _csr_error(where: str) -> DataError:
    return DataError(
        "the sparse matrix has an unknown format; herd reads CSR, CSC, COO, BSR and DIA",
        where=where,
        hint="save it with scipy.sparse.save_npz(FILE, X.tocsr())",
    )


def _decode_scalar(value: Array) -> Any:
    item = value.item() if value.ndim == 0 else value
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else item


def write(path: Any, data: Dataset) -> None:
    """Write a data set as NPZ: equal data give equal bytes; a CSR matrix has scipy's names."""
    arrays: dict[str, Any] = {}
    if data.is_sparse:
        arrays |= {"format": np.array("csr"), "shape": np.array(data.X.shape, dtype=np.int64)}
        arrays |= {part: getattr(data.X, part) for part in ("data", "indices", "indptr")}
    else:
        arrays["X"] = data.X
    for name in ("y", "split", "weight", *NAMES, *ATTRIBUTES):
        value = getattr(data, name)
        if value is not None:
            arrays[name] = np.asarray(value)
    if data.class_names == list(TRUTHS) and data.y is not None and data.y.min(initial=0) >= 0:
        arrays["y"] = data.y.astype(bool)
    arrays = (data.columns or {}) | arrays
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                npy.write_array(member, np.asanyarray(array), allow_pickle=False)


def write_array(path: Any, data: Dataset) -> None:
    """Write only the rows, as numpy.save does."""
    with open(path, "wb") as out:
        npy.write_array(out, np.ascontiguousarray(data.X.toarray() if data.is_sparse else data.X), allow_pickle=False)
