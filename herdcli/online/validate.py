"""What must hold of a classifier beyond the shapes that its declaration gives: `Classifier.validate`."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from herdcli.errors import DataError
from herdcli.schema import Array

if TYPE_CHECKING:
    from herdcli.online.model import Classifier, Holdout, Machine, Settings


def validate(model: Classifier) -> None:
    """Raise DataError for the first thing that is wrong."""
    if len(model.classes) < 2:
        raise DataError(f"has {len(model.classes)} classes; a classifier needs two or more")
    if len(set(model.classes)) < len(model.classes):
        raise DataError("has two classes of one name")
    _settings(model.settings)
    if model.machines:
        _machines(model)
    else:
        _weights(model)
    _features(model)
    if model.holdout is not None:
        _holdout(model.holdout, model.count, len(model.classes))
    if not 0 < model.scale < np.inf:
        raise DataError(f"the scale of its confidence is {model.scale}")
    counts = [getattr(model.running, declared.name) for declared in fields(model.running)]
    if not all(0 <= number < np.inf for number in counts):
        raise DataError("its running figures are not all finite and 0 or more")
    for name in ("error", "loss"):
        _finite(getattr(model.progress, name), f"progress/{name}")


def _finite(values: Array, name: str, lowest: float = -np.inf) -> None:
    """Raise DataError unless all values are finite and none is below `lowest`."""
    if not np.isfinite(values).all():
        raise DataError(f"dataset '{name}' has values that are not finite", hint="a smaller --C, or --normalize l2")
    if values.size and values.min() < lowest:
        raise DataError(f"dataset '{name}' has values below {lowest:g}")


def _settings(settings: Settings) -> None:
    from herdcli.online.model import ALGORITHMS, FORMS, LOSSES, SCALINGS

    known = {
        "algorithm": ALGORITHMS,
        "form": FORMS,
        "loss": LOSSES,
        "covariance": ("diagonal", "full"),
        "multiclass": ("top-1", "one-vs-rest"),
        "kernel": ("none", "linear", "polynomial", "gaussian"),
        "scaling": SCALINGS,
    }
    for name, values in known.items():
        if getattr(settings, name) not in values:
            raise DataError(f"settings/{name} is '{getattr(settings, name)}', expected {', '.join(values)}")
    if not 0 <= settings.C < np.inf or not 0.5 < settings.confidence < 1 or not 0 < settings.width < np.inf:
        raise DataError("settings: C, confidence or width is out of its range")
    if settings.passes < 1 or settings.degree < 1 or settings.budget < 0 or not 0 <= settings.label_noise <= 1:
        raise DataError("settings: passes, degree, budget or label_noise is out of its range")


def _weights(model: Classifier) -> None:
    if model.mean is None or (model.variance is None) == (model.covariance is None):
        raise DataError("needs 'mean' and either 'variance' or 'covariance'")
    if len(model.mean) != model.count:
        raise DataError(f"has weights of {len(model.mean)} scores, its {len(model.classes)} classes have {model.count}")
    if model.columns < 1:
        raise DataError("has no features")
    _finite(model.mean, "mean")
    if model.variance is not None:
        _finite(model.variance, "variance", 0.0)
    if model.covariance is not None:
        groups, width = model.covariance.shape[:2]
        if (groups, width) not in ((model.count, model.columns), (1, model.count * model.columns)):
            raise DataError(f"dataset 'covariance' is {groups} × {width} × {width}, weights are {model.count} × {model.columns}")
        _finite(model.covariance, "covariance")
        _finite(np.diagonal(model.covariance, axis1=1, axis2=2), "diagonal of covariance", 0.0)


def _machines(model: Classifier) -> None:
    if model.settings.kernel == "none" or model.mean is not None:
        raise DataError("has support vectors beside weights of features")
    if len(model.machines) != model.count:
        raise DataError(f"has {len(model.machines)} machines, its {len(model.classes)} classes have {model.count}")
    machine: Machine
    for number, machine in enumerate(model.machines):
        for name in ("alpha", "B", "support"):
            _finite(getattr(machine, name), f"machines/{number}/{name}")


def _features(model: Classifier) -> None:
    inputs = model.features
    if not 0 <= model.bits <= 30 or (model.bits and not model.machines and model.columns != (1 << model.bits) + model.settings.bias):
        raise DataError(f"has {inputs} features, hashing into 2^{model.bits} columns makes another number")
    if model.text not in ("", "svmlight", "vw"):
        raise DataError(f"text is '{model.text}', expected svmlight or vw")
    if model.feature_names is not None and not model.machines and len(model.feature_names) != inputs:
        raise DataError(f"has {len(model.feature_names)} feature names for {inputs} features")
    if (model.hash_index is None) != (model.hash_names is None) or len(model.hash_names or ()) != (
        0 if model.hash_index is None else len(model.hash_index)
    ):
        raise DataError("has another number of hashed columns than of their names")
    if model.hash_index is not None and model.hash_index.size and not 0 <= model.hash_index.min() <= model.hash_index.max() < model.columns:
        raise DataError("dataset 'hash_index' names columns that there are not")
    scaled = model.settings.scaling == "online"
    if (model.seen is None) == scaled or (model.size is None) == scaled:
        raise DataError("needs 'seen' and 'size' with settings/scaling 'online', and neither without")
    if model.seen is not None and model.size is not None:
        if len(model.seen) != model.columns:
            raise DataError(f"dataset 'seen' has {len(model.seen)} entries, there are {model.columns} features")
        _finite(model.seen, "seen", 0.0)
        _finite(model.size, "size", 0.0)


def _holdout(held: Holdout, count: int, classes: int) -> None:
    if held.score.shape[1] != count:
        raise DataError(f"holdout has {held.score.shape[1]} scores for each example, {classes} classes have {count}")
    _finite(held.score, "holdout/score")
    _finite(held.variance, "holdout/variance", 0.0)
    if held.y.size and not 0 <= held.y.min() <= held.y.max() < classes:
        raise DataError(f"dataset 'holdout/y' has labels outside 0…{classes - 1}")
    if not np.isin(held.split, (1, 2)).all():
        raise DataError("dataset 'holdout/split' has parts other than 1 and 2")
