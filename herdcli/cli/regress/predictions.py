"""`herd apply` of a regression: the mean of each row, or the probabilities of its classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts import preparation
from herdcli.artifacts.dataset import Dataset
from herdcli.cli.frame.columns import by_name
from herdcli.errors import BadUsage, DataError

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.apply.request import Request
    from herdcli.cli.frame.session import Session
    from herdcli.regression.model import GeneralisedLinear


def applied(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """A data set of means, or a column a class for classes (the likeliest is y), and what it is in words."""
    model: GeneralisedLinear = fitted.value
    want = request.want or ("classes" if model.classes else "means")
    if want not in ("means", "classes") or (want == "classes" and not model.classes):
        raise BadUsage(f"--want {want} is not available for this regression", hint="--want means, or classes where the target has them")
    data = session.load(request.source, "data", kinds={"dataset"}, input_format=request.input_format, keep=["y"])
    columns = model.coefficients.shape[1]
    value = by_name(session, data, model.feature_names, columns).value
    if value.X.shape[1] != columns:
        raise DataError(f"/X has {value.X.shape[1]} columns, the model has {columns}", where=data.name)
    mean = model.distribution().mean(model.predictor(preparation.dense(value, np.float64)))
    if model.classes and model.family == "bernoulli":
        mean = np.column_stack([1 - mean[:, 0], mean[:, 0]])
    kept = {"split": value.split, "weight": value.weight}
    what = f"{len(mean)} rows × {mean.shape[1]}"
    if want == "classes":
        made = Dataset(mean, y=mean.argmax(axis=1), feature_names=model.classes, class_names=model.classes, **kept)
        return made, f"{what} class probabilities"
    return Dataset(mean, feature_names=model.classes or [model.target], **kept), f"{what} means"
