"""Data sets as models see them: thresholds, value ranges, splits and labels are read in the same way by every command."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from herdcli.artifacts import Artifact
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.rows.lazy_matrix import ConvertedMatrix, LazyMatrix
from herdcli.artifacts.tables import dataset_preparation
from herdcli.cli.frame.rows import streamed_rows
from herdcli.cli.frame.run.session import Session
from herdcli.errors import DataError, HerdError
from herdcli.records import dataclass
from herdcli.schema import Array, Matrix, class_index

if TYPE_CHECKING:
    from herdcli.rbm.model import RBM
    from herdcli.rbm.recurrent.artifacts import RecurrentRBM
    from herdcli.rbm.units.base import UnitFamily

OF_MODELS = 0.4  # the threshold of fit-rbm, and for models that do not store theirs


@dataclass(frozen=True)
class PreparedRows:
    """Rows X (n, D) in unit values, with their splits, labels and the way in which values became unit values.

    X      int8 for binary units and float32 for others; dense or CSR.
    split  (n,).
    y      (n,) labels, as indices into `names`.
    """

    X: Any
    split: Array
    y: Array | None
    names: list[str] | None
    threshold: float | None
    value_range: Array | None
    image_shape: Array | None
    column_mean: Array | None = None
    column_scale: Array | None = None
    feature_names: list[str] | None = None

    def reading_record(self) -> dict[str, Any]:
        """Return how the rows became unit values, under the names of a model's fields."""
        kept = ("image_shape", "threshold", "value_range", "column_mean", "column_scale", "feature_names")
        return {name: getattr(self, name) for name in kept}

    def labels_and_class_names(self, where: str, option: str) -> tuple[Array, list[str]]:
        """Return labels and class names.  Raises DataError if the rows have none."""
        if self.y is None or self.names is None:
            raise DataError(f"there are no labels, which {option} needs", where=where, hint="name the column of labels: --label COLUMN")
        return self.y, self.names

    def single_class_labels(self) -> tuple[Array, list[str]]:
        """Return labels and class names that put all rows into one class."""
        return np.broadcast_to(np.int64(0), len(self.split)), ["all rows"]


@dataclass(frozen=True)
class RowReading:
    """The settings for converting the rows of a data set to unit values.

    default  the threshold to use, with a note, if the data set declares its value range and no threshold is given.
    column_mean, column_scale  (D,) of the model that the rows are for; None: computed from these rows if they are standardised.
    learn_variances  whether columns' standard deviations are learned, starting from their own; like `standardize`, it removes their units.
    in_place  whether the data set's own memory may be overwritten.
    sparse  whether a CSR matrix may stay one, if a 0 is also a unit's 0.
    """

    default: float
    split: str | None = None
    seed: int = 0
    threshold: float | None = None
    value_range: tuple[float, float] | None = None
    standardize: bool = False
    learn_variances: bool = False
    column_mean: Array | None = None
    column_scale: Array | None = None
    in_place: bool = False
    sparse: bool = False

    @classmethod
    def from_request(cls, request: object, *, default: float) -> RowReading:
        """Return the settings that a request, or a mapping of options, contains."""
        get = request.get if hasattr(request, "get") else lambda name: getattr(request, name, None)
        known = {each.name: get(each.name) for each in fields(cls) if each.name != "default"}
        return cls(default=default, **{name: value for name, value in known.items() if value is not None})


