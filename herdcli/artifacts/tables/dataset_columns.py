"""Conversion of named columns to a `Dataset`: the choice of labels, splits, weights and features.

`roles` determines the columns with a role.  If roles are recognised by names, `y`, else `label`, `class` or `target` (any case),
has the labels, and `split` and `weight` have the splits and weights.  A column of fixed-length lists named `x` has whole rows; other
numeric columns are features.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts import nested_columns
from herdcli.artifacts.dataset import GAPS_HINT, Dataset
from herdcli.artifacts.formats.arrow import numpy_dtype, to_arrow, to_numpy
from herdcli.artifacts.load_options import LoadOptions, ignore_note
from herdcli.artifacts.message_numbers import group_digits
from herdcli.artifacts.recoding import cell_text
from herdcli.artifacts.tables.column_profiles import ColumnProfile, profile_column
from herdcli.artifacts.tables.column_roles import LABELS, ROLES, ColumnUse, atom_figures
from herdcli.artifacts.tables.dataset_assembly import Declarations, assemble_dataset, shrink_integers
from herdcli.artifacts.tables.identifier_columns import find_identifier_columns
from herdcli.artifacts.text import text_numbers
from herdcli.errors import DataError
from herdcli.records import dataclass
from herdcli.schema import Array, DType
from herdcli.splits import parse_split_name

if TYPE_CHECKING:
    import pyarrow as pa

INDEX_NAMES = ("", "Unnamed: 0")
MOST_NAMES = 50  # most column names in a line
UTF8_HINT = "declare its encoding, as in --encoding latin-1"


def dataset_from_table(
    table: pa.Table,
    attributes: Declarations,
    *,
    where: str,
    options: LoadOptions,
    release: Callable[[], None] = lambda: None,
) -> Dataset:
    """Return the data set of a pyarrow table.  attributes: its declarations, and `feature_names`.

    release  called when columns have been copied, to drop the pages of a mapped table.

    With `options.texts` columns of text are among the further columns; a column that only counts the rows is reported and left out.
    """
    chosen = _choose_columns(table, where, options)
    profiles, identifiers = _report_columns(chosen, bool(attributes), where, options)
    table, features, roles = chosen.table, chosen.features, chosen.roles
    whole = isinstance(features, np.ndarray)
    X = features if isinstance(features, np.ndarray) else _numeric_matrix(table, features, options, where, release)
    truths = () if isinstance(features, np.ndarray) else _boolean_columns(table, features)
    report = TableReport(chosen.rows, chosen.given_names, dict(roles) if options.labels else {}, chosen.kept, whole, truths)
    options.account.append(replace(report, profiles=profiles, identifiers=identifiers, ignored=chosen.unused))
    unlabelled = _unlabelled_rows(table, roles, options)
    parts = _role_parts(table, roles, unlabelled, where, options) | _declared_names(features, attributes)
    further = {name: _role_values(table, name, where, gaps=name in options.gaps) for name in chosen.kept} | {
        name: _text_column(table.column(name), name, where) for name in chosen.texts
    }
    response = bool(options.roles.response)
    with _name_label_column_in_errors(roles["y"] if "y" in parts else None):
        data = assemble_dataset(
            X, parts, attributes, where=where, note=options.note, columns=further, stretch=options.stretch, response=response
        )
    # for rows that were accepted, not for those that are refused
    options.roles.report(chosen.use if options.labels else chosen.use.for_unlabelled_rows)
    return _mark_unlabelled(data, unlabelled, options) if data.y is not None and unlabelled.any() else data


@dataclass(frozen=True)
class _ChosenColumns:
    """A decoded table, and what each of its columns is for."""

    table: pa.Table
    rows: int
    given_names: list[str]  # of the columns before any were dropped
    roles: dict[str, str]  # role -> column
    use: ColumnUse
    kept: list[str]  # further columns that the caller asked for
    features: Array | list[str]  # whole rows, or the columns with the features
    texts: list[str]  # columns of text among the further columns
    left_out: list[str]  # columns that the options or the kind of table leave out
    unused: dict[str, str]  # columns that cannot be features -> their names, with their types if these are not text


def _choose_columns(raw_table: pa.Table, where: str, options: LoadOptions) -> _ChosenColumns:
    """Return the decoded table and the columns with roles, kept columns, features and columns of text."""
    keep = options.keep
    raw_table = nested_columns.flatten_records(raw_table, where)
    table = _decode_table(_drop_index_columns(raw_table, options.label, keep, where, options.note))
    names = list(table.column_names)
    _require_unique(names, where)
    roles = with_named_splits(names, table.column, assign_roles(names, options, where), options)
    left_out = options.roles.excluded_columns(names, [*keep, *roles.values()], where)
    table = table.drop_columns(left_out) if left_out else table
    names = list(table.column_names)
    taken = set(roles.values())
    kept = [name for name in names if name in keep and name not in taken]
    taken |= set(kept)
    others = [name for name in names if name not in taken]
    table = _parse_number_columns(
        table, [name for name in kept if name not in options.as_text and name not in LABELS], where, options, required=False
    )
    table, others, parts_of_lists = _split_lists(table, others, where)
    given_names = [part for name in raw_table.column_names for part in parts_of_lists.get(name, [name])]
    table, features, unused = _select_features(table, others, where, options)
    texts = [name for name in unused if options.texts and _is_text(table.schema.field(name).type)]
    unused = [name for name in unused if name not in texts]
    use = options.roles.describe_use([name for name in names if name not in keep], [*left_out, *unused], options.label, roles, where)
    kinds = dict(zip(table.column_names, table.schema.types, strict=True))
    described = {name: name if _is_text(kinds[name]) else f"{name} ({kinds[name]})" for name in unused}
    return _ChosenColumns(table, raw_table.num_rows, given_names, roles, use, kept, features, texts, left_out, described)


def _report_columns(
    chosen: _ChosenColumns, declared: bool, where: str, options: LoadOptions
) -> tuple[tuple[ColumnProfile, ...], tuple[str, ...]]:
    """Note likely identifiers, unused columns, and columns that have a role by their name.  Returns (profiles, identifiers)."""
    table, roles, note = chosen.table, chosen.roles, options.note
    identifiers: dict[str, str] = {}
    if (options.roles.reports_use or options.profiles) and isinstance(chosen.features, list) and not options.stretch:
        identifiers = find_identifier_columns(table, chosen.features, chosen.texts)
        for name, why in {} if options.profiles else identifiers.items():
            note(f"{where}: column '{name}' {why}, so it may be an identifier: --drop {name} leaves it out")
    profiles = tuple(profile_column(name, table.column(name), where) for name in chosen.unused) if options.profiles else ()
    if chosen.unused and not profiles and not options.summarised:
        shown = list(chosen.unused.values())[:12]
        note(f"{where}: these parts of the file are not used: {', '.join(shown)}{' …' if len(chosen.unused) > 12 else ''}")
    if options.labels and roles.get("y") not in (None, "y"):
        note(f"{where}: labels are read from column '{roles['y']}'")
    if figures := [name for name in atom_figures(chosen.given_names) if name in chosen.left_out]:
        note(f"{where}: herd wrote these columns beside the atoms, and they are not features: {', '.join(figures)}")
    if "weight" in roles and options.roles.weight is None and not declared:  # no note for herd's own files
        note(f"{where}: column '{roles['weight']}' gives the weights of the rows and is not a feature (rename it to use it as one)")
    return profiles, tuple(identifiers)


def _unlabelled_rows(table: pa.Table, roles: Mapping[str, str], options: LoadOptions) -> Array:
    """Return (n,) bool, the rows without a label; or no entries, if all rows must have one."""
    may_be_missing = options.missing and options.labels and "y" in roles and not options.roles.response
    return _missing_mask(table.column(roles["y"])) if may_be_missing else np.zeros(0, dtype=bool)


def _role_parts(table: pa.Table, roles: Mapping[str, str], unlabelled: Array, where: str, options: LoadOptions) -> dict[str, Array]:
    """Return the values of each role; without the labels if the command does not need them or all of them are missing."""
    without_labels = not options.labels or (len(unlabelled) > 0 and bool(unlabelled.all()))
    return {
        role: _role_values(_fill_missing(table, name, unlabelled) if role == "y" else table, name, where)
        for role, name in roles.items()
        if role != "y" or not without_labels
    }


def _declared_names(features: Array | list[str], attributes: Declarations) -> dict[str, Array]:
    """Return the names of features and classes: those declared, else the features' columns unless they are only numbered."""
    declared = attributes.get("feature_names")
    if declared is None and isinstance(features, list) and not any(_are_default_names(features, letter) for letter in "xf"):
        declared = features
    named = {"feature_names": declared, "class_names": attributes.get("class_names")}
    return {name: np.array(texts, dtype=str) for name, texts in named.items() if texts is not None}


