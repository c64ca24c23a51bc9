"""Conversion between dataclasses and HDF5 groups, driven by the type hints of the fields.  No kind has file code of its own.

| field                                   | in the file                                             |
|-----------------------------------------|---------------------------------------------------------|
| array (`schema.array` or an NDArray)    | dataset, little-endian, contiguous; strings UTF-8       |
| scipy CSR matrix in an array's place    | group `data`, `indices`, `indptr`, attributes `format`, `shape` |
| bool, int, float, str                   | attribute                                               |
| list or tuple of str, int, float, bool  | dataset                                                 |
| dataclass                               | group                                                   |
| other lists and tuples                  | group with members `0`, `1`, …, attribute `length`      |
| dict with str keys                      | group with members named by the keys (/ . % escaped), in order |
| None                                    | absent                                                  |
"""

from __future__ import annotations

import types
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from herdcli.artifacts.h5py_import import h5py
from herdcli.artifacts.tables import native_arrays
from herdcli.errors import DataError
from herdcli.schema import Array, CSRMatrix, array_spec_of_field, convert_to_declared, is_sparse

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SCALARS = (bool, int, float, str)
_TEXT = h5py.string_dtype("utf-8")


def write_fields(group: h5py.Group, value: DataclassInstance, *, rows: int | None = None) -> None:
    """Write every field of a dataclass into an HDF5 group.

    rows  the total number of rows, for which space is reserved: the arrays over rows "n", and those of dicts, have only the first ones.
    """
    for declared in fields(value):
        item = getattr(value, declared.name)
        if item is not None:
            _write_item(group, declared.name, item, rows if _has_row_dimension(declared, item) else None)


def _has_row_dimension(declared: Field[Any], item: object) -> bool:
    spec = array_spec_of_field(declared)
    return isinstance(item, dict) or (spec is not None and spec.dims[:1] == ("n",))


def append_rows(group: h5py.Group, value: DataclassInstance, start: int) -> None:
    """Append the next rows, from `start` on, of a dataclass that was written with reserved space."""
    for declared in fields(value):
        item = getattr(value, declared.name)
        if item is not None and _has_row_dimension(declared, item):
            parts = {_escape_key(key): part for key, part in item.items()} if isinstance(item, dict) else {declared.name: item}
            for name, part in parts.items():
                place = (group[declared.name] if isinstance(item, dict) else group)[name]
                values = _encode_texts(part) if part.dtype.kind in "OU" else part
                if part.dtype.kind not in "OU" and part.dtype.newbyteorder("<") != place.dtype:
                    raise TypeError(f"rows of field '{declared.name}' from {start} on hold {part.dtype}, those before {place.dtype}")
                place[start : start + len(part)] = values


def read_fields(group: h5py.Group, cls: type[Any], *, where: str) -> Any:
    """Read the dataclass `cls` from an HDF5 group.  Raises DataError for a missing item or one of another type."""
    hints = get_type_hints(cls)
    values: dict[str, Any] = {}
    for declared in fields(cls):
        try:
            item = _read_item(group, declared.name, hints[declared.name], where)
        except (ArithmeticError, LookupError, ValueError, TypeError, OSError, RuntimeError) as error:
            raise DataError(f"{_member_path(group, declared.name)} cannot be read ({error})", where=where) from error
        required = declared.default is MISSING and declared.default_factory is MISSING
        optional = _is_optional(hints[declared.name])
        if item is None and required and not optional:
            raise DataError(
                f"{_member_path(group, declared.name)} is missing", where=where, hint="make the file again, since it is incomplete"
            )
        if item is not None or required or optional:
            values[declared.name] = convert_to_declared(declared, item)
    return cls(**values)


