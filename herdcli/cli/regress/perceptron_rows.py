"""`herd eval --data` for a perceptron: evaluation on other rows than those stored in the model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.rows.column_order import align_matrix
from herdcli.cli.regress import inputs
from herdcli.cli.regress.evaluate_rows import NONE_HELD, target_for_model
from herdcli.cli.regress.perceptron_runs import predict_heldout
from herdcli.errors import DataError
from herdcli.regression import weight_meaning
from herdcli.splits import TEST, VALID

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.eval.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.regression.perceptron.model import Perceptron


def with_evaluation_rows(session: Session, artifact: Artifact, request: Request) -> Artifact:
    """Return a perceptron with the rows of --data, only those of split 1 and 2 if the data have a split; without --data unchanged.

    Target, offset and weights are the columns that the model was fitted with; weights may be missing.
    """
    if request.data is None:
        return artifact
    model: Perceptron = artifact.value
    found = inputs.read_rows_for_model(session, request.data, inputs.fitted_columns(artifact))
    held, where = np.isin(found.split, (VALID, TEST)), found.history.name
    if not held.any():
        raise DataError(NONE_HELD, where=where)
    y = target_for_model(model, found.y, found.classes, found.target, where)
    weight_meaning.require_targets(model.distribution(), model.weight_kind, y)
    X = align_matrix(session, found.X, found.names, model.feature_names, model.columns, where=where)
    if X.shape[1] != model.columns:
        raise DataError(f"has {X.shape[1]} columns, but the model has {model.columns}", where=where)
    weight = None if found.weight is None else found.weight[held]
    holdout = predict_heldout(model, X[held], y[held], found.offset[held], weight, found.split[held])
    return replace(artifact, value=replace(model, holdout=holdout))