def _mark_unlabelled(data: Dataset, unlabelled: Array, options: LoadOptions) -> Dataset:
    """Return the data set with label -1 in rows without a label."""
    assert data.y is not None
    y, classes = data.y.astype(np.int64), data.class_names
    if classes is None and not options.stretch and set(np.unique(y).tolist()) == {-1, 1}:  # two classes, neither of which means unknown
        y, classes = (y + 1) // 2, ["-1", "1"]
    return replace(data, y=np.where(unlabelled, -1, y), class_names=classes)


def _require_unique(names: list[str], where: str) -> None:
    """Raise DataError if two columns have the same name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"column '{name}' appears twice", where=where, hint="give each column its own name")
        seen.add(name)


@dataclass(frozen=True)
class TableReport:
    """A report on a table: its rows, the names of its columns, the columns with a role, and the kept columns.

    whole  the rows are one column of lists.      truths  features whose values are true and false.
    profiles  the columns without numbers, if asked for.      identifiers  features whose numbers seem to identify the rows.
    ignored  the columns that cannot be features -> their names, with their types if these are not text.
    """

    rows: int
    names: list[str]
    roles: dict[str, str]
    kept: list[str]
    whole: bool
    truths: tuple[str, ...] = ()
    profiles: tuple[ColumnProfile, ...] = ()
    identifiers: tuple[str, ...] = ()
    ignored: Mapping[str, str] = field(default_factory=dict)

    def summary(self, data: Dataset) -> tuple[str, bool]:
        """Return the line at the end of reading for the resulting data set, and whether everything was used."""
        features = data.feature_names or []
        said = f"{_format_count(self.rows, 'row')}, {_format_count(len(self.names), 'column')}: {_format_count(data.X.shape[1], 'feature')}"
        beside = [f"{'labels' if role == 'y' else role} '{name}'" for role, name in self.roles.items()] + [
            f"'{name}'" for name in self.kept
        ]
        used = {*features, *(name.rsplit("=", 1)[0] for name in features), *self.roles.values(), *self.kept, *(data.columns or {})}
        used |= {each.name for each in self.profiles}
        nameless = data.feature_names is None
        unused = [] if self.whole or nameless else [self.ignored.get(name, name) or "(no name)" for name in self.names if name not in used]
        lost = self.rows - data.X.shape[0]
        line = ", ".join([said, *beside[:12]])
        line += f"; not used: {', '.join(unused[:MOST_NAMES])}" if unused else ""
        line += f" and {group_digits(len(unused) - MOST_NAMES)} more" if len(unused) > MOST_NAMES else ""
        return line, not unused and lost <= 0


def _format_count(count: int, what: str) -> str:
    return f"{group_digits(count)} {what}{'' if count == 1 else 's'}"


def _column_cells(column: pa.ChunkedArray) -> list[object]:
    """Return the cells of a column as Python objects.  Raises DataError for dates and times that Python has none for."""
    try:
        cells: list[object] = column.to_pylist()
    except (OverflowError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise
        message = f"has a column of dates or times beyond the years 1 to 9999 ({column.type})"
        raise DataError(message, hint="leave it out with --drop, or store it as text or numbers") from None
    return cells


def _missing_mask(column: pa.ChunkedArray) -> Array:
    """Return the rows in which a column has a missing value: null, NaN, or an empty text."""
    import pyarrow as pa

    if pa.types.is_primitive(column.type):
        return np.asarray(column.is_null(nan_is_null=True).to_numpy())
    return np.array([value is None or value in ("", b"") or value != value for value in _column_cells(column)], dtype=bool)


def _fill_missing(table: pa.Table, name: str, absent: Array) -> pa.Table:
    """Return the table with missing values of a column replaced by one of its own values, so that the other values can be read."""
    if not absent.any() or absent.all():
        return table
    values = _column_cells(table.column(name))
    there = values[int(np.argmin(absent))]
    column = to_arrow(np.array([there if empty else value for value, empty in zip(values, absent, strict=True)]))
    return table.set_column(table.column_names.index(name), name, column)


def _are_default_names(names: list[str], letter: str) -> bool:
    """Return whether the names only count the columns, as x0, x1, …"""
    return all(name == f"{letter}{column}" for column, name in enumerate(names))


def unread_columns(schema: pa.Schema, options: LoadOptions, where: str) -> list[str]:
    """Return the columns of a table that `dataset_from_table` would drop because of --columns and --drop; none for nested columns."""
    import pyarrow as pa

    names = schema.names
    if len(set(names)) < len(names) or any(pa.types.is_nested(kind) for kind in schema.types):
        return []
    shown = _drop_index_columns(schema.empty_table(), options.label, options.keep, where, ignore_note).column_names
    roles = assign_roles(shown, options, where)
    return [name for name in options.roles.excluded_columns(shown, [*options.keep, *roles.values()], where) if name]


def assign_roles(names: list[str], options: LoadOptions, where: str) -> dict[str, str]:
    """Return a dict from role to column name, for the roles that are present; a column requested by name has no other role."""
    found = options.roles.assign_roles([name for name in names if name not in options.keep or name == options.label], options.label, where)
    if options.roles.response and options.label is None and "y" in names and "y" in options.keep:  # it is the target
        found.pop("y", None)
    return found


@contextmanager
def _name_label_column_in_errors(column: str | None) -> Iterator[None]:
    """Name the column of labels in errors that call it /y."""
    try:
        yield
    except DataError as error:
        if column is not None and error.message.startswith("/y "):
            error.message = f"column '{column}' {error.message.removeprefix('/y ')}"
        raise


def with_named_splits(
    names: list[str], column: Callable[[str], pa.ChunkedArray], roles: dict[str, str], options: LoadOptions
) -> dict[str, str]:
    """Return the roles of columns, with that of a column `split` whose texts are all names of splits, such as train and test.

    Such a column is no feature of any model, whether or not the command takes other columns by their usual names.
    """
    name = options.roles.split_candidate([name for name in names if name not in options.keep], roles)
    if name is None or options.stretch or not _holds_split_names(column(name)):
        return roles
    return {"split": name, **roles}


def _holds_split_names(column: pa.ChunkedArray) -> bool:
    """Return whether a column has texts alone, all of them names of splits."""
    import pyarrow.compute as pc

    if not _is_text(column.type) or column.null_count or not len(column):
        return False
    return all(parse_split_name(text) is not None for text in pc.unique(column).to_pylist())


def _drop_index_columns(table: pa.Table, label: str | None, keep: Collection[str], where: str, note: Callable[[str], None]) -> pa.Table:
    """Return the table without the row names that pandas and R write: a first column without a name, or pandas' declared index.

    Columns without name and values, caused by separators at the ends of lines, are removed too.
    """
    import pyarrow as pa

    names = table.column_names
    empty = [index for index in range(1, len(names)) if names[index] == "" and pa.types.is_null(table.field(index).type)]
    for index in empty:
        note(f"{where}: left out column {index + 1} because it has no name and no values")
    if empty:
        gone = set(empty)
        table = table.select([index for index in range(len(names)) if index not in gone])
        names = table.column_names
    declared = _pandas_index_columns(table)
    spared = {label, *keep, *LABELS, *ROLES}
    indices = [name for name in names if name in declared or (name in INDEX_NAMES and name == names[0])]
    left_out = [name for name in dict.fromkeys(indices) if name not in spared and names.count(name) == 1]
    if not left_out or len(left_out) == len(names):
        return table
    for name in left_out:
        note(f"{where}: left out column '{name}' because it holds the names of the rows (pandas: to_csv(index=False) omits it)")
    return table.drop_columns(left_out)


def _pandas_index_columns(table: pa.Table) -> set[str]:
    """Return the columns that were the index of a pandas data frame, by pandas' metadata or its usual index names."""
    try:
        declared = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}")).get("index_columns", [])
    except (ValueError, AttributeError):
        declared = []
    return {name for name in declared if isinstance(name, str)} | {n for n in table.column_names if re.fullmatch(r"__index_level_\d+__", n)}


