"""Evaluation of `ica` by `herd eval`: on other held-out rows, and against a mixing known from elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.rows import streamed_rows
from herdcli.cli.frame.rows.column_order import align_dataset
from herdcli.errors import BadUsage, DataError
from herdcli.rows.mixing_matrices import estimate_mixing_matrix, scale_to_unit_variance
from herdcli.splits import TEST

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.eval.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.ica.model import ICA
    from herdcli.numerics.block_statistics import RowReader as BlockRows
    from herdcli.schema import Array


def with_evaluation_rows(session: Session, artifact: Artifact, request: Request) -> Artifact:
    """Return an `ica` with the rows of --data held out, and the mixing of --mixing or of --true-sources.

    The sources are scaled to unit variance, and the mixing that maps them to --data is estimated by least squares.  Rows of a large file
    stay in it (`EvaluatedFilters`), unless plots or --true-sources need them.
    """
    if request.true_sources and (request.mixing or not request.data):
        why = "and --mixing exclude each other: both define the mixing" if request.mixing else "needs the mixtures that were made from them"
        raise BadUsage(f"--true-sources {why}", hint="herd eval MODEL --data MIXTURES --true-sources SOURCES")
    value, changes, left = artifact.value, {}, None
    if request.data and not (request.plots or request.report or request.true_sources):
        left = streamed_rows.open_dataset_in_file(session, request.data)
    if left is not None:
        rows = _whitened_test_rows(session, left, value)
    elif request.data:
        data = session.load(request.data, "data", kinds={"dataset"})
        data = align_dataset(session, data, value.feature_names, value.whitening.mean.size)
        X = _dense_rows(data)
        test = np.ones(len(X), dtype=bool) if data.value.split is None else data.value.split == TEST
        if not test.any():
            raise DataError("has no test rows to evaluate on", where=data.name)
        try:
            changes["holdout"] = value.whitening.apply(X[test])
            if request.true_sources:
                S = _dense_rows(session.load(request.true_sources, "sources", kinds={"dataset"}))
                changes["mixing"] = estimate_mixing_matrix(scale_to_unit_variance(S), X)
        except DataError as error:
            error.where = error.where or data.name
            raise
    if request.mixing:
        changes["mixing"] = _read_mixing(session, request.mixing, value.whitening.mean.size)
    value = replace(value, **changes)
    if left is None:
        return replace(artifact, value=value)
    from herdcli.evaluation.figures.ica import EvaluatedFilters

    return replace(artifact, value=EvaluatedFilters(value, rows, map=session.map))


def _whitened_test_rows(session: Session, data: Artifact, model: ICA) -> BlockRows:
    """Return the rows of split 2, whitened as they are read."""
    from herdcli.ica.whitening import whitened_rows

    data = align_dataset(session, data, model.feature_names, model.whitening.mean.size)
    X, split = data.value.X, data.value.split
    if X.shape[1] != model.whitening.mean.size:
        model.whitening.apply(X[:1])  # raises the error
    if split is not None:
        test = split == TEST
        if not test.any():
            raise DataError("has no test rows to evaluate on", where=data.name)
        X = X if test.all() else X.select_rows(test)
    return whitened_rows(streamed_rows.matrix_rows(X), model.whitening)


def _read_mixing(session: Session, path: str, columns: int) -> Array:
    """Return the mixing of a file: one row for each column of the model's rows."""
    given = session.load(path, "mixing", kinds={"dataset"})
    mixing = _dense_rows(given)
    if len(mixing) != columns:
        message = f"/X has {len(mixing)} rows, the model's rows have {columns} columns"
        raise DataError(message, where=given.name, hint="the mixing A of x = A s has a row for each column of x")
    return mixing


def _dense_rows(artifact: Artifact) -> Array:
    X = artifact.value.X
    if hasattr(X, "indptr"):
        raise DataError("/X is sparse, but an ica model needs dense rows", where=artifact.name)
    return np.asarray(X, dtype=np.float64)
