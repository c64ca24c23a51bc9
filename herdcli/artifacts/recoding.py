"""Text columns as one-hot numbers, and missing values: the encoding is learned from the training rows and stored with the model.

A text column `colour` becomes the columns `colour=blue`, `colour=red` …, one for each level in the training rows.  They follow all
numeric columns, and their names contain the levels.  With --missing mean an empty cell gets the mean of its column's
training rows; with --missing drop its row is removed.  For a model with an intercept and no penalty, the first level of each column is
the base level, which has no column.  For models of states (`herd fit-mrf`) a text column stays one column, with the indices of
its levels.  An artifact fitted to such columns stores the `Recoding` with its value, as JSON, so that `apply` and `eval --data` read other
files in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import field, replace

import numpy as np

from herdcli.artifacts.dataset import Dataset, take_rows
from herdcli.artifacts.message_numbers import group_digits
from herdcli.artifacts.tables.identifier_columns import LEAST_ROWS
from herdcli.artifacts.text.number_formats import MARKS, parse_plain_number
from herdcli.errors import BadUsage, DataError
from herdcli.records import dataclass
from herdcli.schema import Array, Matrix, boolean_level_index, is_sparse

MOST_LEVELS = 50  # largest number of levels of a text column; more levels are probably names of rows
MOST_SYMBOLS = 10_000  # largest number of different symbols in a column of sequences
MISSING = ("drop", "mean")
ROWS_AT_ONCE = 1 << 16

MessageFunction = Callable[[str], None]


@dataclass(frozen=True)
class Recoding:
    """The encoding of text columns and the values for missing numbers.

    levels  text column -> the sorted values of the training rows.  means  column -> the mean of its training rows.
    bases   text column -> its base level, which the intercept represents and which has no column.
    codes   a text column is one column of whole numbers, the indices of its levels, instead of one-hot columns.
    columns the names of all columns of the model, in its order, for tables without names; not stored.
    closed  a text column is one unit that has one of these states, so that another text is refused; not stored.
    """

    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    means: Mapping[str, float] = field(default_factory=dict)
    bases: Mapping[str, str] = field(default_factory=dict)
    codes: bool = False
    columns: tuple[str, ...] = ()
    closed: bool = False

    def __bool__(self) -> bool:
        return bool(self.levels or self.means)

    def merge_with(self, other: Recoding) -> Recoding:
        """Return the union of two recodings; the other's entries take precedence."""
        return Recoding(
            {**self.levels, **other.levels}, {**self.means, **other.means}, {**self.bases, **other.bases}, self.codes or other.codes
        )

    def for_model(self, model: object) -> Recoding:
        """Return the recoding for new rows of a model: closed if its visible units are softmax units."""
        layers = (model, *getattr(model, "layers", ())[:1])
        return replace(self, closed=any(str(getattr(each, "visible_units", "")).startswith("softmax") for each in layers))

    def to_json(self) -> str:
        """Return the JSON text that artifacts store; equal recodings give equal text."""
        bases = {"bases": dict(self.bases)} if self.bases else {}
        codes = {"codes": True} if self.codes else {}
        return json.dumps(
            {"levels": {name: list(known) for name, known in self.levels.items()}, "means": dict(self.means), **bases, **codes}
        )

    @staticmethod
    def from_json(text: str, *, where: str) -> Recoding:
        """Parse the JSON text of a recoding.  Raises DataError for anything else."""
        try:
            found = json.loads(text)
            json.dumps(found, ensure_ascii=False).encode()  # fails for lone surrogates
            levels = {str(name): tuple(map(str, known)) for name, known in found["levels"].items()}
            means = {str(name): float(mean) for name, mean in found["means"].items()}
            bases = {str(name): levels[name][levels[name].index(level)] for name, level in found.get("bases", {}).items()}
            return Recoding(levels, means, bases, found.get("codes", False) is True)
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise DataError(
                "the file is damaged: its coding of text columns cannot be read", where=where, hint="make the file again"
            ) from error


def cell_text(cell: object) -> str:
    """Return a value as text: numbers with all digits, an empty text for NaN."""
    if isinstance(cell, float):
        return "" if cell != cell else f"{cell:.17g}"
    return str(cell)


def column_names(data: Dataset) -> list[str]:
    """Return the column names of X, or x0, x1, … if it has none."""
    return data.feature_names or [f"x{index}" for index in range(data.X.shape[1])]