def _decode_table(table: pa.Table) -> pa.Table:
    """Return the table with dictionaries (pandas' categories) and decimals converted to their values."""
    import pyarrow as pa

    changed = {}
    for index, declared in enumerate(table.schema):
        kind = declared.type
        if pa.types.is_dictionary(kind):
            changed[index] = _decode_dictionary(table.column(index))
        elif pa.types.is_decimal(kind):
            changed[index] = table.column(index).cast("float64")
    return _replace_columns(table, changed)


def _replace_columns(table: pa.Table, changed: Mapping[int, pa.ChunkedArray]) -> pa.Table:
    """Return the table with some columns replaced in one step: replacing them one by one takes quadratic time."""
    import pyarrow as pa

    if not changed:
        return table
    columns = [changed.get(index, column) for index, column in enumerate(table.columns)]
    return pa.Table.from_arrays(columns, names=table.column_names, metadata=table.schema.metadata)


def _decode_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a dictionary-encoded column as its values."""
    import pyarrow as pa

    try:
        return column.cast(column.type.value_type)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return pa.chunked_array([pa.array(_column_cells(column))])


def _split_lists(table: pa.Table, names: list[str], where: str) -> tuple[pa.Table, list[str], dict[str, list[str]]]:
    """Return the table with columns of lists split into plain columns, the names of its features, and the new names by list column.

    If there is only one such column, it has whole rows, as `x` does among other columns.
    """
    kinds = dict(zip(table.column_names, table.schema.types, strict=True))
    lists = [name for name in names if nested_columns.is_number_list(kinds[name])]
    if not lists or len(names) == 1 or any(name in ("x", "X") for name in lists):
        return table, names, {}
    table, parts = nested_columns.split_lists(table, lists, where)
    return table, [part for name in names for part in parts.get(name, [name])], parts


def _select_features(table: pa.Table, names: list[str], where: str, options: LoadOptions) -> tuple[pa.Table, Array | list[str], list[str]]:
    """Return the table with numbers in text parsed; a matrix from a list column, or the numeric columns; and the names left out."""
    import pyarrow as pa

    table = _convert_columns_to_text(table, [name for name in names if name in options.as_text])
    kinds = dict(zip(table.column_names, table.schema.types, strict=True))
    whole = next((name for name in names if name in ("x", "X") and pa.types.is_nested(kinds[name])), None)
    if len(names) == 1 and nested_columns.is_number_list(kinds[names[0]]):
        whole = names[0]
    if whole is not None:
        return table, lists_to_matrix(table.column(whole), whole, where), [name for name in names if name != whole]
    for name in [] if options.profiles else names:
        _refuse_dates(kinds[name], name, where)
    table = _parse_number_columns(table, [name for name in names if name not in options.as_text], where, options, required=True)
    kinds = dict(zip(table.column_names, table.schema.types, strict=True))
    numeric = [name for name in names if _is_number(kinds[name])]
    there = set(numeric)
    ignored = [name for name in names if name not in there]
    if not numeric and not options.profiles and not (options.texts and any(_is_text(kinds[name]) for name in ignored)):
        listed = ", ".join(names[:8]) or "none"
        hint = "use --categorical auto, which turns columns of text into numbers (also in herd convert)"
        raise DataError(f"has no column of numbers (columns: {listed})", where=where, hint=hint if names else None)
    return table, numeric, ignored


def _convert_columns_to_text(table: pa.Table, names: list[str]) -> pa.Table:
    """Return the table with these columns as text: numbers as they are written, true and false as True and False."""
    import pyarrow as pa

    for name in names:
        column = table.column(name)
        if not _is_text(column.type) and not pa.types.is_nested(column.type):
            texts = [None if cell is None or cell != cell else cell_text(cell) for cell in _column_cells(column)]
            table = table.set_column(table.column_names.index(name), name, pa.chunked_array([pa.array(texts, pa.string())]))
    return table


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _refuse_dates(kind: pa.DataType, name: str, where: str) -> None:
    """Raise DataError for dates and times, which are not numbers."""
    import pyarrow as pa

    if pa.types.is_temporal(kind):
        hint = "turn them into numbers (days since a start, the month, the hour), or remove the column"
        raise DataError(f"column '{name}' holds dates or times", where=where, hint=hint)


def _boolean_columns(table: pa.Table, names: list[str]) -> tuple[str, ...]:
    """Return the columns whose values are true and false."""
    import pyarrow as pa

    kinds = dict(zip(table.column_names, table.schema.types, strict=True))
    return tuple(name for name in names if pa.types.is_boolean(kinds[name]))


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind))


def _parse_number_columns(table: pa.Table, names: list[str], where: str, options: LoadOptions, *, required: bool) -> pa.Table:
    """Return the table with numbers in columns of text converted; see `text_numbers.parse_columns`."""
    places = {name: index for index, name in enumerate(table.column_names)}
    kinds = table.schema.types
    texts = {name: table.column(places[name]) for name in names if _is_text(kinds[places[name]])}
    if not options.profiles:
        found = text_numbers.parse_columns(texts, where, options, required=required)
    else:  # a column with a cell that is not a number is shown as text
        found = {}
        for name, column in texts.items():
            with suppress(DataError):
                found |= text_numbers.parse_columns({name: column}, where, options, required=required)
    return _replace_columns(table, {places[name]: column for name, column in found.items()})


def _text_column(column: pa.ChunkedArray, name: str, where: str) -> Array:
    """Return a column of text; missing values are empty texts."""
    try:
        return np.array([text or "" for text in column.to_pylist()], dtype=str)
    except UnicodeDecodeError as error:
        raise DataError(f"column '{name}' has text that is not UTF-8", where=where, hint=UTF8_HINT) from error


def _numeric_matrix(table: pa.Table, names: list[str], options: LoadOptions, where: str, release: Callable[[], None]) -> Array:
    """Return a matrix of numeric columns in the smallest type that holds all of them; float64 with NaN if values are missing."""
    if not names:
        return np.empty((table.num_rows, 0), dtype=np.uint8)
    places = {name: index for index, name in enumerate(table.column_names)}
    columns = {name: table.column(places[name]) for name in names}
    if options.missing and any(column.null_count for column in columns.values()):
        _report_rounded_integers(columns, where, options.note)
        reals = (column.cast("float64", safe=False) for column in columns.values())
        return _fill_matrix(reals, table.num_rows, len(names), np.float64, release)
    for name, column in columns.items():
        _refuse_missing(column, name, where)
    kinds = {numpy_dtype(column.type) for column in columns.values()}
    if all(kind.kind in "iub" for kind in kinds):
        ends = [np.array(end) for column in columns.values() for end in _value_range(column)]
        kind: DType | type[np.generic] = shrink_integers(np.array([min(ends), max(ends)])).dtype if ends else np.uint8
    else:
        _report_rounded_integers(columns, where, options.note)
        kind = np.result_type(*kinds)
    release()
    return _fill_matrix(columns.values(), table.num_rows, len(names), kind, release)


def _fill_matrix(
    columns: Iterable[pa.ChunkedArray], rows: int, width: int, kind: DType | type[np.generic], release: Callable[[], None]
) -> Array:
    """Return a matrix (rows, width) of numeric columns; nulls become NaN."""
    X = np.empty((rows, width), dtype=kind)
    for index, column in enumerate(columns):
        X[:, index] = to_numpy(column)
        release()
    return X


def _report_rounded_integers(columns: Mapping[str, pa.ChunkedArray], where: str, note: Callable[[str], None]) -> None:
    """Report whole numbers that are rounded to float64 because other columns are real."""
    for name, column in columns.items():
        kind = numpy_dtype(column.type)
        if kind.kind in "iu" and kind.itemsize == 8:
            values = to_numpy(column.drop_null())
            beyond = np.flatnonzero((values > 2**53) | (values < -(2**53)))
            if len(beyond):
                first = int(values[beyond[0]])
                note(f"{where}: column '{name}' has whole numbers above 2^53 such as {first}; their last digits are lost")


def _value_range(column: pa.ChunkedArray) -> tuple[int, int]:
    values = to_numpy(column)
    return (int(values.min()), int(values.max())) if len(values) else (0, 0)


def _refuse_missing(column: pa.ChunkedArray, name: str, where: str) -> None:
    if column.null_count:
        _refuse_missing_rows(np.flatnonzero(to_numpy(column.is_null())), name, where)


def _refuse_missing_rows(rows: Sequence[int] | Array, name: str, where: str) -> None:
    if len(rows):
        noun = "value" if len(rows) == 1 else "values"
        message = f"column '{name}' has {group_digits(len(rows))} missing {noun} (first: row {rows[0]})"
        raise DataError(message, where=where, hint=GAPS_HINT)


def _role_values(table: pa.Table, name: str, where: str, *, gaps: bool = False) -> Array:
    column = table.column(name)
    if gaps and column.null_count and _is_number(column.type):
        return np.asarray(column.cast("float64"), dtype=np.float64)
    _refuse_missing(column, name, where)
    values = to_numpy(column)
    if values.dtype.kind != "O":
        return values
    try:
        texts = [value.decode() if isinstance(value, bytes) else str(value) for value in values.tolist()]
    except UnicodeDecodeError as error:
        raise DataError(f"column '{name}' has text that is not UTF-8", where=where, hint=UTF8_HINT) from error
    _refuse_missing_rows([row for row, text in enumerate(texts) if not text], name, where)
    return np.array(texts, dtype=str)


def lists_to_matrix(column: pa.ChunkedArray, name: str, where: str) -> Array:
    """Return a column of lists of equal length as a matrix (rows, length), with at most one copy."""
    _refuse_missing(column, name, where)
    inner = getattr(column.type, "value_type", None)
    if inner is None or not _is_number(inner):
        raise DataError(f"column '{name}' has the type {column.type}, but herd reads only lists of numbers", where=where)
    X = np.empty((len(column), nested_columns.common_list_length(column, name, where)), dtype=numpy_dtype(inner))
    row = 0
    for chunk in column.chunks:
        flat = chunk.flatten()
        if flat.null_count:
            raise DataError(f"column '{name}' has missing values", where=where, hint=GAPS_HINT)
        X[row : row + len(chunk)] = to_numpy(flat).reshape(len(chunk), -1)
        row += len(chunk)
    return X
