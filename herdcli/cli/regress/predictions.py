"""`herd apply` of a regression: the mean of each row, or the probabilities of its classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts import preparation
from herdcli.artifacts.dataset import Dataset
from herdcli.cli.frame.columns import by_name
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.session import Session
    from herdcli.regression.model import GeneralisedLinear


def predicted(session: Session, model: GeneralisedLinear, data: Artifact, want: str | None) -> tuple[Dataset, str]:
    """A data set of means, one column a class for classes (the likeliest is y), and what it is in words."""
    classes = model.classes
    if want not in (None, "means", "classes") or (want == "classes" and not classes):
        raise BadUsage(f"--want {want} is not of a regression", hint="--want means, or classes where the target has them")
    found = by_name(session, data, model.feature_names, model.coefficients.shape[1])
    mean = model.distribution().mean(model.predictor(preparation.dense(found.value, np.float64)))
    if classes and model.family == "bernoulli":
        mean = np.column_stack([1 - mean[:, 0], mean[:, 0]])
    names = list(classes) if classes else [model.target]
    y = mean.argmax(axis=1) if classes else data.value.y
    kept = classes if classes else data.value.class_names
    result = Dataset(mean, y=y, split=data.value.split, feature_names=names, class_names=kept)
    return result, f"{len(mean)} rows × {mean.shape[1]} {'class probabilities' if classes else 'means'}"