def fit_encoding(
    data: Dataset,
    texts: list[str],
    training: Array,
    *,
    missing: str | None,
    where: str,
    note: MessageFunction,
    codes: bool = False,
    max_levels: int = MOST_LEVELS,
) -> Recoding:
    """Learn the encoding of text columns and, with --missing mean, of columns with empty cells from the training rows (n,) bool.

    texts  names among `data.columns`.  codes: as in `Recoding`.  most: limit of levels.  Notes report the encoding of each text column.
    """
    levels: dict[str, tuple[str, ...]] = {}
    marks = MARKS - {"None"} if codes else MARKS  # None is a common name of a state: no damage, no accident
    for name in texts:
        known = sorted(set((data.columns or {})[name][training].tolist()) - marks)
        if 2 <= len(known) <= max_levels and 2 * len(known) <= int(training.sum()):
            levels[name] = tuple(known)
        elif len(known) < max(LEAST_ROWS, int(training.sum())):  # else a note has called it an identifier
            note(f"{where}: ignored column {name} (text with {len(known)} different {'value' if len(known) == 1 else 'values'})")
    if levels:
        listed = ", ".join(f"{name} ({len(known)} levels)" for name, known in levels.items())
        note(f"{where}: text columns {'read as states' if codes else 'one-hot encoded'}: {listed}")
    return Recoding(levels, _column_means(data, training, where) if missing == "mean" else {}, codes=codes)


def _column_means(data: Dataset, training: Array, where: str) -> dict[str, float]:
    """Return a dict from column to the mean of the training rows."""
    if data.is_sparse or data.X.dtype.kind != "f":
        return {}
    found: dict[str, float] = {}
    for name, values in zip(column_names(data), data.X[training].T, strict=True):
        there = values[np.isfinite(values)]
        if not len(there):
            raise DataError(f"all values of column '{name}' are missing in the training rows", where=where, hint="remove the column")
        found[name] = float(there.mean(dtype=np.float64))
    return found


def apply_encoding(
    data: Dataset, recoding: Recoding, texts: list[str], *, missing: str | None, where: str, note: MessageFunction, warn: MessageFunction
) -> Dataset:
    """Return the data set as numbers without missing values: means filled in or rows dropped, one-hot columns last, other text left out.

    missing  the option as typed; "kept": empty cells stay empty; "states": −1 is missing too.  Raises DataError for other empty cells.
    """
    if missing == "drop":
        known = [name for name in texts if name in recoding.levels]
        data = drop_incomplete_rows(data, known, where=where, note=note, levels=recoding.levels)
    elif missing == "mean" or recoding.means:
        data = _fill_missing(data, recoding.means, where, note)
    elif missing is None:
        hint = DROP_HINT if recoding.codes else f"{DROP_HINT}, --missing mean sets their one-hot columns to 0"
        _refuse_missing_text(data, [name for name in texts if name in recoding.levels], where, hint)
    columns = dict(data.columns or {})
    found = {name: columns.pop(name) for name in texts}
    if recoding.codes:
        gaps = {"kept": MARKS, "states": MARKS | {"-1"}}.get(str(missing), frozenset())
        parts = [_encode_levels(found[name], name, recoding.levels[name], where, gaps) for name in recoding.levels if name in found]
    else:
        parts = [_one_hot_columns(found[name], name, recoding, where, note, warn) for name in recoding.levels if name in found]
    if not parts:
        _require_numbers(data, where)
        return replace(data, columns=columns or None)
    names = [
        *(column_names(data) if data.X.shape[1] else []),
        *(text for name in recoding.levels if name in found for text in one_hot_column_names(name, recoding)),
    ]
    whole = _append_columns(data.X, np.column_stack(parts))
    return replace(data, X=whole, feature_names=names, columns=columns or None, image_shape=None, units="real")


def _require_numbers(data: Dataset, where: str) -> None:
    if not data.X.shape[1]:
        hint = f"text columns are used if they have at most {MOST_LEVELS} different values, each occurring twice on average"
        raise DataError("has no column of numbers", where=where, hint=hint)


def one_hot_column_names(name: str, recoding: Recoding) -> list[str]:
    """Return the names of the one-hot columns of a text column, without its base level; its own name if it stays one column."""
    if recoding.codes:
        return [name]
    return [f"{name}={level}" for level in recoding.levels[name] if level != recoding.bases.get(name)]


