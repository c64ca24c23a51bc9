"""`herd apply` with a mixture, k-means or factors: clusters, responsibilities, scores, or rows with missing values filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.dataset import Dataset
from herdcli.cli.frame.rows.column_order import align_dataset
from herdcli.errors import BadUsage, DataError

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.apply.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.em.fitting import FittedArtifact
    from herdcli.schema import Array

WANTS = {"mixture": ("clusters", "responsibilities", "completed"), "kmeans": ("clusters",), "factors": ("scores", "completed")}


def apply_model(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """Return the data set that --want computes from new rows, and a short description of it for the summary."""
    kind, model = fitted.kind, fitted.value
    want = request.want or WANTS[kind][0]
    if want not in WANTS[kind]:
        raise BadUsage(f"--want {want} is not available for kind {kind}", hint=f"use --want {' or '.join(WANTS[kind])}")
    data = session.load(
        request.source, "data", kinds={"dataset"}, input_format=request.input_format, label=request.label, missing=kind != "kmeans"
    )
    width = len((model.centre if kind == "kmeans" else model.mean).T)
    names = model.known.feature_names if model.known is not None else None
    data = align_dataset(session, data, names, width)
    value: Dataset = data.value
    X = np.asarray(value.X.toarray() if value.is_sparse else value.X, dtype=np.float64)
    if X.shape[1] != width:
        raise DataError(f"/X has {X.shape[1]} columns, but the model has {width}", where=data.name)
    found, columns, y = _model_outputs(model, X, want)
    if want == "clusters" and (gaps := int(np.isnan(X).sum())):
        many = "1 missing value is" if gaps == 1 else f"{gaps} missing values are"
        session.console.note(f"{data.name}: {many} filled in with the values that the model expects")
    labels = None if value.y is None or ((value.y < 0).any() and value.class_names) else value.y
    return Dataset(
        found,
        y=labels if y is None else y,
        split=value.split,
        weight=value.weight,
        feature_names=columns or value.feature_names,
        class_names=_component_names(model) if y is not None else value.class_names if labels is not None else None,
    ), f"{len(X)} rows × {found.shape[1]} {want if want != 'clusters' else 'columns with their clusters'}"


def _component_names(model: FittedArtifact) -> list[str] | None:
    """Return the class names if the mixture has components for each class, else None."""
    return model.known.class_names if model.known is not None and model.known.supervised else None


def _model_outputs(model: FittedArtifact, X: Array, want: str) -> tuple[Array, list[str] | None, Array | None]:
    """Return the values, the names of their columns if these are new, and the clusters if these were requested."""
    from herdcli.em.artifacts import Clusters, Mixture

    if isinstance(model, Clusters):
        return X, None, model.assign_clusters(X)
    if want == "completed":
        return model.impute_missing_values(X), None, None
    if not isinstance(model, Mixture):
        return model.scores(X), [f"factor{k + 1}" for k in range(model.loading.shape[1])], None
    if want == "clusters":
        return model.impute_missing_values(X), None, model.assign_clusters(X)
    r, classes = model.responsibilities(X)[0], _component_names(model)
    several = 1 if classes is None or model.known is None else model.known.per_class
    if classes is not None and several > 1:
        classes = [f"{name}.{k + 1}" for name in classes for k in range(several)]
    return r, classes or [f"component{k + 1}" for k in range(r.shape[1])], None
