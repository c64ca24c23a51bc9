"""`herd eval --data` of a regression: other rows instead of those that travel with the model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.columns import matrix_by_name
from herdcli.cli.regress import inputs
from herdcli.cli.regress.errors import variances
from herdcli.errors import DataError
from herdcli.splits import TEST, VALID

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.eval.request import Request
    from herdcli.cli.frame.session import Session
    from herdcli.regression.model import GeneralisedLinear
    from herdcli.schema import Array


def judged(session: Session, artifact: Artifact, request: Request) -> Artifact:
    """A regression with the rows of --data, those of split 1 and 2 where the data have a split; without the option as it is.

    Target, offset and weights are the columns that it was fitted with; weights may be missing.
    """
    from herdcli.regression.model import HeldOut

    if request.data is None:
        return artifact
    model: GeneralisedLinear = artifact.value
    found = inputs.others(session, request.data, inputs.fitted(artifact))
    held = np.isin(found.split, (VALID, TEST))
    if not held.any():
        raise DataError("has no rows in split 1 or 2 to judge by", where=found.history.name)
    y = _target(model, found)
    model.distribution().require(y)
    X = matrix_by_name(session, found.X, found.names, model.feature_names, model.coefficients.shape[1], where=found.history.name)
    if X.shape[1] != model.coefficients.shape[1]:
        raise DataError(f"has {X.shape[1]} columns, the model has {model.coefficients.shape[1]}", where=found.history.name)
    weight = None if found.weight is None else found.weight[held]
    before = gap = None
    if found.steps is not None:
        variance = variances(model, X, found.weight)
        assert variance is not None
        before, gap = (item[held] for item in model.last_errors(found.steps, X, found.offset, y, variance))
    holdout = HeldOut(
        predictor=model.predictor(X[held], found.offset[held]),
        offset=found.offset[held],
        y=y[held],
        split=found.split[held],
        weight=None if model.gls else weight,
        variance=variances(model, X[held], weight),
        before=before,
        gap=gap,
    )
    return replace(artifact, value=replace(model, holdout=holdout))


def _target(model: GeneralisedLinear, found: inputs.Inputs) -> Array:
    """The target (n,), as indices of the model's classes where it has them."""
    if not model.classes:
        if found.classes is not None:
            raise DataError(f"the target '{found.target}' holds text, the model predicts numbers", where=found.history.name)
        return found.y
    values = np.unique(found.y)
    names = found.classes or [f"{value:g}" for value in values]
    index = found.y.astype(np.int64) if found.classes else np.searchsorted(values, found.y)
    unknown = [name for name in names if name not in model.classes]
    if unknown:
        raise DataError(f"has class '{unknown[0]}', the model has {', '.join(model.classes)}", where=found.history.name)
    return np.array([float(model.classes.index(name)) for name in names])[index]