def _write_item(group: h5py.Group, name: str, item: object, rows: int | None = None) -> None:
    if isinstance(item, SCALARS) or (isinstance(item, np.generic) and not isinstance(item, np.void)):
        write_attribute(group, name, item)
    elif isinstance(item, h5py.Empty):
        group.attrs[name] = item
    elif isinstance(item, np.ndarray):
        _write_array(group, name, item, rows)
    elif is_sparse(item):
        _write_csr(group, name, item)
    elif is_dataclass(item) and not isinstance(item, type):
        write_fields(_create_subgroup(group, name), item)
    elif isinstance(item, dict):
        inner = group.create_group(name, track_order=True, track_times=False)
        for key, part in item.items():
            _write_item(inner, _escape_key(key), h5py.Empty(np.float64) if part is None else part, rows)
    elif isinstance(item, (list, tuple)) and _are_scalars(item):
        _write_array(group, name, np.array(item, dtype=object if item and isinstance(item[0], str) else None))
    elif isinstance(item, (list, tuple)):
        inner = _create_subgroup(group, name)
        inner.attrs["length"] = np.int64(len(item))
        for index, part in enumerate(item):
            if part is not None:
                _write_item(inner, str(index), part)
    else:
        raise TypeError(f"field '{name}' holds a {type(item).__name__}, which artifacts cannot carry")


def _escape_key(key: str) -> str:
    """Escape a dict key for use as the name of an HDF5 member, where `/` and `.` have a meaning and empty names are invalid."""
    return _check_text(key).replace("%", "%25").replace("/", "%2F").replace(".", "%2E") or "%"


def _unescape_key(name: str) -> str:
    return "" if name == "%" else name.replace("%2E", ".").replace("%2F", "/").replace("%25", "%")


def _are_scalars(items: list[Any] | tuple[Any, ...]) -> bool:
    """Return whether all entries have the same scalar type, so that one dataset can store them."""
    if not items or type(items[0]) not in SCALARS or len(set(map(type, items))) > 1:
        return False
    return type(items[0]) is not int or all(-(1 << 63) <= item < 1 << 63 for item in items)


def _create_subgroup(group: h5py.Group, name: str) -> h5py.Group:
    return group.create_group(name, track_times=False)


def write_attribute(group: h5py.Group, name: str, item: Any) -> None:
    if isinstance(item, str):
        group.attrs.create(name, _check_text(item), dtype=_TEXT)
    elif isinstance(item, (bool, np.bool_)):
        group.attrs[name] = np.bool_(item)
    elif isinstance(item, (int, np.integer)):
        group.attrs[name] = np.uint64(item) if item >= 1 << 63 else np.int64(item)
    else:
        group.attrs[name] = np.float64(item)


