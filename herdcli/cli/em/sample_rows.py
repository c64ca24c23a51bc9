"""`herd sample` with a mixture or factor model: new rows, for a mixture with their component or class as y."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.artifacts.dataset import Dataset
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.small.sample import Request

UNUSED = ("burn_in", "chains", "thin", "given", "mask")


def sample_model(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """Return the data set of sampled rows, and a short description of it for the summary."""
    from herdcli.em import sampling

    model, kind = fitted.value, fitted.kind
    for name in UNUSED:
        session.warn_of_ignored_option(name, f"with a {kind} model, whose rows are drawn at once")
    if kind == "factors" and model.model == "pca":
        raise BadUsage(
            "cannot sample from pca: it is not a distribution", hint="fit probabilistic PCA, which has the same axes: herd em --model ppca"
        )
    columns, known = len(model.mean.T), model.known
    session.require_memory(24 * request.count * columns, f"{request.count} rows of {columns} columns")
    names = known.feature_names if known is not None else None
    what = f"{request.count} row{'s' * (request.count != 1)} × {columns} columns"
    if kind == "factors":
        return Dataset(sampling.sample_factors(model, request.count, request.seed, means=request.means), feature_names=names), what
    X, which = sampling.sample_mixture(model, request.count, request.seed, means=request.means)
    supervised = known is not None and known.supervised
    return Dataset(
        X,
        y=which // known.per_class if known is not None and supervised else which,
        class_names=known.class_names if known is not None and supervised else None,
        feature_names=names,
    ), f"{what} with their {'classes' if supervised else 'components'}"