def rows_in_units(session: Session, artifact: Artifact, units: UnitFamily, reading: RowReading) -> PreparedRows:
    """Return the rows of a data set in the values of a unit family.

    These are `binary_rows`, counts in proportion to a value range, or the values themselves.
    """

    if reading.standardize and not units.standard_normal:
        session.console.warn(f"--standardize has no effect with visible units {units.name}")
    if units.two_state and units.states is not None:
        return binary_rows(session, artifact, units.states, reading)
    data, is_rate = artifact.value, units.proportions
    session.warn_of_ignored_option("threshold", f"with visible units {units.name}")
    if "value_range" in session.given and not is_rate:
        session.console.warn(f"--range has no effect with visible units {units.name}")
    rows, columns = data.X.shape
    stays = data.is_sparse and reading.sparse and units.sparse
    if not isinstance(data.X, LazyMatrix):
        session.require_memory(4 * (data.X.nnz if stays else rows * columns), f"{rows} × {columns} {units.name} units")
    try:
        split = dataset_preparation.assign_splits(data, reading.split, reading.seed)
        declared = data.value_range if reading.value_range is None else reading.value_range
        if is_rate:
            declared = dataset_preparation.require_value_range(data, (0, 1) if declared is None and data.units == "binary" else declared)

        def values(X: Array) -> Array:
            return dataset_preparation.scale_to_range(X, declared) * np.float32(units.scale) if is_rate else X

        made: object
        if isinstance(data.X, LazyMatrix):
            training = split == 0 if (reading.standardize or reading.learn_variances) and units.standard_normal else None
            made, mean, scale = streamed_rows.standardized_rows(
                data.X, values, units, (reading.column_mean, reading.column_scale), training
            )
        else:
            if units.standard_normal and not data.is_sparse:
                _warn_of_imprecise_columns(session, data)
            own = reading.in_place and isinstance(data.X, np.ndarray) and data.X.dtype == np.float32 and data.X.flags.writeable
            X = data.X if own else data.X.astype(np.float32) if stays else dataset_preparation.dense_copy(data, np.float32)
            X = values(X)
            mean, scale = _standardize_gaussian_columns(session, X, split == 0, units, reading)
            units.require_rows(X)
            made = X
    except HerdError as error:
        if isinstance(error, DataError) and error.where is None and not error.message.startswith("/X"):
            error.message = f"/X: {error.message}"
        error.where = error.where or artifact.name
        raise
    limits = None if declared is None else np.asarray(declared, dtype=np.float64)
    known = {"threshold": None, "value_range": limits, "image_shape": data.image_shape, "column_mean": mean, "column_scale": scale}
    return PreparedRows(X=made, split=split, **_label_fields(data), **known, feature_names=data.feature_names)


def _warn_of_imprecise_columns(session: Session, data: Dataset) -> None:
    """Warn of columns, such as times in seconds, whose digits single precision cannot hold."""
    columns = np.flatnonzero(dataset_preparation.float32_imprecise_columns(data.X)).tolist()
    if columns:
        names = ", ".join(data.feature_names[j] if data.feature_names else f"x{j}" for j in columns[:8]) + (
            " …" if len(columns) > 8 else ""
        )
        session.console.warn(f"{names}: the values are large and vary little, so single precision loses digits: subtract the means first")


def _standardize_gaussian_columns(
    session: Session, X: Array, training: Array, units: UnitFamily, reading: RowReading
) -> tuple[Array | None, Array | None]:
    """Standardise gaussian columns in place and return the means and standard deviations used.

    These are a model's own, or with --standardize or --learn-variances those of the training rows.
    """
    mean, scale = reading.column_mean, reading.column_scale
    if (reading.standardize or reading.learn_variances) and units.standard_normal and mean is None and training.any():
        mean, scale = dataset_preparation.column_means_and_deviations(X, training)
    if mean is not None and scale is not None and X.shape[1] == len(mean):
        X -= mean
        X /= scale
    return mean, scale


def rows_for_model(
    session: Session,
    model: RBM | RecurrentRBM,
    artifact: Artifact,
    request: object,
    *,
    default: float = OF_MODELS,
    sparse: bool = False,
    in_place: bool = False,
    labels: bool = True,
) -> PreparedRows:
    """Return the rows of a data set in the values of a model's visible units, thresholded or scaled as the model's own rows were.

    labels  whether to append the labels, for a model whose last visible unit is the label.
    request  a request, or a mapping of options; its values take precedence over the model's.
    sparse, in_place  as in `RowReading`.
    """
    from herdcli.cli.frame.rows.column_order import align_dataset
    from herdcli.rbm.units import unit_family

    units = unit_family(model.visible_units)
    reading = RowReading.from_request(request, default=default)
    reading = replace(
        reading,
        threshold=model.threshold if reading.threshold is None else reading.threshold,
        column_mean=None if model.column_mean is None else model.column_mean[: model.columns],
        column_scale=None if model.column_scale is None else model.column_scale[: model.columns],
        sparse=sparse and units.labels is None,
        in_place=in_place,
    )
    artifact = align_dataset(session, artifact, model.feature_names, model.columns)
    units = units.columns
    if reading.value_range is None and model.value_range is not None:
        low, high = map(float, model.value_range)
        reading = replace(reading, value_range=_value_limits(session, artifact, units, (low, high), reading.threshold))
    rows = rows_in_units(session, artifact, units, reading)
    if rows.X.shape[1] != model.columns:
        raise DataError(f"/X has {rows.X.shape[1]} columns, but the model has {model.columns} visible units", where=artifact.name)
    return _append_labels(model, rows, artifact.name) if labels and unit_family(model.visible_units).labels is not None else rows


