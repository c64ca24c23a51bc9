"""Conversion between pyarrow tables and dataclasses whose arrays share their rows.

| field                                  | in the table                                        |
|----------------------------------------|-----------------------------------------------------|
| array (rows)                           | column                                              |
| array (rows, d)                        | column of lists of length d                         |
| X (rows, d) of a data set              | a column for each feature, `feature_names` or x0, … |
| y of a data set with class names       | column of those names (a dictionary)                |
| CSR matrix (rows, d)                   | columns `NAME.index`, `NAME.value` of lists         |
| further columns of a data set          | columns of their own names                          |
| dict of arrays (rows)                  | columns `NAME/KEY`                                  |
| everything else                        | JSON in the metadata of the table                   |
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.formats.arrow import to_arrow, to_numpy, to_numpy_filled
from herdcli.artifacts.sealed.codec import csr_matrix
from herdcli.artifacts.tables.dataset_columns import lists_to_matrix
from herdcli.errors import BadUsage, DataError
from herdcli.schema import TRUTHS, Array, Matrix, array_spec_of_field, convert_to_declared, is_sparse

if TYPE_CHECKING:
    import pyarrow as pa

MOST_COLUMNS = 10_000  # most features that are separate columns; rows with more are lists
ROLES = ("y", "split", "weight")
OWN = (*ROLES, "X", "X.index", "X.value")  # names that a further column of a data set cannot have


def to_table(value: Any) -> tuple[pa.Table, dict[str, Any]]:
    """Return the table of a value, and the fields that are stored outside it.  Raises BadUsage for kinds that are not tables."""
    import pyarrow as pa

    columns: dict[str, pa.ChunkedArray] = {}
    beside: dict[str, Any] = {}
    row_dim = next((spec.dims[0] for declared in fields(value) if (spec := array_spec_of_field(declared))), None)
    for declared in fields(value):
        item, spec = getattr(value, declared.name), array_spec_of_field(declared)
        if item is None:
            continue
        if isinstance(value, Dataset) and _has_feature_columns(value, declared.name):
            columns |= _feature_columns(value, beside)
        elif (
            isinstance(value, Dataset)
            and declared.name == "y"
            and value.class_names
            and len(set(value.class_names)) == len(value.class_names)
        ):
            columns["y"] = _labels_as_names(item, value.class_names)
            beside["y.dtype"] = item.dtype.str
        elif spec and spec.dims and spec.dims[0] == row_dim and len(spec.dims) <= 2:
            columns |= _field_columns(declared.name, item)
            if is_sparse(item):
                beside[f"{declared.name}.width"] = item.shape[1]
        elif isinstance(item, dict):
            titles = {key: extra_column_name(key) if isinstance(value, Dataset) else f"{declared.name}/{key}" for key in item}
            columns |= {titles[key]: to_arrow(np.asarray(part)) for key, part in item.items()}
            if isinstance(value, Dataset):
                beside[f"{declared.name}.titles"] = titles
        elif is_dataclass(item):
            raise _not_a_table_error(value)
        else:
            beside[declared.name] = _field_as_json(item, value)
    if not columns or len({len(column) for column in columns.values()}) > 1:
        raise _not_a_table_error(value)
    return pa.Table.from_arrays(list(columns.values()), names=list(columns)), beside


def _labels_as_names(y: Array, names: list[str]) -> pa.Array:
    """Return labels as a column of names, or of booleans if the names are False and True; a label below 0 is missing."""
    import pyarrow as pa

    if names == list(TRUTHS):
        return to_arrow(y > 0, y < 0)
    return pa.DictionaryArray.from_arrays(to_arrow(y.astype(np.int32), y < 0), to_arrow(np.array(names, dtype=object)))


def extra_column_name(name: str) -> str:
    """Return the name of a further column in the table of its data set: its own name, unless the name is reserved."""
    return f"columns/{name}" if name in OWN else name


def _has_feature_columns(data: Dataset, field: str) -> bool:
    """Return whether the rows are written with a column for each feature; sparse rows, and those of very many features, are not."""
    return field == "X" and not data.is_sparse and data.X.shape[1] <= MOST_COLUMNS


def _feature_columns(data: Dataset, other_fields: dict[str, Any]) -> dict[str, pa.Array]:
    """Return a column for each feature; names that are not unique or are reserved get a suffix."""
    taken = {*ROLES, *(extra_column_name(name) for name in data.columns or {})}
    titles: list[str] = []
    for name in data.feature_names or [f"x{index}" for index in range(data.X.shape[1])]:
        while name in taken:
            name += "_"
        taken.add(name)
        titles.append(name)
    other_fields["X.columns"] = titles
    return {title: to_arrow(data.X[:, index]) for index, title in enumerate(titles)}


def _not_a_table_error(value: object) -> BadUsage:
    return BadUsage(
        f"a result of the type {type(value).__name__} cannot be written as Parquet, because it is not a table",
        hint="write HDF5: --format hdf5",
    )


def _field_columns(name: str, item: Matrix) -> dict[str, pa.Array]:
    import pyarrow as pa

    if is_sparse(item):
        offsets = to_arrow(item.indptr.astype(np.int64))
        parts = {f"{name}.index": item.indices, f"{name}.value": item.data}
        return {part: pa.LargeListArray.from_arrays(offsets, to_arrow(values)) for part, values in parts.items()}
    if item.ndim == 2:
        return {name: pa.FixedSizeListArray.from_arrays(to_arrow(np.ravel(item)), item.shape[1])}
    return {name: to_arrow(item)}


def _field_as_json(item: object, value: object) -> Any:
    """Return a field as JSON: arrays with their type; lists and scalars unchanged."""
    if isinstance(item, np.ndarray):
        return {"dtype": item.dtype.str, "shape": list(item.shape), "values": item.ravel().tolist()}
    if isinstance(item, (list, tuple)) and all(isinstance(part, (str, int, float)) for part in item):
        return list(item)
    if isinstance(item, np.generic):
        return item.item()
    if isinstance(item, (str, int, float)):
        return item
    raise _not_a_table_error(value)


def from_table(table: pa.Table, other_fields: dict[str, Any], cls: type[Any], *, where: str) -> Any:
    """Return the dataclass of a table written by `to_table`."""
    values: dict[str, Any] = {}
    try:
        for declared in fields(cls):
            item = _read_field(table, other_fields, declared.name, where)
            if item is not None:
                values[declared.name] = convert_to_declared(declared, item)
        return cls(**values)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise DataError(f"the table cannot be read as {cls.__name__} ({error})", where=where) from error


def _read_field(table: pa.Table, other_fields: dict[str, Any], name: str, where: str) -> Any:
    import pyarrow as pa

    if name in other_fields:
        item = other_fields[name]
        return np.array(item["values"], dtype=item["dtype"]).reshape(item["shape"]) if isinstance(item, dict) else item
    if f"{name}.columns" in other_fields:
        return np.column_stack([to_numpy(table.column(title)) for title in other_fields[f"{name}.columns"]])
    if f"{name}.dtype" in other_fields:
        column = table.column(name).combine_chunks()
        places = to_numpy_filled(column.cast("int8") if pa.types.is_boolean(column.type) else column.indices, -1)
        return np.asarray(places, dtype=np.dtype(str(other_fields[f"{name}.dtype"])))
    if f"{name}.index" in table.column_names:
        index, value = (table.column(f"{name}.{part}").combine_chunks() for part in ("index", "value"))
        shape = (table.num_rows, int(other_fields[f"{name}.width"]))
        return csr_matrix(to_numpy(value.values), to_numpy(index.values), to_numpy(index.offsets), shape)
    prefixed = {column[len(name) + 1 :]: column for column in table.column_names if column.startswith(f"{name}/")}
    if members := dict(other_fields.get(f"{name}.titles", prefixed)):
        return {key: _texts_as_unicode(table.column(column)) for key, column in members.items()}
    if name not in table.column_names:
        return None
    column = table.column(name)
    return lists_to_matrix(column, name, where) if pa.types.is_fixed_size_list(column.type) else _texts_as_unicode(column)


def _texts_as_unicode(column: pa.ChunkedArray) -> Array:
    values = to_numpy(column)
    return values.astype(str) if values.dtype.kind == "O" else values
