"""`herd apply` with a regression: the mean of each row, the probabilities of its classes, or forecasts of time series."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.tables import column_roles, dataset_preparation
from herdcli.cli.frame.rows.column_order import align_dataset, align_matrix
from herdcli.cli.regress import inputs
from herdcli.cli.regress.error_covariance import relative_error_variances
from herdcli.errors import BadUsage, DataError
from herdcli.splits import TEST

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.apply.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.regression.model import GeneralisedLinear
    from herdcli.regression.perceptron.model import Perceptron
    from herdcli.schema import Array

WANTS = "use --want means, or classes if the target has them"
WANTS_OF_LAYERS = "use --want means or features, or classes if the target has them"


def apply_regression(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """Return a data set of means or of class probabilities (the most probable class is y), and a short description for the summary."""
    model: GeneralisedLinear | Perceptron = fitted.value
    want = request.want or ("classes" if model.classes else "means")
    if want == "forecasts":
        return forecast_rows(session, fitted, request.sequence, request.source, request.input_format)
    layered = fitted.kind == "perceptron"
    if want not in ("means", "classes", *(["features"] if layered else [])) or (want == "classes" and not model.classes):
        raise BadUsage(f"--want {want} is not available for this regression", hint=WANTS_OF_LAYERS if layered else WANTS)
    known = inputs.fitted_columns(fitted)
    also = [name for name in (known.offset, *inputs.fitted_trial_exposure_columns(known)) if name]
    form = request.input_format

    def check(artifact: Artifact) -> None:
        inputs.require_column(artifact.value, known.offset, "--offset", artifact.name)

    keep = [] if inputs.LABELS in (model.feature_names or ()) else [inputs.LABELS]
    read = partial(session.load, request.source, "data", kinds={"dataset"}, input_format=form, labels=False, response=known.response)
    data = read(keep=keep, also=also, check=check)
    offset, rest = inputs.split_off_number_column(data.value, known.offset, "--offset", data.name)
    offset, rest = _exposure_offsets(session, rest, offset, known, data.name)
    data = replace(data, value=rest)
    columns = model.columns
    value = align_dataset(session, data, model.feature_names, columns).value
    if value.X.shape[1] != columns:
        raise DataError(f"/X has {value.X.shape[1]} columns, but the model has {columns}", where=data.name)
    if want == "features":
        return _layer_outputs(fitted.value, value)
    X = value.X if layered else dataset_preparation.dense_copy(value, np.float64)
    mean = model.distribution().mean(model.predictor(X, offset))
    if model.classes and model.family == "bernoulli":
        mean = np.column_stack([1 - mean[:, 0], mean[:, 0]])
    kept = {"split": value.split, "weight": value.weight}
    what = f"{len(mean)} rows × {mean.shape[1]}"
    if want == "classes":
        names, title = model.classes, _prediction_title(fitted)
        made = Dataset(mean, y=mean.argmax(axis=1), feature_names=names, class_names=names, label_name=title, **kept)
        return made, f"{what} class probabilities"
    return Dataset(mean, feature_names=model.classes or [_prediction_title(fitted)], **kept), f"{what} means"


def _layer_outputs(model: Perceptron, data: Dataset) -> tuple[Dataset, str]:
    """Return the outputs of all hidden layers as columns, and a short description for the summary."""
    found = model.features(data.X)
    said = f"{found.shape[0]} rows × {found.shape[1]} features of {len(model.hidden)} layer{'s' if len(model.hidden) > 1 else ''}"
    return Dataset(found, split=data.split, weight=data.weight, feature_names=model.feature_titles()), said


def _prediction_title(fitted: Artifact) -> str:
    """Return the name of the column of predictions, from the target's name in its file."""
    return column_roles.prediction_column_name(column_roles.model_target_column(fitted) or fitted.value.target)


def _exposure_offsets(
    session: Session, data: Dataset, offset: Array | None, fitted_columns: inputs.FittedColumns, where: str
) -> tuple[Array | None, Dataset]:
    """Return the offsets for expected counts from the rows' exposures, if there are any, and the data set without counting columns."""
    exposure = None
    for name in inputs.fitted_trial_exposure_columns(fitted_columns):
        if inputs.has_column(data, name):
            values, data = inputs.split_off_number_column(data, name, f"column {name}", where)
            exposure = values if name == fitted_columns.exposure else exposure
    if fitted_columns.form != "counts":
        return offset, data
    if exposure is None:
        session.console.note(f"{where}: there is no column '{fitted_columns.exposure}', so means are for one unit of exposure")
        return offset, data
    if not (exposure >= 0).all():
        raise DataError(f"column '{fitted_columns.exposure}' has negative or missing exposures", where=where)
    with np.errstate(divide="ignore"):  # an exposure of 0 has an expected count of 0
        logarithms = np.log(exposure)
    return logarithms if offset is None else offset + logarithms, data


def forecast_rows(session: Session, fitted: Artifact, sequence: str | None, source: str, input_format: str | None) -> tuple[Dataset, str]:
    """Return forecasts under autocorrelated errors: the mean and standard deviation of each row given the last known target before it."""
    model: GeneralisedLinear = fitted.value
    if model.gls != "ar1":
        raise BadUsage("--want forecasts needs a model that was fitted with --gls ar1", hint="use --want means")
    known = inputs.fitted_columns(fitted)
    if sequence is not None:
        known = replace(known, sequence=sequence)
    found = inputs.read_rows_for_model(session, source, known, input_format, allow_missing_targets=True)
    X = align_matrix(session, found.X, found.names, model.feature_names, model.coefficients.shape[1], where=found.history.name)
    if X.shape[1] != model.coefficients.shape[1]:
        raise DataError(f"/X has {X.shape[1]} columns, but the model has {model.coefficients.shape[1]}", where=found.history.name)
    if not np.isfinite(X).all():
        raise DataError("has missing values in the columns that a forecast needs", where=found.history.name, hint="use --missing mean")
    variance, steps = relative_error_variances(model, X, found.weight), found.steps
    assert variance is not None
    assert steps is not None
    before, gap = model.last_known_errors(steps, X, found.offset, found.y, variance)
    error, left = model.predict_errors(before[:, 0], gap, variance)
    made = np.column_stack([model.predictor(X, found.offset)[:, 0] + error, np.sqrt(model.dispersion * left)])
    split = None if (found.split == TEST).all() else found.split
    title = _prediction_title(fitted)
    return Dataset(made, split=split, weight=found.weight, feature_names=[title, f"{title}_sd"]), f"{len(made)} forecasts"