def _is_storable(text: str) -> bool:
    """Return whether HDF5 returns a text unchanged: its strings end at a NUL and are UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _check_text(text: str) -> str:
    """Raise an error for a text that HDF5 would not return unchanged: its strings end at a NUL and are UTF-8."""
    if "\0" in text:
        raise DataError(f"the text {text[:40]!r} has a NUL character, which HDF5 cannot store")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(f"the text {text[:40]!r} is not valid Unicode, so HDF5 cannot store it") from error
    return text


def _write_array(group: h5py.Group, name: str, item: Array, rows: int | None = None) -> None:
    if item.dtype.kind not in "OUfiub":
        raise TypeError(f"field '{name}' holds {item.dtype}, which artifacts cannot carry")
    texts = item.dtype.kind in "OU"
    values, dtype = (_encode_texts(item), _TEXT) if texts else (item, item.dtype.newbyteorder("<"))
    if rows is None:
        group.create_dataset(name, data=values, dtype=dtype, track_times=False)
    else:
        group.create_dataset(name, shape=(rows, *item.shape[1:]), dtype=dtype, track_times=False)[: len(item)] = values


def _encode_texts(item: Array) -> Array:
    """Return texts in the form that HDF5 stores."""
    listed = item.ravel().tolist()
    if all(type(text) is str for text in listed) and _is_storable("".join(listed)):
        return item.astype(object)
    found: Array = np.array([_check_text(str(text)) for text in item.ravel()], dtype=object).reshape(item.shape)
    return found


def _write_csr(group: h5py.Group, name: str, item: CSRMatrix) -> None:
    inner = _create_subgroup(group, name)
    write_attribute(inner, "format", "csr")
    inner.attrs["shape"] = np.array(item.shape, dtype=np.int64)
    for part in ("data", "indices", "indptr"):
        _write_array(inner, part, getattr(item, part))


def _read_item(group: h5py.Group, name: str, hint: object, where: str) -> Any:
    """Return the item of a name, or None if there is none.  The contents of the file decide among the alternatives of a type hint."""
    if name in group.attrs:
        return _read_attribute(group.attrs[name], hint)
    if name not in group:
        return None
    item = group[name]
    if isinstance(item, h5py.Dataset):
        return _read_dataset(item, hint)
    if item.attrs.get("format") == "csr":
        return read_csr(item, tuple(int(length) for length in item.attrs["shape"]))
    return _read_group(item, hint, where)


def _read_attribute(stored: Any, hint: object) -> Any:
    if isinstance(stored, h5py.Empty):
        return None
    value = stored.item() if isinstance(stored, np.generic) else stored
    if isinstance(value, bytes):
        value = value.decode("utf-8")
    allowed = _union_members(hint)
    if float in allowed and type(value) is int and int not in allowed:
        value = float(value)
    if Any not in allowed and not any(type(value) is kind for kind in allowed if kind in SCALARS):
        names = " or ".join(getattr(kind, "__name__", str(kind)) for kind in allowed)
        raise TypeError(f"is a {type(value).__name__}, expected {names}")
    return value


def _read_dataset(item: h5py.Dataset, hint: object) -> Any:
    values = read_array(item)
    if all(get_origin(kind) is dict for kind in _union_members(hint)):
        raise TypeError("is a dataset, expected a group")
    for kind in _union_members(hint):
        origin = get_origin(kind)
        if origin in (list, tuple):
            if values.ndim != 1:
                raise ValueError(f"has {values.ndim} dimensions, expected 1")
            return origin(_convert_list_entries(values, get_args(kind)))
        if is_dataclass(kind) or kind in SCALARS:
            raise TypeError("is a dataset, expected something else")
    if values.dtype.kind == "f" and values.dtype.itemsize > native_arrays.SUPPORTED:
        with np.errstate(over="ignore"):  # no field has long doubles; values that become infinite are checked as float64
            return values.astype(np.float64)
    return values


def _convert_list_entries(values: Array, members: tuple[Any, ...]) -> list[Any]:
    """Return the entries of a vector that stores a list of scalars.  Raises TypeError if the list should contain another type."""
    allowed = {kind for member in members for kind in _union_members(member)} - {Ellipsis}
    held = {"f": float, "i": int, "u": int, "b": bool, "U": str}.get(values.dtype.kind)
    if values.size and allowed and Any not in allowed and held not in allowed and not (held is int and float in allowed):
        raise TypeError(f"holds {values.dtype}, expected {' or '.join(sorted(getattr(kind, '__name__', str(kind)) for kind in allowed))}")
    found: list[Any] = values.tolist()
    return found


def read_array(item: h5py.Dataset, *, text: Any = np.str_) -> Array:
    """Read a whole HDF5 dataset as a NumPy array in native byte order; strings and enumerations become arrays of type `text`."""
    if item.dtype.kind in "OS":
        texts = np.asarray(item.asstr("utf-8")[()], dtype=object)
        return np.array(texts.tolist(), dtype=text).reshape(item.shape)
    named = h5py.check_enum_dtype(item.dtype) if item.dtype.kind != "b" else None
    if named is not None and item.ndim == 1:
        names, values = {value: name for name, value in named.items()}, item[()].tolist()
        nameless = next((row for row, value in enumerate(values) if value not in names), None)
        if nameless is not None:
            raise DataError(
                f"{item.name} has the code {values[nameless]} in row {nameless}, but its enumeration has no name for this code",
                hint="add the name to the enumeration, or correct the value",
            )
        return np.array([names[value] for value in values], dtype=text)
    out = np.empty(item.shape, dtype=np.dtype(item.dtype.str).newbyteorder("="))
    if item.size and named is None:
        item.read_direct(out)
    elif item.size:
        out[...] = item[()]
    return out


def read_csr(group: h5py.Group, shape: tuple[int, ...]) -> CSRMatrix:
    """Read a CSR matrix from a group `data`, `indices`, `indptr`."""
    data, indices, indptr = (read_array(group[part]) for part in ("data", "indices", "indptr"))
    return csr_matrix(data, indices, indptr, shape)


def csr_matrix(data: Array, indices: Array, indptr: Array, shape: tuple[int, ...]) -> CSRMatrix:
    """Return a CSR matrix without copying.  Raises ValueError for indices with which compiled code would leave its memory."""
    from scipy.sparse import csr_matrix

    if len(shape) != 2 or min(shape) < 0 or {data.ndim, indices.ndim, indptr.ndim} != {1}:
        raise ValueError("a CSR matrix is three vectors and a shape of two lengths")
    if {indices.dtype.kind, indptr.dtype.kind} - set("iu") or data.dtype.kind not in "fiub":
        raise ValueError("a CSR matrix has numbers and integer indices")
    rows, columns = shape
    kind = native_arrays.index_type(indices, indptr)
    data = (
        native_arrays.native_array(data, name="data", where="")
        if data.dtype.itemsize == 2 or data.dtype.itemsize > native_arrays.SUPPORTED
        else data
    )
    data, indices, indptr = (np.ascontiguousarray(part, part.dtype.newbyteorder("=")) for part in (data, indices, indptr))
    ends = len(indptr) == rows + 1 and indptr[0] == 0 and indptr[-1] == len(data) == len(indices)
    if not ends or (indptr[1:] < indptr[:-1]).any():
        raise ValueError("indptr does not describe the rows of data")
    if len(indices) and (indices.min() < 0 or indices.max() >= columns):
        raise ValueError(f"indices must lie in 0 … {columns - 1}")
    matrix = csr_matrix(shape, dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices.astype(kind, copy=False), indptr.astype(kind, copy=False)
    return matrix


def _read_group(item: h5py.Group, hint: object, where: str) -> Any:
    for kind in _union_members(hint):
        origin, inner = get_origin(kind), get_args(kind)
        if is_dataclass(kind) and isinstance(kind, type):
            return read_fields(item, kind, where=where)
        if origin is dict:
            return {_unescape_key(key): _read_item(item, key, inner[1], where) for key in [*item, *item.attrs]}
        if origin in (list, tuple):
            length = int(item.attrs["length"])
            if length > len(item) + len(item.attrs):
                raise ValueError(f"says it has {length} members and has {len(item)}")
            kinds = inner if origin is tuple and inner[1:] != (Ellipsis,) else inner[:1] * length
            return origin(_read_sequence_member(item, index, kinds[index], where) for index in range(length))
    raise TypeError("is a group, expected something else")


def _read_sequence_member(group: h5py.Group, index: int, hint: object, where: str) -> Any:
    """Return a member of a list or tuple; it may be missing only if its type allows None."""
    found = _read_item(group, str(index), hint, where)
    if found is None and not _is_optional(hint):
        raise ValueError(f"member {index} is missing")
    return found


def _union_members(hint: object) -> tuple[Any, ...]:
    """Return the members of a union except None; a single type hint becomes a tuple of one."""
    members = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return tuple(member for member in members if member is not type(None))


def _is_optional(hint: object) -> bool:
    return type(None) in get_args(hint) if get_origin(hint) in (Union, types.UnionType) else hint is Any


def _member_path(group: h5py.Group, name: str) -> str:
    return f"{group.name.rstrip('/')}/{name}"