def _value_limits(
    session: Session, artifact: Artifact, units: UnitFamily, model_limits: tuple[float, float], threshold: float | None
) -> tuple[float, float]:
    """Return the value range for reading rows: the model's own, or that of unit values.

    The latter is for rows that already hold unit values, as `herd sample` writes them.
    """

    if units.states is None or units.range is None:
        return model_limits
    shown = units.range[0] / units.scale, units.range[1] / units.scale
    share = 0.5 / units.scale if units.proportions else threshold
    least = None if share is None else model_limits[0] + share * (model_limits[1] - model_limits[0])
    ends = [f"from {low:g} to {high:g}" for low, high in (shown, model_limits)]
    if model_limits == shown or not dataset_preparation.are_unit_states(artifact.value, shown, least):
        if least is not None and dataset_preparation.is_constant_after_threshold(artifact.value, least):
            session.console.warn(
                f"{artifact.name}: all values are on the same side of the threshold {least:g}; the training rows had values {ends[1]}"
            )
        return model_limits
    session.console.note(f"{artifact.name}: values are read as unit states {ends[0]}, although the training rows had values {ends[1]}")
    return shown


def _append_labels(model: RBM | RecurrentRBM, rows: PreparedRows, where: str) -> PreparedRows:
    """Return rows with their labels appended as the last visible unit, for a model that has a label unit."""
    from herdcli.rbm.classification_rbm import append_one_hot_labels

    known: list[str] = getattr(model, "labels", None) or []
    return replace(rows, X=append_one_hot_labels(rows.X, _label_indices(known, rows, where, "a model of rows with labels"), len(known)))


def binary_rows(session: Session, artifact: Artifact, values: tuple[int, int], reading: RowReading) -> PreparedRows:
    """Return the rows of a data set in the two values of a unit family; grey values are thresholded, sparse counts are on above 0.

    values   the unit's off and on value.
    """
    data = artifact.value
    stays = data.is_sparse and reading.sparse and values[0] == 0
    if data.is_sparse and not stays:
        session.require_memory(data.X.shape[0] * data.X.shape[1], f"{data.X.shape[0]} × {data.X.shape[1]} two-state units")
    coding = dataset_preparation.ambiguous_binary_levels(data)  # before the rows are overwritten
    try:
        split = dataset_preparation.assign_splits(data, reading.split, reading.seed)
        least, threshold = dataset_preparation.choose_threshold(data, reading.threshold, reading.default, reading.value_range)
        if isinstance(data.X, LazyMatrix):
            X: object = streamed_rows.convert_rows(
                data.X, lambda rows: _binary_values(dataset_preparation.threshold_mask(rows, least), values), np.int8
            )
        else:
            X = _binary_values(dataset_preparation.threshold_mask(data.X, least, reading.in_place, stays), values)
    except HerdError as error:
        error.where = error.where or artifact.name
        if "no value_range" in error.message and hasattr(session.request, "visible_units"):
            error.hint = f"{error.hint}; for real numbers use --visible-units gaussian --standardize"
            if dataset_preparation.has_only_counts(data):
                error.hint = f"for whole numbers use --visible-units poisson; or {error.hint}"
        raise
    if threshold is not None and reading.threshold is None:
        session.console.note(f"values from {threshold:g} of the value range upwards are read as 1 (--threshold)")
    declared = data.value_range if reading.value_range is None else reading.value_range
    if threshold is None and declared is None and dataset_preparation.are_sparse_counts(data) and (data.X.data > 1).any():
        session.console.note("counts above 0 are read as 1 (--threshold)")
    if threshold is None:
        declared = coding  # so that a subset of the rows is read in the same way
    return PreparedRows(
        X=X,
        split=split,
        **_label_fields(data),
        threshold=threshold,
        value_range=None if declared is None else np.asarray(declared, dtype=np.float64),
        image_shape=data.image_shape,
        feature_names=data.feature_names,
    )


