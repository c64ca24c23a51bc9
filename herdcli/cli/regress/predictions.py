"""`herd apply` of a regression: the mean of each row, the probabilities of its classes, or forecasts of rows in time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts import preparation
from herdcli.artifacts.dataset import Dataset
from herdcli.cli.frame.columns import by_name, matrix_by_name
from herdcli.cli.regress import inputs
from herdcli.cli.regress.errors import variances
from herdcli.errors import BadUsage, DataError
from herdcli.splits import TEST

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.apply.request import Request
    from herdcli.cli.frame.session import Session
    from herdcli.regression.model import GeneralisedLinear


def applied(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """A data set of means, or a column a class for classes (the likeliest is y), and what it is in words."""
    model: GeneralisedLinear = fitted.value
    want = request.want or ("classes" if model.classes else "means")
    if want == "forecasts":
        return forecasts(session, fitted, request)
    if want not in ("means", "classes") or (want == "classes" and not model.classes):
        raise BadUsage(f"--want {want} is not available for this regression", hint="--want means, or classes where the target has them")
    added = inputs.fitted(fitted).offset
    also = [added] if added else []
    data = session.load(request.source, "data", kinds={"dataset"}, input_format=request.input_format, keep=["y"], also=also)
    offset, rest = inputs.column(data.value, added, "--offset", data.name)
    data = replace(data, value=rest)
    columns = model.coefficients.shape[1]
    value = by_name(session, data, model.feature_names, columns).value
    if value.X.shape[1] != columns:
        raise DataError(f"/X has {value.X.shape[1]} columns, the model has {columns}", where=data.name)
    mean = model.distribution().mean(model.predictor(preparation.dense(value, np.float64), offset))
    if model.classes and model.family == "bernoulli":
        mean = np.column_stack([1 - mean[:, 0], mean[:, 0]])
    kept = {"split": value.split, "weight": value.weight}
    what = f"{len(mean)} rows × {mean.shape[1]}"
    if want == "classes":
        made = Dataset(mean, y=mean.argmax(axis=1), feature_names=model.classes, class_names=model.classes, **kept)
        return made, f"{what} class probabilities"
    return Dataset(mean, feature_names=model.classes or [model.target], **kept), f"{what} means"


def forecasts(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """Of errors correlated in time: the mean of each row given the last row before whose target is known, and its standard deviation."""
    model: GeneralisedLinear = fitted.value
    if model.gls != "ar1":
        raise BadUsage("--want forecasts is of rows in time, fitted with --gls ar1", hint="--want means")
    known = inputs.fitted(fitted)
    if request.sequence is not None:
        known = replace(known, sequence=request.sequence)
    found = inputs.others(session, request.source, known, request.input_format, open_ended=True)
    X = matrix_by_name(session, found.X, found.names, model.feature_names, model.coefficients.shape[1], where=found.history.name)
    if X.shape[1] != model.coefficients.shape[1]:
        raise DataError(f"/X has {X.shape[1]} columns, the model has {model.coefficients.shape[1]}", where=found.history.name)
    if not np.isfinite(X).all():
        raise DataError("has missing values in the columns that a forecast is made of", where=found.history.name, hint="--missing mean")
    variance, steps = variances(model, X, found.weight), found.steps
    assert variance is not None
    assert steps is not None
    before, gap = model.last_errors(steps, X, found.offset, found.y, variance)
    error, left = model.foretold(before[:, 0], gap, variance)
    made = np.column_stack([model.predictor(X, found.offset)[:, 0] + error, np.sqrt(model.dispersion * left)])
    split = None if (found.split == TEST).all() else found.split
    return Dataset(made, split=split, weight=found.weight, feature_names=[model.target, f"{model.target}_sd"]), f"{len(made)} forecasts"
