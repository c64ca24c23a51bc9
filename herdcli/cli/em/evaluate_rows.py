"""`herd eval --data` for mixtures, k-means and factors: evaluation on other rows than the rows of split 2 stored in the model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.tables import dataset_preparation
from herdcli.cli.em.inputs import dataset_labels
from herdcli.cli.frame.rows import streamed_rows
from herdcli.cli.frame.rows.column_order import align_dataset
from herdcli.errors import DataError
from herdcli.splits import TEST

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.artifacts.dataset import Dataset
    from herdcli.cli.eval.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.em.artifacts import FitFacts
    from herdcli.em.fitting import FittedArtifact
    from herdcli.em.hmm_artifacts import ChainFitFacts
    from herdcli.evaluation.figures.em import EvaluatedRows
    from herdcli.schema import Array


def with_evaluation_rows(session: Session, artifact: Artifact, request: Request) -> Artifact:
    """Return the model with the rows of --data, or only those of split 2 if the data have a split; without --data, the model unchanged.

    Rows of a large file stay in the file (`evaluation.figures.em.EvaluatedRows`), unless plots need them in memory.
    """
    from herdcli.em.artifacts import Clusters

    if request.data is None:
        return artifact
    model: FittedArtifact = artifact.value
    gaps = artifact.kind != "kmeans"
    left = None if request.plots or request.report else streamed_rows.open_dataset_in_file(session, request.data, missing=gaps)
    data = left or session.load(request.data, "data", kinds={"dataset"}, missing=gaps)
    width = len((model.centre if isinstance(model, Clusters) else model.mean).T)
    names = model.known.feature_names if model.known is not None else None
    value: Dataset = align_dataset(session, data, names, width).value
    if value.X.shape[1] != width:
        raise DataError(f"/X has {value.X.shape[1]} columns, but the model has {width}", where=data.name)
    test = np.ones(value.X.shape[0], dtype=bool) if value.split is None else np.asarray(value.split == TEST)
    if not test.any():
        raise DataError("has no test rows to evaluate on", where=data.name)
    known = model.known
    if left is not None:
        return replace(artifact, value=_evaluation_rows_in_file(model, value, None if test.all() else test, data.name))
    y = None if known is None else labels_in_model_order(value, known, data.name)
    known = None if known is None else replace(known, holdout_y=None if y is None else y[test])
    return replace(artifact, value=replace(model, holdout=dataset_preparation.dense_copy(value, np.float64)[test], known=known))


def _evaluation_rows_in_file(model: FittedArtifact, data: Dataset, test: Array | None, where: str) -> EvaluatedRows:
    """Return the evaluation rows of a data set that stays in its file: those selected by `test` (n,) bool, or all if it is None."""
    from herdcli.evaluation.figures.em import EvaluatedRows

    X, y = (data.X, data.y) if test is None else (data.X.select_rows(test), None if data.y is None else data.y[test])
    if y is None or model.known is None:
        return EvaluatedRows(model, streamed_rows.matrix_rows(X))
    each = np.unique(y)
    number = labels_in_model_order(replace(data, y=each), model.known, where)
    assert number is not None
    rows = streamed_rows.matrix_rows(X, y, lambda labels: number[np.searchsorted(each, labels)])
    return EvaluatedRows(model, rows, int(number.max()) + 1)


def labels_in_model_order(data: Dataset, facts: FitFacts | ChainFitFacts, where: str) -> Array | None:
    """Return the labels (n,) of the rows; for a model of classes numbered as in the model; −1 means no label.

    Raises DataError for a class that the model does not have.
    """
    y, names = dataset_labels(data)
    if y is None or names is None:
        return None
    if facts.supervised and facts.class_names is not None:
        unknown = [name for name in names if name not in facts.class_names]
        if unknown:
            raise DataError(f"has class '{unknown[0]}', but the model knows only {', '.join(facts.class_names)}", where=where)
        index = np.array([facts.class_names.index(name) for name in names])
        y = np.where(y >= 0, index[y], -1)
    return y