def _binary_values(on: Any, values: tuple[int, int]) -> Matrix:
    """Return booleans as int8 unit values in the same memory; a CSR matrix requires units whose lower value is 0."""
    if hasattr(on, "indptr"):
        on.data = on.data.view(np.int8)
        return on
    X: Array = on.view(np.int8)
    X *= values[1] - values[0]
    X += values[0]
    return X


class LabelFields(TypedDict):
    """Labels as indices into class names; both are None if the data have no labels."""

    y: Array | None
    names: list[str] | None


def _label_fields(data: Dataset) -> LabelFields:
    """Return labels as indices into class names; both are None if the data have no labels."""
    if data.y is None:
        return {"y": None, "names": None}
    if data.class_names:
        return {"y": data.y.astype(np.int64), "names": data.class_names}
    labels, y = np.unique(data.y, return_inverse=True)
    return {"y": y, "names": [str(label) for label in labels]}


def model_class_indices(model: RBM, rows: PreparedRows, path: str) -> Array | None:
    """Return the index of each row's class among the model's classes (n,); None for a single model."""
    if model.count == 1 or model.classes is None:
        return None
    return _label_indices(model.classes, rows, path, "a model of classes")


def _label_indices(model_names: list[str], rows: PreparedRows, path: str, what: str) -> Array:
    """Return the index of each row's label among the names that a model knows (n,)."""
    y, names = rows.labels_and_class_names(path, what)
    places = [class_index(name, model_names) for name in names]
    unknown = [name for name, place in zip(names, places, strict=True) if place is None]
    if unknown:
        raise DataError(f"has class '{unknown[0]}', but the model knows only {', '.join(model_names)}", where=path)
    chosen: Array = np.array(places)[y]
    return chosen


def rows_and_known_mask(
    session: Session, model: RBM, artifact: Artifact, request: object, mask: Artifact | None = None
) -> tuple[PreparedRows, Array]:
    """Return the rows of a data set in the values of a model's visible units, and the mask (n, D) bool of known entries.

    An entry is missing if it is NaN, if `mask` has a 0 for it, or if all columns of its unit of several columns are 0.  `mask` is a data
    set with as many entries, or with one row for all rows.
    """
    from herdcli.cli.frame.rows.column_order import align_dataset
    from herdcli.rbm.sampling.imputation import require_complete_units
    from herdcli.rbm.units import unit_family

    columns, units = model.W.shape[1], unit_family(model.visible_units)
    artifact = align_dataset(session, artifact, model.feature_names, columns)
    X = dataset_preparation.dense_copy(artifact.value, np.float64)
    known = ~np.isnan(X)
    if units.group > 1 and units.is_valid_width(X.shape[1]):  # the one-hot columns of an empty cell are all 0
        starts = np.flatnonzero(units.first_columns(X.shape[1]))
        known &= np.repeat(np.logical_or.reduceat(X != 0, starts, axis=1), np.diff([*starts, X.shape[1]]), axis=1)
    if mask is not None:
        shown = dataset_preparation.dense_copy(align_dataset(session, mask, model.feature_names, columns).value, np.float64)
        if shown.shape not in (X.shape, (1, X.shape[1])):
            sizes = " × ".join(map(str, shown.shape)), " × ".join(map(str, X.shape))
            raise DataError(f"the mask has {sizes[0]} entries, but the rows of {artifact.name} have {sizes[1]}", where=mask.name)
        known &= shown != 0
    if X.shape[1] == columns:
        require_complete_units(model.harmonium(), known)
    X[~known] = X[known].min(initial=np.inf) if known.any() else 0.0
    if units.group > 1:  # any valid value will do: set the first column of each unit
        X[~known] = np.broadcast_to(units.first_columns(X.shape[1]), X.shape)[~known]
    return rows_for_model(session, model, replace(artifact, value=replace(artifact.value, X=X)), request, default=0.5), known


def file_rows_and_known_mask(session: Session, model: RBM, artifact: Artifact, request: object) -> tuple[PreparedRows, ConvertedMatrix]:
    """Return rows and mask as `rows_and_known_mask` does, for rows that stay in a file."""
    from herdcli.cli.frame.rows.column_order import align_dataset
    from herdcli.rbm.units import unit_family

    artifact = align_dataset(session, artifact, model.feature_names, model.W.shape[1])
    filled, known = streamed_rows.rows_and_known_mask(artifact.value.X, model, unit_family(model.visible_units))
    return rows_for_model(session, model, replace(artifact, value=replace(artifact.value, X=filled)), request, default=0.5), known
