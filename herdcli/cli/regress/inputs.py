"""The inputs of `herd regress`: a data set's columns as features, target, offset and weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.dataset import take_rows
from herdcli.artifacts.recoding import drop_base_columns
from herdcli.artifacts.rows.lazy_matrix import LazyMatrix
from herdcli.artifacts.sealed import provenance
from herdcli.artifacts.tables import dataset_preparation
from herdcli.cli.frame.rows import streamed_rows
from herdcli.cli.regress import trials_and_exposure
from herdcli.cli.regress.time_steps import arrange_in_time
from herdcli.cli.regress.time_steps import split_time_columns as grouped
from herdcli.cli.regress.trials_and_exposure import CountOptions, MessageFunction, Response
from herdcli.errors import BadUsage, DataError, missing_column_error
from herdcli.records import dataclass
from herdcli.regression import count_detection
from herdcli.schema import LARGEST, is_sparse, require_valid_weights
from herdcli.splits import TEST

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.artifacts.dataset import Dataset
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.regress.request import Request
    from herdcli.regression.covariance import TimeSteps
    from herdcli.regression.model import GeneralisedLinear
    from herdcli.schema import Array

LABELS = "y"
COPIED = 36  # bytes per entry that reading and fitting in memory need in addition to the stored ones
ONE_PASS = "for least squares use --one-pass, which reads some rows at a time"
SEQUENCE = "sequence"
LEAST_ROWS = 5  # minimum average number of rows per class
MOST_CLASSES = 20  # a target with at most this many different whole numbers is read as class names, which a note reports


@dataclass(frozen=True)
class RegressionInputs:
    """X (n, D), an array, CSR rows or, for rows on disk, a LazyMatrix; target y (n,), offset (n,), weights (n,) and split (n,).

    classes  names of the target's values, if these are classes.
    """

    X: Array
    y: Array
    offset: Array
    weight: Array | None
    split: Array
    names: list[str] | None
    classes: list[str] | None
    target: str
    history: Artifact
    steps: TimeSteps | None = None  # the time steps of rows, for time series
    title: str = ""  # name of the target in the file
    form: str = ""  # form of the target, as in `trials_and_exposure.Response`
    image_shape: Array | None = None  # (2,) if rows are images


def read_inputs(session: Session, request: Request, *, is_time_series: bool = False) -> RegressionInputs:
    """Read the columns that the options name.  is_time_series  rows are time series, whose splits are consecutive."""
    artifact = None if is_time_series or request.gls or request.hidden else _open_on_disk(session, request)
    if artifact is None:
        artifact = _load_data(
            session, request.source, non_feature_columns(request), request.input_format, [SEQUENCE] if is_time_series else []
        )
    target = request.target or LABELS
    data, response, classes = split_response(artifact.value, request, artifact.name, note=session.console.note)
    data, response = _drop_zero_weights(session, data, response, request.gls, artifact.name)
    y, offset, weight = response.y, response.offset, response.weight
    for what, values in ((f"the target '{target_name_in_file(session, request.target)}'", y), ("the offset", offset)):
        _require_squares(what, values, artifact.name)
    if classes is None and request.family in (None, "softmax") and not request.gls and not response.form:
        y, classes = (y, None) if _are_counts(data, y, request.family, request.target) else _integers_as_classes(y)
    try:
        steps = None
        if is_time_series:
            data, steps = arrange_in_time(session, data, request)
        by_class = replace(data, y=y.astype(np.int64) if classes else None, class_names=classes)
        split = dataset_preparation.assign_splits(by_class, None if is_time_series else request.split, request.seed)
        if weight is not None:
            split = np.where(weight > 0, split, dataset_preparation.UNUSED).astype(np.uint8)
        data = _drop_base_levels(session, data, split == 0, request.l1, request.ridge, request.hidden, artifact.name)
        # A perceptron, and a penalised fit of many columns, take rows as they are stored.
        stored = (
            isinstance(data.X, LazyMatrix)
            or bool(request.hidden)
            or _stays_sparse(session, data, request.ridge, request.l1, request.gls, request.penalty)
        )
        X = data.X if stored else dataset_preparation.dense_copy(data, np.float64)
    except DataError as error:
        error.where = error.where or artifact.name
        raise
    history, title = replace(artifact, value=None), target_name_in_file(session, request.target)
    return RegressionInputs(
        X, y, offset, weight, split, data.feature_names, classes, target, history, steps, title, response.form, data.image_shape
    )


def _require_squares(what: str, values: Array, where: str) -> None:
    """Raise DataError for values (n,) whose squares would be infinite."""
    size = np.abs(values)
    if len(size) and size.max() > LARGEST:
        worst = values[size.argmax()]
        said = f"{what} has the value {worst:g}, but absolute values above {LARGEST:g} are too large for sums of squares"
        raise DataError(said, where=where, hint="rescale it, or remove those rows")


def _stays_sparse(session: Session, data: Dataset, ridge: float, l1: float, gls: str | None, penalty: str | None) -> bool:
    """Return whether sparse rows are fitted without a dense copy: many columns, with a ridge penalty, in this process."""
    from herdcli.regression.fit import MANY

    plain = ridge > 0 and not (l1 or gls or penalty) and session.cluster is None and session.shard is None
    return plain and is_sparse(data.X) and data.X.shape[1] >= MANY


def target_name_in_file(session: Session, target: str | None) -> str:
    """Return the name of the target in the file."""
    return target or (session.use and session.use.roles.get("y")) or LABELS


def _open_on_disk(session: Session, request: Request) -> Artifact | None:
    """Return the data set with its rows on disk if they need more than 1 GiB or --max-memory; else None, also if columns are missing."""
    form, named = request.input_format, non_feature_columns(request)
    found = streamed_rows.open_streamed_dataset(
        session, request.source, label=None, input_format=form, is_requested=False, unit_bytes=COPIED, same=True, keep=named
    )
    if found is None:
        return None
    data: Dataset = found.value
    return found if {*named[1:]} <= {*(data.columns or {}), *(data.feature_names or [])} else None


def non_feature_columns(request: Request) -> list[str]:
    """Return the columns that are not features."""
    named = (LABELS, request.target, request.offset, request.weights, request.sequence)
    return [*(name for name in named if name), *trials_and_exposure.trial_and_exposure_columns(request)]


def split_response(data: Dataset, request: Request, where: str, note: MessageFunction) -> tuple[Dataset, Response, list[str] | None]:
    """Return the features of the rows, their response, and the names of the target's values if it has any."""
    y, classes, data = _split_target(data, request.target or LABELS, where, named=request.target is not None)
    offset, data = split_off_number_column(data, request.offset, "--offset", where)
    weight, data = split_off_number_column(data, request.weights, "--weights", where)
    given = Response(y, np.zeros(len(y)) if offset is None else offset, data.weight if request.weights is None else weight)
    return *_response_as_rates(data, given, classes, request, where, note), classes


