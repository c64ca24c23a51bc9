"""Values of Python as inputs of commands: rows with their labels, tables of any library, lists and dictionaries, as words and files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from herdcli import artifacts
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.formats.arrow import to_arrow as as_arrow
from herdcli.artifacts.sealed import provenance
from herdcli.artifacts.tables import native_arrays
from herdcli.errors import BadUsage

Array = np.ndarray[Any, Any]

PYTHON = provenance.make_history_record("python", {}, {})  # the stage that is recorded as the history of values of unknown origin
MADE = "_made"  # attribute of a returned value: its history, and the levels and missing values of its columns
KNOWN = {"row_split": "split", "row_weight": "weight", "feature_names": "feature_names", "image_shape": "image_shape"}
FORMS = "an array, a table of pandas, polars or pyarrow, a list of rows, a dictionary of columns, a path, or a result of herd"


def join_rows_and_labels(X: Any, y: Any, options: dict[str, object], label_option: str | None = None) -> object:
    """Return rows with their labels and other columns as one input.

    Removes `feature_names`, `row_split`, `row_weight` and `image_shape` from `options`.
    label_option  the command's option that names the column of labels; it is set if the labels are a Series with a name, beside a table.
    Raises TypeError for parts that a path or a data set has already, BadUsage for parts that do not fit.
    """
    X = rows_as_table_or_array(X)
    known: dict[str, Any] = {field: options.pop(name, None) for name, field in KNOWN.items() if not isinstance(options.get(name), str)}
    known |= {field: None for field in KNOWN.values() if field not in known}
    if isinstance(options.get("feature_names"), str):  # a text is a sequence of names of one letter
        known["feature_names"] = list(str(options.pop("feature_names")))
    if y is None and not any(item is not None for item in known.values()):
        return X
    if is_table(X):
        return _join_table(X, y, known, options, label_option)
    if not isinstance(X, np.ndarray) and not hasattr(X, "indptr"):
        raise TypeError("labels, splits and weights come beside arrays and tables; of files and data sets they are columns or fields")
    for name, item in (("y", y), ("row_split", known["split"]), ("row_weight", known["weight"])):
        if item is not None:
            _require_one_per_row(name, item, X.shape[0])
    names = known["feature_names"]
    if names is not None and len(names) != X.shape[1]:
        raise BadUsage(f"feature_names has {len(names)} names, but X has {X.shape[1]} columns")
    classes, codes = (None, None) if y is None else _encode_labels(_column_values(y))
    if codes is not None and codes.dtype.kind == "f":
        return _table_with_target(np.asarray(X), codes, known)
    fields: dict[str, Any] = {name: None if item is None else np.asarray(item) for name, item in known.items() if name != "feature_names"}
    return Dataset(X, codes, **fields, feature_names=None if names is None else [str(name) for name in names], class_names=classes)


def rows_as_table_or_array(value: Any) -> Any:
    """Return lists of rows as an array or a table, dictionaries of columns as a table, a Series as a table of one column.

    Masked entries become NaN, and a vector is one column, as for a file that holds a vector.  Other values are unchanged.
    """
    value = _masked_to_nan(value)
    if isinstance(value, list | tuple):
        value = _list_to_rows(value)
    elif isinstance(value, Mapping):
        value = _columns_to_table(value)
    elif _is_series(value):
        value = value.to_frame(value.name if value.name not in (None, "") else "x")
    elif not isinstance(value, np.ndarray) and hasattr(value, "__array__") and not is_table(value) and not hasattr(value, "indptr"):
        value = np.asarray(value)  # tensors, and arrays of other libraries
    if isinstance(value, np.ndarray) and value.dtype.kind in "OUS" and value.ndim == 2:
        value = _mixed_array_to_rows(value)
    return value[:, np.newaxis] if isinstance(value, np.ndarray) and value.ndim == 1 else value


def _list_to_rows(rows: Sequence[Any]) -> Any:
    if rows and all(isinstance(row, Mapping) for row in rows):
        names = dict.fromkeys(str(name) for row in rows for name in row)
        return _columns_to_table({name: [row.get(name) for row in rows] for name in names})
    if rows and all(isinstance(row, str) for row in rows):
        raise TypeError('a list of texts is not a table of rows; give a dictionary of columns, such as {"text": [...]}')
    try:
        found = np.array(rows)
    except ValueError:
        found = np.array(0)
    if found.ndim not in (1, 2) or found.dtype.kind not in "biufUO" or not found.size:
        lengths = sorted({len(row) if hasattr(row, "__len__") else 1 for row in rows})
        why = f"its rows have {' or '.join(map(str, lengths))} values" if len(lengths) > 1 else "it needs rows of numbers or text"
        raise TypeError(f"this {type(rows).__name__} is not a table of rows: {why}")
    if found.dtype.kind in "UO" and found.ndim == 2:  # numbers and texts: keep the type of each column
        return _columns_to_table({f"x{k}": list(column) for k, column in enumerate(zip(*rows, strict=True))})
    return found if found.dtype.kind != "O" else found.astype(float)


def _mixed_array_to_rows(value: Array) -> Any:
    """Return an array of Python's objects or of texts as numbers if all are numbers, else as a table."""
    try:
        return value.astype(float)
    except (TypeError, ValueError):
        return _columns_to_table({f"x{k}": column.tolist() for k, column in enumerate(value.T)})