def _has_rows_without_level(data: Dataset, columns: list[str], training: Array) -> bool:
    """Return whether the one-hot columns of a text column are all 0 in some training row."""
    names = data.feature_names or []
    places = [names.index(column) for column in columns]
    parts = (slice(start, start + ROWS_AT_ONCE) for start in range(0, data.X.shape[0], ROWS_AT_ONCE))
    return any(not (_as_dense(data.X[part])[:, places].any(axis=1) | ~training[part]).all() for part in parts)


def _as_dense(rows: Matrix) -> Array:
    found: Array = rows.toarray() if is_sparse(rows) else rows
    return found


def drop_base_columns(data: Dataset, recoding: Recoding, training: Array, *, where: str, note: MessageFunction) -> tuple[Dataset, Recoding]:
    """Return the data set without the column of each text column's first level, if all levels are present, and the updated recoding.

    The columns of all levels add up to 1, which is also the intercept: the coefficients are determined only if one column is removed.
    Where a text column has missing values in the training rows, `training` (n,) bool, whose columns are all 0, those rows are the base
    level and no column is removed.
    """
    names = data.feature_names or []
    whole = {
        name: levels[0]
        for name, levels in recoding.levels.items()
        if name not in recoding.bases and set(one_hot_column_names(name, recoding)) <= set(names)
    }
    empty = {name for name in whole if _has_rows_without_level(data, [f"{name}={level}" for level in recoding.levels[name]], training)}
    if empty:
        listed = ", ".join(f"'{name}'" for name in sorted(empty))
        note(f"{where}: a missing value of {listed} is the base level, which the intercept represents")
    whole = {name: level for name, level in whole.items() if name not in empty}
    if not whole:
        return data, recoding
    gone = {f"{name}={level}" for name, level in whole.items()}
    note(f"{where}: base levels, which the intercept represents: {', '.join(sorted(gone))}")
    kept = [index for index, name in enumerate(names) if name not in gone]
    left = replace(data, X=data.X[:, kept], feature_names=[names[index] for index in kept], image_shape=None)
    return left, replace(recoding, bases={**recoding.bases, **whole})


def _append_columns(X: Matrix, hot: Array) -> Matrix:
    """Append one-hot columns, in the type of the other columns."""
    if not X.shape[1]:
        return hot
    kind = hot.dtype if X.dtype.kind == "b" or hot.dtype.kind == "f" else X.dtype
    if is_sparse(X):
        from scipy.sparse import csr_matrix, hstack

        return hstack([X, csr_matrix(hot)], format="csr")
    return np.column_stack([X.astype(kind, copy=False), hot.astype(kind)])


def _one_hot_columns(values: Array, name: str, recoding: Recoding, where: str, note: MessageFunction, warn: MessageFunction) -> Array:
    """Return the one-hot columns (n, columns) of a text column.

    They are 0 for the base level, for an empty cell, and for a value that is not in the training rows, which is reported.
    """
    levels, base = recoding.levels[name], recoding.bases.get(name)
    place = {level: index for index, level in enumerate(levels)}
    index = np.array([place.get(text, -1) for text in values.tolist()])
    hot = np.zeros((len(values), len(levels)), dtype=np.uint8)
    hot[index >= 0, index[index >= 0]] = 1
    alike = "" if base is None else f", as those of '{base}'"
    empty = int(np.isin(values, sorted(MARKS)).sum())
    if empty:
        noun = "value" if empty == 1 else "values"
        note(
            f"{where}: {group_digits(empty)} missing {noun} of column '{name}': {'its' if empty == 1 else 'their'} one-hot columns are "
            f"0{alike}"
        )
    unseen = sorted({text for text, found in zip(values.tolist(), index.tolist(), strict=True) if found < 0} - MARKS)
    if unseen and recoding.closed:
        raise _unknown_state_error(values, unseen, name, levels, where)
    if unseen:
        rows = int(np.isin(values, unseen).sum())
        listed = ", ".join(repr(text) for text in unseen[:5]) + (" …" if len(unseen) > 5 else "")
        noun = "row" if rows == 1 else "rows"
        warn(
            f"{where}: column '{name}' has {listed} in {group_digits(rows)} {noun}, but in no training row: all its one-hot columns "
            "there are "
            f"0{alike}"
        )
    return hot if base is None else np.delete(hot, place[base], axis=1)


def _shorten_levels(levels: tuple[str, ...]) -> str:
    return ", ".join(levels[:5]) + (" …" if len(levels) > 5 else "")