def _response_as_rates(
    data: Dataset, response: Response, classes: list[str] | None, options: CountOptions, where: str, note: MessageFunction, form: str = ""
) -> tuple[Dataset, Response]:
    """Return the response as shares or rates if the options give trials or exposures."""
    counting = trials_and_exposure.trial_and_exposure_columns(options) or options.weight_kind in ("trials", "exposure")
    if classes is not None and counting:
        raise DataError("the target holds class names, but --trials and --exposure need numbers", where=where)

    def find(data: Dataset, name: str, option: str) -> tuple[Array, Dataset]:
        values, data = split_off_number_column(data, name, option, where)
        assert values is not None
        return values, data

    return trials_and_exposure.response_as_rates(data, response, options, find, where=where, note=note, form=form)


def _drop_zero_weights(session: Session, data: Dataset, response: Response, gls: str | None, where: str) -> tuple[Dataset, Response]:
    """Return the rows of weight above 0.  With --gls all rows stay, and `read_inputs` assigns those of weight 0 to no split."""
    weight = response.weight
    if weight is None:
        return data, response
    require_valid_weights(weight, where=where)
    chosen = np.flatnonzero(weight > 0)
    if len(chosen) == len(weight):
        return data, response
    left_out, lacking = len(weight) - len(chosen), trials_and_exposure.LACKING.get(response.form, "weight 0")
    verbs = ("has", "is") if left_out == 1 else ("have", "are")
    session.console.note(f"{where}: {left_out} of {len(weight)} rows {verbs[0]} {lacking} and {verbs[1]} left out")
    if gls is not None:
        return data, response
    session.rows_left_out = True
    cut = replace(response, y=response.y[chosen], offset=response.offset[chosen], weight=weight[chosen])
    return take_rows(data, chosen), cut


def _drop_base_levels(
    session: Session, data: Dataset, training: Array, l1: float, ridge: float, hidden: tuple[int, ...] | None, where: str
) -> Dataset:
    """Return the rows without the columns of base levels, unless a penalty or a perceptron's random weights treat all levels equally."""
    if l1 or ridge or hidden or not session.recoding:
        return data
    left, session.recoding = drop_base_columns(data, session.recoding, training, where=where, note=session.console.note)
    return left