def _columns_to_table(columns: Mapping[Any, Any]) -> Any:
    import pyarrow as pa

    lengths = {
        str(name): len(column) if hasattr(column, "__len__") and not isinstance(column, str) else 0 for name, column in columns.items()
    }
    if not columns or len(set(lengths.values())) > 1 or 0 in lengths.values():
        shown = ", ".join(f"{name} {length}" for name, length in list(lengths.items())[:5])
        raise TypeError(f"a dictionary of rows has a list of values for each column, all of one length ({shown or 'it is empty'})")
    return pa.Table.from_arrays([_arrow_column(name, column) for name, column in columns.items()], names=list(lengths))


def _arrow_column(name: object, values: Any) -> Any:
    """Return one column as an Arrow array.  Raises TypeError for values that no column can have."""
    import pyarrow as pa

    if _is_series(values):
        return values.to_arrow() if hasattr(values, "to_arrow") else pa.Array.from_pandas(values)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf" and values.ndim == 1:
        return as_arrow(np.ascontiguousarray(values))
    try:
        return pa.array(np.asarray(values) if isinstance(values, np.ndarray) else list(values), from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        kinds = sorted({type(each).__name__ for each in values if each is not None})
        raise TypeError(f"column {str(name)!r} has values of different types: {', '.join(kinds)}") from error


def _is_series(value: Any) -> bool:
    """Return whether a value is a Series of pandas or polars."""
    return type(value).__name__ in ("Series", "Index") and hasattr(value, "to_frame")


def is_table(value: Any) -> bool:
    """Return whether a value is a table of pandas, polars, pyarrow or a library with Arrow's interface."""
    if isinstance(value, np.ndarray) or is_dataclass(value):  # results of herd have columns of their own
        return False
    return (hasattr(value, "column_names") or hasattr(value, "columns")) and _has_arrow_interface(value)


def _has_arrow_interface(value: Any) -> bool:
    library = type(value).__module__.partition(".")[0]
    return library in ("pandas", "pyarrow") or hasattr(value, "__arrow_c_stream__") or hasattr(value, "to_arrow")


def to_arrow_table(value: Any) -> Any:
    """Return a table of pandas, polars, pyarrow or another library with Arrow's interface as a pyarrow table; None for other values."""
    if type(value).__module__.partition(".")[0] == "pyarrow":
        return value
    if not is_table(value):
        return None
    if hasattr(value, "to_arrow"):  # polars
        return value.to_arrow()
    import pyarrow as pa

    if type(value).__module__.partition(".")[0] != "pandas":
        return pa.table(value)
    flat = value.copy(deep=False)
    flat.columns = [".".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in value.columns]
    repeated = sorted({name for name in flat.columns if list(flat.columns).count(name) > 1})
    if repeated:
        raise BadUsage(f"X has more than one column {repeated[0]!r}", hint="rename or drop the repeated columns")
    try:
        return pa.Table.from_pandas(flat, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        detail = re.search(r"column (\S+) with type", str(error))
        shown = f"column {detail[1]!r}" if detail else "a column"
        raise BadUsage(f"X: {shown} has values of different types", hint="convert it with DataFrame.astype") from error


def _join_table(X: Any, y: Any, known: Mapping[str, Any], options: dict[str, object], label_option: str | None) -> Any:
    """Return a table with columns of labels, splits and weights added to it."""
    table = to_arrow_table(X)
    for name in ("feature_names", "image_shape"):
        if known[name] is not None:
            raise TypeError(f"{name} comes beside arrays; a table has names of its columns")
    given = getattr(y, "name", None)
    title = given if isinstance(given, str) and given and given not in table.column_names else "y"
    for argument, name, item in (("y", title, y), ("row_split", "split", known["split"]), ("row_weight", "weight", known["weight"])):
        if item is None:
            continue
        _require_one_per_row(argument, item, table.num_rows)
        _require_equal_index(argument, X, item)
        if name in table.column_names:
            raise BadUsage(
                f"X has a column {name!r}, and {argument} is given too", hint=f"leave out {argument}, or rename or drop the column"
            )
        table = table.append_column(name, _arrow_column(name, _flatten_to_column(item)))
    if y is not None and title != "y" and label_option is not None:
        options.setdefault(label_option, title)
    return table


def _flatten_to_column(values: Any) -> Any:
    """Return labels or weights as one column: a table of one column as that column, an array of shape (n, 1) as a vector."""
    if is_table(values):
        table = to_arrow_table(values)
        if table.num_columns != 1:
            raise BadUsage(f"y has {table.num_columns} columns, but must have one", hint="add the columns to X, and name them by options")
        return table.column(0).combine_chunks()
    values = _masked_to_nan(values)
    return values.ravel() if isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] == 1 else values


def _column_values(values: Any) -> Array:
    """Return labels as an array; nullable whole numbers stay numbers."""
    values = _flatten_to_column(values)
    if hasattr(values, "to_numpy") and not isinstance(values, np.ndarray):
        values = (
            values.to_numpy(zero_copy_only=False) if hasattr(values, "combine_chunks") or hasattr(values, "validate") else values.to_numpy()
        )
    found = np.asarray(values)
    if found.dtype.kind != "O":
        return found
    there = [each for each in found.tolist() if not _is_missing(each)]
    if there and all(isinstance(each, int | float) and not isinstance(each, bool) for each in there):
        return np.array(
            [np.nan if _is_missing(each) else each for each in found.tolist()], dtype=float if len(there) < len(found) else None
        )
    return found


def _require_one_per_row(name: str, values: Any, rows: int) -> None:
    count = len(values) if hasattr(values, "__len__") and not isinstance(values, str | Mapping) else None
    if count is None:
        raise TypeError(f"{name} needs one value for each row, not {type(values).__name__}; options are keywords")
    if count != rows:
        raise BadUsage(f"{name} has {count} values, but X has {rows} rows")


def _require_equal_index(name: str, X: Any, values: Any) -> None:
    """Raise BadUsage if two objects of pandas have different indexes: their rows would not belong together."""
    ours, theirs = getattr(X, "index", None), getattr(values, "index", None)
    if callable(ours) or callable(theirs) or ours is None or theirs is None:
        return
    if not ours.equals(theirs):
        raise BadUsage(
            f"{name} and X have different indexes",
            hint=f"use {name}.loc[X.index] to match by index, or {name}.to_numpy() to match by the order of rows",
        )


def _masked_to_nan(value: Any) -> Any:
    """Return a masked array with NaN at its masked entries; return anything else unchanged."""
    return np.where(np.ma.getmaskarray(value), np.nan, np.ma.getdata(value)) if np.ma.is_masked(value) else value


def _encode_labels(y: Array) -> tuple[list[str] | None, Array]:
    """Return the names of the classes and the class numbers, −1 for a missing label; whole numbers and real targets are unchanged."""
    if y.dtype.kind in "iuf":
        return None, y
    if y.dtype.kind == "b":
        return None, y.astype(np.int64)
    there = np.array([not _is_missing(label) for label in y.tolist()], dtype=bool)
    names, codes = np.unique(y[there].astype(str), return_inverse=True)
    whole = np.full(len(y), -1, dtype=np.int64)
    whole[there] = codes
    return [str(name) for name in names], whole


def _is_missing(label: Any) -> bool:
    """Return whether a label is missing: None, NaN, or NA or NaT of pandas."""
    return label is None or type(label).__name__ in ("NAType", "NaTType") or bool(label != label)


def _table_with_target(X: Array, y: Array, fields: Mapping[str, Any]) -> Any:
    """Return a table of rows with a real target."""
    import pyarrow as pa

    names = [*(fields["feature_names"] or (f"x{column}" for column in range(X.shape[1]))), "y"]
    columns = [*X.T, y]
    for name in ("split", "weight"):
        if fields[name] is not None:
            names, columns = [*names, name], [*columns, np.asarray(fields[name])]
    return pa.Table.from_arrays([as_arrow(np.ascontiguousarray(column)) for column in columns], names=[str(name) for name in names])


def save_value(path: str, value: Any, format: str | None = None, *, missing: bool = False) -> None:
    """Write an artifact with the history that it has, or else with one that says `python`."""
    history, recoding = vars(value).get(MADE, ([], None))
    artifacts.save(path, value, history or [PYTHON], format=format, recoding=recoding, missing=missing)


def path_or_written_file(value: Any, folder: Path, name: str) -> str:
    """Return the path of a value: the path itself, or that of a file in `folder` whose name is `name`, the argument of the function."""
    if isinstance(value, str | os.PathLike):
        return os.fspath(value)
    value = rows_as_table_or_array(value)
    path = folder / f"{len(list(folder.iterdir()))}" / name
    path.parent.mkdir()
    table = to_arrow_table(value)
    if table is not None:
        import pyarrow.parquet as pq

        pq.write_table(table, path)
    elif isinstance(value, np.ndarray) or hasattr(value, "indptr"):
        rows = value.tocsr() if hasattr(value, "tocsr") else np.atleast_2d(value)
        save_value(str(path), Dataset(native_arrays.native_matrix(rows, name="X", where=name)), "hdf5", missing=True)
    elif is_dataclass(value) and not isinstance(value, type):
        save_value(str(path), value, "hdf5", missing=True)
    else:
        raise TypeError(f"{name} is a {type(value).__name__}; it should be {FORMS}")
    return str(path)


def format_assignments(values: Mapping[Any, Any]) -> list[str]:
    """Return a dictionary as texts NAME=VALUE; lists of numbers are joined by commas, and a missing value is left out."""
    return [f"{_quote_name(str(name))}={_assignment_value_text(value)}" for name, value in values.items() if not _is_missing_scalar(value)]


def _is_missing_scalar(value: Any) -> bool:
    return not hasattr(value, "__len__") and _is_missing(value)


def _assignment_value_text(value: Any) -> str:
    value = value.tolist() if hasattr(value, "tolist") else value
    return ",".join(map(value_text, value)) if isinstance(value, list | tuple) else value_text(value)


def _quote_name(name: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", name) + '"' if re.search(r'[=,"]', name) else name


def option_value_text(value: Any, folder: Path, name: str) -> str:
    """Return one option value as text: lists of numbers are joined by commas; arrays, tables and artifacts become files."""
    if isinstance(value, range) or (_is_series(value) and not hasattr(value, "columns") and value.dtype == object):
        value = list(value)
    if isinstance(value, list | tuple):
        return ",".join(map(_list_entry, value))
    if isinstance(value, str | os.PathLike | int | float | np.number):
        return value_text(value)
    return path_or_written_file(value, folder, name)


def _list_entry(value: Any) -> str:
    """Return one entry of a list as text, in quotes if it has a comma."""
    text = value_text(value)
    return '"' + text.replace('"', '""') + '"' if isinstance(value, str) and ("," in text or '"' in text) else text


def value_text(value: Any) -> str:
    """Return a number or text as it is typed."""
    return os.fspath(value) if isinstance(value, str | os.PathLike) else repr(value.item() if isinstance(value, np.generic) else value)


def option_words(value: object, folder: Path, name: str, *, repeated: bool, count: int) -> list[list[str]]:
    """Return the words that follow an option, for each time that it is typed.

    repeated  whether the option may be typed several times.  count: the number of its words.
    """
    if _is_series(value) and repeated:
        value = cast(Any, value).to_dict()
    if isinstance(value, Mapping):
        texts = format_assignments(value)
        return [[text] for text in texts] if repeated else [[",".join(texts)]]
    single = not repeated or not isinstance(value, list | tuple) or (count > 1 and bool(value) and not isinstance(value[0], list | tuple))
    found = []
    for each in [value] if single else cast(Sequence[object], value):
        if isinstance(each, Mapping):
            found += [[text] for text in format_assignments(each)]
        else:
            found.append(list(map(value_text, cast(Sequence[object], each))) if count > 1 else [option_value_text(each, folder, name)])
    return found