def _encode_levels(values: Array, name: str, levels: tuple[str, ...], where: str, gaps: frozenset[str]) -> Array:
    """Return (n,) the indices of levels; NaN for an empty cell (any of `gaps`).  Raises DataError for other empty cells and unknown levels.

    A column in which no level occurs holds indices already, if it is numeric and the levels are not all numbers themselves.
    """
    given = values.tolist()
    place = _level_positions(set(given), levels)
    if not place and not _are_numeric(levels):
        place = {text: value for text in set(given) if (value := parse_plain_number(text)) is not None}
    place |= dict.fromkeys(gaps - set(levels), np.nan)
    unknown = sorted(set(given) - place.keys())
    if unknown and unknown[0] in MARKS:
        raise DataError(
            f"column '{name}' is text and has missing values; --missing mean fills only columns of numbers",
            where=where,
            hint="use --missing drop",
        )
    if unknown:
        raise _unknown_state_error(values, unknown, name, levels, where)
    made = np.array([place[text] for text in given])
    whole = made.dtype.kind != "f" or bool(((made % 1 == 0) & (made >= 0) & (made < 256)).all())
    return made.astype(np.uint8) if whole else made


def _unknown_state_error(values: Array, unknown: Sequence[str], name: str, levels: tuple[str, ...], where: str) -> DataError:
    rows = int(np.isin(values, unknown).sum())
    listed = ", ".join(repr(text) for text in unknown[:5]) + (" …" if len(unknown) > 5 else "")
    return DataError(
        f"{listed} of column '{name}' ({group_digits(rows)} {'row' if rows == 1 else 'rows'}) is not one of its states: "
        f"{_shorten_levels(levels)}",
        where=where,
    )


def _are_numeric(levels: Sequence[str]) -> bool:
    """Return whether all levels are numbers; then a number that is not a level is not an index of one."""
    return bool(levels) and all(parse_plain_number(level) is not None for level in levels)


def _level_positions(texts: Set[str], levels: Sequence[str]) -> dict[str, float]:
    """Return a dict from the texts that are levels to their indices.

    A number also matches the level of the same value, as 1.0 and 1; words for true and false match in upper and lower case.
    """
    exact = {level: float(index) for index, level in enumerate(levels)}
    values = {value: index for level, index in exact.items() if (value := parse_plain_number(level)) is not None and value == value}
    alike = {text: values.get(value) for text in texts if (value := parse_plain_number(text)) is not None}
    alike |= {text: place for text in texts if (place := boolean_level_index(text, levels)) is not None}
    found = {text: exact.get(text, alike.get(text)) for text in texts}
    return {text: place for text, place in found.items() if place is not None}


def encode_state_names(data: Dataset, recoding: Recoding, texts: list[str]) -> tuple[Dataset, list[str], Recoding]:
    """Convert numeric columns with named states to names; return the data set, all text columns, and the recoding of those with names.

    Columns without names have those of the recoding, in its order.
    """
    moved = {}
    if data.feature_names is None and data.X.shape[1] == len(recoding.columns):
        data = replace(data, feature_names=list(recoding.columns))
    for name, column in zip(
        data.feature_names or (), data.X.T if not data.is_sparse and data.feature_names else (), strict=not data.is_sparse
    ):
        levels = recoding.levels.get(name, ())
        if any(parse_plain_number(level) is not None for level in levels):
            shown = np.array([cell_text(cell) for cell in column.tolist()], dtype=str)
            if _are_numeric(levels) or _level_positions(set(shown.tolist()), levels):
                moved[name] = shown
    data, texts = _move_to_further_columns(data, moved), [*texts, *moved]
    there = {
        name: levels
        for name, levels in recoding.levels.items()
        if name in texts and (_are_numeric(levels) or _level_positions(set((data.columns or {})[name].tolist()), levels))
    }
    return data, texts, replace(recoding, levels=there)


def decode_state_columns(data: Dataset, data_recoding: Recoding, recoding: Recoding, texts: list[str]) -> tuple[Dataset, list[str]]:
    """Convert columns of a data set's own level indices to text if other levels are expected; return it with all text columns.

    Raises DataError for an index beyond its own levels.
    """
    if not (data_recoding.codes and recoding.codes) or data.is_sparse or not data.feature_names:
        return data, texts
    moved = {}
    for name, column in zip(data.feature_names, data.X.T, strict=True):
        if name in data_recoding.levels and name in recoding.levels:
            place = np.where(np.isnan(column), -1, column) if column.dtype.kind == "f" else column
            if ((place < -1) | (place % 1 != 0) | (place >= len(data_recoding.levels[name]))).any():
                raise DataError(f"column '{name}' has values that are not indices of its {len(data_recoding.levels[name])} states")
            moved[name] = np.array([*data_recoding.levels[name], ""])[place.astype(np.int64)]
    return _move_to_further_columns(data, moved), [*texts, *moved]