@dataclass(frozen=True)
class FittedColumns:
    """The columns that a regression was fitted with.

    sequence  None for the usual name.      in_time  whether the rows are time series.
    """

    target: str
    offset: str | None
    weights: str | None
    sequence: str | None
    in_time: bool
    trials: str | None = None
    failures: str | None = None
    exposure: str | None = None
    weight_kind: str | None = None
    form: str = ""

    @property
    def response(self) -> str:
        """The kind of response column, as in `ColumnRoles`."""
        return "usual" if self.target == LABELS else "named"

    @property
    def non_feature_columns(self) -> list[str]:
        """The columns that are not features."""
        named = (LABELS, self.target, self.offset, self.weights, self.sequence)
        return [*(name for name in named if name), *trials_and_exposure.trial_and_exposure_columns(self)]


def fitted_columns(artifact: Artifact) -> FittedColumns:
    """Return the columns that a regression was fitted with, from its history."""
    offset, weights, sequence = (
        provenance.recorded_text_option(artifact.history, "regress", name) for name in ("offset", "weights", "sequence")
    )
    counted = {
        name: provenance.recorded_text_option(artifact.history, "regress", name)
        for name in ("trials", "failures", "exposure", "weight_kind")
    }
    model: GeneralisedLinear = artifact.value
    return FittedColumns(model.target, offset, weights, sequence, model.gls == "ar1", **counted, form=model.response)


def read_rows_for_model(
    session: Session, source: str, fitted_columns: FittedColumns, input_format: str | None = None, *, allow_missing_targets: bool = False
) -> RegressionInputs:
    """Read the same columns of other rows; all are test rows if the data have no split; weights may be missing.

    allow_missing_targets  targets may be missing (NaN) in a column other than `y`, which holds labels.
    """
    target, steps = fitted_columns.target, None
    wanted = [name for name in fitted_columns.non_feature_columns if not (allow_missing_targets and name == target != LABELS)]
    also, gaps = [SEQUENCE] if fitted_columns.in_time else [], [target] if allow_missing_targets else []
    artifact = _load_data(session, source, wanted, input_format, also, gaps, fitted_columns.response)
    data: Dataset = artifact.value
    if fitted_columns.in_time:
        data, _, steps, _ = grouped(data, fitted_columns.sequence)
    data, response, classes = split_response_as_fitted(data, fitted_columns, artifact.name)
    return RegressionInputs(
        dataset_preparation.dense_copy(data, np.float64),
        response.y,
        response.offset,
        response.weight,
        np.full(len(response.y), TEST, dtype=np.uint8) if data.split is None else data.split,
        data.feature_names,
        classes,
        target,
        replace(artifact, value=None),
        steps,
    )


def split_response_as_fitted(data: Dataset, fitted_columns: FittedColumns, where: str) -> tuple[Dataset, Response, list[str] | None]:
    """Return features, response and class names of other rows, as `split_response` does for fitted rows; weights may be missing."""
    y, classes, data = _split_target(data, fitted_columns.target, where, named=fitted_columns.target != LABELS)
    values, data = split_off_number_column(data, fitted_columns.offset, "--offset", where)
    weight, data = split_off_number_column(
        data, fitted_columns.weights if has_column(data, fitted_columns.weights) else None, "--weights", where
    )
    weight = data.weight if fitted_columns.weights is None else weight
    given = Response(y, np.zeros(len(y)) if values is None else values, weight)
    if (
        fitted_columns.form in ("shares", "rates")
        and weight is None
        and not any(has_column(data, name) for name in (fitted_columns.trials, fitted_columns.exposure))
    ):
        return data, given, classes  # shares or rates with equal weights
    data, response = _response_as_rates(data, given, classes, fitted_columns, where, lambda text: None, fitted_columns.form)
    require_valid_weights(response.weight, some_positive=False, where=where)
    return data, response, classes


def fitted_trial_exposure_columns(fitted_columns: FittedColumns) -> list[str]:
    """Return the columns of trials, failures and exposures of a regression."""
    return trials_and_exposure.trial_and_exposure_columns(fitted_columns)


def has_column(data: Dataset, name: str | None) -> bool:
    """Return whether a column exists, among the features or among the other columns."""
    return name in (data.columns or {}) or name in (data.feature_names or [])


def _load_data(
    session: Session,
    source: str,
    columns: list[str],
    input_format: str | None = None,
    also: Sequence[str] = (),
    gaps: Sequence[str] = (),
    response: str | None = None,
) -> Artifact:
    """Load the data set with the wanted columns next to its features, or among them if a sealed data set has them there.

    gaps  the columns that may have missing values.
    """
    from herdcli.artifacts.dataset import Dataset

    read = partial(
        session.load, source, "data", kinds={"dataset"}, input_format=input_format, missing=bool(gaps), gaps=gaps, response=response
    )
    try:
        return read(keep=columns, also=also)
    except BadUsage as error:
        if source == "-" or "extra column" not in error.message:
            raise
        found = read(keep=[LABELS])
        assert isinstance(found.value, Dataset)
        return found


