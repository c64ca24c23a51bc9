"""`herd apply` with an `ica` model: rows to outputs, sources or energies, and outputs back to rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.dataset import Dataset
from herdcli.cli.apply.inputs import TOGETHER, rows
from herdcli.cli.frame.columns import by_name
from herdcli.errors import BadUsage, DataError
from herdcli.ica.energy import energy_of
from herdcli.ica.sparse_coding import Model

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.apply.request import Request
    from herdcli.cli.frame.session import Session
    from herdcli.ica.model import ICA
    from herdcli.schema import Array

ROWS = TOGETHER["ica"]  # that one worker takes at a time


def applied(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """The rows of a data set through the filters (of sparse coding: their sources), or filter outputs back in raw units."""
    model: ICA = fitted.value
    data = rows(session, request)
    want, value = request.want or "features", data.value
    if want == "classes":
        raise BadUsage("--want classes needs a model of classes, and filters have none", hint="--want features, energies or rows")
    if value.is_sparse:
        raise DataError("/X is sparse; filters need dense rows", where=data.name)
    if want != "rows":
        data = by_name(session, data, model.feature_names, model.whitening.mean.size)
        value = data.value
    columns = model.J.shape[0] if want == "rows" else model.whitening.mean.size
    if value.X.shape[1] != columns:
        what = "filters" if want == "rows" else "columns"
        raise DataError(f"/X has {value.X.shape[1]} columns, the model has {columns} {what}", where=data.name)
    parts = [value.X[start : start + ROWS] for start in range(0, len(value.X), ROWS)]
    X = np.concatenate(list(session.map(_function(model, want), parts)))
    shape, names = (model.image_shape, model.feature_names) if want == "rows" else (None, None)
    kept = {"y": value.y, "split": value.split, "weight": value.weight, "class_names": value.class_names, "sample_rate": value.sample_rate}
    return Dataset(X, image_shape=shape, feature_names=names, **kept), f"{len(X)} rows × {X.shape[1]} {want}"


def _function(model: ICA, want: str) -> Callable[[Array], Array]:
    if want == "rows":
        return model.restore
    if model.dictionary is not None:
        if model.posterior == "gaussian":
            return _by_gaussians(model, want)
        coder = Model(model.dictionary, model.expert, float(model.gamma[0]), model.noise, str(model.posterior))

        def code(rows: Array) -> Array:
            found = coder.infer(model.whitening.apply(rows))
            return found.mean if want == "features" else -found.objective[:, np.newaxis]

        return code
    energy = energy_of(model.J, model.gamma, model.experts, topography=model.topography, density=model.density)
    return model.features if want == "features" else lambda rows: energy.energy(model.whitening.apply(rows))[:, np.newaxis]


def _by_gaussians(model: ICA, want: str) -> Callable[[Array], Array]:
    """Sources by Gaussian posteriors, or the free energy of their rows."""
    from herdcli.ica.folded import ROWS as TOGETHER
    from herdcli.ica.folded import Coder

    assert model.dictionary is not None
    coder = Coder(model.dictionary, float(model.gamma[0]), model.noise)

    def code(rows: Array) -> Array:
        Z = model.whitening.apply(rows)
        found = [coder.inferred(Z[start : start + TOGETHER]) for start in range(0, len(Z), TOGETHER)]
        mean, bound = (np.concatenate([item[index] for item in found]) for index in (0, 1))
        return mean if want == "features" else -bound[:, np.newaxis]

    return code
