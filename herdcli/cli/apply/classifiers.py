"""`herd apply` with what learned online: class probabilities of new examples, or numbers with their deviations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.dataset import Dataset
from herdcli.cli.frame.scores import scored
from herdcli.online.numbers import deviations
from herdcli.online.predict import probabilities, winners

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.apply.request import Request
    from herdcli.cli.frame.session import Session
    from herdcli.online.model import Classifier
    from herdcli.online.numbers import Predictor


def applied(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """Class probabilities of new rows as a data set, with the likeliest class as y, and what was made in words."""
    model: Classifier = fitted.value
    form, label = request.input_format, request.label
    score, variance, _, split = scored(session, model, request.source, labelled=False, input_format=form, label=label)
    p = probabilities(score, variance, model.scale, model.link)
    made = Dataset(p, y=winners(score), split=split, feature_names=list(model.classes), class_names=list(model.classes))
    return made, f"{len(p)} rows × {p.shape[1]} class probabilities"


def predicted(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """The numbers predicted of lines of text, with their standard deviations, and what was made in words."""
    model: Predictor = fitted.value
    score, variance, _, _ = scored(session, model, request.source, labelled=False, input_format=request.input_format)
    X = np.stack([score[:, 0], deviations(model, variance)], axis=1)
    return Dataset(X, feature_names=["predicted", "deviation"]), f"{len(X)} rows × a prediction and its standard deviation"