def require_column(data: Dataset, name: str | None, option: str, where: str) -> None:
    """Raise BadUsage if the data set lacks a column."""
    if name is not None and not has_column(data, name):
        raise _column_error(data, name, option, where)


def _column_error(data: Dataset, name: str, option: str, where: str) -> BadUsage:
    return missing_column_error(option, name, [*(data.columns or {}), *(data.feature_names or [])], where)


def split_off_number_column(data: Dataset, name: str | None, option: str, where: str) -> tuple[Array | None, Dataset]:
    """Return a numeric column by its name, and the data set without it."""
    if name is None:
        return None, data
    further = data.columns or {}
    if name in further:
        values = further[name]
    elif data.feature_names and name in data.feature_names:
        values, data = _remove_column(data, name)
    else:
        raise _column_error(data, name, option, where)
    if values.dtype.kind not in "fiub":
        raise DataError(f"column '{name}' holds text, but {option} needs numbers", where=where)
    return np.asarray(values, dtype=np.float64), data


def _labels_as_feature(data: Dataset) -> Dataset:
    """Return the data set with a numeric column y as a feature, because another column is predicted."""
    further = dict(data.columns or {})
    y = further.pop(LABELS, None)
    if y is None or y.dtype.kind not in "fiub" or data.feature_names is None:
        return data
    on_disk = isinstance(data.X, LazyMatrix)
    X = data.X.with_appended_column(y) if on_disk else np.column_stack([dataset_preparation.dense_copy(data, np.float64), y])
    return replace(data, X=X, feature_names=[*data.feature_names, LABELS], columns=further or None)


def _are_counts(data: Dataset, y: Array, family: str | None, target: str | None) -> bool:
    """Return whether a target without a given family holds counts rather than class names.

    Class names have no order, so no feature column changes steadily with them.
    """
    few = len(np.unique(y)) <= MOST_CLASSES
    found = family is None and few and (target or "").lower() not in count_detection.CLASS_NAMES and count_detection.look_like_counts(y)
    return found and not count_detection.contradicts_count_order(dataset_preparation.dense_copy(data, np.float64), y)


def _integers_as_classes(y: Array) -> tuple[Array, list[str] | None]:
    """Return indices and names of classes if the target has few whole numbers other than 0 and 1; else the numbers and None."""
    values, index = np.unique(y, return_inverse=True)
    whole = bool((values == np.floor(values)).all())
    if not whole or len(values) > MOST_CLASSES or len(y) < LEAST_ROWS * len(values) or set(values.tolist()) <= {0.0, 1.0}:
        return y, None
    return index.astype(np.float64), [f"{value:g}" for value in values]


def _remove_column(data: Dataset, name: str) -> tuple[Array, Dataset]:
    names = list(data.feature_names or [])
    j = names.index(name)
    if data.X.shape[1] == 1:
        raise DataError(f"has no column other than '{name}'")
    others = names[:j] + names[j + 1 :]
    if isinstance(data.X, LazyMatrix):
        return data.X.column(j), replace(data, X=data.X.with_columns(np.delete(np.arange(len(names)), j)), feature_names=others)
    X = dataset_preparation.dense_copy(data, np.float64)
    rest = replace(data, X=np.delete(X, j, axis=1), feature_names=others)
    return np.ascontiguousarray(X[:, j]), rest


def _split_target(data: Dataset, name: str, where: str, *, named: bool) -> tuple[Array, list[str] | None, Dataset]:
    """Return the target (n,) as numbers, the names of its values if these are classes, and the data set without it."""
    if name != LABELS:
        data = _labels_as_feature(data)
    further = data.columns or {}
    if name in further and further[name].dtype.kind not in "fiub":
        classes, y = np.unique(further[name].astype(str), return_inverse=True)
        return y.astype(np.float64), [str(text) for text in classes], data
    if name in further or (named and data.feature_names and name in data.feature_names):
        values, data = split_off_number_column(data, name, "--target", where)
        assert values is not None
        return values, None, data
    if named and name != LABELS:
        columns, parts = [*further, *(data.feature_names or [])], name.split(",")
        error = missing_column_error("--target", name, columns, where)
        if len(parts) == 2 and set(parts) <= set(columns):
            error.hint = f"for numbers of successes and failures use --target {parts[0]} --failures {parts[1]}"
        raise error
    if data.y is None:
        raise DataError("has no target: there is no column 'y'", where=where, hint="name it: --target COLUMN")
    if data.class_names:
        return data.y.astype(np.float64), list(data.class_names), data
    return data.y.astype(np.float64), None, data