def _move_to_further_columns(data: Dataset, moved: Mapping[str, Array]) -> Dataset:
    """Return the data set with these columns of X moved to its further columns, as text."""
    if not moved:
        return data
    kept = [index for index, name in enumerate(data.feature_names or []) if name not in moved]
    names = [(data.feature_names or [])[index] for index in kept]
    return replace(data, X=data.X[:, kept], feature_names=names, columns={**(data.columns or {}), **moved}, image_shape=None, units="real")


def _fill_missing(data: Dataset, means: Mapping[str, float], where: str, note: MessageFunction) -> Dataset:
    """Fill empty cells with the means of their columns, and drop rows without a label."""
    data = _drop_unlabelled(data, where, note)
    if data.is_sparse or data.X.dtype.kind != "f" or not np.isnan(data.X).any():
        return data
    X, filled = data.X.copy(), 0
    for index, name in enumerate(column_names(data)):
        gaps = np.isnan(X[:, index])
        if gaps.any() and name in means:
            X[gaps, index] = means[name]
            filled += int(gaps.sum())
        elif gaps.any() and means:
            raise BadUsage(
                f"column '{name}' has missing values and the model stores no mean for it", where=where, hint="use --missing drop"
            )
    note(f"{where}: {group_digits(filled)} missing {'value' if filled == 1 else 'values'} filled with column means")
    return replace(data, X=X)


def _drop_unlabelled(data: Dataset, where: str, note: MessageFunction) -> Dataset:
    """Return the rows that have a label.

    A label −1 means none, unless the labels have no names and are only −1 and 1, or include values below −1.
    """
    if data.y is None or not (data.y < 0).any() or data.y.max() < 0:
        return data
    if data.class_names is None and (data.y.min() < -1 or set(np.unique(data.y).tolist()) == {-1, 1}):
        return data
    kept = np.flatnonzero(data.y >= 0)
    note(f"{where}: dropped {group_digits(len(data.y) - len(kept))} rows without a label")
    return take_rows(data, kept)


def drop_incomplete_rows(
    data: Dataset, texts: list[str], *, where: str, note: MessageFunction, levels: Mapping[str, tuple[str, ...]] | None = None
) -> Dataset:
    """Return the rows without missing values, and report how many were dropped; levels of a text column are no missing values."""
    gaps = np.zeros(data.X.shape[0], dtype=bool)
    if is_sparse(data.X):
        gaps[np.unique(np.searchsorted(data.X.indptr, np.flatnonzero(np.isnan(data.X.data)), side="right") - 1)] = True
    elif data.X.dtype.kind == "f":
        gaps |= np.isnan(data.X).any(axis=1)
    for name in texts:
        gaps |= np.isin((data.columns or {})[name], sorted(MARKS - set((levels or {}).get(name, ()))))
    data = replace(data) if not gaps.any() else take_rows(_drop_and_report_rows(data, gaps, where, note), np.flatnonzero(~gaps))
    return _drop_unlabelled(data, where, note)


def _drop_and_report_rows(data: Dataset, gaps: Array, where: str, note: MessageFunction) -> Dataset:
    if gaps.all():
        raise DataError(
            "every row has a missing value", where=where, hint="use --missing mean, which fills them with the means of their columns"
        )
    note(f"{where}: dropped {group_digits(int(gaps.sum()))} of {group_digits(len(gaps))} rows, because of missing values")
    return data


def _refuse_missing_text(data: Dataset, texts: list[str], where: str, hint: str) -> None:
    """Raise DataError for a missing text value, as for a missing number."""
    for name in texts:
        empty = np.flatnonzero(np.isin((data.columns or {})[name], sorted(MARKS - {"None", "."})))
        if len(empty):
            noun = "value" if len(empty) == 1 else "values"
            raise DataError(
                f"column '{name}' has {group_digits(len(empty))} missing {noun} (first: row {empty[0]})", where=where, hint=hint
            )


DROP_HINT = "--missing drop leaves such rows out"
MISSING_HINT = f"{DROP_HINT}, --missing mean fills in the column's mean"
FEATURES_HINT = f"{DROP_HINT}; --missing mean fills in features only"
