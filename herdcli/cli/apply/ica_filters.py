"""`herd apply` with an `ica` model: converts rows to outputs, sources or energies, and outputs back to rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.dataset import Dataset
from herdcli.cli.apply.inputs import TOGETHER, load_rows
from herdcli.cli.frame.rows.column_order import align_dataset
from herdcli.errors import BadUsage, DataError
from herdcli.ica.energy import make_energy
from herdcli.ica.sparse_coding import SparseCodingModel

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.apply.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.ica.model import ICA
    from herdcli.schema import Array

ROWS = TOGETHER["ica"]  # number of rows that one worker takes at a time


def apply_ica(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """Return the filter outputs of a data set's rows (sparse coding: their sources), or rows in raw units from filter outputs."""
    model: ICA = fitted.value
    data = load_rows(session, request.source, request.input_format, request.label)
    want, value = request.want or "features", data.value
    if want == "classes":
        raise BadUsage("--want classes needs a model of classes, but an ica model has none", hint="use --want features, energies or rows")
    if value.is_sparse:
        raise DataError("/X is sparse, but an ica model needs dense rows", where=data.name)
    if want != "rows":
        data = align_dataset(session, data, model.feature_names, model.whitening.mean.size)
        value = data.value
    columns = model.J.shape[0] if want == "rows" else model.whitening.mean.size
    if value.X.shape[1] != columns:
        what = "filters" if want == "rows" else "columns"
        raise DataError(f"/X has {value.X.shape[1]} columns, but the model has {columns} {what}", where=data.name)
    parts = [value.X[start : start + ROWS] for start in range(0, len(value.X), ROWS)]
    X = np.concatenate(list(session.map(_make_row_function(model, want), parts)))
    shape, names = (model.image_shape, model.feature_names) if want == "rows" else (None, None)
    kept = {"y": value.y, "split": value.split, "weight": value.weight, "class_names": value.class_names, "sample_rate": value.sample_rate}
    return Dataset(X, image_shape=shape, feature_names=names, **kept), f"{len(X)} rows × {X.shape[1]} {want}"


def _make_row_function(model: ICA, want: str) -> Callable[[Array], Array]:
    if want == "rows":
        return model.reconstruct_rows
    if model.dictionary is not None:
        if model.posterior == "gaussian":
            return _make_gaussian_posterior_function(model, want)
        coder = SparseCodingModel(model.dictionary, model.expert, float(model.gamma[0]), model.noise, str(model.posterior))

        def code(rows: Array) -> Array:
            found = coder.infer_sources(model.whitening.apply(rows))
            return found.mean if want == "features" else -found.objective[:, np.newaxis]

        return code
    energy = make_energy(model.J, model.gamma, model.experts, topography=model.topography, density=model.density)
    return model.features if want == "features" else lambda rows: energy.energy(model.whitening.apply(rows))[:, np.newaxis]


def _make_gaussian_posterior_function(model: ICA, want: str) -> Callable[[Array], Array]:
    """Return the function from rows to sources by Gaussian posteriors, or to the rows' free energies."""
    from herdcli.ica.variational_sparse_coding import ROWS as TOGETHER
    from herdcli.ica.variational_sparse_coding import SparseCoder

    assert model.dictionary is not None
    coder = SparseCoder(model.dictionary, float(model.gamma[0]), model.noise)

    def code(rows: Array) -> Array:
        Z = model.whitening.apply(rows)
        found = [coder.infer_posteriors(Z[start : start + TOGETHER]) for start in range(0, len(Z), TOGETHER)]
        mean, bound = (np.concatenate([item[index] for item in found]) for index in (0, 1))
        return mean if want == "features" else -bound[:, np.newaxis]

    return code
